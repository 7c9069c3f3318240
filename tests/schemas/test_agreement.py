"""Structs and schemas must say the same; this looks at both directly, not through the generator."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec
import pytest

from schemas.catalog import CATALOG
from streams.core.wire_records import UNKNOWN_SYMBOL, record_name
from streams.wire_generator import ROOTS

# Fields with a reason to differ: see wire_generator._SCHEMA_ONLY, and the doc of JobDefinition.payload.
SCHEMA_ONLY = {("JobDefinition", "expected_version")}
NULL_MEANS_EMPTY = {("JobDefinition", "payload")}
# Producers may leave these out; streams.core.wire fills in what the struct requires.
SCHEMA_DEFAULT_ONLY = {
    ("JobDefinition", "tenant"),
    ("JobDefinition", "name"),
    ("JobDefinition", "task"),
    ("JobDefinition", "expected_version"),
    ("JobDefinition", "payload"),
    ("IntervalSchedule", "anchor_ms"),
}


def named_types(root: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    pending = [root]
    while pending:
        match pending.pop():
            case list() as branches:
                pending += branches
            case {"type": "record", "name": name, "fields": fields} as record:
                found[name] = record
                pending += [field["type"] for field in fields]
            case {"type": "enum", "name": name} as enum:
                found[name] = enum
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                pending.append(inner)
    return found


def structs_inside(kind: Any, found: dict[str, type[msgspec.Struct]]) -> None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if record_name(kind) not in found:
            found[record_name(kind)] = kind
            for hint in typing.get_type_hints(kind).values():
                structs_inside(hint, found)
        return
    for argument in typing.get_args(kind):
        structs_inside(argument, found)


def fits(hint: Any, schema: Any, names: dict[str, Any]) -> bool:
    """Tell whether a field's Python type and its Avro type are the same thing."""
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        inner = [arg for arg in args if arg is not type(None)]
        branches = [branch for branch in schema if branch != "null"] if isinstance(schema, list) else []
        nullable = isinstance(schema, list) and schema[0] == "null"
        return (
            nullable == (type(None) in args)
            and len(inner) == len(branches)
            and all(any(fits(arg, branch, names) for branch in branches) for arg in inner)
        )
    if origin is typing.Literal:
        # Avro has no empty symbol: such a Literal is a string there.
        symbols = None if isinstance(schema, str) else set(schema["symbols"])
        return schema == "string" if "" in args else symbols == {UNKNOWN_SYMBOL, *args}
    if origin in {tuple, dict}:
        inside = schema.get("items" if origin is tuple else "values")
        return inside is not None and fits(args[0], inside, names)
    if issubclass(hint, msgspec.Struct):
        return isinstance(schema, dict) and schema["name"] == record_name(hint)
    plain = {str: ("string",), bytes: ("bytes",), bool: ("boolean",), int: ("int", "long")}
    return isinstance(schema, str) and schema in plain[hint]


def as_json(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: as_json(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("root", ROOTS)
def test_struct_and_schema_have_the_same_records_fields_types_and_defaults(root: type[msgspec.Struct]) -> None:
    names = named_types(CATALOG.latest(record_name(root)).schema)
    found: dict[str, type[msgspec.Struct]] = {}
    structs_inside(root, found)

    assert set(found) == {name for name, schema in names.items() if schema["type"] == "record"}
    for name, struct in found.items():
        schema = {field["name"]: field for field in names[name]["fields"]}
        hints = typing.get_type_hints(struct)
        assert set(schema) - {field for record, field in SCHEMA_ONLY if record == name} == set(hints)
        for field in msgspec.structs.fields(struct):
            avro, place = schema[field.name], (name, field.name)
            kind = avro["type"][1] if place in NULL_MEANS_EMPTY else avro["type"]
            assert fits(hints[field.name], kind, names), place
            _check_default(field, avro, place)


def _check_default(field: msgspec.structs.FieldInfo, avro: dict[str, Any], place: tuple[str, str]) -> None:
    if place in SCHEMA_DEFAULT_ONLY:
        assert "default" in avro, place
        return
    made = field.default_factory
    default = field.default if made is msgspec.NODEFAULT else made()
    if default is msgspec.NODEFAULT:
        assert "default" not in avro, place
    else:
        assert avro["default"] == as_json(default), place
