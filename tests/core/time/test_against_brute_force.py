"""Property: occurrences equal a brute-force walk over real instants, around every clock change of every zone.

Goal: none missing, none invented, strictly increasing, and the three ways to ask (next, previous, count) agree.
Method: the walk uses the standard library's zones and plain sets, no cron library and none of our zone code. A sample
of the changes runs by default; HOROLOG_EXHAUSTIVE=1 runs all zones and the 30 years 1996 to 2025.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from streams.core.time import INSTALLED_ZONE_DATA, CronSpec, compile_schedule

if TYPE_CHECKING:
    import random

EXHAUSTIVE = os.environ.get("HOROLOG_EXHAUSTIVE") == "1"
FROM_S, TO_S = 820_454_400, 1_767_225_600  # 1996 to 2025
#: Beyond the longest jump (a whole day) on both sides.
MARGIN_S = 40 * 3600
SAMPLE = 160
FULL = frozenset[int]()
SEED = 20260308


def offset_changes() -> list[tuple[str, int]]:
    """One (zone, instant) for each distinct change; links and zones with a common history are tried once."""
    seen: set[tuple[int, int, int]] = set()
    found = []
    for name in sorted(INSTALLED_ZONE_DATA.names()):
        zone = INSTALLED_ZONE_DATA.zone(name)
        for segment, instant in enumerate(zone.transitions, start=1):
            change = (instant, zone.offsets[segment - 1], zone.offsets[segment])
            if FROM_S <= instant < TO_S and change not in seen:
                seen.add(change)
                found.append((name, instant))
    return found


CHANGES = offset_changes()
#: Jumps that are not one hour are rare and break most: always all of them.
ODD = [
    (name, at)
    for name, at in CHANGES
    if abs(INSTALLED_ZONE_DATA.zone(name).offset_at(at) - INSTALLED_ZONE_DATA.zone(name).offset_at(at - 1)) != 3600
]


def chosen_changes(picks: random.Random) -> list[tuple[str, int]]:
    if EXHAUSTIVE:
        return CHANGES
    return picks.sample(ODD, min(len(ODD), SAMPLE // 3)) + picks.sample(CHANGES, SAMPLE)


def random_rule(picks: random.Random, oracle: Any, near_hours: list[int]) -> Any:
    """A rule as sets together with its text; hours lean towards those that the change touches."""
    elapsed = picks.random() < 0.4
    minutes = sorted(picks.sample(range(60), picks.choice([1, 1, 2, 5])) if picks.random() < 0.7 else [0, 15, 30, 45])
    hours = sorted(set(picks.sample(near_hours, min(len(near_hours), picks.choice([1, 2, 3])))))
    if not elapsed:
        text = [",".join(map(str, minutes)), ",".join(map(str, hours))]
    elif picks.random() < 0.3:
        minutes, text = [], ["*", ",".join(map(str, hours))]
    elif picks.random() < 0.5:
        minutes, text = list(range(0, 60, 20)), ["*/20", ",".join(map(str, hours))]
    else:
        hours, text = [], [",".join(map(str, minutes)), "*"]
    weekdays = sorted(picks.sample(range(7), 4)) if picks.random() < 0.2 else []
    text += ["*", "*", ",".join(map(str, weekdays)) or "*"]
    return oracle.rule(" ".join(text), minutes=set(minutes), hours=set(hours), weekdays=set(weekdays), elapsed=elapsed)


def agree(schedule: Any, expected: list[int], from_s: int, to_s: int, label: str) -> None:
    after, until = from_s * 1000 - 1, to_s * 1000 - 1
    found = [occurrence.at_ms for occurrence in schedule.iter_between(after, until)]
    assert found == [instant * 1000 for instant in expected], label
    backwards, at_ms = [], until + 1
    while (before := schedule.previous_before(at_ms)) is not None and before.at_ms > after:
        backwards.append(before.at_ms)
        at_ms = before.at_ms
    assert backwards == found[::-1], label
    assert schedule.count_between(after, until) == len(found), label


def check_change(name: str, at: int, picks: random.Random, oracle: Any) -> int:
    """Compare some rules around one clock change; returns how many occurrences were compared."""
    zone = INSTALLED_ZONE_DATA.zone(name)
    steps = oracle.walk(name, at - MARGIN_S, at + MARGIN_S)
    local_hour = (at + zone.offset_at(at)) // 3600
    near_hours = [(local_hour + delta) % 24 for delta in (-2, -1, 0, 1)] + [0, 12]
    compared = 0
    for gap, overlap in (("shift", "first"), ("shift", "first"), ("skip", "second"), ("shift", "both")):
        rule = random_rule(picks, oracle, near_hours)
        expected = oracle.instants(rule, steps, gap=gap, overlap=overlap)
        spec = CronSpec(rule.text, name, gap, overlap)  # type: ignore[arg-type]  # literals from the table above
        schedule = compile_schedule(spec, job_id="job-1")
        assert schedule.elapsed == rule.elapsed
        # The ends of the walk are cut off: a slot there may belong to a change outside it.
        first, last = at - MARGIN_S + 3600, at + MARGIN_S - 3600
        inner = [instant for instant in expected if first <= instant < last]
        agree(schedule, inner, first, last, f"{rule.text!r} {name} at {at}, {gap}, {overlap}")
        compared += len(inner)
    return compared


def test_occurrences_equal_the_walk_around_clock_changes(oracle: Any, seeded: Any) -> None:
    picks = seeded(SEED)
    changes = chosen_changes(picks)
    compared = sum(check_change(name, at, picks, oracle) for name, at in changes)
    sys.stdout.write(f"{len(changes)} clock changes of {len(CHANGES)}, {compared} occurrences\n")  # seen with -s

    assert compared > 10 * len(changes)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("America/New_York", 1772953200),
        ("America/New_York", 1793512800),
        ("Australia/Lord_Howe", 1728142200),
        ("Australia/Lord_Howe", 1743865200),
        ("Europe/Dublin", 1774746000),
        ("Africa/Casablanca", 1740277800 - 1800),
        ("Pacific/Apia", 1325239200),
        ("America/Sao_Paulo", 1541300400),
        ("Antarctica/Troll", 1774746000),
    ],
)
@pytest.mark.parametrize("text", ["*/7 * * * * *", "10,40 5-50/15 0-3 * * *", "30 0,30 1,2 * * *", "0 */10 * * * *"])
def test_seconds_equal_the_walk_around_known_changes(oracle: Any, name: str, at: int, text: str) -> None:
    """Six fields, stepped second by second; negative, half-hour, two-hour and date-line changes."""
    sets: dict[str, Any] = {
        "*/7 * * * * *": {"seconds": range(0, 60, 7), "elapsed": True},
        "10,40 5-50/15 0-3 * * *": {"seconds": {10, 40}, "minutes": range(5, 51, 15), "hours": range(4)},
        "30 0,30 1,2 * * *": {"seconds": {30}, "minutes": {0, 30}, "hours": {1, 2}},
        "0 */10 * * * *": {"seconds": {0}, "minutes": range(0, 60, 10), "elapsed": True},
    }
    rule = oracle.rule(text, **sets[text])
    margin = 5 * 3600 if name != "Pacific/Apia" else 2 * 3600
    steps = oracle.walk(name, at - margin, at + margin, 1)
    inner = [i for i in oracle.instants(rule, steps, step_s=1) if at - margin + 60 <= i < at + margin - 60]

    schedule = compile_schedule(CronSpec(text, name), job_id="job-1")
    agree(schedule, inner, at - margin + 60, at + margin - 60, f"{text} {name}")


def test_no_zone_has_a_segment_shorter_than_its_jumps() -> None:
    """What ``WallClockSlots`` relies on: no local time happens three times, no gap meets another change."""
    for name in INSTALLED_ZONE_DATA.names():
        zone = INSTALLED_ZONE_DATA.zone(name)
        lengths = [late - early for early, late in zip(zone.transitions, zone.transitions[1:], strict=False)]
        jumps = [abs(late - early) for early, late in zip(zone.offsets, zone.offsets[1:], strict=False)]
        in_four_days = [late - early for early, late in zip(zone.transitions, zone.transitions[4:], strict=False)]
        assert min(in_four_days, default=10**9) > 4 * 86_400, name
        for length, before, after in zip(lengths, jumps, jumps[1:], strict=False):
            assert length > before + after, name
