"""Why a run did or will or did not happen, from the present state of its job (docs/http-api.md, Explanation). Pure.

Conditions stand in the order in which they decide; the first that does not hold is the reason. The offsets that prove
each condition are in topic `history`, which the gateway does not read: `evidence` is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from api.instants import instant_text
from api.problems import OUTCOME
from streams.core.identity import run_id_at
from streams.core.state import ClosedRun
from streams.core.time import INSTALLED_ZONE_DATA, Jitter, Window, compile_schedule

if TYPE_CHECKING:
    from streams.core.definition import Definition
    from streams.core.state import Job, OpenRun

_SKIPPED: Final = {
    "overlap": "skipped_overlap",
    "start_deadline": "skipped_start_deadline",
    "catch_up": "skipped_catch_up",
    "paused": "paused",
}


class Polling(NamedTuple):
    """What this gateway knows of the queue's workers."""

    calls: int
    slots: int


class _Explanation:
    """Collects conditions."""

    def __init__(self, job: Job, at_ms: int | None, run_id: str | None) -> None:
        self.job, self.at_ms, self.run_id = job, at_ms, run_id
        self.conditions: list[dict[str, Any]] = []

    def holds(self, name: str, *, holds: bool, detail: str) -> bool:
        """Note a condition; give whether it holds."""
        self.conditions.append({"name": name, "holds": holds, "detail": detail, "evidence": None})
        return holds

    def done(self, situation: str, summary: str) -> dict[str, Any]:
        """Give the answer."""
        return {
            "jobId": self.job.state.job_id,
            "at": None if self.at_ms is None else instant_text(self.at_ms),
            "runId": self.run_id,
            "situation": situation,
            "summary": summary,
            "conditions": self.conditions,
        }


def explain(job: Job, at_ms: int | None, polling: Polling, now_ms: int) -> dict[str, Any]:
    """Explain the occurrence at an instant; None: the open run, else the next occurrence, else the last one."""
    run = _run_at(job, at_ms)
    if run is not None:
        out = _Explanation(job, run.scheduled_at_ms, run.run_id)
        out.holds("occurrence_scheduled", holds=True, detail=f"scheduled for {instant_text(run.scheduled_at_ms)}")
        if isinstance(run, ClosedRun):
            return _closed(out, run)
        return _open(out, run, polling, now_ms)
    return _not_opened(job, at_ms, now_ms)


def _run_at(job: Job, at_ms: int | None) -> OpenRun | ClosedRun | None:
    state = job.state
    if at_ms is None:
        if state.open:
            return min(state.open, key=lambda run: run.due_at_ms)
        if state.next_at_ms is None and state.closed:
            return state.closed[-1]
        return None
    runs: list[OpenRun | ClosedRun] = [*state.open, *reversed(state.closed), *reversed(state.dead)]
    return next((run for run in runs if run.scheduled_at_ms == at_ms), None)


def _not_opened(job: Job, at_ms: int | None, now_ms: int) -> dict[str, Any]:
    state = job.state
    asked_ms = at_ms if at_ms is not None else state.next_at_ms
    out = _Explanation(job, asked_ms, None if asked_ms is None else run_id_at(state.job_id, asked_ms))
    if not out.holds("job_exists", holds=state.status != "deleted", detail=f"the job is {state.status}"):
        return out.done("job_deleted", "The job was deleted; nothing runs any more.")
    if state.pause is not None:
        since = instant_text(state.pause.paused_at_ms)
        out.holds("job_not_paused", holds=False, detail=f"paused by {state.pause.actor or 'somebody'} at {since}")
        return out.done("paused", "The job is paused: nothing is opened until it is resumed.")
    out.holds("job_not_paused", holds=True, detail="the job is not paused")
    if asked_ms is None:
        out.holds("occurrence_scheduled", holds=False, detail="the schedule has no further occurrence")
        return out.done("not_scheduled", "Nothing is scheduled any more; older runs are in topic history.")
    if state.next_at_ms is None or asked_ms < state.next_at_ms:
        return _past(out, asked_ms)
    if asked_ms != state.next_at_ms:
        out.holds("occurrence_scheduled", holds=False, detail=f"the next one is {instant_text(state.next_at_ms)}")
        return out.done("not_scheduled", "This is not the next occurrence; see preview for later ones.")
    out.holds("occurrence_scheduled", holds=True, detail=f"scheduled for {instant_text(asked_ms)}")
    wait_ms = asked_ms - now_ms
    out.holds("occurrence_due", holds=wait_ms <= 0, detail=f"due in {max(wait_ms, 0) / 1000:g} s")
    return out.done("will_run_at", f"Will run at {instant_text(asked_ms)}.")


def _past(out: _Explanation, asked_ms: int) -> dict[str, Any]:
    """An instant before the cursor without a run in the state."""
    state, definition = out.job.state, out.job.definition
    scheduled = definition is not None and asked_ms >= state.created_at_ms and _is_occurrence(definition, asked_ms)
    at = instant_text(asked_ms)
    if not out.holds("occurrence_scheduled", holds=scheduled, detail=f"{at} under the present schedule"):
        return out.done("not_scheduled", f"Nothing is scheduled for {at} under the present schedule.")
    blocking = _open_at(out.job, asked_ms)
    if definition is not None and definition.overlap == "skip" and blocking is not None:
        out.holds("overlap_allows", holds=False, detail=f"run {blocking} was open at {at}")
        return out.done("skipped_overlap", f"Skipped: {blocking} was still open (overlap skip).")
    out.holds("remembered", holds=False, detail="the state keeps the last runs only; topic history has all")
    return out.done("not_remembered", f"The record of {at} is older than the job's state keeps; see topic history.")


def _is_occurrence(definition: Definition, at_ms: int) -> bool:
    schedule = compile_schedule(
        definition.schedule,
        job_id=definition.job_id,
        window=Window(definition.start_at_ms, definition.end_at_ms),
        jitter=Jitter(definition.jitter_kind, definition.jitter_ms),
        zone_data=INSTALLED_ZONE_DATA,
    )
    occurrence = schedule.next_after(at_ms - 1)
    return occurrence is not None and occurrence.at_ms == at_ms


def _open_at(job: Job, at_ms: int) -> str | None:
    """Give a run that was open at an instant."""
    for run in job.state.open:
        if run.scheduled_at_ms < at_ms:
            return run.run_id
    for closed in (*job.state.closed, *job.state.dead):
        if closed.scheduled_at_ms < at_ms < closed.closed_at_ms:
            return closed.run_id
    return None


def _closed(out: _Explanation, run: ClosedRun) -> dict[str, Any]:
    outcome = OUTCOME.get(run.outcome, run.outcome)
    at = instant_text(run.closed_at_ms)
    if outcome == "ran":
        out.holds("completed", holds=True, detail=f"attempt {run.attempt} completed at {at}")
        return out.done("ran", f"Ran; attempt {run.attempt} completed at {at}.")
    out.holds("completed", holds=False, detail=f"{outcome} at {at}: {run.reason or run.error or 'no reason given'}")
    if outcome == "skipped":
        situation = _SKIPPED.get(run.reason, "not_scheduled")
        return out.done(situation, f"Skipped at {at}: {run.reason}.")
    if outcome == "dead":
        return out.done("dead", f"Dead after attempt {run.attempt} at {at}: {run.error or run.reason}.")
    return out.done("cancelled", f"Cancelled at {at}: {run.reason or 'asked for'}.")


def _open(out: _Explanation, run: OpenRun, polling: Polling, now_ms: int) -> dict[str, Any]:
    state = out.job.state
    out.holds("run_opened", holds=True, detail=f"opened at {instant_text(run.opened_at_ms)}")
    lease = run.lease
    if lease is not None:
        detail = f"attempt {run.attempt} by {lease.worker_id} since {instant_text(lease.granted_at_ms)}"
        out.holds("leased", holds=True, detail=detail)
        return out.done("running", f"Running: {detail}.")
    detail = "overlap queue: the run before it ends first" if run.held else "no run before it has to end first"
    if not out.holds("not_held", holds=not run.held, detail=detail):
        return out.done("waiting_for_slot", "Waits for the run before it (overlap queue).")
    if state.pause is not None:
        out.holds("job_not_paused", holds=False, detail=f"paused by {state.pause.actor or 'somebody'}")
        return out.done("paused", "The job is paused: the run waits until it is resumed.")
    return _waiting(out, run, polling, now_ms)


def _waiting(out: _Explanation, run: OpenRun, polling: Polling, now_ms: int) -> dict[str, Any]:
    """A run that nothing but its due time, workers and slots holds up."""
    due = run.due_at_ms <= now_ms
    if not due and run.attempt:
        out.holds("retry_due", holds=False, detail=f"attempt {run.attempt} failed: {run.error or 'lease ended'}")
        summary = f"Attempt {run.attempt} failed; attempt {run.attempt + 1} starts by {instant_text(run.due_at_ms)}."
        return out.done("waiting_for_retry", summary)
    out.holds("due", holds=due, detail=f"due at {instant_text(run.due_at_ms)}")
    if not due:
        return out.done("will_run_at", f"Will run at {instant_text(run.due_at_ms)}.")
    waited_s = (now_ms - run.due_at_ms) / 1000
    if not out.holds("worker_polling", holds=polling.calls > 0, detail=f"{polling.calls} lease calls wait here"):
        summary = f"No worker polls queue {out.job.state.queue!r} at this gateway; ready for {waited_s:.1f} s."
        return out.done("no_worker_polling", summary)
    out.holds("slot_free", holds=polling.slots > 0, detail=f"{polling.slots} free slots at this gateway")
    return out.done("waiting_for_slot", f"Ready for {waited_s:.1f} s; waits for a worker's free slot.")
