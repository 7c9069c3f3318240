"""Defines a job over Kafka with nothing but the schema file: no registry, nothing of Horolog installed.

    python examples/kafka_producer_schema_file_only.py localhost:29092 schemas/JobDefinition.avsc

A third argument is another job as JSON; "-type" names the record of a union:

    '{"job_id": "tick", "queue": "billing", "schedule": {"-type": "horolog.IntervalSchedule", "every_ms": 5000}}'

Needs `pip install confluent-kafka fastavro` and a copy of JobDefinition.avsc. What any producer must get right:
the key is the job_id, the value is Avro behind five bytes (zero, then the schema's id), and the partitioner is murmur2.
What Horolog cannot accept goes to the topic `horolog.dead-letter`, with the reason.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import io
import json
import os
import struct
import sys
from pathlib import Path

import fastavro
from confluent_kafka import Producer

TOPIC = "horolog.job-definitions"
SCHEMA_ID = 1  # JobDefinition version 1, fixed for ever: see ids.json beside the schema
WAIT_S = 30

JOB: dict[str, object] = {
    "job_id": "every-quarter-hour",
    "queue": "billing",
    # The record's name says which kind of schedule it is.
    "schedule": ("horolog.IntervalSchedule", {"every_ms": 900_000}),
}


def encode(job: dict[str, object], schema_file: Path) -> bytes:
    """Return a job as a Kafka value."""
    schema = fastavro.parse_schema(json.loads(schema_file.read_text("utf-8")))
    out = io.BytesIO(struct.pack(">bI", 0, SCHEMA_ID))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, schema, job)
    return out.getvalue()


def define(bootstrap_servers: str, schema_file: Path, job: dict[str, object] = JOB) -> str:
    """Send the job; return where it went."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",  # not librdkafka's default: Horolog refuses other partitions
            "enable.idempotence": True,
        }
    )
    told: list[str] = []
    producer.produce(
        TOPIC,
        key=str(job["job_id"]),
        value=encode(job, schema_file),
        on_delivery=lambda error, message: told.append(
            f"failed: {error}" if error else f"{message.topic()}, partition {message.partition()}"
        ),
    )
    producer.flush(WAIT_S)
    return told[0] if told else f"no answer within {WAIT_S} s"


if __name__ == "__main__":
    servers = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KAFKA", "localhost:29092")
    file = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("SCHEMA", "schemas/JobDefinition.avsc")
    job = json.loads(sys.argv[3]) if len(sys.argv) > 3 else JOB
    sys.stdout.write(define(servers, Path(file), job) + "\n")
