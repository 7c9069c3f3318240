"""Jobs: create, read, replace, change, delete, list; runs and explain of one job."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from api import explain as explanations
from api.answers import (
    ExplanationAnswer,
    JobAnswer,
    JobDeletedAnswer,
    JobRefAnswer,
    JobsAnswer,
    RunsAnswer,
)
from api.bodies import JobBody, decode, decoder
from api.cursors import Shown, read_place, read_run_place, write_place, write_run_place, write_token
from api.definitions import (
    KeyFields,
    body_hash,
    check_job_id,
    define,
    job_id_of_key,
    key_fields,
    key_of_another_body,
    patch,
    read_instant,
    standing,
)
from api.explain import KeyRoom, QueueRoom, Rooms
from api.http_call import HttpCall, accepted, answer, etag, replayed
from api.instants import instant_or_none, instant_text
from api.listing import (
    CONSISTENCY,
    JOB_FILTERS,
    JOB_STATES,
    LIST_DEFAULT,
    LIST_MAX,
    PAGING,
    Walk,
    read_filter,
    wait_until_shown,
)
from api.polling import NOBODY, polling_of
from api.problems import Problem
from api.routes.route import Param, Route
from api.views import job_view, run_state_of, run_view, runs_newest_first
from streams.core.commands import Define, Delete
from streams.core.job_filter import standing_of
from streams.core.wire import request_hash

if TYPE_CHECKING:
    from aiohttp import web

    from streams.core.commands import Reply
    from streams.core.definition import Definition
    from streams.core.state import Job

PATCH_TRIES: Final = 3
"""A change that somebody else overtakes is made again on what they left."""

RUN_STATES: Final = ("ready", "leased", "retrying", "queued", "closed")

DEFINITION_PROBLEMS: Final = (
    "payload_too_large",
    "unknown_queue",
    "bad_cron",
    "bad_schedule",
    "bad_time_zone",
    "never_fires",
    "forbidden",
    "pending_cap",
)
"""What a definition may be refused for."""

_JOB: Final = decoder(JobBody)


async def create(call: HttpCall) -> web.Response:
    """`POST /v1/jobs`: create a job."""
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
    gateway.concurrency.require_startable(definition)
    warnings = await gateway.calendars.check(definition, now_ms=gateway.now_ms())
    command = Define(
        job_id=job_id,
        definition=definition,
        request_hash=body_hash(data),
        mode="create",
        actor=call.caller.name,
        config_offset=gateway.calendars.config_offset(definition),
        standing=standing(body),
    )
    await gateway.require_room(call.caller, job_id, command.request_hash, may_exist=named or key is not None)
    reply = await gateway.client.command(command)
    if reply.code == "idempotency_conflict":
        raise _other_body(job_id, named=named)
    return _defined(call, reply, warnings, created=True)


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}`: read a job."""
    call.query()
    job = await call.gateway.job(call.job_id, call.caller)
    return answer(job_view(job), headers=etag(job.state.version))


async def put(call: HttpCall) -> web.Response:
    """`PUT /v1/jobs/{job_id}`: create or replace a job."""
    data = await call.bytes()
    body = decode(_JOB, data)
    job_id = check_job_id(call.job_id)
    if body.job_id not in (UNSET, None, job_id):
        raise Problem("invalid_field", "jobId: differs from the path; leave it out.", field="jobId")
    gateway, expected, create_only = call.gateway, call.if_match, call.create_only
    definition = define(body, job_id=job_id, tenant=call.caller.tenant, now_ms=gateway.now_ms(), default_name=job_id)
    gateway.queues.require(call.caller.tenant, definition.queue)
    gateway.concurrency.require_startable(definition)
    warnings = await gateway.calendars.check(definition, now_ms=gateway.now_ms())
    command = Define(
        job_id=job_id,
        definition=definition,
        request_hash=body_hash(data),
        mode="create" if create_only else "edit" if expected else "upsert",
        expected_version=expected,
        actor=call.caller.name,
        config_offset=gateway.calendars.config_offset(definition),
        standing=standing(body),
        **key_fields(call.idempotency_key, data, "PUT", call.caller.tenant, job_id),
    )
    if not expected:
        await gateway.require_room(call.caller, job_id, command.request_hash, may_exist=True)
    reply = await gateway.client.command(command)
    if create_only and reply.code == "idempotency_conflict" and not reply.field:
        detail = "If-None-Match: the job exists; leave the header out to replace it."
        raise Problem("version_mismatch", detail, field="If-None-Match", members={"version": reply.version or None})
    return _defined(call, reply, warnings, created=reply.code == "created")


async def change(call: HttpCall) -> web.Response:
    """`PATCH /v1/jobs/{job_id}`: change a job: read, merge, write under the version that was read."""
    data = await call.bytes()
    body = decode(_JOB, data)
    expected = call.if_match
    keyed = key_fields(call.idempotency_key, data, "PATCH", call.caller.tenant, call.job_id)
    for tries_left in reversed(range(PATCH_TRIES)):
        job = await call.gateway.job(call.job_id, call.caller, until=lambda job: job.state.version >= expected)
        if job.definition is None:
            raise Problem("job_not_found", f"jobId: {job.state.job_id!r} was deleted.", field="jobId")
        use = job.key_use(keyed["key"]) if keyed else None
        if use is not None:
            if use.body != keyed["body"]:
                raise key_of_another_body()
            return _unchanged(job, use.version, [])
        reply, warnings = await _change_once(call, job, job.definition, body, expected, keyed=keyed)
        if reply is None:
            return _unchanged(job, job.state.version, warnings)
        if reply.code == "version_conflict" and not expected and tries_left:
            call.gateway.wrote(job.state.job_id, reply.version)
            continue
        return _defined(call, reply, warnings, created=False)
    raise AssertionError("unreachable")


async def _change_once(
    call: HttpCall, job: Job, definition: Definition, body: JobBody, expected: int, *, keyed: KeyFields
) -> tuple[Reply | None, list[str]]:
    """Give the owner's reply; None if the job is what the call asks for already, and there is no key to remember."""
    gateway = call.gateway
    changed = patch(definition, body, now_ms=gateway.now_ms())
    gateway.queues.require(call.caller.tenant, changed.queue)
    if (changed.concurrency_key, changed.concurrency_weight) != (
        definition.concurrency_key,
        definition.concurrency_weight,
    ):
        gateway.concurrency.require_startable(changed)
    warnings = await gateway.calendars.check(changed, now_ms=gateway.now_ms())
    wanted = standing(body)
    same = changed == definition and wanted in ("", standing_of(job.state))
    if same and not keyed:
        return None, warnings
    if not same and expected and expected != job.state.version:
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
        config_offset=gateway.calendars.config_offset(changed),
        standing=wanted,
        **keyed,
    )
    return await gateway.client.command(command), warnings


async def delete(call: HttpCall) -> web.Response:
    """`DELETE /v1/jobs/{job_id}`: delete a job."""
    command = Delete(
        job_id=call.job_id,
        tenant=call.caller.tenant,
        expected_version=call.if_match,
        actor=call.caller.name,
        **key_fields(call.idempotency_key, b"{}", "DELETE", call.caller.tenant, call.job_id),
    )
    reply = accepted(await call.gateway.client.command(command))
    call.gateway.wrote(reply.job_id, reply.version)
    token = write_token(Shown(reply.job_id, reply.version))
    body = {"jobId": reply.job_id, "version": reply.version, "state": "deleted", "consistencyToken": token}
    return answer(body, headers=replayed(reply))


async def list_jobs(call: HttpCall) -> web.Response:
    """`GET /v1/jobs`: list jobs, partition after partition, in key order inside each."""
    query = call.query()
    limit = call.number("limit", LIST_DEFAULT, 1, LIST_MAX)
    place = read_place(query.get("cursor"), call.gateway.limits.partitions)
    wanted = read_filter(call)
    await wait_until_shown(call)
    walk = Walk(call.gateway, wanted, place, page=limit)
    found: list[dict[str, Any]] = []
    async for job in walk.jobs():
        found.append(job_view(job, with_payload=False))
        if len(found) == limit:
            break
    return answer({"jobs": found, "nextCursor": None if walk.ended else write_place(walk.place)})


async def list_runs(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}/runs`: runs of a job: the open ones, and those closed ones that the state remembers."""
    query = call.query()
    limit = call.number("limit", LIST_DEFAULT, 1, LIST_MAX)
    state = call.choice("state", RUN_STATES)
    job = await call.gateway.job(call.job_id, call.caller)
    now_ms = call.gateway.now_ms()
    runs = runs_newest_first(job)
    if state is not None:
        runs = [run for run in runs if run_state_of(run, now_ms) == state]
    if (cursor := query.get("cursor")) is not None:
        at_ms, run_id = read_run_place(cursor)
        runs = [run for run in runs if (run.scheduled_at_ms, run.run_id) < (at_ms, run_id)]
    page = runs[:limit]
    more = write_run_place(page[-1].scheduled_at_ms, page[-1].run_id) if len(runs) > limit else None
    return answer({"runs": [run_view(job, run, now_ms) for run in page], "nextCursor": more})


async def explain(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}/explain`: why an occurrence ran, or did not."""
    query = call.query()
    at_ms = None if "at" not in query else read_instant(query["at"], "at")
    job = await call.gateway.job(call.job_id, call.caller)
    polling = (await polling_of(call.gateway, job.state.tenant)).get(job.state.queue, NOBODY)
    record = await call.gateway.evidence(job.state.job_id, explanations.asks_of_past(job, at_ms))
    explained = explanations.explain(job, at_ms, polling, call.gateway.now_ms(), record, rooms=_rooms_of(call, job))
    found = await call.gateway.evidence(job.state.job_id, [ask for ask in explained.asks if ask is not None])
    return answer(explained.proven(found))


def _rooms_of(call: HttpCall, job: Job) -> Rooms:
    """Give what bounds the runs of a job: by its queue, and by its concurrency key."""
    return Rooms(_queue_room_of(call, job), _key_room_of(call, job))


def _queue_room_of(call: HttpCall, job: Job) -> QueueRoom | None:
    tenant, queue = job.state.tenant, job.state.queue
    entry, of_tenant = call.gateway.queues.entry(tenant, queue), call.gateway.tenants.entry(tenant)
    rates = [one.lease_rate_per_s for one in (entry, of_tenant) if one is not None]
    rate = min((rate for rate in rates if rate is not None), default=None)
    limit = None if entry is None else entry.running_max
    if rate is None and limit is None:
        return None
    return QueueRoom(queue, limit, call.gateway.queues.running(tenant, queue), rate)


def _key_room_of(call: HttpCall, job: Job) -> KeyRoom | None:
    state, book = job.state, call.gateway.concurrency
    limit = book.limit(state.tenant, state.concurrency_key) if state.concurrency_key else None
    if limit is None:
        return None
    return KeyRoom(state.concurrency_key, limit, *book.use(state.tenant, state.concurrency_key))


def _defined(call: HttpCall, reply: Reply, warnings: list[str], *, created: bool) -> web.Response:
    accepted(reply)
    call.gateway.wrote(reply.job_id, reply.version)
    call.gateway.recent.belongs(reply.job_id, call.caller.tenant)
    body = {
        "jobId": reply.job_id,
        "version": reply.version,
        "nextRunAt": None if reply.next_at_ms is None else instant_text(reply.next_at_ms),
        "warnings": warnings,
        "consistencyToken": write_token(Shown(reply.job_id, reply.version)),
    }
    headers = etag(reply.version) | replayed(reply)
    if created:
        headers["Location"] = f"/v1/jobs/{reply.job_id}"
    return answer(body, 201 if created else 200, headers)


def _unchanged(job: Job, version: int, warnings: list[str]) -> web.Response:
    """Answer a change that was made already."""
    body = {
        "jobId": job.state.job_id,
        "version": version,
        "nextRunAt": instant_or_none(job.state.next_at_ms),
        "warnings": warnings,
        "consistencyToken": write_token(Shown(job.state.job_id, version)),
    }
    return answer(body, headers=etag(version) | {"Idempotent-Replayed": "true"})


def _other_body(job_id: str, *, named: bool) -> Problem:
    if named:
        detail = f"jobId: {job_id!r} exists with another definition; use PUT to replace it, or another id."
        return Problem("job_exists", detail, field="jobId")
    return key_of_another_body()


ROUTES: Final = (
    Route(
        "POST",
        "/v1/jobs",
        create,
        body=JobBody,
        headers=("Idempotency-Key",),
        answers={201: JobRefAnswer},
        problems=(*DEFINITION_PROBLEMS, "idempotency_conflict", "job_exists"),
        writes=True,
    ),
    Route(
        "GET",
        "/v1/jobs",
        list_jobs,
        query=(
            *JOB_FILTERS,
            Param("state", "Where the job stands; left out: all but deleted.", choices=JOB_STATES),
            Param("namePrefix", "How the name begins."),
            Param("nextFrom", "The next occurrence is not before it.", "instant"),
            Param("nextUntil", "The next occurrence is before it.", "instant"),
            Param("calendar", "Jobs that name this calendar."),
            CONSISTENCY,
            *PAGING,
        ),
        answers={200: JobsAnswer},
        problems=("not_caught_up",),
        reads=True,
    ),
    Route("GET", "/v1/jobs/{job_id}", get, answers={200: JobAnswer}, reads=True),
    Route(
        "PUT",
        "/v1/jobs/{job_id}",
        put,
        body=JobBody,
        headers=("Idempotency-Key", "If-Match", "If-None-Match"),
        answers={200: JobRefAnswer, 201: JobRefAnswer},
        problems=(*DEFINITION_PROBLEMS, "version_mismatch", "job_exists", "job_finished", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "PATCH",
        "/v1/jobs/{job_id}",
        change,
        body=JobBody,
        headers=("Idempotency-Key", "If-Match"),
        answers={200: JobRefAnswer},
        problems=(*DEFINITION_PROBLEMS, "version_mismatch", "job_finished", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "DELETE",
        "/v1/jobs/{job_id}",
        delete,
        headers=("Idempotency-Key", "If-Match"),
        answers={200: JobDeletedAnswer},
        problems=("version_mismatch", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "GET",
        "/v1/jobs/{job_id}/runs",
        list_runs,
        query=(Param("state", "State of the run.", choices=RUN_STATES), *PAGING),
        answers={200: RunsAnswer},
        reads=True,
    ),
    Route(
        "GET",
        "/v1/jobs/{job_id}/explain",
        explain,
        query=(Param("at", "The occurrence; left out: the open, next or last one.", "instant"),),
        answers={200: ExplanationAnswer},
        problems=("invalid_field",),
        reads=True,
    ),
)
