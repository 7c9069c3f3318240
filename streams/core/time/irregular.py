"""The nights on which a schedule's zone changes its offset, and what the schedule does in them (A66)."""

from __future__ import annotations

from typing import Literal

import msgspec

from streams.core.time.civil import local_text
from streams.core.time.schedule import NO_WINDOW, Schedule, compile_schedule
from streams.core.time.specs import CalendarSpec, IntervalSpec, OneOffSpec, ScheduleSpec, Window
from streams.core.time.zone_text import offset_text, utc_text
from streams.core.time.zones import INSTALLED_ZONE_DATA, ZoneData

#: Instants named in one line; the rest is a number.
_NAMED_MAX = 4
#: How far around a repeated hour occurrences are listed: the hour itself.
_NIGHTS_MAX = 1_000


class IrregularNight(msgspec.Struct, frozen=True):
    """One change of offset. Local ``[local_from, local_to)`` is skipped (``gap``) or happens twice (``overlap``)."""

    at_ms: int
    kind: Literal["gap", "overlap"]
    local_from: str
    local_to: str
    offset_before_s: int
    offset_after_s: int
    effect: str

    def __str__(self) -> str:
        """One line for people."""
        what = "is skipped" if self.kind == "gap" else "happens twice"
        offsets = f"{offset_text(self.offset_before_s)} to {offset_text(self.offset_after_s)}"
        return f"{utc_text(self.at_ms)} {self.local_from} to {self.local_to[11:]} {what} ({offsets}): {self.effect}"


def irregular_nights(
    spec: ScheduleSpec,
    zone_data: ZoneData = INSTALLED_ZONE_DATA,
    *,
    from_ms: int,
    until_ms: int,
    job_id: str = "",
    window: Window = NO_WINDOW,
    calendars: tuple[CalendarSpec, ...] = (),
) -> tuple[IrregularNight, ...]:
    """List the offset changes of the spec's zone in ``(from_ms, until_ms]``, at most 1,000.

    Instants and intervals have none. Window and calendars count: what they leave out does not run in such a night.
    """
    if isinstance(spec, IntervalSpec | OneOffSpec):
        return ()
    zone = zone_data.zone(spec.time_zone)
    schedule = compile_schedule(spec, job_id=job_id, window=window, calendars=calendars, zone_data=zone_data)
    nights: list[IrregularNight] = []
    for segment, instant in enumerate(zone.transitions, start=1):
        at_ms = instant * 1000
        if not from_ms < at_ms <= until_ms or len(nights) == _NIGHTS_MAX:
            continue
        before, after = zone.offsets[segment - 1], zone.offsets[segment]
        is_gap = after > before
        width_ms = abs(after - before) * 1000
        low, high = sorted((instant + before, instant + after))
        if is_gap:
            lines = _in_gap(schedule, at_ms)
        else:
            passes = ((at_ms - width_ms - 1, at_ms - 1, "first"), (at_ms - 1, at_ms + width_ms - 1, "second"))
            lines = []
            for start, end, name in passes:
                total = schedule.count_between(start, end)
                fired = [
                    utc_text(o.at_ms)
                    for _, o in zip(range(_NAMED_MAX), schedule.iter_between(start, end), strict=False)
                ]
                if total:
                    lines.append(f"{_named(fired, total)} in the {name} pass")
        effect = "; ".join(lines) or "no run in it"
        kind: Literal["gap", "overlap"] = "gap" if is_gap else "overlap"
        nights.append(IrregularNight(at_ms, kind, local_text(low), local_text(high), before, after, effect))
    return tuple(nights)


def _in_gap(schedule: Schedule, at_ms: int) -> list[str]:
    """Say what becomes of the slots in a skipped hour, which ends at an instant."""
    lines = [note for found in schedule.iter_between(at_ms - 1, at_ms) for note in found.notes]
    dropped = schedule.dropped_between(at_ms - 1, at_ms)
    in_gap = [record for record in dropped if record.reason == "gap"]
    total = sum(record.count for record in in_gap)
    if total:
        lines.append(f"{_named([record.local[11:] for record in in_gap], total)} dropped")
    elif dropped:
        lines.append("excluded by a calendar")
    return lines


def _named(names: list[str], total: int) -> str:
    shown = names[:_NAMED_MAX]
    more = f" and {total - len(shown)} more" if total > len(shown) else ""
    return ", ".join(shown) + more
