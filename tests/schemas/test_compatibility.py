from __future__ import annotations

import base64
import copy
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from fastavro.read import SchemaResolutionError

from schemas import codec
from schemas.catalog import CATALOG
from schemas.compatibility import full_transitive, reasons

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
IDS = Path(__file__).resolve().parent.parent.parent / "schemas" / "ids.json"
REGISTERED = [(schema.name, schema.version) for schema in CATALOG.schemas]


def schema_of(name: str) -> Any:
    return copy.deepcopy(CATALOG.latest(name).schema)


def field_of(schema: Any, name: str) -> Any:
    return next(field for field in schema["fields"] if field["name"] == name)


def from_json(value: Any) -> Any:
    match value:
        case {"base64": text}:
            return base64.b64decode(text)
        case {"branch": name, "fields": fields}:
            return (name, from_json(fields))
        case dict():
            return {key: from_json(item) for key, item in value.items()}
        case list():
            return [from_json(item) for item in value]
        case _:
            return value


def holds(meant: Any, read: Any) -> bool:
    """Tell whether everything that was meant was read; later versions may add fields."""
    match meant:
        case dict():
            return isinstance(read, dict) and all(key in read and holds(meant[key], read[key]) for key in meant)
        case list() | tuple():
            return len(meant) == len(read) and all(map(holds, meant, read))
        case _:
            return bool(meant == read and type(meant) is type(read))


@pytest.mark.parametrize(("name", "version"), REGISTERED)
def test_the_golden_bytes_of_every_version_mean_what_they_meant(name: str, version: int) -> None:
    rows = json.loads((GOLDEN / f"{name}.v{version}.json").read_text("utf-8"))

    assert rows
    for row in rows:
        decoded = codec.decode(base64.b64decode(row["bytes"]))

        assert decoded.name == name
        assert holds(from_json(row["record"]), decoded.record)


@pytest.mark.parametrize("name", CATALOG.names())
def test_every_version_of_a_record_reads_every_other_one(name: str) -> None:
    assert full_transitive([schema.schema for schema in CATALOG.of(name)]) == []


def test_a_registered_version_is_never_edited() -> None:
    entries = json.loads(IDS.read_text("utf-8"))["records"]
    known = {(name, entry["version"]): entry["fingerprint"] for name in entries for entry in entries[name]}

    found = {(schema.name, schema.version): schema.fingerprint for schema in CATALOG.schemas}

    assert found == known  # a change is a new version with a new id, see docs/schemas.md


def test_ids_are_unique_and_versions_are_dense() -> None:
    ids = [schema.id for schema in CATALOG.schemas]

    assert len(set(ids)) == len(ids)
    for name in CATALOG.names():
        assert [schema.version for schema in CATALOG.of(name)] == list(range(1, len(CATALOG.of(name)) + 1))


def _drop_default(schema: Any) -> None:
    del field_of(schema, "catch_up")["default"]
    field_of(schema, "catch_up")["name"] = "catch_up_policy"


def _add_required(schema: Any) -> None:
    schema["fields"].append({"name": "region", "type": "string"})


def _remove_required(schema: Any) -> None:
    schema["fields"].remove(field_of(schema, "queue"))


def _narrow(schema: Any) -> None:
    field_of(schema, "max_runs")["type"] = "int"


def _retype(schema: Any) -> None:
    field_of(schema, "timeout_ms")["type"] = "string"


def _rename_record(schema: Any) -> None:
    field_of(schema, "retry")["type"]["name"] = "RetryPolicy"


def _add_branch(schema: Any) -> None:
    field_of(schema, "schedule")["type"].append({"type": "record", "name": "SunSchedule", "fields": []})


def _not_nullable(schema: Any) -> None:
    field_of(schema, "start_at_ms")["type"] = "long"


def _enum_without_default(schema: Any) -> None:
    lane = field_of(schema, "lane")["type"]
    del lane["default"]
    lane["symbols"].remove("low")


def _change_items(schema: Any) -> None:
    field_of(schema, "calendars")["type"] = {"type": "array", "items": "long"}


def _change_values(schema: Any) -> None:
    field_of(schema, "labels")["type"] = {"type": "map", "values": "long"}


BREAKING = [
    _drop_default,
    _add_required,
    _remove_required,
    _narrow,
    _retype,
    _rename_record,
    _add_branch,
    _not_nullable,
    _enum_without_default,
    _change_items,
    _change_values,
]


@pytest.mark.parametrize("change", BREAKING)
def test_a_change_that_breaks_a_reader_or_a_writer_is_found(change: Callable[[Any], None]) -> None:
    changed = schema_of("JobDefinition")
    change(changed)

    assert full_transitive([schema_of("JobDefinition"), changed]) != []


def _add_optional(schema: Any) -> None:
    schema["fields"].append({"name": "region", "type": ["null", "string"], "default": None})


def _remove_optional(schema: Any) -> None:
    schema["fields"].remove(field_of(schema, "labels"))


def _reorder(schema: Any) -> None:
    schema["fields"].reverse()
    # a named type is defined where it stands first, which no reversed field refers to here


def _add_symbol(schema: Any) -> None:
    field_of(schema, "catch_up")["type"]["symbols"].append("newest")


def _improve_doc(schema: Any) -> None:
    schema["doc"] = "Better words."


@pytest.mark.parametrize("change", [_add_optional, _remove_optional, _add_symbol, _improve_doc])
def test_a_change_that_breaks_nobody_passes(change: Callable[[Any], None]) -> None:
    changed = schema_of("JobDefinition")
    change(changed)

    assert full_transitive([schema_of("JobDefinition"), changed]) == []


def test_the_order_of_fields_does_not_matter() -> None:
    changed = schema_of("Demand")
    _reorder(changed)

    assert full_transitive([schema_of("Demand"), changed]) == []


def test_a_break_between_versions_that_are_not_neighbours_is_found() -> None:
    first, second, third = schema_of("Demand"), schema_of("Demand"), schema_of("Demand")
    first["fields"].append({"name": "region", "type": "string", "default": ""})
    third["fields"].append({"name": "region", "type": "long", "default": 0})

    assert full_transitive([first, second]) == []
    assert full_transitive([second, third]) == []
    assert full_transitive([first, second, third]) != []


@pytest.mark.parametrize("change", [_change_items, _change_values, _rename_record, _add_required])
def test_fastavro_refuses_what_the_checker_refuses(change: Callable[[Any], None]) -> None:
    changed = schema_of("JobDefinition")
    change(changed)
    assert reasons(changed, schema_of("JobDefinition")) != []
    row = json.loads((GOLDEN / "JobDefinition.v1.json").read_text("utf-8"))[-1]
    body = io.BytesIO(base64.b64decode(row["bytes"])[codec.HEADER_BYTES :])

    with pytest.raises(SchemaResolutionError):
        fastavro.schemaless_reader(body, schema_of("JobDefinition"), changed)


def every_type(schema: Any) -> list[Any]:
    """Return every record and enum that is defined inside a schema."""
    match schema:
        case list():
            return [found for branch in schema for found in every_type(branch)]
        case {"type": "record", "fields": fields}:
            return [schema, *(found for field in fields for found in every_type(field["type"]))]
        case {"type": "enum"}:
            return [schema]
        case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": dict() as inner}:
            return every_type(inner)
        case _:
            return []


@pytest.mark.parametrize("name", CATALOG.names())
def test_every_record_field_and_enum_says_what_it_is(name: str) -> None:
    for found in every_type(schema_of(name)):
        assert found.get("doc"), found["name"]
        for field in found.get("fields", ()):
            assert field.get("doc"), f"{found['name']}.{field['name']}"
            if field["name"].endswith("_ms") and isinstance(field["type"], str):
                assert "illisecond" in field["doc"], f"{found['name']}.{field['name']} names no unit"


@pytest.mark.parametrize("name", CATALOG.names())
def test_every_enum_has_a_default_for_symbols_of_later_versions(name: str) -> None:
    for found in every_type(schema_of(name)):
        if found["type"] == "enum":
            assert found["default"] == "unknown"
            assert found["symbols"][0] == "unknown"


@pytest.mark.parametrize("name", CATALOG.names())
def test_no_schema_uses_a_logical_type(name: str) -> None:
    assert "logicalType" not in json.dumps(schema_of(name))


def test_a_type_of_one_name_is_the_same_in_every_file() -> None:
    by_name: dict[str, set[str]] = {}
    for schema in CATALOG.schemas:
        if schema == CATALOG.latest(schema.name):
            for found in every_type(schema.schema):
                shape = json.dumps(_inlined(found), sort_keys=True)
                by_name.setdefault(found["name"], set()).add(shape)

    assert {name for name, shapes in by_name.items() if len(shapes) > 1} == set()


def _inlined(schema: Any) -> Any:
    """Return a type with names in place of the types inside it, which one file defines and another refers to."""
    match schema:
        case {"type": "record" | "enum", "name": name}:
            inside = {key: value for key, value in schema.items() if key not in {"namespace", "doc"}}
            if "fields" in inside:
                inside["fields"] = [{**field, "type": _named(field["type"])} for field in schema["fields"]]
            return {**inside, "name": name}
        case _:
            return schema


def _named(schema: Any) -> Any:
    match schema:
        case list():
            return [_named(branch) for branch in schema]
        case {"type": "record" | "enum", "name": name}:
            return name
        case {"type": "array", "items": inner}:
            return {"type": "array", "items": _named(inner)}
        case _:
            return schema
