"""Structs to plain Avro records and back, by their types: the slow and obvious way.

It defines what streams.core.wire_generated must agree with, byte for byte, and it reads what older versions of a
schema wrote. Names differ between struct and record in a few places only, listed here.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from schemas.catalog import NAMESPACE
from streams.core import state
from streams.core.definition import Definition
from streams.core.envelopes import HistoryEntry, Marker
from streams.core.time import (
    CalendarIntervalSpec,
    CronSpec,
    IntervalSpec,
    LocalOneOffSpec,
    OneOffSpec,
    RRuleSpec,
)

RECORD_NAMES: Final[dict[type, str]] = {
    CalendarIntervalSpec: "CalendarIntervalSchedule",
    CronSpec: "CronSchedule",
    Definition: "JobDefinition",
    HistoryEntry: "HistoryRecord",
    IntervalSpec: "IntervalSchedule",
    LocalOneOffSpec: "LocalOneOffSchedule",
    Marker: "LedgerMarker",
    OneOffSpec: "OneOffSchedule",
    RRuleSpec: "RRuleSchedule",
    state.Pause: "JobPause",  # the command Pause has the plain name
}

UNKNOWN_SYMBOL: Final = "unknown"
"""What Avro puts in place of an enum symbol that a later version wrote. Never guessed at: such a record is refused."""


class UnknownSymbol(ValueError):  # noqa: N818 - reads as a sentence
    """An enum symbol that this version does not know, with the path of its field."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


S = TypeVar("S", bound=msgspec.Struct)
_Convert = Callable[[Any], Any]


def record_name(struct: type) -> str:
    """Return the name of a struct's record, without the namespace."""
    return RECORD_NAMES.get(struct, struct.__name__)


def to_record(value: msgspec.Struct) -> dict[str, Any]:
    """Return the plain record of a struct, as schemas.codec takes it."""
    return {name: to_plain(getattr(value, name)) for name, to_plain, _ in _plan(type(value))}


def from_record(struct: type[S], record: dict[str, Any]) -> S:
    """Return the struct of a plain record. Fields that the struct has not are left out.

    Raises UnknownSymbol for an enum symbol that is not known here, KeyError for a missing field.
    """
    values: dict[str, Any] = {}
    for name, _, from_plain in _plan(struct):
        try:
            values[name] = from_plain(record[name])
        except UnknownSymbol as error:
            raise UnknownSymbol(f"{name}.{error.field}".rstrip("."), error.reason) from None
    return struct(**values)


@cache
def _plan(struct: type) -> tuple[tuple[str, _Convert, _Convert], ...]:
    hints = typing.get_type_hints(struct)
    plan: list[tuple[str, _Convert, _Convert]] = []
    for field in msgspec.structs.fields(struct):
        to_plain, from_plain = _converters(hints[field.name])
        if (struct, field.name) == _NULL_WHEN_EMPTY:
            to_plain, from_plain = _null_when_empty, _empty_when_null
        plan.append((field.name, to_plain, from_plain))
    return tuple(plan)


_NULL_WHEN_EMPTY: Final = (Definition, "payload")
"""Nullable in Avro, never null in Python: JobDefinition.avsc says why."""


def _null_when_empty(value: bytes) -> bytes | None:
    return value or None


def _empty_when_null(value: bytes | None) -> bytes:
    return value or b""


def _same(value: Any) -> Any:
    return value


def _converters(hint: Any) -> tuple[_Convert, _Convert]:
    """Return the two directions for one type of field."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return _union(args)
    if origin is typing.Literal:
        return _same, _symbol(frozenset(args))
    if origin is tuple:
        to_plain, from_plain = _converters(args[0])
        return lambda items: [to_plain(i) for i in items], lambda items: tuple(from_plain(i) for i in items)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return to_record, lambda record: from_record(hint, record)
    return _same, _same


def _union(args: tuple[Any, ...]) -> tuple[_Convert, _Convert]:
    branches = [arg for arg in args if arg is not type(None)]
    if len(branches) == 1:
        to_plain, from_plain = _converters(branches[0])
        return (
            lambda value: None if value is None else to_plain(value),
            lambda value: None if value is None else from_plain(value),
        )
    by_name = {f"{NAMESPACE}.{record_name(branch)}": branch for branch in branches}
    return (
        lambda value: (f"{NAMESPACE}.{record_name(type(value))}", to_record(value)),
        lambda pair: from_record(by_name[pair[0]], pair[1]),
    )


def _symbol(allowed: frozenset[str]) -> _Convert:
    def check(value: str) -> str:
        if value not in allowed:
            raise UnknownSymbol("", f"{value!r} is not one of {', '.join(sorted(allowed))}")
        return value

    return check
