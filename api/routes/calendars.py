"""Exclusion calendars: create or change, read, list, delete. Jobs name them in `calendars`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from api.answers import CalendarAnswer, CalendarDeletedAnswer, CalendarsAnswer
from api.bodies import CalendarBody, decoder
from api.cursors import Place, read_name, write_name
from api.definitions import check_name
from api.http_call import HttpCall, answer, bad_header, etag
from api.instants import instant_text
from api.listing import LIST_DEFAULT, LIST_MAX, PAGING, Walk
from api.problems import Problem
from api.routes.route import Param, Route
from streams.core.job_filter import JobFilter

if TYPE_CHECKING:
    from aiohttp import web

    from streams.core.calendar_records import CalendarRecord

_CALENDAR: Final = decoder(CalendarBody)

USERS_WAIT_S_MAX: Final = 5.0
"""How long a delete looks for a job that names the calendar: owners read their stores for it."""


async def put(call: HttpCall) -> web.Response:
    """`PUT /v1/calendars/{calendar}`: create or change a calendar. Jobs that name it follow within a moment."""
    name = _name(call)
    body = await call.body(_CALENDAR)
    shelf, tenant = call.gateway.calendars, call.caller.tenant
    before = shelf.book.record(tenant, name)
    now_ms = call.gateway.client.clock.wall_ms()
    record = await shelf.record_of(body, tenant, name, before=before, now_ms=now_ms, actor=call.caller.name)
    if record is not before:
        _require_version(call, before)
        await shelf.declare(record)
    return _answer(record, 201 if before is None else 200)


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/calendars/{calendar}`: read a calendar."""
    call.query()
    return _answer(call.gateway.calendars.require(call.caller.tenant, _name(call)))


async def list_calendars(call: HttpCall) -> web.Response:
    """`GET /v1/calendars`: list calendars by name."""
    query = call.query()
    limit = call.number("limit", LIST_DEFAULT, 1, LIST_MAX)
    after = read_name(query.get("cursor"))
    records = [record for record in call.gateway.calendars.book.of(call.caller.tenant) if record.name > after]
    page = records[:limit]
    cursor = write_name(page[-1].name) if len(records) > limit else None
    return answer({"calendars": [_view(record) for record in page], "nextCursor": cursor})


async def delete(call: HttpCall) -> web.Response:
    """`DELETE /v1/calendars/{calendar}`: delete a calendar that no job names; with `force=true` any."""
    force = _force(call)
    shelf = call.gateway.calendars
    record = shelf.require(call.caller.tenant, _name(call))
    _require_version(call, record)
    if not force:
        await _require_unused(call, record)
    await shelf.remove(record)
    return answer({"name": record.name, "version": record.version, "state": "deleted"})


def _force(call: HttpCall) -> bool:
    text = call.query().get("force", "false")
    if text not in ("true", "false"):
        raise bad_header("force", "true or false")
    return text == "true"


async def _require_unused(call: HttpCall, record: CalendarRecord) -> None:
    """Raise Problem `calendar_in_use` where a job names the calendar, `overloaded` where that was not told in time."""
    wanted = JobFilter(tenant=record.tenant, calendar=record.name)
    walk = Walk(call.gateway, wanted, Place(), page=1)
    try:
        async with asyncio.timeout(USERS_WAIT_S_MAX):
            while not walk.ended:
                async for job in walk.jobs():
                    detail = (
                        f"calendar: job {job.state.job_id!r} names {record.name!r}; take it out of its calendars first "
                        f"(GET /v1/jobs?calendar={record.name} lists them), or repeat with force=true."
                    )
                    raise Problem("calendar_in_use", detail, field="calendar", members={"jobId": job.state.job_id})
    except TimeoutError:
        detail = f"calendar: not all jobs could be looked at in {USERS_WAIT_S_MAX:g} s; repeat, or use force=true."
        raise Problem("overloaded", detail, field="calendar") from None


def _name(call: HttpCall) -> str:
    return check_name(call.request.match_info["calendar"], "calendar", "bad_path")


def _answer(record: CalendarRecord, status: int = 200) -> web.Response:
    return answer(_view(record), status, etag(record.version))


def _view(record: CalendarRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "tenant": record.tenant,
        "version": record.version,
        "timeZone": record.time_zone,
        "dates": list(record.dates),
        "rules": list(record.rules),
        "description": record.description,
        "updatedAt": instant_text(record.updated_at_ms),
        "updatedBy": record.actor,
    }


def _require_version(call: HttpCall, record: CalendarRecord | None) -> None:
    expected, version = call.if_match, 0 if record is None else record.version
    if expected and expected != version:
        detail = f"If-Match: the calendar is at version {version}, not {expected}; read it again."
        raise Problem("version_mismatch", detail, field="If-Match", members={"version": version})


ROUTES: Final = (
    Route("GET", "/v1/calendars", list_calendars, query=PAGING, answers={200: CalendarsAnswer}),
    Route("GET", "/v1/calendars/{calendar}", get, answers={200: CalendarAnswer}, problems=("unknown_calendar",)),
    Route(
        "PUT",
        "/v1/calendars/{calendar}",
        put,
        body=CalendarBody,
        headers=("If-Match",),
        answers={200: CalendarAnswer, 201: CalendarAnswer},
        problems=("bad_time_zone", "version_mismatch", "overloaded", "outcome_unknown"),
    ),
    Route(
        "DELETE",
        "/v1/calendars/{calendar}",
        delete,
        query=(Param("force", "Delete it although jobs name it: they run as if it excluded nothing.", "boolean"),),
        headers=("If-Match",),
        answers={200: CalendarDeletedAnswer},
        problems=("unknown_calendar", "calendar_in_use", "version_mismatch", "overloaded", "outcome_unknown"),
        reads=True,
    ),
)
