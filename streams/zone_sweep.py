"""After a change of the zone database or of a calendar: every job whose open cursor was computed under another one.

Each is looked at, once. Waiting for the jobs' own deadlines would be too late: a slot that the new data moves forward
lies before them (A60).
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
from streams.core.calendars import NO_CALENDARS
from streams.core.wire import decode_state

if TYPE_CHECKING:
    from streams.core.calendars import Calendars
    from streams.core.state import JobState
    from streams.store.interface import Store

META_KEY: Final = "zone_data"
"""In the store's meta: a number that stands for the zone data and calendars of the last pass that came through."""

PAGE: Final = 200
"""States decoded per turn of the loop: about 3 ms."""


class ZoneSweep:
    """One pass over the jobs of a partition, and another one after each change of calendars."""

    def __init__(self, store: Store, version: str, calendars: Calendars = NO_CALENDARS) -> None:
        self._store = store
        self._version = version
        self._calendars = calendars
        self._needles: tuple[bytes, ...] | None = None
        """Of a pass for some calendars only: what the state of a job holds that names one; None: all jobs are read."""
        self._after: str | None = None
        self.done = store.meta.get(META_KEY) == self._number

    @property
    def calendars(self) -> Calendars:
        """The calendars that the present pass compares with."""
        return self._calendars

    def follow(self, calendars: Calendars) -> None:
        """Begin a pass for the jobs that name a calendar that is another one now."""
        names = calendars.names_changed_since(self._calendars)
        self._calendars = calendars
        if not names:
            return
        # Where a pass is under way, the new one must be for everything that it was for.
        self._needles = tuple(f"{name}@".encode() for name in sorted(names)) if self.done else None
        self._after, self.done = None, False

    @property
    def _number(self) -> int:
        """What stands for version and calendars, since meta holds numbers only."""
        digest = self._calendars.digest
        return zlib.crc32(f"{self._version}|{digest}".encode() if digest else self._version.encode())

    @property
    def meta(self) -> dict[str, int]:
        """What to remember with the next commit: the version, once the pass is through."""
        return {META_KEY: self._number} if self.done else {}

    def next_page(self) -> list[JobState]:
        """Return the jobs of the next page whose cursor is of another version or of other calendars."""
        if self.done:
            return []
        page = self._store.jobs(self._after, PAGE)
        if len(page) < PAGE:
            self.done = True
        if page:
            self._after = page[-1][0]
        return [state for _, data in page if (state := self._outdated(data)) is not None]

    def _outdated(self, data: bytes) -> JobState | None:
        if self._needles is not None and not any(needle in data for needle in self._needles):
            return None
        try:
            state = decode_state(data)
        except Undecodable:
            return None  # its own timer sets the job aside, with an alert; the partition goes on
        if state.status != "active":
            return None
        differs = state.calendars and self._calendars.differ_from(state.tenant, state.calendars)
        return state if differs or state.zone_data != self._version else None
