"""Writes streams/core/wire_generated.py from the schemas and the structs: `python -m streams.wire_generator`.

For every record it makes one straight-line encoder and decoder, so that no run-time interpretation of the schema is
left. It refuses to go on where struct and schema disagree. It runs after a change of a schema or a struct; a test
checks that the file in the tree is what it would write. The records that it starts from are in ROOTS.
"""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from schemas.catalog import CATALOG
from schemas.codec import header_of
from streams.core.definition import Definition
from streams.core.envelopes import (
    CommandBatch,
    DeadLetter,
    Demand,
    HistoryEntry,
    LeaseView,
    Marker,
    Offers,
    OwnerView,
    ReplyBatch,
)
from streams.core.state import JobState
from streams.core.wire_records import record_name

ROOTS: Final[tuple[type[msgspec.Struct], ...]] = (
    Definition,
    CommandBatch,
    JobState,
    Marker,
    HistoryEntry,
    LeaseView,
    ReplyBatch,
    Demand,
    Offers,
    OwnerView,
    DeadLetter,
)

TARGET: Final = Path(__file__).parent / "core" / "wire_generated.py"

_REPEATING: Final = frozenset(
    {
        "actor", "content_type", "expression", "gateway_id", "incarnation", "lane", "member_id", "queue",
        "reason", "task", "tenant", "time_zone", "topic", "transactional_id", "worker_id", "zone_data",
    }
)  # fmt: skip
"""Text fields with few different values: looked up instead of encoded. Ids would only fill the table."""

_DURATIONS: Final = frozenset({"delay_ms", "every_ms", "jitter_ms", "start_deadline_ms", "timeout_ms", "visibility_ms"})
"""The fields in milliseconds that are no instants."""

_SCHEMA_ONLY: Final = {"JobDefinition": {"expected_version": 'b"\\0"'}}
"""Fields that the struct has not, with what is written for them. expected_version is read from the record by
streams.core.wire: it belongs to the request, not to the definition."""

_RARE_FROM: Final = {
    "ClosedRun": "reason",
    "JobDefinition": "timeout_ms",
    "JobState": "skips_total",
    "LeaseView": "closed",
    "OpenRun": "silent_grants",
    "Reply": "field",
    "RunOpened": "held",
}
"""From here to their end these records hold their defaults nearly always, each written as one zero byte: one test
serves all of them. New fields go to the end of a record, and therefore must have such a default."""

_HEAD: Final = '''"""Encoders and decoders of every record. Written by streams.wire_generator; do not edit.

`encode_x` takes the struct and returns the Avro body, `decode_x` takes bytes and a position and returns the struct
and the next position. Errors and the rule about the last position: streams.core.wire_primitives. `HEADERS` stand
before the bodies of whole values.
"""

# fmt: off
# ruff: noqa: C901, D103, E501, I001, N802, PLR0912, PLR0915, Q000 - code for a machine, one block per field

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

'''


class Disagreement(TypeError):  # noqa: N818 - read as a sentence
    """Struct and schema do not describe the same record."""


class _Section(msgspec.Struct, frozen=True):
    """Some neighbouring fields of a record, with the code that writes and reads them."""

    labels: list[str]
    parts: list[str]
    body: list[str]


class _Generator:
    """Collects functions, innermost records first."""

    def __init__(self) -> None:
        self.named: dict[str, dict[str, Any]] = {}
        self.constants: list[str] = []
        self.functions: list[str] = []
        self.imports: dict[str, set[tuple[str, str]]] = {}
        self.done: set[str] = set()

    def learn(self, schema: Any) -> None:
        """Remember every named type inside a schema; the same name must always mean the same."""
        match schema:
            case list():
                for branch in schema:
                    self.learn(branch)
            case {"type": "record", "name": name, "fields": fields}:
                self.named.setdefault(name, schema)
                for field in fields:
                    self.learn(field["type"])
            case {"type": "enum", "name": name}:
                self.named.setdefault(name, schema)
            case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": dict() as inner}:
                self.learn(inner)

    def resolve(self, schema: Any) -> Any:
        """Return the definition behind a name; other schemas as they are."""
        return self.named.get(schema, schema) if isinstance(schema, str) else schema

    # --- records ---------------------------------------------------------------------------------------------

    def record(self, struct: type[msgspec.Struct]) -> str:
        """Make both functions of one record, once; return the name that they carry."""
        name = record_name(struct)
        if name in self.done:
            return name
        self.done.add(name)
        alias = name if name != struct.__name__ else ""
        self.imports.setdefault(struct.__module__, set()).add((struct.__name__, alias))
        hints = typing.get_type_hints(struct)
        fields = self.resolve(name)["fields"]
        self._check_names(name, {field["name"] for field in fields}, set(struct.__struct_fields__))
        writer = _Writer(self)
        common = fields[: len(fields) - _rare(struct, name, fields)]
        sections = []
        for part in (common, fields[len(common) :]):
            parts: list[str] = []
            body: list[str] = []
            for field in part:
                label = field["name"]
                only = _SCHEMA_ONLY.get(name, {}).get(label)
                if only is not None:
                    parts.append(only)
                    body += self.read(int | None, field["type"], "_", label)
                    continue
                where = f"{name}.{label}"
                parts += writer.write(hints[label], field["type"], f"value.{label}", where)
                body += self.read(hints[label], field["type"], f"{label}_", where)
            sections.append(_Section([field["name"] for field in part], parts, body))
        tests = [
            f"value.{field['name']}" + (" is not None" if _is_nullable(hints[field["name"]]) else "")
            for field in fields[len(common) :]
            if field["name"] in hints
        ]
        self.functions.append(_encoder(name, sections[0], sections[1], tests))
        self.functions.append(_decoder(name, sections[0], sections[1], set(hints)))
        return name

    def _check_names(self, name: str, schema: set[str], struct: set[str]) -> None:
        wrong = schema - set(_SCHEMA_ONLY.get(name, {})) ^ struct
        if wrong:
            raise Disagreement(f"{name}: only in the schema or only in the struct: {', '.join(sorted(wrong))}")

    def union(self, branches: list[type[msgspec.Struct]], schemas: list[Any], where: str) -> str:
        """Make the dispatch tables of a union of records; return the name that they carry."""
        names = [self.record(branch) for branch in branches]
        order = [schema if isinstance(schema, str) else schema["name"] for schema in schemas]
        if set(order) != set(names):
            raise Disagreement(f"{where}: branches {set(order) ^ set(names)}")
        table = where.replace(".", "_").upper()
        if f"UNION {table}" in self.done:
            return table
        self.done.add(f"UNION {table}")
        one_of = " | ".join(names)
        keys = [(index * 2, name) for index, name in enumerate(order)]
        if keys[-1][0] > 127:
            raise Disagreement(f"{where}: more branches than one byte can name")
        reads = "".join(f"    {key}: decode_{name},\n" for key, name in keys)
        writes = "".join(f"    {name}: (b'\\x{key:02x}', encode_{name}),\n" for key, name in keys)
        self.functions.append(
            f"_{table}_READ: Final[dict[int, Callable[[bytes, int], tuple[{one_of}, int]]]] = {{\n{reads}}}\n"
            f"_{table}_WRITE: Final[dict[type, tuple[bytes, Callable[..., bytes]]]] = {{\n{writes}}}\n\n\n"
            f"def _write_{table}(value: {one_of}) -> bytes:\n"
            f"    branch, encode = _{table}_WRITE[type(value)]\n"
            f"    return branch + encode(value)\n\n\n"
            f"def _read_{table}(data: bytes, at: int) -> tuple[{one_of}, int]:\n"
            f"    return _{table}_READ[data[at]](data, at + 1)\n"
        )
        return table

    def enum(self, symbols: tuple[str, ...], schema: Any, where: str) -> str:
        """Make the tables of an enum; return the name that they carry."""
        name: str = schema["name"]
        if set(schema["symbols"]) != {"unknown", *symbols}:
            raise Disagreement(f"{where}: symbols {set(schema['symbols']) ^ {'unknown', *symbols}}")
        if f"ENUM {name}" not in self.done:
            self.done.add(f"ENUM {name}")
            numbered = [(i * 2, s) for i, s in enumerate(schema["symbols"]) if s != "unknown"]
            literal = ", ".join(repr(symbol) for _, symbol in numbered)
            writes = ", ".join(f"{symbol!r}: b'\\x{number:02x}'" for number, symbol in numbered)
            reads = ", ".join(f"{number}: {symbol!r}" for number, symbol in numbered)
            self.constants.append(f"_{name}_WRITE: Final[dict[str, bytes]] = {{{writes}}}")
            self.constants.append(f"_{name}_READ: Final[dict[int, Literal[{literal}]]] = {{{reads}}}")
        return name

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, hint: Any, schema: Any, target: str, where: str) -> list[str]:
        """Return the lines that read one value into the variable `target`."""
        schema = self.resolve(schema)
        inner = _nullable(hint, schema)
        if inner is not None:
            lines = self.read(inner[0], inner[1], target, where)
            absent = "b''" if hint is bytes else "None"
            kept = f"{target}: {self.annotation(hint)}" if hint is not bytes else f"{target}: bytes"
            return [
                f"{kept} = {absent}" if target != "_" else "",
                "if (byte := data[at]) == 2:",
                "    at += 1",
                *(f"    {line}" for line in lines),
                "elif byte:",
                '    raise ValueError("a union has no such branch")',
                "else:",
                "    at += 1",
            ]
        if isinstance(schema, str):
            return self._read_primitive(hint, schema, target, where)
        return self._read_composite(hint, schema, target, where)

    def _read_primitive(self, hint: Any, schema: str, target: str, where: str) -> list[str]:
        label = where.rsplit(".", 1)[-1]
        match schema:
            case "string":
                return _read_string(hint, label, target, self._checked_text(hint, where))
            case "bytes":
                return [*_READ_LENGTH, f"{target} = data[at : (at := at + size)]"]
            case "boolean":
                return [f"{target} = BOOLEANS[data[at]]", "at += 1"]
            case "int" | "long":
                return _read_number(label, target)
        raise Disagreement(f"{where}: no rule for {schema}")

    def _read_composite(self, hint: Any, schema: Any, target: str, where: str) -> list[str]:
        match schema:
            case {"type": "enum"}:
                name = self.enum(typing.get_args(hint), schema, where)
                return [f"{target} = _{name}_READ[data[at]]", "at += 1"]
            case {"type": "record"}:
                return [f"{target}, at = decode_{self.record(hint)}(data, at)"]
            case {"type": "map", "values": "string"}:
                return [f"{target}, at = read_texts(data, at)"]
            case {"type": "array", "items": items}:
                reader = self._item_reader(typing.get_args(hint)[0], self.resolve(items), where)
                return [
                    f"{target}: {self.annotation(hint)} = ()",
                    "if data[at]:",
                    f"    {target}, at = read_array(data, at, {reader})",
                    "else:",
                    "    at += 1",
                ]
            case list():
                return [f"{target}, at = _read_{self._union_of(hint, schema, where)}(data, at)"]
        raise Disagreement(f"{where}: no rule for {schema}")

    def _checked_text(self, hint: Any, where: str) -> str:
        """Make the table of a Literal that Avro has as a string (an empty symbol is none); return its name."""
        if typing.get_origin(hint) is not typing.Literal:
            return ""
        name = "_" + where.replace(".", "_").upper()
        symbols = ", ".join(f"{symbol!r}: {symbol!r}" for symbol in typing.get_args(hint))
        line = f"{name}: Final[dict[str, {self.annotation(hint)}]] = {{{symbols}}}"
        if line not in self.constants:
            self.constants.append(line)
        return name

    def _item_reader(self, hint: Any, schema: Any, where: str) -> str:
        match schema:
            case "string":
                return "read_text"
            case "int" | "long":
                return "read_long"
            case {"type": "record"}:
                return f"decode_{self.record(hint)}"
            case list():
                return f"_read_{self._union_of(hint, schema, where)}"
        raise Disagreement(f"{where}: no rule for items {schema}")

    def _union_of(self, hint: Any, schema: list[Any], where: str) -> str:
        return self.union(list(typing.get_args(hint)), schema, where)

    def annotation(self, hint: Any) -> str:
        """Return the source text of a type."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin in {typing.Union, types.UnionType}:
            return " | ".join(self.annotation(arg) for arg in args)
        if origin is typing.Literal:
            return f"Literal[{', '.join(repr(arg) for arg in args)}]"
        if origin is tuple:
            return f"tuple[{self.annotation(args[0])}, ...]"
        if hint is type(None):
            return "None"
        return self.record(hint) if issubclass(hint, msgspec.Struct) else str(hint.__name__)


class _Writer:
    """Writes the fields of one record; the variables of its expressions are numbered."""

    def __init__(self, generator: _Generator) -> None:
        self.generator = generator
        self.variables = 0

    def write(self, hint: Any, schema: Any, source: str, where: str) -> list[str]:
        """Return the expressions whose bytes, one after the other, are the value."""
        make = self.generator
        schema = make.resolve(schema)
        inner = _nullable(hint, schema)
        if inner is not None:
            return [self._nullable(hint, inner, source, where)]
        if isinstance(schema, str):
            return self._primitive(hint, schema, source, where)
        return [self._composite(hint, schema, source, where)]

    def _primitive(self, hint: Any, schema: str, source: str, where: str) -> list[str]:
        match schema:
            case "string" if where.rsplit(".", 1)[-1] in _REPEATING or hint is not str:
                return [f"TEXTS[{source}]"]
            case "string":
                name = self._variable()
                return [f"NUMBERS[len({name} := {source}.encode())]", name]
            case "bytes":
                name = self._variable()
                return [f"NUMBERS[len({name} := {source})]", name]
            case "boolean":
                return [f'b"\\1" if {source} else b"\\0"']
            case "int" | "long":
                return [f"NUMBERS[{source}]"]
        raise Disagreement(f"{where}: no rule for {schema}")

    def _composite(self, hint: Any, schema: Any, source: str, where: str) -> str:
        make = self.generator
        match schema:
            case {"type": "enum"}:
                return f"_{make.enum(typing.get_args(hint), schema, where)}_WRITE[{source}]"
            case {"type": "record"}:
                return f"encode_{make.record(hint)}({source})"
            case {"type": "map", "values": "string"}:
                return f"texts_bytes({source})"
            case {"type": "array", "items": items}:
                return self._array(typing.get_args(hint)[0], make.resolve(items), source, where)
            case list():
                return f"_write_{make.union(list(typing.get_args(hint)), schema, where)}({source})"
        raise Disagreement(f"{where}: no rule for {schema}")

    def _nullable(self, hint: Any, inner: tuple[Any, Any], source: str, where: str) -> str:
        name = self._variable()
        parts = self.write(inner[0], inner[1], name, where)
        test = f"not ({name} := {source})" if hint is bytes else f"({name} := {source}) is None"
        return f'b"\\0" if {test} else b"\\2" + {" + ".join(parts)}'

    def _array(self, hint: Any, schema: Any, source: str, where: str) -> str:
        make = self.generator
        match schema:
            case "string":
                item = "TEXTS[item]"
            case "int" | "long":
                item = "NUMBERS[item]"
            case {"type": "record"}:
                item = f"encode_{make.record(hint)}(item)"
            case list():
                item = f"_write_{make.union(list(typing.get_args(hint)), schema, where)}(item)"
            case _:
                raise Disagreement(f"{where}: no rule for items {schema}")
        name = self._variable()
        return f'array_bytes([{item} for item in {name}]) if ({name} := {source}) else b"\\0"'

    def _variable(self) -> str:
        self.variables += 1
        return f"x{self.variables}"


_READ_LENGTH: Final = [
    "if (size := data[at]) & 129:",
    "    size, at = read_length(data, at)",
    "else:",
    "    size >>= 1",
    "    at += 1",
]


def _read_string(hint: Any, label: str, target: str, checked: str) -> list[str]:
    body = "data[at : (at := at + size)]"
    text = f"WORDS[{body}]" if label in _REPEATING or hint is not str else f"{body}.decode()"
    return [*_READ_LENGTH, f"{target} = {checked}[{text}]" if checked else f"{target} = {text}"]


def _read_number(label: str, target: str) -> list[str]:
    lines = ["if (number := SMALL[data[at]]) is not None:", "    at += 1"]
    if label.endswith("_ms"):
        table, width = ("DURATIONS", 3) if label in _DURATIONS else ("INSTANTS", 6)
        lines += [
            f"elif (number := {table}[data[at : at + {width}]]) is not None:",
            f"    at += {width}",
        ]
    return [*lines, "else:", "    number, at = read_long(data, at)", *([f"{target} = number"] if target != "_" else [])]


def _nullable(hint: Any, schema: Any) -> tuple[Any, Any] | None:
    """Return the inner type and schema of a nullable value, or None where the value cannot be null."""
    args = typing.get_args(hint) if typing.get_origin(hint) in {typing.Union, types.UnionType} else ()
    optional = type(None) in args
    nullable = isinstance(schema, list) and "null" in schema
    if hint is bytes and nullable:
        return bytes, schema[1]
    if optional != nullable:
        raise Disagreement(f"{hint} against {schema}")
    if not nullable:
        return None
    if len(args) != 2 or len(schema) != 2 or schema[0] != "null":
        raise Disagreement(f"{hint} against {schema}: null stands first, and one other branch after it")
    return next(arg for arg in args if arg is not type(None)), schema[1]


def _is_nullable(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


def _rare(struct: type[msgspec.Struct], name: str, fields: list[dict[str, Any]]) -> int:
    """Return how many fields at the end one test serves: see _RARE_FROM."""
    first = _RARE_FROM.get(name)
    if first is None:
        return 0
    labels = [field["name"] for field in fields]
    rare = labels[labels.index(first) :]
    for field in msgspec.structs.fields(struct):
        made = field.default_factory
        default = field.default if made is msgspec.NODEFAULT else made()
        if field.name in rare and (default is msgspec.NODEFAULT or default):
            raise Disagreement(f"{name}.{field.name}: no default that is one zero byte, so it cannot stand here")
    return len(rare)


def _encoder(name: str, common: _Section, rare: _Section, tests: list[str]) -> str:
    lines = "".join(f"            {part},\n" for part in common.parts)
    if not rare.labels:
        return _joined(f"def encode_{name}(value: {name}) -> bytes:\n", lines)
    zeros = "\\0" * len(rare.labels)
    more = "".join(f"            {part},\n" for part in rare.parts)
    return (
        _joined(
            f"def encode_{name}(value: {name}) -> bytes:\n",
            f"{lines}            _rest_of_{name}(value)\n"
            f"            if {' or '.join(tests)}\n"
            f"            else b'{zeros}',\n",
        )
        + "\n\n"
        + _joined(f"def _rest_of_{name}(value: {name}) -> bytes:\n", more)
    )


def _joined(head: str, lines: str) -> str:
    return f'{head}    return b"".join(\n        (\n{lines}        )\n    )\n'


def _decoder(name: str, common: _Section, rare: _Section, known: set[str]) -> str:
    lines = "".join(f"    {line}\n" for line in common.body if line)
    made = ", ".join(f"{label}={label}_" for label in common.labels)
    head = f"def decode_{name}(data: bytes, at: int) -> tuple[{name}, int]:\n{lines}"
    if not rare.labels:
        return f"{head}    return {name}({made}), at\n"
    size = len(rare.labels)
    more = "".join(f"    {line}\n" for line in rare.body if line)
    rest = ", ".join(f"{label}={label}_" for label in rare.labels if label in known)
    return (
        f"{head}    if data[at : at + {size}] == b'{chr(92)}0' * {size}:\n"
        f"        return {name}({made}), at + {size}\n"
        f"{more}    return {name}({made}, {rest}), at\n"
    )


def generate() -> str:
    """Return the source text of wire_generated."""
    generator = _Generator()
    for root in ROOTS:
        generator.learn(CATALOG.latest(record_name(root)).schema)
    for root in ROOTS:
        generator.record(root)
    imports = "".join(
        f"from {module} import {', '.join(sorted(_imported(name, alias) for name, alias in names))}\n"
        for module, names in sorted(generator.imports.items())
    )
    primitives = (
        "from streams.core.wire_primitives import BOOLEANS, DURATIONS, INSTANTS, NUMBERS, SMALL, TEXTS, WORDS, "
        "array_bytes, read_array, read_length, read_long, read_text, read_texts, texts_bytes\n"
    )
    headers = "".join(
        f"    {record_name(root)!r}: {header_of(CATALOG.latest(record_name(root)).id)!r},\n" for root in ROOTS
    )
    return "\n\n".join(
        [
            _HEAD + imports + primitives,
            f"HEADERS: Final[dict[str, bytes]] = {{\n{headers}}}\n" + "\n".join(generator.constants),
            *generator.functions,
        ]
    )


def _imported(name: str, alias: str) -> str:
    return f"{name} as {alias}" if alias else name


def main(out: TextIO) -> None:
    """Write the file."""
    TARGET.write_text(generate(), "utf-8")
    out.write(f"wrote {TARGET.name}; do not format it\n")


if __name__ == "__main__":
    main(sys.stdout)
