"""What the owner of this process knows of topic `config`: the calendars, and how far it has read.

One value for all shards, changed only on the loop's thread, between two batches. A shard asks for a look (`ask`) where
it must know everything that was written before a moment: at its take-over, and before it refuses a definition for a
calendar that is not there. Without a reader (tests, the simulator) whatever was taken is all there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.calendars import NO_CALENDARS

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.calendars import Calendars


class OwnerConfig:
    """The calendars of the moment."""

    def __init__(self, look: Callable[[int], None] | None = None) -> None:
        """`look` is given a number: the reader shall read to the end that the topic has from now on, and say so."""
        self._look = look
        self._asked = 0
        self._looked = 0
        self.calendars: Calendars = NO_CALENDARS
        self.next_offset = 0
        """The first record of the topic that was not read yet."""

    def ask(self) -> int:
        """Ask for a look; returns its number."""
        if self._look is None:
            return 0
        self._asked += 1
        self._look(self._asked)
        return self._asked

    def looked(self, number: int) -> bool:
        """Tell whether everything is known that was written before this look was asked for."""
        return self._looked >= number

    @property
    def place(self) -> tuple[int, int]:
        """How far the reader is: other than before, once it has read or looked."""
        return (self.next_offset, self._looked)

    def heard(self, calendars: Calendars, next_offset: int, looked: int = 0) -> None:
        """Take over what the reader has read, and the number of the last look that it finished."""
        self.calendars = calendars
        self.next_offset = max(self.next_offset, next_offset)
        self._looked = max(self._looked, looked)
