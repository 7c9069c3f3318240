from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.core.identity import (
    is_instant,
    job_id_of,
    run_id_at,
    run_id_named,
    run_id_of_backfill,
    scheduled_at_of,
)

JOB_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", fullmatch=True)
INSTANTS = st.integers(-62_135_596_800_000, 253_402_300_799_999)


@given(job_id=JOB_IDS, at_ms=INSTANTS)
def test_a_run_id_says_its_job_and_its_instant(job_id: str, at_ms: int) -> None:
    run_id = run_id_at(job_id, at_ms)

    assert (job_id_of(run_id), scheduled_at_of(run_id)) == (job_id, at_ms)


@given(at_ms=INSTANTS)
def test_the_instant_in_a_run_id_is_utc(at_ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)

    expected = f"{moment.year:04d}{moment:%m%dT%H%M%S}{moment.microsecond // 1000:03d}Z"
    assert run_id_at("j", at_ms) == f"run_j_{expected}"


def test_triggers_name_no_instant() -> None:
    assert scheduled_at_of(run_id_named("j", "t1")) is None
    assert scheduled_at_of(run_id_of_backfill("j", "b", 0)) is None


@pytest.mark.parametrize("text", ["20271301T000000000Z", "20270230T000000000Z", "20270101T240000000Z", "x"])
def test_what_only_looks_like_an_instant_is_none(text: str) -> None:
    assert not is_instant(text)


def test_a_backfill_run_names_its_backfill_and_its_slot() -> None:
    assert run_id_of_backfill("j", "b:1", 1_798_765_200_000) == "run_j_b:1.20270101T010000000Z"
    assert job_id_of("run_j_b:1.20270101T010000000Z") == "j"
