"""How long a lease request is worth an answer: 2 s past its due time, and longer where owners are slower than usual.

With a fixed life, an owner whose loop takes longer than that would refuse every request for being late, grant nothing,
and stay busy with refusals: no run would start although every request is answered. So a request lives for three times
the longest wait heard of lately; what was heard counts half after ten seconds.
"""

from __future__ import annotations

import math
from typing import Final

LIFE_MS_MIN: Final = 2_000
"""DESIGN section 7, point 3. A healthy owner answers within a tenth of a second."""

LIFE_MS_MAX: Final = 10_000
"""A slot is reserved for so long. Half of a usual poll, and longer than the pause of a take-over."""

WAITS: Final = 3
"""Times the longest wait: the next may be longer, by a commit or two."""

HALF_LIFE_MS: Final = 10_000


class RequestLife:
    """Learns from the answers of one gateway."""

    def __init__(self) -> None:
        self._wait_ms = 0.0
        self._at_ms = 0

    def heard(self, waited_ms: int, now_ms: int) -> None:
        """Take one answer, grant or refusal: how long after the request, or after its due time, it was written."""
        self._wait_ms = max(float(waited_ms), self._wait_now_ms(now_ms))
        self._at_ms = now_ms

    def ms(self, now_ms: int) -> int:
        """Give the life of a request that is sent now, past its due time."""
        return int(min(LIFE_MS_MAX, max(LIFE_MS_MIN, WAITS * self._wait_now_ms(now_ms))))

    def _wait_now_ms(self, now_ms: int) -> float:
        return self._wait_ms * math.exp2(-max(0, now_ms - self._at_ms) / HALF_LIFE_MS)
