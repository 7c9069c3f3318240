"""What workers say of how far they are: the last word, bounded."""

from __future__ import annotations

from streams.progress_book import PROGRESS_BYTES_MAX, ProgressBook


def test_the_last_word_counts_and_an_empty_one_says_nothing() -> None:
    book = ProgressBook()
    book.note("a", b"1")
    book.note("a", b"2")
    book.note("a", b"")
    assert book.of(["a", "b"]) == {"a": b"2"}


def test_what_ended_is_forgotten() -> None:
    book = ProgressBook()
    book.note("a", b"1")
    book.forget("a")
    book.forget("a")
    assert book.of(["a"]) == {}


def test_beyond_the_bound_the_oldest_word_goes() -> None:
    book = ProgressBook(bytes_max=6)
    book.note("a", b"111")
    book.note("b", b"222")
    book.note("a", b"333")
    book.note("c", b"4")
    assert book.of(["a", "b", "c"]) == {"a": b"333", "c": b"4"}


def test_one_run_cannot_fill_the_book() -> None:
    book = ProgressBook()
    book.note("a", b"x" * (PROGRESS_BYTES_MAX + 1))
    assert book.of(["a"]) == {}
