from __future__ import annotations

import hashlib
import random
import types
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.catalog import CATALOG
from schemas.codec import RECORD_BYTES_MAX, TooLarge, Undecodable
from streams import wire_generator
from streams.core import wire, wire_primitives
from streams.core.definition import Definition, Retry
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
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec
from streams.core.wire import BadDefinition
from streams.core.wire_records import from_record, record_name, to_record

PAIRS: dict[type[msgspec.Struct], tuple[Any, Any]] = {
    JobState: (wire.encode_state, wire.decode_state),
    Definition: (wire.encode_definition, wire.decode_accepted_definition),
    Marker: (wire.encode_marker, wire.decode_marker),
    HistoryEntry: (wire.encode_history, wire.decode_history),
    CommandBatch: (wire.encode_commands, wire.decode_commands),
    ReplyBatch: (wire.encode_replies, wire.decode_replies),
    LeaseView: (wire.encode_lease_view, wire.decode_lease_view),
    Demand: (wire.encode_demand, wire.decode_demand),
    Offers: (wire.encode_offers, wire.decode_offers),
    OwnerView: (wire.encode_owner_view, wire.decode_owner_view),
    DeadLetter: (wire.encode_dead_letter, wire.decode_dead_letter),
}
STRUCTS = list(PAIRS)


def int_fields() -> set[tuple[str, str]]:
    """The (record, field) pairs of 32 bits."""
    found: set[tuple[str, str]] = set()
    pending: list[Any] = [schema.schema for schema in CATALOG.schemas]
    while pending:
        match pending.pop():
            case list() as branches:
                pending += branches
            case {"type": "record", "name": name, "fields": fields}:
                found |= {(name, field["name"]) for field in fields if field["type"] == "int"}
                pending += [field["type"] for field in fields]
            case {"type": "array", "items": inner} | {"type": dict() as inner}:
                pending.append(inner)
    return found


INT_FIELDS = int_fields()
TEXTS = ["", "a", "job-17", "x" * 63, "x" * 64, "x" * 200, "é", "é" * 40, "ключ", "\0\n", "𝄞"]
INTS = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31)]
LONGS = [*INTS, 1_048_575, 1_048_576, 2**40 - 1, 2**40, 2**41 - 1, 2**41, 2**62, 2**63 - 1, -(2**63)]


class Values:
    """Makes values of a type from a seed: a struct has hundreds of fields, too many to draw one by one."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - test data

    def of(self, hint: Any, place: tuple[str, str]) -> Any:
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        pick = self._random
        if origin in {typing.Union, types.UnionType}:
            return self.of(pick.choice(args), place)
        if origin is typing.Literal:
            return pick.choice(args)
        if origin is tuple:
            return tuple(self.of(args[0], place) for _ in range(pick.choice((0, 1, 1, 2))))
        if origin is dict:
            return {self.text(): self.text() for _ in range(pick.randrange(3))}
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.struct(hint)
        simple: dict[Any, Any] = {
            str: self.text,
            bytes: lambda: pick.randbytes(pick.choice((0, 1, 63, 64, 90))),
            bool: lambda: pick.random() < 0.5,
            int: lambda: self.number(*((INTS, 31) if place in INT_FIELDS else (LONGS, 63))),
            type(None): lambda: None,
        }
        return simple[hint]()

    def text(self) -> str:
        return self._random.choice(TEXTS)

    def number(self, edges: list[int], bits: int) -> int:
        kind = self._random.randrange(3)
        if kind == 0:
            return self._random.choice(edges)
        if kind == 1 and bits > 41:
            return self._random.randrange(1_700_000_000_000, 1_900_000_000_000)
        return self._random.randrange(-(2**bits), 2**bits) >> self._random.randrange(bits)

    def struct(self, kind: type[msgspec.Struct]) -> Any:
        """Each field that has a default holds it in half of the values, and in a quarter of them all do."""
        hints = typing.get_type_hints(kind)
        plain = self._random.random() < 0.25
        fields = {
            field.name: self.of(hints[field.name], (record_name(kind), field.name))
            for field in msgspec.structs.fields(kind)
            if field.required or not (plain or self._random.random() < 0.5)
        }
        return kind(**fields)


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.integers(0, 2**64).map(lambda seed: Values(seed).struct(kind))


@pytest.mark.parametrize("kind", STRUCTS)
@given(data=st.data())
def test_what_was_encoded_is_decoded_the_same(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    encode, decode = PAIRS[kind]
    value = data.draw(structs(kind))

    assert decode(encode(value)) == value


@pytest.mark.parametrize("kind", STRUCTS)
@given(data=st.data())
def test_the_generated_code_writes_what_fastavro_writes(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    encode, _ = PAIRS[kind]
    value = data.draw(structs(kind))

    assert encode(value) == codec.encode(record_name(kind), to_record(value))


@pytest.mark.parametrize("kind", STRUCTS)
@given(data=st.data())
def test_what_reads_older_versions_reads_the_same_value(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    encode, _ = PAIRS[kind]
    value = data.draw(structs(kind))

    assert from_record(kind, codec.decode(encode(value)).record) == value


@pytest.mark.parametrize("kind", STRUCTS)
@settings(max_examples=8)
@given(data=st.data())
def test_a_value_cut_anywhere_is_undecodable(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    encode, decode = PAIRS[kind]
    value = encode(data.draw(structs(kind)))

    for length in range(len(value)):
        with pytest.raises(Undecodable):
            decode(value[:length])


@pytest.mark.parametrize("kind", STRUCTS)
@given(data=st.data())
def test_changed_bytes_raise_undecodable_and_nothing_else(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    encode, decode = PAIRS[kind]
    value = bytearray(encode(data.draw(structs(kind))))
    at = data.draw(st.integers(5, len(value) - 1))
    value[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=10))

    assert isinstance(read_or_none(decode, bytes(value)), kind | None)


@pytest.mark.parametrize("kind", STRUCTS)
@given(body=st.binary(max_size=300))
def test_arbitrary_bytes_raise_undecodable_and_nothing_else(kind: type[msgspec.Struct], body: bytes) -> None:
    _, decode = PAIRS[kind]
    header = codec.header_of(CATALOG.latest(record_name(kind)).id)

    assert isinstance(read_or_none(decode, header + body), kind | None)
    assert isinstance(read_or_none(decode, body), kind | None)


def read_or_none(decode: Any, value: bytes) -> Any:
    try:
        return decode(value)
    except Undecodable as error:
        assert error.reason  # noqa: PT017 - the reason goes into a dead-letter record
        return None


def test_trailing_bytes_and_other_records_are_undecodable() -> None:
    value = wire.encode_marker(marker())

    with pytest.raises(Undecodable, match=r"1 bytes follow horolog\.LedgerMarker"):
        wire.decode_marker(value + b"\0")
    with pytest.raises(Undecodable, match=r"is a horolog\.LedgerMarker, not a horolog\.JobState"):
        wire.decode_state(value)
    with pytest.raises(Undecodable, match="null"):
        wire.decode_marker(None)


def marker() -> Marker:
    return Marker(partition=3, next_seq=17, generation=2, member_id="m", transactional_id="t", now_ms=1_796_000_000_000)


def test_a_state_over_the_bound_is_refused_before_kafka_would() -> None:
    state = JobState(job_id="a", tenant="t", queue="q", request_hash="x" * RECORD_BYTES_MAX)

    with pytest.raises(TooLarge, match="JobState"):
        wire.encode_state(state)


def test_bytes_over_the_bound_are_not_read() -> None:
    value = wire.encode_marker(marker())

    with pytest.raises(Undecodable, match="allowed are"):
        wire.decode_marker(value + bytes(RECORD_BYTES_MAX))


def test_a_number_over_64_bits_is_not_written() -> None:
    with pytest.raises(OverflowError):
        wire.encode_state(JobState(job_id="a", tenant="t", queue="q", created_at_ms=2**63))


@pytest.mark.parametrize("length", [10, 11, 100_000])
def test_a_number_of_too_many_bytes_is_refused_without_being_computed(length: int) -> None:
    with pytest.raises(ValueError, match="a number of more than"):
        wire_primitives.read_long(b"\xff" * length + b"\x7f", 0)


def test_arrays_in_blocks_with_their_size_are_read() -> None:
    """Java's blocking encoder writes a negative count, then the block's size in bytes."""
    whole = wire.encode_demand(Demand(gateway_id="g", incarnation="i", sent_at_ms=1, queues=()))
    item = b"\x02t\x02q\x06\x02"
    value = whole[:-1] + b"\x01" + bytes((len(item) * 2,)) + item + b"\x02" + item + b"\0"

    queues = wire.decode_demand(value).queues

    assert [(queue.tenant, queue.queue, queue.slots) for queue in queues] == [("t", "q", 3)] * 2
    assert codec.decode(value).record["queues"] == [{"tenant": "t", "queue": "q", "slots": 3, "calls": 1}] * 2


def test_the_tables_are_bounded() -> None:
    for number in range(20_000):
        view = OwnerView(
            partition=number,
            generation=1,
            member_id=f"m{number}",
            transactional_id="t" * 200,
            query_url="",
            since_ms=1_796_000_000_000 + number,
        )
        assert wire.decode_owner_view(wire.encode_owner_view(view)) == view

    for table in (
        wire_primitives.NUMBERS,
        wire_primitives.TEXTS,
        wire_primitives.WORDS,
        wire_primitives.INSTANTS,
    ):
        assert len(table) <= 16_384
    assert "t" * 200 not in wire_primitives.TEXTS


def test_the_generated_file_is_what_the_schemas_and_structs_say() -> None:
    assert wire_generator.TARGET.read_text("utf-8") == wire_generator.generate()  # python -m streams.wire_generator


# --- definitions from producers that nobody controls --------------------------------------------------------


def sent(**fields: Any) -> bytes:
    record = {
        "job_id": "nightly",
        "queue": "billing",
        "schedule": ("horolog.CronSchedule", {"expression": "0 9 * * *"}),
    }
    return codec.encode("JobDefinition", {**record, **fields})


def test_a_definition_of_three_fields_gets_its_name_task_and_defaults() -> None:
    definition = wire.decode_definition(sent(), "nightly")

    assert definition == Definition(
        job_id="nightly",
        tenant="default",
        queue="billing",
        name="nightly",
        task="nightly",
        schedule=CronSpec(expression="0 9 * * *"),
    )


def test_the_task_of_a_named_job_is_its_name() -> None:
    definition = wire.decode_definition(sent(name="close the day"), "nightly")

    assert (definition.name, definition.task) == ("close the day", "close the day")


def test_the_expected_version_comes_with_the_definition() -> None:
    assert wire.receive_definition(sent(expected_version=3), "nightly").expected_version == 3
    assert wire.receive_definition(sent(), "nightly").expected_version is None


@pytest.mark.parametrize("version", [0, -1])
def test_an_expected_version_below_one_is_refused(version: int) -> None:
    with pytest.raises(BadDefinition) as refused:
        wire.decode_definition(sent(expected_version=version), "nightly")

    assert refused.value.field == "expected_version"


def test_a_key_that_is_not_the_job_id_is_refused() -> None:
    with pytest.raises(BadDefinition) as refused:
        wire.decode_definition(sent(), "nightly-2")

    assert refused.value.field == "job_id"
    assert "nightly-2" in refused.value.reason


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"lane": "unknown"}, "lane"),
        ({"name": "unknown", "overlap": "unknown"}, "overlap"),
        ({"retry": {"backoff": "unknown"}}, "retry.backoff"),
        (
            {"schedule": ("horolog.CronSchedule", {"expression": "* * * * *", "gap": "unknown"})},
            "schedule.gap",
        ),
    ],
)
def test_a_symbol_of_a_later_version_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadDefinition) as refused:
        wire.decode_definition(sent(**fields), "nightly")

    assert refused.value.field == field
    assert "is not one of" in refused.value.reason


def test_an_unknown_symbol_in_the_ledger_is_undecodable() -> None:
    with pytest.raises(Undecodable):
        wire.decode_accepted_definition(sent(lane="unknown"))


def test_bytes_that_are_no_definition_are_undecodable() -> None:
    for value in (None, b"", b"{}", sent()[:-1], sent() + b"x", wire.encode_marker(marker())):
        with pytest.raises(Undecodable):
            wire.decode_definition(value, "nightly")


# --- the hash of a request ----------------------------------------------------------------------------------


def definition(**changes: Any) -> Definition:
    base = Definition(
        job_id="a", tenant="t", queue="q", name="n", task="n", schedule=IntervalSpec(every_ms=60_000, anchor_ms=0)
    )
    return msgspec.structs.replace(base, **changes)


def test_equal_definitions_have_equal_hashes_whatever_the_order_of_labels() -> None:
    one = definition(labels={"a": "1", "b": "2"})
    other = definition(labels={"b": "2", "a": "1"})

    assert wire.request_hash(one) == wire.request_hash(other)


def test_the_hash_of_a_plain_definition_never_changes() -> None:
    """It stands in the ledger: a repeat after an upgrade must still be recognised."""
    text = (
        '{"job_id":"a","name":"n","queue":"q",'
        '"schedule":{"anchor_ms":0,"every_ms":60000,"record":"IntervalSpec"},"task":"n","tenant":"t"}'
    )

    assert wire.request_hash(definition()) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": b"x"},
        {"labels": {"a": "1"}},
        {"retry": Retry(max_attempts=6)},
        {"lane": "high"},
        {"start_at_ms": 0},
        {"schedule": OneOffSpec(at_ms=60_000)},
        {"schedule": IntervalSpec(every_ms=60_000, anchor_ms=1)},
        {"calendars": ("holidays",)},
        {"job_id": "b"},
    ],
)
def test_the_hash_changes_with_every_change_of_the_definition(changes: dict[str, Any]) -> None:
    assert wire.request_hash(definition(**changes)) != wire.request_hash(definition())


@given(structs(Definition), structs(Definition))
def test_two_definitions_have_one_hash_only_if_they_are_equal(one: Definition, other: Definition) -> None:
    assert (wire.request_hash(one) == wire.request_hash(other)) == (one == other)
