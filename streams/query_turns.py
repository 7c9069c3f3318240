"""Lets questions that read many jobs take turns, so that all of them together get a bounded share of the owner's loop.

One reads at a time, in the order they came; between two slices it rests for as long as keeps it at SHARE of the loop's
time. The commit loop thus waits for one slice at most, however many people ask.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SHARE: Final = 0.25
"""Of the loop's time: enough for some 10,000 jobs a second, and deciding keeps the rest."""

WAITING_MAX: Final = 64
"""Four gateways with all their connections (16 each); who comes later is told to come back."""

REST_S_MAX: Final = 0.05
"""A slice that was held up by something else (a frozen process) earns no longer rest."""


class BusyError(Exception):
    """Too many wait already."""


class QueryTurns:
    """`async with turns.mine() as rest:` waits for the turn; then `await rest()` after each slice."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def mine(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Wait for the turn. Raises BusyError where WAITING_MAX others wait."""
        if self._waiting >= WAITING_MAX:
            raise BusyError
        self._waiting += 1
        try:
            await self._reading.acquire()
        finally:
            self._waiting -= 1
        pace = _Pace()
        try:
            yield pace.rest
            await pace.rest()  # the last slice counts too, or many short questions would have the whole loop
        finally:
            self._reading.release()


class _Pace:
    def __init__(self) -> None:
        self._since_s = time.monotonic()

    async def rest(self) -> None:
        """Let others have the loop for as long as the slice has earned."""
        worked_s = time.monotonic() - self._since_s
        await asyncio.sleep(min(REST_S_MAX, worked_s * (1 - SHARE) / SHARE))
        self._since_s = time.monotonic()
