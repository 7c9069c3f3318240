"""Fixtures for the rules of time: short ways to ask, a TZif writer for old zone data, and the brute-force oracle."""

from __future__ import annotations

import importlib.resources
import itertools
import random
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from streams.core.time import CronSpec, Occurrence, Schedule, ZoneData, compile_schedule, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(text: str) -> int:
    """Epoch ms of RFC 3339 text; a short ``2026-03-08T07:00Z`` is fine."""
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


@pytest.fixture(scope="session")
def seeded() -> Callable[[int], random.Random]:
    """Random choices that are the same in every run."""
    return random.Random


@pytest.fixture(scope="session")
def ms() -> Callable[[str], int]:
    return to_ms


def short(instant_ms: int) -> str:
    """``2026-03-08T07:00Z``; seconds only when they are not zero."""
    text = utc_text(instant_ms)
    return text[:16] + "Z" if text.endswith(":00Z") else text


@dataclass
class Ask:
    """Questions to schedules in text, answers in text."""

    def schedule(self, expression: str, zone: str = "UTC", **more: Any) -> Schedule:
        job_id = more.pop("job_id", "job-1")
        return compile_schedule(CronSpec(expression, zone, **more), job_id=job_id)

    def next(self, expression: str, zone: str, after: str, count: int = 1, **more: Any) -> list[str]:
        return [short(found.at_ms) for found in self.occurrences(expression, zone, after, count, **more)]

    def occurrences(self, expression: str, zone: str, after: str, count: int = 1, **more: Any) -> list[Occurrence]:
        schedule, at_ms, found = self.schedule(expression, zone, **more), to_ms(after), []
        for _ in range(count):
            occurrence = schedule.next_after(at_ms)
            assert occurrence is not None
            found.append(occurrence)
            at_ms = occurrence.at_ms
        return found

    def previous(self, expression: str, zone: str, before: str, count: int = 1, **more: Any) -> list[str]:
        schedule, at_ms, found = self.schedule(expression, zone, **more), to_ms(before), []
        for _ in range(count):
            occurrence = schedule.previous_before(at_ms)
            assert occurrence is not None
            found.append(short(occurrence.at_ms))
            at_ms = occurrence.at_ms
        return found

    def between(self, expression: str, zone: str, after: str, until: str, **more: Any) -> list[str]:
        schedule = self.schedule(expression, zone, **more)
        return [short(found.at_ms) for found in schedule.iter_between(to_ms(after), to_ms(until))]


@pytest.fixture(scope="session")
def ask() -> Ask:
    return Ask()


def write_tzif(path: Path, offsets: list[int], transitions: list[tuple[int, int]]) -> None:
    """Write a TZif version 2 file. The first of ``offsets`` holds before all ``transitions`` (second, offset index)."""

    def block(width: int, times: list[tuple[int, int]]) -> bytes:
        head = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, len(times), len(offsets), 4)
        instants = b"".join(struct.pack(">q" if width == 8 else ">l", at) for at, _ in times)
        kinds = bytes(kind for _, kind in times)
        types = b"".join(struct.pack(">lBB", offset, 0, 0) for offset in offsets)
        return head + instants + kinds + types + b"ZZZ\0"

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(block(4, []) + block(8, transitions) + b"\n\n")


@pytest.fixture
def zone_data_of(tmp_path: Path) -> Callable[..., ZoneData]:
    """Make zone data of a version from ``{zone: (offsets, transitions)}``."""

    def make(version: str, zones: dict[str, tuple[list[int], list[tuple[int, int]]]]) -> ZoneData:
        directory = tmp_path / version
        for name, (offsets, transitions) in zones.items():
            write_tzif(directory / name, offsets, transitions)
        return ZoneData(version, str(directory))

    return make


@lru_cache(maxsize=1024)
def package_zone(name: str) -> ZoneInfo:
    """A zone of the tzdata package by the standard library, whatever zone files the host has."""
    with importlib.resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@pytest.fixture(scope="session")
def zone_of() -> Callable[[str], ZoneInfo]:
    return package_zone


ALL = frozenset[int]()


@dataclass(frozen=True)
class Rule:
    """An expression as sets, written by hand or by a generator beside its text. Empty means every value."""

    text: str
    minutes: frozenset[int] = ALL
    hours: frozenset[int] = ALL
    days: frozenset[int] = ALL
    months: frozenset[int] = ALL
    weekdays: frozenset[int] = ALL
    seconds: frozenset[int] = field(default=frozenset({0}))
    days_both: bool = True
    elapsed: bool = False

    def matches(self, local: datetime) -> bool:
        clock = (
            (not self.seconds or local.second in self.seconds)
            and (not self.minutes or local.minute in self.minutes)
            and (not self.hours or local.hour in self.hours)
        )
        if not clock or (self.months and local.month not in self.months):
            return False
        day = not self.days or local.day in self.days
        weekday = not self.weekdays or local.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.days_both else (day or weekday)


def walk(zone: ZoneInfo, from_s: int, to_s: int, step_s: int) -> Iterator[tuple[int, datetime]]:
    """Every ``step_s``-th real instant with its wall clock."""
    for instant in range(from_s, to_s, step_s):
        yield instant, datetime.fromtimestamp(instant, zone).replace(tzinfo=None)


def brute_force(rule: Rule, steps: list[tuple[int, datetime]], step_s: int, gap: str, overlap: str) -> list[int]:
    """Instants of a rule within a walk that begins and ends far from any clock change.

    R3: an elapsed rule takes every instant that matches. R2: a fixed rule goes through the wall-clock times; one that
    no instant shows fires at the first instant past it, unless the clock jumped three hours; one that two show, once.
    """
    if rule.elapsed:
        return [instant for instant, local in steps if rule.matches(local)]
    passes: dict[datetime, list[int]] = {}
    for instant, local in steps:
        passes.setdefault(local, []).append(instant)
    chosen: set[int] = set()
    for local, instants in passes.items():
        if rule.matches(local):
            chosen |= {"first": {instants[0]}, "second": {instants[-1]}, "both": set(instants)}[overlap]
    for (_, before), (instant, after) in itertools.pairwise(steps):
        jump = after - before - timedelta(seconds=step_s)
        if gap == "shift" and timedelta(0) < jump < timedelta(hours=3):
            missing = before + timedelta(seconds=step_s)
            while missing < after:
                if rule.matches(missing):
                    chosen.add(instant)
                missing += timedelta(seconds=step_s)
    return sorted(chosen)


@dataclass
class Oracle:
    """The brute-force walk, as a fixture."""

    def rule(self, text: str, *, elapsed: bool = False, **sets: Iterable[int]) -> Rule:
        made: dict[str, Any] = {name: frozenset(values) for name, values in sets.items()}
        return Rule(text, elapsed=elapsed, **made)

    def walk(self, zone: str, from_s: int, to_s: int, step_s: int = 60) -> list[tuple[int, datetime]]:
        return list(walk(package_zone(zone), from_s, to_s, step_s))

    def instants(
        self,
        rule: Rule,
        steps: list[tuple[int, datetime]],
        *,
        step_s: int = 60,
        gap: str = "shift",
        overlap: str = "first",
    ) -> list[int]:
        return brute_force(rule, steps, step_s, gap, overlap)


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()
