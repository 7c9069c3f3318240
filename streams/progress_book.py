"""What workers said last of how far they are, by run: soft state of an owner, bounded, gone with it.

The heartbeats themselves lie on topic `commands`; nothing is decided by what they say here, so nothing is logged of it.
A successor knows nothing until the worker says it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRESS_BYTES_MAX: Final = 4_096
"""Of one run; docs/http-api.md promises it."""

BOOK_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one partition: 16 of them are 128 MB at the worst. Beyond it, what was said longest ago is forgotten."""


class ProgressBook:
    """The last word of each leased run, in the order in which they were said."""

    def __init__(self, bytes_max: int = BOOK_BYTES_MAX) -> None:
        self._said: dict[str, bytes] = {}
        self._bytes = 0
        self._bytes_max = bytes_max

    def note(self, run_id: str, progress: bytes) -> None:
        """Take a run's newest word; an empty or oversized one leaves the last."""
        if not 0 < len(progress) <= PROGRESS_BYTES_MAX:
            return
        self.forget(run_id)
        self._said[run_id] = progress
        self._bytes += len(progress)
        while self._bytes > self._bytes_max:
            self.forget(next(iter(self._said)))

    def forget(self, run_id: str) -> None:
        """The lease ended."""
        self._bytes -= len(self._said.pop(run_id, b""))

    def of(self, run_ids: Iterable[str]) -> dict[str, bytes]:
        """Give what is known of these runs."""
        if not self._said:
            return {}
        return {run_id: self._said[run_id] for run_id in run_ids if run_id in self._said}
