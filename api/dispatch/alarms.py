"""Many deadlines on one timer: a heap of callbacks over an injected clock.

Alarms are not cancelled; a callback looks whether there is still something to do.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.dispatch.clock import Clock, Timer


EARLY_MS: Final = 0.01
"""A timer for the difference of two floats may ring this much early; ringing again for the rest might never end."""


class Alarms:
    """Callbacks at monotonic instants."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._seq = 0
        self._timer: Timer | None = None
        self._timer_at_ms = float("inf")
        self._stopped = False

    def after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """Run `callback` once, `delay_ms` from now or a little later."""
        if self._stopped:
            return
        self._seq += 1
        heapq.heappush(self._heap, (self._clock.monotonic_ms() + delay_ms, self._seq, callback))
        self._arm()

    def stop(self) -> None:
        """Forget everything and take nothing any more."""
        self._stopped = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if not self._heap or self._heap[0][0] >= self._timer_at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = self._heap[0][0]
        self._timer = self._clock.call_later(self._timer_at_ms - self._clock.monotonic_ms(), self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at_ms = None, float("inf")
        now_ms = self._clock.monotonic_ms() + EARLY_MS
        try:
            while self._heap and self._heap[0][0] <= now_ms:
                _, _, callback = heapq.heappop(self._heap)
                callback()
        finally:
            # One callback's defect must not stop the others: the loop logs it, and the rest rings again.
            self._arm()
