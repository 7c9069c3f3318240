"""The typed client in both forms, against the fake gateway."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

import horolog
from horolog import _calls
from horolog._client import _Repeats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from horolog.testing import FakeGateway, RecordedCall

UTC = dt.UTC
NINE = dt.datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


class Both:
    """Calls a method of the sync or the async client, and returns its answer either way."""

    def __init__(self, client: horolog.Client | horolog.AsyncClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self.client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if isinstance(self.client, horolog.Client):
                return await asyncio.to_thread(method, *args, **kwargs)
            return await method(*args, **kwargs)

        return call


@pytest.fixture(params=["sync", "async"])
async def client(request: pytest.FixtureRequest, gateway: FakeGateway) -> AsyncIterator[Both]:
    if request.param == "sync":
        with horolog.Client(gateway.url) as sync:
            yield Both(sync)
    else:
        async with horolog.AsyncClient(gateway.url) as it:
            yield Both(it)


def last(gateway: FakeGateway) -> RecordedCall:
    return gateway.calls[-1]


async def test_a_job_is_created_read_edited_listed_and_deleted(gateway: FakeGateway, client: Both) -> None:
    ref = await client.create_job(
        "rollup", queue="billing", cron="0 9 * * MON-FRI", time_zone="America/New_York", payload={"m": 11}
    )
    assert last(gateway).body == {
        "name": "rollup",
        "queue": "billing",
        "payload": {"m": 11},
        "schedule": {"cron": "0 9 * * MON-FRI", "timeZone": "America/New_York"},
    }
    assert (ref.version, ref.replayed) == (1, False)
    job = await client.get_job(ref.job_id)
    assert (job.name, job.task, job.queue, job.payload) == ("rollup", "rollup", "billing", {"m": 11})
    assert job.retry["maxAttempts"] == 5
    edited = await client.edit_job(ref.job_id, version=1, lane="high", every=dt.timedelta(minutes=15))
    assert last(gateway).headers["If-Match"] == '"1"'
    assert last(gateway).body == {"lane": "high", "schedule": {"every": 900_000}}
    assert edited.version == 2
    page = await client.list_jobs(queue="billing", limit=1)
    assert [(it.job_id, it.lane) for it in page.items] == [(ref.job_id, "high")]
    assert page.next_cursor is None
    deleted = await client.delete_job(ref.job_id, version=2)
    assert deleted.state == "deleted"
    assert (await client.delete_job(ref.job_id)).state == "deleted"
    assert (await client.get_job(ref.job_id)).state == "deleted"
    with pytest.raises(horolog.NotFoundError) as caught:
        await client.get_job("another")
    assert caught.value.code == "job_not_found"


async def test_pages_follow_their_cursor_without_gaps_or_repeats(client: Both) -> None:
    for number in range(5):
        await client.create_job("n", job_id=f"job-{number}", delay_seconds=1000, labels={"odd": str(number % 2)})
    seen, cursor = [], None
    while True:
        page = await client.list_jobs(limit=2, cursor=cursor)
        seen += [job.job_id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"job-{number}" for number in range(5)]
    odd = await client.list_jobs(labels={"odd": "1"})
    assert [job.job_id for job in odd.items] == ["job-1", "job-3"]


async def test_put_and_patch_take_json_definitions(client: Both) -> None:
    definition = {"name": "n", "schedule": {"every": "15m"}, "queue": "default"}
    assert (await client.put_job("job", definition)).version == 1
    assert (await client.put_job("job", definition)).version == 1
    assert (await client.put_job("job", {**definition, "lane": "low"}, version=1)).version == 2
    assert (await client.patch_job("job", {"lane": "high"}, version=2)).version == 3
    assert (await client.patch_job("job", {"lane": "high"}, version=2)).version == 3
    with pytest.raises(horolog.VersionMismatchError) as caught:
        await client.patch_job("job", {"lane": "normal"}, version=1)
    assert caught.value.extra["version"] == 3
    with pytest.raises(horolog.VersionMismatchError):
        await client.put_job("job", definition, create_only=True)
    assert (await client.define_job({**definition, "jobId": "other"})).job_id == "other"


async def test_the_life_of_a_run_by_hand(gateway: FakeGateway, client: Both) -> None:
    ref = await client.create_job("n", job_id="job", delay_seconds=1000, payload=1)
    triggered = await client.trigger_job(ref.job_id, payload={"other": 2})
    (run,) = await client.lease("default", worker_id="me", visibility_seconds=60, wait_seconds=1)
    assert (run.run_id, run.payload, run.attempt, run.lease_token) == (triggered.run_id, {"other": 2}, 1, 1)
    beat = await client.heartbeat(run.run_id, run.lease_token, progress="half")
    assert (beat.ok, beat.cancel) == (True, False)
    assert beat.lease_remaining_ms > 59_000
    done = await client.complete(run.run_id, run.lease_token, result=[1])
    again = await client.complete(run.run_id, run.lease_token, result=[1])
    assert (done.outcome, again.outcome, again.replayed) == ("ran", "ran", True)
    record = await client.get_run(run.run_id)
    assert (record.state, record.outcome, record.result, record.progress) == ("closed", "ran", [1], "half")
    assert record.scheduled_for is not None
    assert record.scheduled_for.tzinfo is not None
    runs = await client.list_job_runs(ref.job_id)
    assert [it.run_id for it in runs.items] == [run.run_id]
    with pytest.raises(horolog.StaleLeaseError) as caught:
        await client.heartbeat(run.run_id, run.lease_token)
    assert caught.value.extra["outcome"] == "ran"
    assert gateway.runs[run.run_id].completions == 1


async def test_fail_release_cancel_and_replay(client: Both) -> None:
    await client.create_job("n", job_id="job", delay_seconds=1000)
    first = (await client.trigger_job("job")).run_id
    (run,) = await client.lease("default", worker_id="me", wait_seconds=1)
    assert (await client.release(run.run_id, run.lease_token)).ok
    (run,) = await client.lease("default", worker_id="me", wait_seconds=1)
    assert (run.attempt, run.lease_token) == (1, 2)
    failed = await client.fail(run.run_id, run.lease_token, error="bad", error_type="E", retryable=False)
    assert failed.outcome == "dead"
    dry = await client.replay_runs(job_id="job")
    assert (dry.matched, dry.replayed) == (1, 0)
    again = await client.replay_run(first)
    assert (again.state, again.origin, again.replay_of) == ("ready", "replay", first)
    assert (await client.replay_run(first)).run_id == again.run_id
    assert (await client.cancel_run(again.run_id)).outcome == "cancelled"
    assert (await client.cancel_run(again.run_id)).outcome == "cancelled"
    with pytest.raises(horolog.ConflictError) as caught:
        await client.replay_run(again.run_id)
    assert caught.value.code == "run_closed"
    listed = await client.list_runs(outcome="cancelled")
    assert [it.run_id for it in listed.items] == [again.run_id]


async def test_batch_forms_answer_item_by_item(gateway: FakeGateway, client: Both) -> None:
    run_ids = [gateway.add_run("t") for _ in range(4)]
    leased = await client.lease("default", worker_id="me", max_runs=4, wait_seconds=1)
    assert [run.run_id for run in leased] == run_ids
    items = [{"runId": run.run_id, "leaseToken": run.lease_token} for run in leased]
    stale = {"runId": run_ids[0], "leaseToken": 99}
    beats = await client.heartbeat_many([*items, stale])
    assert [(it.ok, it.code) for it in beats] == [(True, None)] * 4 + [(False, "lease_lost")]
    assert [it.ok for it in await client.complete_many(items[:2])] == [True, True]
    assert [it.ok for it in await client.fail_many([{**items[2], "error": "e"}])] == [True]
    assert [it.ok for it in await client.release_many(items[3:])] == [True]


async def test_pause_resume_preview_explain_and_backfill(client: Both) -> None:
    await client.create_job("n", job_id="job", every="1h")
    ten = NINE + dt.timedelta(hours=1)
    paused = await client.pause_job("job", note="why", until=ten)
    assert (paused.state, paused.paused.note, paused.paused.until) == ("paused", "why", ten)
    assert (await client.explain_job("job")).situation == "paused"
    assert (await client.resume_job("job")).state == "active"
    preview = await client.preview_job("job", start=NINE, count=3)
    assert [it.at for it in preview.occurrences] == [NINE + dt.timedelta(hours=n) for n in range(3)]
    free = await client.preview_schedule(every="30m", start=NINE, count=2)
    assert [it.at.minute for it in free.occurrences] == [0, 30]
    assert (await client.preview_definition({"schedule": {"cron": "* * * * *"}})).warnings
    start = NINE - dt.timedelta(hours=3)
    dry = await client.backfill_job("job", start=start, end=NINE, dry_run=True)
    assert (dry.runs, dry.backfill_id, dry.first_at) == (3, None, start)
    real = await client.backfill_job("job", start=start, end=NINE)
    assert (real.runs, real.last_at) == (3, NINE - dt.timedelta(hours=1))
    assert real.backfill_id


async def test_two_jobs_share_the_limit_of_their_concurrency_key(client: Both, gateway: FakeGateway) -> None:
    created = await client.put_concurrency_key("k", max_running=2)
    assert (created.key, created.max_running, created.units_running, created.version) == ("k", 2, 0, 1)
    for job_id, weight in (("a", 2), ("b", 1)):
        await client.create_job("n", job_id=job_id, every="1h", concurrency_key="k", concurrency_weight=weight)
        await client.trigger_job(job_id)
    assert (await client.get_job("a")).concurrency_weight == 2
    (first,) = await client.lease("default", worker_id="me", max_runs=4, wait_seconds=0)
    assert first.job_id == "a"
    assert await client.lease("default", worker_id="me", max_runs=4, wait_seconds=0) == ()
    (key,) = await client.list_concurrency_keys()
    assert (key.units_running, key.runs_waiting) == (2, True)
    await client.put_concurrency_key("k", max_running=3)
    (second,) = await client.lease("default", worker_id="me", max_runs=4, wait_seconds=0)
    assert second.job_id == "b"
    assert (await client.put_concurrency_key("k")).max_running is None
    assert (await client.get_concurrency_key("k")).version == 0
    assert gateway.memory.concurrency_keys == {}


async def test_queues_and_readiness(client: Both) -> None:
    created = await client.put_queue("billing", max_running=7, description="money")
    assert (created.queue, created.max_running, created.version) == ("billing", 7, 1)
    queue = await client.get_queue("billing")
    assert queue.ready == {"high": 0, "normal": 0, "low": 0}
    assert [it.queue for it in await client.list_queues()] == ["billing", "default"]
    assert (await client.ready()).ready is True
    assert (await client.live()).status == "ok"
    assert (await client.get_queue("not-used-yet")).version == 0


@pytest.mark.parametrize("fault", ["drop_answers", "drop_requests"])
async def test_a_create_is_repeated_with_its_key_and_makes_one_job(
    gateway: FakeGateway, client: Both, fault: str
) -> None:
    getattr(gateway, fault)("jobs", times=2)
    ref = await client.create_job("n", delay_seconds=1000)
    assert list(gateway.jobs) == [ref.job_id]
    keys = {call.headers["Idempotency-Key"] for call in gateway.calls}
    assert (len(gateway.calls), len(keys)) == (3, 1)
    assert ref.replayed is (fault == "drop_answers")


async def test_the_same_key_with_another_body_is_a_conflict(gateway: FakeGateway, client: Both) -> None:
    first = await client.create_job("n", delay_seconds=1000, idempotency_key="my-key")
    again = await client.create_job("n", delay_seconds=1000, idempotency_key="my-key")
    assert (again.job_id, again.replayed) == (first.job_id, True)
    with pytest.raises(horolog.ConflictError) as caught:
        await client.create_job("other", delay_seconds=1000, idempotency_key="my-key")
    assert caught.value.code == "idempotency_conflict"
    assert {call.headers["Idempotency-Key"] for call in gateway.calls} == {"my-key"}


async def test_a_trigger_whose_answer_was_lost_opens_one_run(gateway: FakeGateway, client: Both) -> None:
    await client.create_job("n", job_id="job", delay_seconds=1000)
    gateway.drop_answers("jobs", times=2)
    triggered = await client.trigger_job("job")
    assert list(gateway.runs) == [triggered.run_id]


@pytest.mark.parametrize("status", [503, 504])
async def test_503_and_504_are_repeated(gateway: FakeGateway, client: Both, status: int) -> None:
    gateway.refuse("jobs", status=status, times=2)
    await client.create_job("n", delay_seconds=1000)
    assert gateway.count("jobs") == 3


async def test_retry_after_is_waited_for() -> None:
    repeats = _Repeats(30, now=0.0)
    busy = horolog.UnavailableError(503, "no_owner", "", retry_after_seconds=7)
    assert repeats.delay(busy, 0.0) == 7
    assert repeats.delay(busy, 24.0) is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "bad_json", horolog.InvalidRequestError),
        (401, "unauthorized", horolog.UnauthorizedError),
        (403, "forbidden", horolog.ForbiddenError),
        (404, "job_not_found", horolog.NotFoundError),
        (405, "method_not_allowed", horolog.InvalidRequestError),
        (409, "job_exists", horolog.ConflictError),
        (409, "lease_lost", horolog.StaleLeaseError),
        (412, "version_mismatch", horolog.VersionMismatchError),
        (413, "payload_too_large", horolog.InvalidRequestError),
        (422, "bad_cron", horolog.InvalidRequestError),
        (429, "pending_cap", horolog.RateLimitedError),
        (500, "internal", horolog.UnavailableError),
    ],
)
async def test_each_status_has_its_error_and_is_not_repeated(
    gateway: FakeGateway, client: Both, status: int, code: str, kind: type[horolog.ApiError]
) -> None:
    gateway.refuse("jobs", status=status, code=code, retry_after_seconds=3)
    with pytest.raises(horolog.ApiError) as caught:
        await client.get_job("job")
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.code, caught.value.retry_after_seconds) == (status, code, 3)
    assert gateway.count("jobs") == 1


async def test_errors_name_the_field(client: Both) -> None:
    with pytest.raises(horolog.InvalidRequestError) as caught:
        await client.create_job("n", cron="61 * * * *")
    assert (caught.value.code, caught.value.field) == ("bad_cron", "schedule.cron")
    with pytest.raises(horolog.InvalidRequestError) as caught:
        await client.create_job("n", delay_seconds=1, payload="x" * 65_535)
    assert (caught.value.code, caught.value.extra["limit"]) == ("payload_too_large", 65_536)


async def test_no_gateway_is_an_error_after_the_retry_time() -> None:
    with horolog.Client("http://127.0.0.1:1", retry_seconds=0) as sync, pytest.raises(horolog.UnreachableError):
        sync.get_job("job")
    async with horolog.AsyncClient("http://127.0.0.1:1", retry_seconds=0) as client:
        with pytest.raises(horolog.UnreachableError):
            await client.get_job("job")


async def test_a_hanging_gateway_is_a_time_out(gateway: FakeGateway) -> None:
    gate = gateway.hang("jobs", times=2)
    sync = horolog.Client(gateway.url, retry_seconds=0, timeout_seconds=0.05)
    with sync, pytest.raises(horolog.UnreachableError):
        await asyncio.to_thread(sync.get_job, "job")
    async with horolog.AsyncClient(gateway.url, retry_seconds=0, timeout_seconds=0.05) as client:
        with pytest.raises(horolog.UnreachableError):
            await client.get_job("job")
    gate.release()


async def test_the_sync_client_rides_out_a_restart_between_its_calls(gateway: FakeGateway) -> None:
    with horolog.Client(gateway.url) as sync:
        await asyncio.to_thread(sync.put_job, "job", {"schedule": {"every": "1h"}})
        await gateway.restart()
        job = await asyncio.to_thread(sync.get_job, "job")
    assert job.job_id == "job"


async def test_threads_may_share_a_sync_client(gateway: FakeGateway) -> None:
    names: set[str] = set()
    with horolog.Client(gateway.url) as sync:

        def create(number: int) -> str:
            names.add(threading.current_thread().name)
            return sync.create_job("n", job_id=f"job-{number}", delay_seconds=1000).job_id

        made = await asyncio.gather(*(asyncio.to_thread(create, number) for number in range(20)))
    assert sorted(made) == sorted(gateway.jobs)
    assert names


def test_mistakes_in_arguments_are_found_before_anything_is_sent() -> None:
    client = horolog.Client("http://127.0.0.1:1", retry_seconds=0)
    with pytest.raises(TypeError, match="unknown job field: qeue"):
        client.create_job("n", qeue="x")  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(TypeError, match="exactly one of cron, every, schedule"):
        client.create_job("n", cron="* * * * *", every="1h")
    with pytest.raises(ValueError, match="needs a time zone"):
        client.create_job("n", run_at=dt.datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake under test
    with pytest.raises(ValueError, match="wall-clock time"):
        client.create_job("n", run_at_local=NINE, time_zone="UTC")


def test_paths_and_queries_are_encoded() -> None:
    call = _calls.get_job("a:b.c")
    assert call.path == "/v1/jobs/a:b.c"
    assert _calls.get_job("a/b?").path == "/v1/jobs/a%2Fb%3F"
    listing = _calls.list_jobs(name_prefix="ü &", labels={"a": "b:c"})
    assert listing.path == "/v1/jobs?namePrefix=%C3%BC+%26&label=a%3Ab%3Ac"
    at = _calls.explain_job("j", at=NINE.astimezone(dt.timezone(dt.timedelta(hours=2))))
    assert at.path == "/v1/jobs/j/explain?at=2026-12-01T09%3A00%3A00.000Z"


def test_run_at_local_and_anchor_travel_as_written() -> None:
    local = _calls.create_job("n", run_at_local=dt.datetime(2026, 12, 1, 9), time_zone="Europe/Berlin")  # noqa: DTZ001 - wall clock
    assert json.loads(local.body or "") == {
        "name": "n", "runAtLocal": "2026-12-01T09:00:00", "timeZone": "Europe/Berlin",
    }  # fmt: skip
    every = _calls.create_job("n", every="15m", anchor=NINE)
    assert json.loads(every.body or "")["schedule"] == {"every": "15m", "anchor": "2026-12-01T09:00:00.000Z"}


def test_every_changing_call_but_those_with_a_token_carries_an_idempotency_key() -> None:
    by_token = {"lease", "heartbeat", "complete", "fail", "release", "preview_schedule", "preview_definition"}
    calls: dict[str, _calls.Call[Any]] = {
        "create_job": _calls.create_job("n"),
        "put_job": _calls.put_job("j", {}),
        "edit_job": _calls.edit_job("j"),
        "patch_job": _calls.patch_job("j", {}),
        "delete_job": _calls.delete_job("j"),
        "pause_job": _calls.pause_job("j"),
        "resume_job": _calls.resume_job("j"),
        "trigger_job": _calls.trigger_job("j"),
        "backfill_job": _calls.backfill_job("j", start=NINE, end=NINE),
        "stop_backfill": _calls.stop_backfill("j", "b"),
        "skip_occurrence": _calls.skip_occurrence("j", at=NINE),
        "change_jobs": _calls.change_jobs("pause", queue="q"),
        "undo_change": _calls.undo_change("t"),
        "cancel_run": _calls.cancel_run("r"),
        "replay_run": _calls.replay_run("r"),
    }
    assert all("Idempotency-Key" in call.headers for call in calls.values())
    assert not by_token & set(calls)
    assert len({call.headers["Idempotency-Key"] for call in calls.values()}) == len(calls)


def test_both_clients_show_the_signature_of_the_declaration() -> None:
    sync, both = horolog.Client("http://h"), horolog.AsyncClient("http://h")
    expected = str(inspect.signature(_calls.pause_job))
    assert str(inspect.signature(sync.pause_job)) == expected
    assert str(inspect.signature(both.pause_job)) == expected
    assert sync.pause_job.__doc__ == _calls.pause_job.__doc__


def test_filters_and_bulk_changes_travel_in_the_words_of_the_api() -> None:
    jobs = _calls.list_jobs(text="night", labels={"team": "x"}, next_until=NINE, consistency="tok").path
    assert jobs == "/v1/jobs?text=night&label=team%3Ax&nextUntil=2026-12-01T09%3A00%3A00.000Z&consistency=tok"
    runs = _calls.list_runs(outcome="dead", start=NINE, limit=5).path
    assert runs == "/v1/runs?outcome=dead&from=2026-12-01T09%3A00%3A00.000Z&limit=5"
    change = _calls.change_jobs("pause", queue="q", dry_run=False, until=NINE)
    assert (change.method, change.path) == ("POST", "/v1/jobs:pause")
    assert json.loads(change.body or "") == {
        "filter": {"queue": "q"}, "dryRun": False, "until": "2026-12-01T09:00:00.000Z",
    }  # fmt: skip
    assert _calls.stop_backfill("j", "b-1").path == "/v1/jobs/j/backfills/b-1/stop"
    assert json.loads(_calls.trigger_job("j", force=True).body or "") == {"force": True}
    assert json.loads(_calls.skip_occurrence("j", at=NINE).body or "") == {"at": "2026-12-01T09:00:00.000Z"}
    assert json.loads(_calls.replay_runs(text="n", rate_per_second=5).body or "") == {
        "text": "n", "dryRun": True, "ratePerSecond": 5,
    }  # fmt: skip
