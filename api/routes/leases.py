"""What workers call: lease, heartbeat, complete, fail, release, single and in batches.

The hot way: a batch is decoded at once, becomes one call of the dispatch client, and its results are encoded at once.
Only a batch with a wrong item is decoded item by item, so that the item fails alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from api.answers import LeasedAnswer, ReportAnswer, ReportsAnswer
from api.bodies import (
    BatchBody,
    Body,
    CompleteBody,
    FailBody,
    HeartbeatBody,
    LeaseBody,
    ReleaseBody,
    compact,
    decode,
    decoder,
)
from api.definitions import check_name
from api.dispatch.calls import Failure
from api.dispatch.run_ids import job_id_of
from api.http_call import HttpCall, answer
from api.instants import instant_or_none, instant_text
from api.json_text import has_surrogates, inspect
from api.problems import OUTCOME, Problem, lease_lost, problem_of
from api.routes.route import Route
from api.views import LeaseAnswer, leased_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from api.gateway import Gateway
    from streams.core.commands import Grant, Reply

WORKER_ID_CHARS_MAX: Final = 128
REQUEST_ID_CHARS_MAX: Final = 64
VISIBILITY_SECONDS_MIN: Final = 5
VISIBILITY_SECONDS_MAX: Final = 3_600
RESULT_BYTES_MAX: Final = 65_536
PROGRESS_BYTES_MAX: Final = 4_096
ERROR_CHARS_MAX: Final = 4_096

CANCEL_REASONS: Final = frozenset({"user", "replaced", "job_deleted", "timeout"})

LEASE_TOKEN_MAX: Final = 2**53 - 1
"""Integers of this API stay below 2^53, which every JSON reader has."""

_LEASE: Final = decoder(LeaseBody)
_BATCH: Final = decoder(BatchBody)

I = TypeVar("I", HeartbeatBody, CompleteBody, FailBody, ReleaseBody)  # noqa: E741 - an item


async def lease(call: HttpCall) -> web.Response:
    """`POST /v1/queues/{queue}/lease`: wait for runs and lease them."""
    queue = check_name(call.request.match_info["queue"], "queue", "bad_path")
    body = await call.body(_LEASE)
    gateway, tenant = call.gateway, call.caller.tenant
    wait_ms, visibility_ms = _check_lease(body, gateway)
    gateway.queues.require(tenant, queue)
    grants = await gateway.client.lease(
        tenant,
        queue,
        body.worker_id,
        max_runs=body.max,
        visibility_ms=visibility_ms,
        wait_ms=wait_ms,
        request_id=body.request_id or "",
    )
    now_ms = gateway.now_ms()
    _note_leased(gateway, grants, now_ms)
    request_id = body.request_id or call.request_id
    leased = LeaseAnswer(request_id=request_id, runs=[leased_run(grant, now_ms) for grant in grants])
    return answer(leased)


def _check_lease(body: LeaseBody, gateway: Gateway) -> tuple[int, int]:
    """Give (wait, visibility) in milliseconds. Raises Problem."""
    limits = gateway.limits
    if not 1 <= len(body.worker_id) <= WORKER_ID_CHARS_MAX or not body.worker_id.isprintable():
        allowed = f"1 to {WORKER_ID_CHARS_MAX} printable characters"
        raise Problem("invalid_field", f"workerId: use {allowed}.", field="workerId", allowed=allowed)
    _check_range("max", body.max, 1, limits.lease_runs_max)
    request_id = body.request_id
    if request_id is not None and (
        not 1 <= len(request_id) <= REQUEST_ID_CHARS_MAX or not request_id.isascii() or not request_id.isprintable()
    ):
        allowed = f"1 to {REQUEST_ID_CHARS_MAX} visible ASCII characters"
        raise Problem("invalid_field", f"requestId: use {allowed}.", field="requestId", allowed=allowed)
    wait_ms = limits.lease_wait_ms_max
    if body.wait_seconds is not None:
        _check_range("waitSeconds", body.wait_seconds, 0, limits.lease_wait_ms_max / 1000)
        wait_ms = round(body.wait_seconds * 1000)
    if body.visibility_seconds is None:
        return wait_ms, limits.lease_visibility_ms
    _check_visibility(body.visibility_seconds)
    return wait_ms, round(body.visibility_seconds * 1000)


def _check_visibility(seconds: float | None) -> None:
    if seconds is not None:
        _check_range("visibilitySeconds", seconds, VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX)


def _check_range(field: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        allowed = f"{low:g} to {high:g}"
        detail = f"{field}: {value:g} is out of range; use {allowed}."
        raise Problem("invalid_field", detail, field=field, limit=high if value > high else low, allowed=allowed)


def _note_leased(gateway: Gateway, grants: Sequence[Grant], now_ms: int) -> None:
    if not grants:
        return
    gateway.metrics.leased([now_ms - grant.due_at_ms for grant in grants])
    if not gateway.auth.open:
        for grant in grants:
            gateway.recent.belongs(grant.job_id, grant.tenant)


class Report(NamedTuple, Generic[I]):
    """One of the four things that a worker says of runs. `send` takes items that `check` let pass."""

    name: str
    single: msgspec.json.Decoder[I]
    batch: msgspec.json.Decoder[Any]
    check: Callable[[I], None]
    send: Callable[[HttpCall, list[I]], Awaitable[list[Reply | Failure]]]
    done: Callable[[Reply, str, int], dict[str, Any]]
    """(reply, run id, broker's now) to the result of an item that succeeded."""


async def report_one(call: HttpCall, report: Report[I]) -> web.Response:
    """Answer a single form: 200, or the problem."""
    run_id, _ = call.run_id
    item = decode(report.single, await call.bytes())
    if item.run_id not in ("", run_id):
        raise Problem("invalid_field", "runId: differs from the path; leave it out.", field="runId")
    item = msgspec.structs.replace(item, run_id=run_id)
    (result,) = await _report(call, report, [item])
    if isinstance(result, Problem):
        raise result
    return answer(result)


async def report_many(call: HttpCall, report: Report[I]) -> web.Response:
    """Answer a batch form: 200 with one result for each item, in order."""
    items = _items(await call.bytes(), report, call.gateway.limits.batch_items_max)
    good = [item for item in items if not isinstance(item, Problem)]
    results = iter(await _report(call, report, good))
    body = []
    for index, item in enumerate(items):
        result = item if isinstance(item, Problem) else next(results)
        if isinstance(result, Problem):
            if result.field is not None and not result.field.startswith("runs["):
                result.field = f"runs[{index}].{result.field}"
            run_id = "" if isinstance(item, Problem) else item.run_id
            body.append(result.item(run_id or str(result.members.pop("runId", ""))))
        else:
            body.append(result)
    return answer({"runs": body})


def _items(data: bytes, report: Report[I], items_max: int) -> list[I | Problem]:
    """Decode a batch. Raises Problem for an envelope that cannot be read."""
    if has_surrogates(data):
        inspect(data)
    try:
        envelope = report.batch.decode(data)
        items: list[I | Problem] = list(envelope.runs)
        seconds = getattr(envelope, "visibility_seconds", None)
    except (msgspec.MsgspecError, RecursionError):
        items, seconds = _items_one_by_one(data, report)
    if seconds is not None:
        items = [_lasting(item, seconds) for item in items]
    if not 1 <= len(items) <= items_max:
        detail = f"runs: has {len(items)} items; send 1 to {items_max}."
        raise Problem("invalid_field", detail, field="runs", limit=items_max)
    return items


def _lasting(item: I | Problem, seconds: float) -> I | Problem:
    """Give a heartbeat the envelope's length if it names none of its own."""
    if not isinstance(item, HeartbeatBody) or item.visibility_seconds is not None:
        return item
    return msgspec.structs.replace(item, visibility_seconds=seconds)


def _items_one_by_one(data: bytes, report: Report[I]) -> tuple[list[I | Problem], float | None]:
    items: list[I | Problem] = []
    envelope = decode(_BATCH, data)
    for index, raw in enumerate(envelope.runs):
        try:
            inspect(bytes(raw), f"runs[{index}]")
            items.append(decode(report.single, bytes(raw), f"runs[{index}]"))
        except Problem as problem:
            problem.members["runId"] = _run_id_in(bytes(raw))
            items.append(problem)
    return items, envelope.visibility_seconds


class _AnyItem(msgspec.Struct, rename="camel"):
    run_id: str = ""


def _run_id_in(raw: bytes) -> str:
    """Give the run id of an item that is wrong otherwise, so that its sender finds it."""
    try:
        return msgspec.json.decode(raw, type=_AnyItem).run_id
    except msgspec.MsgspecError:
        return ""


async def _report(call: HttpCall, report: Report[I], items: list[I]) -> list[dict[str, Any] | Problem]:
    """Give one result for each item, in order."""
    checked: list[Problem | None] = [_wrong(item, report) for item in items]
    sendable = [item for item, problem in zip(items, checked, strict=True) if problem is None]
    gateway = call.gateway
    if not gateway.auth.open:
        foreign = await gateway.require_runs_of(call.caller, [job_id_of(item.run_id) or "" for item in sendable])
        if foreign:
            checked = [
                problem or (_foreign() if job_id_of(item.run_id) in foreign else None)
                for item, problem in zip(items, checked, strict=True)
            ]
            sendable = [item for item, problem in zip(items, checked, strict=True) if problem is None]
    replies = iter(await report.send(call, sendable))
    now_ms = gateway.now_ms()
    codes: Counter[str] = Counter()
    results: list[dict[str, Any] | Problem] = []
    for item, problem in zip(items, checked, strict=True):
        result = problem or _result(report, item, next(replies), now_ms)
        codes[result.code if isinstance(result, Problem) else "ok"] += 1
        results.append(result)
    gateway.metrics.reported(report.name, codes)
    return results


def _wrong(item: I, report: Report[I]) -> Problem | None:
    if not 0 <= item.lease_token <= LEASE_TOKEN_MAX:
        detail = "leaseToken: is no token of a lease; send the one of the lease, unchanged."
        return Problem("invalid_field", detail, field="leaseToken", limit=LEASE_TOKEN_MAX)
    if job_id_of(item.run_id) is None:
        detail = f"runId: {item.run_id[:220]!r} is no run id; send the one of the lease."
        return Problem("invalid_field" if item.run_id else "missing_field", detail, field="runId")
    try:
        report.check(item)
    except Problem as problem:
        return problem
    return None


def _foreign() -> Problem:
    return Problem("forbidden", "runId: belongs to another tenant than the token's; use its own token.", field="runId")


def _result(report: Report[I], item: I, reply: Reply | Failure, now_ms: int) -> dict[str, Any] | Problem:
    if isinstance(reply, Failure):
        return problem_of(reply)
    if reply.code == "ok" and not (report.name == "heartbeat" and reply.outcome):
        return report.done(reply, item.run_id, now_ms)
    if reply.code in ("ok", "lease_lost"):
        return lease_lost(reply, item.lease_token)
    if reply.code == "not_found":
        return Problem("run_not_found", f"runId: there is no run {item.run_id!r}.", field="runId")
    return problem_of(reply)


def _check_heartbeat(item: HeartbeatBody) -> None:
    _check_visibility(item.visibility_seconds)
    if item.progress is not UNSET and len(compact(item.progress, "progress")) > PROGRESS_BYTES_MAX:
        detail = f"progress: at most {PROGRESS_BYTES_MAX} bytes of JSON; send less."
        raise Problem("invalid_field", detail, field="progress", limit=PROGRESS_BYTES_MAX)


def _check_complete(item: CompleteBody) -> None:
    if item.result is not UNSET and len(bytes(item.result)) > RESULT_BYTES_MAX:
        size = len(compact(item.result, "result"))
        if size > RESULT_BYTES_MAX:
            detail = f"result: {size} bytes, at most {RESULT_BYTES_MAX}; store it elsewhere and send its address."
            raise Problem("result_too_large", detail, field="result", limit=RESULT_BYTES_MAX)


def _unchecked(_: Body) -> None:
    """Nothing beyond the shape."""


async def _send_heartbeats(call: HttpCall, items: list[HeartbeatBody]) -> list[Reply | Failure]:
    return await call.gateway.client.heartbeat(
        [(item.run_id, item.lease_token) for item in items],
        [round((item.visibility_seconds or 0) * 1000) for item in items],
        [b"" if item.progress is UNSET else compact(item.progress, "progress") for item in items],
    )


async def _send_completes(call: HttpCall, items: list[CompleteBody]) -> list[Reply | Failure]:
    return await call.gateway.client.complete(
        [
            (item.run_id, item.lease_token, b"" if item.result is UNSET else compact(item.result, "result"))
            for item in items
        ]
    )


async def _send_fails(call: HttpCall, items: list[FailBody]) -> list[Reply | Failure]:
    return await call.gateway.client.fail(
        [(item.run_id, item.lease_token, _error_text(item), item.retryable) for item in items]
    )


def _error_text(item: FailBody) -> str:
    text = f"{item.error_type}: {item.error}" if item.error_type else item.error
    return text[:ERROR_CHARS_MAX]


async def _send_releases(call: HttpCall, items: list[ReleaseBody]) -> list[Reply | Failure]:
    return await call.gateway.client.release([(item.run_id, item.lease_token, item.reason or "") for item in items])


def _cancel_reason(told: str) -> str:
    """Give one of the contract's words: a user's note is for people, programs branch on this."""
    return told if told in CANCEL_REASONS else "user"


def _heartbeat_done(reply: Reply, run_id: str, now_ms: int) -> dict[str, Any]:
    return {
        "runId": run_id,
        "ok": True,
        "cancel": reply.cancel,
        "cancelReason": _cancel_reason(reply.detail) if reply.cancel else None,
        "leaseRemainingMs": max(reply.expires_at_ms - now_ms, 0),
        "leaseExpiresAt": instant_text(reply.expires_at_ms),
    }


def _complete_done(reply: Reply, run_id: str, _: int) -> dict[str, Any]:
    return _repeat(reply, {"runId": run_id, "ok": True, "outcome": "ran"})


def _fail_done(reply: Reply, run_id: str, _: int) -> dict[str, Any]:
    outcome = OUTCOME.get(reply.outcome)
    next_at = None if outcome else instant_or_none(reply.next_at_ms)
    return _repeat(reply, {"runId": run_id, "ok": True, "outcome": outcome, "nextAttemptAt": next_at})


def _release_done(reply: Reply, run_id: str, _: int) -> dict[str, Any]:
    return _repeat(reply, {"runId": run_id, "ok": True})


def _repeat(reply: Reply, result: dict[str, Any]) -> dict[str, Any]:
    return result | {"replayed": True} if reply.replayed else result


class HeartbeatBatch(Body, frozen=True, kw_only=True):
    """Envelope of `runs:heartbeat`."""

    runs: list[HeartbeatBody]
    worker_id: str | None = None
    visibility_seconds: float | None = None


class CompleteBatch(Body, frozen=True, kw_only=True):
    """Envelope of `runs:complete`."""

    runs: list[CompleteBody]


class FailBatch(Body, frozen=True, kw_only=True):
    """Envelope of `runs:fail`."""

    runs: list[FailBody]


class ReleaseBatch(Body, frozen=True, kw_only=True):
    """Envelope of `runs:release`."""

    runs: list[ReleaseBody]


HEARTBEAT: Final = Report(
    "heartbeat",
    decoder(HeartbeatBody),
    decoder(HeartbeatBatch),
    _check_heartbeat,
    _send_heartbeats,
    _heartbeat_done,
)
COMPLETE: Final = Report(
    "complete",
    decoder(CompleteBody),
    decoder(CompleteBatch),
    _check_complete,
    _send_completes,
    _complete_done,
)
FAIL: Final = Report("fail", decoder(FailBody), decoder(FailBatch), _unchecked, _send_fails, _fail_done)
RELEASE: Final = Report(
    "release", decoder(ReleaseBody), decoder(ReleaseBatch), _unchecked, _send_releases, _release_done
)


def _routes(report: Report[I], item: Any, batch: Any) -> tuple[Route, Route]:
    async def one(call: HttpCall) -> web.Response:
        return await report_one(call, report)

    async def many(call: HttpCall) -> web.Response:
        return await report_many(call, report)

    problems = ["lease_lost", "forbidden", "job_finished"]
    if report.name == "complete":
        problems.append("result_too_large")
    return (
        Route(
            "POST",
            f"/v1/runs/{{run_id}}/{report.name}",
            one,
            body=item,
            answers={200: ReportAnswer},
            problems=tuple(problems),
            writes=True,
            summary=f"{report.name.capitalize()} one run.",
        ),
        Route(
            "POST",
            f"/v1/runs:{report.name}",
            many,
            batch=True,
            body=batch,
            answers={200: ReportsAnswer},
            problems=("no_owner",),
            summary=f"{report.name.capitalize()} up to 1,000 runs; each is answered for itself.",
        ),
    )


ROUTES: Final = (
    Route(
        "POST",
        "/v1/queues/{queue}/lease",
        lease,
        body=LeaseBody,
        answers={200: LeasedAnswer},
        problems=("unknown_queue", "stopping"),
    ),
    *_routes(HEARTBEAT, HeartbeatBody, HeartbeatBatch),
    *_routes(COMPLETE, CompleteBody, CompleteBatch),
    *_routes(FAIL, FailBody, FailBatch),
    *_routes(RELEASE, ReleaseBody, ReleaseBatch),
)
