"""A clock that moves only when it is told to (or that also flows, and can be pushed ahead)."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TURNS = 20  # loop turns after each timer: enough for a chain of tasks that wait on nothing but each other


class ManualTimer:
    """A callback that waits for its instant."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the callback."""
        self._callback = None

    def fire(self) -> None:
        """Call it, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class ManualClock:
    """Monotonic seconds under the test's control; give it to `Worker(clock=...)` and `FakeGateway(clock=...)`.

    With `flowing=True` real time passes as well, so timers of a few milliseconds fire by themselves while long waits
    are skipped with `advance`.
    """

    def __init__(self, *, start: float = 1_000.0, flowing: bool = False) -> None:
        self._now = start
        self._flowing = flowing
        self._origin = time.monotonic()
        self._order = itertools.count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    def monotonic(self) -> float:
        """Return the present instant."""
        return self._now + (time.monotonic() - self._origin if self._flowing else 0.0)

    def call_at(self, when: float, callback: Callable[[], None]) -> ManualTimer:
        """Call `callback` once the clock has reached `when`."""
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        if self._flowing:
            delay = max(0.0, when - self.monotonic())
            asyncio.get_running_loop().call_later(delay, self._fire_due)
        return timer

    async def advance(self, seconds: float) -> None:
        """Move ahead, firing timers in order, each at its own instant, and letting tasks run in between."""
        await _settle()
        target = self.monotonic() + seconds
        while self._timers and self._timers[0][0] <= target:
            self._now += max(0.0, self._timers[0][0] - self.monotonic())
            self._fire_due()
            await _settle()
        self._now += max(0.0, target - self.monotonic())
        await _settle()

    def _fire_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.monotonic():
            heapq.heappop(self._timers)[2].fire()


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
