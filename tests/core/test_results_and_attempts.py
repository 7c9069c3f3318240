"""What the state remembers of what workers say: results and failed attempts, bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.apply_run import ATTEMPT_BYTES
from streams.core.commands import Complete, Trigger
from streams.core.definition import Retry
from streams.core.state import ATTEMPTS_BYTES_MAX, ATTEMPTS_KEPT_MAX, ERROR_CHARS_MAX, RESULT_KEPT_BYTES_MAX
from streams.core.time import OneOffSpec
from streams.core.wire import decode_state, encode_state

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
AT_ONCE = Retry(max_attempts=50, backoff="fixed", delay_ms=0)


def complete(owner: ManualOwner, result: bytes) -> None:
    grant = owner.grant()
    owner.do(Complete(job_id="job", run_id=grant.run_id, lease_token=grant.lease_token, result=result))


def test_a_small_result_stays_with_the_closed_run(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    complete(owner, b"x" * RESULT_KEPT_BYTES_MAX)
    (closed,) = owner.state.closed
    assert (closed.result, closed.result_dropped) == (b"x" * RESULT_KEPT_BYTES_MAX, False)
    assert decode_state(encode_state(owner.state)) == owner.state


def test_a_large_result_stands_in_history_only(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    complete(owner, b"x" * (RESULT_KEPT_BYTES_MAX + 1))
    (closed,) = owner.state.closed
    assert (closed.result, closed.result_dropped) == (b"", True)


def test_failed_and_expired_attempts_are_remembered_over_the_runs_end(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), retry=AT_ONCE)
    owner.run_until(AT)
    owner.fail(owner.grant(worker_id="w1"), error="boom")
    owner.heartbeat(owner.grant(worker_id="w2"))
    owner.now_ms += 60_000
    owner.wake()
    told = [(1, "w1", "failed", "boom"), (2, "w2", "expired", "")]
    (run,) = owner.state.open
    assert [(item.attempt, item.worker_id, item.end, item.error) for item in run.attempts] == told
    complete(owner, b"1")
    (closed,) = owner.state.closed
    assert [(item.attempt, item.worker_id, item.end, item.error) for item in closed.attempts] == told
    assert decode_state(encode_state(owner.state)) == owner.state


def test_a_run_remembers_its_last_attempts(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), retry=AT_ONCE)
    owner.run_until(AT)
    for number in range(ATTEMPTS_KEPT_MAX + 2):
        owner.fail(owner.grant(), error=str(number))
    (run,) = owner.state.open
    assert [item.error for item in run.attempts] == [str(n) for n in range(2, ATTEMPTS_KEPT_MAX + 2)]


def test_attempts_of_all_runs_are_bounded_and_the_ended_runs_forget_first(owner: ManualOwner) -> None:
    owner.define(overlap="allow", retry=AT_ONCE)
    error = "é" * ERROR_CHARS_MAX
    ids = [f"t{number}" for number in range(6)]
    for name in ids:
        owner.do(Trigger(job_id="job", trigger_id=name))
    for name in ids:
        for _ in range(5):
            owner.fail(owner.grant(f"run_job_{name}"), error=error)
        if name == "t0":
            owner.fail(owner.grant("run_job_t0"), error=error, retryable=False)
    size = ATTEMPT_BYTES + 1 + 2 * ERROR_CHARS_MAX
    known = {run.run_id: len(run.attempts) for run in owner.state.dead}
    known |= {run.run_id: len(run.attempts) for run in owner.state.open}
    assert sum(known.values()) * size <= ATTEMPTS_BYTES_MAX
    assert known["run_job_t0"] == 0
    assert known["run_job_t5"] == 5
