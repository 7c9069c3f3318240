"""Avro in Confluent wire format: 0x00, the schema id as a big-endian int, the body.

`encode` takes a plain record of a named schema and writes its latest version. `decode` takes any bytes: it returns
a record of the latest version, whichever registered version wrote it, or raises Undecodable and nothing else.
It never fetches a schema and never evaluates anything. In a union of several records a value is the pair
(full name, record), in both directions, so that nobody has to guess.

This is the obvious codec, for every schema. The scheduler's own hot path is streams.core.wire, which is tested
to write the same bytes.
"""

from __future__ import annotations

import io
from typing import Any, Final, Literal

import fastavro
import msgspec
from fastavro.read import SchemaResolutionError

from schemas.catalog import CATALOG, NAMESPACE, Catalog, RegisteredSchema

MAGIC: Final = 0
HEADER_BYTES: Final = 5

RECORD_BYTES_MAX: Final = 1_000_000
"""Below Kafka's default max.message.bytes (1,048,588) with room for key, headers and batch overhead."""

_PADDING: Final = bytes(16)
"""fastavro returns short strings at the end of its input without a word. With padding behind the body a cut value
always reads past the body's end, which `tell` shows."""

UndecodableCode = Literal["null", "too_large", "not_framed", "unknown_id", "truncated", "trailing_bytes", "malformed"]

_MALFORMED: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    SchemaResolutionError,
    TypeError,
    ValueError,
)
"""What fastavro raises on bytes that its writer could not have made."""


class Undecodable(ValueError):  # noqa: N818 - reads as a sentence where it is raised and caught
    """Bytes that are no record of ours. `code` is stable; `reason` is a sentence for the dead-letter record."""

    def __init__(self, code: UndecodableCode, reason: str) -> None:
        super().__init__(reason)
        self.code: UndecodableCode = code
        self.reason = reason


class TooLarge(ValueError):  # noqa: N818 - see Undecodable
    """A record whose encoding exceeds RECORD_BYTES_MAX: the broker would refuse it in mid-transaction."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(f"{name} of {size} bytes; allowed are {RECORD_BYTES_MAX}")
        self.size = size


class Decoded(msgspec.Struct, frozen=True):
    """A record that was read: its name without the namespace, and its fields by the latest version."""

    name: str
    record: dict[str, Any]


def header_of(schema_id: int) -> bytes:
    """Return the five bytes that stand before a body of this schema."""
    return bytes((MAGIC,)) + schema_id.to_bytes(4, "big")


class Codec:
    """Reads and writes the schemas of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._parsed = {
            schema.id: _with_bytes_defaults(fastavro.parse_schema(schema.schema)) for schema in catalog.schemas
        }
        self._by_id: dict[int, RegisteredSchema] = {schema.id: schema for schema in catalog.schemas}
        self._latest = {name: catalog.latest(name) for name in catalog.names()}

    def encode(self, name: str, record: dict[str, Any]) -> bytes:
        """Write a record by the latest version of its schema.

        Fields with a default may be left out. Raises KeyError for an unknown name, ValueError or TypeError for a
        record that does not fit its schema, TooLarge.
        """
        schema = self._latest[name]
        out = io.BytesIO()
        out.write(header_of(schema.id))
        fastavro.schemaless_writer(out, self._parsed[schema.id], record, strict_allow_default=True)
        if out.tell() > RECORD_BYTES_MAX:
            raise TooLarge(name, out.tell())
        return out.getvalue()

    def decode(self, data: bytes | None) -> Decoded:
        """Read a value of any registered schema. Raises Undecodable."""
        writer = self.schema_of(data)
        latest = self._latest[writer.name]
        # schema_of has refused None
        source = io.BytesIO((data or b"")[HEADER_BYTES:] + _PADDING)
        size = len(data or b"") - HEADER_BYTES
        try:
            record = fastavro.schemaless_reader(
                source,
                self._parsed[writer.id],
                None if writer.id == latest.id else self._parsed[latest.id],
                return_record_name=True,
                return_record_name_override=True,
            )
        except _MALFORMED as error:
            if source.tell() > size:
                raise Undecodable("truncated", _cut(writer)) from error
            raise Undecodable("malformed", f"{_called(writer)}: {type(error).__name__}: {error}") from error
        if source.tell() > size:
            raise Undecodable("truncated", _cut(writer))
        if source.tell() < size:
            raise Undecodable("trailing_bytes", f"{size - source.tell()} bytes follow {_called(writer)}")
        if not isinstance(record, dict):
            raise Undecodable("malformed", f"{_called(writer)} is no record")
        return Decoded(writer.name, record)

    def schema_of(self, data: bytes | None) -> RegisteredSchema:
        """Return the schema that a value says it was written with. Raises Undecodable."""
        if data is None:
            raise Undecodable("null", "the value is null")
        if len(data) > RECORD_BYTES_MAX:
            raise Undecodable("too_large", f"{len(data)} bytes; allowed are {RECORD_BYTES_MAX}")
        if len(data) < HEADER_BYTES:
            raise Undecodable("truncated", f"{len(data)} bytes; the schema id alone takes {HEADER_BYTES}")
        if data[0] != MAGIC:
            raise Undecodable(
                "not_framed",
                f"the value begins with 0x{data[0]:02x}, not with 0x00: write Avro in Confluent wire format "
                "(0x00, schema id as 4 bytes, body)",
            )
        schema_id = int.from_bytes(data[1:HEADER_BYTES], "big")
        schema = self._by_id.get(schema_id)
        if schema is None:
            known = ", ".join(f"{s.name} {s.id}" for s in self._latest.values())
            raise Undecodable("unknown_id", f"schema id {schema_id} is not registered; the latest are {known}")
        return schema


def _with_bytes_defaults(schema: Any) -> Any:
    """Return the schema with real bytes as defaults of bytes fields: fastavro would write JSON's text as it is."""
    if isinstance(schema, list):
        return [_with_bytes_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_bytes_defaults(value) for key, value in schema.items()}
    if schema.get("type") == "bytes" and isinstance(schema.get("default"), str):
        changed["default"] = schema["default"].encode("latin-1")
    return changed


def _called(schema: RegisteredSchema) -> str:
    return f"{NAMESPACE}.{schema.name} version {schema.version}"


def _cut(schema: RegisteredSchema) -> str:
    return f"the value ends in the middle of {_called(schema)}"


CODEC: Final = Codec(CATALOG)
encode = CODEC.encode
decode = CODEC.decode
