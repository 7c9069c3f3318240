"""Can a reader with one schema read what was written with another? Avro's schema resolution, as a list of reasons.

`reasons(reader, writer)` is empty if every value of `writer` can be read by `reader`. `full_transitive` is the rule of
this project: each version of a record reads each other one. Enum symbols that the reader lacks need its default.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROMOTIONS: Final[dict[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""What a writer's primitive may be read as, beside itself."""

_Names = dict[str, Any]


def reasons(reader: Any, writer: Any) -> list[str]:
    """Return why `reader` cannot read everything that `writer` writes, each with the path of the field."""
    return list(_Comparison(_names(reader), _names(writer)).compare(reader, writer, ""))


def full_transitive(versions: Iterable[Any]) -> list[str]:
    """Return what breaks FULL_TRANSITIVE among the versions of one schema, oldest first."""
    numbered = list(enumerate(versions, 1))
    return [
        f"version {reads} cannot read version {writes}: {reason}"
        for (reads, reader), (writes, writer) in permutations(numbered, 2)
        for reason in reasons(reader, writer)
    ]


def _names(schema: Any) -> _Names:
    """Return every named type inside a schema."""
    found: _Names = {}
    pending = [schema]
    while pending:
        match pending.pop():
            case list() as branches:
                pending += branches
            case {"type": "record", "name": name, "fields": fields} as record:
                found.setdefault(_short(name), record)
                pending += [field["type"] for field in fields]
            case {"type": "enum" | "fixed", "name": name} as named:
                found.setdefault(_short(name), named)
            case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": dict() as inner}:
                pending.append(inner)
    return found


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _resolve(schema: Any, names: _Names) -> Any:
    if isinstance(schema, str):
        return names.get(_short(schema), schema)
    if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        return _resolve(schema["type"], names)
    return schema


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


class _Comparison:
    """One walk over two schemas. A pair of records is looked at once, so that no schema makes it long."""

    def __init__(self, reads: _Names, writes: _Names) -> None:
        self._reads = reads
        self._writes = writes
        self._seen: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        """Yield why a reader cannot read what a writer writes, at and below a path."""
        reader, writer = _resolve(reader, self._reads), _resolve(writer, self._writes)
        if isinstance(writer, list):
            for branch in writer:
                yield from self.compare(reader, branch, path)
        elif isinstance(reader, list):
            fitting = [branch for branch in reader if self._accepts(branch, writer)]
            if fitting:
                yield from self.compare(fitting[0], writer, path)
            else:
                yield f"{path}: no branch of the reader's union takes {_called(writer)}"
        elif self._accepts(reader, writer):
            yield from self._inside(reader, writer, path)
        else:
            yield f"{path}: {_called(writer)} cannot be read as {_called(reader)}"

    def _inside(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        match _kind(reader):
            case "record":
                pair = (reader["name"], writer["name"])
                if pair not in self._seen:
                    self._seen.add(pair)
                    yield from self._fields(reader, writer, path or reader["name"])
            case "enum":
                missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
                if missing and "default" not in reader:
                    yield f"{path}: the reader has no default for the symbols {', '.join(missing)}"
            case "array":
                yield from self.compare(reader["items"], writer["items"], f"{path}[]")
            case "map":
                yield from self.compare(reader["values"], writer["values"], f"{path}{{}}")

    def _fields(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            names = (field["name"], *field.get("aliases", ()))
            found = next((written[name] for name in names if name in written), None)
            if found is not None:
                yield from self.compare(field["type"], found["type"], f"{path}.{field['name']}")
            elif "default" not in field:
                yield f"{path}.{field['name']}: the writer has no such field, and the reader no default for it"

    def _accepts(self, reader: Any, writer: Any) -> bool:
        """Tell whether the two are of one kind and, where they have names, of one name."""
        reader, writer = _resolve(reader, self._reads), _resolve(writer, self._writes)
        kind = _kind(reader)
        if kind != _kind(writer):
            return kind in _PROMOTIONS.get(_kind(writer), frozenset())
        if kind in {"record", "enum", "fixed"}:
            names = {_short(name) for name in (reader["name"], *reader.get("aliases", ()))}
            return _short(writer["name"]) in names and reader.get("size") == writer.get("size")
        return True


def _called(schema: Any) -> str:
    return str(schema["name"]) if isinstance(schema, dict) and "name" in schema else _kind(schema)
