"""After a change of the zone database: every job whose open cursor was computed under another one is looked at, once.

Waiting for the jobs' own deadlines would be too late: a slot that the new data moves forward lies before them (A60).
The sweep
goes through the store page by page, beside the ordinary work, and is remembered in the store's meta numbers when it
is through; a
store that was rebuilt, or handed to a process with other data, is swept again, and finds nothing to do where nothing
has changed.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from schemas.codec import Undecodable
from streams.core.wire import decode_state

if TYPE_CHECKING:
    from streams.core.state import JobState
    from streams.store.interface import Store

META_KEY: Final = "zone_data"
"""In the store's meta: a number that stands for the version, since meta holds numbers only."""

PAGE: Final = 200
"""States decoded per turn of the loop: about 3 ms."""


class ZoneSweep:
    """One pass over the jobs of a partition."""

    def __init__(self, store: Store, version: str) -> None:
        self._store = store
        self._version = version
        self._after: str | None = None
        self.done = store.meta.get(META_KEY) == _number(version)

    @property
    def meta(self) -> dict[str, int]:
        """What to remember with the next commit: the version, once the pass is through."""
        return {META_KEY: _number(self._version)} if self.done else {}

    def next_page(self) -> list[JobState]:
        """Return the jobs of the next page whose cursor is of another version."""
        if self.done:
            return []
        page = self._store.jobs(self._after, PAGE)
        if len(page) < PAGE:
            self.done = True
        if page:
            self._after = page[-1][0]
        return [state for _, data in page if (state := self._of_another_version(data)) is not None]

    def _of_another_version(self, data: bytes) -> JobState | None:
        try:
            state = decode_state(data)
        except Undecodable:
            return None  # its own timer sets the job aside, with an alert; the partition goes on
        return state if state.status == "active" and state.zone_data != self._version else None


def _number(version: str) -> int:
    return zlib.crc32(version.encode())
