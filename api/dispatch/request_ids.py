"""Request ids of one incarnation: short, unique, never reused."""

from __future__ import annotations


class RequestIds:
    """Counts up behind the incarnation, so that an answer to an earlier start of the same gateway matches nothing."""

    def __init__(self, incarnation: str) -> None:
        self._prefix = f"{incarnation}-"
        self._last = 0

    def next(self) -> str:
        """Give a new id."""
        self._last += 1
        return f"{self._prefix}{self._last:x}"
