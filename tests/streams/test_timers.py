"""Deadlines of a partition against a model: none early, none missed, however the due index is read in parts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streams.timers
from streams.store.interface import LedgerChange, StoreIdentity
from streams.store.memory import MemoryStore
from streams.timers import Timers

START_MS = 1_000_000
HORIZON_MS = 30_000
LOOKAHEAD_MS = 2_000


class Partition:
    """A store with its due index, and the timers that follow it, as the shard keeps them together."""

    def __init__(self) -> None:
        self.store = MemoryStore(StoreIdentity(cluster_id="c", topic_id="t", partition=0))
        self.timers = Timers(self.store, START_MS, horizon_ms=HORIZON_MS, lookahead_ms=LOOKAHEAD_MS)
        self.model: dict[str, int] = {}
        self.now_ms = START_MS
        self._offset = 0

    def write(self, job_id: str, deadline_ms: int | None, tenant: str = "a") -> None:
        """Put an entry into the due index only, as recovery does."""
        self._offset += 1
        state = None if deadline_ms is None else b"s"
        change = LedgerChange(job_id, state=state, deadline_ms=deadline_ms, tenant=tenant)
        self.store.apply([change], ledger_offset=self._offset, now_ms=0)
        if deadline_ms is None:
            self.model.pop(job_id, None)
        else:
            self.model[job_id] = deadline_ms

    def commit(self, job_id: str, deadline_ms: int | None, tenant: str = "a") -> None:
        """A decision of the living owner: the store, then the timers."""
        self.write(job_id, deadline_ms, tenant)
        self.timers.settle(job_id, tenant, deadline_ms, deadline_ms)

    def at(self, now_ms: int) -> list[str]:
        """Let time pass; return all that is due, as the loop would take it in its turns."""
        self.now_ms = now_ms
        due: list[str] = []
        more = True
        while more:
            self.timers.expire(now_ms)
            more = self.timers.fill()
            self.timers.expire(now_ms)
            due += self.timers.take(1_000)
        return due


@pytest.fixture
def partition() -> Partition:
    return Partition()


@pytest.fixture
def small_fill(monkeypatch: pytest.MonkeyPatch) -> int:
    """Read the due index three entries at a time."""
    monkeypatch.setattr(streams.timers, "FILL_MAX", 3)
    return 3


def test_a_deadline_goes_off_at_its_time_and_not_before(partition: Partition) -> None:
    partition.commit("j", START_MS + 500)
    assert partition.at(START_MS + 499) == []
    assert partition.at(START_MS + 500) == ["j"]
    assert partition.at(START_MS + 501) == []


def test_a_deadline_beyond_the_horizon_is_found_when_its_time_comes_near(partition: Partition) -> None:
    partition.commit("j", START_MS + 2 * HORIZON_MS)
    partition.at(START_MS)
    assert partition.timers.next_at_ms() is None
    partition.at(START_MS + HORIZON_MS + 1)
    assert partition.timers.next_at_ms() is not None
    assert partition.at(START_MS + 2 * HORIZON_MS) == ["j"]


def test_a_deadline_that_passed_during_a_pause_longer_than_the_horizon_is_found_at_once(partition: Partition) -> None:
    partition.at(START_MS)
    partition.commit("j", START_MS + HORIZON_MS + 5)
    assert partition.at(START_MS + 10 * HORIZON_MS) == ["j"]


def test_many_entries_of_one_deadline_are_read_in_parts(partition: Partition, small_fill: int) -> None:
    jobs = [f"j{number}" for number in range(small_fill * 3)]
    for job_id in jobs:
        partition.write(job_id, START_MS + 100)
    reads = 1
    while partition.timers.fill():
        reads += 1
    assert reads == 4
    assert sorted(partition.at(START_MS + 100)) == jobs


def test_entries_committed_around_the_cursor_of_a_half_read_deadline_are_not_missed(
    partition: Partition, small_fill: int
) -> None:
    due_ms = START_MS + 100
    for job_id in ("b", "d", "f", "h", "j"):
        partition.write(job_id, due_ms)
    assert partition.timers.fill()
    assert small_fill == 3
    partition.commit("a", due_ms)  # behind the cursor, which stands at f
    partition.commit("e", due_ms)
    partition.commit("g", due_ms)  # in front of it
    partition.commit("z", due_ms - 1)
    partition.commit("y", due_ms + 1)
    assert partition.at(due_ms - 1) == ["z"]
    assert sorted(partition.at(due_ms)) == ["a", "b", "d", "e", "f", "g", "h", "j"]
    assert partition.at(due_ms + 1) == ["y"]


def test_a_moved_deadline_goes_off_at_the_new_time_only(partition: Partition) -> None:
    partition.commit("j", START_MS + 100)
    partition.commit("j", START_MS + 900)
    assert partition.at(START_MS + 899) == []
    assert partition.at(START_MS + 900) == ["j"]


def test_a_job_without_a_deadline_is_forgotten(partition: Partition) -> None:
    partition.commit("j", START_MS + 100)
    partition.commit("j", None)
    assert partition.at(START_MS + 1_000) == []
    assert partition.timers._tenants == {}


def test_the_look_ahead_comes_two_seconds_before_the_deadline(partition: Partition) -> None:
    partition.commit("j", START_MS + 10_000)
    partition.at(START_MS)
    assert partition.timers.coming(START_MS + 7_999) == []
    assert partition.timers.coming(START_MS + 8_000) == ["j"]
    assert partition.timers.coming(START_MS + 8_001) == []


def test_a_soft_wake_beyond_the_horizon_comes_at_its_end_at_the_latest(partition: Partition) -> None:
    partition.timers.look_again("j", "a", START_MS + 10 * HORIZON_MS)
    assert partition.at(START_MS + HORIZON_MS - 1) == []
    assert partition.at(START_MS + HORIZON_MS) == ["j"]


def test_a_wake_by_a_time_never_puts_a_deadline_off(partition: Partition) -> None:
    partition.at(START_MS)
    partition.commit("early", START_MS + 100)
    partition.timers.wake_by("early", "a", START_MS + 500)
    partition.commit("late", START_MS + 900)
    partition.timers.wake_by("late", "a", START_MS + 500)
    assert partition.at(START_MS + 100) == ["early"]
    assert partition.at(START_MS + 500) == ["late"]


def test_tenants_take_turns(partition: Partition) -> None:
    for number in range(5):
        partition.commit(f"a{number}", START_MS + number, tenant="a")
    partition.commit("b0", START_MS + 50, tenant="b")
    partition.commit("c0", START_MS + 50, tenant="c")
    partition.timers.fill()
    partition.timers.expire(START_MS + 100)
    assert partition.timers.take(4) == ["a0", "b0", "c0", "a1"]
    assert partition.timers.backlog == 3
    assert partition.timers.next_at_ms() == 0


def test_jobs_of_an_aborted_batch_are_taken_again(partition: Partition) -> None:
    partition.commit("j", START_MS + 1)
    taken = partition.at(START_MS + 1)
    partition.timers.restore(taken)
    partition.timers.restore(taken)
    assert partition.timers.take(10) == ["j"]
    assert partition.timers.take(10) == []


def test_after_a_rewind_everything_is_read_anew(partition: Partition) -> None:
    partition.commit("near", START_MS + 20_000)
    partition.commit("far", START_MS + 45_000)
    partition.at(START_MS + 18_500)
    partition.timers.rewind(START_MS - 60_000)
    assert partition.at(START_MS + 19_999) == []
    assert partition.at(START_MS + 20_000) == ["near"]
    assert partition.at(START_MS + 45_000) == ["far"]


STEP = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 25), st.integers(-5, 80)),
    st.tuples(st.just("drop"), st.integers(0, 25), st.just(0)),
    st.tuples(st.just("fill"), st.just(0), st.just(0)),
    st.tuples(st.just("pass"), st.just(0), st.integers(0, 12)),
    st.tuples(st.just("rewind"), st.just(0), st.integers(0, 20)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(st.integers(0, 40), max_size=25), steps=st.lists(STEP, max_size=60))
def test_against_a_model_nothing_is_early_late_or_missed(
    before: list[int], steps: list[tuple[str, int, int]], small_fill: int
) -> None:
    """Times are in thirds of the horizon, so that entries fall on both sides of it; deadlines collide on purpose."""
    assert small_fill == 3
    grain_ms = HORIZON_MS // 15
    partition = Partition()
    for number, at in enumerate(before):
        partition.write(f"j{number}", START_MS + at * grain_ms)
    for step, job, amount in steps:
        if step == "commit":
            partition.commit(f"j{job}", partition.now_ms + amount * grain_ms)
        elif step == "drop":
            partition.commit(f"j{job}", None)
        elif step == "fill":
            partition.timers.fill()
        elif step == "rewind":
            partition.now_ms -= amount * grain_ms
            partition.timers.rewind(partition.now_ms)
        else:
            check(partition, partition.now_ms + amount * grain_ms)
    check(partition, partition.now_ms + 100 * HORIZON_MS)
    assert partition.model == {}


def check(partition: Partition, now_ms: int) -> None:
    """Exactly what the model has due goes off; each is then decided and has no deadline any more."""
    due = partition.at(now_ms)
    expected = {job_id for job_id, deadline_ms in partition.model.items() if deadline_ms <= now_ms}
    known: Any = set(due) & partition.model.keys()
    assert known == expected
    for job_id in due:
        partition.commit(job_id, None)
