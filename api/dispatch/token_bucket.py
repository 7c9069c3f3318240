"""A tenant's lease rate: a token bucket with time as an argument, and this gateway's share of it.

Pure. The rate belongs to the tenant and is shared out over gateways by their share of demand (DESIGN section 11); a
gateway that knows of no other has the share 1. Without a rate everything passes.
"""

from __future__ import annotations

from typing import Final

BURST_SECONDS: Final = 1.0
"""What a quiet tenant may take at once: a second of its rate, so that a full hour's first second is not cut up."""


class TokenBucket:
    """Tokens of one tenant at one gateway."""

    __slots__ = ("_at_ms", "_rate_per_s", "_share", "_tokens")

    def __init__(self, rate_per_s: float | None, now_ms: float, share: float = 1.0) -> None:
        self._rate_per_s = rate_per_s
        self._share = share
        self._at_ms = now_ms
        self._tokens = self._capacity()

    def configure(self, rate_per_s: float | None, share: float, now_ms: float) -> None:
        """Change rate (None: unlimited) and share (0 to 1); what was saved up stays, within the new burst."""
        was_unlimited = self._rate_per_s is None
        self._refill(now_ms)
        self._rate_per_s, self._share = rate_per_s, share
        self._tokens = self._capacity() if was_unlimited else min(self._tokens, self._capacity())

    def take(self, count: int, now_ms: float) -> int:
        """Take up to `count` tokens and give how many there were."""
        if self._rate_per_s is None:
            return count
        self._refill(now_ms)
        taken = min(count, int(self._tokens))
        self._tokens -= taken
        return taken

    def give_back(self, count: int) -> None:
        """Return tokens that were not used after all."""
        if self._rate_per_s is not None:
            self._tokens = min(self._tokens + count, self._capacity())

    def wait_ms(self) -> float:
        """Give how long until the next token, as of the last call; 0 if there is one, infinity for a rate of 0."""
        if self._rate_per_s is None or self._tokens >= 1:
            return 0
        rate = self._rate_per_s * self._share
        return (1 - self._tokens) * 1000 / rate if rate > 0 else float("inf")

    def _capacity(self) -> float:
        if self._rate_per_s is None:
            return 0
        rate = self._rate_per_s * self._share
        return max(rate * BURST_SECONDS, 1.0) if rate > 0 else 0.0

    def _refill(self, now_ms: float) -> None:
        elapsed_ms = max(now_ms - self._at_ms, 0)
        self._at_ms = max(now_ms, self._at_ms)
        if self._rate_per_s is not None:
            self._tokens = min(self._tokens + elapsed_ms / 1000 * self._rate_per_s * self._share, self._capacity())
