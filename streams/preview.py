"""``horologd preview``: the next (or previous) occurrences of a schedule, by the function that the scheduler uses.

Contract: needs no Kafka. One line an occurrence: the UTC instant (RFC 3339 with ``Z``), a tab, then notes.
``--after`` is exclusive, ``--until`` inclusive. Exit code 2 and one line on stderr for what cannot be scheduled.
Warnings of an accepted schedule go to stderr too.
"""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
import typer
from typer.core import TyperCommand

from streams.core.time import (
    INSTALLED_ZONE_DATA,
    CalendarIntervalSpec,
    CalendarSpec,
    CronSpec,
    GapPolicy,
    IntervalSpec,
    InvalidSchedule,
    Jitter,
    LocalOneOffSpec,
    Occurrence,
    OneOffSpec,
    OverlapHour,
    RRuleSpec,
    Schedule,
    ScheduleSpec,
    Window,
    compile_schedule,
    irregular_nights,
    parse_duration_ms,
    utc_text,
    validate_spec,
)
from streams.core.time.civil import END_INSTANT_S, FIRST_INSTANT_S, local_text
from streams.core.time.zone_text import local_at

if TYPE_CHECKING:
    from collections.abc import Iterator

#: ``--count`` when neither it nor ``--until`` is given.
COUNT_DEFAULT = 10
#: More occurrences than a one-second job has between 1970 and 2199.
COUNT_MAX = 10_000_000_000
#: ``--explain`` shows the irregular nights of the next 12 months.
_EXPLAIN_MS = 366 * 86_400_000
_CALENDAR = re.compile(r"([0-9]{1,6})(d|w|mo)")
_CALENDAR_UNITS: dict[str, Literal["day", "week", "month"]] = {"d": "day", "w": "week", "mo": "month"}
_EXIT_REFUSED = 2
#: Options that belong to one kind of schedule: elsewhere they would be ignored, and the reader misled.
_ONLY_WITH = {"anchor": "every", "local_time": "calendar", "anchor_date": "calendar", "dtstart": "rrule"}
#: What a wrong command line raises: the parent of typer's own error, which is not exported by name.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
#: A line names at most this many dropped slots; the rest is a number.
_DROPPED_NAMED_MAX = 4


class PreviewArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command, as given."""

    cron: str | None = None
    every: str | None = None
    anchor: str | None = None
    calendar: str | None = None
    local_time: str | None = None
    anchor_date: str | None = None
    at: str | None = None
    rrule: str | None = None
    dtstart: str | None = None
    zone: str = "UTC"
    after: str | None = None
    until: str | None = None
    count: int | None = None
    gap: str = "shift"
    overlap_hour: str = "first"
    job_id: str = "preview"
    start_at: str | None = None
    end_at: str | None = None
    jitter: str = "none"
    jitter_window: str | None = None
    exclude_dates: tuple[str, ...] = ()
    previous: bool = False
    explain: bool = False


def run_preview(args: PreviewArgs) -> int:
    """Print the occurrences. Returns the exit code: 0, or 2 for what cannot be scheduled."""
    try:
        # Line by line: all seconds of a year are more than memory should hold. Nothing is refused after the first.
        for line in _preview(args):
            sys.stdout.write(f"{line}\n")
    except InvalidSchedule as refused:
        sys.stderr.write(f"{' '.join(str(refused).split())}\n")
        return _EXIT_REFUSED
    return 0


def _preview(args: PreviewArgs) -> Iterator[str]:
    after_ms, until_ms = _range(args)
    if args.count is not None and args.count < 0:
        raise InvalidSchedule("count", str(args.count), "is negative", "use 0 (with --until, for all) or more")
    if args.count is not None and args.count > COUNT_MAX:
        raise InvalidSchedule("count", str(args.count), "is more than any schedule has", f"use up to {COUNT_MAX}")
    if not args.count and until_ms is None and args.count is not None:
        raise InvalidSchedule("count", "0", "lists all, without an end", "give --until")
    count = args.count if args.count is not None else (0 if until_ms is not None else COUNT_DEFAULT)
    if not args.job_id or not args.job_id.isprintable():
        raise InvalidSchedule("jobId", args.job_id, "is no text", "use the id of a job")
    spec = _spec(args, after_ms)
    window = Window(
        start_at_ms=None if args.start_at is None else _instant_ms("startAt", args.start_at, up=True),
        end_at_ms=None if args.end_at is None else _instant_ms("endAt", args.end_at),
    )
    jitter = _jitter(args)
    calendars = (CalendarSpec("excluded", args.zone, args.exclude_dates),) if args.exclude_dates else ()
    # Backwards, a schedule that has ended is still worth looking at.
    created_ms = 0 if args.previous else after_ms
    warnings = validate_spec(
        spec, job_id=args.job_id, after_ms=created_ms, window=window, jitter=jitter, calendars=calendars
    )
    for warning in warnings:
        sys.stderr.write(f"warning: {warning.field} {warning.text!r}: {warning.message}\n")
    schedule = compile_schedule(spec, job_id=args.job_id, window=window, jitter=jitter, calendars=calendars)
    if args.explain:
        yield from _explain(schedule, spec, args.job_id, after_ms, calendars)
    found = _backwards(schedule, after_ms, until_ms) if args.previous else _forwards(schedule, after_ms, until_ms)
    for occurrence in islice(found, count or None):
        yield f"{utc_text(occurrence.at_ms)}\t{_notes(schedule, occurrence, args.zone)}"


def _range(args: PreviewArgs) -> tuple[int, int | None]:
    """Where the listing starts and ends. Rounded to whole ms so that --after stays exclusive and --until inclusive."""
    back = args.previous
    after_ms = int(time.time() * 1000) if args.after is None else _instant_ms("after", args.after, up=back)
    if args.until is None:
        return after_ms, None
    until_ms = _instant_ms("until", args.until, up=back)
    if (until_ms > after_ms) if back else (until_ms < after_ms):
        side, fix = ("after", "an earlier --until") if back else ("before", "a later --until")
        raise InvalidSchedule("until", args.until, f"lies {side} --after {utc_text(after_ms)}", f"give {fix}")
    return after_ms, until_ms


def _forwards(schedule: Schedule, after_ms: int, until_ms: int | None) -> Iterator[Occurrence]:
    found = schedule.next_after(after_ms)
    while found is not None and (until_ms is None or found.at_ms <= until_ms):
        yield found
        found = schedule.next_after(found.at_ms)


def _backwards(schedule: Schedule, before_ms: int, until_ms: int | None) -> Iterator[Occurrence]:
    found = schedule.previous_before(before_ms)
    while found is not None and (until_ms is None or found.at_ms >= until_ms):
        yield found
        found = schedule.previous_before(found.at_ms)


def _notes(schedule: Schedule, occurrence: Occurrence, zone: str) -> str:
    # In the zone asked for, also where it rules nothing: an interval and an instant have none of their own.
    notes = [local_at(schedule.zone_data.zone(zone), occurrence.at_ms), *occurrence.notes]
    named = occurrence.dropped[:_DROPPED_NAMED_MAX]
    notes += [f"dropped {dropped.local} ({dropped.reason})" for dropped in named]
    more = sum(dropped.count for dropped in occurrence.dropped) - len(named)
    if more:
        notes.append(f"dropped {more} more")
    return "; ".join(notes)


def _explain(
    schedule: Schedule, spec: ScheduleSpec, job_id: str, after_ms: int, calendars: tuple[CalendarSpec, ...]
) -> Iterator[str]:
    yield f"# {schedule.describe()}"
    nights = irregular_nights(
        spec,
        schedule.zone_data,
        from_ms=after_ms,
        until_ms=after_ms + _EXPLAIN_MS,
        job_id=job_id,
        window=schedule.window,
        calendars=calendars,
    )
    yield f"# irregular nights in the next 12 months, zone data {schedule.zone_data.version}: {len(nights) or 'none'}"
    for night in nights:
        yield f"# {night}"


def _spec(args: PreviewArgs, after_ms: int) -> ScheduleSpec:
    given = [name for name in ("cron", "every", "calendar", "at", "rrule") if getattr(args, name) is not None]
    if len(given) != 1:
        raise InvalidSchedule(
            "schedule",
            ", ".join(given) or "none",
            "exactly one is needed",
            "give --cron, --every, --calendar, --at or --rrule",
        )
    for option, kind in _ONLY_WITH.items():
        if getattr(args, option) is not None and given != [kind]:
            name, owner = (word.replace("_", "-") for word in (option, kind))
            raise InvalidSchedule(
                name, str(getattr(args, option)), f"has no effect with --{given[0]}", f"use --{owner}"
            )
    # Unknown policies and zones are refused here for every kind, also where they change nothing.
    gap, overlap = cast("GapPolicy", args.gap), cast("OverlapHour", args.overlap_hour)
    compile_schedule(CronSpec("@daily", args.zone, gap, overlap), job_id=args.job_id)
    if args.cron is not None:
        return CronSpec(args.cron, args.zone, gap, overlap)
    if args.every is not None:
        anchor_ms = after_ms if args.anchor is None else _instant_ms("anchor", args.anchor, up=True)
        return IntervalSpec(parse_duration_ms("every", args.every), anchor_ms)
    if args.calendar is not None:
        return _calendar(args, gap, overlap)
    if args.at is not None:
        if _is_local(args.at):
            return LocalOneOffSpec(args.at, args.zone, gap, overlap)
        return OneOffSpec(_instant_ms("at", args.at, up=True))
    # RFC 5545 starts a rule at a local time: by default the zone's, at --after.
    start = _local_start(args.zone, after_ms) if args.dtstart is None else args.dtstart
    return RRuleSpec(args.rrule or "", start, args.zone, gap, overlap)


def _local_start(zone: str, after_ms: int) -> str:
    """Local time, to the second, of an instant; held between the first and the last second that can have a run."""
    instant_s = min(max(after_ms // 1000, FIRST_INSTANT_S), END_INSTANT_S)
    return local_text(max(instant_s + INSTALLED_ZONE_DATA.zone(zone).offset_at(instant_s), FIRST_INSTANT_S))


def _calendar(args: PreviewArgs, gap: GapPolicy, overlap: OverlapHour) -> CalendarIntervalSpec:
    match = _CALENDAR.fullmatch(args.calendar or "")
    if match is None:
        raise InvalidSchedule("calendar", args.calendar or "", "not understood", "write 7d, 2w or 1mo")
    if args.local_time is None or args.anchor_date is None:
        raise InvalidSchedule("calendar", args.calendar or "", "incomplete", "give --local-time and --anchor-date too")
    unit = _CALENDAR_UNITS[match[2]]
    return CalendarIntervalSpec(unit, int(match[1]), args.local_time, args.anchor_date, args.zone, gap, overlap)


def _jitter(args: PreviewArgs) -> Jitter:
    if args.jitter == "none":
        if args.jitter_window is not None:
            raise InvalidSchedule(
                "jitter-window", args.jitter_window, "has no --jitter", "give --jitter job or occurrence"
            )
        return Jitter()
    if args.jitter not in {"job", "occurrence"}:
        raise InvalidSchedule("jitter", args.jitter, "unknown", "use none, job or occurrence")
    if args.jitter_window is None:
        raise InvalidSchedule("jitter", args.jitter, "has no window", "give --jitter-window, such as 30s")
    kind: Literal["job", "occurrence"] = "job" if args.jitter == "job" else "occurrence"
    return Jitter(kind, parse_duration_ms("jitter", args.jitter_window))


def _is_local(text: str) -> bool:
    """Tell whether a time has no offset. Unreadable text counts as local, and is refused there."""
    try:
        return datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return not text.upper().endswith("Z")


def _instant_ms(field: str, text: str, *, up: bool = False) -> int:
    """Epoch ms of RFC 3339 text; an offset is needed, since the host's zone never counts (R1).

    What is finer than a millisecond is cut off, or with ``up`` rounded up: for what must not be early (R7).
    """
    try:
        value = datetime.fromisoformat(text.upper())  # RFC 3339 allows a small t and z
    except ValueError:
        value = None
    if value is None or value.tzinfo is None:
        raise InvalidSchedule(field, text, "not an instant", "write RFC 3339 with Z, such as 2026-03-08T06:30:00Z")
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + (since.microseconds + 999 * up) // 1000


class _OneLineUsage(TyperCommand):
    """Refuses a wrong option as it refuses a wrong schedule: in one line (typer draws a box of five)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; exit with 2 and one line where it cannot be read."""
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            reason = " ".join(cast("Any", error).format_message().split()).rstrip(".")
            sys.stderr.write(f"{reason}; see {ctx.command_path} --help\n")
            raise typer.Exit(_EXIT_REFUSED) from None


def add_preview(app: typer.Typer) -> None:
    """Register the command ``preview``."""

    @app.command("preview", cls=_OneLineUsage)
    def preview(  # noqa: PLR0917 - one parameter an option is how typer reads a command line
        cron: Annotated[str | None, typer.Option(help="Five fields, or six with seconds first.")] = None,
        every: Annotated[str | None, typer.Option(help="Elapsed interval: 90s, 15m, 1h30m.")] = None,
        anchor: Annotated[str | None, typer.Option(help="Start of the interval. Default: --after.")] = None,
        calendar: Annotated[str | None, typer.Option(help="Calendar interval: 7d, 2w or 1mo.")] = None,
        local_time: Annotated[str | None, typer.Option(help="HH:MM[:SS] of a calendar interval.")] = None,
        anchor_date: Annotated[str | None, typer.Option(help="First date of a calendar interval.")] = None,
        at: Annotated[str | None, typer.Option(help="Once: an instant (with Z), or a local time in --zone.")] = None,
        rrule: Annotated[str | None, typer.Option(help="RFC 5545 rule, such as FREQ=WEEKLY;BYDAY=MO.")] = None,
        dtstart: Annotated[str | None, typer.Option(help="Local start of the rule.")] = None,
        zone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
        after: Annotated[str | None, typer.Option(help="Exclusive start. Default: now.")] = None,
        until: Annotated[str | None, typer.Option(help="Inclusive end.")] = None,
        count: Annotated[int | None, typer.Option(help="How many; 0 with --until lists all.")] = None,
        gap: Annotated[str, typer.Option(help="shift or skip.")] = "shift",
        overlap_hour: Annotated[str, typer.Option(help="first, second or both.")] = "first",
        job_id: Annotated[str, typer.Option(help="Feeds H and jitter.")] = "preview",
        start_at: Annotated[str | None, typer.Option(help="Active window: first instant.")] = None,
        end_at: Annotated[str | None, typer.Option(help="Active window: last instant.")] = None,
        jitter: Annotated[str, typer.Option(help="none, job or occurrence.")] = "none",
        jitter_window: Annotated[str | None, typer.Option(help="Bound of the jitter: 30s.")] = None,
        exclude_date: Annotated[list[str] | None, typer.Option(help="Local date without runs; repeatable.")] = None,
        previous: Annotated[bool, typer.Option("--previous", help="Walk backwards from --after.")] = False,  # noqa: FBT002 - a flag
        explain: Annotated[bool, typer.Option("--explain", help="The rule in words; irregular nights.")] = False,  # noqa: FBT002 - a flag
    ) -> None:
        """Print the occurrences of a schedule. Needs no Kafka."""
        args = PreviewArgs(
            cron=cron,
            every=every,
            anchor=anchor,
            calendar=calendar,
            local_time=local_time,
            anchor_date=anchor_date,
            at=at,
            rrule=rrule,
            dtstart=dtstart,
            zone=zone,
            after=after,
            until=until,
            count=count,
            gap=gap,
            overlap_hour=overlap_hour,
            job_id=job_id,
            start_at=start_at,
            end_at=end_at,
            jitter=jitter,
            jitter_window=jitter_window,
            exclude_dates=tuple(exclude_date or ()),
            previous=previous,
            explain=explain,
        )
        raise typer.Exit(run_preview(args))
