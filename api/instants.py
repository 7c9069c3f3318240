"""Instants and lengths of time as docs/http-api.md writes them. Pure.

Instants are RFC 3339 with an offset; inside they are integers, milliseconds since 1970-01-01T00:00Z.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_INSTANT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_PART: Final = re.compile(r"(\d{1,15})(ms|s|m|h|d)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

INSTANT_ALLOWED: Final = "RFC 3339 with an offset, for instance 2026-12-01T09:00:00Z"
LENGTH_ALLOWED: Final = "milliseconds as a whole number, or parts such as 90s, 15m, 1h30m"

INSTANT_MS_MIN: Final = -62_135_596_800_000
INSTANT_MS_MAX: Final = 253_402_300_799_999
"""Years 1 to 9999 in UTC: with an offset a text can lie outside, and could not be written back."""

SECOND_CHARS: Final = len("2026-12-01T09:00:00")

SECONDS_CACHED: Final = 4_096
"""Seconds whose text is remembered: instants in answers lie close together."""


def parse_instant(text: str) -> int:
    """Read an instant; fractions are cut to milliseconds. Raises ValueError with a sentence."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not an instant; write {INSTANT_ALLOWED}")
    date, time, fraction, zone = match.groups()
    try:
        at = datetime.fromisoformat(f"{date}T{time}{'+00:00' if zone in 'Zz' else zone}")
        whole_ms = int(at.timestamp()) * 1000
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:40]!r} is not an instant: {error}") from None
    at_ms = whole_ms + int((fraction or "0").ljust(3, "0")[:3])
    if not INSTANT_MS_MIN <= at_ms <= INSTANT_MS_MAX:
        raise ValueError(f"{text[:40]!r} is out of range; write an instant of the years 1 to 9999")
    return at_ms


def instant_text(at_ms: int) -> str:
    """Write an instant in UTC with milliseconds and Z."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{_second_text(seconds)}.{ms:03d}Z"


def instant_or_none(at_ms: int | None) -> str | None:
    """Write an instant; None and 0 (which the core uses for "never") are None."""
    return instant_text(at_ms) if at_ms else None


@lru_cache(SECONDS_CACHED)
def _second_text(seconds: int) -> str:
    # Not strftime: on Linux its %Y writes the year 1 as "1".
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:SECOND_CHARS]


def parse_length_ms(value: int | str) -> int:
    """Read `every`. Raises ValueError with a sentence."""
    if isinstance(value, int):
        return value
    total_ms = at = 0
    for part in _PART.finditer(value):
        if part.start() != at:
            break
        total_ms += int(part[1]) * _UNIT_MS[part[2]]
        at = part.end()
    if at != len(value) or not value:
        raise ValueError(f"{value[:40]!r} is not a length of time; write {LENGTH_ALLOWED}")
    return total_ms


def ms_of_seconds(seconds: float) -> int:
    """Whole milliseconds of a number of seconds."""
    return round(seconds * 1000)
