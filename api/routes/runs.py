"""One run: read it, cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from api.bodies import CancelBody, decoder
from api.http_call import HttpCall, answer
from api.problems import OUTCOME, Problem
from api.routes.jobs import accepted
from api.routes.route import Route
from api.views import find_run, run_view
from streams.core.commands import CancelRun
from streams.core.state import ClosedRun

if TYPE_CHECKING:
    from aiohttp import web

    from streams.core.state import Job

_CANCEL: Final = decoder(CancelBody)


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/runs/{run_id}`."""
    call.query()
    run_id, job_id = call.run_id
    try:
        job = await call.gateway.job(job_id, call.caller)
    except Problem as problem:
        raise _not_found(run_id) if problem.code == "job_not_found" else problem from None
    return _answer(call, job, run_id)


async def cancel(call: HttpCall) -> web.Response:
    """`POST /v1/runs/{run_id}/cancel`."""
    body = await call.body(_CANCEL)
    run_id, job_id = call.run_id
    command = CancelRun(
        job_id=job_id,
        run_id=run_id,
        tenant=call.caller.tenant,
        actor=call.caller.name,
        reason=body.note,
    )
    reply = await call.gateway.client.command(command)
    if reply.code == "not_found":
        raise _not_found(run_id)
    if reply.code == "gone":
        outcome = OUTCOME.get(reply.outcome)
        detail = f"runId: the run has ended ({outcome}); there is nothing to cancel."
        raise Problem("run_closed", detail, field="runId", members={"outcome": outcome})
    accepted(reply)

    def cancelled(job: Job) -> bool:
        run = find_run(job, run_id)
        return run is None or isinstance(run, ClosedRun) or bool(run.cancel_requested_at_ms)

    return _answer(call, await call.gateway.job(job_id, call.caller, until=cancelled), run_id)


def _answer(call: HttpCall, job: Job, run_id: str) -> web.Response:
    run = find_run(job, run_id)
    if run is None:
        raise _not_found(run_id)
    return answer(run_view(job, run, call.gateway.now_ms()))


def _not_found(run_id: str) -> Problem:
    detail = f"runId: the run {run_id!r} is not known, or older than its job's state keeps; see topic history."
    return Problem("run_not_found", detail, field="runId")


ROUTES: Final = (
    Route("GET", "/v1/runs/{run_id}", get),
    Route("POST", "/v1/runs/{run_id}/cancel", cancel),
)
