"""Invariants about runs and their leases (I1, I3, I4, I5, I9, I10, I12)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from streams.audit.report import Findings, Lateness, Place, lateness_of
from streams.audit.stories import ENDINGS, OUTCOMES, outcome_of
from streams.core import events as ev
from streams.core.commands import Heartbeat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.audit.case import Case
    from streams.audit.journals import Execution
    from streams.audit.stories import Happening, JobStory, RunStory, Tenure
    from streams.core.envelopes import LeaseView


def never_early(case: Case, found: Findings) -> None:
    """I1: nothing is opened, leased or executed before its time, by the broker's clock."""
    for run in case.runs:
        due_ms = 0
        for happening in run.happenings:
            match happening.event:
                case ev.RunOpened() as opened:
                    due_ms = opened.due_at_ms
                    if opened.kind == "schedule":
                        _not_before(case, run, happening, opened.scheduled_at_ms, found)
                case ev.RunRetried() as retried:
                    due_ms = retried.due_at_ms
                case ev.LeaseGranted():
                    _not_before(case, run, happening, due_ms, found)
                case _:
                    pass
    for execution in case.journals.executions:
        found.looked()
        early_ms = execution.scheduled_at_ms - execution.started_at_ms - case.faults.clock_error_ms
        if early_ms > 0:
            found.broke(f"started {early_ms} ms before its time", Place(run_id=execution.run_id))


def _not_before(case: Case, run: RunStory, happening: Happening, due_ms: int, found: Findings) -> None:
    verb = "opened" if isinstance(happening.event, ev.RunOpened) else "leased"
    if case.faults.of_kind("broker_clock", happening.timestamp_ms):
        found.left_out("the broker's own clock was stepped")
        return
    found.looked()
    where = place_of(run, happening)
    if happening.timestamp_ms < due_ms:
        found.broke(f"{verb} {due_ms - happening.timestamp_ms} ms before its time by the broker's stamp", where)
    if happening.now_ms < due_ms:
        found.broke(f"{verb} {due_ms - happening.now_ms} ms before its time by its owner's own clock", where)
    if happening.now_ms > happening.timestamp_ms:
        found.broke(f"the owner's clock ran {happening.now_ms - happening.timestamp_ms} ms ahead", where)


def place_of(run: RunStory, happening: Happening) -> Place:
    """Give where something happened to a run."""
    return Place(run.job.job_id, run.run_id, happening.partition, happening.offset)


def one_lease(case: Case, found: Findings) -> None:
    """I3: at every offset a run has at most one live lease, and the public view says the same."""
    for run in case.runs:
        live = just_ended = 0
        for happening in run.happenings:
            event = happening.event
            where = place_of(run, happening)
            if isinstance(event, ev.LeaseGranted):
                found.looked()
                if live:
                    found.broke(f"token {event.lease.lease_token} granted while {live} lives", where)
                live = event.lease.lease_token
            elif isinstance(event, ENDINGS):
                verdict = isinstance(event, ev.RunCancelled) and event.lease_token == just_ended
                if event.lease_token != live and not (verdict and not live):
                    found.broke(f"{type(event).__name__} ends token {event.lease_token}, but {live} lives", where)
                live, just_ended = 0, event.lease_token
            elif isinstance(event, ev.RunDied | ev.RunSkipped | ev.RunRetried) and live:
                found.broke(f"{type(event).__name__} while token {live} lives", where)
    _view_agrees(case, found)


def _view_agrees(case: Case, found: Findings) -> None:
    """Compare topic `leases` with history: its newest word on each run, and every word where all are there."""
    seen: dict[str, list[LeaseView]] = defaultdict(list)
    for item in case.view.leases:
        if item.view is not None:
            seen[item.view.run_id].append(item.view)
    told: dict[str, list[Tenure]] = defaultdict(list)
    for run, tenure in case.each_tenure():
        told[run.run_id].append(tenure)
    for run_id in sorted(seen.keys() | told.keys()):
        views = sorted(seen.get(run_id, []), key=lambda view: (view.lease_token, view.closed is not None))
        if run_id not in told or run_id not in seen:
            if case.view.whole:
                found.broke(
                    "lease in history but not in the public view"
                    if run_id in told
                    else "lease only in the public view",
                    Place(run_id=run_id),
                )
            continue
        found.looked()
        newest, last = views[-1], told[run_id][-1]
        shown = (newest.lease_token, newest.closed)
        true = (last.token, _closing(last))
        if shown != true:
            found.broke(f"public view shows {shown}, history {true}", Place(run_id=run_id))
        if case.view.whole and len(case.runs_by_id[run_id]) == 1:
            _view_whole(run_id, views, told[run_id], found)


def _view_whole(run_id: str, views: list[LeaseView], told: list[Tenure], found: Findings) -> None:
    closed = [(view.lease_token, view.closed) for view in views if view.closed is not None]
    opened = [view.lease_token for view in views if view.closed is None]
    if sorted(set(opened)) != [tenure.token for tenure in told]:
        found.broke(f"public view opened tokens {opened}", Place(run_id=run_id))
    if closed != [(tenure.token, _closing(tenure)) for tenure in told if tenure.ended is not None]:
        found.broke(f"public view closed {closed}", Place(run_id=run_id))


def _closing(tenure: Tenure) -> str | None:
    if tenure.ended is None:
        return None
    names = {
        ev.RunSucceeded: "succeeded",
        ev.RunFailed: "failed",
        ev.LeaseReleased: "released",
        ev.LeaseExpired: "expired",
        ev.RunCancelled: "cancelled",
    }
    return names[type(tenure.ended.event)]


def tokens_rise(case: Case, found: Findings) -> None:
    """I4: a job's tokens rise with each grant; attempts go up by one for each that counted, and never fall."""
    for story in case.stories:
        last = 0
        for happening in story.happenings:
            if isinstance(happening.event, ev.LeaseGranted):
                token = happening.event.lease.lease_token
                found.looked()
                if token <= last:
                    found.broke(
                        f"token {token} after {last}",
                        Place(
                            job_id=story.job_id,
                            run_id=happening.event.run_id,
                            partition=happening.partition,
                            offset=happening.offset,
                        ),
                    )
                last = max(last, token)
        if story.whole:
            for run in story.runs.values():
                _attempts(run, found)
        else:
            found.left_out("history begins inside the job's life", len(story.runs))


def _attempts(run: RunStory, found: Findings) -> None:
    counted = 0
    for happening in run.happenings:
        match happening.event:
            case ev.LeaseGranted() as granted:
                found.looked()
                if granted.attempt != counted + 1:
                    found.broke(
                        f"attempt {granted.attempt} was granted after {counted} that counted", place_of(run, happening)
                    )
            case ev.RunFailed() as failed:
                counted = failed.attempt
            case ev.LeaseExpired() as expired if expired.counted:
                counted = expired.attempt
            case _:
                pass


def one_completion(case: Case, found: Findings) -> None:
    """I5: a run is completed at most once, under the token that lived, and each acknowledged completion is that one."""
    for run in case.runs:
        _completions(run, found)
        _nothing_after_the_end(run, found)
    succeeded = {
        (run.run_id, happening.event.lease_token)
        for run in case.runs
        for happening in run.happenings
        if isinstance(happening.event, ev.RunSucceeded)
    }
    for call in case.journals.calls:
        if call.name != "Complete" or not call.code:
            continue
        found.looked()
        accepted = (call.run_id, call.lease_token) in succeeded
        if call.code == "ok" and not accepted:
            found.broke(
                f"completion under token {call.lease_token} was acknowledged, but is not in the log",
                Place(job_id=call.job_id, run_id=call.run_id),
            )
        if call.code == "lease_lost" and accepted:
            found.broke(
                f"completion under token {call.lease_token} was refused, but is in the log",
                Place(job_id=call.job_id, run_id=call.run_id),
            )


def _completions(run: RunStory, found: Findings) -> None:
    live, completions = 0, 0
    for happening in run.happenings:
        event = happening.event
        if isinstance(event, ev.LeaseGranted):
            live = event.lease.lease_token
        elif isinstance(event, ev.RunSucceeded):
            found.looked()
            completions += 1
            where = place_of(run, happening)
            if event.lease_token != live:
                found.broke(f"completed under token {event.lease_token}, the live one was {live}", where)
            if completions > 1:
                found.broke("completed a second time", where)
            live = 0
        elif isinstance(event, ENDINGS):
            live = 0


def _nothing_after_the_end(run: RunStory, found: Findings) -> None:
    ended = outcome_of(run)
    if ended is None:
        return
    found.looked()
    after = run.happenings[run.happenings.index(ended) + 1 :]
    for happening in after:
        if not isinstance(happening.event, ev.DeadRunReplayed):
            found.broke(
                f"{type(happening.event).__name__} after {type(ended.event).__name__}", place_of(run, happening)
            )


def ends_in_time(case: Case, found: Findings) -> None:
    """I9: when the run is over, everything due has been opened, leased or ended within the bound."""
    heartbeats = _heartbeats(case)
    for story in case.stories:
        ending = _Ending(story)
        found.looked(len(story.runs) - len(ending.open))
        if not story.whole:
            found.left_out("history begins inside the job's life")
            continue
        for run in ending.open.values():
            _due_run(case, ending, run, heartbeats, found)
        _due_cursor(case, ending, found)


class _Ending:
    """How a job stood at the end of the log, folded here and not with `apply`."""

    def __init__(self, story: JobStory) -> None:
        self.story = story
        self.next_at_ms: int | None = None
        self.paused = False
        self.pause_until_ms = 0
        self.open: dict[str, RunStory] = {}
        for happening in story.happenings:
            self._take(happening.event)

    def _take(self, event: ev.Event) -> None:  # noqa: C901 - one flat table of events
        match event:
            case ev.JobDefined():
                self.next_at_ms, self.paused = event.next_at_ms, False
            case ev.JobEdited():
                self.next_at_ms = event.next_at_ms
            case ev.JobPaused():
                self.paused, self.pause_until_ms = True, event.until_ms
            case ev.JobResumed():
                self.next_at_ms, self.paused = event.next_at_ms, False
            case ev.OccurrencesSkipped():
                self.next_at_ms = event.next_at_ms
            case ev.CursorMoved():
                self.next_at_ms = event.to_at_ms
            case ev.RunOpened():
                self.open[event.run_id] = self.story.runs[event.run_id]
                if event.kind == "schedule":
                    self.next_at_ms = event.next_at_ms
            case ev.JobDeleted() | ev.JobForgotten() | ev.JobFinished():
                self.next_at_ms, self.paused = None, False
            case _ if isinstance(event, OUTCOMES):
                self.open.pop(event.run_id, None)
            case _:
                pass


def _heartbeats(case: Case) -> Mapping[tuple[str, int], list[int]]:
    """Give the LogAppendTimes of all heartbeats, by run and token, in milliseconds."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for item in case.view.commands:
        for command in item.batch.commands:
            if isinstance(command, Heartbeat):
                found[command.run_id, command.lease_token].append(item.record.timestamp_ms)
    return found


def _due_run(
    case: Case,
    ending: _Ending,
    run: RunStory,
    heartbeats: Mapping[tuple[str, int], list[int]],
    found: Findings,
) -> None:
    found.looked()
    bound_ms = case.limits.ended_or_leased_within_ms
    tenures = case.tenures(run)
    last = run.happenings[-1]
    if tenures and tenures[-1].ended is None:
        lease = tenures[-1].grant.lease
        heard_ms = max([lease.granted_at_ms, *heartbeats.get((run.run_id, lease.lease_token), ())])
        told_ms = [h.event.expires_at_ms for h in run.happenings if isinstance(h.event, ev.LeaseRenewed)]
        until_ms = max([heard_ms + _visibility_ms(run, tenures[-1]), *told_ms])
        late_ms = case.view.end_at_ms - until_ms - bound_ms
        message = f"silent lease {lease.lease_token} outlived its visibility by {late_ms + bound_ms} ms"
    else:
        late_ms = case.view.end_at_ms - _due_since(run) - bound_ms
        if ending.paused or (_held(run) and len(ending.open) > 1):
            return
        message = f"due and unleased for {late_ms + bound_ms} ms"
    if late_ms > 0:
        found.broke(message, place_of(run, last))


def _due_since(run: RunStory) -> int:
    """Give since when the run has been waiting: its due time, or its return if that is later."""
    since_ms = 0
    for happening in run.happenings:
        match happening.event:
            case ev.RunOpened() | ev.RunRetried() as event:
                since_ms = max(since_ms, event.due_at_ms)
            case ev.LeaseReleased() | ev.LeaseExpired() | ev.RunUnheld():
                since_ms = max(since_ms, happening.timestamp_ms)
            case _:
                pass
    return since_ms


def _held(run: RunStory) -> bool:
    opened = run.opened
    unheld = any(isinstance(happening.event, ev.RunUnheld) for happening in run.happenings)
    return opened is not None and opened.held and not unheld


def _due_cursor(case: Case, ending: _Ending, found: Findings) -> None:
    last = ending.story.happenings[-1]
    place = Place(job_id=ending.story.job_id, partition=last.partition, offset=last.offset)
    if ending.paused:
        late_ms = case.view.end_at_ms - ending.pause_until_ms - case.limits.ended_or_leased_within_ms
        if ending.pause_until_ms and late_ms > 0:
            found.broke(f"still paused, although the pause was to end at {ending.pause_until_ms}", place)
        return
    if ending.next_at_ms is None:
        return
    found.looked()
    late_ms = case.view.end_at_ms - ending.next_at_ms - case.limits.ended_or_leased_within_ms
    if late_ms <= 0:
        return
    if len(ending.open) >= case.limits.open_runs_max:
        found.left_out("the bound of open runs was reached")
        return
    found.broke(
        f"occurrence at {ending.next_at_ms} undecided for {late_ms + case.limits.ended_or_leased_within_ms} ms", place
    )


def duplicates_explained(case: Case, found: Findings) -> None:
    """I10: an execution beyond the first follows a reported failure, a time-out, or a fault in the lease before it."""
    by_run: dict[str, list[Execution]] = defaultdict(list)
    for execution in case.journals.executions:
        by_run[execution.run_id].append(execution)
    _expiries_proven(case, found)
    duplicates = 0
    for run_id, executions in by_run.items():
        found.looked(len(executions))
        leases = {tenure.token: tenure for run in case.runs_by_id.get(run_id, []) for tenure in case.tenures(run)}
        executions.sort(key=lambda execution: (execution.started_at_ms, execution.lease_token))
        for execution in executions:
            if execution.lease_token not in leases:
                found.broke(f"executed under token {execution.lease_token}, never granted", Place(run_id=run_id))
        for before in executions[:-1]:
            duplicates += _explain(case, run_id, before, leases.get(before.lease_token), found)
    limit = case.limits.duplicates_per_million
    if limit is not None and by_run and duplicates * 1_000_000 > limit * len(by_run):
        found.broke(f"{duplicates} duplicate executions of {len(by_run)} runs: over {limit} per million")


def _expiries_proven(case: Case, found: Findings) -> None:
    """DESIGN section 7: a lease expires past its end, and past every heartbeat that came before that end."""
    heartbeats = _heartbeats(case)
    for run, tenure in case.each_tenure():
        ended = tenure.ended
        if ended is None or not isinstance(ended.event, ev.LeaseExpired) or ended.event.reason != "expired":
            continue
        found.looked()
        expired, lease, visibility_ms = ended.event, tenure.grant.lease, _visibility_ms(run, tenure)
        ends_ms = expired.expires_at_ms
        if expired.heartbeat_at_ms:
            ends_ms = max(ends_ms, expired.heartbeat_at_ms + visibility_ms)
        if lease.granted_at_ms < expired.takeover_at_ms:
            ends_ms = max(ends_ms, expired.takeover_at_ms + visibility_ms)
        where = place_of(run, ended)
        if ended.timestamp_ms <= ends_ms or expired.consumed_to_ms <= ends_ms:
            found.broke(f"token {tenure.token} expired without evidence: it ended at {ends_ms}", where)
        for heard_ms in heartbeats.get((run.run_id, tenure.token), ()):
            if heard_ms <= ends_ms and heard_ms + visibility_ms >= ended.timestamp_ms:
                found.broke(f"token {tenure.token} expired although it was heard from at {heard_ms}", where)


def _visibility_ms(run: RunStory, tenure: Tenure) -> int:
    """Give the length that a lease had when it ended, or has now: a heartbeat may have asked for another one."""
    visibility_ms = tenure.grant.lease.visibility_ms
    for happening in run.happenings:
        event = happening.event
        if isinstance(event, ev.LeaseRenewed) and event.lease_token == tenure.token and event.visibility_ms:
            visibility_ms = event.visibility_ms
    return visibility_ms


def _explain(case: Case, run_id: str, before: Execution, tenure: Tenure | None, found: Findings) -> int:
    """Judge the execution that was followed by another; 1 if that other one was a duplicate."""
    if tenure is None:
        return 1
    ended = tenure.ended
    if ended is not None and isinstance(ended.event, ev.RunFailed):
        return 0
    if ended is not None and isinstance(ended.event, ev.LeaseExpired) and ended.event.reason == "timeout":
        return 0  # the job's own bound of an attempt; another attempt is what its author asked for
    until_ms = case.view.end_at_ms if ended is None else ended.timestamp_ms
    if not case.faults.touching(tenure.granted.timestamp_ms, until_ms):
        found.broke(
            f"executed again after token {before.lease_token} without any fault in its lease",
            Place(tenure_job(tenure), run_id, tenure.granted.partition, tenure.granted.offset),
        )
    return 1


def tenure_job(tenure: Tenure) -> str:
    """Give the job of a lease, for messages."""
    return tenure.grant.run_id.rpartition("_")[0].removeprefix("run_")


def fair(case: Case, found: Findings) -> None:
    """I12: the named tenants stay on time, whatever others do."""
    found.expected = bool(case.limits.fair_tenants)
    late = lateness_by_tenant(case)
    for tenant in case.limits.fair_tenants:
        row = late.get(tenant, Lateness())
        found.looked(row.runs)
        if row.runs == 0:
            found.broke(f"tenant {tenant} had no run to judge")
        elif row.p99_ms > case.limits.fair_lateness_p99_ms:
            found.broke(f"tenant {tenant}: p99 lateness {row.p99_ms} ms over {case.limits.fair_lateness_p99_ms}")


def lateness_by_tenant(case: Case) -> dict[str, Lateness]:
    """Give the lateness of first grants of scheduled runs, by tenant; under "" that of all."""
    values: dict[str, list[int]] = defaultdict(list)
    for run in case.runs:
        opened, leases = run.opened, case.tenures(run)
        if opened is None or opened.kind != "schedule" or not leases:
            continue
        late_ms = leases[0].granted.timestamp_ms - opened.scheduled_at_ms
        values[""].append(late_ms)
        if run.definition is not None:
            values[run.definition.tenant].append(late_ms)
    return {tenant: lateness_of(rows) for tenant, rows in values.items()}
