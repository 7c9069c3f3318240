"""The producers in examples/ reach the broker, and what they send is a valid definition on its right partition."""

from __future__ import annotations

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from schemas.partition import partition_for
from schemas.registry import Registry
from streams.core.time import CronSpec, IntervalSpec
from streams.core.wire import decode_definition

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
PARTITIONS = 8
TIMEOUT_S = 60


def example(name: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TOPIC", topic)
    return module


@pytest.fixture
def topic(kafka: Any, namespace: str) -> str:
    name = f"{namespace}job-definitions"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_S)
    return name


@pytest.fixture
def registry_url(namespace: str) -> Iterator[str]:
    registry = Registry(topic_namespace=namespace)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = registry.respond("GET", unquote(urlsplit(self.path).path))
            data = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def only_message(servers: str, topic: str) -> Any:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message


def test_confluents_serializer_with_the_gateways_registry(
    kafka: Any, topic: str, registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("kafka_producer_avro", topic, monkeypatch)

    told = module.define(kafka.bootstrap_servers, registry_url)

    message = only_message(kafka.bootstrap_servers, topic)
    key = message.key().decode()
    definition = decode_definition(message.value(), key)
    assert definition.schedule == CronSpec(expression="0 9 * * MON-FRI", time_zone="America/New_York")
    assert (definition.job_id, definition.task) == (key, "close-day")
    assert message.partition() == partition_for(key, PARTITIONS)
    assert told == f"{topic}, partition {message.partition()}"


def test_the_schema_file_alone_is_enough(kafka: Any, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("kafka_producer_schema_file_only", topic, monkeypatch)

    told = module.define(kafka.bootstrap_servers, ROOT / "schemas" / "JobDefinition.avsc")

    message = only_message(kafka.bootstrap_servers, topic)
    key = message.key().decode()
    definition = decode_definition(message.value(), key)
    assert definition.schedule == IntervalSpec(every_ms=900_000, anchor_ms=0)
    assert (definition.tenant, definition.name, definition.task) == ("default", key, key)
    assert message.partition() == partition_for(key, PARTITIONS)
    assert told == f"{topic}, partition {message.partition()}"
