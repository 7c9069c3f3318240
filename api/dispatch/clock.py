"""Where the gateway's time comes from: an injected clock, and an estimate of the broker's.

Durations use the monotonic clock. Instants that owners compare (`valid_until_ms`, due times) are the broker's:
`BrokerClock` gives a lower bound of it, so what is due by this clock is due by the broker's (DESIGN section 6, Time).
"""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_WINDOW_MS: Final = 30_000
"""Samples older than one to two windows are forgotten, so that drift and a stepped broker clock are followed."""


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Take it back; harmless once it ran."""
        ...


class Clock(Protocol):
    """Time as the dispatch client sees it."""

    def wall_ms(self) -> int:
        """Epoch milliseconds of this machine."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds from an arbitrary start; never steps."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once, in the event loop's thread."""
        ...


class LoopClock:
    """The real clock; timers run in the running asyncio loop."""

    def wall_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Milliseconds of the loop-independent monotonic clock."""
        return time.monotonic_ns() / 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Use the loop's own timer."""
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)


class _ManualTimer:
    __slots__ = ("at_ms", "callback", "seq")

    def __init__(self, at_ms: float, seq: int, callback: Callable[[], None] | None) -> None:
        self.at_ms, self.seq, self.callback = at_ms, seq, callback

    def __lt__(self, other: _ManualTimer) -> bool:
        return (self.at_ms, self.seq) < (other.at_ms, other.seq)

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Virtual time for tests and the simulator: nothing moves until `advance`."""

    def __init__(self, wall_ms: int = 1_800_000_000_000) -> None:
        self._start_ms = wall_ms
        self._elapsed_ms = 0.0
        self._seq = 0
        self._timers: list[_ManualTimer] = []

    def wall_ms(self) -> int:
        """Epoch milliseconds: the start plus what was advanced."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        """Milliseconds advanced so far."""
        return self._elapsed_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` in the `advance` that passes its time."""
        self._seq += 1
        timer = _ManualTimer(self._elapsed_ms + max(delay_ms, 0), self._seq, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def next_timer_in_ms(self) -> float | None:
        """Milliseconds to the next live timer, None without one: the simulator jumps by it."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        return max(self._timers[0].at_ms - self._elapsed_ms, 0) if self._timers else None

    def advance(self, by_ms: float) -> None:
        """Move time and run each timer at its own instant, in order."""
        until_ms = self._elapsed_ms + by_ms
        while self._timers and self._timers[0].at_ms <= until_ms:
            timer = heapq.heappop(self._timers)
            self._elapsed_ms = max(self._elapsed_ms, timer.at_ms)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._elapsed_ms = until_ms


class BrokerClock:
    """A lower bound of the broker's clock from LogAppendTimes.

    A record seen (or acknowledged) now was appended before now, so `append time - monotonic now` never exceeds the true
    difference of the clocks; the largest recent sample is the best one. Without a sample: this machine's wall clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._current: float | None = None
        self._previous: float | None = None
        self._window_end_ms = 0.0

    def observe(self, log_append_ms: int) -> None:
        """Take the LogAppendTime of a record that has just been seen."""
        monotonic_ms = self._clock.monotonic_ms()
        if monotonic_ms >= self._window_end_ms:
            self._previous, self._current = self._current, None
            self._window_end_ms = monotonic_ms + SAMPLE_WINDOW_MS
        sample_ms = log_append_ms - monotonic_ms
        if self._current is None or sample_ms > self._current:
            self._current = sample_ms

    def now_ms(self) -> int:
        """Give epoch milliseconds of the broker, at most its true time where there are samples."""
        offsets = [offset for offset in (self._current, self._previous) if offset is not None]
        if not offsets:
            return self._clock.wall_ms()
        return int(max(offsets) + self._clock.monotonic_ms())
