"""Cron text to fields: what is accepted, what each item means, and why the rest is refused.

Contract: ``parse_cron`` is a pure function of text and job id, bounded in time by the limits below. The grammar, ``H``,
``L``, ``W`` and ``#`` are read here; plain numbers, names, ranges and steps are expanded by croniter, after the
forms that croniter 5 gets wrong (``a-a``, ranges up to Sunday = 7) were rewritten to plain lists (DESIGN section 9).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

import croniter
from croniter.croniter import EXPRESSIONS  # type: ignore[attr-defined]  # the stubs leave it out

from streams.core.time.rejection import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The longest useful expression seen is under 100 characters; every list of 60 values fits in 170.
EXPRESSION_CHARS_MAX = 256
#: Nobody lists more items in a field than it has values; 60 is the largest field.
LIST_ITEMS_MAX = 60

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class FieldKind(NamedTuple):
    """Name, bounds, bounds of a hashed value, and names of values of one field."""

    name: str
    low: int
    high: int
    hash_high: int
    names: tuple[str, ...] = ()
    names_from: int = 0


SECOND = FieldKind("second", 0, 59, 59)
MINUTE = FieldKind("minute", 0, 59, 59)
HOUR = FieldKind("hour", 0, 23, 23)
# A hashed day stays within 1 to 28, as in Jenkins: every month has it.
DAY = FieldKind("day of month", 1, 31, 28)
MONTH = FieldKind("month", 1, 12, 12, MONTH_NAMES, 1)
WEEKDAY = FieldKind("day of week", 0, 7, 6, WEEKDAY_NAMES, 0)
FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class DayRules(NamedTuple):
    """The day items that depend on the month's shape.

    ``last_offsets``: days before the last (``L`` is 0). ``nearest``: ``15W``. ``last_weekday``: ``LW``. ``capped``:
    ``30L``, the 30th or the last day of a shorter month. ``nth``: (weekday, n). ``last_of``: the last such weekday.
    """

    last_offsets: frozenset[int] = frozenset()
    nearest: frozenset[int] = frozenset()
    last_weekday: bool = False
    capped: frozenset[int] = frozenset()
    nth: frozenset[tuple[int, int]] = frozenset()
    last_of: frozenset[int] = frozenset()


class CronFields(NamedTuple):
    """A parsed expression; sorted values per field, ``texts`` seconds first.

    ``elapsed`` is R2's test (second, minute or hour begins with a star), ``days_both`` R5's (both day fields must
    match).
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    day_rules: DayRules
    days_both: bool
    elapsed: bool
    texts: tuple[str, ...]


def uses_hash(expression: str) -> bool:
    """Whether the job id can matter (an ``H`` that is not part of a name such as THU or MARCH)."""
    return re.search(r"(?<![A-Za-z])[Hh](?![A-Za-z])", expression) is not None


def parse_cron(expression: str, job_id: str) -> CronFields:
    """Parse five or six fields. Raises InvalidSchedule naming the field, the text and the fix."""
    texts = _split(expression)
    plain: list[str] = []
    rules = _RuleCollector()
    for kind, text in zip(FIELDS, texts, strict=True):
        items = text.split(",")
        if len(items) > LIST_ITEMS_MAX:
            raise InvalidSchedule(
                kind.name, text, f"more than {LIST_ITEMS_MAX} items", "use a range with a step, such as 0-59/2"
            )
        plain.append(",".join(_plain_items(kind, items, job_id, rules)))
    values = _expand(plain)
    star = [_begins_with_star(text) for text in texts]
    return CronFields(
        seconds=values[0],
        minutes=values[1],
        hours=values[2],
        days=values[3],
        months=values[4],
        weekdays=values[5],
        day_rules=rules.frozen(),
        days_both=star[3] or star[5],
        elapsed=any(star[:3]),
        texts=tuple(texts),
    )


def _split(expression: str) -> list[str]:
    """Six upper-case field texts, seconds first. Refuses foreign dialects by name."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise InvalidSchedule(
            "cron", expression, f"longer than {EXPRESSION_CHARS_MAX} characters", "use lists, ranges and steps"
        )
    text = expression.strip()
    if text.startswith("@"):
        text = _alias(text)
    if text[:5].lower() == "cron(":
        raise InvalidSchedule("cron", expression, "AWS dialect (year field, Sunday is 1)", f"write {_from_aws(text)!r}")
    fields = text.upper().split()
    if len(fields) == 6 and "?" in (fields[2], fields[4]):
        # A question mark there can only be minute-first with a year behind: in Quartz these are hour and month.
        raise InvalidSchedule(
            "cron", expression, "AWS dialect (year field, Sunday is 1)", f"write {_from_aws(f'cron({text})')!r}"
        )
    if len(fields) == 7 or "?" in text:
        raise InvalidSchedule("cron", expression, *_quartz(fields))
    if len(fields) not in (5, 6):
        raise InvalidSchedule(
            "cron",
            expression,
            f"has {len(fields)} fields",
            "write five fields (minute hour day month weekday) or six with seconds first",
        )
    return ["0", *fields] if len(fields) == 5 else fields


def _alias(text: str) -> str:
    alias = ALIASES.get(text.lower())
    if alias is not None:
        return alias
    if text.lower().startswith("@every"):
        raise InvalidSchedule("cron", text, "an interval is not a cron expression", "use the interval schedule `every`")
    raise InvalidSchedule("cron", text, "unknown alias", f"use one of {', '.join(sorted(ALIASES))}")


def _quartz(fields: list[str]) -> tuple[str, str]:
    """Reason and fix for Quartz text: seven fields, or ``?``; its Sunday is 1."""
    if len(fields) not in (5, 6, 7):
        return "`?` is Quartz dialect", "write `*` instead of `?`, and number weekdays from Sunday = 0"
    reason = "seven fields (a year) are Quartz dialect" if len(fields) == 7 else "`?` is Quartz dialect"
    kept = ["*" if field == "?" else field for field in fields[:6]]
    if len(fields) != 5:
        kept[5] = _shift_weekdays(kept[5])
    year = f" (without the year {fields[6]}: use an active window)" if len(fields) == 7 and fields[6] != "*" else ""
    return reason, f"write {' '.join(kept)!r}{year}; weekdays count from Sunday = 0 here"


def _from_aws(text: str) -> str:
    fields = text[5:].rstrip(")").upper().split()
    if len(fields) != 6:
        return "minute hour day month weekday"
    kept = ["*" if field == "?" else field for field in fields[:5]]
    kept[4] = _shift_weekdays(kept[4])
    return " ".join(kept)


def _shift_weekdays(text: str) -> str:
    """Weekday numbers from Sunday = 1 to Sunday = 0; steps and nth stay."""
    return re.sub(r"(?<![/#0-9])[1-7](?![0-9])", lambda m: str(int(m[0]) - 1), text)


def _begins_with_star(text: str) -> bool:
    """R2 and R5: ``H/15`` and ``H(0-29)/10`` count as beginning with a star, a bare ``H`` does not."""
    return text.startswith("*") or re.match(r"H(\([^)]*\))?/", text) is not None


class _RuleCollector:
    """Gathers the month-shaped items while the fields are read."""

    def __init__(self) -> None:
        self.last_offsets: set[int] = set()
        self.nearest: set[int] = set()
        self.last_weekday = False
        self.capped: set[int] = set()
        self.nth: set[tuple[int, int]] = set()
        self.last_of: set[int] = set()

    def frozen(self) -> DayRules:
        return DayRules(
            frozenset(self.last_offsets),
            frozenset(self.nearest),
            self.last_weekday,
            frozenset(self.capped),
            frozenset(self.nth),
            frozenset(self.last_of),
        )


_RANGE = re.compile(r"(?:(\*)|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]+))?")
_HASH = re.compile(r"H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?")
_NTH = re.compile(r"([0-9A-Z]+)#([0-9]+)")
_DAY_NUMBER = re.compile(r"([0-9]{1,2})([WL])")
_LAST_MINUS = re.compile(r"L(?:-([0-9]{1,2}))?")


def _plain_items(kind: FieldKind, items: list[str], job_id: str, rules: _RuleCollector) -> list[str]:
    """Return the items that croniter will expand; the month-shaped ones go to ``rules``."""
    plain: list[str] = []
    for item in items:
        special = (kind is DAY and _day_special(item, rules)) or (kind is WEEKDAY and _weekday_special(item, rules))
        if special:
            continue
        hashed = _HASH.fullmatch(item)
        if hashed is not None:
            plain.extend(_hashed(kind, item, hashed, job_id))
        else:
            plain.extend(_range(kind, item))
    # croniter leaves a star beside other items unexpanded; the whole field is what it means.
    return ["*"] if "*" in plain else plain


def _day_special(item: str, rules: _RuleCollector) -> bool:
    last = _LAST_MINUS.fullmatch(item)
    if last is not None:
        offset = int(last[1] or 0)
        if offset > 30:
            raise InvalidSchedule(DAY.name, item, "no month has that many days", "use L-0 to L-30")
        rules.last_offsets.add(offset)
        return True
    if item == "LW":
        rules.last_weekday = True
        return True
    numbered = _DAY_NUMBER.fullmatch(item)
    if numbered is None:
        return False
    day = _value(DAY, numbered[1], item)
    (rules.nearest if numbered[2] == "W" else rules.capped).add(day)
    return True


def _weekday_special(item: str, rules: _RuleCollector) -> bool:
    nth = _NTH.fullmatch(item)
    if nth is not None:
        weekday, n = _value(WEEKDAY, nth[1], item) % 7, int(nth[2][:3])
        if not 1 <= n <= 5:
            raise InvalidSchedule(WEEKDAY.name, item, "a month has at most five of a weekday", "use #1 to #5")
        rules.nth.add((weekday, n))
        return True
    if item == "L":
        raise InvalidSchedule(WEEKDAY.name, item, "L needs a weekday here", "write 5L for the last Friday")
    if item.endswith("L") and len(item) > 1:
        rules.last_of.add(_value(WEEKDAY, item[:-1], item) % 7)
        return True
    if re.fullmatch(r"L[0-7]", item):
        rules.last_of.add(int(item[1]) % 7)
        return True
    return False


def _value(kind: FieldKind, text: str, item: str) -> int:
    """Return a number or name within the field's bounds."""
    if text in kind.names:
        return kind.names.index(text) + kind.names_from
    if not text.isascii() or not text.isdigit():
        allowed = f"{kind.low} to {kind.high}"
        names = f" or {kind.names[0]} to {kind.names[-1]}" if kind.names else ""
        raise InvalidSchedule(kind.name, item, f"{text[:20]!r} is not a value", f"use {allowed}{names}")
    value = int(text[:5])
    if not kind.low <= value <= kind.high:
        fix = f"use {kind.low} to {kind.high}"
        if kind is WEEKDAY:
            fix += " (0 and 7 are Sunday)"
        elif value >= 1970:
            fix += "; a year has no field: use an active window"
        raise InvalidSchedule(kind.name, item, f"{text[:20]} is out of range", fix)
    return value


def _step(kind: FieldKind, item: str, text: str, low: int, high: int) -> int:
    step = int(text[:6])
    if step < 1:
        raise InvalidSchedule(kind.name, item, "a step of 0 never advances", "use a step of 1 or more")
    if step > max(high - low, 1):
        raise InvalidSchedule(
            kind.name,
            item,
            f"the step {text[:20]} is longer than {low}-{high}, so only {low} would ever match",
            f"write {low}, or use the interval schedule `every` for elapsed time",
        )
    return step


def _range(kind: FieldKind, item: str) -> list[str]:
    """``*``, ``a``, ``a-b`` with an optional step, checked and rewritten to what croniter reads right."""
    match = _RANGE.fullmatch(item)
    if match is None:
        raise InvalidSchedule(kind.name, item or "(empty item)", "not understood", _grammar(kind))
    star, first, last, step_text = match.groups()
    top = 6 if kind is WEEKDAY else kind.high
    if star:
        low, high = kind.low, top
    else:
        low = _value(kind, first, item)
        high = _value(kind, last, item) if last else (max(top, low) if step_text else low)
    if high < low:
        after = last if high == kind.low else f"{kind.low}-{last}"
        before = first if low == top else f"{first}-{top}"
        fix = f"write {after}" if low > top else f"write {before},{after}"  # a week that begins with 7 begins with 0
        if step_text:
            size, step = top - kind.low + 1, max(int(step_text[:6]), 1)
            wrapped = range(low, high + size + 1, step)
            fix = f"write {','.join(str((value - kind.low) % size + kind.low) for value in wrapped)}"
        raise InvalidSchedule(kind.name, item, "the range runs backwards", fix)
    step = _step(kind, item, step_text, low, high) if step_text else 1
    if star and step == 1:
        return ["*"]
    if low == high:
        return [str(low % 7 if kind is WEEKDAY else low)]
    if kind is WEEKDAY and high == 7:
        return [str(day % 7) for day in range(low, high + 1, step)]
    return [f"{low}-{high}/{step}"]


def _grammar(kind: FieldKind) -> str:
    more = {
        DAY: ", L, L-3, LW, 15W or 30L (the 30th or the month's last day)",
        WEEKDAY: ", names, 5L (last Friday) or 5#3 (third Friday)",
        MONTH: " or names",
    }.get(kind, "")
    return f"use *, numbers {kind.low}-{kind.high}, ranges a-b, steps /n, lists, H{more}"


def _hashed(kind: FieldKind, item: str, match: re.Match[str], job_id: str) -> list[str]:
    """``H``, ``H(a-b)``, ``H/n``, ``H(a-b)/n``: a stable phase from the job id, salted by the field."""
    low, high = kind.low, kind.hash_high
    if match[1] is not None:
        low, high = _value(kind, match[1], item), _value(kind, match[2], item)
        if high < low:
            raise InvalidSchedule(kind.name, item, "the range runs backwards", f"write H({high}-{low})")
    if match[3] is None:
        return [_weekday_text(kind, low + stable_hash(kind.name, job_id) % (high - low + 1))]
    step = _step(kind, item, match[3], low, high)
    first = low + stable_hash(kind.name, job_id) % min(step, high - low + 1)
    return [_weekday_text(kind, value) for value in range(first, high + 1, step)]


def _weekday_text(kind: FieldKind, value: int) -> str:
    return str(value % 7 if kind is WEEKDAY else value)


def stable_hash(salt: str, key: str) -> int:
    """64 bits of BLAKE2b: the same in every process, version and host, evenly spread."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=salt.encode()).digest()
    return int.from_bytes(digest, "big")


def _expand(plain: list[str]) -> tuple[tuple[int, ...], ...]:
    """Sorted values per field, seconds first, by croniter.

    A field whose items are all month-shaped has no plain values; croniter gets a star there and the result is dropped.
    """
    text = " ".join(field or "*" for field in plain)
    expanded, _ = croniter.croniter.expand(text, second_at_beginning=True)
    # croniter remembers every expression for ever; an owner compiles millions.
    EXPRESSIONS.pop((text, None, True), None)
    minutes, hours, days, months, weekdays, seconds = expanded[:6]
    ordered = (seconds, minutes, hours, days, months, weekdays)
    return tuple(
        () if not field else _values(kind, values) for kind, field, values in zip(FIELDS, plain, ordered, strict=True)
    )


def _values(kind: FieldKind, values: Sequence[int | str]) -> tuple[int, ...]:
    if values == ["*"]:
        return tuple(range(kind.low, 7 if kind is WEEKDAY else kind.high + 1))
    return tuple(sorted(int(value) for value in values))
