"""Explanations, of jobs whose states come from the core's own decisions."""

from __future__ import annotations

from typing import Any

import pytest

from api.explain import Polling, explain
from streams.core.commands import Complete, Define, Fail, LeaseRun, Pause
from streams.core.definition import Definition, Overlap, Retry
from streams.core.manual import ManualOwner
from streams.core.time import IntervalSpec

NOON = 1_800_014_400_000
MINUTE = 60_000
NOBODY = Polling(0, 0)


def owner_of(*, overlap: Overlap = "skip", retry: Retry = Retry()) -> ManualOwner:  # noqa: B008 - frozen
    owner = ManualOwner(now_ms=NOON)
    definition = Definition(
        job_id="job",
        tenant="t",
        queue="q",
        name="n",
        task="n",
        schedule=IntervalSpec(every_ms=MINUTE, anchor_ms=NOON + MINUTE),
        overlap=overlap,
        retry=retry,
    )
    owner.do(Define(job_id="job", definition=definition, request_hash="h"))
    return owner


def explained(owner: ManualOwner, at_ms: int | None = None, polling: Polling = NOBODY) -> dict[str, Any]:
    assert owner.job is not None
    answer = explain(owner.job, at_ms, polling, owner.now_ms)
    assert answer["summary"]
    assert all(condition["detail"] for condition in answer["conditions"])
    return answer


def lease(owner: ManualOwner, run_id: str) -> Any:
    command = LeaseRun(job_id="job", run_id=run_id, worker_id="w1", gateway_id="g", valid_until_ms=owner.now_ms + 1)
    return owner.do(command).reply


def first_failing(answer: dict[str, Any]) -> str | None:
    return next((condition["name"] for condition in answer["conditions"] if not condition["holds"]), None)


def open_run(owner: ManualOwner) -> str:
    owner.run_until(NOON + MINUTE)
    assert owner.job is not None
    run_id: str = owner.job.state.open[0].run_id
    return run_id


def test_a_coming_occurrence_will_run_at_its_instant() -> None:
    answer = explained(owner_of())
    assert (answer["situation"], first_failing(answer)) == ("will_run_at", "occurrence_due")
    assert answer["runId"].startswith("run_job_")


def test_an_instant_that_the_schedule_does_not_have_is_not_scheduled() -> None:
    assert explained(owner_of(), NOON + 1)["situation"] == "not_scheduled"
    assert explained(owner_of(), NOON + 5 * MINUTE)["situation"] == "not_scheduled"


def test_a_ready_run_without_a_worker_says_so() -> None:
    owner = owner_of()
    open_run(owner)
    answer = explained(owner)
    assert (answer["situation"], first_failing(answer)) == ("no_worker_polling", "worker_polling")
    details = {condition["name"]: condition["detail"] for condition in answer["conditions"]}
    assert details["not_held"] == "no run before it has to end first"


def test_a_ready_run_with_busy_workers_waits_for_a_slot() -> None:
    owner = owner_of()
    open_run(owner)
    assert explained(owner, polling=Polling(3, 0))["situation"] == "waiting_for_slot"


def test_a_leased_run_is_running_and_names_its_worker() -> None:
    owner = owner_of()
    lease(owner, open_run(owner))
    answer = explained(owner)
    assert answer["situation"] == "running"
    assert "w1" in answer["summary"]


def test_a_completed_run_ran() -> None:
    owner = owner_of()
    run_id = open_run(owner)
    lease(owner, run_id)
    owner.do(Complete(job_id="job", run_id=run_id, lease_token=1))
    assert explained(owner, NOON + MINUTE)["situation"] == "ran"


def test_a_failed_run_waits_for_its_retry() -> None:
    owner = owner_of(retry=Retry(backoff="fixed", delay_ms=5_000))
    run_id = open_run(owner)
    lease(owner, run_id)
    owner.do(Fail(job_id="job", run_id=run_id, lease_token=1, error="boom"))
    answer = explained(owner)
    assert (answer["situation"], first_failing(answer)) == ("waiting_for_retry", "retry_due")
    assert "Attempt 1 failed; attempt 2" in answer["summary"]


def test_a_run_out_of_attempts_is_dead() -> None:
    owner = owner_of(retry=Retry(max_attempts=1))
    run_id = open_run(owner)
    lease(owner, run_id)
    owner.do(Fail(job_id="job", run_id=run_id, lease_token=1, error="boom"))
    assert explained(owner, NOON + MINUTE)["situation"] == "dead"


def test_an_occurrence_behind_an_open_run_was_skipped_by_overlap() -> None:
    owner = owner_of()
    run_id = open_run(owner)
    lease(owner, run_id)
    owner.run_until(NOON + 2 * MINUTE)
    answer = explained(owner, NOON + 2 * MINUTE)
    assert (answer["situation"], first_failing(answer)) == ("skipped_overlap", "overlap_allows")
    assert run_id in answer["summary"]


def test_an_occurrence_whose_record_is_gone_points_to_history() -> None:
    owner = owner_of(overlap="allow")
    for minute in range(1, 20):
        owner.run_until(NOON + minute * MINUTE)
        assert owner.job is not None
        for run in owner.job.state.open:
            lease(owner, run.run_id)
            token = owner.job.state.lease_token_last
            owner.do(Complete(job_id="job", run_id=run.run_id, lease_token=token))
    assert explained(owner, NOON + MINUTE)["situation"] == "not_remembered"


def test_a_paused_job_says_who_paused_it() -> None:
    owner = owner_of()
    owner.do(Pause(job_id="job", actor="ann"))
    answer = explained(owner)
    assert (answer["situation"], first_failing(answer)) == ("paused", "job_not_paused")
    assert "ann" in answer["conditions"][-1]["detail"]


@pytest.mark.parametrize("at_ms", [None, NOON])
def test_conditions_come_in_the_order_in_which_they_decide(at_ms: int | None) -> None:
    answer = explained(owner_of(), at_ms)
    assert [condition["holds"] for condition in answer["conditions"]][:-1] == [True] * (len(answer["conditions"]) - 1)
