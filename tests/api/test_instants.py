from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.instants import instant_or_none, instant_text, parse_instant, parse_length_ms


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-12-01T09:00:00.123Z", 1_796_115_600_123),
        ("2026-12-01t09:00:00.1239z", 1_796_115_600_123),
        ("2026-12-01T10:00:00+01:00", 1_796_115_600_000),
        ("2026-12-01T09:00Z", 1_796_115_600_000),
        ("1969-12-31T23:59:59.5Z", -500),
    ],
)
def test_rfc_3339_is_read_to_the_millisecond(text: str, at_ms: int) -> None:
    assert parse_instant(text) == at_ms


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00.000Z", "0999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"])
def test_the_first_and_the_last_years_are_written_as_they_are_read(text: str) -> None:
    assert instant_text(parse_instant(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-12-01",
        "2026-12-01T09:00:00",
        "2026-13-01T00:00:00Z",
        "2026-12-01 09:00:00Z",
        "٢٠٢٦-12-01T09:00:00Z",
    ],
)
def test_what_is_no_instant_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="not an instant"):
        parse_instant(text)


@given(st.integers(0, 253_402_300_799_999))
def test_an_instant_reads_back(at_ms: int) -> None:
    assert parse_instant(instant_text(at_ms)) == at_ms


def test_never_is_null() -> None:
    assert instant_or_none(None) is None
    assert instant_or_none(0) is None
    assert instant_or_none(1000) == "1970-01-01T00:00:01.000Z"


@pytest.mark.parametrize(
    ("value", "ms"), [(1500, 1500), ("15m", 900_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("1s500ms", 1500)]
)
def test_lengths_are_read(value: int | str, ms: int) -> None:
    assert parse_length_ms(value) == ms


@pytest.mark.parametrize("text", ["", "m", "1", "1x", "1 m", "-1m", "1m junk"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a length"):
        parse_length_ms(text)
