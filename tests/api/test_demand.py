from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.dispatch.demand import PEAK_WINDOW_MS, PUBLISH_EVERY_MS_MIN, REFRESH_EVERY_MS, DemandBook

Q = ("t", "q")


def slots(book: DemandBook, now_ms: float) -> dict[str, int] | None:
    queues = book.take(now_ms)
    return None if queues is None else {demand.queue: demand.slots for demand in queues}


def test_a_new_worker_is_told_at_once() -> None:
    book = DemandBook()
    assert book.set_free(Q, 5, 0)
    assert slots(book, 0) == {"q": 5}


def test_changes_are_throttled_to_one_in_20_ms() -> None:
    book = DemandBook()
    book.set_free(Q, 1, 0)
    assert slots(book, 0) == {"q": 1}
    book.set_free(Q, 2, 1)
    assert slots(book, PUBLISH_EVERY_MS_MIN - 1) is None
    assert book.due_in_ms(PUBLISH_EVERY_MS_MIN - 1) == 1
    assert slots(book, PUBLISH_EVERY_MS_MIN) == {"q": 2}


def test_the_whole_demand_is_refreshed_each_second_without_a_change() -> None:
    book = DemandBook()
    book.set_free(Q, 3, 0)
    book.set_free(("t", "other"), 1, 0)
    assert slots(book, 0) == {"q": 3, "other": 1}
    assert slots(book, REFRESH_EVERY_MS - 1) is None
    assert slots(book, REFRESH_EVERY_MS) == {"q": 3, "other": 1}


def test_slots_that_are_taken_and_given_back_do_not_flicker() -> None:
    book = DemandBook()
    book.set_free(Q, 10, 0)
    assert slots(book, 0) == {"q": 10}
    for now_ms in range(10, 1000, 10):
        rose = book.set_free(Q, 10 if now_ms % 20 == 0 else 0, now_ms)
        assert not rose
    assert slots(book, 1000) == {"q": 10}


def test_the_peak_falls_one_second_after_the_slots_did() -> None:
    book = DemandBook()
    book.set_free(Q, 10, 0)
    book.set_free(Q, 2, 500)
    assert slots(book, 500 + PEAK_WINDOW_MS - 1) == {"q": 10}
    assert slots(book, 500 + PEAK_WINDOW_MS - 1 + REFRESH_EVERY_MS) == {"q": 2}


def test_a_queue_nobody_waits_for_disappears() -> None:
    book = DemandBook()
    book.set_free(Q, 10, 0)
    book.set_free(Q, 0, 0)
    assert slots(book, PEAK_WINDOW_MS) == {}
    assert book.set_free(Q, 0, PEAK_WINDOW_MS) is False


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9)), min_size=1, max_size=40))
def test_the_peak_is_the_largest_value_held_in_the_window(steps: list[tuple[int, int]]) -> None:
    book = DemandBook()
    history: list[tuple[int, int]] = []
    now_ms = 0
    for wait_ms, value in steps:
        now_ms += wait_ms
        book.set_free(Q, value, now_ms)
        history.append((now_ms, value))
    now_ms += REFRESH_EVERY_MS // 2
    ends = [start for start, _ in history[1:]] + [now_ms + 1]
    expected = max(value for (_, value), end in zip(history, ends, strict=True) if end > now_ms - PEAK_WINDOW_MS)
    assert slots(book, now_ms) == ({"q": expected} if expected else {})
