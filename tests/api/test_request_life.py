"""Requests live for 2 s, and longer after waits that were longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.dispatch.request_life import HALF_LIFE_MS, LIFE_MS_MAX, LIFE_MS_MIN, WAITS, RequestLife


@given(heard=st.lists(st.tuples(st.integers(-5_000, 10**7), st.integers(0, 60_000))), later_ms=st.integers(0, 10**6))
def test_a_life_is_within_bounds_whatever_was_heard(heard: list[tuple[int, int]], later_ms: int) -> None:
    life, now_ms = RequestLife(), 0
    for waited_ms, passed_ms in heard:
        now_ms += passed_ms
        life.heard(waited_ms, now_ms)
        assert WAITS * min(max(waited_ms, 0), LIFE_MS_MAX) <= life.ms(now_ms) or life.ms(now_ms) == LIFE_MS_MAX
    assert LIFE_MS_MIN <= life.ms(now_ms + later_ms) <= LIFE_MS_MAX


def test_quick_answers_change_nothing() -> None:
    life = RequestLife()
    for number in range(100):
        life.heard(LIFE_MS_MIN // WAITS, number)
    assert life.ms(100) == LIFE_MS_MIN


def test_a_slow_answer_counts_half_after_a_while_and_a_quick_one_does_not_hide_it() -> None:
    life = RequestLife()
    life.heard(3_000, 0)
    life.heard(5, 0)
    assert life.ms(0) == 9_000
    assert life.ms(HALF_LIFE_MS) == 4_500
    life.heard(5, HALF_LIFE_MS)
    assert life.ms(HALF_LIFE_MS) == 4_500
    assert life.ms(4 * HALF_LIFE_MS) == LIFE_MS_MIN


@pytest.mark.parametrize("back_ms", [1, 3_600_000])
def test_a_clock_that_went_back_makes_nothing_longer(back_ms: int) -> None:
    life = RequestLife()
    life.heard(1_000, 10**9)
    assert life.ms(10**9 - back_ms) == 3_000
