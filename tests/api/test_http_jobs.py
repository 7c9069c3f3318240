"""Jobs over HTTP; the owner behind the gateway decides in memory with the core's own rules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

DAILY = {"cron": "0 9 * * MON-FRI", "timeZone": "America/New_York"}


async def test_a_created_job_is_answered_with_id_version_and_next_run(api: Api) -> None:
    answered = await api(
        "POST", "/v1/jobs", {"name": "rollup", "runAt": "2099-01-01T00:00:00Z", "payload": {"month": 11}}
    )
    job_id = answered.body["jobId"]
    assert (answered.status, answered.body["version"]) == (201, 1)
    assert answered.body["nextRunAt"] == "2099-01-01T00:00:00.000Z"
    assert answered.headers["Location"] == f"/v1/jobs/{job_id}"
    assert answered.headers["ETag"] == '"1"'


async def test_a_job_reads_back_as_it_was_written_with_defaults_filled_in(api: Api) -> None:
    sent = {
        "jobId": "nightly",
        "name": "rollup",
        "queue": "billing",
        "task": "t",
        "schedule": DAILY,
        "payload": {"month": 11, "big": 2**60, "text": "ü"},
        "retry": {"maxAttempts": 3, "backoff": "fixed", "baseSeconds": 2},
        "catchUp": "all",
        "overlap": "queue",
        "timeoutSeconds": 90,
        "startDeadlineSeconds": 3600,
        "lane": "high",
        "labels": {"team": "a"},
        "startAt": "2026-01-01T00:00:00.000Z",
        "endAt": "2098-01-01T00:00:00.000Z",
        "maxRuns": 7,
    }
    await api.create(**sent, delaySeconds=None)
    job = (await api("GET", "/v1/jobs/nightly")).body
    for name, value in sent.items():
        if name == "schedule":
            assert job[name] == DAILY | {"gap": "shift", "overlapHour": "first"}
        elif name == "retry":
            assert job[name] == sent["retry"] | {"maxSeconds": 600.0}  # type: ignore[operator]  # a dict
        else:
            assert job[name] == value, name
    assert (job["tenant"], job["version"], job["state"], job["openRuns"], job["paused"]) == (
        "default", 1, "active", 0, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ({"runAt": "2099-01-01T01:00:00+01:00"}, {"runAt": "2099-01-01T00:00:00.000Z"}),
        (
            {"runAtLocal": "2099-06-01T09:00:00", "timeZone": "Europe/Berlin"},
            {"runAtLocal": "2099-06-01T09:00:00", "timeZone": "Europe/Berlin"},
        ),
        (
            {"schedule": {"every": "1h30m"}},
            {"schedule": {"every": 5_400_000, "anchor": "1970-01-01T00:00:00.000Z"}},
        ),
        (
            {"schedule": {"every": 2000, "anchor": "2026-01-01T00:00:00Z"}},
            {"schedule": {"every": 2000, "anchor": "2026-01-01T00:00:00.000Z"}},
        ),
        (
            {"schedule": {"everyCalendar": {"unit": "year", "at": "09:00", "startDate": "2026-12-31"}}},
            {
                "schedule": {
                    "everyCalendar": {
                        "unit": "month",
                        "every": 12,
                        "at": "09:00",
                        "startDate": "2026-12-31",
                        "timeZone": "UTC",
                    },
                    "gap": "shift",
                    "overlapHour": "first",
                }
            },
        ),
        (
            {"schedule": {"rrule": "FREQ=WEEKLY;BYDAY=MO", "dtStart": "2026-12-01T09:00:00"}},
            {
                "schedule": {
                    "rrule": "FREQ=WEEKLY;BYDAY=MO",
                    "dtStart": "2026-12-01T09:00:00",
                    "timeZone": "UTC",
                    "gap": "shift",
                    "overlapHour": "first",
                }
            },
        ),
    ],
)
async def test_every_time_form_is_taken_and_shown(api: Api, form: dict[str, Any], shown: dict[str, Any]) -> None:
    job_id = await api.create(**form, delaySeconds=None)
    job = (await api("GET", f"/v1/jobs/{job_id}")).body
    assert {name: job[name] for name in shown} == shown


async def test_the_same_key_and_body_get_the_first_answer_again(api: Api) -> None:
    body = {"name": "n", "delaySeconds": 3600}
    first = await api("POST", "/v1/jobs", body, Idempotency_Key="k1")
    again = await api("POST", "/v1/jobs", dict(reversed(body.items())), Idempotency_Key="k1")
    assert (again.status, again.body) == (201, first.body)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert first.body["jobId"].startswith("k-")
    assert len(api.owner.jobs) == 1


async def test_without_a_key_each_create_is_another_job(api: Api) -> None:
    assert await api.create() != await api.create()


async def test_put_creates_then_replaces_then_changes_nothing(api: Api) -> None:
    body: dict[str, Any] = {"schedule": DAILY, "lane": "low"}
    created = await api("PUT", "/v1/jobs/p", body)
    replaced = await api("PUT", "/v1/jobs/p", body | {"lane": "high"})
    same = await api("PUT", "/v1/jobs/p", body | {"lane": "high"})
    assert [created.status, replaced.status, same.status] == [201, 200, 200]
    assert [answered.body["version"] for answered in (created, replaced, same)] == [1, 2, 2]
    assert same.headers["Idempotent-Replayed"] == "true"
    assert (await api("GET", "/v1/jobs/p")).body["name"] == "p"


async def test_patch_changes_only_what_it_names(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None, labels={"a": "1"}, retry={"maxAttempts": 9})
    patched = await api(
        "PATCH",
        f"/v1/jobs/{job_id}",
        {"lane": "high", "retry": {"backoff": "fixed"}, "labels": None},
        If_Match='"1"',
    )
    assert (patched.status, patched.body["version"]) == (200, 2)
    job = (await api("GET", f"/v1/jobs/{job_id}")).body
    assert (job["lane"], job["labels"], job["schedule"]["cron"]) == ("high", {}, DAILY["cron"])
    assert (job["retry"]["maxAttempts"], job["retry"]["backoff"]) == (9, "fixed")


async def test_patch_may_replace_the_time_form(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    await api("PATCH", f"/v1/jobs/{job_id}", {"runAt": "2099-01-01T00:00:00Z"})
    job = (await api("GET", f"/v1/jobs/{job_id}")).body
    assert "schedule" not in job
    assert job["nextRunAt"] == "2099-01-01T00:00:00.000Z"


async def test_a_patch_that_is_already_true_succeeds_whatever_the_version(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    await api("PATCH", f"/v1/jobs/{job_id}", {"lane": "high"}, If_Match='"1"')
    again = await api("PATCH", f"/v1/jobs/{job_id}", {"lane": "high"}, If_Match='"1"')
    assert (again.status, again.body["version"]) == (200, 2)
    assert again.headers["Idempotent-Replayed"] == "true"


async def test_a_deleted_job_is_deleted_twice_alike(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    first = await api("DELETE", f"/v1/jobs/{job_id}")
    second = await api("DELETE", f"/v1/jobs/{job_id}")
    token = first.body["consistencyToken"]
    assert first.body == second.body
    assert first.body == {"jobId": job_id, "version": 2, "state": "deleted", "consistencyToken": token}
    assert (await api("GET", f"/v1/jobs/{job_id}")).body["state"] == "deleted"


async def test_lists_page_through_all_partitions_and_filter(api: Api) -> None:
    ids = {
        await api.create(
            name=f"n{number}",
            queue=("a", "b")[number % 2],
            schedule=DAILY,
            delaySeconds=None,
            labels={"odd": str(number % 2)},
        )
        for number in range(12)
    }
    found: list[str] = []
    cursor = ""
    while True:
        page = (await api("GET", f"/v1/jobs?limit=5{cursor}")).body
        assert len(page["jobs"]) <= 5
        assert all("payload" not in job for job in page["jobs"])
        found += [job["jobId"] for job in page["jobs"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert sorted(found) == sorted(ids)
    assert len((await api("GET", "/v1/jobs?queue=a")).body["jobs"]) == 6
    assert len((await api("GET", "/v1/jobs?label=odd:1")).body["jobs"]) == 6
    assert len((await api("GET", "/v1/jobs?namePrefix=n1")).body["jobs"]) == 3
    assert (await api("GET", "/v1/jobs?state=paused")).body["jobs"] == []


async def test_a_get_after_201_finds_the_job_although_the_store_lags(api: Api) -> None:
    hidden: dict[str, Any] = {}
    api.queries._jobs = hidden
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    read = asyncio.create_task(api("GET", f"/v1/jobs/{job_id}"))
    other = await api("GET", "/v1/jobs/never-created")
    assert other.status == 404
    hidden[job_id] = api.owner.jobs[job_id]
    assert (await read).status == 200


async def test_pause_and_resume_show_their_effect(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    paused = (await api("POST", f"/v1/jobs/{job_id}/pause", {"note": "why", "actor": "me"})).body
    assert paused["state"] == "paused"
    assert (paused["paused"]["actor"], paused["paused"]["note"], paused["paused"]["until"]) == ("me", "why", None)
    assert (await api("POST", f"/v1/jobs/{job_id}/trigger", {})).problem() == (409, "job_paused", None)
    resumed = (await api("POST", f"/v1/jobs/{job_id}/resume")).body
    assert (resumed["state"], resumed["paused"]) == ("active", None)


async def test_a_trigger_opens_a_run_once_per_key(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    first = await api("POST", f"/v1/jobs/{job_id}/trigger", {"payload": [1]}, Idempotency_Key="t")
    again = await api("POST", f"/v1/jobs/{job_id}/trigger", {"payload": [1]}, Idempotency_Key="t")
    assert (first.status, again.status) == (201, 201)
    assert first.body["runId"] == again.body["runId"]
    assert again.headers["Idempotent-Replayed"] == "true"
    (run,) = await api.lease()
    assert (run["runId"], run["payload"]) == (first.body["runId"], [1])
    other = await api("POST", f"/v1/jobs/{job_id}/trigger", {})
    assert other.problem() == (409, "overlap", None)
    assert other.body["blockedBy"] == first.body["runId"]


async def test_a_run_that_nobody_has_is_cancelled_at_once_and_again_alike(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    run_id = (await api("POST", f"/v1/jobs/{job_id}/trigger", {})).body["runId"]
    for _ in range(2):
        run = (await api("POST", f"/v1/runs/{run_id}/cancel", {"note": "no"})).body
        assert (run["state"], run["outcome"]) == ("closed", "cancelled")


async def test_runs_of_a_job_are_listed_newest_first_and_paged(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    for number in range(3):
        run_id = (await api("POST", f"/v1/jobs/{job_id}/trigger", {}, Idempotency_Key=f"t{number}")).body["runId"]
        (run,) = await api.lease()
        await api("POST", f"/v1/runs/{run_id}/complete", {"leaseToken": run["leaseToken"]})
    first = (await api("GET", f"/v1/jobs/{job_id}/runs?limit=2")).body
    rest = (await api("GET", f"/v1/jobs/{job_id}/runs?limit=2&cursor={first['nextCursor']}")).body
    runs = first["runs"] + rest["runs"]
    assert len({run["runId"] for run in runs}) == 3
    assert [run["scheduledFor"] for run in runs] == sorted((run["scheduledFor"] for run in runs), reverse=True)
    assert {run["outcome"] for run in runs} == {"ran"}
    assert rest["nextCursor"] is None
    assert (await api("GET", f"/v1/jobs/{job_id}/runs?state=leased")).body["runs"] == []


async def test_preview_of_a_job_and_of_a_body_agree_and_store_nothing(api: Api) -> None:
    job_id = await api.create(schedule=DAILY, delaySeconds=None)
    query = "from=2027-03-12T00:00:00Z&count=3"
    stored = (await api("GET", f"/v1/jobs/{job_id}/preview?{query}")).body
    asked = (await api("POST", "/v1/preview", {"schedule": DAILY, "from": "2027-03-12T00:00:00Z", "count": 3})).body
    assert stored["occurrences"] == asked["occurrences"]
    assert [occurrence["local"] for occurrence in asked["occurrences"]] == [
        "2027-03-12T09:00:00-05:00",
        "2027-03-15T09:00:00-04:00",
        "2027-03-16T09:00:00-04:00",
    ]
    assert (stored["jobId"], asked["jobId"]) == (job_id, None)
    assert len(api.owner.jobs) == 1


async def test_preview_ends_with_the_runs_that_are_left(api: Api) -> None:
    body = {"schedule": DAILY, "maxRuns": 2, "count": 10}
    assert len((await api("POST", "/v1/preview", body)).body["occurrences"]) == 2


async def test_warnings_are_told(api: Api) -> None:
    answered = await api("POST", "/v1/preview", {"schedule": {"cron": "0 0 13 * 5"}})
    assert "both day fields" in answered.body["warnings"][0]
