"""`horolog explain` against a real scheduler and gateway: the five situations of issue 4, item 5."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import horolog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horolog import LeasedRun


@pytest.fixture
def client(stack: Any) -> Iterator[horolog.Client]:
    with horolog.Client(stack.url, retry_seconds=60.0) as client:
        yield client


def take(stack: Any, client: horolog.Client, queue: str) -> LeasedRun:
    """Lease the next run of a queue, as a worker would, and tell that it was received."""
    taken: list[LeasedRun] = []

    def leased() -> bool:
        taken.extend(client.lease(queue, worker_id="e2e", visibility_seconds=300.0, wait_seconds=5.0))
        return bool(taken)

    stack.until(leased)
    client.heartbeat(taken[0].run_id, taken[0].lease_token)
    return taken[0]


def marks(answer: dict[str, Any]) -> list[bool]:
    return [condition["holds"] for condition in answer["conditions"]]


def test_ran(stack: Any, client: horolog.Client, name: str) -> None:
    client.create_job(name, job_id=name, queue=name, delay_seconds=0)
    run = take(stack, client, name)
    client.complete(run.run_id, run.lease_token, result={"done": True})

    # Proofs are looked for in the log for some seconds only; on a slow machine it may take more than one question.
    answers: list[dict[str, Any]] = []

    def proven() -> bool:
        answers.append(stack.explained(run.run_id))
        return all(condition["evidence"] for condition in answers[-1]["conditions"])

    stack.until(proven)
    answer = answers[-1]

    assert answer["situation"] == "ran"
    assert all(marks(answer))
    proofs = {condition["name"]: condition["evidence"] for condition in answer["conditions"]}
    assert {name: proof["eventType"] for name, proof in proofs.items()} == {
        "occurrence_scheduled": "JobDefined",
        "run_opened": "RunOpened",
        "completed": "RunSucceeded",
    }
    assert proofs["occurrence_scheduled"]["offset"] <= proofs["run_opened"]["offset"] < proofs["completed"]["offset"]
    assert proofs["completed"]["topic"].endswith("history")
    assert "attempt 1 completed" in stack.horolog("explain", run.run_id).out


def test_will_run_at(stack: Any, client: horolog.Client, name: str) -> None:
    client.create_job(name, job_id=name, queue=name, cron="0 9 1 1 *", time_zone="America/New_York")

    answer = stack.explained(name)
    words = stack.horolog("explain", name).out

    assert answer["situation"] == "will_run_at"
    assert marks(answer)[-1] is False
    assert answer["conditions"][-1]["name"] == "occurrence_due"
    assert "-01-01 09:00:00-05:00 America/New_York (" in words
    assert words.splitlines()[-2].startswith("will run at: Will run at ")


def test_no_worker_polling(stack: Any, client: horolog.Client, name: str) -> None:
    client.create_job(name, job_id=name, queue=name, delay_seconds=0)
    stack.until(lambda: stack.explained(name)["situation"] == "no_worker_polling")

    answer = stack.explained(name)
    said = stack.horolog("explain", name)

    assert answer["conditions"][-1]["name"] == "worker_polling"
    assert f"No worker polls queue '{name}'" in answer["summary"]
    assert "horolog worker run" in said.out


def test_skipped_by_overlap(stack: Any, client: horolog.Client, name: str) -> None:
    client.create_job(name, job_id=name, queue=name, every="1s", overlap="skip")
    run = take(stack, client, name)  # and keep it: what falls due meanwhile is skipped
    assert run.scheduled_for is not None
    skipped = (run.scheduled_for + dt.timedelta(seconds=1)).isoformat()
    stack.until(lambda: stack.explained(name, "--at", skipped)["situation"] not in {"will_run_at", "not_scheduled"})

    answer = stack.explained(name, "--at", skipped)
    client.delete_job(name)
    client.complete(run.run_id, run.lease_token)

    assert answer["situation"] == "skipped_overlap"
    assert answer["conditions"][-1]["holds"] is False
    assert run.run_id in answer["summary"]


def test_waiting_for_retry(stack: Any, client: horolog.Client, name: str) -> None:
    retry = {"maxAttempts": 3, "backoff": "fixed", "baseSeconds": 600}
    client.create_job(name, job_id=name, queue=name, delay_seconds=0, retry=retry)
    run = take(stack, client, name)
    client.fail(run.run_id, run.lease_token, error="the disk is full")

    answer = stack.explained(name)
    said = stack.horolog("explain", name)

    assert answer["situation"] == "waiting_for_retry"
    assert "the disk is full" in answer["conditions"][-1]["detail"]
    assert "attempt 2 starts by" in answer["summary"]
    assert f"horolog runs show {run.run_id}" in said.out
