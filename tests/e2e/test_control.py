"""Lists, backfills, replays and bulk changes against a real scheduler and gateway."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import horolog

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 12


@pytest.fixture
def client(stack: Any) -> Iterator[horolog.Client]:
    with horolog.Client(stack.url, retry_seconds=60.0) as client:
        yield client


def test_a_list_shows_what_its_token_names_and_pages_over_all_partitions(client: horolog.Client, name: str) -> None:
    refs = [client.create_job(f"{name} {n}", job_id=f"{name}{n}", queue=name, cron="0 0 1 1 *") for n in range(JOBS)]
    token = refs[-1].consistency_token
    found: list[str] = []
    cursor = None
    while True:
        page = client.list_jobs(text=name.upper(), consistency=token, limit=5, cursor=cursor)
        found += [job.job_id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(ref.job_id for ref in refs)
    edited = client.edit_job(refs[0].job_id, labels={"edited": "yes"})
    shown = client.list_jobs(labels={"edited": "yes"}, text=name, consistency=edited.consistency_token)
    assert [job.job_id for job in shown.items] == [refs[0].job_id]


def test_a_bulk_pause_is_seen_and_taken_back(client: horolog.Client, name: str) -> None:
    for number in range(JOBS):
        client.create_job(name, job_id=f"{name}{number}", queue=name, cron="0 0 1 1 *")
    paused = client.change_jobs("pause", queue=name, dry_run=False, note="storm")
    assert paused.changed == JOBS
    assert client.get_job(f"{name}0").state == "paused"
    assert paused.undo_token is not None
    assert client.undo_change(paused.undo_token).changed == JOBS
    deleted = client.change_jobs("delete", queue=name, dry_run=False)
    assert deleted.changed == JOBS
    assert deleted.undo_token is not None
    assert client.undo_change(deleted.undo_token).changed == JOBS
    assert client.get_job(f"{name}0").state == "active"


def test_a_backfill_and_a_replay_run_and_the_queue_counts_them(stack: Any, client: horolog.Client, name: str) -> None:
    client.create_job(name, job_id=name, queue=name, cron="0 * * * *", overlap="allow", retry={"maxAttempts": 1})
    hour = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    started = client.backfill_job(name, start=hour - dt.timedelta(hours=3), end=hour, max_concurrent=3)
    assert started.runs == 3
    taken: list[horolog.LeasedRun] = []

    def leased() -> bool:
        taken.extend(client.lease(name, worker_id="e2e", max_runs=3, visibility_seconds=300.0, wait_seconds=5.0))
        return len(taken) == 3

    stack.until(leased)
    stack.until(lambda: client.get_queue(name).leased == 3)
    for run in taken:
        client.fail(run.run_id, run.lease_token, error="no", retryable=False)
    replayed = client.replay_runs(job_id=name, dry_run=False)
    assert (replayed.matched, replayed.replayed) == (3, 3)
    stack.until(lambda: len(client.list_runs(job_id=name, state="ready").items) == 3)
    queue = client.get_queue(name)
    assert queue.ready is not None
    assert (sum(queue.ready.values()), queue.retrying) == (3, 0)
    assert queue.oldest_ready_age_ms is not None
