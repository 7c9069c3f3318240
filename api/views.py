"""Answers of the API from the core's values (docs/http-api.md): job, run, leased run. Pure."""

from __future__ import annotations

import base64
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from api.definitions import definition_view, is_json
from api.instants import instant_or_none, instant_text
from api.problems import OUTCOME
from streams.core.context import Context
from streams.core.decide_schedule import next_to_run_ms
from streams.core.job_filter import standing_of
from streams.core.state import ClosedRun
from streams.core.time import INSTALLED_ZONE_DATA

if TYPE_CHECKING:
    from api.queries import SeenJob
    from streams.core.commands import Grant
    from streams.core.state import Job, OpenRun, Pause

_NULL: Final = Raw(b"null")


class LeasedRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """One run as a worker gets it."""

    run_id: str
    job_id: str
    queue: str
    lane: str
    task: str
    attempt: int
    max_attempts: int
    lease_token: int
    lease_expires_at: str
    lease_remaining_ms: int
    scheduled_for: str
    timeout_seconds: float | None
    payload: Raw | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET


class LeaseAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a lease call."""

    request_id: str
    runs: list[LeasedRun]


_END: Final = MappingProxyType({"timeout": "timed_out", "cancel_grace": "cancelled"})
"""How an attempt ended, in the words of the API, where the core has others."""

_CONTEXT: Final = Context(now_ms=0, zone_data=INSTALLED_ZONE_DATA)
"""For questions about schedules, which ask for no time of day."""


def leased_run(grant: Grant, now_ms: int) -> LeasedRun:
    """Write a grant; `now_ms` is the broker's time, of which the rest of the lease is counted."""
    payload: Raw | UnsetType = _NULL
    encoded: str | UnsetType = UNSET
    if grant.payload:
        if grant.content_type == "application/json" and is_json(grant.payload):
            payload = Raw(grant.payload)
        else:
            payload, encoded = UNSET, base64.b64encode(grant.payload).decode()
    return LeasedRun(
        run_id=grant.run_id,
        job_id=grant.job_id,
        queue=grant.queue,
        lane=grant.lane,
        task=grant.task,
        attempt=grant.attempt,
        max_attempts=grant.max_attempts,
        lease_token=grant.lease_token,
        lease_expires_at=instant_text(grant.expires_at_ms),
        lease_remaining_ms=max(grant.expires_at_ms - now_ms, 0),
        scheduled_for=instant_text(grant.scheduled_at_ms),
        timeout_seconds=grant.timeout_ms / 1000 if grant.timeout_ms else None,
        payload=payload,
        payload_base64=encoded,
    )


def job_view(job: Job, *, with_payload: bool = True, warnings: list[str] | None = None) -> dict[str, Any]:
    """Write a job object. A deleted job has no definition left."""
    state = job.state
    if job.definition is None:
        fields: dict[str, Any] = {"jobId": state.job_id, "tenant": state.tenant, "queue": state.queue}
    else:
        fields = definition_view(job.definition, with_payload=with_payload)
    return fields | {
        "version": state.version,
        "state": standing_of(state),
        "nextRunAt": instant_or_none(next_to_run_ms(job, _CONTEXT)),
        "paused": None if state.pause is None else _pause_view(state.pause),
        "openRuns": len(state.open),
        "createdAt": instant_or_none(state.created_at_ms),
        "updatedAt": instant_or_none(state.updated_at_ms or state.created_at_ms),
        "warnings": warnings or [],
    }


def _pause_view(pause: Pause) -> dict[str, Any]:
    return {
        "actor": pause.actor,
        "note": pause.note,
        "since": instant_text(pause.paused_at_ms),
        "until": instant_or_none(pause.until_ms),
    }


def run_view(job: SeenJob, run: OpenRun | ClosedRun, now_ms: int) -> dict[str, Any]:
    """Write a run object, of an open or a remembered closed run. What the state does not keep is null."""
    definition = job.definition
    view: dict[str, Any] = {
        "runId": run.run_id,
        "jobId": job.state.job_id,
        "tenant": job.state.tenant,
        "queue": job.state.queue,
        "task": None if definition is None else definition.task,
        "origin": run.kind,
        "replayOf": run.replay_of or None,
        "scheduledFor": instant_text(run.scheduled_at_ms),
        "attempt": run.attempt,
        "maxAttempts": None if definition is None else definition.retry.max_attempts,
        "error": run.error or None,
        "progress": None if isinstance(run, ClosedRun) else _json_or_none(job.progress.get(run.run_id, b"")),
        "result": _json_or_none(run.result) if isinstance(run, ClosedRun) else None,
        "attempts": _attempts(run),
    }
    return view | (_closed_fields(run) if isinstance(run, ClosedRun) else _open_fields(run, now_ms))


def _json_or_none(value: bytes) -> Raw | None:
    """Give what a worker sent. A worker that speaks to the log by itself may send anything; that is not shown."""
    return Raw(value) if value and is_json(value) else None


def _attempts(run: OpenRun | ClosedRun) -> list[dict[str, Any]]:
    """Write the attempts without success, then the one that is going or completed the run."""
    found = [
        {
            "attempt": item.attempt,
            "leaseToken": item.lease_token,
            "workerId": item.worker_id,
            "grantedAt": instant_text(item.granted_at_ms),
            "endedAt": instant_text(item.ended_at_ms),
            "end": _END.get(item.end, item.end),
            "error": item.error or None,
        }
        for item in run.attempts
    ]
    blank: dict[str, Any] = dict.fromkeys(("workerId", "grantedAt", "endedAt", "end", "error"))
    if isinstance(run, ClosedRun):
        ended = {"succeeded": "completed", "cancelled": "cancelled"}.get(run.outcome)
        if ended is not None and run.lease_token and run.lease_token not in {item.lease_token for item in run.attempts}:
            last = {"attempt": run.attempt, "leaseToken": run.lease_token, "endedAt": instant_text(run.closed_at_ms)}
            found.append(blank | last | {"end": ended})
    elif run.lease is not None:
        lease = run.lease
        going = {"attempt": run.attempt, "leaseToken": lease.lease_token, "workerId": lease.worker_id}
        found.append(blank | going | {"grantedAt": instant_text(lease.granted_at_ms)})
    return found


def run_state_of(run: OpenRun | ClosedRun, now_ms: int) -> str:
    """Give the state of any run."""
    return "closed" if isinstance(run, ClosedRun) else open_run_state(run, now_ms)


def open_run_state(run: OpenRun, now_ms: int) -> str:
    """Give `queued`, `leased`, `retrying` or `ready`."""
    if run.held:
        return "queued"
    if run.lease is not None:
        return "leased"
    return "retrying" if run.attempt and run.due_at_ms > now_ms else "ready"


def _open_fields(run: OpenRun, now_ms: int) -> dict[str, Any]:
    lease = run.lease
    state = open_run_state(run, now_ms)
    return {
        "jobVersion": run.job_version,
        "lane": run.lane,
        "state": state,
        "outcome": None,
        "reason": None,
        "leaseToken": None if lease is None else lease.lease_token,
        "workerId": None if lease is None else lease.worker_id,
        "grantedAt": None if lease is None else instant_text(lease.granted_at_ms),
        "leaseExpiresAt": None if lease is None else instant_text(lease.expires_at_ms),
        "nextAttemptAt": instant_text(run.due_at_ms) if state == "retrying" else None,
        "closedAt": None,
        "latenessMs": None if lease is None or run.attempt != 1 else max(lease.granted_at_ms - run.scheduled_at_ms, 0),
        "cancelRequested": bool(run.cancel_requested_at_ms),
    }


def _closed_fields(run: ClosedRun) -> dict[str, Any]:
    """Write what the state keeps of a closed run. Of an attempt that completed its run it does not keep the worker."""
    last = next((item for item in run.attempts if run.lease_token and item.lease_token == run.lease_token), None)
    first = next((item for item in run.attempts if item.attempt == 1), None)
    return {
        "jobVersion": None,
        "lane": None,
        "state": "closed",
        "outcome": OUTCOME.get(run.outcome, run.outcome),
        "reason": run.reason or None,
        "leaseToken": run.lease_token or None,
        "workerId": None if last is None else last.worker_id,
        "grantedAt": None if last is None else instant_text(last.granted_at_ms),
        "leaseExpiresAt": None,
        "nextAttemptAt": None,
        "closedAt": instant_text(run.closed_at_ms),
        "latenessMs": None if first is None else max(first.granted_at_ms - run.scheduled_at_ms, 0),
        "cancelRequested": False,
    }


def runs_newest_first(job: Job) -> list[OpenRun | ClosedRun]:
    """Give all runs that the state knows, by scheduled instant, newest first; each once."""
    state = job.state
    seen: dict[str, OpenRun | ClosedRun] = {}
    runs: list[OpenRun | ClosedRun] = [*state.open, *state.closed, *state.dead]
    for run in runs:
        seen.setdefault(run.run_id, run)
    return sorted(seen.values(), key=lambda run: (run.scheduled_at_ms, run.run_id), reverse=True)


def find_run(job: Job, run_id: str) -> OpenRun | ClosedRun | None:
    """Give an open or remembered run."""
    return job.run(run_id) or job.closed_run(run_id)
