"""Policies, judged from history, commands and answers: the second half of I13.

Retries, time-outs, start deadlines, pauses, triggers, skipped slots, cancels, replays, backfills, deletions, versions.
It shares no code with `decide`: bounds and formulas stand here a second time, as DESIGN sections 5, 7 and 10 give them.
One `_Life` follows one job event by event; what needs the commands, the oracle or the end of the log comes after.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from streams.audit.oracle import occurrences
from streams.audit.report import Place
from streams.audit.stories import OUTCOMES
from streams.core import events as ev
from streams.core.commands import (
    CancelRun,
    Define,
    Delete,
    Heartbeat,
    Pause,
    ReplayRun,
    Reply,
    Resume,
    SkipSlot,
    StartBackfill,
    StopBackfill,
    Trigger,
)

if TYPE_CHECKING:
    from streams.audit.case import Case
    from streams.audit.report import Findings
    from streams.audit.stories import Happening, JobStory
    from streams.core.commands import AnyCommand
    from streams.core.definition import Definition, Retry

_BACKOFF_CEILING_MS: Final = 600_000
_REPLAYS_MAX: Final = 10
_CANCEL_GRACE_MS: Final = 30_000
_LIVE_KINDS: Final = ("schedule", "trigger")


_Commands = dict[tuple[int, int, int], "AnyCommand"]
"""By partition, offset and index."""


class _Open(msgspec.Struct):
    """A run between its opening and its outcome."""

    opened: ev.RunOpened
    opened_at_ms: int
    held: bool
    attempt: int = 0
    lease: ev.LeaseGranted | None = None
    cancelling_from_ms: int = 0
    ended: ev.RunFailed | ev.LeaseExpired | None = None
    """The attempt's end that still needs its verdict."""


class _Backfill(msgspec.Struct):
    """A range that is being worked through."""

    started: ev.BackfillStarted
    from_ms: int
    definition: Definition
    opened: list[int] = []
    opened_last_at_ms: int = 0
    edited: bool = False
    moved: bool = False
    """A part of it was decided under other zone data than the oracle has."""


class _Life:
    """One job's policies, followed event by event; reports each step that they forbid."""

    def __init__(self, case: Case, story: JobStory, commands: _Commands, found: Findings) -> None:
        self.case, self.story, self.commands, self.found = case, story, commands, found
        self.definition: Definition | None = None
        self.version = 0
        self.paused: tuple[int, int] | None = None
        """Since when, and until when (0: until resumed)."""
        self.pauses: list[tuple[int, int]] = []
        """From and to which occurrences were paused ones, inclusive."""
        self.open: dict[str, _Open] = {}
        self.dead: dict[str, tuple[ev.RunOpened, bool]] = {}
        """With whether it was replayed."""
        self.skips: dict[int, Happening] = {}
        self.backfills: dict[str, _Backfill] = {}
        self.occurrences = 0
        self._since: Happening | None = None

    # --- following ---

    def take(self, happening: Happening, decision: list[ev.Event]) -> None:  # noqa: C901, PLR0912 - one flat table
        """Follow one event; `decision` is all of its history entry."""
        self.found.looked()
        self._since = happening
        self._note_zone_data(happening)
        match happening.event:
            case ev.JobDefined() | ev.JobEdited() as event:
                self._defined(event, happening)
            case ev.JobDeleted() as event:
                self._deleted(event, happening)
            case ev.JobPaused() as event:
                since_ms = event.at_ms if self.paused is None else self.paused[0]
                self.paused = (since_ms, event.until_ms)
            case ev.JobResumed() as event:
                self._resumed(event)
            case ev.JobFinished():
                self.paused = None
            case ev.RunOpened() as event:
                self._opened(event, happening, decision)
            case ev.RunUnheld() as event:
                self._unheld(event.run_id)
            case ev.LeaseGranted() as event:
                self._granted(event, happening)
            case ev.LeaseReleased() as event:
                self._released(event.run_id)
            case ev.LeaseExpired() as event:
                self._expired(event, happening)
            case ev.RunFailed() as event:
                self._attempt_ended(event)
            case ev.RunRetried() as event:
                self._retried(event)
            case ev.RunCancelRequested() as event:
                self._replacing(event.reason, event.run_id)
                self._run(event.run_id).cancelling_from_ms = event.at_ms
            case ev.OccurrencesSkipped() as event:
                self._skipped(event, happening)
            case ev.SlotSkipRequested() as event:
                self._versioned(happening, self.version)
                self.skips[event.slot_at_ms] = happening
            case ev.BackfillStarted() as event:
                self._backfill_started(event, happening)
                self._note_zone_data(happening)
            case ev.BackfillMoved(cursor_at_ms=None) as moved:
                self._backfill_ended(moved.backfill_id, "completed")
            case ev.BackfillEnded() as event:
                self._backfill_ended(event.backfill_id, event.reason)
            case ev.DeadRunReplayed() as event:
                self._replayed(event, decision)
            case _:
                pass
        self._outcome(happening)

    def decided(self, entry: list[ev.Event]) -> None:
        """Close one decision: an attempt that ended in it has its verdict in it."""
        for run_id, run in self.open.items():
            if run.ended is not None:
                self._broke(f"{type(entry[-1]).__name__} leaves an ended attempt without a verdict", run_id)

    def _broke(self, message: str, run_id: str = "") -> None:
        since = self._since
        place = Place(job_id=self.story.job_id, run_id=run_id)
        if since is not None:
            place = Place(self.story.job_id, run_id, since.partition, since.offset)
        self.found.broke(message, place)

    def _run(self, run_id: str) -> _Open:
        """Give an open run; one that never was opened is I5's and I2's to report."""
        found = self.open.get(run_id)
        if found is None:
            opened = ev.RunOpened(
                run_id=run_id, kind="trigger", scheduled_at_ms=0, due_at_ms=0, at_ms=0, job_version=0, lane="normal"
            )
            found = _Open(opened, 0, held=False)
        return found

    # --- definitions ---

    def _defined(self, event: ev.JobDefined | ev.JobEdited, happening: Happening) -> None:
        if isinstance(event, ev.JobEdited):
            self._versioned(happening, self.version)
            for backfill in self.backfills.values():
                backfill.edited = True
        else:
            self.occurrences, self.skips, self.paused = 0, {}, None
        self.definition, self.version = event.definition, event.version

    def _versioned(self, happening: Happening, version: int) -> None:
        """An edit, deletion or skip that names a version has its effect on that version only."""
        cause = happening.cause
        command = self.commands.get((cause.partition, cause.offset, cause.index))
        if isinstance(command, Define | Delete | SkipSlot) and command.expected_version not in {0, version}:
            self._broke(f"{cause.name} of version {command.expected_version} changed version {version}")

    def _deleted(self, event: ev.JobDeleted, happening: Happening) -> None:
        self._versioned(happening, self.version)
        self.version, self.paused, self.skips = event.version, None, {}
        for run_id, run in self.open.items():
            if run.lease is None:
                self._broke("deleted, but a run was left waiting", run_id)
            elif not run.cancelling_from_ms:
                self._broke("deleted, but the worker of a leased run was not told to stop", run_id)
        if self.backfills:
            self._broke("deleted, but a backfill was left going")

    # --- openings ---

    def _opened(self, event: ev.RunOpened, happening: Happening, decision: list[ev.Event]) -> None:
        definition = self.definition
        if definition is None:
            return
        if event.kind == "schedule":
            self._opened_by_schedule(event, definition)
        elif event.kind == "trigger":
            self._opened_by_trigger(event, happening, definition)
        elif event.kind == "replay":
            self._opened_by_replay(event, decision)
        else:
            self._opened_by_backfill(event)
        self.open[event.run_id] = _Open(event, event.at_ms, event.held)

    def _opened_by_schedule(self, event: ev.RunOpened, definition: Definition) -> None:
        self.occurrences += 1
        if definition.max_runs and self.occurrences > definition.max_runs:
            self._broke(f"occurrence {self.occurrences} of at most {definition.max_runs} opened", event.run_id)
        if event.scheduled_at_ms in self.skips:
            self._broke("opened although somebody asked to skip it", event.run_id)
        if any(first <= event.scheduled_at_ms <= last for first, last in self.pauses):
            self._broke("opened although it fell due in a pause", event.run_id)
        if event.lane != definition.lane:
            self._broke(f"opened in lane {event.lane} instead of {definition.lane}", event.run_id)
        deadline_ms = definition.start_deadline_ms
        if deadline_ms and event.at_ms >= event.scheduled_at_ms + deadline_ms:
            self._broke("opened at or after its start deadline", event.run_id)

    def _opened_by_trigger(self, event: ev.RunOpened, happening: Happening, definition: Definition) -> None:
        if happening.cause.name != "Trigger":
            self._broke(f"a trigger's run was opened by {happening.cause.name}", event.run_id)
        if event.forced:
            if event.held:
                self._broke("a forced trigger was held", event.run_id)
            return
        if self.paused is not None:
            self._broke("triggered without force while the job was paused", event.run_id)
        others = self._live()
        if len(others) < self._limit(definition):
            return
        if definition.overlap in ("skip", "allow"):
            self._broke(f"triggered beside {others[0].opened.run_id} under overlap {definition.overlap}", event.run_id)
        elif not event.held:
            self._broke(f"triggered beside {others[0].opened.run_id}, and not held", event.run_id)
        elif definition.overlap == "replace" and not all(run.cancelling_from_ms for run in others):
            self._broke(f"triggered beside {others[0].opened.run_id}, which was not replaced", event.run_id)

    def _opened_by_replay(self, event: ev.RunOpened, decision: list[ev.Event]) -> None:
        announced = any(isinstance(item, ev.DeadRunReplayed) and item.run_id == event.replay_of for item in decision)
        if not announced or event.replay_of not in self.dead:
            self._broke(f"replays {event.replay_of!r}, which is no dead run that was taken for it", event.run_id)
            return
        dead, _ = self.dead[event.replay_of]
        if event.replays != dead.replays + 1:
            self._broke(f"replay {event.replays} of a run with {dead.replays}", event.run_id)
        if event.replays > _REPLAYS_MAX:
            self._broke(f"replay {event.replays} of at most {_REPLAYS_MAX}", event.run_id)
        if event.scheduled_at_ms != dead.scheduled_at_ms or event.payload != dead.payload:
            self._broke("a replay with another instant or payload than the dead run's", event.run_id)

    def _replayed(self, event: ev.DeadRunReplayed, decision: list[ev.Event]) -> None:
        dead = self.dead.get(event.run_id)
        if dead is None or dead[1]:
            self._broke("replayed, but it is not dead, or it was replayed before", event.run_id)
        else:
            self.dead[event.run_id] = (dead[0], True)
        if not any(isinstance(item, ev.RunOpened) and item.replay_of == event.run_id for item in decision):
            self._broke("taken from the dead without a run in its place", event.run_id)

    def _live(self) -> list[_Open]:
        return [run for run in self.open.values() if run.opened.kind in _LIVE_KINDS]

    def _limit(self, definition: Definition) -> int:
        if definition.overlap != "allow":
            return 1
        return definition.concurrent_runs_max or self.case.limits.open_runs_max

    def _unheld(self, run_id: str) -> None:
        """Queued runs go in their order, as many as there is room for."""
        waiting = [run.opened.run_id for run in self._live() if run.held]
        if waiting and run_id in waiting and run_id != waiting[0]:
            self._broke(f"let go before {waiting[0]}, which waits longer", run_id)
        going = sum(1 for run in self._live() if not run.held)
        if self.definition is not None and going >= self._limit(self.definition):
            self._broke(f"let go while {going} runs are going", run_id)
        self._run(run_id).held = False

    # --- skips and pauses ---

    def _skipped(self, event: ev.OccurrencesSkipped, happening: Happening) -> None:
        definition = self.definition
        if event.reason == "requested":
            asked = self.skips.pop(event.first_at_ms, None)
            if asked is None and happening.cause.name != "SkipSlot":
                self._broke(f"occurrence {event.first_at_ms} skipped on request, but nobody asked")
            if asked is None:
                self._versioned(happening, self.version)
            if event.count != 1:
                self._broke(f"{event.count} occurrences skipped on a request for one")
        elif event.reason == "overlap" and definition is not None:
            self._skipped_for_overlap(definition)
        elif event.reason == "catch_up" and definition is not None and definition.catch_up == "all":
            self._broke("skipped as missed under catch-up all")
        if event.reason not in ("gap", "calendar"):
            for at_ms in [at_ms for at_ms in self.skips if at_ms <= event.last_at_ms]:
                del self.skips[at_ms]

    def _skipped_for_overlap(self, definition: Definition) -> None:
        if definition.overlap in ("queue", "replace"):
            self._broke(f"skipped for overlap under overlap {definition.overlap}")
        elif len(self._live()) < self._limit(definition):
            self._broke(f"skipped for overlap beside {len(self._live())} of {self._limit(definition)} runs")

    def _resumed(self, event: ev.JobResumed) -> None:
        if self.paused is not None:
            from_ms, until_ms = self.paused
            if event.note == "until" and until_ms:
                if event.at_ms < until_ms:
                    self._broke(f"resumed by its end {until_ms} before that")
                self.pauses.append((from_ms + 1, until_ms - 1))
            else:
                self.pauses.append((from_ms + 1, event.at_ms))
        self.paused = None

    # --- attempts ---

    def _granted(self, event: ev.LeaseGranted, happening: Happening) -> None:
        run, definition = self._run(event.run_id), self.definition
        run.lease, run.attempt = event, event.attempt
        if run.cancelling_from_ms:
            self._broke("leased although a cancel was asked for", event.run_id)
        if definition is None:
            return
        if event.attempt > definition.retry.max_attempts:
            wanted = f"attempt {event.attempt} of at most {definition.retry.max_attempts}"
            # An edit may lower the number while an attempt waits; that one still runs.
            if not self._edited_since(run):
                self._broke(wanted, event.run_id)
        from_ms = run.opened_at_ms if run.opened.kind in ("backfill", "replay") else run.opened.scheduled_at_ms
        if definition.start_deadline_ms and happening.now_ms >= from_ms + definition.start_deadline_ms:
            self._broke("leased at or after its start deadline", event.run_id)
        timeout_at_ms = event.lease.granted_at_ms + definition.timeout_ms if definition.timeout_ms else 0
        if event.lease.timeout_at_ms != timeout_at_ms:
            self._broke(f"times out at {event.lease.timeout_at_ms} instead of {timeout_at_ms}", event.run_id)

    def _edited_since(self, run: _Open) -> bool:
        return run.opened.job_version != self.version

    def _released(self, run_id: str) -> None:
        run = self._run(run_id)
        run.lease, run.attempt = None, max(0, run.attempt - 1)

    def _expired(self, event: ev.LeaseExpired, happening: Happening) -> None:
        run = self._run(event.run_id)
        timeout_at_ms = run.lease.lease.timeout_at_ms if run.lease is not None else 0
        if event.reason == "timeout" and not 0 < timeout_at_ms < happening.now_ms:
            self._broke(f"timed out, but its time ends at {timeout_at_ms}", event.run_id)
        if event.reason == "timeout" and not event.counted:
            self._broke("timed out, but the attempt does not count", event.run_id)
        grace_ms = run.cancelling_from_ms + _CANCEL_GRACE_MS
        if event.reason == "cancel_grace" and not (run.cancelling_from_ms and happening.now_ms > grace_ms):
            self._broke("ended for a cancel whose grace was not over", event.run_id)
        self._too_long(run, happening)
        self._attempt_ended(event)

    def _attempt_ended(self, event: ev.RunFailed | ev.LeaseExpired) -> None:
        run = self._run(event.run_id)
        run.ended, run.lease = event, None

    def _retried(self, event: ev.RunRetried) -> None:
        run, definition = self._run(event.run_id), self.definition
        ended, run.ended = run.ended, None
        if run.cancelling_from_ms:
            self._broke("retried although a cancel was asked for", event.run_id)
        if definition is None or ended is None:
            return
        if isinstance(ended, ev.LeaseExpired) and not ended.counted:
            run.attempt = max(0, run.attempt - 1)
            if event.due_at_ms != event.at_ms:
                self._broke("an attempt that did not count is not ready at once", event.run_id)
            return
        if isinstance(ended, ev.RunFailed) and not ended.retryable:
            self._broke("retried after a failure that is final", event.run_id)
        if definition.retry.backoff == "none" or ended.attempt >= definition.retry.max_attempts:
            self._broke(f"retried after attempt {ended.attempt}, which was the last", event.run_id)
        low_ms, high_ms = _waits(definition.retry, ended.attempt)
        if not low_ms <= event.due_at_ms - event.at_ms <= high_ms:
            self._broke(
                f"waits {event.due_at_ms - event.at_ms} ms for its retry, allowed are {low_ms} to {high_ms}",
                event.run_id,
            )

    def _outcome(self, happening: Happening) -> None:
        event = happening.event
        if not isinstance(event, OUTCOMES):
            return
        run = self.open.pop(event.run_id, None)
        if run is None:
            return
        match event:
            case ev.RunDied():
                self._died(event, run)
            case ev.RunSkipped():
                if run.lease is not None or run.cancelling_from_ms:
                    self._broke("skipped although a worker has it", event.run_id)
            case ev.RunCancelled():
                self._replacing(event.reason, event.run_id)
                if event.lease_token and not run.cancelling_from_ms:
                    self._broke("cancelled under a worker that was never told", event.run_id)
                self._too_long(run, happening)
            case _:
                self._too_long(run, happening)

    def _died(self, event: ev.RunDied, run: _Open) -> None:
        definition, ended = self.definition, run.ended
        self.dead[event.run_id] = (run.opened, False)
        if run.cancelling_from_ms:
            self._broke("dead although a cancel was asked for", event.run_id)
        if definition is None or ended is None:
            return
        final = isinstance(ended, ev.RunFailed) and not ended.retryable
        if not final and definition.retry.backoff != "none" and ended.attempt < definition.retry.max_attempts:
            self._broke(f"dead after attempt {ended.attempt} of {definition.retry.max_attempts}", event.run_id)
        if isinstance(ended, ev.LeaseExpired) and not ended.counted:
            self._broke("dead after an attempt that did not count", event.run_id)

    def _too_long(self, run: _Open, happening: Happening) -> None:
        """A time-out or a cancel's grace ends a lease soon after, unless a fault kept its owner from it."""
        if run.lease is None:
            return
        bounds_ms = [run.lease.lease.timeout_at_ms] if run.lease.lease.timeout_at_ms else []
        if run.cancelling_from_ms:
            bounds_ms.append(run.cancelling_from_ms + _CANCEL_GRACE_MS)
        for bound_ms in bounds_ms:
            late_ms = happening.timestamp_ms - bound_ms - self.case.limits.ended_or_leased_within_ms
            if late_ms > 0 and not self.case.faults.touching(bound_ms, happening.timestamp_ms):
                self._broke(f"leased until long after {bound_ms}, the bound of its attempt", run.opened.run_id)

    def _replacing(self, reason: str, run_id: str) -> None:
        if reason == "replaced" and self.definition is not None and self.definition.overlap != "replace":
            self._broke(f"replaced under overlap {self.definition.overlap}", run_id)

    # --- backfills ---

    def _backfill_started(self, event: ev.BackfillStarted, happening: Happening) -> None:
        cause = happening.cause
        command = self.commands.get((cause.partition, cause.offset, cause.index))
        from_ms = command.from_ms if isinstance(command, StartBackfill) else event.cursor_at_ms
        if isinstance(command, StartBackfill) and command.until_ms != event.until_ms:
            self._broke(f"backfill {event.backfill_id} ends at {event.until_ms}, asked was {command.until_ms}")
        if self.definition is not None:
            self.backfills[event.backfill_id] = _Backfill(event, from_ms, self.definition, opened=[])

    def _note_zone_data(self, happening: Happening) -> None:
        for backfill in self.backfills.values() if happening.other_zone_data else ():
            backfill.moved = True

    def _opened_by_backfill(self, event: ev.RunOpened) -> None:
        backfill = next(
            (item for name, item in self.backfills.items() if event.run_id.startswith(self._prefix(name))), None
        )
        if backfill is None:
            self._broke("a backfill's run without a backfill", event.run_id)
            return
        if self.paused is not None:
            self._broke("a backfill's run was opened while the job was paused", event.run_id)
        going = sum(run_id.startswith(self._prefix(backfill.started.backfill_id)) for run_id in self.open)
        if going >= backfill.started.concurrent_runs_max:
            self._broke(f"{going} runs of its backfill are open already", event.run_id)
        if event.lane != "low":
            self._broke(f"a backfill's run in lane {event.lane}", event.run_id)
        if backfill.opened and event.scheduled_at_ms <= backfill.opened[-1]:
            self._broke("a backfill goes backwards", event.run_id)
        if backfill.opened and event.at_ms < backfill.opened_last_at_ms + backfill.started.interval_ms:
            self._broke("a backfill's run was opened before its rate allows it", event.run_id)
        backfill.opened.append(event.scheduled_at_ms)
        backfill.opened_last_at_ms = event.at_ms

    def _prefix(self, backfill_id: str) -> str:
        return f"run_{self.story.job_id}_{backfill_id}."

    def _backfill_ended(self, backfill_id: str, reason: str) -> None:
        backfill = self.backfills.pop(backfill_id, None)
        if backfill is None:
            self._broke(f"backfill {backfill_id} ended, but it was not going")
        elif backfill.edited:
            self.found.left_out("the schedule was edited during a backfill")
        elif backfill.moved:
            self.found.left_out("zone data changed")
        else:
            self._backfill_complete(backfill, whole=reason == "completed")

    def _backfill_complete(self, backfill: _Backfill, *, whole: bool) -> None:
        """What was opened are the range's occurrences by the oracle: all of them, or as far as it came."""
        expected = occurrences(backfill.definition, backfill.from_ms - 1, backfill.started.until_ms)
        if expected is None:
            self.found.left_out("schedule unknown to the oracle")
            return
        self.found.looked(len(expected))
        wanted = expected if whole else expected[: len(backfill.opened)]
        if backfill.opened != wanted:
            self._broke(
                f"backfill {backfill.started.backfill_id} opened {len(backfill.opened)} of {len(expected)}: "
                f"first difference {_difference(backfill.opened, wanted)}"
            )

    # --- the end of the log ---

    def over(self) -> None:
        """Judge what the end of the log leaves: nothing may hang."""
        case, definition = self.case, self.definition
        late_ms = case.view.end_at_ms - case.limits.ended_or_leased_within_ms
        for run_id, run in self.open.items():
            self._lease_over(run_id, run, late_ms)
        if self.paused is not None and 0 < self.paused[1] < late_ms:
            self._broke(f"paused at the end, though the pause ended at {self.paused[1]}")
        if definition is None or self.paused is not None or len(self.open) >= case.limits.open_runs_max:
            return
        self._backfills_over(late_ms)
        waiting = [run for run in self._live() if run.held]
        if waiting and len(waiting) == len(self._live()):
            self._broke("held although nothing is going", waiting[0].opened.run_id)

    def _lease_over(self, run_id: str, run: _Open, late_ms: int) -> None:
        if run.lease is None:
            return
        bound_ms = run.lease.lease.timeout_at_ms
        if bound_ms and bound_ms < late_ms:
            self._broke(f"leased at the end, though its time was over at {bound_ms}", run_id)
        if run.cancelling_from_ms and run.cancelling_from_ms + _CANCEL_GRACE_MS < late_ms:
            self._broke("leased at the end, though its cancel's grace is over", run_id)

    def _backfills_over(self, late_ms: int) -> None:
        for name, backfill in self.backfills.items():
            going = sum(run_id.startswith(self._prefix(name)) for run_id in self.open)
            since_ms = self._since.timestamp_ms if self._since else 0
            since_ms = max(since_ms, backfill.opened_last_at_ms + backfill.started.interval_ms)
            if going < backfill.started.concurrent_runs_max and since_ms < late_ms:
                self._broke(f"backfill {name} stands still with {going} open runs")
            if not backfill.edited and not backfill.moved:
                self._backfill_complete(backfill, whole=False)


def _waits(retry: Retry, attempt: int) -> tuple[int, int]:
    """Give the shortest and longest wait after an attempt, in ms (DESIGN section 10: full jitter)."""
    if retry.backoff == "fixed":
        return retry.delay_ms, retry.delay_ms
    return retry.delay_ms, max(retry.delay_ms, min(_BACKOFF_CEILING_MS, 1_000 * 2 ** min(attempt, 20)))


def _difference(opened: list[int], wanted: list[int]) -> str:
    for mine, other in itertools.zip_longest(opened, wanted):
        if mine != other:
            return f"{mine}, expected {other}"
    return "none"


def policies_hold(case: Case, found: Findings) -> None:
    """I13, second half: see the module's docstring."""
    commands: _Commands = {
        (item.record.partition, item.record.offset, index): command
        for item in case.view.commands
        for index, command in enumerate(item.batch.commands)
    }
    for story in case.stories:
        if not story.whole:
            continue  # counted as left out by the first half
        life = _Life(case, story, commands, found)
        for _, group in itertools.groupby(story.happenings, key=lambda h: (h.partition, h.offset)):
            happenings = list(group)
            decision = [happening.event for happening in happenings]
            for happening in happenings:
                life.take(happening, decision)
            life.decided(decision)
        life.over()
    _answers_true(case, found)


_CONTROLS: Final = (
    Define,
    Delete,
    Pause,
    Resume,
    Trigger,
    CancelRun,
    SkipSlot,
    ReplayRun,
    StartBackfill,
    StopBackfill,
)
"""What people ask for: each acknowledgement that is no repeat's stands for a decision in the log."""


def _answers_true(case: Case, found: Findings) -> None:
    """What was acknowledged is in the log, and a worker that must stop is told."""
    answers: dict[tuple[str, str], Reply] = {
        (item.batch.gateway_id, answer.request_id): answer.reply
        for item in case.view.replies
        for answer in item.batch.answers
        if isinstance(answer.reply, Reply)
    }
    asked = Counter(
        (item.batch.gateway_id, command.request_id) for item in case.view.commands for command in item.batch.commands
    )
    effects = {
        (item.entry.cause.partition, item.entry.cause.offset, item.entry.cause.index) for item in case.view.history
    }
    stops = _stops(case)
    for item in case.view.commands:
        for index, command in enumerate(item.batch.commands):
            key = (item.batch.gateway_id, command.request_id)
            reply = answers.get(key)
            if reply is None or asked[key] != 1:
                continue
            place = (item.record.partition, item.record.offset, index)
            if isinstance(command, Heartbeat):
                _told_to_stop(command, reply, place, stops, found)
            elif isinstance(command, _CONTROLS):
                _acknowledged(case, command, reply, effective=place in effects, found=found)


def _stops(case: Case) -> dict[tuple[str, int], tuple[int, int]]:
    """Give by run and token where a command asked for a cancel."""
    stops: dict[tuple[str, int], tuple[int, int]] = {}
    for run in case.runs:
        token = 0
        for happening in run.happenings:
            event = happening.event
            if isinstance(event, ev.LeaseGranted):
                token = event.lease.lease_token
            elif isinstance(event, ev.RunCancelRequested) and happening.cause.kind == "command":
                stops[run.run_id, token] = (happening.partition, happening.cause.offset)
    return stops


def _told_to_stop(
    command: Heartbeat,
    reply: Reply,
    place: tuple[int, int, int],
    stops: dict[tuple[str, int], tuple[int, int]],
    found: Findings,
) -> None:
    partition, offset = stops.get((command.run_id, command.lease_token), (-1, 0))
    if partition != place[0] or place[1] <= offset:
        return
    found.looked()
    if reply.code == "ok" and not reply.outcome and not reply.cancel:
        found.broke("a heartbeat was not told of the cancel", Place(command.job_id, command.run_id, *place[:2]))


def _acknowledged(case: Case, command: AnyCommand, reply: Reply, *, effective: bool, found: Findings) -> None:
    if reply.code not in ("ok", "created"):
        return
    found.looked()
    if not effective and not reply.replayed:
        found.broke(
            f"{type(command).__name__} was acknowledged, but it had no effect", Place(command.job_id, reply.run_id)
        )
    if isinstance(command, CancelRun):
        events = [h.event for run in case.runs_by_id.get(command.run_id, []) for h in run.happenings]
        if not any(isinstance(event, ev.RunCancelRequested | ev.RunCancelled) for event in events):
            found.broke("a cancel was acknowledged, but nobody was told", Place(command.job_id, command.run_id))
