"""Why runs of a benchmark were late: groups of late runs, and what took unusually long on each machine part meanwhile.

A burst is a group of runs that started more than `BURST_MS` late, one soon after the other. What took long is read from
the scheduler's own steps (`timed_scheduler`) and the broker's log of its collector. A burst counts as explained when
what these took beyond their medians, together, comes to half of what the burst took beyond the median lateness.
"""

from __future__ import annotations

import re
import statistics
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BURST_MS: Final = 60.0
"""Two medians and more; below it a run has only missed one commit."""

GAP_MS: Final = 50.0
"""Late runs this close to each other have one cause."""

UNUSUAL: Final = 2.0
"""Medians of its step, from which an interval counts as long."""

EXCESS_MS_MIN: Final = 5.0

EXPLAINED_SHARE: Final = 0.5

TURN: Final = "turn"
"""From applying one commit to the beginning of the next: deciding, and waiting where nothing is due."""

_PAUSE: Final = re.compile(r"^\[(\S+?)\].*Pause.* ([0-9.]+)ms$", re.MULTILINE)


class Interval(NamedTuple):
    """Something that took its time."""

    what: str
    began_ms: float
    took_ms: float
    usual_ms: float

    @property
    def excess_ms(self) -> float:
        """What it took beyond its median."""
        return self.took_ms - self.usual_ms


class Burst(NamedTuple):
    """Late runs, and what was slow while they were."""

    began_ms: float
    runs: int
    worst_ms: float
    causes: Sequence[Interval]
    explained: bool


def intervals(step_lines: Iterable[str]) -> list[Interval]:
    """Read the lines of `timed_scheduler`: every step until the next, and pauses of Python's collector."""
    steps: list[tuple[float, str]] = []
    pauses = []
    for line in step_lines:
        at_ms, step, *took_ms = line.split()
        if took_ms:
            pauses.append(Interval("scheduler gc", float(at_ms), float(took_ms[0]), 0.0))
        else:
            steps.append((float(at_ms), TURN if step == "apply" else step))
    taken: dict[str, list[float]] = {}
    for (began_ms, step), (ends_ms, _) in pairwise(steps):
        taken.setdefault(step, []).append(ends_ms - began_ms)
    usual = {step: statistics.median(times) for step, times in taken.items()}
    return pauses + [
        Interval(step, began_ms, ends_ms - began_ms, usual[step]) for (began_ms, step), (ends_ms, _) in pairwise(steps)
    ]


def broker_pauses(log: str) -> list[Interval]:
    """Read the pauses in a JVM's log (`-Xlog:gc:file=...:time`)."""
    pauses = []
    for at, took in _PAUSE.findall(log):
        took_ms = float(took)
        ended_ms = datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() * 1000
        pauses.append(Interval("broker gc", ended_ms - took_ms, took_ms, 0.0))
    return pauses


def bursts(runs: Iterable[tuple[float, float]], slow: Sequence[Interval]) -> list[Burst]:
    """Group late runs, (due, started) in epoch ms; find what was slow from the first due time to the last start."""
    every = sorted(runs, key=lambda run: run[1])
    if not every:
        return []
    usual_ms = statistics.median(started - due for due, started in every)
    groups: list[list[tuple[float, float]]] = []
    for due, started in every:
        if started - due < BURST_MS:
            continue
        if not groups or started - groups[-1][-1][1] > GAP_MS:
            groups.append([])
        groups[-1].append((due, started))
    return [_burst(group, usual_ms, slow) for group in groups]


def _burst(group: Sequence[tuple[float, float]], usual_ms: float, slow: Sequence[Interval]) -> Burst:
    began_ms, ended_ms = min(due for due, _ in group), group[-1][1]
    worst_ms = max(started - due for due, started in group)
    causes = [
        interval
        for interval in slow
        if interval.began_ms < ended_ms
        and interval.began_ms + interval.took_ms > began_ms
        and interval.excess_ms >= EXCESS_MS_MIN
        and interval.took_ms >= UNUSUAL * interval.usual_ms
    ]
    causes.sort(key=lambda interval: -interval.excess_ms)
    found_ms = sum(interval.excess_ms for interval in causes)
    return Burst(began_ms, len(group), worst_ms, causes, found_ms >= EXPLAINED_SHARE * (worst_ms - usual_ms))
