from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2  # type: ignore[import-untyped]  # ships no types
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from schemas.partition import murmur2, partition_for
from streams.kafka_dev import find_java, resolve_libs

FOLDER = Path(__file__).resolve().parent
VECTORS: list[dict[str, Any]] = json.loads((FOLDER / "murmur2_vectors.json").read_text("utf-8"))["vectors"]
PARTITIONS = 64
TIMEOUT_S = 60


def signed(value: int) -> int:
    """Java's int of 32 unsigned bits."""
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["hex"] or "empty")
def test_the_hash_equals_javas(vector: dict[str, Any]) -> None:
    assert signed(murmur2(bytes.fromhex(vector["hex"]))) == vector["java"]


def test_the_vectors_are_what_kafkas_java_client_computes() -> None:
    """Runs Kafka's own class from the jars of `make setup`; this is also how the vectors were made."""
    keys = "".join(f"{vector['hex']}\n" for vector in VECTORS)
    command = [find_java(), "-cp", f"{resolve_libs()}/*", str(FOLDER / "Murmur2Vectors.java")]

    answer = subprocess.run(  # noqa: S603 - our own arguments
        command, input=keys, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )

    expected = [vector["java"] for vector in VECTORS]
    assert [int(line) for line in answer.stdout.split()] == expected


def test_the_vectors_hold_every_length_of_tail_and_more_than_ascii() -> None:
    keys = [bytes.fromhex(vector["hex"]) for vector in VECTORS]

    assert {len(key) for key in keys} >= set(range(9))
    assert any(max(key, default=0) > 127 for key in keys)


@given(st.binary(max_size=200))
def test_the_hash_equals_aiokafkas(key: bytes) -> None:
    assert signed(murmur2(key)) == signed(aiokafka_murmur2(key) & 0xFFFFFFFF)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 1024))
def test_the_partition_is_the_positive_hash_modulo_the_count(job_id: str, partitions: int) -> None:
    assert partition_for(job_id, partitions) == (murmur2(job_id.encode()) & 0x7FFFFFFF) % partitions
    assert 0 <= partition_for(job_id, partitions) < partitions


def test_there_is_no_partition_among_none() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        partition_for("a", 0)


def test_librdkafka_with_murmur2_random_sends_to_the_same_partition(kafka: Any, namespace: str) -> None:
    topic = f"{namespace}murmur2"
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    admin = AdminClient(servers)  # kept: its futures end with it
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    sent: dict[bytes, int] = {}
    producer = Producer({**servers, "partitioner": "murmur2_random"})
    keys = {bytes.fromhex(vector["hex"]) for vector in VECTORS} - {b""}

    for key in keys:
        producer.produce(topic, key=key, value=b"v", on_delivery=lambda error, message: _note(sent, error, message))

    assert producer.flush(TIMEOUT_S) == 0
    assert sent == {key: (murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys}


def _note(sent: dict[bytes, int], error: Any, message: Any) -> None:
    assert error is None
    sent[message.key()] = message.partition()
