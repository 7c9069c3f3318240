"""`paused` in a definition: the job never was in any other state."""

from __future__ import annotations

from typing import Any

from streams.core.events import JobDefined, JobEdited, JobPaused, JobResumed, RunOpened

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

DAILY = {"name": "n", "schedule": {"cron": "0 9 * * *"}}


def _events(api: Api) -> list[list[type]]:
    return [[type(event) for event in decision.events] for _, decision in api.owner.decided if decision.events]


async def test_a_job_is_created_paused_in_one_decision(api: Api) -> None:
    await api.create(jobId="j", paused=True)
    assert (await api("GET", "/v1/jobs/j")).body["state"] == "paused"
    assert _events(api) == [[JobDefined, JobPaused]]
    assert await api.lease(waitSeconds=0.3) == []
    assert not any(RunOpened in events for events in _events(api))


async def test_put_creates_paused_and_turns_with_the_definition(api: Api) -> None:
    assert (await api("PUT", "/v1/jobs/j", DAILY | {"paused": True})).status == 201
    assert _events(api) == [[JobDefined, JobPaused]]
    going = await api("PUT", "/v1/jobs/j", DAILY | {"paused": False, "lane": "high"})
    assert (going.status, going.body["version"]) == (200, 2)
    assert _events(api)[-1] == [JobResumed, JobEdited]
    await api("PUT", "/v1/jobs/j", DAILY | {"lane": "high", "paused": True})
    view = (await api("GET", "/v1/jobs/j")).body
    assert (view["state"], view["version"]) == ("paused", 2)
    assert _events(api)[-1] == [JobPaused]


async def test_a_definition_that_says_nothing_leaves_the_pause(api: Api) -> None:
    await api("PUT", "/v1/jobs/j", DAILY | {"paused": True})
    await api("PUT", "/v1/jobs/j", DAILY | {"lane": "low"})
    await api("PUT", "/v1/jobs/j", DAILY | {"lane": "high", "paused": None})
    assert (await api("GET", "/v1/jobs/j")).body["state"] == "paused"


async def test_a_patch_may_pause_alone(api: Api) -> None:
    await api("PUT", "/v1/jobs/j", DAILY)
    first = await api("PATCH", "/v1/jobs/j", {"paused": True})
    assert (first.status, first.body["version"]) == (200, 1)
    repeat = await api("PATCH", "/v1/jobs/j", {"paused": True})
    assert (repeat.body, repeat.headers["Idempotent-Replayed"]) == (first.body, "true")
    assert (await api("GET", "/v1/jobs/j")).body["state"] == "paused"


async def test_an_edit_and_a_pause_are_one_decision(api: Api) -> None:
    await api("PUT", "/v1/jobs/j", DAILY)
    await api("PATCH", "/v1/jobs/j", {"paused": True, "delaySeconds": 0})
    assert _events(api)[-1] == [JobEdited, JobPaused]


async def test_the_same_create_again_is_the_first_answer(api: Api) -> None:
    body = DAILY | {"paused": True}
    first = await api("POST", "/v1/jobs", body, Idempotency_Key="k")
    await api("POST", f"/v1/jobs/{first.body['jobId']}/resume", {})
    assert (await api("POST", "/v1/jobs", body, Idempotency_Key="k")).body == first.body
    assert (await api("GET", f"/v1/jobs/{first.body['jobId']}")).body["state"] == "active"
