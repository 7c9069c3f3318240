from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.catalog import CATALOG
from schemas.registry import RECORD_OF_TOPIC, Registry
from schemas.topics import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT = "horolog.job-definitions-value"
REGISTRY = Registry()
DEFINITION = CATALOG.latest("JobDefinition")
TEXT = json.dumps(DEFINITION.schema)


def get(path: str) -> tuple[int, Any]:
    answer = REGISTRY.respond("GET", path)
    return answer.status, answer.body


def post(path: str, body: Any) -> tuple[int, Any]:
    answer = REGISTRY.respond("POST", path, body)
    return answer.status, answer.body


def test_a_schema_is_found_by_its_id() -> None:
    status, body = get(f"/schemas/ids/{DEFINITION.id}")

    assert status == 200
    assert json.loads(body["schema"]) == DEFINITION.schema


@pytest.mark.parametrize("version", ["1", "latest", "-1"])
def test_a_version_is_found_by_its_subject(version: str) -> None:
    status, body = get(f"/subjects/{SUBJECT}/versions/{version}")

    assert status == 200
    assert (body["subject"], body["version"], body["id"]) == (SUBJECT, 1, DEFINITION.id)
    assert json.loads(body["schema"]) == DEFINITION.schema


@pytest.mark.parametrize("subject", [SUBJECT, "horolog.JobDefinition", "horolog.job-definitions-horolog.JobDefinition"])
def test_all_three_naming_strategies_lead_to_the_definition(subject: str) -> None:
    assert get(f"/subjects/{subject}/versions") == (200, [1])
    assert subject in get("/subjects")[1]


def test_the_subjects_follow_the_topic_namespace() -> None:
    registry = Registry(topic_namespace="staging.")

    assert registry.respond("GET", "/subjects/staging.job-definitions-value/versions").status == 200
    assert registry.respond("GET", f"/subjects/{SUBJECT}/versions").status == 404


def test_every_topic_with_one_kind_of_record_has_a_subject() -> None:
    several = {Topic.LEDGER.value, Topic.CONFIG.value}

    assert set(RECORD_OF_TOPIC) == {topic.value for topic in Topic} - several
    assert set(RECORD_OF_TOPIC.values()) <= set(CATALOG.names())


def test_an_id_leads_to_its_subjects_and_versions() -> None:
    pairs = get(f"/schemas/ids/{DEFINITION.id}/versions")[1]

    assert {"subject": SUBJECT, "version": 1} in pairs
    assert get(f"/schemas/ids/{DEFINITION.id}/subjects")[1] == [pair["subject"] for pair in pairs]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/schemas/ids/999999", 404, 40403),
        ("/schemas/ids/x", 404, 40403),
        ("/schemas/ids/99999999999999999999", 404, 40403),
        ("/subjects/other-value/versions", 404, 40401),
        ("/subjects/other-value/versions/latest", 404, 40401),
        (f"/subjects/{SUBJECT}/versions/9", 404, 40402),
        (f"/subjects/{SUBJECT}/versions/one", 422, 42202),
        ("/nothing", 404, 404),
    ],
)
def test_what_is_not_there_has_the_registrys_code(path: str, status: int, code: int) -> None:
    found, body = get(path)

    assert (found, body["error_code"]) == (status, code)
    assert body["message"]


def test_to_register_a_known_schema_is_to_be_told_its_id() -> None:
    assert post(f"/subjects/{SUBJECT}/versions", {"schema": TEXT}) == (200, {"id": DEFINITION.id})


def test_docs_do_not_make_a_schema_another_one() -> None:
    schema = {**DEFINITION.schema, "doc": "other words"}

    assert post(f"/subjects/{SUBJECT}", {"schema": json.dumps(schema)})[1]["id"] == DEFINITION.id


def test_another_schema_is_refused_with_what_to_use() -> None:
    schema = {**DEFINITION.schema, "fields": DEFINITION.schema["fields"][:3]}

    status, body = post(f"/subjects/{SUBJECT}/versions", {"schema": json.dumps(schema)})

    assert status == 409
    assert f"id {DEFINITION.id}" in body["message"]
    assert post(f"/subjects/{SUBJECT}", {"schema": json.dumps(schema)})[1]["error_code"] == 40403


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"schema": 1},
        {"schema": "{"},
        {"schema": '{"type": "record"}'},
        {"schema": "1"},
        {"schema": "[" * 100_000},
        {"schema": json.dumps("x"), "schemaType": "PROTOBUF"},
        {"schema": '"' + "x" * 300_000 + '"'},
    ],
)
def test_what_is_no_schema_is_refused(body: Any) -> None:
    for path in (f"/subjects/{SUBJECT}", f"/compatibility/subjects/{SUBJECT}/versions"):
        status, answer = post(path, body)

        assert (status, answer["error_code"]) == (422, 42201)


JSON = st.recursive(
    st.none() | st.integers() | st.sampled_from(["record", "null", "JobDefinition", "array", "enum"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "name", "fields", "items", "symbols", "aliases"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_as_a_schema_is_answered(schema: Any) -> None:
    status, body = post(f"/compatibility/subjects/{SUBJECT}/versions", {"schema": json.dumps(schema)})

    assert status in {200, 422}
    assert body.get("is_compatible") is not True


def test_compatibility_is_judged_in_both_directions() -> None:
    path = f"/compatibility/subjects/{SUBJECT}/versions/latest"
    optional = {"name": "region", "type": "string", "default": ""}
    required = {"name": "region", "type": "string"}

    def judged(field: Any) -> Any:
        schema = {**DEFINITION.schema, "fields": [*DEFINITION.schema["fields"], field]}
        return post(path, {"schema": json.dumps(schema)})[1]

    assert judged(optional) == {"is_compatible": True, "messages": []}
    assert judged(required)["is_compatible"] is False
    assert "region" in judged(required)["messages"][0]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_the_registry_is_read_only(method: str) -> None:
    answer = REGISTRY.respond(method, f"/subjects/{SUBJECT}/versions/1")

    assert (answer.status, answer.body["error_code"]) == (422, 42205)


def test_level_and_mode_are_told() -> None:
    assert get("/config")[1] == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert get(f"/config/{SUBJECT}")[1] == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert get("/mode")[1] == {"mode": "READONLY"}
    assert get("/schemas/types")[1] == ["AVRO"]


class _Handler(BaseHTTPRequestHandler):
    """The few lines that the gateway adds: bytes in, bytes out."""

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        answer = REGISTRY.respond(self.command, unquote(urlsplit(self.path).path), body)
        data = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def client() -> Iterator[SchemaRegistryClient]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with SchemaRegistryClient({"url": f"http://127.0.0.1:{server.server_port}"}) as stock:
        yield stock
    server.shutdown()
    thread.join()
    server.server_close()


VALUE: dict[str, Any] = {
    "job_id": "nightly",
    "queue": "billing",
    "schedule": ("horolog.CronSchedule", {"expression": "0 9 * * *"}),
}
CONTEXT = SerializationContext("horolog.job-definitions", MessageField.VALUE)


@pytest.mark.parametrize(
    "settings",
    [
        {"auto.register.schemas": False, "use.latest.version": True},
        {"auto.register.schemas": False},
        {"auto.register.schemas": True},
    ],
)
def test_confluents_serializer_writes_what_our_codec_reads(
    client: SchemaRegistryClient, settings: dict[str, Any]
) -> None:
    serializer = AvroSerializer(client, TEXT, conf=settings)

    value = serializer(VALUE, CONTEXT)

    assert codec.decode(value) == codec.decode(codec.encode("JobDefinition", VALUE))


def test_confluents_deserializer_reads_what_our_codec_writes(client: SchemaRegistryClient) -> None:
    record = AvroDeserializer(client)(codec.encode("JobDefinition", VALUE), CONTEXT)

    assert (record["job_id"], record["schedule"]["expression"]) == ("nightly", "0 9 * * *")


def test_confluents_client_understands_our_refusals(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_version("other-value")

    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)
