"""The client speaks the whole API: every operation of the OpenAPI document, every parameter and member, both ways.

A new operation, parameter, body member or member of an answer fails here until the client has it.
"""

from __future__ import annotations

import datetime as dt
import json
import keyword
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

import horolog
from api.app import ROUTES
from api.openapi import document_of
from horolog._calls import Answer, Call
from horolog._client import _Api

DOCUMENT = document_of(ROUTES)
AT = dt.datetime(2026, 12, 1, 9, tzinfo=dt.UTC)
SOME: Any = {"k": "v"}

WHOLE: Any = dict.fromkeys(DOCUMENT["components"]["schemas"]["JobBody"]["properties"], 1)
"""For methods that send a JSON definition as it is."""

FORMS: Any = {
    "schedule": {"cron": "0 9 * * *"},
    "run_at": AT,
    "run_at_local": "2026-12-01T09:00:00",
    "time_zone": "UTC",
    "delay_seconds": 1,
}
"""The client leaves it to the gateway to say that there must be one."""
DEFINED: Any = {
    "queue": "q",
    "task": "t",
    "payload": 1,
    "retry": {"maxAttempts": 2},
    "catch_up": "all",
    "overlap": "skip",
    "timeout_seconds": 1,
    "start_deadline_seconds": 1,
    "lane": "low",
    "labels": SOME,
    "start_at": AT,
    "end_at": AT,
    "max_runs": 1,
    "jitter_seconds": 1,
    "paused": True,
    "calendars": ["c"],
    "concurrency_key": "k",
    "concurrency_weight": 1,
} | FORMS
BULK: Any = {
    "queue": "q",
    "labels": SOME,
    "text": "t",
    "name_prefix": "n",
    "job_ids": ["j"],
    "dry_run": False,
    "note": "n",
    "actor": "a",
    "limit": 1,
    "cursor": "c",
    "idempotency_key": "k",
    "until": AT,
}
PAGED: Any = {"limit": 1, "cursor": "c"}
ITEMS: Any = [{"runId": "r", "leaseToken": 1}]


class Use(NamedTuple):
    """One call of a client method, with all that it takes."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}


TABLE: dict[str, list[Use]] = {
    "post_jobs": [
        Use("create_job", ("n",), {"job_id": "j", "idempotency_key": "k"} | DEFINED),
        Use("define_job", (WHOLE,), {"idempotency_key": "k"}),
    ],
    "get_jobs": [
        Use(
            "list_jobs",
            (),
            {
                "queue": "q",
                "state": "active",
                "name_prefix": "n",
                "text": "t",
                "labels": SOME,
                "next_from": AT,
                "next_until": AT,
                "consistency": ["a", "b"],
                "calendar": "c",
            }
            | PAGED,
        )
    ],
    "get_jobs_job_id": [Use("get_job", ("j",))],
    "put_jobs_job_id": [Use("put_job", ("j", WHOLE), {"version": 1, "create_only": True, "idempotency_key": "k"})],
    "patch_jobs_job_id": [
        Use("edit_job", ("j",), {"version": 1, "name": "n", "idempotency_key": "k"} | DEFINED),
        Use("patch_job", ("j", {"lane": "low"}), {"version": 1}),
    ],
    "delete_jobs_job_id": [Use("delete_job", ("j",), {"version": 1, "idempotency_key": "k"})],
    "get_jobs_job_id_runs": [Use("list_job_runs", ("j",), {"state": "ready"} | PAGED)],
    "get_jobs_job_id_explain": [Use("explain_job", ("j",), {"at": AT})],
    "post_jobs_job_id_pause": [Use("pause_job", ("j",), {"note": "n", "actor": "a", "until": AT})],
    "post_jobs_job_id_resume": [Use("resume_job", ("j",), {"note": "n", "actor": "a"})],
    "post_jobs_job_id_trigger": [
        Use("trigger_job", ("j",), {"payload": 1, "note": "n", "force": True, "idempotency_key": "k"})
    ],
    "post_jobs_job_id_skip": [Use("skip_occurrence", ("j",), {"at": AT, "version": 1})],
    "post_jobs_job_id_backfill": [
        Use(
            "backfill_job",
            ("j",),
            {
                "start": AT,
                "end": AT,
                "max_concurrent": 1,
                "rate_per_second": 1,
                "dry_run": True,
                "idempotency_key": "k",
            },
        )
    ],
    "get_jobs_job_id_backfills": [Use("list_backfills", ("j",))],
    "post_jobs_job_id_backfills_backfill_id_stop": [Use("stop_backfill", ("j", "b"))],
    "post_jobs_pause": [Use("change_jobs", ("pause",), BULK)],
    "post_jobs_resume": [Use("change_jobs", ("resume",), BULK)],
    "post_jobs_delete": [Use("change_jobs", ("delete",), BULK)],
    "post_jobs_undo": [Use("undo_change", ("token",))],
    "get_jobs_job_id_preview": [Use("preview_job", ("j",), {"start": AT, "count": 1})],
    "post_preview": [
        Use("preview_schedule", (), {"start": AT, "count": 1} | DEFINED),
        Use("preview_definition", ({"jobId": "j", "name": "n"},), {"start": AT, "count": 1}),
    ],
    "post_queues_queue_lease": [
        Use(
            "lease",
            ("q",),
            {"worker_id": "w", "max_runs": 1, "visibility_seconds": 30, "wait_seconds": 1, "request_id": "r"},
        )
    ],
    "post_runs_run_id_heartbeat": [Use("heartbeat", ("r", 1), {"progress": 1, "visibility_seconds": 30})],
    "post_runs_heartbeat": [Use("heartbeat_many", (ITEMS,), {"worker_id": "w", "visibility_seconds": 30})],
    "post_runs_run_id_complete": [Use("complete", ("r", 1), {"result": 1})],
    "post_runs_complete": [Use("complete_many", (ITEMS,))],
    "post_runs_run_id_fail": [Use("fail", ("r", 1), {"error": "e", "error_type": "t", "retryable": False})],
    "post_runs_fail": [Use("fail_many", (ITEMS,))],
    "post_runs_run_id_release": [Use("release", ("r", 1), {"reason": "r"})],
    "post_runs_release": [Use("release_many", (ITEMS,))],
    "get_runs_run_id": [Use("get_run", ("r",))],
    "get_runs": [
        Use(
            "list_runs",
            (),
            {
                "queue": "q",
                "state": "ready",
                "outcome": "ran",
                "job_id": "j",
                "text": "t",
                "labels": SOME,
                "start": AT,
                "end": AT,
                "consistency": "c",
            }
            | PAGED,
        )
    ],
    "post_runs_run_id_cancel": [Use("cancel_run", ("r",), {"note": "n"})],
    "post_runs_run_id_replay": [Use("replay_run", ("r",), {"note": "n", "idempotency_key": "k"})],
    "post_runs_replay": [
        Use(
            "replay_runs",
            (),
            {
                "queue": "q",
                "job_id": "j",
                "text": "t",
                "labels": SOME,
                "dead_from": AT,
                "dead_until": AT,
                "dry_run": False,
                "rate_per_second": 1,
                "idempotency_key": "k",
            }
            | PAGED,
        )
    ],
    "get_queues": [Use("list_queues")],
    "get_queues_queue": [Use("get_queue", ("q",))],
    "put_queues_queue": [
        Use("put_queue", ("q",), {"max_running": 1, "max_lease_rate_per_second": 1, "description": "d", "version": 1})
    ],
    "get_concurrency_keys": [Use("list_concurrency_keys")],
    "get_concurrency_keys_key": [Use("get_concurrency_key", ("k",))],
    "put_concurrency_keys_key": [
        Use("put_concurrency_key", ("k",), {"max_running": 1, "description": "d", "version": 1})
    ],
    "get_calendars": [Use("list_calendars", (), PAGED)],
    "get_calendars_calendar": [Use("get_calendar", ("c",))],
    "put_calendars_calendar": [
        Use(
            "put_calendar",
            ("c",),
            {"dates": ["2027-12-25"], "rules": ["* * 1 1 *"], "time_zone": "UTC", "description": "d", "version": 1},
        )
    ],
    "delete_calendars_calendar": [Use("delete_calendar", ("c",), {"force": True, "version": 1})],
    "get_tenants_tenant": [Use("get_tenant", ("t",))],
    "put_tenants_tenant": [
        Use("put_tenant", ("t",), {"pending_cap": 1, "max_lease_rate_per_second": 1, "weight": 1, "version": 1})
    ],
    "get_livez": [Use("live")],
    "get_readyz": [Use("ready")],
    "get_metrics": [Use("metrics")],
    "get_openapi_json": [Use("openapi")],
}

NOT_SENT: dict[str, set[str]] = {
    # One body serves the single and the batch form at the gateway, and creating and changing a job.
    "post_runs_run_id_heartbeat": {"runId"},
    "post_runs_run_id_complete": {"runId"},
    "post_runs_run_id_fail": {"runId"},
    "post_runs_run_id_release": {"runId"},
    "patch_jobs_job_id": {"jobId"},
}
NOT_READ: dict[str, set[str]] = {
    "delete_calendars_calendar": {"state"},  # deleted, or an error was raised
    "post_queues_queue_lease": {"requestId"},  # what the caller sent
    "get_jobs_job_id_backfills": {"jobId"},  # the same
}
OPEN = {"evidence", "schedule", "retry", "labels", "attempts", "calendars", "ready", "checks"}
"""Members whose values the client hands on as they are, or whose parts the document does not name."""


class Operation(NamedTuple):
    """One operation of the document."""

    id: str
    method: str
    path: str
    spec: Any

    def parameters(self, where: str) -> set[str]:
        return {parameter["name"] for parameter in self.spec["parameters"] if parameter["in"] == where}

    def body_members(self) -> set[str]:
        body = self.spec.get("requestBody")
        return set() if body is None else set(resolved(body["content"]["application/json"]["schema"])["properties"])

    def answer_schemas(self) -> list[Any]:
        found = [
            response["content"]["application/json"]["schema"]
            for status, response in self.spec["responses"].items()
            if status < "300" and "application/json" in response["content"]
        ]
        return [schema for schema in found if "$ref" in schema]


OPERATIONS = [
    Operation(spec["operationId"], method.upper(), path, spec)
    for path, of_path in DOCUMENT["paths"].items()
    for method, spec in of_path.items()
]
USES = [(operation, use) for operation in OPERATIONS for use in TABLE.get(operation.id, ())]


def resolved(schema: Any) -> Any:
    if "$ref" in schema:
        return DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def methods() -> set[str]:
    return {name for name in vars(_Api) if not name.startswith("_")}


def build(use: Use) -> Call[Any]:
    call: Call[Any] = vars(_Api)[use.method]._build(*use.arguments, **use.options)
    return call


def body_of(call: Call[Any]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(call.body) if call.body else {}
    return body


def test_every_operation_has_its_client_method_and_every_method_its_operation() -> None:
    assert {operation.id for operation in OPERATIONS} == set(TABLE), "give a new operation a method and a line above"
    assert {use.method for uses in TABLE.values() for use in uses} == methods()
    for name in methods():
        assert callable(getattr(horolog.Client("http://localhost:1"), name)), name


@pytest.mark.parametrize(("operation", "use"), USES, ids=lambda it: getattr(it, "id", getattr(it, "method", None)))
def test_a_method_calls_its_operation_with_known_parameters_only(operation: Operation, use: Use) -> None:
    call = build(use)
    path = urlsplit(call.path)
    assert call.method == operation.method
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/:]+", operation.path), path.path)
    assert {name for name, _ in parse_qsl(path.query)} <= operation.parameters("query")
    assert set(call.headers) <= operation.parameters("header") | {"Idempotency-Key"}
    assert set(body_of(call)) <= operation.body_members()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_all_that_an_operation_takes_can_be_said(operation: Operation) -> None:
    calls = [build(use) for use in TABLE[operation.id]]
    said = {name for call in calls for name, _ in parse_qsl(urlsplit(call.path).query)}
    assert said == operation.parameters("query")
    assert operation.parameters("header") <= {name for call in calls for name in call.headers}
    missing = operation.body_members() - {member for call in calls for member in body_of(call)}
    assert missing == NOT_SENT.get(operation.id, set())


def test_a_filter_says_all_that_the_gateway_understands() -> None:
    for name in ("post_jobs_pause", "post_jobs_resume", "post_jobs_delete"):
        (use,) = TABLE[name]
        members = resolved({"$ref": "#/components/schemas/BulkFilterBody"})["properties"]
        assert set(body_of(build(use))["filter"]) == set(members)


SIMPLE: dict[str | None, Any] = {"string": "2026-12-01T09:00:00.000Z", "integer": 7, "number": 7.5, "boolean": True}


def sample_of(schema: Any) -> Any:
    """Give a value that has everything that a schema names."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return sample_of(next(one for one in schema["anyOf"] if one.get("type") != "null"))
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        members = schema.get("properties", {"k": {}})
        return {name: sample_of(member) for name, member in members.items()}
    if schema.get("type") == "array":
        return [sample_of(schema["items"])]
    return SIMPLE.get(schema.get("type"), "anything")


def lost(value: Any, schema: Any, path: str = "") -> set[str]:
    """Give the members of an answer that are not found in what the client made of it."""
    schema = resolved(schema)
    if "anyOf" in schema:
        schema = resolved(next(one for one in schema["anyOf"] if one.get("type") != "null"))
    if schema.get("type") == "array":
        return lost(value[0], schema["items"], path) if value and "$ref" in schema["items"] else set()
    missing: set[str] = set()
    for name, member in schema.get("properties", {}).items():
        attribute = re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name) + "_" * keyword.iskeyword(name)
        is_list = isinstance(value, (tuple, horolog.Page)) and resolved(member).get("type") == "array"
        if is_list:
            items = value.items if isinstance(value, horolog.Page) else value
            missing |= lost(items, member, f"{path}{name}.")
        elif not hasattr(value, attribute) or getattr(value, attribute) in (None, "", ()):
            missing.add(path + name)
        elif name not in OPEN and not isinstance(getattr(value, attribute), Mapping):
            missing |= lost(getattr(value, attribute), member, f"{path}{name}.")
    return missing


@pytest.mark.parametrize(
    ("operation", "use"),
    [(operation, use) for operation, use in USES if operation.answer_schemas()],
    ids=lambda it: getattr(it, "id", getattr(it, "method", None)),
)
def test_all_that_an_answer_holds_is_read(operation: Operation, use: Use) -> None:
    for schema in operation.answer_schemas():
        value = build(use).read(Answer(200, {}, sample_of(schema)))
        assert lost(value, schema) == NOT_READ.get(operation.id, set())
