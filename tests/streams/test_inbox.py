"""What a source has delivered: order, floors, repeats, and the way back after an abort."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.inbox import Inbox, Input, Source

FLOORS: dict[Source, int] = {"commands": 10, "definitions": 5}


def record(offset: int, source: Source = "commands") -> Input:
    return Input(source, offset, 1_000 + offset, b"k", b"v")


def test_records_below_the_floor_are_ignored() -> None:
    inbox = Inbox(FLOORS)
    assert [inbox.push(record(offset)) for offset in (8, 9, 10, 11)] == [False, False, True, True]
    assert [item.offset for item in inbox.held] == [10, 11]


def test_a_record_that_is_delivered_twice_is_held_once() -> None:
    inbox = Inbox(FLOORS)
    assert inbox.push(record(10))
    assert not inbox.push(record(10))
    inbox.take(1)
    assert not inbox.push(record(10))


def test_offsets_of_a_log_with_gaps_are_followed() -> None:
    inbox = Inbox(FLOORS)
    assert inbox.push(record(17, "definitions"))
    inbox.take(1)
    assert inbox.consumed == {"commands": 10, "definitions": 18}


def test_consumed_is_the_next_offset_behind_what_was_taken() -> None:
    inbox = Inbox(FLOORS)
    for offset in (10, 11, 12):
        inbox.push(record(offset))
    assert inbox.consumed == FLOORS
    inbox.take(2)
    assert inbox.consumed == {"commands": 12, "definitions": 5}


def test_what_an_aborted_batch_took_comes_first_again_in_its_order() -> None:
    inbox = Inbox(FLOORS)
    items = [record(10), record(5, "definitions"), record(11), record(12)]
    for item in items:
        inbox.push(item)
    taken = inbox.take(3)
    inbox.push(record(13))
    inbox.restore(taken)
    assert inbox.consumed == FLOORS
    assert inbox.take(10) == [*items, record(13)]


def test_an_abort_does_not_take_back_what_an_earlier_batch_took() -> None:
    inbox = Inbox(FLOORS)
    for offset in (10, 11):
        inbox.push(record(offset))
    inbox.take(1)
    inbox.restore(inbox.take(1))
    assert inbox.consumed["commands"] == 11


def test_the_source_waits_while_the_inbox_is_full() -> None:
    inbox = Inbox(FLOORS)
    inbox.records_max = 2
    inbox.push(record(10))
    assert not inbox.full
    inbox.push(record(11))
    assert inbox.full
    inbox.take(1)
    assert not inbox.full


def test_the_source_waits_while_the_inbox_holds_too_many_bytes() -> None:
    inbox = Inbox(FLOORS)
    inbox.bytes_max = 2
    inbox.push(record(10))
    assert not inbox.full
    inbox.push(record(11))
    assert inbox.full
    taken = inbox.take(1)
    assert not inbox.full
    inbox.restore(taken)
    assert inbox.full
    inbox.take(2)
    inbox.push(Input("definitions", 5, 0, b"k", None))
    assert not inbox.full


@given(st.lists(st.tuples(st.sampled_from(("push", "repeat", "take", "abort")), st.integers(1, 5)), max_size=60))
def test_every_record_is_taken_for_good_exactly_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    inbox = Inbox({"commands": 0, "definitions": 0})
    next_offset, kept = 0, []
    for step, number in steps:
        if step == "push":
            for _ in range(number):
                inbox.push(record(next_offset))
                next_offset += 1
        elif step == "repeat":
            assert not inbox.push(record(max(0, next_offset - number))) or next_offset == 0
            next_offset = max(next_offset, 1)
        else:
            taken = inbox.take(number)
            if step == "abort":
                inbox.restore(taken)
            else:
                kept.extend(taken)
    kept.extend(inbox.take(10_000))
    assert [item.offset for item in kept] == list(range(next_offset))
    assert inbox.consumed["commands"] == next_offset
