"""A definition's schedule as `decide` asks for it: the next occurrence, the last one in a range, how many there are.

Compiled schedules are cached by the time package. A plain one-off needs none: most jobs are one-offs, each with
an instant of its own, and would push every recurring schedule out of that cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from streams.core.time import (
    CalendarSpec,
    IntervalSpec,
    Jitter,
    Occurrence,
    OneOffSpec,
    Schedule,
    Window,
    ZoneData,
    compile_schedule,
)

if TYPE_CHECKING:
    from streams.core.context import Context
    from streams.core.definition import Definition
    from streams.core.state import Job

_NO_WINDOW = Window()
_NO_JITTER = Jitter()


def is_plain_one_off(definition: Definition) -> bool:
    """Tell whether the definition is one instant and nothing else."""
    return (
        type(definition.schedule) is OneOffSpec
        and definition.start_at_ms is None
        and definition.end_at_ms is None
        and definition.jitter_kind == "none"
        and not definition.calendars
    )


def reads_zone_data(definition: Definition) -> bool:
    """Tell whether another zone database can move the definition's occurrences."""
    return bool(definition.calendars) or not isinstance(definition.schedule, OneOffSpec | IntervalSpec)


def is_outdated(job: Job, context: Context) -> bool:
    """Tell whether the job's cursor was computed under other zone data or other calendars, so that it may move."""
    state, definition = job.state, job.definition
    if state.status != "active" or definition is None:
        return False
    if definition.calendars and state.calendars != context.calendars.used_by(definition):
        return True
    return state.zone_data != context.zone_data.version and state.next_at_ms is not None and reads_zone_data(definition)


def same_schedule(one: Definition, other: Definition) -> bool:
    """Tell whether two definitions have the same occurrences, so that an edit need not touch the cursor."""
    return (
        one.schedule == other.schedule
        and one.start_at_ms == other.start_at_ms
        and one.end_at_ms == other.end_at_ms
        and one.jitter_kind == other.jitter_kind
        and one.jitter_ms == other.jitter_ms
        and one.calendars == other.calendars
        and one.max_runs == other.max_runs
    )


def schedule_of(definition: Definition, context: Context, zone_data: ZoneData | None = None) -> Schedule:
    """Compile the definition's schedule, from the cache where it can. Raises InvalidSchedule.

    A calendar that the configuration no longer has excludes nothing; `calendars_missing` names it.
    """
    window = _NO_WINDOW
    if definition.start_at_ms is not None or definition.end_at_ms is not None:
        window = Window(definition.start_at_ms, definition.end_at_ms)
    jitter = _NO_JITTER
    if definition.jitter_kind != "none":
        jitter = Jitter(definition.jitter_kind, definition.jitter_ms)
    calendars: tuple[CalendarSpec, ...] = ()
    if definition.calendars:
        known = context.calendars.of(definition.tenant)
        calendars = tuple(known[name] for name in definition.calendars if name in known)
    return compile_schedule(
        definition.schedule,
        job_id=definition.job_id,
        window=window,
        jitter=jitter,
        calendars=calendars,
        zone_data=context.zone_data if zone_data is None else zone_data,
    )


def calendars_missing(definition: Definition, context: Context) -> tuple[str, ...]:
    """Return the names of calendars that the configuration does not have."""
    known = context.calendars.of(definition.tenant)
    return tuple(name for name in definition.calendars if name not in known)


def without_calendars(definition: Definition, context: Context) -> Schedule:
    """Compile what the schedule would be if no calendar excluded anything."""
    return schedule_of(replace(definition, calendars=()), context)


def next_after(definition: Definition, context: Context, after_ms: int) -> Occurrence | None:
    """Return the first occurrence after `after_ms` (exclusive, epoch ms), or None."""
    if is_plain_one_off(definition) and isinstance(definition.schedule, OneOffSpec):
        at_ms = definition.schedule.at_ms
        return Occurrence(at_ms, at_ms) if at_ms > after_ms else None
    return schedule_of(definition, context).next_after(after_ms)


def next_to_run_ms(job: Job, context: Context) -> int | None:
    """Return the first occurrence from the cursor on that nobody asked to skip; None where there is none."""
    at_ms = job.state.next_at_ms
    while at_ms is not None and job.definition is not None and at_ms in job.state.skip_at_ms:
        found = next_after(job.definition, context, at_ms)
        at_ms = None if found is None else found.at_ms
    return at_ms
