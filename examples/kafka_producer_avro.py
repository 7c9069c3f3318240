"""Defines a job over Kafka with Confluent's own serializer and the gateway's schema registry.

    python examples/kafka_producer_avro.py localhost:29092 http://localhost:8080

Needs `pip install "confluent-kafka[avro,schemaregistry]"`; nothing of Horolog is installed here. Sending the same
record again changes nothing; a null value for the key deletes the job. What Horolog cannot accept goes to the topic
`horolog.dead-letter`, with the reason.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import os
import sys

from confluent_kafka import SerializingProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import StringSerializer

TOPIC = "horolog.job-definitions"
WAIT_S = 30

JOB = {
    "job_id": "nightly-close",
    "queue": "billing",
    # The record's name says which kind of schedule it is.
    "schedule": ("horolog.CronSchedule", {"expression": "0 9 * * MON-FRI", "time_zone": "America/New_York"}),
    "task": "close-day",
    "payload": b'{"ledger": "eu"}',
}


def define(bootstrap_servers: str, registry_url: str) -> str:
    """Send the job; return where it went."""
    registry = SchemaRegistryClient({"url": registry_url})
    schema = registry.get_latest_version(f"{TOPIC}-value").schema
    settings = {"auto.register.schemas": False, "use.latest.version": True}  # the schemas come with Horolog
    producer = SerializingProducer(
        {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",  # not librdkafka's default: Horolog refuses other partitions
            "enable.idempotence": True,
            "key.serializer": StringSerializer(),
            "value.serializer": AvroSerializer(registry, schema, conf=settings),
        }
    )
    told: list[str] = []
    producer.produce(
        TOPIC,
        key=JOB["job_id"],
        value=JOB,
        on_delivery=lambda error, message: told.append(
            f"failed: {error}" if error else f"{message.topic()}, partition {message.partition()}"
        ),
    )
    producer.flush(WAIT_S)
    return told[0] if told else f"no answer within {WAIT_S} s"


if __name__ == "__main__":
    servers = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KAFKA", "localhost:29092")
    registry_at = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("REGISTRY", "http://localhost:8080")
    sys.stdout.write(define(servers, registry_at) + "\n")
