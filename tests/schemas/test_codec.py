from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.catalog import CATALOG, Catalog, RegisteredSchema
from schemas.codec import RECORD_BYTES_MAX, Codec, TooLarge, Undecodable, header_of

MINIMAL: dict[str, Any] = {
    "job_id": "nightly",
    "queue": "billing",
    "schedule": ("horolog.CronSchedule", {"expression": "0 9 * * MON-FRI"}),
}
EVERY_ID = sorted(schema.id for schema in CATALOG.schemas)


def minimal() -> bytes:
    return codec.encode("JobDefinition", MINIMAL)


def test_a_value_is_framed_with_zero_and_the_schema_id_as_a_big_endian_int() -> None:
    value = minimal()

    assert value[:5] == bytes((0, 0, 0, 0, CATALOG.latest("JobDefinition").id))


def test_a_definition_needs_job_id_queue_and_schedule_only() -> None:
    record = codec.decode(minimal()).record

    assert record["tenant"] == "default"
    assert (record["name"], record["task"], record["payload"]) == ("", "", None)
    assert record["retry"] == {"max_attempts": 5, "backoff": "exponential", "delay_ms": 0}
    assert (record["catch_up"], record["overlap"], record["lane"]) == ("latest", "skip", "normal")
    assert record["schedule"][1]["time_zone"] == "UTC"
    assert record["expected_version"] is None


@pytest.mark.parametrize("missing", ["job_id", "queue", "schedule"])
def test_the_three_required_fields_cannot_be_left_out(missing: str) -> None:
    record = {name: value for name, value in MINIMAL.items() if name != missing}

    with pytest.raises((ValueError, TypeError, KeyError)):
        codec.encode("JobDefinition", record)


def test_a_field_that_the_schema_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="taks"):
        codec.encode("JobDefinition", {**MINIMAL, "taks": "close-day"})


def test_a_default_of_bytes_is_written_as_bytes() -> None:
    command = ("horolog.Complete", {"job_id": "a", "run_id": "r", "lease_token": 1})
    batch = {"gateway_id": "g", "incarnation": "i", "sent_at_ms": 1, "commands": [command]}

    name, fields = codec.decode(codec.encode("CommandBatch", batch)).record["commands"][0]

    assert (name, fields["result"]) == ("horolog.Complete", b"")


def test_a_record_over_the_bound_is_refused_before_kafka_would() -> None:
    with pytest.raises(TooLarge) as refused:
        codec.encode("JobDefinition", {**MINIMAL, "payload": bytes(RECORD_BYTES_MAX)})

    assert refused.value.size > RECORD_BYTES_MAX


def test_a_record_at_the_bound_is_written_and_read() -> None:
    room = RECORD_BYTES_MAX - len(codec.encode("JobDefinition", {**MINIMAL, "payload": bytes(900_000)}))

    value = codec.encode("JobDefinition", {**MINIMAL, "payload": bytes(900_000 + room)})

    assert len(value) == RECORD_BYTES_MAX
    assert len(codec.decode(value).record["payload"]) == 900_000 + room


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        (None, "null", "null"),
        (b"", "truncated", "0 bytes"),
        (b"\0\0\0\0", "truncated", "4 bytes"),
        (b'{"job_id": "a"}', "not_framed", "0x7b"),
        (header_of(987_654) + b"x", "unknown_id", "987654"),
        (bytes(RECORD_BYTES_MAX + 1), "too_large", str(RECORD_BYTES_MAX)),
        (minimal() + b"x", "trailing_bytes", "1 bytes follow"),
        (minimal()[:-1], "truncated", "ends in the middle of horolog.JobDefinition version 1"),
        (header_of(CATALOG.latest("JobDefinition").id) + b"\x02\xff", "malformed", "UnicodeDecodeError"),
    ],
)
def test_what_is_no_record_of_ours_is_undecodable_with_its_reason(value: bytes | None, code: str, said: str) -> None:
    with pytest.raises(Undecodable) as refused:
        codec.decode(value)

    assert refused.value.code == code
    assert said in refused.value.reason


def test_a_value_cut_at_any_length_is_undecodable() -> None:
    value = codec.encode("JobDefinition", {**MINIMAL, "payload": b"p" * 40, "labels": {"team": "x"}})

    for length in range(len(value)):
        with pytest.raises(Undecodable):
            codec.decode(value[:length])


def read_name(value: bytes) -> str:
    try:
        return codec.decode(value).name
    except Undecodable:
        return "undecodable"


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_undecodable_and_nothing_else(value: bytes) -> None:
    assert read_name(value) in {*CATALOG.names(), "undecodable"}


@given(st.sampled_from(EVERY_ID), st.binary(max_size=300))
def test_an_arbitrary_body_raises_undecodable_and_nothing_else(schema_id: int, body: bytes) -> None:
    assert read_name(header_of(schema_id) + body) in {CATALOG.by_id(schema_id).name, "undecodable"}


@pytest.mark.parametrize("count", [2**62, -(2**62), -(2**63), 2**63 - 1])
def test_a_count_that_lies_ends_at_the_end_of_the_value(count: int) -> None:
    zigzag = (count << 1) ^ (count >> 63)
    varint = b""
    while zigzag > 127:
        varint += bytes((zigzag & 127 | 128,))
        zigzag >>= 7
    body = b"\x02g\x02i\0" + varint + bytes((zigzag,))  # Demand: gateway_id, incarnation, sent_at_ms, queues

    with pytest.raises(Undecodable):
        codec.decode(header_of(CATALOG.latest("Demand").id) + body)


def catalogs() -> tuple[Catalog, Catalog]:
    """The catalog of today, and one of tomorrow in which LeaseView has a second version."""
    old = CATALOG.latest("LeaseView")
    schema = copy.deepcopy(old.schema)
    schema["fields"].insert(3, {"name": "region", "type": "string", "default": "eu", "doc": ""})
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "closed_at_ms"]
    new = RegisteredSchema(name="LeaseView", version=2, id=900, schema=schema)
    return CATALOG, Catalog((*CATALOG.schemas, new))


LEASE: dict[str, Any] = {
    "run_id": "r",
    "job_id": "a",
    "tenant": "t",
    "queue": "q",
    "lease_token": 1,
    "attempt": 1,
    "worker_id": "w",
    "gateway_id": "g",
    "granted_at_ms": 5,
    "expires_at_ms": 6,
}


def test_an_older_version_is_read_as_the_latest_one() -> None:
    old, new = catalogs()
    value = Codec(old).encode("LeaseView", {**LEASE, "closed_at_ms": 7})

    record = Codec(new).decode(value).record

    assert record["region"] == "eu"
    assert "closed_at_ms" not in record
    assert record["queue"] == "q"


def test_an_older_version_that_was_cut_is_undecodable_at_every_length() -> None:
    old, new = catalogs()
    value = Codec(old).encode("LeaseView", {**LEASE, "closed": "expired"})
    reader = Codec(new)

    for length in range(len(value)):
        with pytest.raises(Undecodable):
            reader.decode(value[:length])


def test_a_version_of_tomorrow_is_refused_and_not_guessed_at() -> None:
    old, new = catalogs()
    value = Codec(new).encode("LeaseView", LEASE)

    with pytest.raises(Undecodable) as refused:
        Codec(old).decode(value)

    assert refused.value.code == "unknown_id"
