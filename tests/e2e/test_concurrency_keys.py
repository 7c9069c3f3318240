"""Two jobs that share a concurrency key, on a real Kafka: F07."""

from __future__ import annotations

import uuid
from itertools import count
from typing import TYPE_CHECKING, Any

from horolog import Client
from schemas.partition import partition_for
from tests.e2e.conftest import PARTITIONS

if TYPE_CHECKING:
    from tests.e2e.conftest import Stack

QUEUE = "keyed"
VISIBILITY_S = 120
"""Longer than the test: no lease ends by itself."""

QUIET_S = 4.0
"""A run that could start would be here: its offer goes out within milliseconds of its opening."""


def job_on(partition: int, name: str) -> str:
    """Give a job id that lies on a partition: the key is counted over all of them."""
    ids = (f"{name}-{number}" for number in count())
    return next(job_id for job_id in ids if partition_for(job_id, PARTITIONS) == partition)


class Pair:
    """Two jobs with one key, and a worker with room for both."""

    def __init__(self, client: Client) -> None:
        self.client = client
        name = uuid.uuid4().hex[:8]
        self.key = f"customer:{name}"
        self.jobs = [job_on(partition, f"{name}-{partition}") for partition in range(2)]
        self.held: dict[str, Any] = {}

    def define(self) -> None:
        for job_id in self.jobs:
            self.client.create_job(job_id, job_id=job_id, queue=QUEUE, cron="0 0 1 1 *", concurrency_key=self.key)

    def trigger(self) -> None:
        for job_id in self.jobs:
            self.client.trigger_job(job_id)

    def lease(self, wait_seconds: float) -> list[str]:
        """Take what may start; give the jobs."""
        runs = self.client.lease(
            QUEUE, worker_id="w", max_runs=2, visibility_seconds=VISIBILITY_S, wait_seconds=wait_seconds
        )
        self.held.update({run.job_id: run for run in runs})
        return [run.job_id for run in runs]

    def complete(self, job_id: str) -> None:
        run = self.held.pop(job_id)
        self.client.complete(run.run_id, run.lease_token)

    def other(self, job_id: str) -> str:
        return self.jobs[1 - self.jobs.index(job_id)]


def test_two_jobs_with_one_key_never_overlap_and_a_raised_limit_lets_both_run(stack: Stack) -> None:
    with Client(stack.url, retry_seconds=60.0) as client:
        pair = Pair(client)
        client.put_concurrency_key(pair.key, max_running=1)
        pair.define()
        pair.trigger()
        stack.until(lambda: bool(client.get_concurrency_key(pair.key).runs_waiting))  # so its owner knows the limit

        stack.until(lambda: bool(pair.lease(1.0)))
        (first,) = pair.held
        second = pair.other(first)
        assert pair.lease(QUIET_S) == [], "the limit is 1"
        stack.until(lambda: client.explain_job(second).situation == "waiting_for_concurrency_key")
        assert client.get_concurrency_key(pair.key).units_running == 1
        assert client.get_concurrency_key(pair.key).runs_waiting

        pair.complete(first)
        stack.until(lambda: pair.lease(1.0) == [second])
        pair.complete(second)

        pair.trigger()
        stack.until(lambda: bool(pair.lease(1.0)))
        assert pair.lease(QUIET_S) == []
        client.put_concurrency_key(pair.key, max_running=2)
        stack.until(lambda: bool(pair.lease(1.0)))
        assert pair.held.keys() == set(pair.jobs), "both at once, and no job was touched"
        for job_id in pair.jobs:
            pair.complete(job_id)
