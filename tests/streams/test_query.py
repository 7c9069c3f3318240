"""What an owner answers about its committed state, to gateways, supervisors and Prometheus."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry, Counter

import streams.query
import streams.query_turns
from schemas.codec import Undecodable
from schemas.partition import partition_for
from streams.core.envelopes import Demand, QueueDemand
from streams.core.evidence import Proof
from streams.core.identity import run_id_at
from streams.core.job_filter import JobFilter
from streams.demand import DemandTable
from streams.observe import SchedulerMetrics
from streams.overdue import Overdue, OverdueWatch
from streams.query import QueryServer
from streams.takeover import Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

PARTITIONS = 2
OWN = [name for name in (f"j{n:03}" for n in range(200)) if partition_for(name, PARTITIONS) == 0][:30]
FOREIGN = next(name for name in (f"j{n:03}" for n in range(200)) if partition_for(name, PARTITIONS) == 1)

REST = {"queue": "q", "leased": 0}


class Service:
    """A query server over one shard of two partitions."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig
        self.owner = SimpleNamespace(shards={0: rig.shard}, recovering={})
        self.registry = CollectorRegistry()
        self.session: aiohttp.ClientSession
        self.url = ""
        self.server: QueryServer

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        async with self.session.get(self.url + path, params=query) as answer:
            return answer.status, await answer.json()


@pytest_asyncio.fixture
async def service(make_rig: Any, make_job: Any) -> AsyncIterator[Service]:
    rig = make_rig(partitions=PARTITIONS)
    for number, name in enumerate(OWN):
        rig.define(make_job(name, tenant="ab"[number % 2], at_ms=rig.now_ms + 1))
    rig.run()
    rig.advance(1)
    rig.run()
    service = Service(rig)
    server = QueryServer(service.owner, service.registry, partitions=PARTITIONS)  # type: ignore[arg-type] # a part of an owner
    service.server = server
    service.url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    async with aiohttp.ClientSession() as service.session:
        yield service
    await server.stop()


async def test_a_job_is_its_state_and_its_definition(service: Service) -> None:
    status, body = await service.get(f"/q/jobs/{OWN[0]}")
    assert status == 200
    assert body["job"]["state"]["job_id"] == OWN[0]
    assert body["job"]["definition"]["task"] == "n"


async def test_a_missing_job_is_404_and_a_foreign_one_421(service: Service) -> None:
    missing = next(name for name in (f"m{n}" for n in range(50)) if partition_for(name, PARTITIONS) == 0)
    assert (await service.get(f"/q/jobs/{missing}"))[0] == 404
    status, body = await service.get(f"/q/jobs/{FOREIGN}")
    assert status == 421
    assert "topic owners" in body["detail"]


async def test_a_partition_that_does_not_act_yet_answers_421(service: Service, make_rig: Any) -> None:
    service.owner.shards[0] = make_rig(partitions=PARTITIONS, begin=False).shard
    assert (await service.get(f"/q/jobs/{OWN[0]}"))[0] == 421
    assert (await service.get("/q/jobs", partition="0"))[0] == 421


async def test_an_open_run_is_found_by_its_id(service: Service) -> None:
    run_id = run_id_at(OWN[0], service.rig.now_ms)
    status, body = await service.get(f"/q/runs/{run_id}")
    assert status == 200
    assert (body["open"]["run_id"], body["closed"]) == (run_id, None)
    assert (await service.get(f"/q/runs/{run_id_at(OWN[0], 1)}"))[0] == 404
    assert (await service.get("/q/runs/no-run-id"))[0] == 404


async def test_pages_hold_every_job_once_and_in_order(service: Service) -> None:
    found: list[str] = []
    query: dict[str, Any] = {"partition": 0, "limit": 7}
    while True:
        status, body = await service.get("/q/jobs", **query)
        assert status == 200
        assert len(body["jobs"]) <= 7
        found += [job["state"]["job_id"] for job in body["jobs"]]
        if body["next"] is None:
            break
        query["after"] = body["next"]
    assert found == sorted(OWN)


async def test_a_filter_that_refuses_most_jobs_gives_short_pages_and_a_cursor(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.query, "SCAN_MAX", 10)
    monkeypatch.setattr(streams.query, "PAGE_MAX", 5)
    _, body = await service.get("/q/jobs", partition=0, tenant="nobody")
    assert body == {"jobs": [], "next": OWN[9], "unreadable": []}
    _, body = await service.get("/q/jobs", partition=0, tenant="a")
    assert [job["state"]["tenant"] for job in body["jobs"]] == ["a"] * len(body["jobs"])


@pytest.mark.parametrize(
    "query", [{}, {"partition": "x"}, {"partition": 0, "limit": "many"}, {"partition": 0, "limit": 0}]
)
async def test_a_question_that_makes_no_sense_is_400(service: Service, query: dict[str, Any]) -> None:
    status, body = await service.get("/q/jobs", **query)
    assert status == 400
    assert "limit" in body["detail"]


async def test_waiting_runs_are_counted_by_line(service: Service) -> None:
    due = service.rig.now_ms
    _, body = await service.get("/q/queues")
    assert body == {
        "partitions": [0],
        "queues": [
            {"tenant": "a", "lane": 1, "ready": 15, "retrying": None, "oldest_due_at_ms": due} | REST,
            {"tenant": "b", "lane": 1, "ready": 15, "retrying": None, "oldest_due_at_ms": due} | REST,
        ],
    }
    _, body = await service.get("/q/queues", tenant="b", now_ms=due)
    assert [(row["tenant"], row["retrying"]) for row in body["queues"]] == [("b", 0)]
    _, body = await service.get("/q/queues", tenant="b", now_ms=due - 1)
    assert [row["retrying"] for row in body["queues"]] == [15]


async def test_retries_are_counted_a_slice_at_a_time(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    due = service.rig.now_ms
    for size, most in ((1, 100), (4, 100), (15, 100), (16, 100), (4, 7)):
        monkeypatch.setattr(streams.query, "RUNS_SLICE", size)
        monkeypatch.setattr(streams.query, "COUNTED_MAX", most)
        _, body = await service.get("/q/queues", tenant="b", now_ms=due - 1)
        assert [row["retrying"] for row in body["queues"]] == [min(15, most)]


async def test_a_page_of_large_jobs_is_short_and_goes_on_behind_them(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is written in one go; 200 jobs of 64 KB would take the loop for longer than a commit."""
    _, body = await service.get("/q/jobs", partition=0, limit=1)
    size = len(service.rig.shard.store.jobs(None, 1)[0][1]) + len(service.rig.shard.store.definition(OWN[0]))
    monkeypatch.setattr(streams.query, "PAGE_BYTES_MAX", 3 * size)
    pages: list[list[str]] = []
    query: dict[str, Any] = {"partition": 0}
    while True:
        _, body = await service.get("/q/jobs", **query)
        pages.append([job["state"]["job_id"] for job in body["jobs"]])
        if body["next"] is None:
            break
        query["after"] = body["next"]
    assert [name for page in pages for name in page] == sorted(OWN)
    assert {len(page) for page in pages[:-1]} <= {3, 4}  # ids and tenants differ by a byte


async def test_whoever_comes_when_too_many_wait_hears_when_to_come_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.query_turns, "WAITING_MAX", 0)
    for path, query in (("/q/jobs", {"partition": 0}), ("/q/queues", {})):
        async with service.session.get(service.url + path, params=query) as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"] == "1"
            assert "ask again in a second" in (await answer.json())["detail"]
    assert (await service.get(f"/q/jobs/{OWN[0]}"))[0] == 200  # a single job needs no turn


async def test_a_partition_with_too_many_jobs_does_not_count_its_leases(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.query, "LEASED_SCAN_MAX", len(OWN) - 1)
    _, body = await service.get("/q/queues")
    assert {row["leased"] for row in body["queues"]} == {None}


async def test_a_filter_is_judged_by_the_owner(service: Service) -> None:
    async def found(wanted: JobFilter) -> list[str]:
        _, body = await service.get("/q/jobs", partition=0, filter=msgspec.json.encode(wanted).decode())
        return [job["state"]["job_id"] for job in body["jobs"]]

    assert await found(JobFilter(tenant="a", text=OWN[2].upper())) == [OWN[2]]
    assert await found(JobFilter(tenant="b", text=OWN[2])) == []
    assert await found(JobFilter(labels={"no": "such"})) == []
    assert await found(JobFilter(standing="paused")) == []
    assert await found(JobFilter(runs="dead")) == []
    assert await found(JobFilter(runs="any", standing="active")) == sorted(OWN)
    assert (await service.get("/q/jobs", partition=0, filter="{"))[0] == 400


async def test_a_state_that_cannot_be_read_is_named_and_stops_no_page(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = service.rig.shard.store
    read = store.jobs
    monkeypatch.setattr(
        store, "jobs", lambda *args: [(name, b"\0" if name == OWN[1] else data) for name, data in read(*args)]
    )
    status, body = await service.get("/q/jobs", partition=0)
    assert (status, body["unreadable"]) == (200, [OWN[1]])
    assert [job["state"]["job_id"] for job in body["jobs"]] == sorted(set(OWN) - {OWN[1]})
    assert (await service.get("/q/queues"))[0] == 200


async def test_a_job_that_cannot_be_read_is_told_as_such(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: str) -> None:
        raise Undecodable("malformed", "no state")

    monkeypatch.setattr(service.rig.shard, "job", fails)
    assert (await service.get(f"/q/jobs/{OWN[0]}"))[0] == 422
    assert (await service.get(f"/q/runs/{run_id_at(OWN[0], 1)}"))[0] == 422


async def test_the_process_is_ready_when_all_its_partitions_act(service: Service) -> None:
    assert await service.get("/livez") == (200, {"live": True})
    quiet = {"overdueSlotMs": 0, "oldestReadyRunMs": 0}
    assert await service.get("/readyz") == (200, {"ready": True, "owned": [0], "recovering": {}} | quiet)
    service.owner.recovering = {1: Progress(1, 10, 40, 100)}
    status, body = await service.get("/readyz")
    assert (status, body["recovering"]) == (503, {"1": {"restored": 30, "total": 90}})
    service.owner.recovering = {1: None}
    assert (await service.get("/readyz"))[1]["recovering"] == {"1": {}}


async def test_a_process_without_partitions_is_not_ready(service: Service) -> None:
    service.owner.shards.clear()
    assert (await service.get("/readyz"))[0] == 503


async def test_metrics_are_those_of_the_registry(service: Service) -> None:
    Counter("seen_total", "Seen.", registry=service.registry).inc(3)
    async with service.session.get(service.url + "/metrics") as answer:
        assert answer.status == 200
        assert "seen_total 3.0" in await answer.text()


async def test_how_late_the_owner_is_is_measured_when_somebody_asks(service: Service, make_job: Any) -> None:
    metrics, behind_ms = SchedulerMetrics(), 0
    watch = OverdueWatch(service.owner, monotonic_ms=lambda: service.rig.monotonic_ms + behind_ms, wall_ms=lambda: 0)

    async def stand() -> Mapping[int, Overdue]:
        standing = await watch.look()
        metrics.show(standing, is_member=True)
        return standing

    server = QueryServer(service.owner, metrics.registry, partitions=PARTITIONS, standing=stand)  # type: ignore[arg-type] # a part of an owner
    url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    late = next(name for name in (f"late{n}" for n in range(50)) if partition_for(name, PARTITIONS) == 0)
    service.rig.define(make_job(late, at_ms=service.rig.now_ms + 1_000))
    service.rig.run()
    behind_ms = 8_000  # the loop stands still from here on
    try:
        async with service.session.get(url + "/readyz") as answer:
            body = await answer.json()
            assert answer.status == 200  # it is told, and nobody is restarted for it
            assert body["overdueSlotMs"] == pytest.approx(7_000, abs=20)
            assert body["oldestReadyRunMs"] == pytest.approx(8_000, abs=20)
        behind_ms = 20_000
        async with service.session.get(url + "/metrics") as answer:
            text = await answer.text()
    finally:
        await server.stop()
    [age] = re.findall(r'^horolog_overdue_slot_seconds\{partition="0"\} (\S+)$', text, re.MULTILINE)
    assert float(age) == pytest.approx(19, abs=0.05)
    assert 'horolog_partition_owned{partition="0"} 1.0' in text


async def test_who_waits_at_every_gateway_is_told(service: Service) -> None:
    table = DemandTable()
    for gateway_id, calls in (("g1", 3), ("g2", 1)):
        queue = QueueDemand(tenant="a", queue="q", slots=2, calls=calls)
        other = QueueDemand(tenant="b", queue="q", slots=1)
        table.update(Demand(gateway_id=gateway_id, incarnation="i", sent_at_ms=0, queues=(queue, other)), 0)
    service.owner.demand = table
    _, body = await service.get("/q/polling", tenant="a")
    assert body["polling"] == [
        {"gateway_id": "g1", "queue": "q", "slots": 2, "calls": 3},
        {"gateway_id": "g2", "queue": "q", "slots": 2, "calls": 1},
    ]
    table.forget_silent(10_000)
    assert (await service.get("/q/polling", tenant="a"))[1] == {"polling": []}


async def test_history_is_asked_for_the_jobs_of_this_owner_only(service: Service) -> None:
    asks = '[{"events": ["RunOpened"], "at_ms": 1, "run_id": "r"}]'
    assert await service.get(f"/q/history/{OWN[0]}", asks=asks) == (200, {"found": [None]})
    assert (await service.get(f"/q/history/{FOREIGN}", asks=asks))[0] == 421
    assert (await service.get(f"/q/history/{OWN[0]}", asks="{}"))[0] == 400
    proof = Proof(topic="t", partition=0, offset=7, event_type="RunOpened", event={"at_ms": 1})
    service.server._history = MemoryHistory(proof)
    _, body = await service.get(f"/q/history/{OWN[0]}", asks=asks)
    assert body["found"] == [msgspec.to_builtins(proof)]


async def test_progress_stands_beside_a_job(service: Service) -> None:
    run_id = run_id_at(OWN[0], service.rig.now_ms)
    service.rig.shard.progress.note(run_id, b"{}")
    _, body = await service.get(f"/q/jobs/{OWN[0]}")
    assert body["job"]["progress"] == {run_id: "e30="}
    assert "progress" not in (await service.get(f"/q/jobs/{OWN[1]}"))[1]["job"]


class MemoryHistory:
    """Answers every question with one proof."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof

    async def find(self, partition: int, job_id: str, asks: Any) -> list[Proof | None]:
        assert (partition, job_id) == (0, OWN[0])
        return [self.proof for _ in asks]

    def close(self) -> None:
        """Nothing is held."""
