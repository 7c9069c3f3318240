"""The settable clocks of the harness: what a process sees, with the shim where there is a compiler, and without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.harness.clock import CHECKOUT, Clocks, build_shim

if TYPE_CHECKING:
    from pathlib import Path

HOUR_S = 3_600.0
TIMEOUT_S = 120.0

LOOK = """
import json, sys, threading, time
from tests.chaos.harness import clock
patched = clock.patched()
print(json.dumps([time.time(), time.monotonic()]), flush=True)
began = time.monotonic()
threading.Event().wait(0.2)
sys.stdin.readline()
print(json.dumps([time.time(), time.monotonic(), began, patched, clock.offset_ns()]), flush=True)
"""


@pytest.fixture(params=["shim if there is a compiler", "patched"])
def clocks(request: pytest.FixtureRequest, tmp_path: Path) -> Clocks:
    return Clocks(tmp_path, None if request.param == "patched" else build_shim(tmp_path))


class Looker:
    """A process that tells its clocks twice, the second time when asked."""

    def __init__(self, clocks: Clocks) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own words
            [sys.executable, "-c", LOOK],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **clocks.environment("p")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def look(self) -> list[Any]:
        assert self.process.stdout is not None
        found: list[Any] = json.loads(self.process.stdout.readline())
        return found

    def again(self) -> list[Any]:
        told, _ = self.process.communicate("\n", TIMEOUT_S)
        found: list[Any] = json.loads(told)
        return found


@pytest.mark.parametrize("offset_s", [HOUR_S, -HOUR_S])
def test_a_step_moves_the_wall_clock_of_a_running_process_and_not_the_monotonic_one(
    clocks: Clocks, offset_s: float
) -> None:
    looker = Looker(clocks)
    wall_s, monotonic_s = looker.look()
    clocks.of("p").step(offset_s)
    wall_later_s, monotonic_later_s, began_s, patched, offset_ns = looker.again()
    assert patched is (clocks.shim is None)
    assert offset_ns == offset_s * 1e9
    passed_s = monotonic_later_s - monotonic_s
    assert wall_later_s - wall_s == pytest.approx(offset_s + passed_s, abs=1.0)
    assert 0.2 <= monotonic_later_s - began_s < HOUR_S  # a wait takes as long as it should


def test_a_clock_that_drifts_parts_from_where_it_is(clocks: Clocks) -> None:
    clocks.of("p").step(HOUR_S)
    clocks.of("p").drift(0.5)
    looker = Looker(clocks)
    wall_s, monotonic_s = looker.look()
    wall_later_s, monotonic_later_s, *_ = looker.again()
    assert wall_later_s - wall_s == pytest.approx(1.5 * (monotonic_later_s - monotonic_s), abs=0.1)
