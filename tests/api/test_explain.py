"""Explanations, of jobs whose states come from the core's own decisions."""

from __future__ import annotations

from typing import Any

import pytest

import streams.core.decide_due
from api.explain import NO_BOUNDS, KeyRoom, QueueRoom, Rooms, asks_of_past, explain
from api.polling import NOBODY, Polling
from api.queries import MemoryQueries
from streams.core.commands import Complete, Define, Delete, Fail, LeaseRun, Pause
from streams.core.definition import Definition, Overlap, Retry
from streams.core.envelopes import Cause, HistoryEntry
from streams.core.manual import ManualOwner
from streams.core.time import IntervalSpec, Occurrence

NOON = 1_800_014_400_000
MINUTE = 60_000
NOWHERE: dict[str, Any] = {
    "job_id": "job",
    "partition": 3,
    "generation": 1,
    "member_id": "m",
    "transactional_id": "t",
}


def owner_of(*, overlap: Overlap = "skip", retry: Retry = Retry(), **more: Any) -> ManualOwner:  # noqa: B008 - frozen
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
        **more,
    )
    owner.do(Define(job_id="job", definition=definition, request_hash="h"))
    return owner


def explained(
    owner: ManualOwner, at_ms: int | None = None, polling: Polling = NOBODY, rooms: Rooms = NO_BOUNDS
) -> dict[str, Any]:
    assert owner.job is not None
    answer = explain(owner.job, at_ms, polling, owner.now_ms, rooms=rooms).answer
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
    assert explained(owner, polling=Polling(3, 0, 1))["situation"] == "waiting_for_slot"


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
def test_a_job_that_the_rate_guard_holds_says_so_and_what_to_do(
    at_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_soon(_definition: object, _context: object, at_ms: int) -> Occurrence:
        return Occurrence(at_ms + 10, at_ms + 10)

    owner = owner_of(overlap="allow")
    monkeypatch.setattr(streams.core.decide_due, "next_after", too_soon)
    owner.run_until(NOON + MINUTE + 3_000)
    answer = explained(owner, at_ms)
    assert (answer["situation"], first_failing(answer)) == ("paused", "job_not_paused")
    detail = answer["conditions"][-1]["detail"]
    assert detail.startswith("paused by system:rate_guard at ")
    assert "then resume the job" in detail


@pytest.mark.parametrize("at_ms", [None, NOON])
def test_conditions_come_in_the_order_in_which_they_decide(at_ms: int | None) -> None:
    answer = explained(owner_of(), at_ms)
    assert [condition["holds"] for condition in answer["conditions"]][:-1] == [True] * (len(answer["conditions"]) - 1)


def history_of(owner: ManualOwner) -> MemoryQueries:
    """Give an owner's answers, with every event of the job in an entry of its own."""
    queries = MemoryQueries({}, lambda _: 3)
    queries.history = [
        ("job", HistoryEntry(**NOWHERE, seq=number, now_ms=0, cause=Cause(kind="timer", name="Wake"), events=(event,)))
        for number, event in enumerate(owner.log)
    ]
    return queries


async def proven(owner: ManualOwner, at_ms: int | None = None) -> dict[str, Any]:
    assert owner.job is not None
    queries = history_of(owner)
    record = await queries.evidence("job", asks_of_past(owner.job, at_ms))
    found = explain(owner.job, at_ms, NOBODY, owner.now_ms, record)
    return found.proven(await queries.evidence("job", [ask for ask in found.asks if ask is not None]))


def evidence(owner: ManualOwner, answer: dict[str, Any]) -> dict[str, str]:
    """Give condition to the event that proves it, which must be the one at that offset."""
    told: dict[str, str] = {}
    for condition in answer["conditions"]:
        proof = condition["evidence"]
        if proof is not None:
            assert (proof["topic"], proof["partition"]) == ("history", 3)
            assert type(owner.log[proof["offset"]]).__name__ == proof["eventType"]
            told[condition["name"]] = proof["eventType"]
    return told


async def test_each_condition_of_a_run_that_ran_names_its_record() -> None:
    owner = owner_of()
    run_id = open_run(owner)
    lease(owner, run_id)
    assert evidence(owner, await proven(owner)) == {
        "occurrence_scheduled": "JobDefined",
        "run_opened": "RunOpened",
        "leased": "LeaseGranted",
    }
    owner.do(Complete(job_id="job", run_id=run_id, lease_token=1))
    assert evidence(owner, await proven(owner, NOON + MINUTE)) == {
        "occurrence_scheduled": "JobDefined",
        "run_opened": "RunOpened",
        "completed": "RunSucceeded",
    }


async def test_a_failed_attempt_and_a_pause_are_proven() -> None:
    owner = owner_of(retry=Retry(backoff="fixed", delay_ms=5_000))
    run_id = open_run(owner)
    lease(owner, run_id)
    owner.do(Fail(job_id="job", run_id=run_id, lease_token=1, error="boom"))
    assert evidence(owner, await proven(owner))["retry_due"] == "RunFailed"
    owner.do(Pause(job_id="job", actor="ann"))
    assert evidence(owner, await proven(owner))["job_not_paused"] == "JobPaused"


async def test_evidence_is_of_the_right_run() -> None:
    owner = owner_of(overlap="allow")
    for minute in (1, 2):
        owner.run_until(NOON + minute * MINUTE)
        lease(owner, owner.state.open[0].run_id)
        owner.do(Complete(job_id="job", run_id=owner.state.open[0].run_id, lease_token=minute))
    answer = await proven(owner, NOON + 2 * MINUTE)
    offset = answer["conditions"][-1]["evidence"]["offset"]
    assert getattr(owner.log[offset], "run_id", "") == answer["runId"]


async def test_history_tells_what_the_state_has_forgotten() -> None:
    owner = owner_of(overlap="allow")
    for minute in range(1, 20):
        owner.run_until(NOON + minute * MINUTE)
        for run in owner.state.open:
            lease(owner, run.run_id)
            owner.do(Complete(job_id="job", run_id=run.run_id, lease_token=owner.state.lease_token_last))
    answer = await proven(owner, NOON + MINUTE)
    assert (answer["situation"], evidence(owner, answer)) == (
        "ran",
        {"run_opened": "RunOpened", "completed": "RunSucceeded"},
    )
    assert (await proven(owner, NOON + MINUTE + 1))["situation"] == "not_scheduled"


async def test_a_skip_is_proven_by_the_range_that_covers_it() -> None:
    owner = owner_of()
    run_id = open_run(owner)
    lease(owner, run_id)
    owner.run_until(NOON + 3 * MINUTE)
    answer = await proven(owner, NOON + 3 * MINUTE)
    assert (answer["situation"], evidence(owner, answer)) == (
        "skipped_overlap",
        {"overlap_allows": "OccurrencesSkipped"},
    )
    assert run_id in answer["summary"]


async def test_a_deleted_job_names_its_deletion() -> None:
    owner = owner_of()
    owner.do(Delete(job_id="job"))
    answer = await proven(owner)
    assert (answer["situation"], evidence(owner, answer)) == ("job_deleted", {"job_exists": "JobDeleted"})


@pytest.mark.parametrize(
    ("units", "limit", "failing", "situation"),
    [
        (0, 2, "concurrency_key_allows", "waiting_for_concurrency_key"),
        (3, 5, "concurrency_key_free", "waiting_for_concurrency_key"),
        (2, 5, "worker_polling", "no_worker_polling"),
    ],
)
def test_a_run_may_wait_for_its_concurrency_key(units: int, limit: int, failing: str, situation: str) -> None:
    owner = owner_of(concurrency_key="k", concurrency_weight=3)
    owner.now_ms = NOON + MINUTE
    owner.wake()
    answer = explained(owner, rooms=Rooms(key=KeyRoom("k", limit, units)))
    assert (first_failing(answer), answer["situation"]) == (failing, situation)
    assert ("Never starts" in answer["summary"]) == (limit < 3)


@pytest.mark.parametrize(
    ("room", "failing", "situation", "said"),
    [
        ((5, 5, None), "queue_not_full", "waiting_for_queue_limit", "running runs take 5 of 5 of queue 'q'"),
        ((5, 7, 0.0), "queue_not_full", "waiting_for_queue_limit", "take 7 of 5"),  # it was lowered
        ((0, 0, None), "queue_not_full", "waiting_for_queue_limit", "with maxRunning 0 none starts"),
        ((5, 4, 0.0), "lease_rate_allows", "waiting_for_queue_limit", "maxLeaseRatePerSecond"),
        ((None, 0, 0.0), "lease_rate_allows", "waiting_for_queue_limit", "maxLeaseRatePerSecond"),
        ((5, 4, 2.0), "slot_free", "waiting_for_slot", "free slot"),
        ((None, 9, None), "slot_free", "waiting_for_slot", "free slot"),
    ],
)
def test_a_run_may_wait_for_the_limits_of_its_queue(
    room: tuple[int | None, int, float | None], failing: str, situation: str, said: str
) -> None:
    owner = owner_of()
    owner.now_ms = NOON + MINUTE
    owner.wake()
    answer = explained(owner, polling=Polling(3, 0, 1), rooms=Rooms(QueueRoom("q", *room)))
    assert (first_failing(answer), answer["situation"]) == (failing, situation)
    assert said in answer["summary"]


@pytest.mark.parametrize(
    ("heaviest", "units", "situation"),
    [
        (3, 3, "waiting_for_concurrency_key"),
        (3, 2, "waiting_for_slot"),  # the heavy one has room: it goes, and then this one
        (1, 4, "waiting_for_slot"),
        (0, 0, "waiting_for_slot"),
    ],
)
def test_a_light_run_may_wait_behind_a_heavier_one_of_its_key(heaviest: int, units: int, situation: str) -> None:
    owner = owner_of(concurrency_key="k", concurrency_weight=1)
    owner.now_ms = NOON + MINUTE
    owner.wake()
    rooms = Rooms(key=KeyRoom("k", 5, units, heaviest))
    answer = explained(owner, polling=Polling(3, 2, 1), rooms=rooms)
    assert answer["situation"] == situation
    blocked = situation == "waiting_for_concurrency_key"
    assert first_failing(answer) == ("concurrency_key_turn" if blocked else None)


def test_the_key_is_the_reason_where_workers_wait_and_another_is_where_they_do_not() -> None:
    owner = owner_of(concurrency_key="k", concurrency_weight=1)
    owner.now_ms = NOON + MINUTE
    owner.wake()
    for polling, situation in ((NOBODY, "no_worker_polling"), (Polling(1, 0, 1), "waiting_for_slot")):
        answer = explained(owner, polling=polling, rooms=Rooms(QueueRoom("q", 9), KeyRoom("k", 5, 3, 3)))
        assert answer["situation"] == situation
    names = [condition["name"] for condition in answer["conditions"]]
    assert names.index("queue_not_full") < names.index("concurrency_key_free") < names.index("worker_polling")
