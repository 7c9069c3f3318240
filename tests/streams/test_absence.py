"""An absence is carried on by every marker, so that a successor of a short-lived owner still knows of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.absence import JOINED_MS, NO_ABSENCE, Absence, after_gap, told_by
from streams.core.envelopes import Marker

GAP_MS = 60_000


def marker(absence: Absence = NO_ABSENCE, previous_marker_ms: int = 0) -> Marker:
    return Marker(
        partition=0,
        next_seq=1,
        generation=1,
        member_id="m",
        transactional_id="t",
        now_ms=0,
        absent_from_ms=absence.from_ms,
        absent_to_ms=absence.to_ms,
        previous_marker_ms=previous_marker_ms,
    )


def test_a_gap_up_to_the_bound_is_no_absence() -> None:
    assert after_gap(NO_ABSENCE, 1_000, 1_000 + GAP_MS, GAP_MS) == NO_ABSENCE
    assert after_gap(NO_ABSENCE, 1_000, 1_001 + GAP_MS, GAP_MS) == Absence(1_000, 1_001 + GAP_MS)


def test_the_first_owner_ever_follows_nobody() -> None:
    assert after_gap(NO_ABSENCE, 0, 10**12, GAP_MS) == NO_ABSENCE


def test_a_take_overs_first_marker_tells_of_the_gap_that_it_ends() -> None:
    assert told_by(marker(previous_marker_ms=1_000), 500_000, GAP_MS) == Absence(1_000, 500_000)


def test_an_owner_that_died_after_its_first_marker_does_not_hide_the_absence() -> None:
    first = told_by(marker(previous_marker_ms=1_000), 500_000, GAP_MS)
    second = told_by(marker(first, previous_marker_ms=500_000), 510_000, GAP_MS)
    assert second == Absence(1_000, 500_000)


def test_two_absences_with_a_short_lived_owner_between_them_are_one() -> None:
    first = Absence(1_000, 500_000)
    assert after_gap(first, 500_000 + JOINED_MS, 2_000_000, GAP_MS) == Absence(1_000, 2_000_000)
    assert after_gap(first, 500_001 + JOINED_MS, 2_000_000, GAP_MS) == Absence(500_001 + JOINED_MS, 2_000_000)


@given(st.lists(st.integers(1, 4 * GAP_MS), min_size=1, max_size=30))
def test_whatever_the_rhythm_of_markers_the_last_gap_over_the_bound_is_known(steps: list[int]) -> None:
    now_ms, absence, last_gap = 1_000_000, NO_ABSENCE, NO_ABSENCE
    for step in steps:
        absence = told_by(marker(absence, previous_marker_ms=now_ms), now_ms + step, GAP_MS)
        if step > GAP_MS:
            last_gap = Absence(now_ms, now_ms + step)
        now_ms += step
    assert absence.to_ms == last_gap.to_ms
    assert absence.from_ms <= last_gap.from_ms
