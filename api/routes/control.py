"""What people do to one job: pause, resume, trigger, skip an occurrence, backfill."""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from api.answers import (
    BackfillsAnswer,
    BackfillStartedAnswer,
    BackfillStoppedAnswer,
    JobAnswer,
    SkippedAnswer,
    TriggeredAnswer,
)
from api.bodies import BackfillBody, NoBody, PauseBody, ResumeBody, SkipBody, TriggerBody, decode, decoder
from api.definitions import backfill_id_of_key, key_fields, read_instant, read_payload, schedule_of, trigger_id_of_key
from api.http_call import HttpCall, accepted, answer, etag, replayed
from api.instants import instant_or_none, instant_text
from api.problems import Problem
from api.routes.route import Route
from api.views import job_view
from streams.core.commands import Pause, Resume, SkipSlot, StartBackfill, StopBackfill, Trigger
from streams.core.identity import run_id_at
from streams.core.overlap import backfill_runs_open
from streams.core.state import OPEN_RUNS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web

    from streams.core.commands import Reply
    from streams.core.definition import Definition
    from streams.core.state import Backfill, Job
    from streams.core.time import CalendarSpec

BACKFILL_RATE_MIN: Final = 0.001
"""Runs per second: one in a quarter of an hour."""

BACKFILL_RATE_MAX: Final = 100.0
"""Beyond it a rate bounds nothing that `maxConcurrent` does not: 64 runs at once."""

_PAUSE: Final = decoder(PauseBody)
_RESUME: Final = decoder(ResumeBody)
_TRIGGER: Final = decoder(TriggerBody)
_SKIP: Final = decoder(SkipBody)
_BACKFILL: Final = decoder(BackfillBody)
_NOTHING: Final = decoder(NoBody)


async def pause(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/pause`: pause a job."""
    data = await call.bytes()
    body = decode(_PAUSE, data)
    until_ms = 0 if body.until is None else read_instant(body.until, "until")
    command = Pause(
        job_id=call.job_id,
        tenant=call.caller.tenant,
        actor=body.actor or call.caller.name,
        note=body.note,
        until_ms=until_ms,
        **key_fields(call.idempotency_key, data, "pause", call.caller.tenant, call.job_id),
    )
    reply = accepted(await call.gateway.client.command(command))
    return await _job_when(call, reply, lambda job: job.state.pause is not None)


async def resume(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/resume`: resume a job."""
    data = await call.bytes()
    body = decode(_RESUME, data)
    command = Resume(
        job_id=call.job_id,
        tenant=call.caller.tenant,
        actor=body.actor or call.caller.name,
        note=body.note,
        **key_fields(call.idempotency_key, data, "resume", call.caller.tenant, call.job_id),
    )
    reply = accepted(await call.gateway.client.command(command))
    return await _job_when(call, reply, lambda job: job.state.pause is None)


async def trigger(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/trigger`: open a run now."""
    data = await call.bytes()
    body = decode(_TRIGGER, data)
    job_id, key, tenant = call.job_id, call.idempotency_key, call.caller.tenant
    trigger_id = f"t-{secrets.token_hex(12)}" if key is None else trigger_id_of_key(tenant, job_id, key)
    command = Trigger(
        job_id=job_id,
        tenant=tenant,
        trigger_id=trigger_id,
        force=body.force,
        payload=None if body.payload is UNSET else read_payload(body.payload),
        actor=call.caller.name,
        **key_fields(key, data, "trigger", tenant, job_id),
    )
    reply = accepted(await call.gateway.client.command(command))
    view = {
        "runId": reply.run_id,
        "jobId": job_id,
        "scheduledFor": instant_or_none(reply.next_at_ms),
    }
    return answer(view, 201, replayed(reply) | {"Location": f"/v1/runs/{reply.run_id}"})


async def skip(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/skip`: skip one named occurrence that is not open yet."""
    body = await call.body(_SKIP)
    at_ms = read_instant(body.at, "at")
    command = SkipSlot(
        job_id=call.job_id,
        at_ms=at_ms,
        tenant=call.caller.tenant,
        expected_version=call.if_match,
        actor=call.caller.name,
    )
    reply = await call.gateway.client.command(command)
    if reply.code == "gone" and (reply.outcome or reply.next_at_ms):
        raise Problem("slot_decided", f"at: {reply.detail}.", field="at", members={"outcome": reply.outcome or None})
    accepted(reply)
    view = {
        "jobId": command.job_id,
        "runId": run_id_at(command.job_id, at_ms),
        "at": instant_text(at_ms),
        "nextRunAt": instant_or_none(reply.next_at_ms),
    }
    return answer(view, headers=replayed(reply))


async def backfill(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/backfill`: open the past occurrences of a range, oldest first, in the low lane."""
    data = await call.bytes()
    body = decode(_BACKFILL, data)
    from_ms, until_ms = read_instant(body.from_, "from"), read_instant(body.to, "to") - 1
    if not 1 <= body.max_concurrent <= OPEN_RUNS_MAX:
        detail = f"maxConcurrent: use 1 to {OPEN_RUNS_MAX}."
        raise Problem("invalid_field", detail, field="maxConcurrent", limit=OPEN_RUNS_MAX)
    interval_ms = _interval_ms(body.rate_per_second)
    if until_ms < from_ms or until_ms > call.gateway.now_ms():
        detail = "to: must lie behind from and not in the future; the schedule itself opens what is to come."
        raise Problem("invalid_field", detail, field="to")
    job = await call.gateway.job(call.job_id, call.caller)
    if job.definition is None:
        raise Problem("job_finished", "jobId: the job was deleted; there is nothing to backfill.", field="jobId")
    key, tenant = call.idempotency_key, call.caller.tenant
    backfill_id = f"b-{secrets.token_hex(12)}" if key is None else backfill_id_of_key(tenant, call.job_id, key)
    known = next((item for item in _backfills(job) if item.backfill_id == backfill_id), None)
    if known is None:
        view = await _range_view(call, job.definition, from_ms, until_ms)
    else:
        view = _first_view(job, known)
    if body.dry_run:
        return answer({"backfillId": None} | view)
    command = StartBackfill(
        job_id=call.job_id,
        backfill_id=backfill_id,
        from_ms=from_ms,
        until_ms=until_ms,
        concurrent_runs_max=body.max_concurrent,
        interval_ms=interval_ms,
        tenant=tenant,
        actor=call.caller.name,
        **key_fields(key, data, "backfill", tenant, call.job_id),
    )
    reply = await call.gateway.client.command(command)
    if reply.code == "quota":
        raise Problem("too_many_backfills", f"jobId: {reply.detail}.", field="jobId")
    if reply.code == "invalid" and reply.field == "until":
        raise Problem("invalid_field", f"to: {reply.detail}.", field="to")
    accepted(reply)
    return answer({"backfillId": backfill_id} | view, 201, replayed(reply))


def _interval_ms(rate_per_s: float | None) -> int:
    """Give the least time between two openings; 0 without a rate. Raises Problem."""
    if rate_per_s is None:
        return 0
    if not BACKFILL_RATE_MIN <= rate_per_s <= BACKFILL_RATE_MAX:
        detail = f"ratePerSecond: use {BACKFILL_RATE_MIN:g} to {BACKFILL_RATE_MAX:g}, or leave it out."
        limit = BACKFILL_RATE_MIN if rate_per_s < BACKFILL_RATE_MIN else BACKFILL_RATE_MAX
        raise Problem("invalid_field", detail, field="ratePerSecond", limit=limit)
    return math.ceil(1000 / rate_per_s)


def _first_view(job: Job, known: Backfill) -> dict[str, Any]:
    """Say again what the first answer said, whatever became of the schedule since."""
    first, last = instant_text(known.first_at_ms), instant_text(known.last_at_ms)
    return {"jobId": job.state.job_id, "runs": known.runs_total, "firstAt": first, "lastAt": last}


async def _range_view(call: HttpCall, definition: Definition, from_ms: int, until_ms: int) -> dict[str, Any]:
    """Count what a range holds, in a thread where calendars may have years to look at. Raises Problem for nothing."""
    calendars = call.gateway.calendars.specs(definition.tenant)
    if not definition.calendars:
        return _count_range(definition, from_ms, until_ms, calendars)
    return await asyncio.to_thread(_count_range, definition, from_ms, until_ms, calendars)


def _count_range(
    definition: Definition, from_ms: int, until_ms: int, calendars: Mapping[str, CalendarSpec]
) -> dict[str, Any]:
    """Count by the function that opens it."""
    schedule = schedule_of(definition, calendars)
    first, last = schedule.next_after(from_ms - 1), schedule.latest_in(from_ms - 1, until_ms)
    if first is None or last is None or first.at_ms > until_ms:
        raise Problem("invalid_field", "from: the schedule has no occurrence in this range.", field="from")
    return {
        "jobId": definition.job_id,
        "runs": schedule.count_between(from_ms - 1, until_ms),
        "firstAt": instant_text(first.at_ms),
        "lastAt": instant_text(last.at_ms),
    }


async def list_backfills(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}/backfills`: progress of the backfills that are going, and of the last that ended."""
    call.query()
    job = await call.gateway.job(call.job_id, call.caller)
    views = [_backfill_view(call, job, item) for item in _backfills(job)]
    return answer({"jobId": job.state.job_id, "backfills": views})


def _backfills(job: Job) -> list[Backfill]:
    return [*job.state.backfills, *reversed(job.state.backfills_ended)]


def _backfill_view(call: HttpCall, job: Job, item: Backfill) -> dict[str, Any]:
    remaining = 0
    if item.ended_by != "completed" and job.definition is not None:
        schedule = schedule_of(job.definition, call.gateway.calendars.specs(job.definition.tenant))
        remaining = schedule.count_between(item.cursor_at_ms - 1, item.until_ms)
    return {
        "backfillId": item.backfill_id,
        "state": "ended" if item.ended_by else "running",
        "endedBy": item.ended_by or None,
        "runs": item.runs_total,
        "opened": item.opened,
        "open": backfill_runs_open(job.state, item),
        "remaining": remaining,
        "nextAt": None if item.ended_by else instant_text(item.cursor_at_ms),
        "from": instant_text(item.first_at_ms),
        "to": instant_text(item.until_ms + 1),
        "maxConcurrent": item.concurrent_runs_max,
        "ratePerSecond": 1000 / item.interval_ms if item.interval_ms else None,
        "startedAt": instant_text(item.started_at_ms),
        "endedAt": instant_text(item.ended_at_ms) if item.ended_by else None,
    }


async def stop_backfill(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/backfills/{backfill_id}/stop`: stop a backfill; what it opened stays."""
    await call.body(_NOTHING)
    backfill_id = call.request.match_info["backfill_id"]
    command = StopBackfill(
        job_id=call.job_id, backfill_id=backfill_id[:64], tenant=call.caller.tenant, actor=call.caller.name
    )
    reply = await call.gateway.client.command(command)
    if reply.code == "not_found" and reply.detail != "no such job":
        detail = f"backfillId: there is no backfill {backfill_id[:64]!r} of this job."
        raise Problem("unknown_backfill", detail, field="backfillId")
    accepted(reply)
    view = {"backfillId": backfill_id, "jobId": command.job_id, "state": "ended"}
    return answer(view, headers=replayed(reply))


async def _job_when(call: HttpCall, reply: Reply, holds: Callable[[Job], bool]) -> web.Response:
    """Answer the job as the change left it, or, after the repeat of a call, as others have left it since."""
    job = await call.gateway.job(call.job_id, call.caller, until=holds)
    return answer(job_view(job), headers=etag(job.state.version) | replayed(reply))


ROUTES: Final = (
    Route(
        "POST",
        "/v1/jobs/{job_id}/pause",
        pause,
        body=PauseBody,
        headers=("Idempotency-Key",),
        answers={200: JobAnswer},
        problems=("job_finished", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/resume",
        resume,
        body=ResumeBody,
        headers=("Idempotency-Key",),
        answers={200: JobAnswer},
        problems=("job_finished", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/trigger",
        trigger,
        body=TriggerBody,
        headers=("Idempotency-Key",),
        answers={201: TriggeredAnswer},
        problems=(
            "payload_too_large",
            "job_paused",
            "job_finished",
            "overlap",
            "too_many_open_runs",
            "idempotency_conflict",
        ),
        writes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/skip",
        skip,
        body=SkipBody,
        headers=("If-Match",),
        answers={200: SkippedAnswer},
        problems=("job_finished", "slot_decided", "overlap", "version_mismatch", "pending_cap"),
        writes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/backfill",
        backfill,
        body=BackfillBody,
        headers=("Idempotency-Key",),
        answers={200: BackfillStartedAnswer, 201: BackfillStartedAnswer},
        problems=("job_finished", "too_many_backfills", "idempotency_conflict"),
        writes=True,
    ),
    Route("GET", "/v1/jobs/{job_id}/backfills", list_backfills, answers={200: BackfillsAnswer}, reads=True),
    Route(
        "POST",
        "/v1/jobs/{job_id}/backfills/{backfill_id}/stop",
        stop_backfill,
        body=NoBody,
        answers={200: BackfillStoppedAnswer},
        problems=("job_finished", "unknown_backfill"),
        writes=True,
    ),
)
