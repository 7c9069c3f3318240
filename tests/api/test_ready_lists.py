from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from api.dispatch import ready_lists
from api.dispatch.ready_lists import OFFER_TTL_MS, ReadyQueue
from streams.core.envelopes import Offer

if TYPE_CHECKING:
    import pytest

NOW = 1_800_000_000_000


def offer(run: str, due_at_ms: int = NOW, lane: str = "normal", version: int = 1) -> Offer:
    return Offer(run_id=run, job_id="j", tenant="t", queue="q", lane=lane, due_at_ms=due_at_ms, job_version=version)


def runs(taken: list[tuple[Offer, int]]) -> list[str]:
    return [item.run_id for item, _ in taken]


def test_due_runs_come_oldest_first_with_their_partition() -> None:
    queue = ReadyQueue()
    queue.add(offer("b", NOW - 1), 3, NOW)
    queue.add(offer("a", NOW - 2), 5, NOW)
    taken = queue.pop_due(10, NOW)
    assert [(item.run_id, partition) for item, partition in taken] == [("a", 5), ("b", 3)]
    assert len(queue) == 0


def test_lanes_are_popped_70_20_10() -> None:
    queue = ReadyQueue()
    for lane in ("high", "normal", "low"):
        for number in range(100):
            queue.add(offer(f"{lane}-{number}", lane=lane), 0, NOW)
    taken = queue.pop_due(100, NOW)
    assert Counter(item.lane for item, _ in taken) == {"high": 70, "normal": 20, "low": 10}


def test_a_lane_without_due_runs_counts_as_empty() -> None:
    queue = ReadyQueue()
    for number in range(10):
        queue.add(offer(f"h{number}", NOW + 500, lane="high"), 0, NOW)
        queue.add(offer(f"n{number}", lane="normal"), 0, NOW)
    assert {item.lane for item, _ in queue.pop_due(10, NOW)} == {"normal"}


def test_runs_not_yet_due_are_not_popped_as_due() -> None:
    queue = ReadyQueue()
    queue.add(offer("later", NOW + 1), 0, NOW)
    assert queue.pop_due(1, NOW) == []
    assert runs(queue.pop_due(1, NOW + 1)) == ["later"]


def test_runs_ahead_come_soonest_first_and_only_within_the_look_ahead() -> None:
    queue = ReadyQueue()
    queue.add(offer("third", NOW + 300, lane="high"), 0, NOW)
    queue.add(offer("first", NOW + 100, lane="low"), 0, NOW)
    queue.add(offer("second", NOW + 200), 0, NOW)
    queue.add(offer("far", NOW + 2000), 0, NOW)
    assert runs(queue.pop_ahead(10, NOW, 1000)) == ["first", "second", "third"]
    assert queue.next_due_ms(NOW) == NOW + 2000


def test_a_repeated_offer_is_held_once_and_takes_the_newer_version() -> None:
    queue = ReadyQueue()
    queue.add(offer("a", version=1), 0, NOW)
    queue.add(offer("a", version=2), 0, NOW)
    (taken,) = queue.pop_due(10, NOW)
    assert taken[0].job_version == 2


def test_a_repeated_offer_with_another_due_time_moves_the_run() -> None:
    queue = ReadyQueue()
    queue.add(offer("a", NOW), 0, NOW)
    queue.add(offer("a", NOW + 500), 0, NOW)
    assert queue.pop_due(10, NOW) == []
    assert runs(queue.pop_due(10, NOW + 500)) == ["a"]
    assert queue.pop_due(10, NOW + 500) == []


def test_an_offer_is_dropped_three_seconds_past_due_or_receipt_whichever_is_later() -> None:
    due_long_ago = ReadyQueue()
    due_long_ago.add(offer("a", NOW - 60_000), 0, NOW)
    assert runs(due_long_ago.pop_due(1, NOW + OFFER_TTL_MS)) == ["a"]
    due_long_ago.add(offer("a", NOW - 60_000), 0, NOW)
    assert due_long_ago.pop_due(1, NOW + OFFER_TTL_MS + 1) == []
    due_later = ReadyQueue()
    due_later.add(offer("b", NOW + 2000), 0, NOW)
    assert runs(due_later.pop_due(1, NOW + 2000 + OFFER_TTL_MS)) == ["b"]


def test_a_repeat_renews_an_offer() -> None:
    queue = ReadyQueue()
    queue.add(offer("a"), 0, NOW)
    queue.add(offer("a"), 0, NOW + 2000)
    assert runs(queue.pop_due(1, NOW + 4000)) == ["a"]


def test_a_full_lane_refuses_and_other_lanes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_lists, "READY_PER_LANE_MAX", 2)
    queue = ReadyQueue()
    assert [queue.add(offer(run), 0, NOW) for run in "abc"] == [True, True, False]
    assert queue.add(offer("a"), 0, NOW)
    assert queue.add(offer("x", lane="high"), 0, NOW)
    assert queue.counts() == {"high": 1, "normal": 2, "low": 0}


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(-3000, 3000), st.sampled_from(["high", "normal", "low"])), max_size=60
    )
)
def test_each_run_leaves_at_most_once_and_never_early(offers: list[tuple[int, int, str]]) -> None:
    queue = ReadyQueue()
    for number, due_in_ms, lane in offers:
        queue.add(offer(f"{lane}{number}", NOW + due_in_ms, lane), 0, NOW)
    taken: list[str] = []
    for now_ms in range(NOW, NOW + 3001, 500):
        popped = queue.pop_due(7, now_ms)
        assert all(item.due_at_ms <= now_ms for item, _ in popped)
        taken += runs(popped)
    assert len(taken) == len(set(taken))
