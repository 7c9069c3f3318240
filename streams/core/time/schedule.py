"""``compile_schedule``: a spec, a job id, a window, jitter and calendars become one ``Schedule``.

Contract: this is the function behind preview *and* execution (issue 5, item 3). Pure: the same arguments give the same
occurrences in every process. Order of the layers: slots of the spec in its zone, then the active window, then
exclusion calendars, then jitter. Instants are ms; ``after`` is exclusive, ``until`` inclusive, ``before`` exclusive.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from streams.core.time.cron_fields import stable_hash, uses_hash
from streams.core.time.describe import describe_spec
from streams.core.time.exclusions import Exclusions
from streams.core.time.slots import END_INSTANT_MS, FIRST_INSTANT_MS, Slot, SlotSource
from streams.core.time.sources import build_source
from streams.core.time.specs import (
    DROPPED_LISTED_MAX,
    CalendarSpec,
    CronSpec,
    DroppedSlot,
    IntervalSpec,
    Jitter,
    LocalOneOffSpec,
    Occurrence,
    OneOffSpec,
    ScheduleSpec,
    Window,
)
from streams.core.time.zone_text import local_at
from streams.core.time.zones import INSTALLED_ZONE_DATA, ZoneData, ZoneRules

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Compiled slot sources, shared by all jobs with the same spec; a few kilobytes each.
SOURCES_CACHED = 8_192
#: Schedules, one a job; the hot set of one owner's partitions.
SCHEDULES_CACHED = 65_536
#: Below this many slots a count with calendars steps; above it the excluded spans are subtracted.
_COUNT_BY_STEP_MAX = 256
#: A job whose slots are excluded in this many spans in a row has no further occurrence. Neighbouring days are one span,
#: so it is more than the searchable years of days, and a year of 54 spans a day. It bounds one question to half a
#: second, and validation refuses such a job.
EXCLUDED_SPANS_MAX = 20_000

#: Specs that hardly two jobs share and that compile in microseconds: caching them would push the others out.
_OWN_SPECS = (OneOffSpec, LocalOneOffSpec, IntervalSpec)

NO_WINDOW = Window()
NO_JITTER = Jitter()


class ScheduleParts(NamedTuple):
    """Everything that a schedule depends on; the key of the cache."""

    spec: ScheduleSpec
    job_id: str
    window: Window
    jitter: Jitter
    calendars: tuple[CalendarSpec, ...]
    zone_data: ZoneData


class Schedule:
    """All occurrences of one job's schedule. Immutable; safe to share."""

    __slots__ = (
        "_end",
        "_exclusions",
        "_job_id",
        "_plain",
        "_source",
        "_start",
        "jitter",
        "spec",
        "window",
        "zone_data",
    )

    def __init__(self, parts: ScheduleParts) -> None:
        spec, job_id, window, jitter, calendars, zone_data = parts
        self.spec: ScheduleSpec = spec
        self.window = window
        self.jitter = jitter
        self.zone_data = zone_data
        self._job_id = job_id
        self._source: SlotSource = (
            build_source(spec, job_id, zone_data)
            if isinstance(spec, _OWN_SPECS)
            else _cached_source(spec, job_id if _needs_job_id(spec) else "", zone_data)
        )
        self._start = FIRST_INSTANT_MS if window.start_at_ms is None else window.start_at_ms
        self._end = END_INSTANT_MS - 1 if window.end_at_ms is None else window.end_at_ms
        self._exclusions = Exclusions(calendars, zone_data) if calendars else None
        self._plain = window == NO_WINDOW and jitter.kind == "none" and not calendars

    @property
    def elapsed(self) -> bool:
        """Whether R3 (every real instant) rules instead of R2 (fixed local times)."""
        return self._source.elapsed

    @property
    def one_off(self) -> bool:
        """Whether the schedule is a single instant or local time."""
        return isinstance(self.spec, OneOffSpec | LocalOneOffSpec)

    @property
    def zone(self) -> ZoneRules:
        """The zone of the schedule; UTC for instants."""
        return self.zone_data.zone(getattr(self.spec, "time_zone", "UTC"))

    def next_after(self, after_ms: int) -> Occurrence | None:
        """Return the first occurrence after ``after_ms``, or None."""
        if self._plain:
            found = self._source.next_slot(after_ms)
            return None if found is None else Occurrence(found[0], found[0], found[1], found[2])
        slot = self._next_slot(self._settled_to(after_ms))
        return None if slot is None else self._occurrence(slot)

    def previous_before(self, before_ms: int) -> Occurrence | None:
        """Return the last occurrence before ``before_ms``, or None. Its ``dropped`` is empty."""
        if self.jitter.kind == "job":
            before_ms -= self._delay(0)
        slot = self._previous_slot(before_ms)
        if slot is not None and self.jitter.kind == "occurrence" and slot[0] + self._delay(slot[0]) >= before_ms:
            slot = self._previous_slot(slot[0])
        return None if slot is None else self._occurrence(slot)

    def latest_in(self, after_ms: int, until_ms: int) -> Occurrence | None:
        """Return the last occurrence in ``(after_ms, until_ms]``, without walking the ones before it."""
        found = self.previous_before(until_ms + 1)
        return found if found is not None and found.at_ms > after_ms else None

    def first_occurrence(self, created_ms: int) -> Occurrence | None:
        """Return the first occurrence of a job created at ``created_ms``.

        A one-off whose instant has passed is due at once (one rule, live and on replay: E03); any
        other schedule begins with the first occurrence after its creation.
        """
        return self.next_after(FIRST_INSTANT_MS - 1 if self.one_off else created_ms)

    def iter_between(self, after_ms: int, until_ms: int) -> Iterator[Occurrence]:
        """Every occurrence in ``(after_ms, until_ms]``, in order."""
        found = self.next_after(after_ms)
        while found is not None and found.at_ms <= until_ms:
            yield found
            found = self.next_after(found.at_ms)

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """How many occurrences lie in ``(after_ms, until_ms]``; cost does not grow with the answer."""
        if until_ms <= after_ms:
            return 0
        if self.jitter.kind == "job":
            delay = self._delay(0)
            return self._count_slots(after_ms - delay, until_ms - delay)
        total = self._count_slots(after_ms, until_ms)
        if self.jitter.kind == "occurrence":
            total += self._held_over(after_ms) - self._held_over(until_ms)
        return total

    def dropped_between(self, after_ms: int, until_ms: int) -> tuple[DroppedSlot, ...]:
        """List the slots in ``(after_ms, until_ms]`` that the rules drop, also where no occurrence follows."""
        first = max(self._settled_to(after_ms), self._start - 1)
        last = min(self._settled_to(until_ms), self._end)
        dropped = self._source.dropped_slots(first, last)
        if self._exclusions is not None and last > first:
            for start, end in self._exclusions.merged_spans(first, last):
                dropped += self._excluded_records(max(start, first + 1), min(end, last + 1))
        return dropped

    def count_dropped(self, after_ms: int, until_ms: int) -> tuple[int, int]:
        """Count what ``dropped_between`` lists, by gaps and by calendars: ranges, not slots, so any outage is short."""
        first = max(self._settled_to(after_ms), self._start - 1)
        last = min(self._settled_to(until_ms), self._end)
        in_gaps = sum(record.count for record in self._source.dropped_slots(first, last))
        if self._exclusions is None or last <= first:
            return in_gaps, 0
        spans = self._exclusions.merged_spans(first, last)
        counts = (self._source.count_slots(max(start - 1, first), min(end - 1, last)) for start, end in spans)
        return in_gaps, sum(counts)

    def slot_local_ms(self, slot_ms: int) -> int:
        """Local time, in ms, that a slot stands for: before its shift, where it was shifted out of a gap."""
        return slot_ms + self.zone.offset_at(slot_ms // 1000) * 1000 - self._source.shift_ms(slot_ms)

    def local_text(self, instant_ms: int) -> str:
        """Wall-clock text of an instant with its offset, in the schedule's zone."""
        return local_at(self.zone, instant_ms)

    def describe(self) -> str:
        """Return the rule in words, with what happens in skipped and repeated hours."""
        return describe_spec(self.spec, self._source, self._job_id, self.window, self.jitter)

    def _occurrence(self, slot: Slot) -> Occurrence:
        at_ms, notes, dropped = slot
        delay = self._delay(at_ms)
        if delay:
            notes += (f"jitter {delay / 1000} s",)
        return Occurrence(at_ms + delay, at_ms, notes, dropped)

    def _delay(self, slot_ms: int) -> int:
        """Return a slot's jitter: from the job alone, or from job and slot, below the gap to the bare next slot."""
        kind, window_ms = self.jitter.kind, self.jitter.window_ms
        if kind == "none" or window_ms <= 0:
            return 0
        if kind == "job":
            return stable_hash("jitter", self._job_id) % window_ms
        following = self._source.next_slot(slot_ms)
        if following is not None:
            window_ms = min(window_ms, following[0] - slot_ms)
        return stable_hash("jitter", f"{self._job_id}@{slot_ms}") % window_ms

    def _settled_to(self, instant_ms: int) -> int:
        """Return the place on the axis of slots behind which nothing has come yet at an instant.

        It does not depend on calendars: what is dropped behind it is reported later, and nothing before it again.
        """
        if self.jitter.kind == "none":
            return instant_ms
        if self.jitter.kind == "job":
            return instant_ms - self._delay(0)
        slot = self._source.previous_slot(min(instant_ms, self._end) + 1)
        if slot is None or slot[0] < self._start:
            return instant_ms
        come_ms = slot[0] + self._delay(slot[0])
        if come_ms < instant_ms:
            return instant_ms
        return slot[0] if come_ms == instant_ms else slot[0] - 1

    def _held_over(self, instant_ms: int) -> int:
        """1 if the latest slot up to an instant is delayed past it."""
        slot = self._previous_slot(instant_ms + 1)
        return int(slot is not None and slot[0] + self._delay(slot[0]) > instant_ms)

    def _excluded(self, slot_ms: int) -> tuple[int, int, str] | None:
        return None if self._exclusions is None else self._exclusions.span_at(slot_ms)

    def _next_slot(self, after_ms: int) -> Slot | None:
        """Return the first slot inside the window that no calendar excludes."""
        slot = self._source.next_slot(max(after_ms, self._start - 1))
        dropped: tuple[DroppedSlot, ...] = ()
        for _ in range(EXCLUDED_SPANS_MAX):
            if slot is None or slot[0] > self._end:
                return None
            dropped += slot[2]
            span = self._excluded(slot[0])
            if span is None:
                return (slot[0], slot[1], dropped)
            # What has no instant is no less dropped inside a span.
            dropped += self._source.dropped_slots(slot[0], min(span[1] - 1, self._end))
            if len(dropped) < DROPPED_LISTED_MAX:
                dropped += self._excluded_records(slot[0], min(span[1], self._end + 1))
            else:
                dropped = self._fold(dropped, slot[0], min(span[1], self._end + 1))
            slot = self._source.next_slot(span[1] - 1)
        return None

    def _previous_slot(self, before_ms: int) -> Slot | None:
        slot = self._source.previous_slot(min(before_ms, self._end + 1))
        for _ in range(EXCLUDED_SPANS_MAX):
            if slot is None or slot[0] < self._start:
                return None
            span = self._excluded(slot[0])
            if span is None:
                return slot
            slot = self._source.previous_slot(span[0])
        return None

    def _excluded_records(self, first_ms: int, end_ms: int) -> tuple[DroppedSlot, ...]:
        """Return records of the slots in ``[first_ms, end_ms)``, which a calendar excludes."""
        total = self._source.count_slots(first_ms - 1, end_ms - 1)
        records: list[DroppedSlot] = []
        slot = self._source.next_slot(first_ms - 1)
        while slot is not None and slot[0] < end_ms and len(records) < DROPPED_LISTED_MAX:
            rest = total - len(records) if len(records) == DROPPED_LISTED_MAX - 1 else 1
            records.append(DroppedSlot(local=self.local_text(slot[0]), at_ms=slot[0], reason="calendar", count=rest))
            slot = self._source.next_slot(slot[0])
        return tuple(records)

    def _fold(self, dropped: tuple[DroppedSlot, ...], first_ms: int, end_ms: int) -> tuple[DroppedSlot, ...]:
        """Past the listing bound a whole span is added to the count of the last record of a calendar."""
        for at in range(len(dropped) - 1, -1, -1):
            last = dropped[at]
            if last.reason == "calendar":
                more = last.count + self._source.count_slots(first_ms - 1, end_ms - 1)
                folded = DroppedSlot(local=last.local, at_ms=last.at_ms, reason=last.reason, count=more)
                return (*dropped[:at], folded, *dropped[at + 1 :])
        return dropped + self._excluded_records(first_ms, end_ms)

    def _count_slots(self, after_ms: int, until_ms: int) -> int:
        after_ms, until_ms = max(after_ms, self._start - 1), min(until_ms, self._end)
        if until_ms <= after_ms:
            return 0
        total = self._source.count_slots(after_ms, until_ms)
        if self._exclusions is None or total == 0:
            return total
        if total <= _COUNT_BY_STEP_MAX:
            return self._count_by_step(after_ms, until_ms)
        for start, end in self._exclusions.merged_spans(after_ms, until_ms):
            total -= self._source.count_slots(max(start - 1, after_ms), min(end - 1, until_ms))
        return total

    def _count_by_step(self, after_ms: int, until_ms: int) -> int:
        total = 0
        slot = self._next_slot(after_ms)
        while slot is not None and slot[0] <= until_ms:
            total += 1
            slot = self._next_slot(slot[0])
        return total


@lru_cache(maxsize=SOURCES_CACHED)
def _needs_job_id(spec: ScheduleSpec) -> bool:
    return isinstance(spec, CronSpec) and uses_hash(spec.expression)


@lru_cache(maxsize=SOURCES_CACHED)
def _cached_source(spec: ScheduleSpec, job_id: str, zone_data: ZoneData) -> SlotSource:
    return build_source(spec, job_id, zone_data)


@lru_cache(maxsize=SCHEDULES_CACHED)
def _cached_schedule(parts: ScheduleParts) -> Schedule:
    return Schedule(parts)


def compile_schedule(
    spec: ScheduleSpec,
    *,
    job_id: str,
    window: Window = NO_WINDOW,
    jitter: Jitter = NO_JITTER,
    calendars: tuple[CalendarSpec, ...] = (),
    zone_data: ZoneData = INSTALLED_ZONE_DATA,
) -> Schedule:
    """Compile once, cached. Raises InvalidSchedule; accepts what never fires (``validate_spec`` refuses that)."""
    # Only H and jitter read the job id: without them all jobs with one spec share one object.
    key = job_id if jitter.kind != "none" or _needs_job_id(spec) else ""
    parts = ScheduleParts(spec, key, window, jitter, calendars, zone_data)
    return Schedule(parts) if isinstance(spec, OneOffSpec | LocalOneOffSpec) else _cached_schedule(parts)
