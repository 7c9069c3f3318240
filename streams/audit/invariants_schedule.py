"""Invariants about schedules: complete, caught up exactly, and true to pause, overlap and edits (I2, I8, I13)."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from streams.audit.calendars import Rulings, without_calendars
from streams.audit.oracle import occurrences
from streams.audit.report import Place
from streams.audit.stories import ENDINGS, OUTCOMES
from streams.core import events as ev
from streams.core.time import LocalOneOffSpec, OneOffSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.audit.case import Case
    from streams.audit.report import Findings
    from streams.audit.stories import Happening, JobStory
    from streams.core.definition import Definition

_NO_INSTANT: Final = frozenset({"gap", "calendar"})
"""Skips of slots that have no instant in the oracle."""

_FAR_MS: Final = 40 * 86_400_000
"""A cursor farther ahead than this is not checked against the oracle: walking there costs more than it proves."""


class _Span(msgspec.Struct, kw_only=True):
    """The reign of one definition, and what was recorded under it."""

    definition: Definition
    from_ms: int
    until_ms: int | None = None
    """When the next definition or the deletion came; None while it reigns."""
    since_ms: int = 0
    """When the definition came: what was due before was missed by nobody."""
    created: bool = True
    """Under the definition that creates a job, also one that was deleted, a one-off in the past is due at once."""
    opened: list[tuple[int, Happening]] = []
    skipped: list[tuple[ev.OccurrencesSkipped, Happening]] = []
    cursor_at_ms: int | None = None
    moved: bool = False
    """The zone data changed under it, or is not the oracle's."""
    rulings: Rulings
    """Which calendars each part of it was decided under."""


def complete(case: Case, found: Findings) -> None:
    """I2: the occurrences that an independent oracle expects are the recorded ones, each exactly once."""
    for story in case.stories:
        if not story.whole:
            found.left_out("history begins inside the job's life")
            continue
        _opened_once(story, found)
        done: set[int] = set()
        for span in _spans(story):
            _span_complete(case, story, span, done, found)
            done.update(at_ms for at_ms, _ in span.opened)
            done.update(skipped.first_at_ms for skipped, _ in span.skipped if skipped.count == 1)


def _opened_once(story: JobStory, found: Findings) -> None:
    """R6 and R8: one opening and one outcome for each run id."""
    for run in story.runs.values():
        found.looked()
        openings = [h for h in run.happenings if isinstance(h.event, ev.RunOpened)]
        outcomes = [h for h in run.happenings if isinstance(h.event, OUTCOMES)]
        last = run.happenings[-1]
        for message, wrong in (
            (f"opened {len(openings)} times", len(openings) != 1),
            (f"has {len(outcomes)} outcomes", len(outcomes) > 1),
        ):
            if wrong:
                found.broke(
                    message, Place(job_id=story.job_id, run_id=run.run_id, partition=last.partition, offset=last.offset)
                )


def _spans(story: JobStory) -> list[_Span]:
    spans: list[_Span] = []
    for happening in story.happenings:
        event = happening.event
        span = spans[-1] if spans else None
        match event:
            case ev.JobDefined() | ev.JobEdited():
                from_ms = _reign_from(event)
                if span is not None and span.until_ms is None:
                    span.until_ms = from_ms
                rulings = Rulings(from_ms + 1)
                rulings.follow(event.next_at_ms, happening.config_offset)
                spans.append(
                    _Span(
                        definition=event.definition,
                        from_ms=from_ms,
                        rulings=rulings,
                        since_ms=event.at_ms,
                        created=isinstance(event, ev.JobDefined),
                        opened=[],
                        skipped=[],
                        cursor_at_ms=event.next_at_ms,
                        moved=happening.other_zone_data,
                    )
                )
            case _ if span is not None:
                _into_span(span, happening)
            case _:
                pass
    return spans


def _reign_from(event: ev.JobDefined | ev.JobEdited) -> int:
    """Give the last instant that the definition does not answer for.

    A new job answers for the instant of its definition; an edited one for what comes after the edit, or from the
    cursor on, where the edit left an undecided occurrence in place.
    """
    if isinstance(event, ev.JobDefined):
        return event.at_ms - 1
    if event.next_at_ms is not None and event.next_at_ms <= event.at_ms:
        return event.next_at_ms - 1
    return event.at_ms


def _into_span(span: _Span, happening: Happening) -> None:
    match happening.event:
        case ev.JobDeleted() as deleted:
            span.until_ms = deleted.at_ms
        case ev.RunOpened(kind="schedule") as opened:
            span.opened.append((opened.scheduled_at_ms, happening))
            span.cursor_at_ms = opened.next_at_ms
        case ev.OccurrencesSkipped() as skipped:
            span.skipped.append((skipped, happening))
            span.cursor_at_ms = skipped.next_at_ms
        case ev.JobResumed() as resumed:
            span.cursor_at_ms = resumed.next_at_ms
        case ev.CursorMoved() as moved:
            span.cursor_at_ms = moved.to_at_ms
            span.moved = span.moved or moved.zone_data_from != moved.zone_data_to
        case _:
            return
    span.rulings.follow(span.cursor_at_ms, happening.config_offset)


def _expected(case: Case, span: _Span, after_ms: int, until_ms: int) -> list[int] | None:
    """Give what the definition asks for in (after_ms, until_ms], less what its calendars exclude; None: not known."""
    if not span.definition.calendars:
        return occurrences(span.definition, after_ms, until_ms)
    bare = occurrences(without_calendars(span.definition), after_ms, until_ms)
    return None if bare is None else case.calendars.left_of(span.definition, bare, span.rulings)


def _span_complete(case: Case, story: JobStory, span: _Span, done: set[int], found: Findings) -> None:
    if span.moved:
        found.left_out("zone data changed")
        return
    horizon_ms = _horizon(case, span)
    after_ms = span.from_ms
    if span.created and isinstance(span.definition.schedule, OneOffSpec | LocalOneOffSpec):
        after_ms = -1
    expected = _expected(case, span, after_ms, horizon_ms)
    if expected is None:
        found.left_out("schedule unknown to the oracle", len(span.opened) + len(span.skipped))
        return
    covered = _covered(case, story, span, expected, done, found=found)
    found.looked(len(expected))
    for at_ms in expected:
        times = covered[at_ms]
        if times == 1 or at_ms in done:
            continue
        if times == 0 and (at_ms == span.until_ms or _beyond_max_runs(span, at_ms)):
            continue
        found.broke(
            f"occurrence at {at_ms} has {times} records", Place(job_id=story.job_id, partition=_partition(story))
        )
    _cursor_true(case, story, span, horizon_ms, found)


def _horizon(case: Case, span: _Span) -> int:
    """Give up to where everything must be recorded: the end of the reign, the cursor, or the end of the run."""
    if span.until_ms is not None:
        ends_ms = span.until_ms
    elif span.cursor_at_ms is not None:
        ends_ms = span.cursor_at_ms - 1
    else:
        ends_ms = case.view.end_at_ms
    recorded = [at_ms for at_ms, _ in span.opened] + [skipped.last_at_ms for skipped, _ in span.skipped]
    return max([ends_ms, *recorded])


def _covered(
    case: Case, story: JobStory, span: _Span, expected: list[int], done: set[int], *, found: Findings
) -> Counter[int]:
    """Count the records of each expected instant, and report records of instants that nobody asked for."""
    covered: Counter[int] = Counter()
    wanted = set(expected)
    for at_ms, happening in span.opened:
        covered[at_ms] += 1
        if at_ms not in wanted:
            _unasked(story, happening, f"opened at {at_ms}, which the definition does not ask for", found)
        if at_ms in done:
            _unasked(story, happening, f"opened at {at_ms}, which ran under an earlier version", found)
    for skipped, happening in span.skipped:
        # What an earlier definition excluded may be recorded after an edit that left the cursor where it was.
        own = skipped.first_at_ms > span.from_ms
        if skipped.reason == "calendar" and own and not _is_excluded(case, span, skipped.first_at_ms):
            _unasked(story, happening, f"skipped {skipped.first_at_ms} for a calendar that does not exclude it", found)
        if skipped.reason in _NO_INSTANT:
            found.left_out("slots without an instant", skipped.count)
            continue
        found.left_out("slots without an instant", skipped.dropped_gap + skipped.dropped_calendar)
        low = bisect_left(expected, skipped.first_at_ms)
        high = bisect_right(expected, skipped.last_at_ms)
        for at_ms in expected[low:high]:
            covered[at_ms] += 1
        if high - low != skipped.count:
            _unasked(
                story,
                happening,
                f"{skipped.count} skipped in {skipped.first_at_ms}..{skipped.last_at_ms}, expected {high - low}",
                found,
            )
    return covered


def _is_excluded(case: Case, span: _Span, at_ms: int) -> bool:
    """Tell whether calendars take this instant away; also where the oracle does not know."""
    asked = occurrences(without_calendars(span.definition), at_ms - 1, at_ms)
    return asked is None or not _expected(case, span, at_ms - 1, at_ms)


def _unasked(story: JobStory, happening: Happening, message: str, found: Findings) -> None:
    found.broke(message, Place(job_id=story.job_id, partition=happening.partition, offset=happening.offset))


def _beyond_max_runs(span: _Span, at_ms: int) -> bool:
    return bool(span.definition.max_runs) and all(at_ms > opened_ms for opened_ms, _ in span.opened)


def _cursor_true(case: Case, story: JobStory, span: _Span, horizon_ms: int, found: Findings) -> None:
    """Check that the cursor of a living job stands on an occurrence; where it is None, `_horizon` sees to the rest."""
    cursor_ms = span.cursor_at_ms
    if span.until_ms is not None or cursor_ms is None or cursor_ms - case.view.end_at_ms > _FAR_MS:
        return
    if isinstance(span.definition.schedule, OneOffSpec | LocalOneOffSpec):
        return
    found.looked()
    if _expected(case, span, cursor_ms - 1, cursor_ms) != [cursor_ms]:
        found.broke(
            f"cursor at {cursor_ms} is no occurrence (recorded up to {horizon_ms})",
            Place(job_id=story.job_id, partition=_partition(story)),
        )


def _partition(story: JobStory) -> int:
    return story.happenings[0].partition


_LIVE_KINDS: Final = ("schedule", "trigger")
"""Backfills and replays have limits of their own."""


# --- I8 ---


class Absence(msgspec.Struct, frozen=True):
    """A partition without a working owner, by its markers. `sure` is False near the threshold."""

    from_ms: int
    to_ms: int
    sure: bool


def absences(case: Case) -> dict[int, list[Absence]]:
    """Give the silences of each partition's markers that may count as an absence."""
    found: dict[int, list[Absence]] = defaultdict(list)
    times: dict[int, list[int]] = defaultdict(list)
    for item in case.view.markers:
        times[item.record.partition].append(item.record.timestamp_ms)
    margin_ms = case.limits.missed_margin_ms
    for partition, stamps in times.items():
        for before_ms, after_ms in itertools.pairwise(stamps):
            silence_ms = after_ms - before_ms
            if silence_ms > case.limits.absence_ms - margin_ms:
                sure = silence_ms > case.limits.absence_ms + margin_ms
                found[partition].append(Absence(before_ms, after_ms, sure))
    return found


def caught_up(case: Case, found: Findings) -> None:
    """I8: of the occurrences that fell due in an absence, those run that the policy asks for, and no others."""
    if not case.view.whole:
        found.left_out("markers compacted: absences unknown", len(case.stories))
        return
    gaps = absences(case)
    for story in case.stories:
        rows = gaps.get(_partition(story), [])
        _missed_only_in_gaps(case, story, rows, found)
        if story.whole:
            for span in _spans(story):
                for gap in rows:
                    if gap.sure:
                        _gap_exact(case, story, span, gap, found)


def _missed_only_in_gaps(case: Case, story: JobStory, gaps: list[Absence], found: Findings) -> None:
    margin_ms = case.limits.missed_margin_ms

    def inside(at_ms: int) -> bool:
        return any(gap.from_ms - margin_ms <= at_ms <= gap.to_ms + margin_ms for gap in gaps)

    for happening in story.happenings:
        match happening.event:
            case ev.OccurrencesSkipped(reason="catch_up") as skipped:
                found.looked()
                wrong = not (inside(skipped.first_at_ms) and inside(skipped.last_at_ms))
            case ev.RunOpened(missed=True) as opened:
                found.looked()
                wrong = not inside(opened.scheduled_at_ms)
            case _:
                continue
        if wrong:
            _unasked(story, happening, "called missed, but the partition had an owner", found)


def _gap_exact(case: Case, story: JobStory, span: _Span, gap: Absence, found: Findings) -> None:
    margin_ms = case.limits.missed_margin_ms
    low_ms = max(gap.from_ms + margin_ms, span.from_ms, span.since_ms)
    high_ms = min(gap.to_ms - margin_ms, span.until_ms or gap.to_ms)
    if span.until_ms is not None and span.until_ms <= gap.to_ms + margin_ms:
        found.left_out("edited or deleted during the absence")
        return
    missed = _expected(case, span, low_ms, high_ms)
    if not missed or span.moved:
        return
    found.looked(len(missed))
    opened = {at_ms for at_ms, _ in span.opened}
    ran = [at_ms for at_ms in missed if at_ms in opened]
    policy = span.definition.catch_up
    later = _expected(case, span, missed[-1], gap.to_ms + margin_ms) or []
    wrong = ""
    if policy == "none" and ran:
        wrong = f"catch-up none, but {len(ran)} ran"
    elif policy == "latest" and any(at_ms != missed[-1] for at_ms in ran):
        wrong = f"catch-up latest, but {ran} ran of {len(missed)}"
    elif policy == "latest" and not ran and not later and missed[-1] in _caught(span, missed[-1:]):
        wrong = "catch-up latest, but the latest did not run"
    elif policy == "all" and _caught(span, missed):
        wrong = "catch-up all, but some were skipped as missed"
    if wrong:
        found.broke(
            f"{wrong} (absent {gap.from_ms}..{gap.to_ms})", Place(job_id=story.job_id, partition=_partition(story))
        )


def _caught(span: _Span, instants: Iterable[int]) -> set[int]:
    """Give those of the instants that were skipped by catch-up."""
    ranges = [s for s, _ in span.skipped if s.reason == "catch_up"]
    return {at_ms for at_ms in instants for s in ranges if s.first_at_ms <= at_ms <= s.last_at_ms}


# --- I13 ---


class _OpenRun(msgspec.Struct):
    opened: ev.RunOpened
    held: bool
    token: int = 0
    cancelling: bool = False


class _Rules:
    """One job's policies, followed event by event; reports each step that they forbid."""

    def __init__(self, case: Case, story: JobStory, found: Findings) -> None:
        self.asked_versions = case.asked_versions
        self.story = story
        self.found = found
        self.definition: Definition | None = None
        self.version = 0
        self.paused_from: Happening | None = None
        self.deleted = False
        self.open: dict[str, _OpenRun] = {}

    def take(self, happening: Happening, decision: list[ev.Event]) -> None:  # noqa: C901 - one flat table
        """Follow one event; `decision` is all of its history entry."""
        match happening.event:
            case ev.JobDefined() | ev.JobEdited() as event:
                self._version(event.version, happening)
                self.definition, self.deleted = event.definition, False
                if isinstance(event, ev.JobDefined):
                    self.paused_from = None
            case ev.JobPaused():
                self.paused_from = happening
            case ev.JobResumed() | ev.JobFinished():
                self.paused_from = None
            case ev.JobDeleted():
                self.deleted = True
            case ev.RunOpened() as event:
                self._opened(event, happening)
                self.open[event.run_id] = _OpenRun(opened=event, held=event.held)
            case ev.LeaseGranted() as event:
                self._granted(event, happening)
            case ev.RunUnheld() as event if event.run_id in self.open:
                self.open[event.run_id].held = False
            case ev.RunCancelRequested() as event if event.run_id in self.open:
                self.open[event.run_id].cancelling = True
            case ev.OccurrencesSkipped() as event:
                self._skipped(event.reason, event.last_at_ms, event.blocked_by, happening, decision)
            case ev.RunSkipped() as event:
                run = self.open.get(event.run_id)
                at_ms = run.opened.scheduled_at_ms if run else 0
                self._skipped(event.reason, at_ms, event.blocked_by, happening, decision)
            case _:
                pass
        self._ended(happening.event)

    def _ended(self, event: ev.Event) -> None:
        if isinstance(event, ENDINGS) and event.run_id in self.open:
            self.open[event.run_id].token = 0
        if isinstance(event, OUTCOMES):
            self.open.pop(event.run_id, None)

    def _broke(self, happening: Happening, message: str, run_id: str = "") -> None:
        self.found.broke(
            message,
            Place(job_id=self.story.job_id, run_id=run_id, partition=happening.partition, offset=happening.offset),
        )

    def _version(self, version: int, happening: Happening) -> None:
        self.found.looked()
        if version <= self.version:
            self._broke(happening, f"version {version} after {self.version}")
        self.version = max(version, self.version)

    def _opened(self, event: ev.RunOpened, happening: Happening) -> None:
        self.found.looked()
        if event.job_version != self.version:
            self._broke(happening, f"opened under version {event.job_version} of {self.version}", event.run_id)
        if self.deleted:
            self._broke(happening, "opened after the job was deleted", event.run_id)
        if event.kind != "schedule" or self.definition is None:
            return
        if self.paused_from is not None:
            self._broke(happening, "opened while the job was paused", event.run_id)
        self._overlap(event, happening, self.definition)

    def _overlap(self, event: ev.RunOpened, happening: Happening, definition: Definition) -> None:
        """Runs beyond the limit wait, are replaced, or are not opened; only catch-up `all` makes them wait anyway."""
        others = [run for run in self.open.values() if run.opened.kind in _LIVE_KINDS]
        limit = 1 if definition.overlap != "allow" else definition.concurrent_runs_max or len(others) + 1
        if len(others) < limit:
            return
        beside = f"beside {others[0].opened.run_id} under overlap {definition.overlap}"
        caught_up = event.missed and definition.catch_up == "all"
        if not event.held:
            self._broke(happening, f"opened {beside}, and not held", event.run_id)
        elif definition.overlap in {"skip", "allow"} and not caught_up:
            self._broke(happening, f"opened {beside}", event.run_id)
        elif definition.overlap == "replace" and not caught_up and not all(run.cancelling for run in others):
            self._broke(happening, f"opened {beside}, which was not replaced", event.run_id)

    def _granted(self, event: ev.LeaseGranted, happening: Happening) -> None:
        run = self.open.get(event.run_id)
        if run is None:
            self._broke(happening, "leased, but not open", event.run_id)
            return
        self.found.looked()
        run.token = event.lease.lease_token
        if self.paused_from is not None and not run.opened.forced:
            self._broke(happening, "leased while the job was paused", event.run_id)
        if self.deleted:
            self._broke(happening, "leased after the job was deleted", event.run_id)
        if run.held:
            self._broke(happening, "leased while held behind another run", event.run_id)
        cause = happening.cause
        asked = self.asked_versions.get((cause.partition, cause.offset, cause.index), 0)
        if asked not in {0, self.version}:
            self._broke(happening, f"leased on an offer of version {asked} of {self.version}", event.run_id)

    def _skipped(
        self, reason: str, last_at_ms: int, blocked_by: str, happening: Happening, decision: list[ev.Event]
    ) -> None:
        self.found.looked()
        deadline_ms = self.definition.start_deadline_ms if self.definition else 0
        entry = [type(event) for event in decision]
        holds = {
            "overlap": blocked_by in self.open,
            "start_deadline": 0 < deadline_ms <= happening.now_ms - last_at_ms,
            "paused": self.paused_from is not None or ev.JobResumed in entry,
            "superseded": ev.JobEdited in entry or ev.JobDefined in entry,
            "deleted": ev.JobDeleted in entry,
        }.get(reason, True)
        if not holds:
            self._broke(happening, f"skipped for {reason}, which does not hold")


def rules_hold(case: Case, found: Findings) -> None:
    """I13: pause, overlap, start deadline, edit and delete are kept, from history alone."""
    for story in case.stories:
        if not story.whole:
            found.left_out("history begins inside the job's life")
            continue
        rules = _Rules(case, story, found)
        for _, group in itertools.groupby(story.happenings, key=lambda h: (h.partition, h.offset)):
            happenings = list(group)
            decision = [happening.event for happening in happenings]
            for happening in happenings:
                rules.take(happening, decision)
