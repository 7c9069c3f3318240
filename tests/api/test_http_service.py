"""Queues, health, metrics, schema registry, explain over HTTP, and the questions to owners."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.clock import LoopClock
from api.dispatch.link import ConfigRecord
from api.dispatch.memory_link import MemoryLink
from api.metrics import TABLE
from api.problems import Problem
from api.queries import HttpQueries, PollingAt, ReadyCount
from streams.core.job_filter import JobFilter

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any


async def test_a_queue_is_declared_shown_and_changed_by_version(api: Api) -> None:
    created = await api("PUT", "/v1/queues/billing", {"description": "bills", "maxLeaseRatePerSecond": 5})
    assert (created.status, created.headers["ETag"]) == (201, '"1"')
    same = await api("PUT", "/v1/queues/billing", {"description": "bills", "maxLeaseRatePerSecond": 5})
    assert (same.status, same.body["version"]) == (200, 1)
    changed = await api("PUT", "/v1/queues/billing", {"description": "more"}, If_Match='"1"')
    assert (changed.body["version"], changed.body["maxLeaseRatePerSecond"]) == (2, None)
    stale = await api("PUT", "/v1/queues/billing", {"description": "x"}, If_Match='"1"')
    assert stale.problem() == (412, "version_mismatch", "If-Match")
    limited = await api("PUT", "/v1/queues/billing", {"description": "more", "maxRunning": 3})
    assert (limited.body["version"], limited.body["maxRunning"]) == (3, 3)
    assert (await api("GET", "/v1/queues/billing")).body["maxRunning"] == 3
    below = await api("PUT", "/v1/queues/billing", {"maxRunning": -1})
    assert below.problem() == (422, "invalid_field", "maxRunning")


async def test_queues_show_who_polls_and_what_waits(api: Api) -> None:
    api.queries.ready_counts = [ReadyCount("default", "billing", 1, 7), ReadyCount("other", "x", 1, 1)]
    poll = asyncio.create_task(api.lease("busy", max=4))
    await api.link.until(api.gateway.client.desk.polling)
    queues = {queue["queue"]: queue for queue in (await api("GET", "/v1/queues")).body["queues"]}
    assert set(queues) == {"default", "billing", "busy"}
    assert queues["billing"]["ready"] == {"high": 0, "normal": 7, "low": 0}
    assert (queues["busy"]["workersPolling"], queues["busy"]["slotsPolling"]) == (1, 4)
    poll.cancel()


async def test_a_queues_lease_rate_holds(api: Api) -> None:
    await api("PUT", "/v1/queues/slow", {"maxLeaseRatePerSecond": 1})
    for _ in range(3):
        await api.create(queue="slow")
    assert len(await api.lease("slow", max=3)) == 1


async def test_what_was_declared_before_the_start_is_known(api: Api) -> None:
    await api("PUT", "/v1/queues/billing", {"description": "bills"})
    client = api.gateway.client
    client.on_config(list(client.config.values()))
    assert api.gateway.queues.of("default") == ["billing"]
    client.on_config([ConfigRecord("queue|default|billing", None, 1)])
    assert api.gateway.queues.of("default") == []
    client.on_config([ConfigRecord("queue|default|bad", b"junk", 2), ConfigRecord("tenant|x", b"junk", 3)])
    assert api.gateway.queues.unreadable_total == 1


async def test_health_says_what_is_wrong(api: Api) -> None:
    assert (await api("GET", "/readyz")).body == {"status": "ok"}
    api.link.say_owners(dict.fromkeys(range(4)))
    unready = await api("GET", "/readyz")
    assert unready.status == 503
    assert {check["name"]: check["ok"] for check in unready.body["checks"]} == {"gateway": True, "owners": False}
    assert (await api("GET", "/livez")).status == 200
    api.link._healthy = False
    assert (await api("GET", "/livez")).status == 503


async def test_metrics_are_exactly_those_of_the_table_and_never_name_an_id(api: Api) -> None:
    job_id = await api.create(queue="billing")
    (run,) = await api.lease("billing")
    await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": 1})
    await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": 7})
    poll = asyncio.create_task(api.lease("billing"))
    await api.link.until(api.gateway.client.desk.polling)
    text = (await api("GET", "/metrics")).body
    poll.cancel()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    shown = {name for name in families if not name.endswith("_created")}
    assert shown == {name.removesuffix("_total") for name in TABLE}
    for name, row in TABLE.items():
        family = families[name.removesuffix("_total")]
        assert family.type == row.kind
        for sample in family.samples:
            assert set(sample.labels) <= {*row.labels, "le"}, name
    assert job_id not in text
    assert run["runId"] not in text
    assert 'horolog_gateway_runs_reported_total{code="lease_lost",kind="complete"} 1.0' in text
    assert 'horolog_gateway_polling_calls{queue="billing",tenant="default"} 1.0' in text
    assert "horolog_gateway_runs_leased_total 1.0" in text


async def test_stock_serializers_find_their_schemas(api: Api) -> None:
    schema = (await api("GET", "/schemas/ids/1")).body["schema"]
    subject = "horolog.job-definitions-value"
    latest = await api("GET", f"/subjects/{subject}/versions/latest")
    assert latest.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert latest.body["id"] == 1
    found = await api("POST", f"/subjects/{subject}", {"schema": schema})
    assert (found.status, found.body["id"]) == (200, 1)
    assert subject in (await api("GET", "/subjects")).body
    missing = await api("GET", "/schemas/ids/9999")
    assert (missing.status, missing.body["error_code"]) == (404, 40403)
    junk = await api("POST", f"/subjects/{subject}", b"{")
    assert (junk.status, junk.body["error_code"]) == (422, 42201)


async def test_explain_says_that_no_worker_polls(api: Api) -> None:
    job_id = await api.create(queue="lonely")
    answer = (await api("GET", f"/v1/jobs/{job_id}/explain")).body
    assert answer["situation"] in ("no_worker_polling", "will_run_at")
    wrong = await api("GET", f"/v1/jobs/{job_id}/explain?at=x")
    assert wrong.problem() == (422, "invalid_field", "at")


async def test_questions_go_to_the_owner_of_the_partition(api: Api) -> None:
    job_id = await api.create(runAt="2099-01-01T00:00:00Z", delaySeconds=None)
    job = api.owner.jobs[job_id]
    view = {"state": job.state, "definition": job.definition, "progress": {"run_x_y": b"{}"}}
    asked: list[str] = []

    async def respond(request: web.Request) -> web.Response:
        asked.append(str(request.rel_url))
        bodies: dict[str, Any] = {
            f"/q/jobs/{job_id}": {"job": view},
            "/q/jobs": {"jobs": [view], "next": "more"},
            "/q/queues": {"partitions": [0], "queues": [{"tenant": "t", "queue": "q", "lane": 2, "ready": 3}]},
        }
        body = bodies.get(request.path)
        told = {"/q/jobs/moved": 421, "/q/jobs/busy": 503}
        status = told.get(request.path, 404 if body is None else 200)
        return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", respond)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    clock = LoopClock()
    link = MemoryLink(clock, 4)
    client = DispatchClient(link, DispatchConfig(partitions=4), clock)
    await client.start()
    link.say_owners(dict.fromkeys(range(4), url))
    queries = HttpQueries(client)
    try:
        seen = await queries.job(job_id)
        assert seen is not None
        assert (seen.state, seen.definition, seen.progress) == (job.state, job.definition, {"run_x_y": b"{}"})
        assert await queries.job("none") is None
        with pytest.raises(Problem, match="No scheduler answers"):
            await queries.job("moved")
        with pytest.raises(Problem, match="Ask again in a second") as busy:
            await queries.job("busy")
        assert (busy.value.code, busy.value.status, busy.value.headers) == ("overloaded", 503, {"Retry-After": "1"})
        page = await queries.page(2, "a", 9, JobFilter(tenant="t", queue="q"))
        assert ([(one.state, one.definition) for one in page.jobs], page.next_after) == (
            [(job.state, job.definition)],
            "more",
        )
        asked_for = URL(asked[-1]).query
        assert asked_for == {"partition": "2", "limit": "9", "after": "a", "filter": '{"tenant":"t","queue":"q"}'}
        assert await queries.ready("t") == [ReadyCount("t", "q", 2, 3)]
        link.say_owners({0: None})
        with pytest.raises(Problem, match="partition 0"):
            await queries.page(0, None, 1, JobFilter(tenant="t"))
        await runner.cleanup()
        with pytest.raises(Problem, match="No scheduler answers"):
            await queries.page(1, None, 1, JobFilter(tenant="t"))
    finally:
        await queries.close()
        await client.stop()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json", "/v1/jobs", "/v1/queues"])
async def test_head_is_get_without_the_body(api: Api, path: str) -> None:
    get = await api("GET", path)
    async with api.session.request("HEAD", api.base + path) as head:
        assert (head.status, await head.read()) == (200, b"")
        assert head.headers["Content-Type"] == get.headers["Content-Type"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"NOT HTTP AT ALL\r\n\r\n", "bad_request"),
        (b"GET / HTTP/9.9\r\n\r\n", "bad_request"),
        (b"GET /livez HTTP/1.1\r\nHost: h\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n", "bad_header"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", "bad_header"),
        (b"GET /livez HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n", "bad_request"),
    ],
)
async def test_what_is_no_http_is_answered_with_a_problem(
    api: Api, caplog: pytest.LogCaptureFixture, sent: bytes, code: str
) -> None:
    caplog.set_level("CRITICAL")
    url = URL(api.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"400"
    assert b"application/problem+json" in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"] in (code, "bad_header")) == (400, True)
    assert problem["requestId"].encode() in head


async def test_workers_at_another_gateway_count_as_polling(api: Api) -> None:
    await api.create(jobId="j", queue="far")
    assert (await api("GET", "/v1/jobs/j/explain")).body["situation"] == "no_worker_polling"
    api.queries.polling_rows = [PollingAt("gw-2", "far", 5, 2), PollingAt("gw", "far", 99, 99)]
    explained = (await api("GET", "/v1/jobs/j/explain")).body
    assert explained["situation"] == "waiting_for_slot"
    assert "2 lease calls wait, at 1 gateways" in {item["detail"] for item in explained["conditions"]}
    queue = (await api("GET", "/v1/queues/far")).body
    assert (queue["workersPolling"], queue["slotsPolling"]) == (2, 5)
    listed = (await api("GET", "/v1/queues")).body["queues"]
    assert {one["queue"]: one["workersPolling"] for one in listed}["far"] == 2
