"""One contract, two gateways: what the test kit's FakeGateway answers is what the real one answers.

Every test runs against both, through the SDK's client. So a test of a user's tools against the fake says something.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import horolog
from horolog.testing import FakeGateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

HOUR = dt.timedelta(hours=1)


@pytest.fixture(params=["fake", "real"])
async def client(request: pytest.FixtureRequest, api: Api) -> AsyncIterator[horolog.AsyncClient]:
    async with FakeGateway() as fake, horolog.AsyncClient(fake.url if request.param == "fake" else api.base) as it:
        yield it


async def define(client: horolog.AsyncClient, job_id: str = "j", **fields: Any) -> dt.datetime:
    """Create an hourly job; give its next occurrence."""
    await client.create_job("nightly", job_id=job_id, **{"every": "1h", "queue": "q"} | fields)
    at = (await client.get_job(job_id)).next_run_at
    assert at is not None
    return at


async def refused(call: Any) -> tuple[int, str, str | None]:
    with pytest.raises(horolog.ApiError) as caught:
        await call
    return caught.value.status, caught.value.code, caught.value.field


async def dead_run(client: horolog.AsyncClient, job_id: str = "j", **options: Any) -> str:
    """Trigger a run and have it fail for good."""
    run_id = (await client.trigger_job(job_id, **options)).run_id
    (run,) = await client.lease("q", worker_id="w", wait_seconds=10)
    assert run.run_id == run_id
    assert (await client.fail(run_id, run.lease_token, error="no", retryable=False)).outcome == "dead"
    return run_id


async def test_a_pause_has_its_actor_note_and_end_and_a_resume_ends_it(client: horolog.AsyncClient) -> None:
    at = await define(client)
    paused = (await client.pause_job("j", note="why", until=at + HOUR)).paused
    assert paused is not None
    assert (paused.actor, paused.note, paused.until) == ("anonymous", "why", at + HOUR)
    assert paused.since is not None
    again = await client.pause_job("j", actor="me")
    assert again.state == "paused"
    assert again.paused is not None
    assert (again.paused.actor, again.paused.note, again.paused.until) == ("me", "", None)
    past = client.pause_job("j", until=at - 2 * HOUR)
    assert await refused(past) == (422, "invalid_field", "until")
    resumed = await client.resume_job("j", note="over", actor="me")
    assert (resumed.state, resumed.paused) == ("active", None)
    assert (await client.resume_job("j")).state == "active"


async def test_what_is_not_there_cannot_be_acted_on(client: horolog.AsyncClient) -> None:
    for call in (
        client.pause_job("none"),
        client.resume_job("none"),
        client.trigger_job("none"),
        client.skip_occurrence("none", at=dt.datetime(2030, 1, 1, tzinfo=dt.UTC)),
        client.list_backfills("none"),
        client.stop_backfill("none", "b"),
    ):
        assert (await refused(call))[:2] == (404, "job_not_found")
    assert (await refused(client.cancel_run("run_none_x")))[:2] == (404, "run_not_found")
    assert (await refused(client.replay_run("run_none_x")))[:2] == (404, "run_not_found")


async def test_a_deleted_job_is_remembered_as_deleted(client: horolog.AsyncClient) -> None:
    await define(client)
    assert (await client.delete_job("j")).state == "deleted"
    assert (await client.get_job("j")).state == "deleted"
    assert (await client.list_jobs()).items == ()
    for call in (client.pause_job("j"), client.resume_job("j"), client.trigger_job("j")):
        assert (await refused(call))[:2] == (409, "job_finished")


async def test_a_trigger_obeys_pause_and_overlap_unless_it_is_forced(client: horolog.AsyncClient) -> None:
    await define(client)
    first = await client.trigger_job("j", payload={"n": 1}, idempotency_key="k")
    assert (await client.trigger_job("j", payload={"n": 1}, idempotency_key="k")).run_id == first.run_id
    with pytest.raises(horolog.ConflictError) as caught:
        await client.trigger_job("j")
    assert (caught.value.code, caught.value.extra["blockedBy"]) == ("overlap", first.run_id)
    assert (await client.trigger_job("j", force=True)).run_id != first.run_id
    await client.pause_job("j")
    assert (await refused(client.trigger_job("j")))[:2] == (409, "job_paused")
    await client.trigger_job("j", force=True)
    assert {run.origin for run in (await client.list_job_runs("j")).items} == {"trigger"}
    assert len((await client.list_job_runs("j")).items) == 3


async def test_a_slot_that_is_to_come_is_skipped_and_another_instant_is_not(client: horolog.AsyncClient) -> None:
    at = await define(client)
    skipped = await client.skip_occurrence("j", at=at, version=1)
    assert (skipped.job_id, skipped.at, skipped.next_run_at) == ("j", at, at + HOUR)
    assert skipped.run_id == f"run_j_{at:%Y%m%dT%H%M%S}000Z"
    assert (await client.skip_occurrence("j", at=at)).next_run_at == at + HOUR
    assert (await client.get_job("j")).next_run_at == at + HOUR
    between = client.skip_occurrence("j", at=at + HOUR / 2)
    assert await refused(between) == (422, "invalid_field", "at")
    behind = client.skip_occurrence("j", at=at - 3 * HOUR)
    assert (await refused(behind))[:2] == (409, "slot_decided")
    assert (await refused(client.skip_occurrence("j", at=at + HOUR, version=9)))[:2] == (412, "version_mismatch")


async def test_a_backfill_counts_opens_tells_its_progress_and_is_stopped(client: horolog.AsyncClient) -> None:
    at = await define(client)
    start, end = at - 6 * HOUR, at - 2 * HOUR
    dry = await client.backfill_job("j", start=start, end=end, dry_run=True)
    assert (dry.runs, dry.first_at, dry.last_at, dry.backfill_id) == (4, start, end - HOUR, None)
    assert await client.list_backfills("j") == ()
    began = await client.backfill_job("j", start=start, end=end, max_concurrent=2, idempotency_key="k")
    assert (await client.backfill_job("j", start=start, end=end, max_concurrent=2, idempotency_key="k")) == began
    assert began.backfill_id is not None
    (going,) = await client.list_backfills("j")
    assert (going.state, going.opened, going.remaining, going.max_concurrent) == ("running", 2, 2, 2)
    assert (going.next_at, going.to) == (start + 2 * HOUR, end)
    (run,) = await client.lease("q", worker_id="w", wait_seconds=10)
    assert (run.lane, run.scheduled_for) == ("low", start)
    await client.complete(run.run_id, run.lease_token)
    (going,) = await client.list_backfills("j")
    assert (going.opened, going.remaining) == (3, 1)
    assert (await client.stop_backfill("j", began.backfill_id)).state == "ended"
    assert (await client.stop_backfill("j", began.backfill_id)).state == "ended"
    (ended,) = await client.list_backfills("j")
    assert (ended.state, ended.ended_by, ended.next_at) == ("ended", "stopped", None)
    assert (ended.runs, ended.opened, ended.open, ended.remaining) == (4, 3, 2, 1)
    assert (ended.from_, ended.to, ended.rate_per_second) == (start, end, None)
    assert ended.started_at is not None
    assert ended.ended_at is not None
    assert (await refused(client.stop_backfill("j", "b-other")))[:2] == (404, "unknown_backfill")


async def test_a_backfill_of_what_is_not_past_or_holds_nothing_is_refused(client: horolog.AsyncClient) -> None:
    at = await define(client)
    future = client.backfill_job("j", start=at - HOUR, end=at + HOUR)
    assert await refused(future) == (422, "invalid_field", "to")
    empty = client.backfill_job("j", start=at - HOUR * 1.5, end=at - HOUR * 1.4)
    assert await refused(empty) == (422, "invalid_field", "from")


async def test_a_bulk_pause_is_shown_done_and_taken_back(client: horolog.AsyncClient) -> None:
    for number in range(3):
        await define(client, f"j{number}", labels={"team": "x"})
    await define(client, "other")
    await client.pause_job("j2", note="mine")
    dry = await client.change_jobs("pause", labels={"team": "x"})
    assert (dry.dry_run, dry.matched, dry.changed) == (True, 2, 0)
    assert {(item.job_id, item.ok) for item in dry.jobs} == {("j0", None), ("j1", None)}
    assert (await client.get_job("j0")).state == "active"
    done = await client.change_jobs("pause", labels={"team": "x"}, note="stop", dry_run=False)
    assert (done.action, done.dry_run, done.matched, done.changed) == ("pause", False, 2, 2)
    paused = (await client.get_job("j0")).paused
    assert paused is not None
    assert paused.note == f"stop [bulk {done.correlation_id}]"
    await client.resume_job("j1")
    await client.pause_job("j1", note="again")
    assert done.undo_token is not None
    undone = await client.undo_change(done.undo_token)
    assert (undone.action, undone.correlation_id) == ("undo", done.correlation_id)
    outcome = {item.job_id: (item.ok, item.code) for item in undone.jobs}
    assert outcome == {"j0": (True, None), "j1": (False, "version_mismatch")}
    states = {job.job_id: job.state for job in (await client.list_jobs()).items}
    assert states == {"j0": "active", "j1": "paused", "j2": "paused", "other": "active"}


async def test_bulk_resume_and_delete_are_taken_back_too(client: horolog.AsyncClient) -> None:
    await define(client, "a", payload=[1])
    await client.pause_job("a", note="mine", actor="me")
    resumed = await client.change_jobs("resume", job_ids=["a", "none"], dry_run=False)
    assert (resumed.changed, (await client.get_job("a")).state) == (1, "active")
    assert resumed.undo_token is not None
    assert (await client.undo_change(resumed.undo_token)).changed == 1
    paused = (await client.get_job("a")).paused
    assert paused is not None
    assert (paused.actor, paused.note.startswith("mine") if paused.note else False) == ("me", True)
    deleted = await client.change_jobs("delete", queue="q", dry_run=False)
    assert (await client.get_job("a")).state == "deleted"
    assert deleted.undo_token is not None
    assert (await client.undo_change(deleted.undo_token)).changed == 1
    back = await client.get_job("a")
    assert (back.state, back.payload) == ("paused", [1])
    assert back.version > 1


async def test_a_bulk_change_without_a_filter_or_with_a_foreign_token_is_refused(client: horolog.AsyncClient) -> None:
    assert await refused(client.change_jobs("pause")) == (422, "missing_field", "filter")
    assert await refused(client.undo_change("no token")) == (422, "invalid_field", "undoToken")
    at = await define(client)
    assert await refused(client.change_jobs("resume", queue="q", until=at)) == (422, "unknown_field", "until")


async def test_a_dead_run_is_replayed_once_as_a_new_run(client: horolog.AsyncClient) -> None:
    await define(client)
    dead = await dead_run(client, payload={"n": 7})
    again = await client.replay_run(dead)
    assert again.run_id != dead
    assert (again.state, again.origin, again.replay_of, again.attempt) == ("ready", "replay", dead, 0)
    assert (await client.replay_run(dead)).run_id == again.run_id
    (run,) = await client.lease("q", worker_id="w", wait_seconds=10)
    assert (run.run_id, run.payload, run.attempt) == (again.run_id, {"n": 7}, 1)
    await client.complete(run.run_id, run.lease_token)
    assert (await refused(client.replay_run(again.run_id)))[:2] == (409, "run_closed")
    assert (await refused(client.cancel_run(again.run_id)))[:2] == (409, "run_closed")


async def test_dead_runs_are_replayed_in_bulk_at_a_rate_after_a_dry_run(client: horolog.AsyncClient) -> None:
    await define(client, overlap="allow", labels={"team": "x"})
    dead = [await dead_run(client) for _ in range(2)]
    assert (await refused(client.replay_runs()))[:2] == (422, "missing_field")
    dry = await client.replay_runs(job_id="j")
    assert (dry.dry_run, dry.matched, dry.replayed, list(dry.runs)) == (True, 2, 0, dead)
    assert [(item.run_id, item.ok) for item in dry.items] == [(run_id, None) for run_id in dead]
    assert (await client.replay_runs(labels={"team": "y"})).matched == 0
    long_ago = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    assert (await client.replay_runs(dead_until=long_ago)).matched == 0
    assert (await client.replay_runs(dead_from=long_ago, text="NIGHT")).matched == 2
    done = await client.replay_runs(labels={"team": "x"}, rate_per_second=50, dry_run=False)
    assert (done.matched, done.replayed) == (2, 2)
    opened = {run.run_id: run.replay_of for run in (await client.list_runs(state="ready")).items}
    assert {item.new_run_id: item.run_id for item in done.items} == opened
    assert (await client.replay_runs(labels={"team": "x"}, dry_run=False)).matched == 0


async def test_a_cancelled_run_is_closed_at_once_or_through_its_worker(client: horolog.AsyncClient) -> None:
    await define(client, overlap="allow")
    waiting = (await client.trigger_job("j")).run_id
    closed = await client.cancel_run(waiting, note="wrong")
    assert (closed.state, closed.outcome) == ("closed", "cancelled")
    leased = (await client.trigger_job("j")).run_id
    (run,) = await client.lease("q", worker_id="w", wait_seconds=10)
    asked = await client.cancel_run(leased)
    assert (asked.state, asked.cancel_requested) == ("leased", True)
    beat = await client.heartbeat(leased, run.lease_token)
    assert (beat.cancel, beat.cancel_reason) == (True, "user")
    assert (await client.fail(leased, run.lease_token, error="stopped")).outcome == "cancelled"


async def test_queues_and_tenants_are_set_under_a_version(client: horolog.AsyncClient) -> None:
    assert (await client.get_queue("q")).version == 0
    put = await client.put_queue("q", max_lease_rate_per_second=5, description="d")
    assert (put.version, put.max_lease_rate_per_second, put.description) == (1, 5, "d")
    assert (await client.put_queue("q", max_lease_rate_per_second=5, description="d")).version == 1
    assert (await refused(client.put_queue("q", description="e", version=7)))[:2] == (412, "version_mismatch")
    lifted = await client.put_queue("q", version=1)
    assert (lifted.version, lifted.max_lease_rate_per_second, lifted.description) == (2, None, "")
    assert (await client.get_tenant("default")).version == 0
    tenant = await client.put_tenant("default", max_lease_rate_per_second=9)
    assert (tenant.tenant, tenant.version, tenant.max_lease_rate_per_second) == ("default", 1, 9)
    assert (await refused(client.put_tenant("default", version=7)))[:2] == (412, "version_mismatch")
    assert (await client.put_tenant("default", version=1)).max_lease_rate_per_second is None
    assert (await refused(client.get_tenant("other")))[:2] == (403, "forbidden")


async def test_jobs_and_runs_are_found_by_text_label_and_time(client: horolog.AsyncClient) -> None:
    await define(client, "a", labels={"team": "x"})
    await client.create_job("Other", job_id="b", every="1h", queue="q")
    run = await client.trigger_job("a")
    assert run.scheduled_for is not None
    assert [job.job_id for job in (await client.list_jobs(text="NIGHT")).items] == ["a"]
    assert [job.job_id for job in (await client.list_jobs(labels={"team": "x"})).items] == ["a"]
    for options in ({"text": "night"}, {"labels": {"team": "x"}}, {"start": run.scheduled_for}, {"job_id": "a"}):
        assert [one.run_id for one in (await client.list_runs(**options)).items] == [run.run_id], options
    for options in ({"text": "other"}, {"labels": {"team": "y"}}, {"end": run.scheduled_for}):
        assert (await client.list_runs(**options)).items == (), options


async def test_a_worker_that_calls_an_idle_queues_request_back_loses_and_doubles_nothing(
    client: horolog.AsyncClient,
) -> None:
    url = client._transport._url
    worker = horolog.Worker(url, queue=["calm", "busy"], slots=2)
    executed: list[str] = []

    @worker.handler("t")
    async def note(run: horolog.Run) -> None:
        executed.append(run.run_id)
        if len(executed) == 30:
            worker.stop()

    for number in range(30):
        queue = "calm" if number % 10 == 9 else "busy"
        await client.create_job("n", job_id=f"w{number}", task="t", queue=queue, delay_seconds=number / 20)
    await worker.run_async()
    assert len(set(executed)) == len(executed) == 30
    outcomes = {run.outcome for run in (await client.list_runs(limit=100)).items}
    assert outcomes == {"ran"}


async def test_a_job_may_be_paused_from_its_first_moment_on(client: horolog.AsyncClient) -> None:
    await client.create_job("n", job_id="once", delay_seconds=0, queue="q", paused=True)
    assert (await client.get_job("once")).state == "paused"
    assert await client.lease("q", worker_id="w", wait_seconds=0.3) == ()
    await define(client)
    assert (await client.edit_job("j", lane="low", paused=True)).version == 2
    assert (await client.get_job("j")).paused is not None
    await client.edit_job("j", paused=False)
    assert (await client.get_job("j")).state == "active"
