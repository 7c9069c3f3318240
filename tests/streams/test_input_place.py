"""How far inputs are consumed, in a marker's header and beside a store's position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.inbox import SOURCES
from streams.input_place import (
    NO_OFFSET,
    InputPlace,
    decode_places,
    encode_places,
    floor_of,
    meta_of,
    places_in,
    topic_number,
)

PLACES = st.fixed_dictionaries(
    {source: st.builds(InputPlace, st.integers(0, 2**56 - 1), st.integers(0, 2**63 - 1)) for source in SOURCES}
)


@given(places=PLACES)
def test_places_come_back_from_the_header_and_from_the_store(places: dict[str, InputPlace]) -> None:
    assert decode_places(encode_places(places)) == places  # type: ignore[arg-type] # keys are sources
    assert places_in({"next_seq": 3, **meta_of(places)}) == places  # type: ignore[arg-type]


@given(value=st.one_of(st.binary(max_size=60), st.from_regex(rb"[0-9 -]*")))
def test_a_header_that_is_not_ours_tells_nothing_and_raises_nothing(value: bytes) -> None:
    found = decode_places(value)
    assert found == {} or encode_places(found).split() == [b"%d" % int(word) for word in value.split(b" ")]


def test_no_places_make_an_empty_header() -> None:
    assert encode_places({}) == b""
    assert decode_places(b"") == {}
    assert places_in({"next_seq": 1}) == {}


def test_topics_have_numbers_that_a_store_can_keep() -> None:
    numbers = {topic_number(f"topic {n}") for n in range(1_000)}
    assert len(numbers) == 1_000
    assert max(numbers) < 2**56


@pytest.mark.parametrize(
    ("committed", "told", "end", "floor"),
    [
        (15, InputPlace(1, 9), 20, 15),
        (0, InputPlace(1, 9), 20, 9),
        (8, InputPlace(1, 9), 20, 9),  # the group's offset went back
        (8, InputPlace(1, 9), 8, 8),
        (8, InputPlace(2, 9), 20, 8),
        (9, InputPlace(1, 9), 0, 9),
        (NO_OFFSET, InputPlace(1, 9), 20, 9),
        (NO_OFFSET, InputPlace(1, 9), 9, 9),
        (NO_OFFSET, InputPlace(1, 9), 8, 0),  # the topic lost its end
        (NO_OFFSET, InputPlace(2, 9), 20, 0),  # another topic of the same name
        (NO_OFFSET, None, 20, 0),
    ],
)
def test_the_floor(committed: int, told: InputPlace | None, end: int, floor: int) -> None:
    assert floor_of(committed, told, 1, end) == floor
