"""Why a run did or will or did not happen, from the present state of its job (docs/http-api.md, Explanation). Pure.

Conditions stand in the order in which they decide; the first that does not hold is the reason. Beside each stands what
to look for in topic `history` to prove it, where there is a record; an owner finds the offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from api.instants import instant_text
from api.problems import OUTCOME
from streams.core.evidence import Ask
from streams.core.identity import run_id_at
from streams.core.state import ClosedRun
from streams.core.time import INSTALLED_ZONE_DATA, Jitter, Window, compile_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.polling import Polling
    from streams.core.definition import Definition
    from streams.core.evidence import Proof
    from streams.core.state import Job, OpenRun, Pause

_SKIPPED: Final = {
    "overlap": "skipped_overlap",
    "start_deadline": "skipped_start_deadline",
    "catch_up": "skipped_catch_up",
    "paused": "paused",
}

_ENDS: Final = ("RunSucceeded", "RunDied", "RunCancelled", "RunSkipped")
"""Each ends a run."""

_VERSION: Final = ("JobDefined", "JobEdited")

_OPENING: Final = ("RunOpened", "OccurrencesSkipped")
"""Each decides an occurrence."""


class Explained(NamedTuple):
    """An answer, and for each of its conditions what proves it; None where no record does."""

    answer: dict[str, Any]
    asks: list[Ask | None]

    def proven(self, found: Sequence[Proof | None]) -> dict[str, Any]:
        """Give the answer with its evidence; `found` has one entry for each ask that is not None, in order."""
        proofs = iter(found)
        for condition, ask in zip(self.answer["conditions"], self.asks, strict=True):
            proof = None if ask is None else next(proofs)
            if proof is not None:
                condition["evidence"] = _evidence(proof)
        return self.answer


def _evidence(proof: Proof) -> dict[str, Any]:
    return {
        "topic": proof.topic,
        "partition": proof.partition,
        "offset": proof.offset,
        "eventType": proof.event_type,
    }


class KeyRoom(NamedTuple):
    """The limit of a job's concurrency key, and what counts against it, as owners told about a second ago."""

    key: str
    limit: int
    units: int
    heaviest: int = 0
    """The largest weight of a run of the key that waits, as far as it may start at all."""


class QueueRoom(NamedTuple):
    """The limits of a job's queue, and what counts against them, as owners told about a second ago."""

    queue: str
    limit: int | None = None
    """Of running runs; None: there is none."""
    running: int = 0
    rate_per_s: float | None = None
    """Leases a second, at each gateway, of the queue or of its tenant, whichever allows less."""


class Rooms(NamedTuple):
    """What bounds the runs of a job; None where nothing does."""

    queue: QueueRoom | None = None
    key: KeyRoom | None = None


NO_BOUNDS: Final = Rooms()


class _Explanation:
    """Collects conditions."""

    def __init__(self, job: Job, at_ms: int | None, run_id: str | None) -> None:
        self.job, self.at_ms, self.run_id = job, at_ms, run_id
        self.conditions: list[dict[str, Any]] = []
        self.asks: list[Ask | None] = []

    def holds(self, name: str, *, holds: bool, detail: str, ask: Ask | None = None) -> bool:
        """Note a condition and what proves it; give whether it holds."""
        self.conditions.append({"name": name, "holds": holds, "detail": detail, "evidence": None})
        self.asks.append(ask)
        return holds

    def done(self, situation: str, summary: str) -> Explained:
        """Give the answer."""
        answer = {
            "jobId": self.job.state.job_id,
            "at": None if self.at_ms is None else instant_text(self.at_ms),
            "runId": self.run_id,
            "situation": situation,
            "summary": summary,
            "conditions": self.conditions,
        }
        return Explained(answer, self.asks)


def explain(
    job: Job,
    at_ms: int | None,
    polling: Polling,
    now_ms: int,
    record: Sequence[Proof | None] = (),
    *,
    rooms: Rooms = NO_BOUNDS,
) -> Explained:
    """Explain the occurrence at an instant; None: the open run, else the next occurrence, else the last one.

    `record`: what history was found to say to `asks_of_past`.
    """
    run = _run_at(job, at_ms)
    if run is not None:
        out = _Explanation(job, run.scheduled_at_ms, run.run_id)
        scheduled = f"scheduled for {instant_text(run.scheduled_at_ms)}"
        out.holds("occurrence_scheduled", holds=True, detail=scheduled, ask=_version_ask(job))
        if isinstance(run, ClosedRun):
            return _closed(out, run)
        return _open(out, run, polling, now_ms, rooms)
    opening = record[0] if record else None
    if opening is not None and at_ms is not None:
        return _recorded(job, at_ms, opening, record[1] if len(record) > 1 else None)
    return _not_opened(job, at_ms, now_ms)


def asks_of_past(job: Job, at_ms: int | None) -> list[Ask]:
    """Give what to look for where the state no longer knows what became of an instant: its decision, and its end."""
    state = job.state
    if at_ms is None or _run_at(job, at_ms) is not None:
        return []
    if at_ms < state.created_at_ms or (state.next_at_ms is not None and at_ms >= state.next_at_ms):
        return []
    run_id = run_id_at(state.job_id, at_ms)
    return [
        Ask(events=_OPENING, at_ms=at_ms, run_id=run_id, slot_at_ms=at_ms),
        Ask(events=_ENDS, at_ms=at_ms, run_id=run_id),
    ]


def _version_ask(job: Job) -> Ask | None:
    """The definition in force; a deletion is no definition."""
    state = job.state
    if state.status == "deleted" or not state.created_at_ms:
        return None
    return Ask(events=_VERSION, at_ms=state.updated_at_ms or state.created_at_ms)


def _recorded(job: Job, at_ms: int, opening: Proof, ending: Proof | None) -> Explained:
    """What history says of an instant that the state no longer knows."""
    out = _Explanation(job, at_ms, run_id_at(job.state.job_id, at_ms))
    said = opening.event
    if opening.event_type == "OccurrencesSkipped":
        reason = str(said["reason"])
        blocked_by = f"; {said['blocked_by']} was open" if said.get("blocked_by") else ""
        name = "overlap_allows" if reason == "overlap" else "run_opened"
        out.holds(name, holds=False, detail=f"skipped: {reason}{blocked_by}")
        done = out.done(_SKIPPED.get(reason, "not_scheduled"), f"Skipped: {reason}{blocked_by}.")
        return _with_proofs(done, opening)
    out.holds("run_opened", holds=True, detail=f"opened at {_at(said)}")
    if ending is None:
        out.holds("remembered", holds=False, detail="how it ended is older than the state, later than was searched")
        return _with_proofs(out.done("not_remembered", "It was opened; how it ended was not found."), opening, None)
    end = ending.event
    why = str(end.get("error") or end.get("reason") or "")
    situation = {"RunSucceeded": "ran", "RunDied": "dead", "RunCancelled": "cancelled"}.get(ending.event_type, "")
    if situation == "ran":
        out.holds("completed", holds=True, detail=f"attempt {end['attempt']} completed at {_at(end)}")
        done = out.done("ran", f"Ran; attempt {end['attempt']} completed at {_at(end)}.")
        return _with_proofs(done, opening, ending)
    situation = situation or _SKIPPED.get(why, "not_scheduled")
    out.holds("completed", holds=False, detail=f"{ending.event_type} at {_at(end)}: {why}")
    return _with_proofs(out.done(situation, f"{ending.event_type} at {_at(end)}: {why}."), opening, ending)


def _at(event: dict[str, Any]) -> str:
    return instant_text(int(event["at_ms"]))


def _with_proofs(explained: Explained, *proofs: Proof | None) -> Explained:
    """Put in evidence that is at hand already."""
    for condition, proof in zip(explained.answer["conditions"], proofs, strict=True):
        condition["evidence"] = None if proof is None else _evidence(proof)
    return explained


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


def _not_opened(job: Job, at_ms: int | None, now_ms: int) -> Explained:
    state = job.state
    asked_ms = at_ms if at_ms is not None else state.next_at_ms
    out = _Explanation(job, asked_ms, None if asked_ms is None else run_id_at(state.job_id, asked_ms))
    changed = _VERSION if state.status != "deleted" else ("JobDeleted",)
    exists = Ask(events=changed, at_ms=state.updated_at_ms or state.created_at_ms)
    if not out.holds("job_exists", holds=state.status != "deleted", detail=f"the job is {state.status}", ask=exists):
        return out.done("job_deleted", "The job was deleted; nothing runs any more.")
    if state.pause is not None:
        out.holds("job_not_paused", holds=False, detail=_paused_by(state.pause), ask=_paused_ask(state.pause))
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


def _paused_by(pause: Pause) -> str:
    said = f"paused by {pause.actor or 'somebody'} at {instant_text(pause.paused_at_ms)}"
    return f"{said}: {pause.note}" if pause.note else said


def _paused_ask(pause: Pause) -> Ask:
    return Ask(events=("JobPaused",), at_ms=pause.paused_at_ms)


def _past(out: _Explanation, asked_ms: int) -> Explained:
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


def _closed(out: _Explanation, run: ClosedRun) -> Explained:
    opened_ms = run.scheduled_at_ms if run.kind in ("schedule", "trigger") else 0
    if opened_ms:
        detail = f"opened for {instant_text(run.scheduled_at_ms)}"
        out.holds("run_opened", holds=True, detail=detail, ask=_run_ask(run, opened_ms, "RunOpened"))
    ended = _run_ask(run, run.closed_at_ms, *_ENDS)
    outcome = OUTCOME.get(run.outcome, run.outcome)
    at = instant_text(run.closed_at_ms)
    if outcome == "ran":
        out.holds("completed", holds=True, detail=f"attempt {run.attempt} completed at {at}", ask=ended)
        return out.done("ran", f"Ran; attempt {run.attempt} completed at {at}.")
    detail = f"{outcome} at {at}: {run.reason or run.error or 'no reason given'}"
    out.holds("completed", holds=False, detail=detail, ask=ended)
    if outcome == "skipped":
        situation = _SKIPPED.get(run.reason, "not_scheduled")
        return out.done(situation, f"Skipped at {at}: {run.reason}.")
    if outcome == "dead":
        return out.done("dead", f"Dead after attempt {run.attempt} at {at}: {run.error or run.reason}.")
    return out.done("cancelled", f"Cancelled at {at}: {run.reason or 'asked for'}.")


def _run_ask(run: OpenRun | ClosedRun, at_ms: int, *events: str) -> Ask:
    return Ask(events=events, at_ms=at_ms, run_id=run.run_id)


def _open(out: _Explanation, run: OpenRun, polling: Polling, now_ms: int, rooms: Rooms) -> Explained:
    state = out.job.state
    opened = _run_ask(run, run.opened_at_ms, "RunOpened")
    out.holds("run_opened", holds=True, detail=f"opened at {instant_text(run.opened_at_ms)}", ask=opened)
    lease = run.lease
    if lease is not None:
        detail = f"attempt {run.attempt} by {lease.worker_id} since {instant_text(lease.granted_at_ms)}"
        out.holds("leased", holds=True, detail=detail, ask=_run_ask(run, lease.granted_at_ms, "LeaseGranted"))
        return out.done("running", f"Running: {detail}.")
    detail = "overlap queue: the run before it ends first" if run.held else "no run before it has to end first"
    if not out.holds("not_held", holds=not run.held, detail=detail):
        return out.done("waiting_for_slot", "Waits for the run before it (overlap queue).")
    if state.pause is not None:
        out.holds("job_not_paused", holds=False, detail=_paused_by(state.pause), ask=_paused_ask(state.pause))
        return out.done("paused", "The job is paused: the run waits until it is resumed.")
    return _waiting(out, run, polling, now_ms, rooms)


def _waiting(out: _Explanation, run: OpenRun, polling: Polling, now_ms: int, rooms: Rooms) -> Explained:
    """A run that nothing but its due time, limits, workers and slots holds up."""
    due = run.due_at_ms <= now_ms
    if not due and run.attempt:
        ended_ms = run.attempts[-1].ended_at_ms if run.attempts else run.opened_at_ms
        failed = _run_ask(run, ended_ms, "RunFailed", "LeaseExpired")
        detail = f"attempt {run.attempt} failed: {run.error or 'lease ended'}"
        out.holds("retry_due", holds=False, detail=detail, ask=failed)
        summary = f"Attempt {run.attempt} failed; attempt {run.attempt + 1} starts by {instant_text(run.due_at_ms)}."
        return out.done("waiting_for_retry", summary)
    out.holds("due", holds=due, detail=f"due at {instant_text(run.due_at_ms)}")
    if not due:
        return out.done("will_run_at", f"Will run at {instant_text(run.due_at_ms)}.")
    return _due(out, (now_ms - run.due_at_ms) / 1000, polling, rooms)


def _due(out: _Explanation, waited_s: float, polling: Polling, rooms: Rooms) -> Explained:
    """A run that is due, and that nothing but limits, workers and slots holds up."""
    blocked = _limits_block(out, rooms, waited_s)
    if blocked is not None:
        return blocked
    detail = f"{polling.calls} lease calls wait, at {polling.gateways} gateways"
    if not out.holds("worker_polling", holds=polling.gateways > 0, detail=detail):
        summary = f"No worker polls queue {out.job.state.queue!r} at any gateway; ready for {waited_s:.1f} s."
        return out.done("no_worker_polling", summary)
    detail = f"{polling.slots} free slots at {polling.gateways} gateways"
    if not out.holds("slot_free", holds=polling.slots > 0, detail=detail):
        return out.done("waiting_for_slot", f"Ready for {waited_s:.1f} s; waits for a worker's free slot.")
    blocked = None if rooms.key is None else _heavier_blocks(out, rooms.key, waited_s)
    if blocked is not None:
        return blocked
    summary = f"Ready for {waited_s:.1f} s; waits for a worker's free slot"
    if rooms.queue is not None and rooms.queue.rate_per_s is not None:
        summary += f", of which its queue may use {rooms.queue.rate_per_s:g} a second at each gateway"
    if rooms.key is not None or (rooms.queue is not None and rooms.queue.limit is not None):
        summary += "; several schedulers have to share a limit out first, which takes some seconds"
    return out.done("waiting_for_slot", summary + ".")


def _limits_block(out: _Explanation, rooms: Rooms, waited_s: float) -> Explained | None:
    """Note whether the limits of queue and key let a run start; the whole answer where one does not."""
    blocked = None if rooms.queue is None else _queue_blocks(out, rooms.queue, waited_s)
    if blocked is not None or rooms.key is None:
        return blocked
    return _key_blocks(out, rooms.key, waited_s)


def _queue_blocks(out: _Explanation, queue: QueueRoom, waited_s: float) -> Explained | None:
    """Note whether the limits of the run's queue let it start; the whole answer where they do not."""
    if queue.limit is not None:
        detail = f"running runs take {queue.running} of {queue.limit} of queue {queue.queue!r}"
        if not out.holds("queue_not_full", holds=queue.running < queue.limit, detail=detail):
            stopped = "" if queue.limit else "; with maxRunning 0 none starts"
            return out.done("waiting_for_queue_limit", f"Ready for {waited_s:.1f} s; {detail}{stopped}.")
    if queue.rate_per_s is not None:
        detail = f"of queue {queue.queue!r}, {queue.rate_per_s:g} leases a second are allowed at each gateway"
        if not out.holds("lease_rate_allows", holds=queue.rate_per_s > 0, detail=detail):
            summary = f"Ready for {waited_s:.1f} s; maxLeaseRatePerSecond of its queue or tenant is 0, so none starts."
            return out.done("waiting_for_queue_limit", summary)
    return None


def _heavier_blocks(out: _Explanation, key: KeyRoom, waited_s: float) -> Explained | None:
    """Note whether a heavier run of the key waits for room; runs that were due after it wait behind it."""
    weight = out.job.state.concurrency_weight
    behind = key.heaviest > weight and key.units + key.heaviest > key.limit
    detail = f"a run waits that takes {key.heaviest} of {key.limit} of concurrency key {key.key!r}"
    detail = f"{detail}; {key.units} are taken" if behind else "no heavier run of the concurrency key waits for room"
    if not out.holds("concurrency_key_turn", holds=not behind, detail=detail):
        summary = f"Ready for {waited_s:.1f} s; {detail}, and younger runs of the key wait behind it."
        return out.done("waiting_for_concurrency_key", summary)
    return None


def _key_blocks(out: _Explanation, key: KeyRoom, waited_s: float) -> Explained | None:
    """Note whether the run's key lets it start; the whole answer where it does not."""
    weight = out.job.state.concurrency_weight
    detail = f"a run takes {weight} of concurrency key {key.key!r}, whose limit is {key.limit}"
    if not out.holds("concurrency_key_allows", holds=weight <= key.limit, detail=detail):
        summary = f"Never starts: {detail}. Raise the limit, or lower concurrencyWeight."
        return out.done("waiting_for_concurrency_key", summary)
    detail = f"running jobs take {key.units} of {key.limit} of concurrency key {key.key!r}; this one needs {weight}"
    if not out.holds("concurrency_key_free", holds=key.units + weight <= key.limit, detail=detail):
        return out.done("waiting_for_concurrency_key", f"Ready for {waited_s:.1f} s; {detail}.")
    return None
