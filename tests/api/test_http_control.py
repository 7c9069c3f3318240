"""Skip, backfill, trigger and replay over HTTP, and that each may be repeated."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

import api.routes.runs as api_runs
from api.instants import instant_text
from streams.core import decide_control
from streams.core.commands import ReplayRun
from streams.core.events import RunOpened
from streams.core.state import Job

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

HOURLY = {"schedule": {"cron": "0 * * * *"}, "delaySeconds": None}


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _hours(api: Api, first: int, last: int) -> tuple[str, str]:
    now = datetime.fromtimestamp(api.gateway.now_ms() / 1000, UTC).replace(minute=0, second=0, microsecond=0)
    return _text(now + timedelta(hours=first)), _text(now + timedelta(hours=last))


async def _dead(api: Api, job_id: str = "dead", **fields: Any) -> str:
    """Make a dead run; its id."""
    await api.create(jobId=job_id, queue=job_id, retry={"maxAttempts": 1}, **fields)
    (run,) = await api.lease(job_id)
    failed = {"leaseToken": run["leaseToken"], "error": "no", "retryable": False}
    assert (await api("POST", f"/v1/runs/{run['runId']}/fail", failed)).body["outcome"] == "dead"
    run_id: str = run["runId"]
    return run_id


async def test_one_named_occurrence_is_skipped(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    at, following = _hours(api, 1, 2)
    skipped = await api("POST", "/v1/jobs/j/skip", {"at": at})
    assert (skipped.status, skipped.body["at"], skipped.body["nextRunAt"]) == (200, at, following)
    assert (await api("GET", "/v1/jobs/j")).body["nextRunAt"] == following
    again = await api("POST", "/v1/jobs/j/skip", {"at": at})
    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    later = _hours(api, 5, 5)[0]
    first = await api("POST", "/v1/jobs/j/skip", {"at": later})
    repeat = await api("POST", "/v1/jobs/j/skip", {"at": later})
    assert (repeat.status, repeat.headers["Idempotent-Replayed"]) == (200, "true")
    assert first.body["runId"] == repeat.body["runId"]
    assert (await api("POST", "/v1/jobs/j/skip", {"at": later.replace(":00:00", ":07:00")})).problem() == (
        422,
        "invalid_field",
        "at",
    )
    assert (await api("POST", "/v1/jobs/j/skip", {"at": later}, If_Match='"9"')).status == 412


async def test_skip_and_stop_may_be_repeated_with_a_key_or_without(api: Api) -> None:
    """They need none: a slot is skipped once, and what is stopped stays stopped. One that is sent changes nothing."""
    await api.create(jobId="j", queue="q", **HOURLY)
    first, until = _hours(api, -3, 0)
    began = await api("POST", "/v1/jobs/j/backfill", {"from": first, "to": until})
    calls: tuple[tuple[str, dict[str, str]], ...] = (
        ("/v1/jobs/j/skip", {"at": _hours(api, 5, 5)[0]}),
        (f"/v1/jobs/j/backfills/{began.body['backfillId']}/stop", {}),
    )
    for path, body in calls:
        answers = [await api("POST", path, body, **headers) for headers in ({}, {}, {"Idempotency_Key": "k"})]
        assert [(answer.status, answer.body) for answer in answers] == [(200, answers[0].body)] * 3
        assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true", "true"]
    assert api.owner.jobs["j"].state.keys == ()


async def test_a_dead_run_names_the_worker_of_its_last_attempt_and_how_late_the_first_was(api: Api) -> None:
    run_id = await _dead(api)
    body = (await api("GET", f"/v1/runs/{run_id}")).body
    (attempt,) = body["attempts"]
    assert (body["workerId"], body["grantedAt"]) == (attempt["workerId"], attempt["grantedAt"])
    assert body["workerId"]
    assert body["latenessMs"] >= 0
    assert (body["lane"], body["jobVersion"]) == (None, None)


async def test_a_backfill_counts_starts_once_and_shows_how_far_it_is(api: Api) -> None:
    await api.create(jobId="j", queue="q", overlap="allow", **HOURLY)
    first, until = _hours(api, -3, 0)
    asked = {"from": first, "to": until, "maxConcurrent": 1}
    dry = await api("POST", "/v1/jobs/j/backfill", asked | {"dryRun": True})
    assert (dry.status, dry.body["backfillId"], dry.body["runs"]) == (200, None, 3)
    assert (dry.body["firstAt"], dry.body["lastAt"]) == (first, _hours(api, -1, 0)[0])
    started = await api("POST", "/v1/jobs/j/backfill", asked, Idempotency_Key="k")
    assert (started.status, started.body["runs"]) == (201, 3)
    repeat = await api("POST", "/v1/jobs/j/backfill", asked, Idempotency_Key="k")
    assert (repeat.status, repeat.body, repeat.headers["Idempotent-Replayed"]) == (201, started.body, "true")
    going = (await api("GET", "/v1/jobs/j/backfills")).body["backfills"]
    assert [(one["state"], one["opened"], one["remaining"], one["to"]) for one in going] == [("running", 1, 2, until)]
    (run,) = await api.lease("q")
    assert (await api("GET", f"/v1/runs/{run['runId']}")).body["origin"] == "backfill"
    backfill_id = started.body["backfillId"]
    for _ in range(2):
        stopped = await api("POST", f"/v1/jobs/j/backfills/{backfill_id}/stop", {})
        assert (stopped.status, stopped.body["state"]) == (200, "ended")
    ended = (await api("GET", "/v1/jobs/j/backfills")).body["backfills"]
    assert [(one["backfillId"], one["state"]) for one in ended] == [(backfill_id, "ended")]
    assert (await api("POST", "/v1/jobs/j/backfills/b-9/stop", {})).problem() == (404, "unknown_backfill", "backfillId")
    assert (await api("POST", "/v1/jobs/none/backfills/b-9/stop", {})).problem()[1] == "job_not_found"


async def test_a_backfill_of_the_future_or_of_nothing_is_refused(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    first, until = _hours(api, -3, 4)
    assert (await api("POST", "/v1/jobs/j/backfill", {"from": first, "to": until})).problem()[2] == "to"
    assert (await api("POST", "/v1/jobs/j/backfill", {"from": first, "to": first})).problem()[2] == "to"
    inside = {"from": first.replace(":00:00", ":01:00"), "to": first.replace(":00:00", ":02:00")}
    assert (await api("POST", "/v1/jobs/j/backfill", inside)).problem() == (422, "invalid_field", "from")
    wide = {"from": first, "to": _hours(api, -1, 0)[0], "maxConcurrent": 65}
    assert (await api("POST", "/v1/jobs/j/backfill", wide)).problem() == (422, "invalid_field", "maxConcurrent")


async def test_a_dead_run_is_replayed_once_and_linked(api: Api) -> None:
    run_id = await _dead(api)
    replay = await api("POST", f"/v1/runs/{run_id}/replay", {})
    assert (replay.status, replay.body["origin"], replay.body["replayOf"]) == (201, "replay", run_id)
    repeat = await api("POST", f"/v1/runs/{run_id}/replay", {})
    assert (repeat.status, repeat.body["runId"]) == (201, replay.body["runId"])
    assert repeat.headers["Idempotent-Replayed"] == "true"
    (run,) = await api.lease("dead")
    assert run["runId"] == replay.body["runId"]
    assert (await api("POST", f"/v1/runs/{run['runId']}/replay", {})).problem() == (409, "run_closed", "runId")
    assert (await api("POST", "/v1/runs/run_none_x/replay", {})).problem()[0] == 404


async def test_dead_runs_are_replayed_by_filter_with_a_dry_run_first(api: Api) -> None:
    dead = {await _dead(api, f"d{n}", labels={"team": "ab"[n % 2]}) for n in range(4)}
    everything = {"deadFrom": "1970-01-01T00:00:00Z"}
    dry = await api("POST", "/v1/runs:replay", everything)
    assert (dry.body["matched"], dry.body["replayed"], set(dry.body["runs"])) == (4, 0, dead)
    some = await api("POST", "/v1/runs:replay", {"labels": {"team": "a"}, "dryRun": False})
    assert (some.body["matched"], some.body["replayed"]) == (2, 2)
    assert all(item["newRunId"].startswith("run_d") for item in some.body["items"])
    rest = everything | {"dryRun": False, "limit": 1}
    replayed = 0
    while True:
        page = (await api("POST", "/v1/runs:replay", rest)).body
        replayed += page["replayed"]
        if page["nextCursor"] is None:
            break
        rest["cursor"] = page["nextCursor"]
    assert replayed == 2
    assert (await api("POST", "/v1/runs:replay", {"jobId": "d0"})).body["matched"] == 0


@pytest.mark.parametrize("body", [{}, {"dryRun": False}, {"dryRun": True, "limit": 5}, {"queue": "", "labels": {}}])
async def test_a_bulk_replay_without_a_filter_is_refused_and_replays_nothing(api: Api, body: dict[str, Any]) -> None:
    await _dead(api, "d")
    refused = await api("POST", "/v1/runs:replay", body)
    assert refused.problem() == (422, "missing_field", "queue")
    assert "deadFrom" in refused.body["detail"]
    assert (await api("POST", "/v1/runs:replay", {"jobId": "d"})).body["matched"] == 1


async def test_a_bulk_replay_is_bounded_in_number_and_time(api: Api) -> None:
    for body, field in (
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"ratePerSecond": 0}, "ratePerSecond"),
        ({"ratePerSecond": 1, "limit": 100}, "limit"),
        ({"deadFrom": "x"}, "deadFrom"),
        ({"queue": "no spaces"}, "queue"),
    ):
        answered = await api("POST", "/v1/runs:replay", {"queue": "q"} | body)
        assert answered.problem() == (422, "invalid_field", field)


async def _dead_triggers(api: Api, count: int) -> list[str]:
    """Make dead runs of one job, oldest first."""
    await api.create(jobId="many", queue="many", overlap="allow", retry={"maxAttempts": 1}, **HOURLY)
    for _ in range(count):
        await api("POST", "/v1/jobs/many/trigger", {})
        (run,) = await api.lease("many")
        failed = {"leaseToken": run["leaseToken"], "error": "no", "retryable": False}
        await api("POST", f"/v1/runs/{run['runId']}/fail", failed)
    return [run.run_id for run in api.owner.jobs["many"].state.dead]


@pytest.mark.parametrize("wanted", [{"jobId": "many"}, {"queue": "many"}])
async def test_pages_of_a_dry_run_name_each_dead_run_of_a_job_once(api: Api, wanted: dict[str, Any]) -> None:
    dead = await _dead_triggers(api, 5)
    found: list[str] = []
    body: dict[str, Any] = wanted | {"limit": 2}
    for _ in range(3):
        page = (await api("POST", "/v1/runs:replay", body)).body
        found += page["runs"]
        body["cursor"] = page["nextCursor"]
    assert sorted(found) == sorted(dead)
    assert body["cursor"] is None


async def test_replays_leave_at_the_rate_and_name_their_dead_run(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = await _dead_triggers(api, 5)
    waits: list[float] = []
    sent: list[int] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        sent.append(sum(isinstance(command, ReplayRun) for command, _ in api.owner.decided))

    monkeypatch.setattr(api_runs, "asyncio", SimpleNamespace(sleep=sleep))
    body = {"jobId": "many", "dryRun": False, "ratePerSecond": 20, "limit": 100}
    replayed = (await api("POST", "/v1/runs:replay", body)).body
    assert (waits, sent, replayed["replayed"]) == ([0.1, 0.1], [2, 4], 5)
    new = [item["newRunId"] for item in replayed["items"]]
    assert [(await api("GET", f"/v1/runs/{run_id}")).body["replayOf"] for run_id in new] == replayed["runs"]
    assert sorted(replayed["runs"]) == sorted(dead)


async def test_replays_have_a_ceiling_one_by_one_and_in_bulk(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_control, "REPLAYS_MAX", 1)
    run_id = await _dead(api)
    await api("POST", f"/v1/runs/{run_id}/replay", {})
    (run,) = await api.lease("dead")
    failed = {"leaseToken": run["leaseToken"], "error": "again", "retryable": False}
    await api("POST", f"/v1/runs/{run['runId']}/fail", failed)
    path = f"/v1/runs/{run['runId']}/replay"
    assert (await api("POST", path, {})).problem() == (409, "too_many_replays", None)
    bulk = (await api("POST", "/v1/runs:replay", {"queue": "dead", "dryRun": False, "limit": 1})).body
    assert [(item["ok"], item["code"]) for item in bulk["items"]] == [(False, "too_many_replays")]
    assert (bulk["replayed"], bulk["nextCursor"]) == (0, None)


@pytest.mark.parametrize(
    ("wanted", "hit"),
    [
        ({"queue": "d1"}, {"d1"}),
        ({"labels": {"team": "b"}}, {"d1", "d3"}),
        ({"text": "D2"}, {"d2"}),
        ({"jobId": "d3"}, {"d3"}),
        ({"deadFrom": "2000-01-01T00:00:00Z", "deadUntil": "2000-01-02T00:00:00Z"}, set()),
        ({"deadFrom": "2000-01-01T00:00:00Z", "labels": {"team": "a"}}, {"d0", "d2"}),
    ],
)
async def test_a_filter_names_the_dead_runs_that_are_replayed(api: Api, wanted: dict[str, Any], hit: set[str]) -> None:
    dead = {f"d{n}": await _dead(api, f"d{n}", labels={"team": "ab"[n % 2]}) for n in range(4)}
    done = (await api("POST", "/v1/runs:replay", wanted | {"dryRun": False})).body
    assert set(done["runs"]) == {dead[name] for name in hit}
    assert {name for name in dead if any(run.kind == "replay" for run in api.owner.jobs[name].state.open)} == hit


async def test_a_backfill_opens_its_runs_at_its_rate_and_is_stopped(api: Api) -> None:
    await api.create(jobId="j", queue="q", overlap="allow", **HOURLY)
    first, until = _hours(api, -6, 0)
    asked = {"from": first, "to": until, "maxConcurrent": 6, "ratePerSecond": 4}
    started = await api("POST", "/v1/jobs/j/backfill", asked)
    runs: list[str] = []
    while len(runs) < 3:
        runs += [run["runId"] for run in await api.lease("q", max=5)]
    opened = [
        event.at_ms
        for _, decision in api.owner.decided
        for event in decision.events
        if isinstance(event, RunOpened) and event.kind == "backfill"
    ]
    assert all(later - earlier >= 250 for earlier, later in pairwise(opened))
    backfill_id = started.body["backfillId"]
    await api("POST", f"/v1/jobs/j/backfills/{backfill_id}/stop", {})
    (view,) = (await api("GET", "/v1/jobs/j/backfills")).body["backfills"]
    count = view["opened"]
    assert 3 <= count <= 6
    assert (view["state"], view["endedBy"], view["runs"], view["open"], view["remaining"]) == (
        "ended",
        "stopped" if count < 6 else "completed",
        6,
        count,
        6 - count,
    )
    assert (view["from"], view["to"], view["ratePerSecond"], view["nextAt"]) == (first, until, 4, None)
    assert view["startedAt"] <= view["endedAt"]


@pytest.mark.parametrize("rate", [0, 0.0001, 101, -1])
async def test_a_backfill_rate_out_of_bounds_is_refused(api: Api, rate: float) -> None:
    await api.create(jobId="j", **HOURLY)
    first, until = _hours(api, -3, 0)
    answered = await api("POST", "/v1/jobs/j/backfill", {"from": first, "to": until, "ratePerSecond": rate})
    assert answered.problem() == (422, "invalid_field", "ratePerSecond")


async def test_a_trigger_is_refused_with_the_run_in_the_way_unless_forced(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    first = await api("POST", "/v1/jobs/j/trigger", {}, Idempotency_Key="one")
    blocked = await api("POST", "/v1/jobs/j/trigger", {}, Idempotency_Key="two")
    assert blocked.problem()[:2] == (409, "overlap")
    assert blocked.body["blockedBy"] == first.body["runId"]
    repeat = await api("POST", "/v1/jobs/j/trigger", {}, Idempotency_Key="one")
    assert (repeat.status, repeat.body["runId"]) == (201, first.body["runId"])
    assert (await api("POST", "/v1/jobs/j/trigger", {"force": True}, Idempotency_Key="three")).status == 201


async def test_missed_runs_of_catch_up_all_leave_oldest_first_at_the_queues_rate(api: Api) -> None:
    await api("PUT", "/v1/queues/q", {"maxLeaseRatePerSecond": 10})
    await api.create(jobId="j", queue="q", schedule={"every": "1s"}, delaySeconds=None, catchUp="all", overlap="allow")
    job = api.owner.jobs["j"]
    missed_until_ms = job.state.next_at_ms
    from_ms = missed_until_ms - 40_000
    state = replace(job.state, next_at_ms=from_ms, decided_to_ms=from_ms - 1, missed_until_ms=missed_until_ms)
    api.owner.jobs["j"] = Job(state, job.definition)
    started_s = asyncio.get_running_loop().time()
    runs: list[dict[str, Any]] = []
    while len(runs) < 25:
        runs += await api.lease("q", max=25 - len(runs))
    took_s = asyncio.get_running_loop().time() - started_s
    assert took_s >= (25 - 10 - 1) / 10  # ten at once are the bucket's burst
    assert [run["scheduledFor"] for run in runs[:25]] == sorted(run["scheduledFor"] for run in runs[:25])
    assert runs[0]["scheduledFor"] == instant_text(from_ms)


@pytest.mark.parametrize("rate", [3, 7, 60, 90, 99])
async def test_a_backfill_is_never_faster_than_its_rate(api: Api, rate: float) -> None:
    await api.create(jobId="j", schedule={"cron": "0 * * * *"}, delaySeconds=None)
    asked = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z", "ratePerSecond": rate}
    assert (await api("POST", "/v1/jobs/j/backfill", asked)).status == 201
    (view,) = (await api("GET", "/v1/jobs/j/backfills")).body["backfills"]
    assert rate * 0.9 < view["ratePerSecond"] <= rate
