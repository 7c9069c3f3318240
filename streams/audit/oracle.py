"""Which instants a definition asks for, computed in another way than the scheduler does.

The scheduler steps from field to field on the naive wall clock; this walks real instants, minute by minute, asks
`zoneinfo` what the wall shows and compares (DESIGN section 9, R1 to R6). Slow and plain on purpose. It imports
nothing of streams.core.time but the specs' types. What it does not know (`L`, `W`, `#`, `H`, calendars, jitter,
RRULE) it refuses with None, and the checker counts that as left out.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streams.core.time import CalendarIntervalSpec, CronSpec, IntervalSpec, LocalOneOffSpec, OneOffSpec

if TYPE_CHECKING:
    from streams.core.definition import Definition

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_LONG_JUMP_MINUTES: Final = 180
"""R2: a jump of three hours or more drops the slot."""

_WALK_HOURS_MAX: Final = 24 * 400
"""More than a year of one schedule is not walked: no run under test lasts that long."""

_MONTHS: Final = {
    "jan": 1,
    "feb": 2,
    "mar": 3,
    "apr": 4,
    "may": 5,
    "jun": 6,
    "jul": 7,
    "aug": 8,
    "sep": 9,
    "oct": 10,
    "nov": 11,
    "dec": 12,
}
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_RANGES: Final = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class _Pattern:
    """A parsed expression of plain numbers, names, ranges, lists and steps."""

    def __init__(self, expression: str) -> None:
        fields = expression.split()
        self.with_seconds = len(fields) == 6
        if len(fields) == 5:
            fields = ["0", *fields]
        if len(fields) != 6:
            raise ValueError("neither five nor six fields")
        sets = [_field(text, i) for i, text in enumerate(fields)]
        self.second, self.minute, self.hour, self.day, self.month, weekday = sets
        self.weekday = frozenset(day % 7 for day in weekday)
        self.days_both = fields[3].startswith("*") or fields[5].startswith("*")
        timed = fields[:3] if self.with_seconds else fields[1:3]
        self.elapsed = any(text.startswith("*") for text in timed)

    def matches_minute(self, wall: dt.datetime) -> bool:
        """Compare everything but the seconds."""
        if wall.minute not in self.minute or wall.hour not in self.hour or wall.month not in self.month:
            return False
        day = wall.day in self.day
        weekday = wall.isoweekday() % 7 in self.weekday
        return (day and weekday) if self.days_both else (day or weekday)


def occurrences(definition: Definition, after_ms: int, until_ms: int) -> list[int] | None:
    """Give the instants in (after_ms, until_ms], rising; None where this oracle does not know the dialect.

    Milliseconds since the epoch. `max_runs` is not looked at: it counts what was opened, which is for the checker.
    """
    if definition.calendars or (definition.jitter_ms and definition.jitter_kind != "none"):
        return None
    found = _of_schedule(definition, after_ms, until_ms)
    if found is None:
        return None
    first = definition.start_at_ms if definition.start_at_ms is not None else after_ms
    last = definition.end_at_ms if definition.end_at_ms is not None else until_ms
    return [at_ms for at_ms in found if first <= at_ms <= last]


def minute_matches(expression: str, wall: dt.datetime) -> bool:
    """Tell whether a wall-clock minute matches. Raises ValueError for a dialect that this oracle does not know."""
    return _pattern(expression).matches_minute(wall)


def _of_schedule(definition: Definition, after_ms: int, until_ms: int) -> list[int] | None:
    match definition.schedule:
        case OneOffSpec(at_ms=at_ms):
            return [at_ms] if after_ms < at_ms <= until_ms else []
        case IntervalSpec() as spec:
            first = max(0, (after_ms - spec.anchor_ms) // spec.every_ms + 1)
            return list(range(spec.anchor_ms + first * spec.every_ms, until_ms + 1, spec.every_ms))
        case CronSpec() as spec:
            return _of_cron(spec, after_ms, until_ms)
        case LocalOneOffSpec() as spec:
            instants = _local(spec.local, spec.time_zone, spec.gap, spec.overlap_hour)
        case CalendarIntervalSpec() as spec:
            instants = _of_calendar_interval(spec, until_ms)
        case _:
            return None
    return None if instants is None else [at_ms for at_ms in instants if after_ms < at_ms <= until_ms]


def _of_cron(spec: CronSpec, after_ms: int, until_ms: int) -> list[int] | None:
    first_hour, last_hour = after_ms // _HOUR_MS, until_ms // _HOUR_MS
    if last_hour - first_hour > _WALK_HOURS_MAX:
        return None
    try:
        pattern = _pattern(spec.expression)
        _zone(spec.time_zone)
    except (ValueError, ZoneInfoNotFoundError):
        return None
    if pattern.elapsed and (spec.gap, spec.overlap_hour) != ("shift", "first"):
        return None
    return [
        at_ms
        for hour in range(first_hour, last_hour + 1)
        for at_ms in _hour(spec.expression, spec.time_zone, spec.gap, spec.overlap_hour, hour)
        if after_ms < at_ms <= until_ms
    ]


@lru_cache(maxsize=200_000)
def _hour(expression: str, zone: str, gap: str, overlap_hour: str, hour: int) -> tuple[int, ...]:
    """Walk the sixty real minutes of one hour since the epoch."""
    pattern = _pattern(expression)
    seconds = sorted(pattern.second)
    found: set[int] = set()
    for minute in range(60):
        at_ms = hour * _HOUR_MS + minute * _MINUTE_MS
        wall, jump = _wall(zone, at_ms)
        if pattern.matches_minute(wall) and (pattern.elapsed or _pass_counts(wall, zone, overlap_hour)):
            found.update(at_ms + second * 1000 for second in seconds)
        if 0 < jump < _LONG_JUMP_MINUTES and not pattern.elapsed and gap == "shift":
            skipped = (wall - dt.timedelta(minutes=n) for n in range(1, jump + 1))
            if any(pattern.matches_minute(moment.replace(fold=0)) for moment in skipped):
                found.add(at_ms)
    return tuple(sorted(found))


@lru_cache(maxsize=200_000)
def _wall(zone: str, at_ms: int) -> tuple[dt.datetime, int]:
    """Give what the wall shows at an instant, and by how many minutes it jumped forward to get there."""
    moment = dt.datetime.fromtimestamp(at_ms // 1000, tz=_zone(zone))
    before = dt.datetime.fromtimestamp(at_ms // 1000 - 60, tz=_zone(zone))
    stepped = moment.replace(tzinfo=None, fold=0) - before.replace(tzinfo=None, fold=0)
    return moment, int(stepped.total_seconds()) // 60 - 1


def _pass_counts(wall: dt.datetime, zone: str, overlap_hour: str) -> bool:
    """R2 and R4: which pass through a repeated hour fires."""
    tz = _zone(zone)
    first, second = wall.replace(tzinfo=tz, fold=0), wall.replace(tzinfo=tz, fold=1)
    repeated = first.utcoffset() != second.utcoffset()
    if not repeated or overlap_hour == "both":
        return True
    return wall.fold == (0 if overlap_hour == "first" else 1)


def _local(local: str, zone: str, gap: str, overlap_hour: str) -> list[int] | None:
    """Give the instants of one local time."""
    try:
        tz = _zone(zone)
        naive = dt.datetime.fromisoformat(local)
    except (ValueError, ZoneInfoNotFoundError):
        return None
    early, late = naive.replace(tzinfo=tz, fold=0), naive.replace(tzinfo=tz, fold=1)
    early_ms, late_ms = (round(moment.timestamp() * 1000) for moment in (early, late))
    if early_ms == late_ms:
        return [early_ms]
    if late_ms < early_ms:  # in a gap: fold 0 reads the old offset, which lands behind the gap
        jump_ms = early_ms - late_ms
        if gap == "skip" or jump_ms >= _LONG_JUMP_MINUTES * _MINUTE_MS:
            return []
        return [_gap_end(zone, late_ms, early_ms)]
    return {"first": [early_ms], "second": [late_ms], "both": [early_ms, late_ms]}[overlap_hour]


def _gap_end(zone: str, low_ms: int, high_ms: int) -> int:
    """Give the first instant behind the gap: the offset changes between the two readings of a skipped time."""
    tz = _zone(zone)
    start = dt.datetime.fromtimestamp(low_ms // 1000, tz=tz).utcoffset()
    low, high = low_ms // 1000, high_ms // 1000
    while high - low > 1:
        middle = (low + high) // 2
        if dt.datetime.fromtimestamp(middle, tz=tz).utcoffset() == start:
            low = middle
        else:
            high = middle
    return high * 1000


def _of_calendar_interval(spec: CalendarIntervalSpec, until_ms: int) -> list[int] | None:
    """Step dates from the anchor on; a month without the anchor's day uses its last."""
    anchor = dt.date.fromisoformat(spec.anchor_date)
    last = dt.datetime.fromtimestamp(until_ms // 1000, tz=dt.UTC).date() + dt.timedelta(days=2)
    found: set[int] = set()
    step = 0
    while (day := _nth_date(anchor, spec.unit, spec.every * step)) <= last:
        instants = _local(f"{day.isoformat()}T{spec.local_time}", spec.time_zone, spec.gap, spec.overlap_hour)
        if instants is None:
            return None
        found.update(instants)
        step += 1
    return sorted(found)


def _nth_date(anchor: dt.date, unit: str, n: int) -> dt.date:
    if unit == "day":
        return anchor + dt.timedelta(days=n)
    if unit == "week":
        return anchor + dt.timedelta(weeks=n)
    year, month = divmod(anchor.year * 12 + anchor.month - 1 + n, 12)
    after = dt.date(year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
    return dt.date(year, month + 1, min(anchor.day, (after - dt.timedelta(days=1)).day))


@lru_cache(maxsize=10_000)
def _pattern(expression: str) -> _Pattern:
    return _Pattern(expression)


@lru_cache(maxsize=1_000)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _field(text: str, position: int) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        values |= _part(part, position)
    return frozenset(values)


def _part(text: str, position: int) -> set[int]:
    """Read `*`, `a`, `a-b`, each of the ranges with an optional `/n`. Raises ValueError for all else."""
    low, high = _RANGES[position]
    body, slash, step_text = text.partition("/")
    step = int(step_text) if slash else 1
    if step < 1:
        raise ValueError("step below one")
    if body == "*":
        return set(range(low, min(high, 6 if position == 5 else high) + 1, step))
    first_text, dash, last_text = body.partition("-")
    if slash and not dash:
        raise ValueError("a single value with a step means different things in different dialects")
    first = _number(first_text, position)
    last = _number(last_text, position) if dash else first
    if not low <= first <= last <= high:
        raise ValueError("outside the field's range")
    return set(range(first, last + 1, step))


def _number(text: str, position: int) -> int:
    names = {4: _MONTHS, 5: _DAYS}.get(position, {})
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"unknown: {text!r}")
    return int(text)
