from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.broker_clock import (
    BUCKET_MS,
    DRIFT_MAX_PPM,
    HOLD_MAX_MS,
    WINDOW_MS,
    BrokerClock,
    BrokerClocks,
    ClockNotReadyError,
)

T0_MS = 1_700_000_000_000
"""The broker's clock when the local monotonic clock shows 0."""
HOUR_MS = 3_600_000


def sampled(offset_ms: float = T0_MS, at_ms: float = 1_000.0, latency_ms: float = 4.0) -> BrokerClock:
    clock = BrokerClock()
    clock.sample(math.floor(offset_ms + at_ms - latency_ms), at_ms)
    return clock


def test_without_a_sample_nothing_can_be_judged() -> None:
    clock = BrokerClock()

    assert not clock.ready
    with pytest.raises(ClockNotReadyError):
        clock.now_ms(0.0)
    with pytest.raises(ClockNotReadyError):
        clock.skew_ms(T0_MS, 0.0)


def test_the_estimate_is_the_stamp_plus_the_time_since_its_acknowledgement() -> None:
    clock = BrokerClock()
    clock.sample(T0_MS, 500.0)

    assert clock.ready
    assert clock.now_ms(500.0) == T0_MS
    assert clock.now_ms(600.5) == T0_MS + 100


def test_the_fastest_acknowledgement_counts_whatever_the_order() -> None:
    for latencies in ((3, 400, 50), (400, 50, 3), (50, 3, 400)):
        clock = BrokerClock()
        for number, latency_ms in enumerate(latencies):
            at_ms = 1_000 + number * 500
            clock.sample(T0_MS + at_ms - latency_ms, at_ms)

        assert T0_MS + 2_000 - 5 <= clock.now_ms(2_000) <= T0_MS + 2_000 - 3


def test_after_a_leader_change_nothing_is_judged_until_the_next_sample() -> None:
    clock = sampled()
    clock.reset("leader changed")

    assert not clock.ready
    assert clock.last_reset == "leader changed"
    with pytest.raises(ClockNotReadyError, match="leader changed"):
        clock.now_ms(1_100.0)

    clock.sample(T0_MS + 300, 1_200.0)

    assert clock.ready


def test_a_step_forward_is_followed_at_once() -> None:
    clock = sampled()
    clock.now_ms(1_000.0)
    clock.sample(T0_MS + HOUR_MS + 2_000, 2_000.0)

    assert clock.now_ms(2_000.0) == T0_MS + HOUR_MS + 2_000
    assert clock.steps_back == 0


def test_a_step_back_of_two_hours_is_seen_by_the_stamps_and_does_not_freeze_the_owner() -> None:
    """F09: a scheduler stayed silent for the two hours that its clock was set back."""
    clock = sampled(at_ms=1_000.0)
    before = clock.now_ms(2_000.0)
    clock.sample(T0_MS - 2 * HOUR_MS + 3_000, 3_001.0)

    after = clock.now_ms(3_001.0)

    assert after == T0_MS - 2 * HOUR_MS + 3_000
    assert before - after > HOUR_MS
    assert clock.steps_back == 1
    assert clock.now_ms(4_001.0) == pytest.approx(after + 1_000, abs=2)
    assert clock.steps_back == 1
    assert clock.last_reset == "broker clock set back"


def test_a_step_back_that_the_stamps_do_not_show_is_seen_by_the_time_of_sending() -> None:
    clock = sampled(at_ms=1_000.0, latency_ms=4.0)
    stepped = T0_MS - 600
    clock.sample(stepped + 61_000, 61_004.0, sent_monotonic_ms=60_998.0)

    assert clock.last_reset == "broker clock set back"
    assert clock.now_ms(61_004.0) == stepped + 61_000


def test_an_ordinary_slow_sample_is_not_taken_for_a_step() -> None:
    clock = sampled(latency_ms=0.0)
    clock.sample(T0_MS + 2_000, 2_450.0, sent_monotonic_ms=1_999.0)
    clock.sample(T0_MS + 1_999, 2_460.0, sent_monotonic_ms=1_999.0)

    assert clock.last_reset is None
    assert clock.now_ms(2_460.0) >= T0_MS + 2_458


@pytest.mark.parametrize("step_ms", [1, 500, HOLD_MAX_MS])
def test_a_short_step_back_stops_the_clock_until_the_estimate_has_caught_up(step_ms: int) -> None:
    clock = BrokerClock()
    clock.sample(T0_MS, 0.0)
    said = clock.now_ms(0.0)
    clock.reset("leader changed")
    clock.sample(T0_MS - step_ms, 0.0)

    assert clock.now_ms(0.0) == said
    assert clock.now_ms(step_ms / 2) == said
    assert clock.now_ms(step_ms + 10.0) > said
    assert clock.steps_back == 0


def test_a_step_back_just_over_the_bound_turns_the_clock_and_is_counted() -> None:
    clock = BrokerClock()
    clock.sample(T0_MS, 0.0)
    said = clock.now_ms(0.0)
    clock.reset("leader changed")
    clock.sample(T0_MS - HOLD_MAX_MS - 1, 0.0)

    assert clock.now_ms(0.0) == said - HOLD_MAX_MS - 1
    assert clock.steps_back == 1


def test_a_small_step_back_that_nothing_shows_is_forgotten_with_the_window() -> None:
    clock = BrokerClock()
    clock.sample(T0_MS, 0.0)
    stepped = T0_MS - 900
    for at_ms in range(5_000, WINDOW_MS + 2 * BUCKET_MS, 5_000):
        clock.sample(stepped + at_ms, float(at_ms))
    end_ms = WINDOW_MS + 2 * BUCKET_MS

    assert clock.skew_ms(stepped + end_ms, float(end_ms)) == pytest.approx(0, abs=2 * BUCKET_MS * 1e-3)


def test_the_last_sample_counts_however_old_it_is() -> None:
    clock = sampled(at_ms=0.0, latency_ms=0.0)

    now_ms = clock.now_ms(float(HOUR_MS))

    assert T0_MS + HOUR_MS * (1 - DRIFT_MAX_PPM / 1e6) - 1 <= now_ms <= T0_MS + HOUR_MS


def test_memory_does_not_grow_with_samples_or_time() -> None:
    clock = BrokerClock()
    for at_ms in range(0, 2 * HOUR_MS, 3_000):
        clock.sample(T0_MS + at_ms - 5, float(at_ms))

    assert len(clock._bounds) <= WINDOW_MS // BUCKET_MS + 1


def test_skew_is_positive_if_the_local_wall_clock_runs_ahead() -> None:
    clock = sampled(at_ms=1_000.0, latency_ms=3.0)

    assert clock.skew_ms(T0_MS + 1_000 + 5_000, 1_000.0) == pytest.approx(5_003, abs=1)
    assert clock.skew_ms(T0_MS + 1_000 - HOUR_MS, 1_000.0) == pytest.approx(3 - HOUR_MS, abs=1)


def test_a_wall_clock_step_changes_nothing_but_the_skew() -> None:
    """F11: wall and monotonic clocks mixed made every timer go off at once."""
    clock = sampled()
    before = clock.now_ms(5_000.0)
    for wall_ms in (T0_MS + HOUR_MS, T0_MS - HOUR_MS):
        clock.skew_ms(wall_ms, 5_000.0)

    assert clock.now_ms(5_000.0) == before


gaps = st.floats(1, 400) | st.floats(1, 30_000)
latencies = st.floats(0, 500)


@given(
    offset_ms=st.floats(1e12, 2e12),
    ppm=st.floats(-DRIFT_MAX_PPM, DRIFT_MAX_PPM),
    trips=st.lists(st.tuples(gaps, latencies, latencies), min_size=1, max_size=60),
    tell_sent=st.booleans(),
    look_ms=st.floats(0, 20_000),
)
def test_never_ahead_of_the_broker_and_behind_by_the_fastest_recent_acknowledgement_at_most(
    *, offset_ms: float, ppm: float, trips: list[tuple[float, float, float]], tell_sent: bool, look_ms: float
) -> None:
    clock = BrokerClock()

    def broker_ms(monotonic_ms: float) -> float:
        return offset_ms + monotonic_ms * (1 + ppm / 1e6)

    sent_ms, lags, acked_before_ms = 0.0, [], 0.0
    for gap_ms, there_ms, back_ms in trips:
        sent_ms = max(sent_ms + gap_ms, acked_before_ms)
        appended_ms = sent_ms + there_ms
        acked_ms = acked_before_ms = appended_ms + back_ms
        clock.sample(math.floor(broker_ms(appended_ms)), acked_ms, sent_ms if tell_sent else None)
        lags.append((acked_ms, back_ms))

        assert clock.last_reset is None
        assert clock.now_ms(acked_ms) <= broker_ms(acked_ms) + 1e-3

    now_ms = acked_before_ms + look_ms
    allowed_ms = min(
        back_ms + 2 * DRIFT_MAX_PPM / 1e6 * (now_ms - at_ms) + DRIFT_MAX_PPM / 1e6 * back_ms
        for at_ms, back_ms in lags
        if at_ms > acked_before_ms - WINDOW_MS + BUCKET_MS
    )
    estimate = clock.now_ms(now_ms)
    assert estimate <= broker_ms(now_ms) + 1e-3
    assert broker_ms(now_ms) - estimate <= allowed_ms + 2 + 1e-3  # the stamp's and the answer's whole ms


@given(st.lists(st.tuples(st.floats(0, 5_000), st.integers(-3 * HOUR_MS, 3 * HOUR_MS)), max_size=30))
def test_now_goes_back_only_by_more_than_the_bound_and_says_so_whatever_the_broker_does(
    steps: list[tuple[float, int]],
) -> None:
    clock = sampled(at_ms=0.0)
    at_ms, said, back = 0.0, clock.now_ms(0.0), 0
    for gap_ms, step_ms in steps:
        at_ms += gap_ms
        clock.sample(math.floor(T0_MS + at_ms + step_ms), at_ms)
        now_ms = clock.now_ms(at_ms)
        if now_ms < said:
            back += 1
            assert said - now_ms > HOLD_MAX_MS
        said = now_ms

        assert clock.steps_back == back


@pytest.mark.parametrize("behind_ms", [-300_000, -300, 40, 300, 5_000])
def test_a_new_leader_with_another_clock_is_followed_from_its_first_record_on(behind_ms: int) -> None:
    clock = BrokerClock()
    for at_ms in range(0, 60_000, 10_000):
        clock.sample(T0_MS + at_ms, at_ms + 5.0, float(at_ms))
    assert clock.now_ms(60_000.0) <= T0_MS + 60_000

    clock.sample(T0_MS + 60_010 - behind_ms, 60_020.0, 60_000.0)  # 10 ms there, 10 ms back

    assert -11 - 60 <= clock.skew_ms(T0_MS + 61_000 - behind_ms, 61_000.0) <= 11 + 60  # drift allowance: 60 ms


def test_clocks_are_kept_apart_by_partition() -> None:
    clocks = BrokerClocks()
    clocks.of(0).sample(T0_MS, 0.0)
    clocks.of(1).sample(T0_MS, 0.0)

    clocks.drop(1)

    assert (clocks.of(0).ready, clocks.of(1).ready) == (True, False)
