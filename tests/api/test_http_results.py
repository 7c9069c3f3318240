"""What workers say of their runs can be read: result, progress, and the errors of failed attempts."""

from __future__ import annotations

import json
from typing import Any

from streams.core.commands import Complete
from streams.core.envelopes import Cause, HistoryEntry
from streams.core.state import RESULT_KEPT_BYTES_MAX

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any


async def _leased(api: Api, **fields: Any) -> dict[str, Any]:
    await api.create(**fields)
    (run,) = await api.lease()
    return dict(run)


async def test_a_result_is_read_back_from_the_run_and_from_lists(api: Api) -> None:
    run = await _leased(api, jobId="j")
    result = {"said": "grüße", "n": [1, None]}
    done = {"leaseToken": run["leaseToken"], "result": result}
    assert (await api("POST", f"/v1/runs/{run['runId']}/complete", done)).status == 200
    one = (await api("GET", f"/v1/runs/{run['runId']}")).body
    of_job = (await api("GET", "/v1/jobs/j/runs")).body["runs"]
    every = (await api("GET", "/v1/runs?jobId=j")).body["runs"]
    assert [view["result"] for view in (one, of_job[0], every[0])] == [result] * 3
    (attempt,) = one["attempts"]
    assert (attempt["attempt"], attempt["end"], attempt["endedAt"]) == (1, "completed", one["closedAt"])


async def test_a_run_without_a_result_has_none(api: Api) -> None:
    run = await _leased(api)
    await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": run["leaseToken"]})
    assert (await api("GET", f"/v1/runs/{run['runId']}")).body["result"] is None


async def test_a_result_is_refused_above_its_bound_and_kept_in_the_state_up_to_another(api: Api) -> None:
    run = await _leased(api, jobId="j")
    path = f"/v1/runs/{run['runId']}/complete"
    too_large = await api("POST", path, {"leaseToken": run["leaseToken"], "result": "x" * 65_536})
    assert too_large.problem() == (413, "result_too_large", "result")
    assert too_large.body["limit"] == 65_536
    large = "x" * (RESULT_KEPT_BYTES_MAX - 1)  # with its quotes one byte too many for the state
    assert (await api("POST", path, {"leaseToken": run["leaseToken"], "result": large})).status == 200
    closed = api.owner.jobs["j"].state.closed[0]
    assert (closed.result, closed.result_dropped) == (b"", True)


async def test_progress_is_what_the_worker_said_last_until_the_run_ends(api: Api) -> None:
    run = await _leased(api)
    path = f"/v1/runs/{run['runId']}"
    token = {"leaseToken": run["leaseToken"]}
    await api("POST", f"{path}/heartbeat", token | {"progress": {"done": 1}})
    await api("POST", f"{path}/heartbeat", token)
    view = (await api("GET", path)).body
    assert view["progress"] == {"done": 1}
    assert [(item["workerId"], item["end"]) for item in view["attempts"]] == [("w", None)]
    batch = {"runs": [{"runId": run["runId"], "progress": [2]} | token]}
    assert (await api("POST", "/v1/runs:heartbeat", batch)).body["runs"][0]["ok"]
    assert (await api("GET", path)).body["progress"] == [2]
    await api("POST", f"{path}/complete", token)
    assert (await api("GET", path)).body["progress"] is None


async def test_progress_above_its_bound_is_refused(api: Api) -> None:
    run = await _leased(api)
    body = {"leaseToken": run["leaseToken"], "progress": "x" * 4_096}
    answered = await api("POST", f"/v1/runs/{run['runId']}/heartbeat", body)
    assert answered.problem() == (422, "invalid_field", "progress")
    assert answered.body["limit"] == 4_096


async def test_failed_attempts_keep_their_errors(api: Api) -> None:
    retry = {"maxAttempts": 3, "backoff": "fixed", "baseSeconds": 0}
    run = await _leased(api, retry=retry)
    path = f"/v1/runs/{run['runId']}"
    for error in ("first", "second"):
        await api("POST", f"{path}/fail", {"leaseToken": run["leaseToken"], "error": error, "errorType": "Oops"})
        (run,) = await api.lease()
    await api("POST", f"{path}/fail", {"leaseToken": run["leaseToken"], "error": "third", "retryable": False})
    view = (await api("GET", path)).body
    assert (view["outcome"], view["error"]) == ("dead", "third")
    assert [(item["attempt"], item["end"], item["error"], item["workerId"]) for item in view["attempts"]] == [
        (1, "failed", "Oops: first", "w"),
        (2, "failed", "Oops: second", "w"),
        (3, "failed", "third", "w"),
    ]
    assert json.dumps(view["attempts"]).count("grantedAt") == 3


async def test_a_replay_names_the_dead_run_when_it_has_ended_too(api: Api) -> None:
    run = await _leased(api)
    dead = run["runId"]
    await api("POST", f"/v1/runs/{dead}/fail", {"leaseToken": run["leaseToken"], "error": "e", "retryable": False})
    new = (await api("POST", f"/v1/runs/{dead}/replay", {})).body["runId"]
    (run,) = await api.lease()
    await api("POST", f"/v1/runs/{new}/complete", {"leaseToken": run["leaseToken"], "result": 1})
    view = (await api("GET", f"/v1/runs/{new}")).body
    assert (view["replayOf"], view["result"], view["state"]) == (dead, 1, "closed")


async def test_a_job_says_when_its_version_came(api: Api) -> None:
    await api.create(jobId="j", schedule={"cron": "0 9 * * *"}, delaySeconds=None)
    first = (await api("GET", "/v1/jobs/j")).body
    assert first["updatedAt"] == first["createdAt"]
    await api("POST", "/v1/jobs/j/pause", {})
    await api("PATCH", "/v1/jobs/j", {"lane": "low"})
    edited = (await api("GET", "/v1/jobs/j")).body
    assert edited["updatedAt"] > edited["createdAt"] == first["createdAt"]


async def test_a_large_result_is_read_from_history(api: Api) -> None:
    run = await _leased(api, jobId="j")
    large = "x" * RESULT_KEPT_BYTES_MAX
    path = f"/v1/runs/{run['runId']}"
    await api("POST", f"{path}/complete", {"leaseToken": run["leaseToken"], "result": large})
    assert (await api("GET", path)).body["result"] is None
    decision = next(done for command, done in api.owner.decided if isinstance(command, Complete))
    cause = Cause(kind="command", name="Complete")
    where: dict[str, Any] = {"partition": 0, "seq": 1, "generation": 1, "member_id": "m", "transactional_id": "t"}
    entry = HistoryEntry(job_id="j", now_ms=1, cause=cause, events=decision.events, **where)
    api.queries.history.append(("j", entry))
    assert (await api("GET", path)).body["result"] == large
