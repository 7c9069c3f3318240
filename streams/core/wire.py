"""Values of every topic as bytes, and back: the only place where the core's structs meet Avro.

`encode_x(value)` writes the latest version of the record; `decode_x(data)` reads any registered version or raises
schemas.codec.Undecodable. decode(encode(x)) == x. Both are pure. Definitions come from producers that nobody
controls: `receive_definition` checks everything about them that the schema cannot say and raises BadDefinition, which
names the field and what is allowed. Whether a schedule makes sense is judged by streams.core.time.

The hot way is wire_generated (tested to write what schemas.codec writes); wire_records reads older versions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from schemas import codec
from schemas.codec import HEADER_BYTES, RECORD_BYTES_MAX, TooLarge, Undecodable
from streams.core import wire_generated as generated
from streams.core.definition import JOB_ID_PATTERN, LABELS_MAX, NAME_PATTERN, PAYLOAD_BYTES_MAX, Definition
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
from streams.core.wire_records import from_record

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound=msgspec.Struct)

NAME_CHARS_MAX: Final = 128
"""Of `name` and `task`: they are shown, and stand in log lines (docs/http-api.md, section 1)."""

CALENDARS_MAX: Final = 8
"""docs/http-api.md, section 2: each is checked at every occurrence."""

LABEL_KEY_CHARS_MAX: Final = 64
LABEL_VALUE_CHARS_MAX: Final = 256
"""docs/http-api.md, section 1; labels are copied into every list row."""

ATTEMPTS_MAX: Final = 100
"""docs/http-api.md, section 2; more is a loop, not a retry."""

SCHEDULE_CHARS_MAX: Final = 4096
"""Of one text inside a schedule; the longest real RRULE texts have a few hundred."""

CONTENT_TYPE_CHARS_MAX: Final = 256
"""A media type with parameters; copied into every grant."""

DURATION_MS_MAX: Final = 366 * 86_400_000
"""A time-out, start deadline or retry delay of over a year is a wrong unit."""

JITTER_MS_MAX: Final = 86_400_000
"""docs/http-api.md, section 2."""

CONCURRENT_RUNS_MAX: Final = 64
"""No more runs than that are open at once (DESIGN section 5)."""

INSTANT_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999; run ids have four digits for the year."""

MAX_RUNS_MAX: Final = 2**31
"""docs/http-api.md, section 2."""

_WRONG_BYTES: Final = (IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What reading bytes raises that no writer made; Undecodable is raised instead of them."""


class BadDefinition(ValueError):  # noqa: N818 - reads as a sentence where it is raised and caught
    """A definition that can be read and not accepted: the field at fault, and what is allowed."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


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
    """Return the definition that a Kafka producer sent, normalised; see `receive_definition`."""
    return receive_definition(data, key).definition


def receive_definition(data: bytes | None, key: str) -> ReceivedDefinition:
    """Return what a Kafka producer asked for. `key` is the record's key, decoded.

    An empty name becomes the job id, an empty task the name. Raises Undecodable for bytes that are no definition,
    BadDefinition for one that breaks a rule that the schema cannot say. The schedule's texts are only bounded here.
    """
    decoded = codec.decode(data)
    if decoded.name != "JobDefinition":
        raise Undecodable("malformed", f"the value is a horolog.{decoded.name}, not a horolog.JobDefinition")
    try:
        definition = from_record(Definition, decoded.record)
    except ValueError as error:
        raise BadDefinition(_field_with_unknown(decoded.record), str(error)) from error
    definition = msgspec.structs.replace(definition, name=definition.name or definition.job_id)
    definition = msgspec.structs.replace(definition, task=definition.task or definition.name)
    if key != definition.job_id:
        raise BadDefinition("job_id", f"{definition.job_id!r} is not the record's key {key!r}: they must be equal")
    check_definition(definition)
    expected: int | None = decoded.record["expected_version"]
    if expected is not None and expected < 1:
        raise BadDefinition("expected_version", f"{expected}; allowed are null and versions from 1")
    return ReceivedDefinition(definition=definition, expected_version=expected)


def _field_with_unknown(record: dict[str, Any]) -> str:
    """Return the path of the first enum field that a later version wrote with a symbol not known here."""
    for name, value in record.items():
        inner = value[1] if isinstance(value, tuple) else value
        if inner == "unknown":
            return name
        if isinstance(inner, dict) and "unknown" in inner.values():
            return f"{name}.{_field_with_unknown(inner)}"
    return ""


def check_definition(definition: Definition) -> None:
    """Raise BadDefinition for the first rule that a complete definition breaks. Gateways use the same rules."""
    _check_texts(definition)
    _check_bounds(definition)
    _check_labels(definition.labels)
    for name, value in msgspec.structs.asdict(definition.schedule).items():
        if isinstance(value, str) and len(value) > SCHEDULE_CHARS_MAX:
            raise BadDefinition(f"schedule.{name}", f"{len(value)} characters; allowed are {SCHEDULE_CHARS_MAX}")
        if isinstance(value, int):
            _within(f"schedule.{name}", value, 1 if name in {"every_ms", "every"} else 0, INSTANT_MS_MAX)


_NOT_SHOWABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


def _check_texts(definition: Definition) -> None:
    _match("job_id", definition.job_id, JOB_ID_PATTERN)
    _match("tenant", definition.tenant, NAME_PATTERN)
    _match("queue", definition.queue, NAME_PATTERN)
    for field, text in (("name", definition.name), ("task", definition.task)):
        if not 0 < len(text) <= NAME_CHARS_MAX or _NOT_SHOWABLE.search(text):
            raise BadDefinition(
                field, f"{_shown(text)}; allowed are 1 to {NAME_CHARS_MAX} characters, none of them a control"
            )
    if len(definition.content_type) > CONTENT_TYPE_CHARS_MAX or _NOT_SHOWABLE.search(definition.content_type):
        raise BadDefinition(
            "content_type", f"{_shown(definition.content_type)}; allowed are {CONTENT_TYPE_CHARS_MAX} characters"
        )
    if len(definition.calendars) > CALENDARS_MAX:
        raise BadDefinition("calendars", f"{len(definition.calendars)}; allowed are {CALENDARS_MAX}")
    for name in definition.calendars:
        _match("calendars", name, NAME_PATTERN)


def _check_bounds(definition: Definition) -> None:
    if len(definition.payload) > PAYLOAD_BYTES_MAX:
        raise BadDefinition(
            "payload",
            f"{len(definition.payload)} bytes; allowed are {PAYLOAD_BYTES_MAX}: "
            "store it elsewhere and send its address",
        )
    _within("retry.max_attempts", definition.retry.max_attempts, 1, ATTEMPTS_MAX)
    _within("retry.delay_ms", definition.retry.delay_ms, 0, DURATION_MS_MAX)
    _within("concurrent_runs_max", definition.concurrent_runs_max, 1, CONCURRENT_RUNS_MAX)
    _within("timeout_ms", definition.timeout_ms, 0, DURATION_MS_MAX)
    _within("start_deadline_ms", definition.start_deadline_ms, 0, DURATION_MS_MAX)
    _within("jitter_ms", definition.jitter_ms, 0, JITTER_MS_MAX)
    _within("max_runs", definition.max_runs, 0, MAX_RUNS_MAX)
    for field, instant in (("start_at_ms", definition.start_at_ms), ("end_at_ms", definition.end_at_ms)):
        if instant is not None:
            _within(field, instant, 0, INSTANT_MS_MAX)
    if definition.start_at_ms is not None and definition.end_at_ms is not None:
        _within("end_at_ms", definition.end_at_ms, definition.start_at_ms, INSTANT_MS_MAX)


def _check_labels(labels: dict[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise BadDefinition("labels", f"{len(labels)}; allowed are {LABELS_MAX}")
    for key, value in labels.items():
        if not 0 < len(key) <= LABEL_KEY_CHARS_MAX:
            raise BadDefinition("labels", f"key {_shown(key)}; allowed are 1 to {LABEL_KEY_CHARS_MAX} characters")
        if len(value) > LABEL_VALUE_CHARS_MAX:
            raise BadDefinition(
                "labels", f"value of {_shown(key)}: {len(value)} characters; allowed are {LABEL_VALUE_CHARS_MAX}"
            )


def _match(field: str, text: str, pattern: re.Pattern[str]) -> None:
    if pattern.fullmatch(text) is None:
        raise BadDefinition(field, f"{_shown(text)}; allowed is {pattern.pattern}")


def _within(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise BadDefinition(field, f"{value}; allowed are {low} to {high}")


_SHOWN_CHARS: Final = 80
"""A refused text may be of any length; a dead-letter reason is for people."""


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "...")


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
