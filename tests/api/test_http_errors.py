"""Each refusal: its status, its code, the field that it names. The table of docs/http-api.md, section 1."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from api.auth import Auth, Caller, TokensFileError, read_tokens
from api.dispatch.calls import Failure
from api.gateway import Limits
from api.problems import CODE_OF_REPLY, STATUS, problem_of
from streams.core import commands
from streams.core.commands import Reply

if TYPE_CHECKING:
    from pathlib import Path

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

OK = {"name": "n", "delaySeconds": 1}
LATER = {"name": "n", "runAt": "2099-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"name": ', "truncated"),
        (b'{"name": "n",\n "delaySeconds": x}', "line 2, column"),
        (b"[1]", "JSON object"),
        (b'"text"', "JSON object"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"name": "\xff"}', "UTF-8"),
        (b'{"name": "n", "delaySeconds": 1, "payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "nested"),
        (b"", ""),
    ],
)
async def test_a_body_that_is_no_json_object_says_where(api: Api, body: bytes, what: str) -> None:
    answered = await api("POST", "/v1/jobs", body)
    if body:
        assert answered.problem() == (400, "bad_json", None)
        assert what in answered.body["detail"]
    else:
        assert answered.problem() == (422, "missing_field", "name")


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({"schedule": {"cron": "61 * * * *"}}, 422, "bad_cron", "schedule.cron"),
        ({"schedule": {"cron": "* * * *"}}, 422, "bad_cron", "schedule.cron"),
        ({"schedule": {"cron": "0 0 30 2 *"}}, 422, "never_fires", "schedule.cron"),
        ({"schedule": {"cron": "0 9 * * *", "timeZone": "Europe/Berlim"}}, 422, "bad_time_zone", "schedule.timeZone"),
        ({"schedule": {"every": "5 minutes"}}, 422, "bad_schedule", "schedule.every"),
        ({"schedule": {"every": 10}}, 422, "bad_schedule", "schedule.every"),
        ({"schedule": {"every": 5000, "timeZone": "UTC"}}, 422, "bad_schedule", "schedule.timeZone"),
        ({"schedule": {"rrule": "FREQ=WEEKLY"}}, 422, "missing_field", "schedule.dtStart"),
        ({"schedule": {}}, 422, "bad_schedule", "schedule"),
        ({"schedule": {"cron": "0 9 * * *", "every": 5000}}, 422, "bad_schedule", "schedule"),
        ({"schedule": {"crom": "0 9 * * *"}}, 422, "unknown_field", "schedule.crom"),
        ({"runAt": "tomorrow"}, 422, "invalid_field", "runAt"),
        ({"runAt": "2099-01-01T00:00:00"}, 422, "invalid_field", "runAt"),
        ({"runAtLocal": "2099-01-01T00:00:00"}, 422, "missing_field", "timeZone"),
        (
            {"runAtLocal": "2099-01-01T00:00:00", "timeZone": "Mars/Base"},
            422,
            "bad_time_zone",
            "timeZone",
        ),
        ({"delaySeconds": -1}, 422, "invalid_field", "delaySeconds"),
        ({"delaySeconds": 1e300}, 422, "invalid_field", "delaySeconds"),
        ({"delaySeconds": 1, "runAt": "2099-01-01T00:00:00Z"}, 422, "bad_schedule", "schedule"),
        ({}, 422, "bad_schedule", "schedule"),
        ({"delaySeconds": 1, "name": None}, 422, "missing_field", "name"),
        ({"delaySeconds": 1, "name": 5}, 422, "invalid_field", "name"),
        ({"delaySeconds": 1, "name": "a\x00b"}, 422, "invalid_field", "name"),
        ({"delaySeconds": 1, "name": "x" * 129}, 422, "invalid_field", "name"),
        ({"delaySeconds": 1, "queue": "no spaces"}, 422, "invalid_field", "queue"),
        ({"delaySeconds": 1, "jobId": "-x"}, 422, "invalid_field", "jobId"),
        ({"delaySeconds": 1, "lane": "fast"}, 422, "invalid_field", "lane"),
        ({"delaySeconds": 1, "overlap": "maybe"}, 422, "invalid_field", "overlap"),
        ({"delaySeconds": 1, "catchUp": "some"}, 422, "invalid_field", "catchUp"),
        ({"delaySeconds": 1, "retry": {"maxAttempts": 0}}, 422, "invalid_field", "retry.maxAttempts"),
        ({"delaySeconds": 1, "retry": {"backoff": "linear"}}, 422, "invalid_field", "retry.backoff"),
        ({"delaySeconds": 1, "retry": {"maxSeconds": 5}}, 422, "invalid_field", "retry.maxSeconds"),
        ({"delaySeconds": 1, "timeoutSeconds": 0}, 422, "invalid_field", "timeoutSeconds"),
        ({"delaySeconds": 1, "timeoutSeconds": 1e9}, 422, "invalid_field", "timeoutSeconds"),
        ({"delaySeconds": 1, "startDeadlineSeconds": -1}, 422, "invalid_field", "startDeadlineSeconds"),
        ({"delaySeconds": 1, "jitterSeconds": 1e6}, 422, "invalid_field", "jitterSeconds"),
        ({"delaySeconds": 1, "maxRuns": 0}, 422, "invalid_field", "maxRuns"),
        ({"delaySeconds": 1, "maxRuns": 2**31 + 1}, 422, "invalid_field", "maxRuns"),
        ({"delaySeconds": 1, "task": ""}, 422, "invalid_field", "task"),
        ({"delaySeconds": 1, "task": "x" * 129}, 422, "invalid_field", "task"),
        ({"delaySeconds": 1, "labels": {str(n): "" for n in range(17)}}, 422, "invalid_field", "labels"),
        ({"delaySeconds": 1, "labels": {"k": "v" * 257}}, 422, "invalid_field", "labels"),
        ({"delaySeconds": 1, "calendars": ["bank"]}, 422, "invalid_field", "calendars"),
        (
            {"delaySeconds": 1, "calendars": [{"name": "b", "mode": "include"}]},
            422,
            "invalid_field",
            "calendars[0].mode",
        ),
        ({"delaySeconds": 1, "startAt": "x"}, 422, "invalid_field", "startAt"),
        ({"delaySeconds": 1, "color": "red"}, 422, "unknown_field", "color"),
        ({"delaySeconds": 1, "payload": "x" * 65_536}, 413, "payload_too_large", "payload"),
    ],
)
async def test_a_wrong_definition_names_its_field(
    api: Api, fields: dict[str, Any], status: int, code: str, field: str
) -> None:
    created = await api("POST", "/v1/jobs", {"name": "n"} | fields)
    assert created.problem() == (status, code, field)
    assert field.split("[", maxsplit=1)[0] in created.body["detail"]
    assert "?." not in created.body["detail"]
    assert api.owner.jobs == {}
    assert api.link.commands == []


@pytest.mark.parametrize(
    ("fields", "allowed", "advice"),
    [
        ({"name": 5}, "a string or null", "name: is a whole number; send a string or null."),
        ({"delaySeconds": "1"}, "a number or null", "delaySeconds: is a string; send a number or null."),
        ({"maxRuns": True}, "a whole number or null", "maxRuns: is true or false; send a whole number or null."),
        ({"labels": []}, "an object or null", "labels: is an array; send an object or null."),
    ],
)
async def test_a_wrong_type_is_told_in_the_words_of_json(
    api: Api, fields: dict[str, Any], allowed: str, advice: str
) -> None:
    answered = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1} | fields)
    assert (answered.status, answered.body["allowed"], answered.body["detail"]) == (422, allowed, advice)


@pytest.mark.parametrize(
    ("fields", "near", "known"),
    [
        ({"retires": {}}, "did you mean retry?", "catchUp"),
        ({"retry": {"maxAttempt": 3}}, "did you mean maxAttempts?", "baseSeconds"),
        ({"schedule": {"everyCalendar": {"units": "day"}}}, "did you mean unit?", "startDate"),
        ({"calendars": [{"nmae": "x"}]}, "did you mean name?", "mode"),
        ({"retry": {"zzz": 3}}, "known are: maxAttempts, backoff, baseSeconds, maxSeconds.", "maxAttempts"),
    ],
)
async def test_an_unknown_field_names_those_that_are_known(
    api: Api, fields: dict[str, Any], near: str, known: str
) -> None:
    answered = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1} | fields)
    assert answered.body["code"] == "unknown_field"
    assert answered.body["detail"].endswith(near)
    assert known in answered.body["allowed"]


@pytest.mark.parametrize("number", [0, -1, 2**31 + 1])
async def test_the_least_number_of_runs_that_is_named_is_one_that_is_taken(api: Api, number: int) -> None:
    refused = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1, "maxRuns": number})
    assert refused.problem() == (422, "invalid_field", "maxRuns")
    assert "from 1 to 2147483648" in refused.body["detail"]
    assert (await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1, "maxRuns": 1})).status == 201


async def test_the_largest_payload_is_taken_and_white_space_does_not_count(api: Api) -> None:
    body = b'{"name": "n", "delaySeconds": 1, "payload": [ "' + b"x" * 65_532 + b'" ]}'
    assert (await api("POST", "/v1/jobs", body)).status == 201


async def test_bodies_are_bounded(serve: Any) -> None:
    async with serve(Auth(None), Limits(partitions=4, body_bytes_batch_max=300_000)) as api:
        answered = await api("POST", "/v1/jobs", b" " * 262_145)
        assert answered.problem() == (413, "body_too_large", None)
        assert answered.body["limit"] == 262_144
        batch = await api("POST", "/v1/runs:complete", b" " * 300_001)
        assert batch.problem() == (413, "body_too_large", None)
        assert batch.body["limit"] == 300_000

        async def chunks() -> Any:
            for _ in range(40):
                yield b" " * 10_000

        async with api.session.post(
            api.base + "/v1/jobs", data=chunks(), headers={"Content-Type": "application/json"}
        ) as response:
            assert (response.status, (await response.json(content_type=None))["code"]) == (413, "body_too_large")


async def test_a_body_that_is_not_in_its_content_encoding_is_no_defect_of_the_server(api: Api) -> None:
    answered = await api("POST", "/v1/jobs", b"this is not gzip", Content_Encoding="gzip")
    assert answered.problem() == (400, "bad_json", None)
    assert "Content-Encoding" in answered.body["detail"]


async def test_a_body_that_never_ends_is_not_waited_for(serve: Any) -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def chunks() -> Any:
        yield b'{"name": '
        await never

    async with serve(Auth(None), Limits(partitions=4, body_wait_s_max=0.05)) as api:
        async with api.session.post(
            api.base + "/v1/jobs", data=chunks(), headers={"Content-Type": "application/json"}
        ) as response:
            answered = await response.json(content_type=None)
        never.cancel()
    assert (response.status, answered["code"], answered["limit"]) == (408, "body_timeout", 0.05)


async def test_a_body_of_another_type_is_refused(api: Api) -> None:
    answered = await api("POST", "/v1/jobs", b"name=n", Content_Type="application/x-www-form-urlencoded")
    assert answered.problem() == (415, "bad_content_type", "Content-Type")


@pytest.mark.parametrize(
    ("method", "path", "headers", "field"),
    [
        ("POST", "/v1/jobs", {"Idempotency_Key": "has space"}, "Idempotency-Key"),
        ("POST", "/v1/jobs", {"Idempotency_Key": "x" * 256}, "Idempotency-Key"),
        ("PUT", "/v1/jobs/a", {"If_Match": "abc"}, "If-Match"),
        ("PUT", "/v1/jobs/a", {"If_Match": "0"}, "If-Match"),
        ("PUT", "/v1/jobs/a", {"If_None_Match": '"3"'}, "If-None-Match"),
        ("GET", "/v1/jobs?limit=0", {}, "limit"),
        ("GET", "/v1/jobs?limit=x", {}, "limit"),
        ("GET", "/v1/jobs?cursor=!!", {}, "cursor"),
        ("GET", "/v1/jobs?cursor=OTk5fGE", {}, "cursor"),
        ("GET", "/v1/jobs?state=odd", {}, "state"),
        ("GET", "/v1/jobs?label=odd", {}, "label"),
        ("GET", "/v1/jobs?colour=red", {}, "colour"),
    ],
)
async def test_a_header_or_parameter_that_cannot_be_read_is_named(
    api: Api, method: str, path: str, headers: dict[str, str], field: str
) -> None:
    body = None if method == "GET" else OK
    assert (await api(method, path, body, **headers)).problem() == (400, "bad_header", field)


async def test_the_same_key_with_another_body_is_a_conflict(api: Api) -> None:
    await api("POST", "/v1/jobs", LATER, Idempotency_Key="k")
    other = await api("POST", "/v1/jobs", LATER | {"name": "m"}, Idempotency_Key="k")
    assert other.problem() == (409, "idempotency_conflict", "Idempotency-Key")


async def test_a_job_id_that_exists_with_another_body_is_a_conflict(api: Api) -> None:
    await api("POST", "/v1/jobs", LATER | {"jobId": "a"})
    other = await api("POST", "/v1/jobs", LATER | {"jobId": "a", "lane": "high"})
    assert other.problem() == (409, "job_exists", "jobId")


async def test_a_version_that_is_not_current_is_412_with_the_version(api: Api) -> None:
    await api("PUT", "/v1/jobs/a", LATER)
    await api("PATCH", "/v1/jobs/a", {"lane": "high"})
    for answered in (
        await api("PUT", "/v1/jobs/a", LATER | {"lane": "low"}, If_Match='"1"'),
        await api("PATCH", "/v1/jobs/a", {"lane": "low"}, If_Match='"1"'),
        await api("DELETE", "/v1/jobs/a", If_Match='"1"'),
    ):
        assert answered.problem()[:2] == (412, "version_mismatch")
        assert answered.body["version"] == 2
    exists = await api("PUT", "/v1/jobs/a", LATER | {"lane": "low"}, If_None_Match="*")
    assert exists.problem() == (412, "version_mismatch", "If-None-Match")


@pytest.mark.parametrize(
    ("method", "path", "code", "field"),
    [
        ("GET", "/v1/jobs/none", "job_not_found", "jobId"),
        ("PATCH", "/v1/jobs/none", "job_not_found", "jobId"),
        ("DELETE", "/v1/jobs/none", "job_not_found", "jobId"),
        ("POST", "/v1/jobs/none/pause", "job_not_found", "jobId"),
        ("POST", "/v1/jobs/none/trigger", "job_not_found", "jobId"),
        ("GET", "/v1/jobs/none/runs", "job_not_found", "jobId"),
        ("GET", "/v1/jobs/none/preview", "job_not_found", "jobId"),
        ("GET", "/v1/jobs/none/explain", "job_not_found", "jobId"),
        ("GET", "/v1/runs/run_none_x", "run_not_found", "runId"),
        ("GET", "/v1/runs/nonsense", "run_not_found", "runId"),
        ("POST", "/v1/runs/run_none_x/cancel", "job_not_found", "jobId"),
        ("GET", "/nope", "unknown_route", None),
        ("GET", "/v1/tenants", "unknown_route", None),
    ],
)
async def test_what_does_not_exist_is_404(api: Api, method: str, path: str, code: str, field: str | None) -> None:
    body = {"lane": "high"} if method == "PATCH" else {} if method == "POST" else None
    if code == "job_not_found" and path.endswith("/cancel"):
        code = "run_not_found"
        field = "runId"
    assert (await api(method, path, body)).problem() == (404, code, field)


async def test_a_wrong_method_is_405_and_names_the_right_ones(api: Api) -> None:
    answered = await api("DELETE", "/v1/jobs")
    assert answered.problem() == (405, "method_not_allowed", None)
    assert answered.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("kind", ["heartbeat", "complete", "fail", "release"])
async def test_a_stale_lease_token_is_lease_lost(api: Api, kind: str) -> None:
    await api.create()
    (run,) = await api.lease()
    body = {"leaseToken": 99} | ({"error": "e"} if kind == "fail" else {})
    answered = await api("POST", f"/v1/runs/{run['runId']}/{kind}", body)
    assert answered.problem() == (409, "lease_lost", "leaseToken")
    assert answered.body["currentAttempt"] == 1
    assert "Stop working" in answered.body["detail"]


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"workerId": None}, "invalid_field", "workerId"),
        ({"workerId": ""}, "invalid_field", "workerId"),
        ({"workerId": "x" * 129}, "invalid_field", "workerId"),
        ({"max": 0}, "invalid_field", "max"),
        ({"max": 1001}, "invalid_field", "max"),
        ({"max": "1"}, "invalid_field", "max"),
        ({"visibilitySeconds": 4}, "invalid_field", "visibilitySeconds"),
        ({"visibilitySeconds": 3601}, "invalid_field", "visibilitySeconds"),
        ({"waitSeconds": 21}, "invalid_field", "waitSeconds"),
        ({"requestId": "x" * 65}, "invalid_field", "requestId"),
        ({"slots": 1}, "unknown_field", "slots"),
    ],
)
async def test_a_wrong_lease_call_names_its_field(api: Api, fields: dict[str, Any], code: str, field: str) -> None:
    answered = await api("POST", "/v1/queues/q/lease", {"workerId": "w"} | fields)
    assert answered.problem() == (422, code, field)
    assert (await api("POST", "/v1/queues/q/lease", {})).problem() == (422, "missing_field", "workerId")


async def test_a_queue_name_that_is_none_is_400(api: Api) -> None:
    answered = await api("POST", "/v1/queues/no%20name/lease", {"workerId": "w"})
    assert answered.problem() == (400, "bad_path", "queue")
    assert (await api("PUT", "/v1/queues/-a", {})).problem() == (400, "bad_path", "queue")


async def test_with_strict_queues_an_undeclared_queue_does_not_exist(serve: Any) -> None:
    async with serve(Auth(None), Limits(partitions=4, strict_queues=True)) as api:
        for answered in (
            await api("POST", "/v1/queues/billing/lease", {"workerId": "w"}),
            await api("POST", "/v1/jobs", LATER | {"queue": "billing"}),
            await api("GET", "/v1/queues/billing"),
        ):
            assert answered.problem() == (404, "unknown_queue", "queue")
            assert "PUT /v1/queues/billing" in answered.body["detail"]
        assert (await api("PUT", "/v1/queues/billing", {})).status == 201
        assert (await api("POST", "/v1/jobs", LATER | {"queue": "billing"})).status == 201
        assert (await api("POST", "/v1/jobs", LATER)).status == 201


async def test_without_an_owner_nothing_is_accepted(api: Api) -> None:
    api.link.say_owners(dict.fromkeys(range(4)))
    answered = await api("POST", "/v1/jobs", OK)
    assert answered.problem() == (503, "no_owner", None)
    assert api.link.commands == []
    assert api.owner.jobs == {}
    api.queries.absent |= set(range(4))
    assert (await api("GET", "/v1/jobs/a")).problem() == (503, "no_owner", None)
    assert (await api("GET", "/v1/jobs")).problem() == (503, "no_owner", None)
    assert (await api("GET", "/readyz")).status == 503


async def test_a_missing_answer_is_504_and_the_repeat_gets_it(serve: Any) -> None:
    async with serve(Auth(None), Limits(partitions=4), reply_timeout_ms=100) as api:
        api.owner.silent = True
        unknown = await api("POST", "/v1/jobs", LATER, Idempotency_Key="k")
        assert unknown.problem() == (504, "outcome_unknown", None)
        api.owner.silent = False
        assert (await api("POST", "/v1/jobs", LATER, Idempotency_Key="k")).status == 201
        assert len(api.owner.jobs) == 1


async def test_a_write_that_failed_is_503(api: Api) -> None:
    api.link.failure = "not_written"
    assert (await api("POST", "/v1/jobs", OK)).problem() == (503, "overloaded", None)
    assert (await api("PUT", "/v1/queues/q", {})).problem() == (503, "overloaded", None)


async def test_a_closed_run_cannot_be_cancelled(api: Api) -> None:
    await api.create()
    (run,) = await api.lease()
    await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": 1})
    answered = await api("POST", f"/v1/runs/{run['runId']}/cancel", {})
    assert answered.problem() == (409, "run_closed", "runId")
    assert answered.body["outcome"] == "ran"


async def test_a_finished_job_takes_no_pause(api: Api) -> None:
    job_id = await api.create()
    (run,) = await api.lease()
    await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": 1})
    assert (await api("POST", f"/v1/jobs/{job_id}/pause", {})).problem() == (409, "job_finished", None)


async def test_too_many_open_runs_is_429(api: Api) -> None:
    job_id = await api.create(runAt="2099-01-01T00:00:00Z", delaySeconds=None, overlap="allow")
    answered = [await api("POST", f"/v1/jobs/{job_id}/trigger", {}) for _ in range(65)]
    assert [call.status for call in answered[:64]] == [201] * 64
    assert answered[64].problem() == (429, "too_many_open_runs", None)


async def test_a_defect_is_500_and_its_cause_stays_inside(api: Api) -> None:
    async def broken(_: str) -> None:
        raise RuntimeError("secret cause")

    api.queries.job = broken
    answered = await api("GET", "/v1/jobs/a", X_Request_Id="me-1")
    assert answered.problem() == (500, "internal", None)
    assert answered.body["requestId"] == "me-1"
    assert "secret" not in json.dumps(answered.body)


async def test_wrong_tokens_are_401(serve: Any, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# services\n\nteam-a 0123456789abcdef0123 billing\n")
    async with serve(read_tokens(tokens), Limits(partitions=4)) as api:
        for authorization in ("", "Bearer wrong-token-wrong-token", "Basic 0123456789abcdef0123", "Bearer "):
            headers = {"Authorization": authorization} if authorization else {}
            answered = await api("POST", "/v1/jobs", OK, **headers)
            assert answered.problem() == (401, "unauthorized", "Authorization")
            assert answered.headers["WWW-Authenticate"] == "Bearer"
        good = {"Authorization": "Bearer 0123456789abcdef0123"}
        created = await api("POST", "/v1/jobs", OK, **good)
        assert created.status == 201
        job = await api("GET", f"/v1/jobs/{created.body['jobId']}", **good)
        assert job.body["tenant"] == "team-a"
        for path in ("/livez", "/readyz", "/metrics", "/subjects"):
            assert (await api("GET", path)).status == 200


def test_tokens_may_be_written_as_hashes(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    tokens.write_text(f"team sha256:{digest}\n")
    assert read_tokens(tokens).caller("Bearer test") == Caller("team", "team")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no token"),
        ("team", "line 1"),
        ("team short", "16 characters"),
        ("a b c d", "line 1"),
        ("\n-x 0123456789abcdef0123", "line 2"),
    ],
)
def test_a_tokens_file_that_is_wrong_names_the_line(tmp_path: Path, text: str, what: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(text)
    with pytest.raises(TokensFileError, match=what):
        read_tokens(tokens)


async def test_request_ids_are_echoed_or_minted(api: Api) -> None:
    assert (await api("GET", "/livez", X_Request_Id="mine")).headers["X-Request-Id"] == "mine"
    minted = [(await api("GET", "/livez")).headers["X-Request-Id"] for _ in range(2)]
    assert len(set(minted)) == 2
    assert (await api("GET", "/livez", X_Request_Id="has space")).headers["X-Request-Id"] != "has space"


def test_every_refusal_of_an_owner_has_a_code_and_every_code_a_status() -> None:
    accepted = {"ok", "created", "granted"}
    codes = set(commands.ReplyCode.__args__)  # type: ignore[attr-defined]  # of a Literal
    assert set(CODE_OF_REPLY) == codes - accepted
    assert set(CODE_OF_REPLY.values()) <= set(STATUS)
    for code in codes - accepted:
        assert problem_of(Reply(code=code, job_id="a")).status >= 400


@pytest.mark.parametrize(
    ("code", "status"),
    [("no_owner", 503), ("starting", 503), ("stopping", 503), ("overloaded", 503), ("outcome_unknown", 504)],
)
def test_a_missing_answer_is_a_problem_that_says_whether_to_repeat(code: Any, status: int) -> None:
    problem = problem_of(Failure(code))
    assert problem.status == status
    assert "Repeat" in problem.detail or "repeat" in problem.detail
    assert problem.item("run_a_x").get("retryAfterSeconds") == (1 if status == 503 else None)


async def test_what_only_the_owner_can_refuse_names_the_field_and_what_to_do_too(api: Api) -> None:
    job_id = await api.create(delaySeconds=3600)
    path = f"/v1/jobs/{job_id}"
    for method, body in (("PUT", {"delaySeconds": 1}), ("DELETE", None)):
        stale = await api(method, path, body, If_Match='"9"')
        assert stale.problem() == (412, "version_mismatch", "If-Match")
        assert stale.body["detail"] == "If-Match: the job is at version 1, not 9; read it again."
    missing = await api("DELETE", "/v1/jobs/nope")
    assert missing.problem() == (404, "job_not_found", "jobId")
    assert missing.body["detail"] == "jobId: no such job; look at its spelling."


async def test_two_gateways_calls_do_not_mix_under_load(api: Api) -> None:
    ids = await asyncio.gather(*(api.create(name=f"n{number}", delaySeconds=3600) for number in range(50)))
    assert len(set(ids)) == 50
    names = await asyncio.gather(*(api("GET", f"/v1/jobs/{job_id}") for job_id in ids))
    assert [answered.body["name"] for answered in names] == [f"n{number}" for number in range(50)]


@pytest.mark.parametrize(
    ("fields", "field", "allowed", "limit"),
    [
        ({"timeoutSeconds": 1e300}, "timeoutSeconds", "1 to 604800", 604_800),
        ({"timeoutSeconds": 0.5}, "timeoutSeconds", "1 to 604800", 1),
        ({"startDeadlineSeconds": 1e18}, "startDeadlineSeconds", "0 to 31536000", 31_536_000),
        ({"startDeadlineSeconds": -1}, "startDeadlineSeconds", "0 to 31536000", 0),
        ({"jitterSeconds": 86_401}, "jitterSeconds", "0 to 86400", 86_400),
        ({"retry": {"backoff": "fixed", "baseSeconds": 1e9}}, "retry.baseSeconds", "0 to 86400", 86_400),
    ],
)
async def test_bounds_of_seconds_are_told_in_seconds(
    api: Api, fields: dict[str, Any], field: str, allowed: str, limit: int
) -> None:
    refused = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1} | fields)
    assert refused.problem() == (422, "invalid_field", field)
    assert (refused.body["allowed"], refused.body["limit"]) == (allowed, limit)
    assert refused.body["detail"].endswith(f"use {allowed}.")
