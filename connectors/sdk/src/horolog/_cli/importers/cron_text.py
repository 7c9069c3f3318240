"""Five-field cron text of two foreign dialects, rewritten for ours (DESIGN section 9); every difference is named. Pure.

`vixie` is the dialect of vixie cron and cronie, `robfig` that of Kubernetes (the Go library robfig/cron, standard
parser). Both take the fields minute, hour, day of month, month, day of week. What they do differently from us:

- vixie: `a~b` is a random value; `FRI-SUN` ends in 7; a range that runs backwards is taken and never matches.
- robfig: `?` is `*`; `a/n` runs to the end; Sunday is only 0; a star with a step is no star to the rule of the two
  day fields, so `*/2` beside a weekday means "either", where vixie cron and R5 say "both".
- both: a step longer than its field is taken and gives the first value alone; ours refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from horolog._cli.importers.remarks import NotTranslatableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UTC_NAMES = frozenset({"UTC", "Etc/UTC", "Zulu", "GMT", "Etc/GMT"})  # zones whose clocks never change
VIXIE, ROBFIG = "vixie", "robfig"
CHARACTERS_MAX = 256  # the core's bound of an expression (docs/time-rules.md)
ITEMS_MAX = 60  # the core's bound of a list
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# Clock changes lie between midnight and four; with a jump of up to an hour, later hours meet none.
_HOURS_OF_CHANGES = frozenset(range(4))


class Field(NamedTuple):
    """Name, bounds and names of values; `star_high` is where `*` ends (a second Sunday, 7, adds nothing)."""

    name: str
    low: int
    high: int
    star_high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    Field("minute", 0, 59, 59),
    Field("hour", 0, 23, 23),
    Field("day of month", 1, 31, 31),
    Field("month", 1, 12, 12, _MONTHS),
    Field("day of week", 0, 7, 6, _WEEKDAYS),
)
MINUTE, HOUR, DAY, MONTH, WEEKDAY = range(5)


@dataclass(frozen=True)
class Item:
    """One item of a list. `text` is ours; `star`: it is `*` or `?`, with or without a step."""

    text: str
    low: int
    high: int
    step: int = 1
    star: bool = False
    random: bool = False

    @property
    def values(self) -> frozenset[int]:
        """The values it matches; a random one counts as its lowest."""
        return frozenset({self.low}) if self.random else frozenset(range(self.low, self.high + 1, self.step))


@dataclass(frozen=True)
class CronText:
    """An expression in our dialect. `fixed` is R2's test; `crowded`: two of its slots may lie in one skipped hour.

    `never`: no month has such a day; cron takes it and never runs it, our gateway would refuse it.
    """

    expression: str
    fixed: bool
    crowded: bool
    never: bool


def read_cron(texts: Sequence[str], dialect: str, note: Callable[[str], None]) -> CronText:
    """Rewrite five fields; `note` hears each difference. Raises NotTranslatableError."""
    if len(texts) != len(_FIELDS):
        message = f"{len(texts)} fields; write five: minute, hour, day of month, month, day of week"
        raise NotTranslatableError(message)
    fields = [_read_field(field, text, dialect, note) for field, text in zip(_FIELDS, texts, strict=True)]
    shown = [",".join(item.text for item in items) for items in fields]
    starred = [text.startswith("*") for text in shown]
    both = _days(fields, shown, dialect, note)
    if both is not None and not both and dialect == VIXIE and (texts[DAY][0] == "*" or texts[WEEKDAY][0] == "*"):
        message = f"{texts[DAY]} and {texts[WEEKDAY]}: both days must match, which cannot be said with that step"
        raise NotTranslatableError(message)
    for place in (MINUTE, HOUR):
        if texts[place].startswith("*") and not starred[place]:
            note(
                f"{_FIELDS[place].name} {texts[place]} became {shown[place]}, no longer a star: if the other of minute "
                "and hour has none either, this is a fixed time in nights of clock changes (R2)"
            )
    expression = " ".join(shown)
    if len(expression) > CHARACTERS_MAX:
        message = f"{len(expression)} characters, at most {CHARACTERS_MAX}; use ranges and steps"
        raise NotTranslatableError(message)
    fixed = not (starred[MINUTE] or starred[HOUR])
    never = shown[WEEKDAY].startswith("*") and _no_such_day(fields)
    return CronText(expression, fixed, fixed and _crowded(fields), never)


def _read_field(field: Field, text: str, dialect: str, note: Callable[[str], None]) -> list[Item]:
    parts = text.split(",")
    if len(parts) > ITEMS_MAX:
        message = f"{field.name}: {len(parts)} items, at most {ITEMS_MAX}; use a range with a step"
        raise NotTranslatableError(message)
    if dialect == ROBFIG:
        if "" in parts:
            note(f"{field.name} {text}: Kubernetes ignores the empty item of the list; it is left out")
        parts = [part for part in parts if part]
    read = _read_vixie if dialect == VIXIE else _read_robfig
    return [_bounded_step(field, part, read(field, part, note), note) for part in parts or [""]]


# --- the days -----------------------------------------------------------------------------------------


def _days(fields: Sequence[list[Item]], shown: list[str], dialect: str, note: Callable[[str], None]) -> bool | None:
    """Write the two day fields so that our rule (R5) says what the dialect's does.

    Gives whether both must match here; None where one of them is a plain star and the question does not arise.
    """
    if dialect == ROBFIG:
        for place in (DAY, WEEKDAY):
            if any(item.star and item.step == 1 for item in fields[place]):
                shown[place] = "*"
    if "*" in (shown[DAY], shown[WEEKDAY]):
        return None
    pair = f"day of month {shown[DAY]} and day of week {shown[WEEKDAY]}"
    if dialect == VIXIE:
        both = shown[DAY].startswith("*") or shown[WEEKDAY].startswith("*")
        if both:
            note(
                f"{pair}: both must match, because one begins with a star (R5); vixie cron and cronie do the same, "
                "busybox and most libraries take either"
            )
        else:
            note(f"{pair}: runs when either matches (R5), as in cron")
        return both
    for place in (DAY, WEEKDAY):
        plain = ",".join(_starless(item) for item in fields[place])
        if plain != shown[place] and shown[place].startswith("*"):
            note(
                f"{_FIELDS[place].name} {shown[place]} is written {plain}: Kubernetes runs when either day field "
                "matches, and with a star at its beginning both would have to (R5)"
            )
            shown[place] = plain
    note(f"day of month {shown[DAY]} and day of week {shown[WEEKDAY]}: runs when either matches, as in Kubernetes")
    return False


def _starless(item: Item) -> str:
    return f"{item.low}-{item.high}/{item.step}" if item.star else item.text


def _no_such_day(fields: Sequence[list[Item]]) -> bool:
    first = min(item.low for item in fields[DAY])
    months = frozenset[int]().union(*(item.values for item in fields[MONTH]))
    random = any(item.random for item in fields[MONTH])
    return not random and all(first > _LONGEST[month - 1] for month in months)


def _crowded(fields: Sequence[list[Item]]) -> bool:
    minutes = frozenset[int]().union(*(item.values for item in fields[MINUTE]))
    hours = frozenset[int]().union(*(item.values for item in fields[HOUR]))
    touched = hours & _HOURS_OF_CHANGES
    return bool(touched) and (len(minutes) > 1 or any(hour + 1 in hours for hour in touched))


# --- items --------------------------------------------------------------------------------------------

_ITEM = re.compile(r"(\*|\?|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?")
_RANDOM = re.compile(r"([0-9A-Za-z]*)~([0-9A-Za-z]*)")


def _read_vixie(field: Field, part: str, note: Callable[[str], None]) -> Item:
    random = _RANDOM.fullmatch(part)
    if random is not None:
        return _random(field, part, random, note)
    match = _ITEM.fullmatch(part)
    if match is None or match[1] == "?":
        raise _unreadable(field, part)
    first, last, step_text = match.groups()
    step = _step(field, part, step_text)
    if first == "*":
        if last is not None:
            raise _unreadable(field, part)
        return Item("*" if step == 1 else part, field.low, field.star_high, step, star=True)
    low = _value(field, first, part)
    if last is None:
        if step_text is not None:
            fix = f"{low}-{field.star_high}/{step}"
            message = f"{field.name} {part}: cron refuses a step behind a single number; write {fix} if that was meant"
            raise NotTranslatableError(message)
        return Item(first.upper(), low, low)
    high = _value(field, last, part)
    if field is _FIELDS[WEEKDAY] and high == 0 < low and step_text is None:
        note(f"day of week {part}: the week ends on Sunday, written {low}-7 here")
        return Item(f"{low}-7", low, 7)
    return _range(field, part, low, high, step)


def _read_robfig(field: Field, part: str, _note: Callable[[str], None]) -> Item:
    match = _ITEM.fullmatch(part)
    if match is None:
        raise _unreadable(field, part)
    first, last, step_text = match.groups()
    step = _step(field, part, step_text)
    if first in {"*", "?"}:
        if last is not None:
            raise _unreadable(field, part)
        return Item("*" if step == 1 else f"*/{step}", field.low, field.star_high, step, star=True)
    low = _value(field, first, part)
    high = low if last is None else _value(field, last, part)
    if field is _FIELDS[WEEKDAY] and 7 in (low, high):
        message = f"day of week {part}: Sunday is 0 in Kubernetes, which refuses 7"
        raise NotTranslatableError(message)
    if last is None:
        if step_text is None:
            return Item(first.upper(), low, low)
        high = field.star_high
        return Item(f"{first.upper()}/{step}" if low < high else first.upper(), low, high, step)
    return _range(field, part, low, high, step)


def _range(field: Field, part: str, low: int, high: int, step: int) -> Item:
    if low > high:
        fix = f"{low}-{field.star_high},{field.low}-{high}"
        message = f"{field.name} {part}: the range runs backwards and matches nothing; write {fix} if that was meant"
        raise NotTranslatableError(message)
    return Item(part.upper() if low < high else str(low), low, high, step)


def _random(field: Field, part: str, match: re.Match[str], note: Callable[[str], None]) -> Item:
    low = _value(field, match[1], part) if match[1] else field.low
    high = _value(field, match[2], part) if match[2] else field.star_high
    if low > high:
        message = f"{field.name} {part}: the range runs backwards; write {high}~{low}"
        raise NotTranslatableError(message)
    note(
        f"{field.name} {part}: cron draws a value each time it reads the file; H({low}-{high}) is drawn once, from the "
        "job's id, and stays"
    )
    return Item(f"H({low}-{high})", low, high, random=True)


def _bounded_step(field: Field, part: str, item: Item, note: Callable[[str], None]) -> Item:
    """Write a step that is longer than its range as the one value that it gives."""
    if item.step == 1 or item.random or item.step <= max(item.high - item.low, 1):
        return item
    note(f"{field.name} {part}: the step is longer than the range, so only {item.low} matches; it is written so")
    return Item(str(item.low), item.low, item.low)


def _step(field: Field, part: str, text: str | None) -> int:
    if text is None:
        return 1
    step = int(text[:6])
    if step < 1:
        message = f"{field.name} {part}: a step of 0 never advances; write 1 or more"
        raise NotTranslatableError(message)
    return step


def _value(field: Field, text: str, part: str) -> int:
    if text.upper() in field.names:
        return field.names.index(text.upper()) + field.low
    if not text.isdigit():
        raise _unreadable(field, part)
    value = int(text) if len(text) <= 6 else field.high + 1
    if not field.low <= value <= field.high:
        message = f"{field.name} {part}: {text[:20]} is out of range {field.low}-{field.high}"
        raise NotTranslatableError(message)
    return value


def _unreadable(field: Field, part: str) -> NotTranslatableError:
    names = f", names {field.names[0]} to {field.names[-1]}" if field.names else ""
    message = (
        f"{field.name} {part[:40]!r} is not understood; write *, numbers {field.low}-{field.high}{names}, a-b, */n"
    )
    return NotTranslatableError(message)
