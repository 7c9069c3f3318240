"""Bulk changes of jobs by filter: pause, resume, delete, and taking one of them back.

One call changes at most a thousand jobs and gives a cursor for the rest. Its correlation id stands in the note (pause,
resume) or the actor (delete) of every command, so that history shows what belongs together. What was changed is in the
answer's undo token.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final

from api.answers import BulkJobsAnswer
from api.bodies import BulkBody, UndoBody, decode, decoder
from api.cursors import Place, read_place, write_place
from api.definitions import (
    KeyFields,
    bulk_key_fields,
    check_job_id,
    check_name,
    correlation_id_of_key,
    earlier_use,
    read_instant,
)
from api.dispatch.calls import Failure
from api.http_call import HttpCall, answer
from api.listing import LABELS_MAX, TEXT_CHARS_MAX, Walk
from api.problems import Problem, problem_of
from api.routes.route import Route
from api.undo import (
    JOBS_MAX,
    UNDO_BYTES_MAX,
    BulkAction,
    UndoJob,
    UndoNote,
    read_memo,
    read_undo,
    size_of,
    write_memo,
    write_undo,
)
from streams.core.commands import Define, Delete, Pause, Resume
from streams.core.job_filter import JobFilter, standing_of
from streams.core.wire import request_hash

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from aiohttp import web

    from streams.core.commands import AnyCommand, Reply
    from streams.core.state import Job

NOTE_CHARS_MAX: Final = 200
"""Of the caller's part; the correlation id is put behind it."""

READ_AT_ONCE: Final = 32
"""Questions to owners that are open at a time."""

_BULK: Final = decoder(BulkBody)
_UNDO: Final = decoder(UndoBody)


class _Selected:
    """Jobs of one page, and what is to be done to each: a command, or nothing if it was done by this very call."""

    def __init__(self) -> None:
        self.job_ids: list[str] = []
        self.commands: list[AnyCommand | None] = []
        self.undo: list[UndoJob] = []
        self.undo_bytes = 0

    def add(self, job_id: str, command: AnyCommand | None, undo: UndoJob) -> None:
        self.job_ids.append(job_id)
        self.commands.append(command)
        self.undo.append(undo)
        self.undo_bytes += size_of(undo)


async def _change(call: HttpCall, action: BulkAction) -> web.Response:
    data = await call.bytes()
    body = decode(_BULK, data)
    _check(body, action)
    key = call.idempotency_key
    tenant = call.caller.tenant
    keyed = bulk_key_fields(key, data, "bulk", action, tenant)
    correlation = f"c-{secrets.token_hex(8)}" if key is None else correlation_id_of_key(tenant, action, key)
    place = read_place(body.cursor, call.gateway.limits.partitions)
    selected, after = await _select(call, body, action, correlation, place, keyed=keyed)
    results = [None] * len(selected.job_ids) if body.dry_run else await _send(call, selected.commands)
    items = [
        {"jobId": job_id, "ok": None} if body.dry_run else _item(job_id, result)
        for job_id, result in zip(selected.job_ids, results, strict=True)
    ]
    changed = [undo for undo, item in zip(selected.undo, items, strict=True) if item["ok"] is not False]
    return _bulk_answer(action, correlation, items, dry_run=body.dry_run, changed=changed, after=after)


def _bulk_answer(
    action: str,
    correlation: str,
    items: list[dict[str, Any]],
    *,
    dry_run: bool,
    changed: Sequence[UndoJob],
    after: Place | None,
) -> web.Response:
    undo = None
    if changed and action != "undo":
        undo = write_undo(UndoNote(action=action, correlation_id=correlation, jobs=list(changed)))  # type: ignore[arg-type] # not undo
    view = {
        "correlationId": correlation,
        "action": action,
        "dryRun": dry_run,
        "matched": len(items),
        "changed": sum(item["ok"] is True for item in items),
        "jobs": items,
        "nextCursor": None if after is None else write_place(after),
        "undoToken": undo,
    }
    return answer(view)


def _check(body: BulkBody, action: BulkAction) -> None:
    wanted = body.filter
    if not (wanted.queue or wanted.labels or wanted.text or wanted.name_prefix or wanted.job_ids):
        allowed = ["queue", "labels", "text", "namePrefix", "jobIds"]
        detail = f"filter: name at least one of {', '.join(allowed)}, so that no empty filter changes every job."
        raise Problem("missing_field", detail, field="filter", allowed=allowed)
    if wanted.queue:
        check_name(wanted.queue, "filter.queue")
    for text, field in ((wanted.text, "filter.text"), (wanted.name_prefix, "filter.namePrefix")):
        if len(text) > TEXT_CHARS_MAX:
            raise Problem("invalid_field", f"{field}: at most {TEXT_CHARS_MAX} characters.", field=field)
    for count, most, field in (
        (len(wanted.labels), LABELS_MAX, "filter.labels"),
        (len(wanted.job_ids), JOBS_MAX, "filter.jobIds"),
        (len(body.note), NOTE_CHARS_MAX, "note"),
    ):
        if count > most:
            raise Problem("invalid_field", f"{field}: at most {most}.", field=field, limit=most)
    for job_id in wanted.job_ids:
        check_job_id(job_id, "filter.jobIds")
    if not 1 <= body.limit <= JOBS_MAX:
        raise Problem("invalid_field", f"limit: use 1 to {JOBS_MAX}.", field="limit", limit=JOBS_MAX)
    if body.until is not None and action != "pause":
        raise Problem("unknown_field", "until: belongs to a pause; remove it.", field="until")


async def _select(
    call: HttpCall, body: BulkBody, action: BulkAction, correlation: str, place: Place, *, keyed: KeyFields
) -> tuple[_Selected, Place | None]:
    """Take jobs until the page is full, in count or in bytes of undo; give them and where to go on."""
    until_ms = 0 if body.until is None else read_instant(body.until, "until")
    selected = _Selected()
    wanted = JobFilter(
        tenant=call.caller.tenant,
        queue=body.filter.queue,
        labels=body.filter.labels,
        text=body.filter.text,
        name_prefix=body.filter.name_prefix,
        key=keyed.get("key", ""),
    )
    walk = Walk(call.gateway, wanted, place)
    before = place
    async for job in _jobs(call, body.filter.job_ids, wanted, walk):
        command: AnyCommand | None = None
        undo = _done_already(job, keyed)
        if undo is None:
            undo = _before(job, action)
            members: KeyFields = {**keyed, "memo": write_memo(undo)} if keyed else {}
            command = _command(call, body, action, job=job, correlation=correlation, until_ms=until_ms, keyed=members)
            if command is None:
                undo = None
        if undo is not None:
            if selected.undo_bytes + size_of(undo) > UNDO_BYTES_MAX:
                return selected, before
            selected.add(job.state.job_id, command, undo)
        if len(selected.job_ids) >= body.limit and not body.filter.job_ids:
            return selected, None if walk.ended else walk.place
        before = walk.place
    return selected, None if walk.ended or body.filter.job_ids else walk.place


async def _jobs(call: HttpCall, job_ids: list[str], wanted: JobFilter, walk: Walk) -> AsyncIterator[Job]:
    if not job_ids:
        async for job in walk.jobs():
            yield job
        return
    for found in await _read(call, list(dict.fromkeys(job_ids))):
        if found is not None and wanted.matches(found):
            yield found


async def _read(call: HttpCall, job_ids: list[str]) -> list[Job | None]:
    found: list[Job | None] = []
    for start in range(0, len(job_ids), READ_AT_ONCE):
        some = job_ids[start : start + READ_AT_ONCE]
        found += await asyncio.gather(*(call.gateway.queries.job(job_id) for job_id in some))
    return found


def _command(
    call: HttpCall,
    body: BulkBody,
    action: BulkAction,
    *,
    job: Job,
    correlation: str,
    until_ms: int,
    keyed: KeyFields,
) -> AnyCommand | None:
    """Give the command that changes this job; None where there is nothing to change."""
    job_id, tenant = job.state.job_id, call.caller.tenant
    actor, note = body.actor or call.caller.name, f"{body.note} [bulk {correlation}]".strip()
    standing = standing_of(job.state)
    if action == "pause" and standing == "active":
        return Pause(job_id=job_id, tenant=tenant, actor=actor, note=note, until_ms=until_ms, **keyed)
    if action == "resume" and standing == "paused":
        return Resume(job_id=job_id, tenant=tenant, actor=actor, note=note, **keyed)
    if action == "delete" and standing != "deleted":
        return Delete(job_id=job_id, tenant=tenant, actor=f"{actor} [bulk {correlation}]", **keyed)
    return None


def _done_already(job: Job, keyed: KeyFields) -> UndoJob | None:
    """Give how the job was before an earlier try of this call; raises Problem as `earlier_use` does."""
    use = earlier_use(job, keyed)
    return None if use is None else read_memo(job.state.job_id, use.memo)


def _before(job: Job, action: BulkAction) -> UndoJob:
    """Give what an undo needs of the job as it is now."""
    state = job.state
    if action == "pause":
        return UndoJob(job_id=state.job_id)
    return UndoJob(job_id=state.job_id, pause=state.pause, definition=job.definition if action == "delete" else None)


async def _send(call: HttpCall, commands: Sequence[AnyCommand | None]) -> list[Reply | Failure | None]:
    results = iter(await call.gateway.client.commands([command for command in commands if command is not None]))
    return [None if command is None else next(results) for command in commands]


def _item(job_id: str, result: Reply | Failure | None) -> dict[str, Any]:
    if result is None or (not isinstance(result, Failure) and result.code in ("ok", "created")):
        return {"jobId": job_id, "ok": True}
    problem = problem_of(result)
    return {"jobId": job_id, "ok": False, "code": problem.code, "detail": problem.detail}


async def pause(call: HttpCall) -> web.Response:
    """`POST /v1/jobs:pause`: pause the jobs that a filter names."""
    return await _change(call, "pause")


async def resume(call: HttpCall) -> web.Response:
    """`POST /v1/jobs:resume`: resume the jobs that a filter names."""
    return await _change(call, "resume")


async def delete(call: HttpCall) -> web.Response:
    """`POST /v1/jobs:delete`: delete the jobs that a filter names."""
    return await _change(call, "delete")


async def undo(call: HttpCall) -> web.Response:
    """`POST /v1/jobs:undo`: take a bulk change back, job by job, where nobody changed the job since."""
    body = await call.body(_UNDO)
    note = read_undo(body.undo_token)
    items: dict[str, dict[str, Any]] = {}
    commands: list[AnyCommand] = []
    for before in note.jobs:
        check_job_id(before.job_id, "undoToken")
    jobs = await _read(call, [before.job_id for before in note.jobs])
    for before, job in zip(note.jobs, jobs, strict=True):
        items[before.job_id] = {"jobId": before.job_id, "ok": False, "code": "version_mismatch"}
        items[before.job_id]["detail"] = "changed since; left as it is"
        if job is not None and job.state.tenant != call.caller.tenant:
            items[before.job_id] = {"jobId": before.job_id, "ok": False, "code": "forbidden"}
            continue
        if _is_undone(note, before, job):
            items[before.job_id] = {"jobId": before.job_id, "ok": True}
        else:
            try:
                commands += await _inverse(call, note, before, job)
            except Problem as problem:
                items[before.job_id] = {"jobId": before.job_id, "ok": False, "code": problem.code}
                items[before.job_id]["detail"] = problem.detail
    for command, result in zip(commands, await call.gateway.client.commands(commands), strict=True):
        if (
            isinstance(result, Failure)
            or result.code not in ("ok", "created")
            or items[command.job_id].get("code") == "version_mismatch"
        ):
            items[command.job_id] = _item(command.job_id, result)
    return _bulk_answer("undo", note.correlation_id, list(items.values()), dry_run=False, changed=(), after=None)


def _is_undone(note: UndoNote, before: UndoJob, job: Job | None) -> bool:
    if note.action == "delete" and job is not None and job.definition is not None:
        return job.definition == before.definition
    standing = "deleted" if job is None else standing_of(job.state)
    return {
        "pause": standing == "active",
        "resume": standing == "paused",
        "delete": standing in ("active", "paused", "finished"),
    }[note.action]


async def _inverse(call: HttpCall, note: UndoNote, before: UndoJob, job: Job | None) -> list[AnyCommand]:
    """Give the commands that bring one job back; none if somebody else has changed it since."""
    tenant, actor = call.caller.tenant, call.caller.name
    mark = f"[undo {note.correlation_id}]"
    was = before.pause
    again: list[AnyCommand] = []
    if was is not None:
        note_text = was.note if note.action == "delete" else f"{was.note} {mark}".strip()
        again = [
            Pause(
                job_id=before.job_id,
                tenant=tenant,
                actor=was.actor or actor,
                note=note_text,
                until_ms=was.until_ms,
            )
        ]
    if note.action == "pause":
        by_us = job is not None and job.state.pause is not None and note.correlation_id in job.state.pause.note
        return [Resume(job_id=before.job_id, tenant=tenant, actor=actor, note=mark)] if by_us else []
    if note.action == "resume":
        return again if job is not None and standing_of(job.state) == "active" else []
    definition = before.definition
    if job is not None and standing_of(job.state) != "deleted":
        return []
    if definition is None or definition.tenant != tenant or definition.job_id != before.job_id:
        return []
    await call.gateway.calendars.check(definition, now_ms=call.gateway.now_ms())
    define = Define(
        job_id=before.job_id,
        definition=definition,
        request_hash=f"{request_hash(definition)}-{note.correlation_id}"[:100],
        mode="upsert",
        config_offset=call.gateway.calendars.config_offset(definition),
        actor=f"{actor} {mark}",
    )
    return [define, *again]


def _route(action: str, handler: Any) -> Route:
    return Route(
        "POST",
        f"/v1/jobs:{action}",
        handler,
        body=BulkBody,
        headers=("Idempotency-Key",),
        answers={200: BulkJobsAnswer},
        problems=("idempotency_conflict",),
        writes=True,
    )


ROUTES: Final = (
    _route("pause", pause),
    _route("resume", resume),
    _route("delete", delete),
    Route(
        "POST",
        "/v1/jobs:undo",
        undo,
        batch=True,
        body=UndoBody,
        answers={200: BulkJobsAnswer},
        problems=("bad_cron", "bad_schedule", "bad_time_zone", "never_fires", "payload_too_large"),
        writes=True,
    ),
)
