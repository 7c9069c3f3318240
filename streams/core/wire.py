"""Values of every topic as bytes, and back: the only place where the core's structs meet Avro.

`encode_x(value)` writes the latest version of the record; `decode_x(data)` reads any registered version or raises
schemas.codec.Undecodable. decode(encode(x)) == x. Both are pure. Definitions come from producers that nobody
controls: `receive_definition` fills in name and task and refuses, with BadDefinition, what only the record shows. The
patterns and bounds are those of streams.core.validate, which whoever accepts a definition asks next.

The hot way is wire_generated (tested to write what schemas.codec writes); wire_records reads older versions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from schemas import codec
from schemas.codec import HEADER_BYTES, RECORD_BYTES_MAX, TooLarge, Undecodable
from streams.core import wire_generated as generated
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
from streams.core.validate import InvalidDefinition
from streams.core.wire_records import UnknownSymbol, from_record

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound=msgspec.Struct)

_SHOWN_CHARS: Final = 128
"""Of a text that is refused: as long as a job id may be, and short enough for a dead-letter reason."""

_WRONG_BYTES: Final = (IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What reading bytes raises that no writer made; Undecodable is raised instead of them."""


class BadDefinition(InvalidDefinition):
    """A definition that can be read and not accepted, for a reason that only its record shows."""


class ReceivedDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer asked for: the definition, and the version that it wants to replace (None: any)."""

    definition: Definition
    expected_version: int | None


def _reader(struct: type[S], name: str, decode: Callable[[bytes, int], tuple[S, int]]) -> Callable[[bytes | None], S]:
    header = generated.HEADERS[name]

    def read(data: bytes | None) -> S:
        if data is None or data[:HEADER_BYTES] != header or len(data) > RECORD_BYTES_MAX:
            return _read_slowly(struct, name, data)
        try:
            value, end = decode(data, HEADER_BYTES)
        except _WRONG_BYTES as error:
            raise Undecodable("malformed", f"horolog.{name}: {type(error).__name__}: {error}") from error
        if end != len(data):
            raise _wrong_end(name, end, len(data))
        return value

    return read


def _wrong_end(name: str, end: int, size: int) -> Undecodable:
    if end > size:
        return Undecodable("truncated", f"the value ends in the middle of horolog.{name}")
    return Undecodable("trailing_bytes", f"{size - end} bytes follow horolog.{name}")


def _read_slowly(struct: type[S], name: str, data: bytes | None) -> S:
    """Read what is not of the latest version: an older one, another record, or nothing of ours."""
    return _to_struct(struct, name, codec.decode(data))


def _to_struct(struct: type[S], name: str, decoded: codec.Decoded) -> S:
    if decoded.name != name:
        raise Undecodable("malformed", f"the value is a horolog.{decoded.name}, not a horolog.{name}")
    try:
        return from_record(struct, decoded.record)
    except _WRONG_BYTES as error:
        raise Undecodable("malformed", f"horolog.{name}: {error}") from error


def _writer(name: str, encode: Callable[[S], bytes]) -> Callable[[S], bytes]:
    header = generated.HEADERS[name]

    def write(value: S) -> bytes:
        out = header + encode(value)
        if len(out) > RECORD_BYTES_MAX:
            raise TooLarge(name, len(out))
        return out

    return write


encode_state = _writer("JobState", generated.encode_JobState)
decode_state = _reader(JobState, "JobState", generated.decode_JobState)

encode_marker = _writer("LedgerMarker", generated.encode_LedgerMarker)
decode_marker = _reader(Marker, "LedgerMarker", generated.decode_LedgerMarker)

encode_history = _writer("HistoryRecord", generated.encode_HistoryRecord)
decode_history = _reader(HistoryEntry, "HistoryRecord", generated.decode_HistoryRecord)

encode_commands = _writer("CommandBatch", generated.encode_CommandBatch)
decode_commands = _reader(CommandBatch, "CommandBatch", generated.decode_CommandBatch)

encode_replies = _writer("ReplyBatch", generated.encode_ReplyBatch)
decode_replies = _reader(ReplyBatch, "ReplyBatch", generated.decode_ReplyBatch)

encode_lease_view = _writer("LeaseView", generated.encode_LeaseView)
decode_lease_view = _reader(LeaseView, "LeaseView", generated.decode_LeaseView)

encode_demand = _writer("Demand", generated.encode_Demand)
decode_demand = _reader(Demand, "Demand", generated.decode_Demand)

encode_offers = _writer("Offers", generated.encode_Offers)
decode_offers = _reader(Offers, "Offers", generated.decode_Offers)

encode_owner_view = _writer("OwnerView", generated.encode_OwnerView)
decode_owner_view = _reader(OwnerView, "OwnerView", generated.decode_OwnerView)

encode_dead_letter = _writer("DeadLetter", generated.encode_DeadLetter)
decode_dead_letter = _reader(DeadLetter, "DeadLetter", generated.decode_DeadLetter)

encode_definition = _writer("JobDefinition", generated.encode_JobDefinition)
"""For the ledger's `d|` record: no expected version."""

decode_accepted_definition = _reader(Definition, "JobDefinition", generated.decode_JobDefinition)
"""For the ledger's `d|` record, which an owner wrote: nothing is checked or normalised again."""


def decode_definition(data: bytes | None, key: str) -> Definition:
    """Return the definition that a Kafka producer sent, without the version that it expects: see receive_definition."""
    return receive_definition(data, key).definition


def receive_definition(data: bytes | None, key: str) -> ReceivedDefinition:
    """Return what a Kafka producer asked for. `key` is the record's key, decoded.

    An empty name becomes the job id, an empty task the name. Raises Undecodable for bytes that are no definition;
    BadDefinition for an enum symbol that only a later version knows, for a key that is not the job id and for an
    expected version below 1. What it returns is not yet valid: streams.core.validate.validate_definition comes next.
    """
    decoded = codec.decode(data)
    if decoded.name != "JobDefinition":
        raise Undecodable("malformed", f"the value is a horolog.{decoded.name}, not a horolog.JobDefinition")
    try:
        definition = from_record(Definition, decoded.record)
    except UnknownSymbol as error:
        raise BadDefinition(error.field, error.reason) from error
    definition = msgspec.structs.replace(definition, name=definition.name or definition.job_id)
    definition = msgspec.structs.replace(definition, task=definition.task or definition.name)
    if key != definition.job_id:
        raise BadDefinition(
            "job_id", f"the definition names {definition.job_id[:_SHOWN_CHARS]!r}, its key is {key[:_SHOWN_CHARS]!r}"
        )
    expected: int | None = decoded.record["expected_version"]
    if expected is not None and expected < 1:
        raise BadDefinition("expected_version", f"{expected}; allowed are null and versions from 1")
    return ReceivedDefinition(definition=definition, expected_version=expected)


def request_hash(definition: Definition) -> str:
    """Return the SHA-256 (hex) of what a definition says.

    Over sorted JSON without the fields that hold their default: a field that a later version adds changes no hash
    of a request that does not use it.
    """
    text = json.dumps(_said(definition), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _said(struct: msgspec.Struct) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(struct)):
        value = getattr(struct, field.name)
        made = field.default_factory
        default = field.default if made is msgspec.NODEFAULT else made()
        if value == default and type(value) is type(default):
            continue
        if isinstance(value, msgspec.Struct):
            out[field.name] = {"record": type(value).__name__, **_said(value)}
        else:
            out[field.name] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return out
