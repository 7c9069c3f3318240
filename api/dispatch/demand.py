"""What the gateway tells owners about its waiting workers: free slots per queue, without flicker.

Pure: time comes in as an argument, in monotonic milliseconds. The published number of a queue is the peak of its free
slots over the last second: at full load slots are taken and given back in milliseconds, and owners should see the
capacity. So a rise is told soon (throttled), a fall with the next refresh.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from streams.core.envelopes import QueueDemand

PEAK_WINDOW_MS: Final = 1_000
"""Longer than a worker's answer-and-poll turn, shorter than an owner's patience with an offer (2 s)."""

PUBLISH_EVERY_MS_MIN: Final = 20
"""Throttle of changes: 50 records a second of one gateway are nothing for owners."""

REFRESH_EVERY_MS: Final = 1_000
"""Owners forget a gateway after 5 s of silence; four refreshes may be lost."""

FORGET_GATEWAY_AFTER_MS: Final = 5_000
"""The owner's side of the same rule, named here because both sides must agree."""

QueueKey = tuple[str, str]
"""(tenant, queue)."""


class _Peak:
    """Sliding maximum of a step function: the present value, and past values that still exceed it."""

    __slots__ = ("_past", "value")

    def __init__(self) -> None:
        self.value = 0
        self._past: deque[tuple[float, int]] = deque()

    def set(self, value: int, now_ms: float) -> None:
        """Change the present value."""
        if value < self.value:
            while self._past and self._past[-1][1] <= self.value:
                self._past.pop()
            self._past.append((now_ms, self.value))
        self.value = value

    def at(self, now_ms: float) -> int:
        """Give the largest value held within the window that ends now."""
        past = self._past
        while past and (past[0][0] <= now_ms - PEAK_WINDOW_MS or past[0][1] <= self.value):
            past.popleft()
        return past[0][1] if past else self.value


class DemandBook:
    """Free slots of all queues of one gateway."""

    def __init__(self) -> None:
        self._peaks: dict[QueueKey, _Peak] = {}
        self._published: dict[QueueKey, int] = {}
        self._published_at_ms = float("-inf")
        self._risen = False

    def set_free(self, key: QueueKey, slots: int, now_ms: float) -> bool:
        """Say how many slots of a queue wait with no request in flight. True: owners should hear it soon."""
        peak = self._peaks.get(key)
        if peak is None:
            if slots == 0:
                return False
            peak = self._peaks[key] = _Peak()
        if slots != peak.value:
            peak.set(slots, now_ms)
        if slots > self._published.get(key, 0):
            self._risen = True
            return True
        return False

    def due_in_ms(self, now_ms: float) -> float:
        """Give how long until `take` has something: by the throttle after a rise, else by the refresh."""
        every_ms = PUBLISH_EVERY_MS_MIN if self._risen else REFRESH_EVERY_MS
        return max(self._published_at_ms + every_ms - now_ms, 0)

    def take(self, now_ms: float) -> tuple[QueueDemand, ...] | None:
        """Give the whole demand to publish now; None if it is not time. An empty tuple says that nobody waits."""
        if self.due_in_ms(now_ms) > 0:
            return None
        queues = []
        self._published = {}
        for key, peak in list(self._peaks.items()):
            slots = peak.at(now_ms)
            if slots:
                self._published[key] = slots
                queues.append(QueueDemand(tenant=key[0], queue=key[1], slots=slots))
            else:
                del self._peaks[key]
        self._published_at_ms, self._risen = now_ms, False
        return tuple(queues)
