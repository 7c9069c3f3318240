"""What workers call; the owner behind the gateway decides in memory with the core's own rules."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Any

import pytest

from api.auth import Auth, Caller
from api.gateway import Limits
from streams.core.commands import Release

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any


async def test_a_run_goes_from_lease_over_heartbeat_to_completion(api: Api) -> None:
    job_id = await api.create(payload={"n": 1}, task="t")
    (run,) = await api.lease(visibilitySeconds=60)
    assert (run["jobId"], run["task"], run["payload"], run["attempt"], run["maxAttempts"], run["lane"]) == (
        job_id, "t", {"n": 1}, 1, 5, "normal",
    )  # fmt: skip
    assert run["leaseToken"] == 1
    assert 59_000 < run["leaseRemainingMs"] <= 60_000
    token = {"leaseToken": run["leaseToken"]}
    beat = (await api("POST", f"/v1/runs/{run['runId']}/heartbeat", token | {"progress": {"done": 1}})).body
    assert (beat["ok"], beat["cancel"], beat["cancelReason"]) == (True, False, None)
    done = await api("POST", f"/v1/runs/{run['runId']}/complete", token | {"result": {"x": 1}})
    assert done.body == {"runId": run["runId"], "ok": True, "outcome": "ran"}
    shown = (await api("GET", f"/v1/runs/{run['runId']}")).body
    assert (shown["state"], shown["outcome"]) == ("closed", "ran")


async def test_a_repeated_completion_is_answered_alike(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    path, token = f"/v1/runs/{run['runId']}/complete", {"leaseToken": run["leaseToken"]}
    first, again = await api("POST", path, token), await api("POST", path, token)
    assert again.body == first.body | {"replayed": True}


async def test_a_heartbeat_after_the_own_completion_is_lease_lost_and_says_ran(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    token = {"leaseToken": run["leaseToken"]}
    await api("POST", f"/v1/runs/{run['runId']}/complete", token)
    late = await api("POST", f"/v1/runs/{run['runId']}/heartbeat", token)
    assert late.problem() == (409, "lease_lost", "leaseToken")
    assert (late.body["outcome"], late.body["runState"]) == ("ran", "closed")


async def test_a_failure_says_when_the_next_attempt_is_or_that_the_run_is_dead(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    path = f"/v1/runs/{run['runId']}/fail"
    failed = (await api("POST", path, {"leaseToken": 1, "error": "boom", "errorType": "ValueError"})).body
    assert failed["outcome"] is None
    assert failed["nextAttemptAt"] is not None
    shown = (await api("GET", f"/v1/runs/{run['runId']}")).body
    assert shown["error"] == "ValueError: boom"
    await api.create(jobId="other")
    (other,) = [item for item in await api.lease(max=5) if item["jobId"] == "other"]
    dead = await api("POST", f"/v1/runs/{other['runId']}/fail", {"leaseToken": 1, "error": "x", "retryable": False})
    assert dead.body == {"runId": other["runId"], "ok": True, "outcome": "dead", "nextAttemptAt": None}


async def test_a_released_run_comes_back_with_its_attempt_number_and_another_token(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    assert (await api("POST", f"/v1/runs/{run['runId']}/release", {"leaseToken": 1})).body["ok"]
    (again,) = await api.lease()
    assert (again["runId"], again["attempt"], again["leaseToken"]) == (run["runId"], 1, 2)


async def test_a_cancel_reaches_the_worker_by_its_heartbeat(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    shown = await api("POST", f"/v1/runs/{run['runId']}/cancel")
    assert shown.body["cancelRequested"] is True
    beat = (await api("POST", f"/v1/runs/{run['runId']}/heartbeat", {"leaseToken": 1})).body
    assert (beat["cancel"], beat["cancelReason"]) == (True, "user")
    closed = (await api("POST", f"/v1/runs/{run['runId']}/fail", {"leaseToken": 1, "error": "stopped"})).body
    assert closed["outcome"] == "cancelled"


async def test_a_waiting_worker_gets_a_run_when_it_is_due_and_never_before(api: Api) -> None:
    poll = asyncio.create_task(api.lease())
    await api.create(delaySeconds=0.3)
    (run,) = await poll
    grants = [decision.reply for _, decision in api.owner.decided if hasattr(decision.reply, "lease_token")]
    grant = next(reply for reply in grants if getattr(reply, "task", ""))
    assert grant.granted_at_ms >= grant.due_at_ms
    assert run["leaseToken"] == 1


async def test_several_runs_come_in_one_answer_up_to_max(api: Api) -> None:
    for _ in range(5):
        await api.create(queue="many")
    first = await api.lease("many", max=3)
    assert 1 <= len(first) <= 3
    seen = {run["runId"] for run in first}
    while len(seen) < 5:
        seen |= {run["runId"] for run in await api.lease("many", max=3)}
    assert len(seen) == 5


async def test_a_poll_without_runs_is_answered_empty(api: Api) -> None:
    answered = await api("POST", "/v1/queues/empty/lease", {"workerId": "w", "waitSeconds": 0, "requestId": "r9"})
    assert answered.body == {"requestId": "r9", "runs": []}


async def test_a_repeated_request_id_gets_the_same_runs(api: Api) -> None:
    await api.create()
    first = await api.lease(requestId="r1")
    again = await api.lease(requestId="r1")
    assert [(run["runId"], run["leaseToken"]) for run in again] == [(run["runId"], run["leaseToken"]) for run in first]


async def test_a_worker_whose_connection_closes_loses_no_run(api: Api) -> None:
    api.owner.silent = True
    poll = asyncio.create_task(api.lease(requestId="gone"))
    await api.link.until(api.gateway.client.desk.polling)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await api.link.until(lambda: not api.link.demands[-1].queues)
    api.owner.silent = False
    await api.create()
    (run,) = await api.lease(workerId="other")
    assert run["leaseToken"] == 1


async def test_batches_answer_each_item_in_order(api: Api) -> None:
    for _ in range(3):
        await api.create()
    runs: list[dict[str, Any]] = []
    while len(runs) < 3:
        runs += await api.lease(max=3)
    items = [{"runId": run["runId"], "leaseToken": run["leaseToken"]} for run in runs]
    beats = (await api("POST", "/v1/runs:heartbeat", {"runs": items, "workerId": "w"})).body["runs"]
    assert [beat["runId"] for beat in beats] == [item["runId"] for item in items]
    assert all(beat["ok"] for beat in beats)
    mixed = [
        items[0] | {"result": 1},
        {"runId": "run_nobody_x", "leaseToken": 1},
        items[1] | {"leaseToken": 99},
        {"runId": items[2]["runId"]},
        {"runId": "nonsense", "leaseToken": 1},
        items[1] | {"result": "x" * 70_000},
        items[2],
    ]
    results = (await api("POST", "/v1/runs:complete", {"runs": mixed})).body["runs"]
    assert [(result["ok"], result.get("status"), result.get("code"), result.get("field")) for result in results] == [
        (True, None, None, None),
        (False, 404, "run_not_found", "runs[1].runId"),
        (False, 409, "lease_lost", "runs[2].leaseToken"),
        (False, 422, "missing_field", "runs[3].leaseToken"),
        (False, 422, "invalid_field", "runs[4].runId"),
        (False, 413, "result_too_large", "runs[5].result"),
        (True, None, None, None),
    ]
    assert [result["runId"] for result in results] == [item["runId"] for item in mixed]


async def test_the_same_run_twice_in_a_batch_is_applied_in_order(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    item = {"runId": run["runId"], "leaseToken": 1}
    results = (await api("POST", "/v1/runs:complete", {"runs": [item, item]})).body["runs"]
    assert [result.get("replayed", False) for result in results] == [False, True]


async def test_items_without_an_answer_are_told_apart(serve: Any) -> None:
    limits = Limits(partitions=4)
    async with serve(Auth(None), limits, reply_timeout_ms=100) as api:
        await api.create()
        (run,) = await api.lease()
        api.owner.silent = True
        item = {"runId": run["runId"], "leaseToken": 1}
        (result,) = (await api("POST", "/v1/runs:complete", {"runs": [item]})).body["runs"]
        assert (result["status"], result["code"]) == (504, "outcome_unknown")
        api.owner.silent = False
        (result,) = (await api("POST", "/v1/runs:complete", {"runs": [item]})).body["runs"]
        assert result["ok"]


async def test_a_payload_that_is_no_json_comes_as_base64(api: Api) -> None:
    job_id = await api.create(runAt="2099-01-01T00:00:00Z", delaySeconds=None)
    job = api.owner.jobs[job_id]
    api.owner.jobs[job_id] = type(job)(job.state, _with_payload(job.definition, b"\x00\xff"))
    await api("POST", f"/v1/jobs/{job_id}/trigger")
    (run,) = await api.lease()
    assert "payload" not in run
    assert base64.b64decode(run["payloadBase64"]) == b"\x00\xff"


def _with_payload(definition: Any, payload: bytes) -> Any:
    fields = {name: getattr(definition, name) for name in definition.__struct_fields__}
    return type(definition)(**fields | {"payload": payload, "content_type": "application/octet-stream"})


async def test_a_stopping_gateway_ends_waiting_polls_and_refuses_new_ones(api: Api) -> None:
    poll = asyncio.create_task(api.lease())
    await api.link.until(api.gateway.client.desk.polling)
    api.gateway.client.begin_stop()
    assert await poll == []
    refused = await api("POST", "/v1/queues/default/lease", {"workerId": "w"})
    assert refused.problem() == (503, "stopping", None)
    assert (await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1})).problem()[1] == "stopping"
    assert (await api("GET", "/readyz")).status == 503


async def test_only_its_own_tenant_may_touch_a_run(serve: Any) -> None:
    auth = Auth({_hash("a" * 20): Caller("a", "svc-a"), _hash("b" * 20): Caller("b", "svc-b")})
    async with serve(auth, Limits(partitions=4)) as api:
        api.headers = {"Authorization": "Bearer " + "a" * 20}
        job_id = await api.create()
        (run,) = await api.lease()
        api.headers = {"Authorization": "Bearer " + "b" * 20}
        path = f"/v1/runs/{run['runId']}"
        for call in (
            await api("POST", f"{path}/complete", {"leaseToken": 1}),
            await api("POST", f"{path}/cancel", {}),
            await api("GET", path),
            await api("GET", f"/v1/jobs/{job_id}"),
            await api("DELETE", f"/v1/jobs/{job_id}"),
            await api("PATCH", f"/v1/jobs/{job_id}", {"lane": "high"}),
            await api("PUT", f"/v1/jobs/{job_id}", {"delaySeconds": 1}),
            await api("POST", f"/v1/jobs/{job_id}/pause", {}),
        ):
            assert call.problem()[:2] == (403, "forbidden")
        assert (await api("GET", "/v1/jobs")).body["jobs"] == []
        api.gateway.recent._tenants.clear()
        item = {"runs": [{"runId": run["runId"], "leaseToken": 1}]}
        (result,) = (await api("POST", "/v1/runs:complete", item)).body["runs"]
        assert (result["status"], result["code"]) == (403, "forbidden")
        api.headers = {"Authorization": "Bearer " + "a" * 20}
        assert (await api("POST", f"{path}/complete", {"leaseToken": 1})).status == 200


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def test_a_grant_whose_worker_died_is_released(api: Api) -> None:
    api.link.listener.desk.set_lease_rate("default", 0)
    poll = asyncio.create_task(api.lease())
    await api.create()
    await api.link.until(api.gateway.client.desk.polling)
    held, api.owner._commit_ms = api.owner._commit_ms, 100
    api.link.listener.desk.set_lease_rate("default", None)
    await api.link.until(lambda: api.gateway.client.desk.requests_in_flight > 0)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await api.link.until(lambda: any(isinstance(command, Release) for command in api.link.commands))
    api.owner._commit_ms = held
    (run,) = await api.lease(workerId="other")
    assert (run["leaseToken"], run["attempt"]) == (2, 1)


@pytest.mark.parametrize("kind", ["heartbeat", "complete", "fail", "release"])
async def test_every_batch_form_takes_1_to_1000_items(api: Api, kind: str) -> None:
    item = {"runId": "run_a_x", "leaseToken": 1} | ({"error": "e"} if kind == "fail" else {})
    for items in ([], [item] * 1001):
        answered = await api("POST", f"/v1/runs:{kind}", {"runs": items})
        assert answered.problem() == (422, "invalid_field", "runs")
        assert answered.body["limit"] == 1000
    many = (await api("POST", f"/v1/runs:{kind}", {"runs": [item] * 1000})).body["runs"]
    assert {result["code"] for result in many} == {"run_not_found"}


async def test_a_heartbeat_may_change_the_length_of_its_lease(api: Api) -> None:
    await api.create(jobId="a")
    await api.create(jobId="b")
    runs: list[dict[str, Any]] = []
    while len(runs) < 2:
        runs += await api.lease(max=2, visibilitySeconds=10)
    one = await api("POST", f"/v1/runs/{runs[0]['runId']}/heartbeat", {"leaseToken": 1, "visibilitySeconds": 600})
    assert 590_000 < one.body["leaseRemainingMs"] <= 600_000
    items = [{"runId": run["runId"], "leaseToken": 1} for run in runs]
    items[0]["visibilitySeconds"] = 900
    many = await api("POST", "/v1/runs:heartbeat", {"runs": items, "visibilitySeconds": 300})
    left = [item["leaseRemainingMs"] for item in many.body["runs"]]
    assert left[0] > 890_000
    assert 290_000 < left[1] <= 300_000


async def test_the_note_of_a_cancel_is_for_people_and_the_worker_hears_the_word_of_the_contract(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    path = f"/v1/runs/{run['runId']}"
    await api("POST", f"{path}/cancel", {"note": "wrong month"})
    assert (await api("POST", f"{path}/heartbeat", {"leaseToken": 1})).body["cancelReason"] == "user"
    await api("POST", f"{path}/fail", {"leaseToken": 1, "error": "stopped"})
    assert (await api("GET", path)).body["reason"] == "wrong month"
