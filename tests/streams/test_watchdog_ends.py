"""A watchdog's end is counted by the process that comes after it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import streams.watchdog_ends
from streams.watchdog_ends import FILE_NAME, WatchdogEnds

if TYPE_CHECKING:
    from pathlib import Path


def test_the_next_process_knows_of_every_end_before_it(tmp_path: Path) -> None:
    ended: list[str] = []
    assert (WatchdogEnds(tmp_path).count, WatchdogEnds(tmp_path).reason) == (0, "")
    WatchdogEnds(tmp_path, end=ended.append).end("the loop\nhangs")
    WatchdogEnds(tmp_path, end=ended.append).end("the agent stands")
    after = WatchdogEnds(tmp_path)
    assert (after.count, after.reason) == (2, "the agent stands")
    assert ended == ["the loop\nhangs", "the agent stands"]


@pytest.mark.parametrize("content", [b"", b"many\n", b"-4\nx", b"\xff\xfe"])
def test_a_damaged_file_counts_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert WatchdogEnds(tmp_path).count == 0


def test_a_disk_that_takes_nothing_does_not_stop_the_end(tmp_path: Path) -> None:
    ended: list[str] = []
    WatchdogEnds(tmp_path / "missing", end=ended.append).end("because")
    assert ended == ["because"]


def test_a_disk_that_hangs_does_not_hold_the_end_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.watchdog_ends, "WRITE_MAX_S", 0.01)
    released, ended = threading.Event(), threading.Event()
    ends = WatchdogEnds(tmp_path, end=lambda _: ended.set())
    monkeypatch.setattr(ends, "_write", lambda _: released.wait())
    ender = threading.Thread(target=ends.end, args=("because",), daemon=True)
    ender.start()
    try:
        assert ended.wait(30)
    finally:
        released.set()
        ender.join(30)
