from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.wheel import HORIZON_MS, SLOT_MS, TimingWheel

HOUR_MS = 3_600_000


def test_the_worked_example_of_the_module_holds() -> None:
    wheel = TimingWheel(1_000)
    for key, deadline_ms in (("a", 1_013), ("b", 1_017), ("c", 1_700)):
        assert wheel.put(key, deadline_ms)

    assert wheel.advance(1_009) == []
    assert wheel.advance(1_015) == [(1_013, "a")]
    assert wheel.advance(1_285) == [(1_017, "b")]
    assert "c" in wheel._levels[0][42]
    assert wheel.advance(1_699) == []
    assert wheel.advance(1_700) == [(1_700, "c")]
    assert len(wheel) == 0


def test_a_deadline_goes_out_at_its_millisecond_and_not_one_before() -> None:
    for start_ms in (0, 7, 633, 640, 40_955):
        for ahead_ms in (1, 9, 10, 11, 639, 640, 641, 7_777, HORIZON_MS):
            wheel = TimingWheel(start_ms)
            wheel.put("a", start_ms + ahead_ms)

            assert wheel.advance(start_ms + ahead_ms - 1) == []
            assert wheel.advance(start_ms + ahead_ms) == [(start_ms + ahead_ms, "a")]


def test_expired_entries_come_in_order_of_deadline_then_key() -> None:
    wheel = TimingWheel(0)
    for key, deadline_ms in (("z", 20), ("b", 700), ("a", 700), ("y", 15), ("past", -5)):
        wheel.put(key, deadline_ms)

    assert wheel.advance(700) == [(-5, "past"), (15, "y"), (20, "z"), (700, "a"), (700, "b")]


def test_a_passed_deadline_goes_out_at_the_next_advance_even_if_time_stands_still() -> None:
    wheel = TimingWheel(500)
    wheel.put("a", 500)
    wheel.put("b", 3)

    assert wheel.advance(500) == [(3, "b"), (500, "a")]
    assert wheel.advance(500) == []


def test_a_put_moves_a_key_from_wherever_it_was() -> None:
    for first_ms in (-1, 5, 900, 29_000):
        for second_ms in (-2, 6, 901, 29_001):
            wheel = TimingWheel(0)
            wheel.put("a", first_ms)
            wheel.put("a", second_ms)

            assert (len(wheel), wheel.deadline_of("a")) == (1, second_ms)
            assert wheel.advance(HOUR_MS) == [(second_ms, "a")]


def test_cancel_removes_a_key_once() -> None:
    wheel = TimingWheel(0)
    wheel.put("a", 900)

    assert wheel.cancel("a")
    assert not wheel.cancel("a")
    assert "a" not in wheel
    assert wheel.deadline_of("a") is None
    assert wheel.advance(HOUR_MS) == []


def test_a_deadline_beyond_the_horizon_is_refused_and_leaves_no_older_one_behind() -> None:
    wheel = TimingWheel(100)

    assert wheel.horizon_end_ms == 100 + HORIZON_MS
    assert wheel.put("a", 100 + HORIZON_MS)
    assert not wheel.put("a", 101 + HORIZON_MS)
    assert not wheel.put("b", 10**15)
    assert len(wheel) == 0
    assert wheel.advance(HOUR_MS) == []


def test_a_jump_of_an_hour_hands_out_everything_and_visits_each_slot_once_at_most() -> None:
    wheel = TimingWheel(0)
    deadlines = {f"k{n}": n * 37 % HORIZON_MS for n in range(500)}
    for key, deadline_ms in deadlines.items():
        wheel.put(key, deadline_ms)

    assert wheel.advance(HOUR_MS) == sorted((ms, key) for key, ms in deadlines.items())
    assert wheel.put("next", HOUR_MS + 5)
    assert wheel.advance(HOUR_MS + 5) == [(HOUR_MS + 5, "next")]


def test_an_advance_to_the_far_end_of_time_ends() -> None:
    wheel = TimingWheel(0)
    wheel.put("a", 1)

    assert wheel.advance(10**18) == [(1, "a")]


def test_time_going_back_hands_out_nothing_that_was_not_due_by_that_time() -> None:
    wheel = TimingWheel(10_000)
    wheel.put("future", 10_500)
    wheel.put("between", 9_500)

    assert wheel.advance(9_000) == []
    assert wheel.now_ms == 10_000
    assert wheel.next_deadline_ms() == 9_500
    assert wheel.advance(9_499) == []
    assert wheel.advance(9_500) == [(9_500, "between")]
    assert wheel.advance(10_500) == [(10_500, "future")]


def test_rewind_lays_out_anew_and_gives_back_what_no_longer_fits() -> None:
    wheel = TimingWheel(HOUR_MS)
    wheel.put("near", HOUR_MS + 5_000)
    wheel.put("far", HOUR_MS + 25_000)
    wheel.put("passed", HOUR_MS - 1)

    assert wheel.rewind(HOUR_MS - 10_000) == ["far"]
    assert (len(wheel), wheel.now_ms) == (2, HOUR_MS - 10_000)
    assert wheel.advance(HOUR_MS - 2) == []
    assert wheel.advance(HOUR_MS + 5_000) == [(HOUR_MS - 1, "passed"), (HOUR_MS + 5_000, "near")]


def test_next_deadline_is_never_late_and_sleeping_on_it_reaches_every_deadline_in_few_steps() -> None:
    wheel = TimingWheel(3)
    deadlines = [3 + ahead for ahead in (1, 8, 640, 641, 20_000, HORIZON_MS)]
    for ms in deadlines:
        wheel.put(f"k{ms}", ms)
    seen: list[int] = []
    steps = 0
    while (wake_ms := wheel.next_deadline_ms()) is not None:
        assert wake_ms > wheel.now_ms
        steps += 1
        expired = wheel.advance(wake_ms)
        assert all(ms == wake_ms for ms, _ in expired)
        seen += [ms for ms, _ in expired]

    assert seen == deadlines
    assert steps <= 3 * len(deadlines)


def test_next_deadline_sees_an_early_entry_that_still_lies_on_the_upper_level() -> None:
    wheel = TimingWheel(0)
    wheel.put("early", 1_300)
    wheel.advance(1_000)
    wheel.put("late", 1_630)
    wake_ms = wheel.next_deadline_ms()

    assert "late" in wheel._levels[0][163 % 64]
    assert wake_ms is not None
    assert 1_000 < wake_ms <= 1_300


def test_an_empty_wheel_has_no_next_deadline() -> None:
    assert TimingWheel(5).next_deadline_ms() is None


@pytest.mark.parametrize(("slot_ms", "horizon_ms"), [(0, 10), (-1, 10), (20, 10)])
def test_a_wheel_without_slots_is_refused(slot_ms: int, horizon_ms: int) -> None:
    with pytest.raises(ValueError, match="no wheel"):
        TimingWheel(0, slot_ms=slot_ms, horizon_ms=horizon_ms)


class Model:
    """A dictionary that is searched whole."""

    def __init__(self, now_ms: int, horizon_ms: int) -> None:
        self.now_ms = now_ms
        self.horizon_ms = horizon_ms
        self.entries: dict[str, int] = {}

    def put(self, key: str, deadline_ms: int) -> bool:
        self.entries.pop(key, None)
        if deadline_ms > self.now_ms + self.horizon_ms:
            return False
        self.entries[key] = deadline_ms
        return True

    def advance(self, now_ms: int) -> list[tuple[int, str]]:
        self.now_ms = max(self.now_ms, now_ms)
        expired = sorted((ms, key) for key, ms in self.entries.items() if ms <= now_ms)
        for _, key in expired:
            del self.entries[key]
        return expired

    def rewind(self, now_ms: int) -> set[str]:
        self.now_ms = now_ms
        dropped = {key for key, ms in self.entries.items() if ms > now_ms + self.horizon_ms}
        for key in dropped:
            del self.entries[key]
        return dropped


keys = st.sampled_from([f"job{n}" for n in range(8)])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, st.integers(-50, 1_000) | st.integers(-50, 45_000)),
        st.tuples(st.just("cancel"), keys, st.just(0)),
        st.tuples(
            st.just("advance"),
            keys,
            st.integers(0, 30) | st.integers(-2_000, 2_000) | st.integers(0, 100_000) | st.just(HOUR_MS),
        ),
        st.tuples(st.just("rewind"), keys, st.integers(-HOUR_MS, 0)),
        st.tuples(st.just("wake"), keys, st.just(0)),
    ),
    max_size=60,
)
geometry = st.sampled_from([(SLOT_MS, HORIZON_MS), (10, 600), (1, 5_000), (7, 400_000), (10, 10)])


@given(st.integers(0, 100_000), geometry, steps)
def test_the_wheel_does_as_a_dictionary_searched_whole(
    start_ms: int, shape: tuple[int, int], script: list[Any]
) -> None:
    slot_ms, horizon_ms = shape
    wheel = TimingWheel(start_ms, slot_ms=slot_ms, horizon_ms=horizon_ms)
    model = Model(start_ms, horizon_ms)
    for kind, key, amount in script:
        if kind == "put":
            assert wheel.put(key, model.now_ms + amount) == model.put(key, model.now_ms + amount)
        elif kind == "cancel":
            assert wheel.cancel(key) == (model.entries.pop(key, None) is not None)
        elif kind == "rewind":
            assert set(wheel.rewind(model.now_ms + amount)) == model.rewind(model.now_ms + amount)
        elif kind == "advance":
            now_ms = model.now_ms + amount
            assert wheel.advance(now_ms) == model.advance(now_ms)
        elif (wake_ms := wheel.next_deadline_ms()) is not None:
            assert wheel.advance(wake_ms) == model.advance(wake_ms)
        assert wheel.now_ms == model.now_ms
        assert len(wheel) == len(model.entries)
        assert {name: wheel.deadline_of(name) for name in model.entries} == model.entries
        earliest_ms = min(model.entries.values(), default=None)
        wake_ms = wheel.next_deadline_ms()
        assert (wake_ms is None) == (earliest_ms is None)
        if wake_ms is not None and earliest_ms is not None:
            assert wake_ms <= earliest_ms
            assert wake_ms > model.now_ms or earliest_ms <= model.now_ms
