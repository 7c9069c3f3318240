"""Runs: read one, list them, cancel one, replay dead ones."""

from __future__ import annotations

import asyncio
import base64
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from api.answers import BulkReplayAnswer, RunAnswer, RunsAnswer
from api.bodies import BulkReplayBody, CancelBody, ReplayBody, decode, decoder
from api.cursors import Place, read_place, write_place
from api.definitions import (
    KeyFields,
    bulk_key_fields,
    check_job_id,
    check_name,
    earlier_use,
    key_fields,
    read_instant,
    replay_id_of_run,
)
from api.dispatch.calls import Failure
from api.http_call import HttpCall, accepted, answer, replayed
from api.listing import (
    CONSISTENCY,
    JOB_FILTERS,
    LIST_DEFAULT,
    LIST_MAX,
    PAGING,
    Walk,
    read_filter,
    wait_until_shown,
)
from api.problems import OUTCOME, Problem, problem_of
from api.routes.route import Param, Route
from api.views import find_run, run_state_of, run_view, runs_newest_first
from streams.core.commands import CancelRun, ReplayRun
from streams.core.evidence import Ask
from streams.core.identity import run_id_named
from streams.core.job_filter import JobFilter
from streams.core.state import ClosedRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from api.queries import SeenJob
    from streams.core.commands import Reply
    from streams.core.state import Job, OpenRun

RUN_STATES: Final = ("ready", "leased", "retrying", "queued", "closed")
RUN_OUTCOMES: Final = ("ran", "skipped", "cancelled", "dead")

REPLAYS_MAX: Final = 1_000
REPLAY_RATE_MAX: Final = 1_000.0
REPLAY_SECONDS_MAX: Final = 10.0
"""How long one call may take to send; the rest comes with its cursor."""

REPLAY_SLICE_S: Final = 0.1
"""Replays leave in slices of the rate, this often."""

RUN_IDS_SHOWN: Final = 100

_DeadKey = tuple[int, str]
"""When a dead run closed, and its id."""


class _DeadRun(NamedTuple):
    run_id: str
    job_id: str
    closed_at_ms: int


_MEMO: Final = msgspec.json.Decoder(list[_DeadKey])
_CANCEL: Final = decoder(CancelBody)
_REPLAY: Final = decoder(ReplayBody)
_BULK_REPLAY: Final = decoder(BulkReplayBody)


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/runs/{run_id}`: read a run."""
    call.query()
    run_id, job_id = call.run_id
    try:
        job = await call.gateway.job(job_id, call.caller)
    except Problem as problem:
        raise _not_found(run_id) if problem.code == "job_not_found" else problem from None
    run = find_run(job, run_id)
    if isinstance(run, ClosedRun) and run.result_dropped:
        return answer(run_view(job, await _with_result(call, job_id, run), call.gateway.now_ms()))
    return _answer(call, job, run_id)


async def _with_result(call: HttpCall, job_id: str, run: ClosedRun) -> ClosedRun:
    """Put in the result that is too large for the state, from history while that has it."""
    ask = Ask(events=("RunSucceeded",), at_ms=run.closed_at_ms, run_id=run.run_id)
    (proof,) = await call.gateway.evidence(job_id, [ask])
    if proof is None:
        return run
    return msgspec.structs.replace(run, result=base64.b64decode(str(proof.event["result"])))


async def list_runs(call: HttpCall) -> web.Response:
    """`GET /v1/runs`: list runs that are open or remembered, job after job, newest first inside each."""
    query = call.query()
    limit = call.number("limit", LIST_DEFAULT, 1, LIST_MAX)
    place = read_place(query.get("cursor"), call.gateway.limits.partitions)
    judged = _run_filter(call)
    await wait_until_shown(call)
    now_ms = call.gateway.now_ms()
    found: list[dict[str, Any]] = []
    if "jobId" in query:
        job = await call.gateway.job(check_job_id(query["jobId"]), call.caller)
        page = _behind([run for run in runs_newest_first(job) if judged(run)], place, job.state.job_id)
        found = [run_view(job, run, now_ms) for run in page[:limit]]
        more = Place(0, None, job.state.job_id, *_key(page[limit - 1])) if len(page) > limit else None
        return answer({"runs": found, "nextCursor": None if more is None else write_place(more)})
    runs = "dead" if query.get("outcome") == "dead" else "any"
    wanted = msgspec.structs.replace(read_filter(call, standing=False), runs=runs)
    walk = Walk(call.gateway, wanted, place, page=limit)
    before = place
    async for job in walk.jobs():
        page = _behind([run for run in runs_newest_first(job) if judged(run)], place, job.state.job_id)
        room = limit - len(found)
        found += [run_view(job, run, now_ms) for run in page[:room]]
        if len(page) > room:
            inside = before if room == 0 else Place(*before[:2], job.state.job_id, *_key(page[room - 1]))
            return answer({"runs": found, "nextCursor": write_place(inside)})
        before = walk.place
    return answer({"runs": found, "nextCursor": None if walk.ended else write_place(walk.place)})


def _dead_key(run: ClosedRun) -> _DeadKey:
    """Orders the dead runs of a job, oldest first."""
    return run.closed_at_ms, run.run_id


def _key(run: OpenRun | ClosedRun) -> tuple[int, str]:
    return run.scheduled_at_ms, run.run_id


def _behind(runs: list[OpenRun | ClosedRun], place: Place, job_id: str) -> list[OpenRun | ClosedRun]:
    """Leave out what the page before has given of this job."""
    if place.job_id != job_id:
        return runs
    return [run for run in runs if _key(run) < (place.at_ms, place.run_id)]


def _run_filter(call: HttpCall) -> Callable[[OpenRun | ClosedRun], bool]:
    state, outcome = call.choice("state", RUN_STATES), call.choice("outcome", RUN_OUTCOMES)
    from_ms, until_ms, now_ms = call.instant("from"), call.instant("until"), call.gateway.now_ms()

    def judged(run: OpenRun | ClosedRun) -> bool:
        if state is not None and run_state_of(run, now_ms) != state:
            return False
        if outcome is not None and (not isinstance(run, ClosedRun) or OUTCOME.get(run.outcome) != outcome):
            return False
        if from_ms is not None and run.scheduled_at_ms < from_ms:
            return False
        return until_ms is None or run.scheduled_at_ms < until_ms

    return judged


async def cancel(call: HttpCall) -> web.Response:
    """`POST /v1/runs/{run_id}/cancel`: cancel a run."""
    data = await call.bytes()
    body = decode(_CANCEL, data)
    run_id, job_id = call.run_id
    command = CancelRun(
        job_id=job_id,
        run_id=run_id,
        tenant=call.caller.tenant,
        actor=call.caller.name,
        reason=body.note,
        **key_fields(call.idempotency_key, data, "cancel", call.caller.tenant, run_id),
    )
    reply = await call.gateway.client.command(command)
    if reply.code == "not_found":
        raise _not_found(run_id)
    if reply.code == "gone":
        raise _closed(reply, "there is nothing to cancel")
    accepted(reply)

    def cancelled(job: Job) -> bool:
        run = find_run(job, run_id)
        return run is None or isinstance(run, ClosedRun) or bool(run.cancel_requested_at_ms)

    return _answer(call, await call.gateway.job(job_id, call.caller, until=cancelled), run_id)


async def replay(call: HttpCall) -> web.Response:
    """`POST /v1/runs/{run_id}/replay`: open a new run for a dead one; a repeat finds that run."""
    data = await call.bytes()
    decode(_REPLAY, data)
    run_id, job_id = call.run_id
    keyed = key_fields(call.idempotency_key, data, "replay", call.caller.tenant, run_id)
    command = _replay_of(call, run_id, job_id, keyed)
    reply = await call.gateway.client.command(command)
    if reply.code == "not_found":
        raise _not_found(run_id)
    if reply.code == "gone":
        raise _closed(reply, "only dead runs can be replayed, once each")
    accepted(reply)
    new_id = run_id_named(job_id, command.replay_id)
    job = await call.gateway.job(job_id, call.caller, until=lambda job: find_run(job, new_id) is not None)
    return _answer(call, job, new_id, 201, replayed(reply) | {"Location": f"/v1/runs/{new_id}"})


def _replay_of(call: HttpCall, run_id: str, job_id: str, keyed: KeyFields) -> ReplayRun:
    return ReplayRun(
        job_id=job_id,
        run_id=run_id,
        replay_id=replay_id_of_run(run_id),
        tenant=call.caller.tenant,
        actor=call.caller.name,
        **keyed,
    )


async def replay_many(call: HttpCall) -> web.Response:
    """`POST /v1/runs:replay`: replay dead runs by filter, at a rate, at most `limit` of them in one call."""
    data = await call.bytes()
    body = decode(_BULK_REPLAY, data)
    _check_bulk(body)
    # Each page has a use of the key of its own: one job's dead runs may fill several pages.
    belongs_to = ("replay-many", call.caller.tenant, body.cursor or "")
    keyed: KeyFields = {} if body.dry_run else bulk_key_fields(call.idempotency_key, data, *belongs_to)
    dead, after = await _dead_runs(call, body, keyed)
    items: list[dict[str, Any]] = [{"runId": run.run_id, "ok": None} for run in dead]
    if not body.dry_run:
        items = await _replay_at_rate(call, dead, body.rate_per_second, keyed)
    view = {
        "matched": len(dead),
        "replayed": sum(item["ok"] is True for item in items),
        "dryRun": body.dry_run,
        "runs": [run.run_id for run in dead[:RUN_IDS_SHOWN]],
        "items": items,
        "nextCursor": None if after is None else write_place(after),
    }
    return answer(view)


def _check_bulk(body: BulkReplayBody) -> None:
    if not (body.queue or body.job_id or body.labels or body.text or body.dead_from or body.dead_until):
        allowed = ["queue", "jobId", "labels", "text", "deadFrom", "deadUntil"]
        detail = f"queue: name at least one of {', '.join(allowed)}, so that no empty filter replays every dead run."
        raise Problem("missing_field", detail, field="queue", allowed=allowed)
    if not 1 <= body.limit <= REPLAYS_MAX:
        raise Problem("invalid_field", f"limit: use 1 to {REPLAYS_MAX}.", field="limit", limit=REPLAYS_MAX)
    if not 1 <= body.rate_per_second <= REPLAY_RATE_MAX:
        detail = f"ratePerSecond: use 1 to {REPLAY_RATE_MAX:g}."
        raise Problem("invalid_field", detail, field="ratePerSecond", limit=REPLAY_RATE_MAX)
    if body.limit / body.rate_per_second > REPLAY_SECONDS_MAX:
        most = int(body.rate_per_second * REPLAY_SECONDS_MAX)
        detail = f"limit: at this rate one call may replay {most}; send less, and go on with nextCursor."
        raise Problem("invalid_field", detail, field="limit", limit=most)


async def _dead_runs(call: HttpCall, body: BulkReplayBody, keyed: KeyFields) -> tuple[list[_DeadRun], Place | None]:
    """Give the dead runs that match, oldest first inside a job, and where to go on.

    Of a job that knows the call's key, an earlier try took what its memo says: that and nothing else.
    """
    if body.queue:
        check_name(body.queue, "queue")
    from_ms = 0 if body.dead_from is None else read_instant(body.dead_from, "deadFrom")
    until_ms = None if body.dead_until is None else read_instant(body.dead_until, "deadUntil")
    place = read_place(body.cursor, call.gateway.limits.partitions)

    def take(job: Job, room: int) -> tuple[list[_DeadKey], bool]:
        judged = (run for run in job.state.dead if run.closed_at_ms >= from_ms)
        keys = sorted(_dead_key(run) for run in judged if until_ms is None or run.closed_at_ms < until_ms)
        if job.state.job_id == place.job_id:
            keys = [key for key in keys if key > (place.at_ms, place.run_id)]
        taken = _taken_already(job, keyed)
        if taken is None:
            return keys[:room], len(keys) > room
        return taken, len(taken) >= room and any(key > max(taken) for key in keys)

    if body.job_id:
        job = await call.gateway.job(check_job_id(body.job_id), call.caller)
        taken, more = take(job, body.limit)
        return _of_job(job, taken), Place(0, None, job.state.job_id, *taken[-1]) if more else None
    wanted = JobFilter(
        tenant=call.caller.tenant,
        queue=body.queue,
        labels=body.labels,
        text=body.text,
        runs="dead",
        key=keyed.get("key", ""),
    )
    walk = Walk(call.gateway, wanted, place, page=body.limit)
    dead: list[_DeadRun] = []
    before = place
    async for job in walk.jobs():
        taken, more = take(job, body.limit - len(dead))
        dead += _of_job(job, taken)
        if more:
            return dead, Place(*before[:2], job.state.job_id, *taken[-1]) if taken else before
        before = walk.place
    return dead, None if walk.ended else walk.place


def _of_job(job: Job, keys: list[_DeadKey]) -> list[_DeadRun]:
    return [_DeadRun(run_id, job.state.job_id, closed_at_ms) for closed_at_ms, run_id in keys]


def _taken_already(job: Job, keyed: KeyFields) -> list[_DeadKey] | None:
    """Give what an earlier try of this call took of the job; None if there was none. Raises as `earlier_use` does."""
    use = earlier_use(job, keyed)
    if use is None:
        return None
    return _MEMO.decode(zlib.decompress(use.memo)) if use.memo else []


def _memos(dead: list[_DeadRun]) -> dict[str, bytes]:
    """Write for each job what the call takes of it; a repeat finds dead runs no more once they are replayed."""
    taken: dict[str, list[_DeadKey]] = {}
    for run in dead:
        taken.setdefault(run.job_id, []).append((run.closed_at_ms, run.run_id))
    return {job_id: zlib.compress(msgspec.json.encode(keys)) for job_id, keys in taken.items()}


async def _replay_at_rate(
    call: HttpCall, dead: list[_DeadRun], rate_per_s: float, keyed: KeyFields
) -> list[dict[str, Any]]:
    size, memos = max(int(rate_per_s * REPLAY_SLICE_S), 1), _memos(dead)
    items: list[dict[str, Any]] = []
    for start in range(0, len(dead), size):
        if start:
            await asyncio.sleep(size / rate_per_s)
        some = [
            _replay_of(call, run.run_id, run.job_id, {**keyed, "memo": memos[run.job_id]} if keyed else {})
            for run in dead[start : start + size]
        ]
        results = await call.gateway.client.commands(some)
        items += [_replay_item(command, result) for command, result in zip(some, results, strict=True)]
    return items


def _replay_item(command: ReplayRun, result: Reply | Failure) -> dict[str, Any]:
    if not isinstance(result, Failure) and result.code == "created":
        return {"runId": command.run_id, "ok": True, "newRunId": run_id_named(command.job_id, command.replay_id)}
    problem = problem_of(result)
    return {"runId": command.run_id, "ok": False, "code": problem.code, "detail": problem.detail}


def _answer(
    call: HttpCall, job: SeenJob, run_id: str, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    run = find_run(job, run_id)
    if run is None:
        raise _not_found(run_id)
    return answer(run_view(job, run, call.gateway.now_ms()), status, headers)


def _closed(reply: Reply, what: str) -> Problem:
    outcome = OUTCOME.get(reply.outcome)
    detail = f"runId: {reply.detail or 'the run has ended'}; {what}."
    return Problem("run_closed", detail, field="runId", members={"outcome": outcome})


def _not_found(run_id: str) -> Problem:
    detail = f"runId: the run {run_id!r} is not known, or older than its job's state keeps; see topic history."
    return Problem("run_not_found", detail, field="runId")


_LIST_QUERY: Final[tuple[Param, ...]] = (
    *JOB_FILTERS,
    Param("jobId", "Runs of this job."),
    Param("state", "State of the run.", choices=RUN_STATES),
    Param("outcome", "Outcome of the run.", choices=RUN_OUTCOMES),
    Param("from", "Scheduled at or after it.", "instant"),
    Param("until", "Scheduled before it.", "instant"),
    CONSISTENCY,
    *PAGING,
)

ROUTES: Final = (
    Route("GET", "/v1/runs/{run_id}", get, answers={200: RunAnswer}, reads=True),
    Route(
        "GET",
        "/v1/runs",
        list_runs,
        query=_LIST_QUERY,
        answers={200: RunsAnswer},
        problems=("not_caught_up", "job_not_found", "forbidden", "invalid_field"),
        reads=True,
    ),
    Route(
        "POST",
        "/v1/runs/{run_id}/cancel",
        cancel,
        body=CancelBody,
        headers=("Idempotency-Key",),
        answers={200: RunAnswer},
        problems=("run_closed", "job_finished", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "POST",
        "/v1/runs/{run_id}/replay",
        replay,
        body=ReplayBody,
        headers=("Idempotency-Key",),
        answers={201: RunAnswer},
        problems=("run_closed", "too_many_replays", "too_many_open_runs", "job_finished", "idempotency_conflict"),
        writes=True,
    ),
    Route(
        "POST",
        "/v1/runs:replay",
        replay_many,
        body=BulkReplayBody,
        headers=("Idempotency-Key",),
        answers={200: BulkReplayAnswer},
        problems=("job_not_found", "forbidden"),
        writes=True,
    ),
)
