"""What a body may not hold: each kind of nonsense is a 4xx that names the field, in single and in batch forms."""

from __future__ import annotations

from typing import Any

import pytest

from api.json_text import NESTING_MAX

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any


def _body(rest: bytes) -> bytes:
    return b'{"name": "n", "delaySeconds": 1, ' + rest + b"}"


@pytest.mark.parametrize(
    ("rest", "status", "code", "field"),
    [
        (b'"payload": "' + b"x" * 65_535 + b'"', 413, "payload_too_large", "payload"),
        (b'"payload": {"a": [1, {"b": "\\ud800"}]}', 422, "invalid_field", "payload.a[1].b"),
        (b'"payload": {"a\\udfff": 1}', 422, "invalid_field", "payload"),
        (b'"task": "t\\udc00"', 422, "invalid_field", "task"),
        (b'"labels": {"k": "\\ud83d"}', 422, "invalid_field", "labels.k"),
        (b'"task": "a\\u0000b"', 422, "invalid_field", "task"),
        (b'"labels": {"k": "\\u0000"}', 422, "invalid_field", "labels.k"),
        (b'"payload": {"a": 1, "a": 2}', 422, "invalid_field", "payload.a"),
        (b'"task": "a", "task": "b"', 422, "invalid_field", "task"),
        (b'"payload": [{"x": {"y": 1e400}}]', 422, "invalid_field", "payload[0].x.y"),
        (b'"payload": ' + b"9" * 400, 422, "invalid_field", "payload"),
        (b'"payload": -' + b"9" * 5_000, 422, "invalid_field", "payload"),
        (b'"maxRuns": ' + b"9" * 60, 422, "invalid_field", "maxRuns"),
        (b'"timeoutSeconds": 1e300', 422, "invalid_field", "timeoutSeconds"),
        (b'"payload": ' + b"[" * 70 + b"]" * 70, 400, "bad_json", "payload" + "[0]" * 64),
        (b'"payload": NaN', 400, "bad_json", None),
        (b'"payload": "\xed\xa0\x80"', 400, "bad_json", None),
        (b'"payload": "\xc3("', 400, "bad_json", None),
        (b'"payload": "a\x00b"', 400, "bad_json", None),
    ],
)
async def test_a_body_that_others_could_misread_is_refused(
    api: Api, rest: bytes, status: int, code: str, field: str | None
) -> None:
    answered = await api("POST", "/v1/jobs", _body(rest))
    assert answered.problem() == (status, code, field)
    assert api.link.commands == []


@pytest.mark.parametrize(
    "payload",
    [
        b'"\\ud83d\\ude00"',
        b'"a\\u0000b"',
        b"1e300",
        b"[" * (NESTING_MAX - 1) + b"]" * (NESTING_MAX - 1),
        b"123456789012345678901234567890",
    ],
)
async def test_what_is_only_unusual_passes_unchanged(api: Api, payload: bytes) -> None:
    answered = await api("POST", "/v1/jobs", _body(b'"jobId": "j", "queue": "q", "payload": ' + payload))
    assert answered.status == 201
    definition = api.owner.jobs["j"].definition
    assert definition.payload == payload


async def test_half_a_character_in_a_batch_is_named(api: Api) -> None:
    wrong = b'{"runs": [{"runId": "run_b_x", "leaseToken": 1, "error": "\\udc80"}]}'
    assert (await api("POST", "/v1/runs:fail", wrong)).problem() == (422, "invalid_field", "runs[0].error")
    assert api.link.commands == []


async def test_an_item_that_cannot_be_taken_fails_alone_in_a_batch(api: Api) -> None:
    await api.create(jobId="a")
    (run,) = await api.lease()
    wrong = b'{"runId": "run_b_x", "leaseToken": 1, "reason": "e"}'
    huge = b'{"runId": "run_c_x", "leaseToken": 99999999999999999999999, "error": "e"}'
    nul = b'{"runId": "' + run["runId"].encode() + b'", "leaseToken": 1, "error": "e\\u0000"}'
    answered = await api("POST", "/v1/runs:fail", b'{"runs": [' + b", ".join((wrong, huge, nul)) + b"]}")
    assert [(item["ok"], item.get("code"), item.get("field")) for item in answered.body["runs"]] == [
        (False, "unknown_field", "runs[0].reason"),
        (False, "invalid_field", "runs[1].leaseToken"),
        (True, None, None),
    ]


async def test_headers_with_stray_bytes_are_refused_and_not_an_error(api: Api) -> None:
    answered = await api("GET", "/v1/jobs", Authorization="Bearer \udcff\udcfe")
    assert answered.status == 200  # without tokens nobody reads it
    key = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1}, Idempotency_Key="k\u00e9y")
    assert key.problem() == (400, "bad_header", "Idempotency-Key")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00", "99999-01-01T00:00:00Z"])
async def test_an_instant_outside_the_calendar_is_refused(api: Api, text: str) -> None:
    answered = await api("POST", "/v1/jobs", {"name": "n", "runAt": text})
    assert answered.problem() == (422, "invalid_field", "runAt")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=%00", "cursor"),
        ("cursor=" + "A" * 600, "cursor"),
        ("cursor=MTIzfGF8fDB8", "cursor"),
        ("consistency=x", "consistency"),
        ("label=nocolon", "label"),
        ("nextFrom=tomorrow", "nextFrom"),
        ("state=asleep", "state"),
        ("text=" + "x" * 257, "text"),
        ("color=red", "color"),
    ],
)
async def test_a_query_that_makes_no_sense_names_the_parameter(api: Api, query: str, field: str) -> None:
    assert (await api("GET", f"/v1/jobs?{query}")).problem() == (400, "bad_header", field)
