"""The POSIX TZ string in a TZif footer: the rule for the years after the last listed transition (RFC 8536, 3.3)."""

from __future__ import annotations

import re
from datetime import date

from streams.core.time.civil import DAY_S, END_INSTANT_S, day_number, weekday_of

_ZONE = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+\-]+>)"
_CLOCK = r"[+\-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_TZ = re.compile(
    rf"{_ZONE}(?P<std>{_CLOCK})(?:{_ZONE}(?P<dst>{_CLOCK})?(?:,(?P<start>[^,]+),(?P<end>[^,]+))?)?(?P<rest>.*)"
)
_HAS_DST = re.compile(rf"{_ZONE}{_CLOCK}{_ZONE}")
_LAST_YEAR = 2200


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))


def _rule_day(rule: str, year: int) -> int:
    """Day number of a rule's date: ``Mm.w.d``, ``Jn`` (1 to 365, no leap day) or ``n`` (0 to 365)."""
    new_year = day_number(date(year, 1, 1))
    if rule.startswith("M"):
        month, week, weekday = (int(part) for part in rule[1:].split("."))
        first = day_number(date(year, month, 1))
        day = first + (weekday - weekday_of(first)) % 7 + 7 * (week - 1)
        after = day_number(date(year + month // 12, month % 12 + 1, 1))
        return day if day < after else day - 7
    if rule.startswith("J"):
        leap = day_number(date(year + 1, 1, 1)) - new_year == 366
        number = int(rule[1:])
        return new_year + number - 1 + (1 if leap and number >= 60 else 0)
    return new_year + int(rule)


def _rule_local_s(rule: str, year: int) -> int:
    day, _, clock = rule.partition("/")
    return _rule_day(day, year) * DAY_S + _seconds(clock or "2")


def posix_offsets(text: str, after_s: int) -> tuple[int, list[tuple[int, int]]]:
    """Return (standard offset, [(instant, offset from then on)]) for all transitions past ``after_s``."""
    match = _TZ.fullmatch(text)
    if match is None or match["rest"]:
        raise ValueError(f"unreadable TZ string {text!r}")
    std = -_seconds(match["std"])
    if not _HAS_DST.match(text):
        return std, []
    dst = -_seconds(match["dst"]) if match["dst"] else std + 3600
    start, end = match["start"] or "M3.2.0", match["end"] or "M11.1.0"
    first_year = 1970 + after_s // (366 * DAY_S) - 1
    steps = []
    for year in range(first_year, _LAST_YEAR + 1):
        # A forward step sorts last among equals: "DST all year" ends and starts at one instant.
        steps.append((_rule_local_s(end, year) - dst, 0, std))
        steps.append((_rule_local_s(start, year) - std, 1, dst))
    ordered = [(instant, offset) for instant, _, offset in sorted(steps)]
    return std, [step for step in ordered if after_s < step[0] < END_INSTANT_S]
