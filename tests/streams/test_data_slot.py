"""Several schedulers on one host share a data directory without sharing a store."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import streams.data_slot
from streams.data_slot import DataSlot

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from streams.data_slot import DataSlot
slot = DataSlot(Path(sys.argv[1]))
print(slot.path.name, flush=True)
sys.stdin.read()
"""


def other_process(data_dir: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a process that holds a slot until its input ends; return it and the slot's name."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_the_second_process_gets_the_next_slot_and_a_restart_its_old_one(tmp_path: Path) -> None:
    first, first_slot = other_process(tmp_path)
    second, second_slot = other_process(tmp_path)
    first.communicate(timeout=20)
    third = DataSlot(tmp_path)
    try:
        assert (first_slot, second_slot, third.path.name) == ("slot-0", "slot-1", "slot-0")
    finally:
        third.close()
        second.communicate(timeout=20)


def test_a_killed_process_leaves_its_slot_free(tmp_path: Path) -> None:
    process, name = other_process(tmp_path)
    process.kill()
    process.communicate(timeout=20)
    slot = DataSlot(tmp_path)
    assert slot.path.name == name == "slot-0"
    slot.close()


def test_when_all_slots_are_held_the_error_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.data_slot, "SLOTS_MAX", 1)
    slot = DataSlot(tmp_path)
    with pytest.raises(RuntimeError, match=f"{tmp_path}: all 1 slots are held"):
        DataSlot(tmp_path)
    slot.close()
