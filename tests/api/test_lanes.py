from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from api.dispatch.lanes import HIGH, LOW, NORMAL, WHEEL, LaneWheel


def turns(filled: tuple[bool, bool, bool], count: int = 10) -> Counter[int | None]:
    wheel = LaneWheel()
    return Counter(wheel.next_lane(filled) for _ in range(count))


def test_full_lanes_share_70_20_10_exactly_in_every_ten() -> None:
    wheel = LaneWheel()
    for _ in range(5):
        assert Counter(wheel.next_lane((True, True, True)) for _ in range(10)) == {HIGH: 7, NORMAL: 2, LOW: 1}


def test_share_of_an_empty_high_lane_passes_down_to_normal() -> None:
    assert turns((False, True, True)) == {NORMAL: 9, LOW: 1}


def test_share_of_an_empty_normal_lane_passes_down_to_low() -> None:
    assert turns((True, False, True)) == {HIGH: 7, LOW: 3}


def test_share_of_an_empty_low_lane_goes_to_the_highest() -> None:
    assert turns((True, True, False)) == {HIGH: 8, NORMAL: 2}


def test_a_single_filled_lane_gets_everything() -> None:
    for lane in (HIGH, NORMAL, LOW):
        filled = (lane == HIGH, lane == NORMAL, lane == LOW)
        assert turns(filled) == {lane: 10}


def test_the_turn_does_not_move_while_all_lanes_are_empty() -> None:
    wheel = LaneWheel()
    for _ in range(3):
        assert wheel.next_lane((False, False, False)) is None
    assert [wheel.next_lane((True, True, True)) for _ in range(10)] == list(WHEEL)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=60))
def test_an_empty_lane_is_never_chosen(steps: list[tuple[bool, bool, bool]]) -> None:
    wheel = LaneWheel()
    for filled in steps:
        lane = wheel.next_lane(filled)
        assert lane is None if not any(filled) else lane is not None and filled[lane]
