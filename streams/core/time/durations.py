"""Durations as people write them: ``90s``, ``15m``, ``1h30m``, ``7d``, ``250ms``, or a bare number of seconds."""

from __future__ import annotations

import re

from streams.core.time.rejection import InvalidSchedule

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
#: Twelve digits of the smallest unit are 31 years; the number of parts is bounded by the units.
_PART = re.compile(r"([0-9]{1,12})(ms|s|m|h|d|w)")
_WHOLE = re.compile(r"(?:[0-9]{1,12}(?:ms|s|m|h|d|w)){1,6}")


def parse_duration_ms(field: str, text: str) -> int:
    """Return the milliseconds of a duration. Raises InvalidSchedule naming ``field``."""
    if re.fullmatch(r"[0-9]{1,12}", text):
        return int(text) * 1_000
    if _WHOLE.fullmatch(text) is None:
        raise InvalidSchedule(field, text, "not a duration", "write 90s, 15m, 1h30m, 7d or 250ms")
    return sum(int(amount) * _UNIT_MS[unit] for amount, unit in _PART.findall(text))
