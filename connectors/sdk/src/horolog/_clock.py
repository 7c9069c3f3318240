"""The clock that all lease arithmetic uses: monotonic seconds and timers, and nothing else.

A worker gets `SystemClock`; tests inject `horolog.testing.ManualClock`. Wall-clock time is never read
here, so a step of the host's clock cannot end or prolong a lease (DESIGN section 10).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it has run."""


class Clock(Protocol):
    """Monotonic seconds, and callbacks at such instants on the running loop."""

    def monotonic(self) -> float:
        """Return monotonic seconds; only differences mean anything."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the loop once `monotonic()` has reached `when`."""


_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The host's monotonic clock and the running loop's timers.

    Where the system has it (Linux), the clock also counts the time that the machine was suspended: a lease goes on
    running out while a laptop sleeps or a virtual machine is paused.
    """

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Arm a timer on the running loop."""
        delay = max(0.0, when - self.monotonic())
        return asyncio.get_running_loop().call_later(delay, callback)


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait for that long on `clock`."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = clock.call_at(clock.monotonic() + seconds, wake)
    try:
        await woken
    finally:
        timer.cancel()


async def wait_event(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Wait for `event` at most that long on `clock`; return whether it is set."""
    if event.is_set():
        return True
    waiter = asyncio.ensure_future(event.wait())
    sleeper = asyncio.ensure_future(sleep(clock, seconds))
    try:
        await asyncio.wait({waiter, sleeper}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        sleeper.cancel()
    return event.is_set()
