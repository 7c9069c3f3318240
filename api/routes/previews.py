"""Previews: the same function as execution, of a stored job or of a schedule in the body. Nothing is stored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from api.answers import PreviewAnswer
from api.bodies import PreviewBody, decoder
from api.definitions import check_job_id, define, read_instant, schedule_of
from api.http_call import HttpCall, answer
from api.instants import instant_text
from api.problems import Problem
from api.routes.route import Param, Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from streams.core.definition import Definition
    from streams.core.time import CalendarSpec

COUNT_DEFAULT: Final = 10
COUNT_MAX: Final = 1_000

JOB_ID_UNNAMED: Final = "preview"
"""Stands for the job where `H` and jitter want one and the body names none."""

_PREVIEW: Final = decoder(PreviewBody)


async def of_job(call: HttpCall) -> web.Response:
    """`GET /v1/jobs/{job_id}/preview`: the next occurrences of a job."""
    query = call.query()
    count = call.number("count", COUNT_DEFAULT, 1, COUNT_MAX)
    now_ms = call.gateway.now_ms()
    from_ms = read_instant(query["from"], "from") if "from" in query else now_ms
    job = await call.gateway.job(call.job_id, call.caller)
    if job.definition is None:
        raise Problem("job_not_found", f"jobId: {call.job_id!r} was deleted.", field="jobId")
    if job.definition.max_runs:
        count = min(count, max(job.definition.max_runs - job.state.occurrences_total, 0))
    return answer(
        {
            "jobId": job.state.job_id,
            "occurrences": await _occurrences(call, job.definition, from_ms, count),
            "warnings": [],
        }
    )


async def of_body(call: HttpCall) -> web.Response:
    """`POST /v1/preview`: the next occurrences of a schedule; nothing is stored."""
    body = await call.body(_PREVIEW)
    now_ms = call.gateway.now_ms()
    if not 1 <= body.count <= COUNT_MAX:
        detail = f"count: {body.count} is out of range; use 1 to {COUNT_MAX}."
        raise Problem("invalid_field", detail, field="count", limit=COUNT_MAX)
    job_id = check_job_id(body.job_id) if isinstance(body.job_id, str) else JOB_ID_UNNAMED
    definition = define(body, job_id=job_id, tenant=call.caller.tenant, now_ms=now_ms, default_name=JOB_ID_UNNAMED)
    warnings = await call.gateway.calendars.check(definition, now_ms=now_ms)
    from_ms = read_instant(body.from_, "from") if body.from_ is not None else now_ms
    count = min(body.count, definition.max_runs or body.count)
    found = await _occurrences(call, definition, from_ms, count)
    return answer({"jobId": None, "occurrences": found, "warnings": warnings})


async def _occurrences(call: HttpCall, definition: Definition, from_ms: int, count: int) -> list[dict[str, Any]]:
    """Compute them in a thread where calendars may exclude years."""
    calendars = call.gateway.calendars.specs(definition.tenant)
    if not definition.calendars:
        return occurrences(definition, from_ms, count, calendars)
    return await asyncio.to_thread(occurrences, definition, from_ms, count, calendars)


def occurrences(
    definition: Definition, from_ms: int, count: int, calendars: Mapping[str, CalendarSpec]
) -> list[dict[str, Any]]:
    """Give up to `count` occurrences at or after `from_ms`."""
    schedule = schedule_of(definition, calendars)
    found: list[dict[str, Any]] = []
    after_ms = from_ms - 1
    while len(found) < count:
        occurrence = schedule.next_after(after_ms)
        if occurrence is None:
            break
        after_ms = occurrence.at_ms
        found.append(
            {
                "at": instant_text(occurrence.at_ms),
                "local": schedule.local_text(occurrence.at_ms),
                "note": "; ".join(occurrence.notes) or None,
            }
        )
    return found


ROUTES: Final = (
    Route(
        "GET",
        "/v1/jobs/{job_id}/preview",
        of_job,
        query=(
            Param("from", "Occurrences at or after it; left out: now.", "instant"),
            Param("count", f"How many; default {COUNT_DEFAULT}.", "integer", 1, COUNT_MAX),
        ),
        answers={200: PreviewAnswer},
        problems=("invalid_field",),
        reads=True,
    ),
    Route(
        "POST",
        "/v1/preview",
        of_body,
        body=PreviewBody,
        answers={200: PreviewAnswer},
        problems=("bad_cron", "bad_schedule", "bad_time_zone", "never_fires", "payload_too_large"),
    ),
)
