"""The next version of every record, as a release to come might write it: one optional field more at the end.

`know` lets this process read it: what a release must do before one writes it (docs/schemas.md, "Rolling out").
`write` makes this process write it. Its bytes are those of today, under another id, and a null behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import fastavro
import msgspec

from schemas.catalog import CATALOG, RegisteredSchema
from schemas.codec import CODEC, header_of
from streams.core import wire

if TYPE_CHECKING:
    from collections.abc import Callable

ID_STEP: Final = 1_000
"""Between the id of a version of today and that of the next one; no id of today comes near it."""

ADDED: Final = {"name": "added_later", "type": ["null", "string"], "default": None}
NULL: Final = b"\0"


def know() -> None:
    """Read the next versions as well."""
    for name in CATALOG.names():
        present = CATALOG.latest(name)
        schema = {**present.schema, "fields": [*present.schema["fields"], ADDED]}
        coming = RegisteredSchema(name=name, version=present.version + 1, id=present.id + ID_STEP, schema=schema)
        CODEC._by_id[coming.id] = coming
        CODEC._parsed[coming.id] = fastavro.parse_schema(msgspec.convert(schema, dict[str, Any]))


def write() -> None:
    """Write the next versions, and read them on the fast way; versions of today are then the older ones."""
    for function in vars(wire).values():
        kind = getattr(function, "__qualname__", "")
        if kind == "_writer.<locals>.write":
            _next_header(_cells(function))
            encode = _cells(function)["encode"]
            encode.cell_contents = _with_null(encode.cell_contents)
        elif kind == "_reader.<locals>.read":
            _next_header(_cells(function))
            decode = _cells(function)["decode"]
            decode.cell_contents = _over_null(decode.cell_contents)


def is_newer(value: bytes | None) -> bool:
    """Tell whether a record was written in a next version."""
    return value is not None and int.from_bytes(value[1:5], "big") > ID_STEP


def _cells(function: Callable[..., object]) -> dict[str, Any]:
    """Give what a function made by a function has in hand, by name: it was imported by others long ago."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _next_header(cells: dict[str, Any]) -> None:
    present = cells["header"].cell_contents
    cells["header"].cell_contents = header_of(int.from_bytes(present[1:], "big") + ID_STEP)


def _with_null(encode: Callable[[object], bytes]) -> Callable[[object], bytes]:
    return lambda value: encode(value) + NULL


def _over_null(decode: Callable[[bytes, int], tuple[object, int]]) -> Callable[[bytes, int], tuple[object, int]]:
    def over(data: bytes, begin: int) -> tuple[object, int]:
        value, end = decode(data, begin)
        return value, end + data.startswith(NULL, end)

    return over
