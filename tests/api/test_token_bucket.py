from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.dispatch.token_bucket import TokenBucket


def test_without_a_rate_everything_passes() -> None:
    bucket = TokenBucket(None, 0)
    assert bucket.take(10_000, 0) == 10_000
    assert bucket.wait_ms() == 0


def test_one_second_of_the_rate_may_be_taken_at_once_and_then_the_rate_holds() -> None:
    bucket = TokenBucket(10, 0)
    assert bucket.take(100, 0) == 10
    assert bucket.take(100, 99) == 0
    assert bucket.wait_ms() == pytest.approx(1)
    assert bucket.take(100, 100) == 1


def test_a_share_cuts_rate_and_burst() -> None:
    bucket = TokenBucket(10, 0, share=0.5)
    assert bucket.take(100, 0) == 5
    assert bucket.take(100, 200) == 1


def test_a_rate_of_zero_lets_nothing_pass() -> None:
    bucket = TokenBucket(0, 0)
    assert bucket.take(1, 1_000_000) == 0
    assert bucket.wait_ms() == float("inf")


def test_tokens_given_back_can_be_taken_again() -> None:
    bucket = TokenBucket(10, 0)
    bucket.take(10, 0)
    bucket.give_back(4)
    assert bucket.take(10, 0) == 4


def test_a_new_rate_counts_from_now() -> None:
    bucket = TokenBucket(None, 0)
    bucket.configure(2, 1.0, 1000)
    assert bucket.take(10, 1000) == 2
    bucket.configure(1000, 1.0, 1000)
    assert bucket.take(10, 1000) == 0


def test_a_clock_that_stands_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10, 1000)
    bucket.take(10, 1000)
    assert bucket.take(10, 0) == 0
    assert bucket.take(10, 1000) == 0


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), max_size=50), st.integers(1, 50))
def test_never_more_than_burst_plus_rate_times_time(steps: list[tuple[int, int]], rate: int) -> None:
    bucket = TokenBucket(rate, 0)
    now_ms = taken = 0
    for wait_ms, count in steps:
        now_ms += wait_ms
        taken += bucket.take(count, now_ms)
        assert taken <= rate + rate * now_ms / 1000 + 1e-6
