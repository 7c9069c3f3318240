"""Writes a golden file for every registered version that has none: `python tests/golden/make_golden.py`.

A golden file holds values of one version of one record, as bytes and as what they mean. It is written once and kept
for ever: whatever comes later must still read it. `--unreleased` writes the files of the latest versions again, with
their fingerprints in ids.json: only before the first release of such a version.
"""

from __future__ import annotations

import base64
import json
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.catalog import NAMESPACE, Catalog, load_catalog
from schemas.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent
IDS = FOLDER.parent.parent / "schemas" / "ids.json"


def to_json(value: Any) -> Any:
    """Return a value with bytes and branches of unions made into JSON."""
    match value:
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case (name, dict() as fields):
            return {"branch": name, "fields": to_json(fields)}
        case dict():
            return {key: to_json(item) for key, item in value.items()}
        case list():
            return [to_json(item) for item in value]
        case _:
            return value


class Samples:
    """Values of a schema that together take every branch of every union; no field holds its default."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, label: str) -> list[Any]:
        """Return the values."""
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        match schema:
            case list():
                return self._union(schema, label)
            case {"type": "record"}:
                return self._record(schema)
            case {"type": "enum", "name": name, "symbols": symbols}:
                self._named[name] = schema
                return [symbol for symbol in symbols if symbol != "unknown"]
            case {"type": "array", "items": inner}:
                return [self.of(inner, label), []]
            case {"type": "map", "values": inner}:
                return [{f"{label} ключ": self.of(inner, label)[0]}]
            case _:
                return [self._primitive(schema, label)]

    def _primitive(self, kind: str, label: str) -> Any:
        number = next(self._numbers)
        return {
            "string": f"{label} é {number}",
            "bytes": bytes((number % 256, 0, 255)),
            "boolean": True,
            "int": number * 1001,
            "long": 1_796_000_000_000 + number if label.endswith("_ms") else number * 100_003,
            "double": number / 8,
        }[kind]

    def _union(self, branches: list[Any], label: str) -> list[Any]:
        records = [branch for branch in branches if branch != "null"]
        values: list[Any] = []
        for branch in records:
            found = self.of(branch, label)
            name = branch if isinstance(branch, str) else branch.get("name")
            values += [(f"{NAMESPACE}.{name}", value) for value in found] if len(records) > 1 else found
        return [*values, *([None] if "null" in branches else [])]

    def _record(self, schema: Any) -> list[Any]:
        self._named[schema["name"]] = schema
        columns = {field["name"]: self.of(field["type"], field["name"]) for field in schema["fields"]}
        rows = max(len(column) for column in columns.values())
        return [{name: column[min(row, len(column) - 1)] for name, column in columns.items()} for row in range(rows)]


def golden_path(name: str, version: int) -> Path:
    """Return where the golden file of a version lies."""
    return FOLDER / f"{name}.v{version}.json"


def write_missing(catalog: Catalog, *, again: bool) -> None:
    """Write what is missing, or everything of the latest versions."""
    codec = Codec(catalog)
    for name in catalog.names():
        schema = catalog.latest(name)
        path = golden_path(name, schema.version)
        if path.exists() and not again:
            continue
        rows = []
        for record in Samples().of(schema.schema, name):
            data = codec.encode(name, record)
            rows.append({"bytes": base64.b64encode(data).decode(), "record": to_json(codec.decode(data).record)})
        path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", "utf-8")


def write_fingerprints(catalog: Catalog) -> None:
    """Put the fingerprints of the latest versions into ids.json."""
    text = IDS.read_text("utf-8")
    for name in catalog.names():
        known = json.loads(text)["records"][name][-1]["fingerprint"]
        text = text.replace(f'"{known}"', f'"{catalog.latest(name).fingerprint}"')
    IDS.write_text(text, "utf-8")


def main() -> None:
    """Run from the command line."""
    again = "--unreleased" in sys.argv[1:]
    catalog = load_catalog()
    if again:
        write_fingerprints(catalog)
    write_missing(catalog, again=again)


if __name__ == "__main__":
    main()
