"""Jobs: create, read, replace, change, delete, list; pause, resume, trigger; runs and explain of one job."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from api import explain as explanations
from api.bodies import JobBody, PauseBody, ResumeBody, TriggerBody, decode, decoder
from api.definitions import (
    body_hash,
    check,
    check_job_id,
    define,
    job_id_of_key,
    patch,
    read_instant,
    read_payload,
    trigger_id_of_key,
)
from api.gateway import require_tenant
from api.http_call import HttpCall, answer, bad_header, etag
from api.instants import instant_or_none, instant_text
from api.problems import Problem, problem_of
from api.routes.route import Route
from api.views import job_state_of, job_view, open_run_state, run_view, runs_newest_first
from streams.core.commands import Define, Delete, Pause, Resume, Trigger
from streams.core.state import ClosedRun
from streams.core.wire import request_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from streams.core.commands import Reply
    from streams.core.definition import Definition
    from streams.core.state import Job

LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1_000
OWNER_PAGE: Final = 200
PAGES_MAX: Final = 64
"""Questions to owners that one list call may ask; a listing that finds little goes on from its cursor."""

CURSOR_CHARS_MAX: Final = 512
PATCH_TRIES: Final = 3
"""A change that somebody else overtakes is made again on what they left."""

JOB_STATES: Final = ("active", "paused", "finished", "deleted")
RUN_STATES: Final = ("ready", "leased", "retrying", "queued", "closed")

_JOB: Final = decoder(JobBody)
_PAUSE: Final = decoder(PauseBody)
_RESUME: Final = decoder(ResumeBody)
_TRIGGER: Final = decoder(TriggerBody)


async def create(call: HttpCall) -> web.Response:
    """`POST /v1/jobs`."""
    data = await call.bytes()
    body = decode(_JOB, data)
    key = call.idempotency_key
    named = bool(body.job_id)
    if isinstance(body.job_id, str):
        job_id = check_job_id(body.job_id)
    elif key is not None:
        job_id = job_id_of_key(call.caller.tenant, key)
    else:
        job_id = f"j-{secrets.token_hex(12)}"
    gateway = call.gateway
    definition = define(body, job_id=job_id, tenant=call.caller.tenant, now_ms=gateway.now_ms())
    gateway.queues.require(call.caller.tenant, definition.queue)
    warnings = check(definition, now_ms=gateway.now_ms())
    command = Define(
        job_id=job_id,
        definition=definition,
        request_hash=body_hash(data),
        mode="create",
        actor=call.caller.name,
    )
    reply = await gateway.client.command(command)
    if reply.code == "idempotency_conflict":
        raise _other_body(job_id, named=named)
    return _defined(call, reply, warnings, created=True)


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}`."""
    call.query()
    job = await call.gateway.job(call.job_id, call.caller)
    return answer(job_view(job), headers=etag(job.state.version))


async def put(call: HttpCall) -> web.Response:
    """`PUT /v1/jobs/{job_id}`."""
    data = await call.bytes()
    body = decode(_JOB, data)
    job_id = check_job_id(call.job_id)
    if body.job_id not in (UNSET, None, job_id):
        raise Problem("invalid_field", "jobId: differs from the path; leave it out.", field="jobId")
    gateway, expected, create_only = call.gateway, call.if_match, call.create_only
    definition = define(body, job_id=job_id, tenant=call.caller.tenant, now_ms=gateway.now_ms(), default_name=job_id)
    gateway.queues.require(call.caller.tenant, definition.queue)
    warnings = check(definition, now_ms=gateway.now_ms())
    command = Define(
        job_id=job_id,
        definition=definition,
        request_hash=body_hash(data),
        mode="create" if create_only else "edit" if expected else "upsert",
        expected_version=expected,
        actor=call.caller.name,
    )
    reply = await gateway.client.command(command)
    if create_only and reply.code == "idempotency_conflict":
        detail = "If-None-Match: the job exists; leave the header out to replace it."
        raise Problem("version_mismatch", detail, field="If-None-Match", members={"version": reply.version or None})
    return _defined(call, reply, warnings, created=reply.code == "created")


async def change(call: HttpCall) -> web.Response:
    """`PATCH /v1/jobs/{job_id}`: read, merge, write under the version that was read."""
    data = await call.bytes()
    body = decode(_JOB, data)
    expected = call.if_match
    for tries_left in reversed(range(PATCH_TRIES)):
        job = await call.gateway.job(call.job_id, call.caller, until=lambda job: job.state.version >= expected)
        if job.definition is None:
            raise Problem("job_not_found", f"jobId: {job.state.job_id!r} was deleted.", field="jobId")
        reply, warnings = await _change_once(call, job, job.definition, body, expected)
        if reply is None:
            head = {"jobId": job.state.job_id, "version": job.state.version}
            rest = {"nextRunAt": instant_or_none(job.state.next_at_ms), "warnings": warnings}
            return answer(head | rest, headers=etag(job.state.version) | {"Idempotent-Replayed": "true"})
        if reply.code == "version_conflict" and not expected and tries_left:
            call.gateway.wrote(job.state.job_id, reply.version)
            continue
        return _defined(call, reply, warnings, created=False)
    raise AssertionError("unreachable")


async def _change_once(
    call: HttpCall, job: Job, definition: Definition, body: JobBody, expected: int
) -> tuple[Reply | None, list[str]]:
    """Give the owner's reply; None if the job is what the call asks for already."""
    gateway = call.gateway
    changed = patch(definition, body, now_ms=gateway.now_ms())
    gateway.queues.require(call.caller.tenant, changed.queue)
    warnings = check(changed, now_ms=gateway.now_ms())
    if changed == definition:
        return None, warnings
    if expected and expected != job.state.version:
        detail = f"If-Match: the job is at version {job.state.version}, not {expected}; read it again."
        members = {"version": job.state.version}
        raise Problem("version_mismatch", detail, field="If-Match", members=members)
    command = Define(
        job_id=job.state.job_id,
        definition=changed,
        request_hash=request_hash(changed),
        mode="edit",
        expected_version=expected or job.state.version,
        actor=call.caller.name,
    )
    return await gateway.client.command(command), warnings


async def delete(call: HttpCall) -> web.Response:
    """`DELETE /v1/jobs/{job_id}`."""
    command = Delete(
        job_id=call.job_id,
        tenant=call.caller.tenant,
        expected_version=call.if_match,
        actor=call.caller.name,
    )
    reply = accepted(await call.gateway.client.command(command))
    call.gateway.wrote(reply.job_id, reply.version)
    body = {"jobId": reply.job_id, "version": reply.version, "state": "deleted"}
    return answer(body, headers=_replayed(reply))


async def list_jobs(call: HttpCall) -> web.Response:
    """`GET /v1/jobs`: partition after partition, in key order inside each."""
    query = call.query("queue", "state", "namePrefix", "label", "limit", "cursor")
    limit = call.number("limit", LIST_DEFAULT, 1, LIST_MAX)
    wanted = _filter(call)
    partition, after = _read_cursor(query.get("cursor"), call.gateway.limits.partitions)
    found: list[dict[str, Any]] = []
    for _ in range(PAGES_MAX):
        if partition >= call.gateway.limits.partitions or len(found) >= limit:
            break
        page = await call.gateway.queries.page(
            partition,
            after,
            min(OWNER_PAGE, limit - len(found)),
            tenant=call.caller.tenant,
            queue=query.get("queue"),
        )
        found += [job_view(job, with_payload=False) for job in page.jobs if wanted(job)]
        after = page.next_after
        if after is None:
            partition += 1
    ended = partition >= call.gateway.limits.partitions
    return answer({"jobs": found, "nextCursor": None if ended else _write_cursor(partition, after)})


async def list_runs(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}/runs`: the open ones, and those closed ones that the state remembers."""
    query = call.query("state", "limit", "cursor")
    limit = call.number("limit", LIST_DEFAULT, 1, LIST_MAX)
    state = _choice(query.get("state"), "state", RUN_STATES)
    job = await call.gateway.job(call.job_id, call.caller)
    now_ms = call.gateway.now_ms()
    runs = runs_newest_first(job)
    if state is not None:
        runs = [
            run for run in runs if ("closed" if isinstance(run, ClosedRun) else open_run_state(run, now_ms)) == state
        ]
    if (cursor := query.get("cursor")) is not None:
        at_ms, run_id = _read_run_cursor(cursor)
        runs = [run for run in runs if (run.scheduled_at_ms, run.run_id) < (at_ms, run_id)]
    page = runs[:limit]
    more = _encode(f"{page[-1].scheduled_at_ms}|{page[-1].run_id}") if len(runs) > limit else None
    return answer({"runs": [run_view(job, run, now_ms) for run in page], "nextCursor": more})


async def pause(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/pause`."""
    body = await call.body(_PAUSE)
    until_ms = 0 if body.until is None else read_instant(body.until, "until")
    command = Pause(
        job_id=call.job_id,
        tenant=call.caller.tenant,
        actor=body.actor or call.caller.name,
        note=body.note,
        until_ms=until_ms,
    )
    accepted(await call.gateway.client.command(command))
    return await _job_when(call, lambda job: job.state.pause is not None)


async def resume(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/resume`."""
    body = await call.body(_RESUME)
    command = Resume(
        job_id=call.job_id,
        tenant=call.caller.tenant,
        actor=body.actor or call.caller.name,
        note=body.note,
    )
    accepted(await call.gateway.client.command(command))
    return await _job_when(call, lambda job: job.state.pause is None)


async def trigger(call: HttpCall) -> web.Response:
    """`POST /v1/jobs/{job_id}/trigger`."""
    body = await call.body(_TRIGGER)
    job_id, key, tenant = call.job_id, call.idempotency_key, call.caller.tenant
    trigger_id = f"t-{secrets.token_hex(12)}" if key is None else trigger_id_of_key(tenant, job_id, key)
    command = Trigger(
        job_id=job_id,
        tenant=tenant,
        trigger_id=trigger_id,
        force=body.force,
        payload=None if body.payload is UNSET else read_payload(body.payload),
        actor=call.caller.name,
    )
    reply = accepted(await call.gateway.client.command(command))
    view = {
        "runId": reply.run_id,
        "jobId": job_id,
        "scheduledFor": instant_or_none(reply.next_at_ms),
    }
    return answer(view, 201, _replayed(reply) | {"Location": f"/v1/runs/{reply.run_id}"})


async def explain(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}/explain`."""
    query = call.query("at")
    at_ms = None if "at" not in query else read_instant(query["at"], "at")
    job = await call.gateway.job(call.job_id, call.caller)
    desk = call.gateway.client.desk
    calls, slots = desk.polling().get((job.state.tenant, job.state.queue), (0, 0))
    polling = explanations.Polling(calls, slots)
    return answer(explanations.explain(job, at_ms, polling, call.gateway.now_ms()))


def accepted(reply: Reply) -> Reply:
    """Give a reply that is no refusal. Raises Problem."""
    if reply.code in ("ok", "created"):
        return reply
    problem = problem_of(reply)
    if reply.blocked_by:
        problem.members["blockedBy"] = reply.blocked_by
    raise problem


def _defined(call: HttpCall, reply: Reply, warnings: list[str], *, created: bool) -> web.Response:
    accepted(reply)
    call.gateway.wrote(reply.job_id, reply.version)
    call.gateway.recent.belongs(reply.job_id, call.caller.tenant)
    body = {
        "jobId": reply.job_id,
        "version": reply.version,
        "nextRunAt": None if reply.next_at_ms is None else instant_text(reply.next_at_ms),
        "warnings": warnings,
    }
    headers = etag(reply.version) | _replayed(reply)
    if created:
        headers["Location"] = f"/v1/jobs/{reply.job_id}"
    return answer(body, 201 if created else 200, headers)


def _other_body(job_id: str, *, named: bool) -> Problem:
    if named:
        detail = f"jobId: {job_id!r} exists with another definition; use PUT to replace it, or another id."
        return Problem("job_exists", detail, field="jobId")
    detail = "Idempotency-Key: was used with another body; send the first body again, or another key."
    return Problem("idempotency_conflict", detail, field="Idempotency-Key")


def _replayed(reply: Reply) -> dict[str, str]:
    return {"Idempotent-Replayed": "true"} if reply.replayed else {}


async def _job_when(call: HttpCall, holds: Callable[[Job], bool]) -> web.Response:
    job = await call.gateway.job(call.job_id, call.caller, until=holds)
    return answer(job_view(job), headers=etag(job.state.version))


def _choice(value: str | None, name: str, allowed: tuple[str, ...]) -> str | None:
    if value is not None and value not in allowed:
        raise bad_header(name, f"one of {', '.join(allowed)}")
    return value


def _filter(call: HttpCall) -> Callable[[Job], bool]:
    query = call.request.query
    state = _choice(query.get("state"), "state", JOB_STATES)
    prefix = query.get("namePrefix", "")
    labels: dict[str, str] = {}
    for label in query.getall("label", []):
        key, colon, value = label.partition(":")
        if not colon:
            raise bad_header("label", "key:value")
        labels[key] = value

    def wanted(job: Job) -> bool:
        require_tenant(job.state.tenant, call.caller, "jobId")
        present = job_state_of(job.state)
        if present != state if state is not None else present == "deleted":
            return False
        if job.definition is None:
            return not prefix and not labels
        own = job.definition.labels
        return job.definition.name.startswith(prefix) and all(own.get(key) == value for key, value in labels.items())

    return wanted


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str) -> tuple[str, str]:
    """Give the two parts of a cursor. Raises Problem."""
    problem = bad_header("cursor", "the nextCursor of the page before, unchanged")
    if len(cursor) > CURSOR_CHARS_MAX:
        raise problem
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        raise problem from None
    first, bar, rest = text.partition("|")
    if not bar or not first.isascii() or not first.isdigit():
        raise problem
    return first, rest


def _write_cursor(partition: int, after: str | None) -> str:
    return _encode(f"{partition}|{after or ''}")


def _read_cursor(cursor: str | None, partitions: int) -> tuple[int, str | None]:
    if cursor is None:
        return 0, None
    partition, after = _decode(cursor)
    if not 0 <= int(partition) < partitions:
        raise bad_header("cursor", "the nextCursor of the page before, unchanged")
    return int(partition), after or None


def _read_run_cursor(cursor: str) -> tuple[int, str]:
    at_ms, run_id = _decode(cursor)
    return int(at_ms), run_id


ROUTES: Final = (
    Route("POST", "/v1/jobs", create),
    Route("GET", "/v1/jobs", list_jobs),
    Route("GET", "/v1/jobs/{job_id}", get),
    Route("PUT", "/v1/jobs/{job_id}", put),
    Route("PATCH", "/v1/jobs/{job_id}", change),
    Route("DELETE", "/v1/jobs/{job_id}", delete),
    Route("GET", "/v1/jobs/{job_id}/runs", list_runs),
    Route("GET", "/v1/jobs/{job_id}/explain", explain),
    Route("POST", "/v1/jobs/{job_id}/pause", pause),
    Route("POST", "/v1/jobs/{job_id}/resume", resume),
    Route("POST", "/v1/jobs/{job_id}/trigger", trigger),
)
