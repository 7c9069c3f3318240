from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.core.commands import Trigger
from streams.core.decide_attempt import BACKOFF_CEILING_MS, BACKOFF_FLOOR_MS, backoff_ms
from streams.core.definition import Retry
from streams.core.events import RunFailed
from streams.core.state import DEAD_RUNS_MAX, ERROR_CHARS_MAX
from streams.core.time import OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def due(owner: ManualOwner, **fields: object) -> ManualOwner:
    owner.define(schedule=OneOffSpec(AT), **fields)
    owner.run_until(AT)
    return owner


def test_a_failed_attempt_is_retried_within_the_jitter_window(owner: ManualOwner) -> None:
    due(owner)

    reply = owner.fail(owner.grant())

    assert reply.next_at_ms is not None
    assert AT + 1_000 <= reply.next_at_ms <= AT + 2_000
    assert owner.state.open[0].due_at_ms == reply.next_at_ms


def test_a_retry_is_never_leased_before_its_due_time(owner: ManualOwner) -> None:
    due(owner)
    owner.fail(owner.grant())
    due_at_ms = owner.state.open[0].due_at_ms

    owner.now_ms = due_at_ms - 1
    assert owner.lease().park_until_ms == due_at_ms
    owner.now_ms = due_at_ms
    assert owner.grant().attempt == 2


def test_a_run_dies_after_its_last_attempt_and_not_before(owner: ManualOwner) -> None:
    due(owner, retry=Retry(max_attempts=3))
    for _ in range(2):
        owner.fail(owner.grant())
        owner.now_ms += HOUR
    assert not owner.state.dead

    reply = owner.fail(owner.grant())

    assert reply.outcome == "dead"
    assert (owner.state.dead[-1].attempt, owner.state.dead[-1].reason) == (3, "max_attempts")


def test_a_failure_that_is_not_retryable_is_dead_at_once(owner: ManualOwner) -> None:
    due(owner)

    owner.fail(owner.grant(), retryable=False)

    assert owner.state.dead[-1].reason == "not_retryable"


def test_backoff_none_is_dead_at_the_first_failure(owner: ManualOwner) -> None:
    due(owner, retry=Retry(backoff="none"))

    owner.fail(owner.grant())

    assert owner.state.dead[-1].reason == "no_retry"


def test_backoff_fixed_waits_just_that_long(owner: ManualOwner) -> None:
    due(owner, retry=Retry(backoff="fixed", delay_ms=7_000))

    assert owner.fail(owner.grant()).next_at_ms == AT + 7_000


def test_a_one_off_that_dies_finishes_its_job(owner: ManualOwner) -> None:
    due(owner)

    owner.fail(owner.grant(), retryable=False)

    assert owner.names()[-2:] == ["RunDied", "JobFinished"]


def test_a_repeated_failure_of_a_dead_run_is_answered_alike(owner: ManualOwner) -> None:
    due(owner)
    grant = owner.grant()
    owner.fail(grant, retryable=False)

    reply = owner.fail(grant, retryable=False)

    assert (reply.code, reply.outcome, reply.replayed) == ("ok", "dead", True)


def test_the_jitter_comes_from_run_and_attempt_alone() -> None:
    retry = Retry()

    assert backoff_ms(retry, "run_a_x", 3) == backoff_ms(retry, "run_a_x", 3)
    assert len({backoff_ms(retry, f"run_a_{number}", 5) for number in range(50)}) > 40


@given(attempt=st.integers(1, 100), run=st.text(min_size=1, max_size=20))
def test_exponential_backoff_stays_within_a_second_and_its_ceiling(attempt: int, run: str) -> None:
    wait_ms = backoff_ms(Retry(), run, attempt)

    assert BACKOFF_FLOOR_MS <= wait_ms <= min(BACKOFF_CEILING_MS, 1_000 * 2**attempt)


@pytest.mark.parametrize(("attempt", "ceiling_ms"), [(1, 2_000), (9, 512_000), (10, 600_000), (100, 600_000)])
def test_exponential_backoff_uses_its_whole_window(attempt: int, ceiling_ms: int) -> None:
    waits = [backoff_ms(Retry(), f"run_{number}", attempt) for number in range(2_000)]

    assert min(waits) < BACKOFF_FLOOR_MS + (ceiling_ms - BACKOFF_FLOOR_MS) // 50
    assert max(waits) > ceiling_ms - (ceiling_ms - BACKOFF_FLOOR_MS) // 50


def test_the_delay_is_the_floor_of_exponential_backoff() -> None:
    assert backoff_ms(Retry(delay_ms=60_000), "run", 1) == 60_000


def test_an_error_text_is_cut_in_the_state_and_longer_in_the_event(owner: ManualOwner) -> None:
    due(owner)

    owner.fail(owner.grant(), error="x" * 10_000)

    event = next(event for event in owner.log if isinstance(event, RunFailed))
    assert len(owner.state.open[0].error) == ERROR_CHARS_MAX
    assert len(event.error) == 4_096


def test_only_the_newest_dead_runs_are_kept(owner: ManualOwner) -> None:
    owner.define()
    for _ in range(DEAD_RUNS_MAX + 1):
        owner.run_until(owner.state.next_at_ms or 0)
        owner.fail(owner.grant(), retryable=False)

    assert len(owner.state.dead) == DEAD_RUNS_MAX
    assert owner.state.dead[0].scheduled_at_ms == AT + HOUR


def test_a_closed_succeeded_run_keeps_neither_error_nor_payload(owner: ManualOwner) -> None:
    owner.define()
    owner.reply(Trigger(job_id="job", trigger_id="t", payload=b"x" * 1_000))
    owner.fail(owner.grant(), error="long " * 200)
    owner.now_ms += 700_000
    owner.complete(owner.grant())

    closed = owner.state.closed[-1]
    assert (closed.outcome, closed.error, closed.reason, closed.payload) == ("succeeded", "", "", None)
