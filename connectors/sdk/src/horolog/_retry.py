"""One rule for waiting between repeats: exponential with full jitter, never shorter than the server asks."""

from __future__ import annotations

import random

_EXPONENT_MAX = 16  # beyond that every limit is reached; keeps 2**n small


def backoff_seconds(failures: int, *, base: float, limit: float, floor: float = 0.0) -> float:
    """Return how long to wait after `failures` (1 or more) failures in a row.

    Random in (0.5, 1] of `min(limit, base * 2^(failures-1))` seconds, and at least `floor` (a Retry-After).
    Half of it is fixed, so that a dead gateway is not asked in a tight loop by anybody's luck.
    """
    ceiling = min(limit, base * 2.0 ** min(failures - 1, _EXPONENT_MAX))
    spread = 0.5 + random.random() / 2  # noqa: S311 - jitter, not a secret
    return max(floor, ceiling * spread)
