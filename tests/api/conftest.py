"""A dispatch client over memory and virtual time, and the values that its tests are made of."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from api.app import build_app
from api.auth import Auth
from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.clock import LoopClock, ManualClock
from api.dispatch.link import TimedReplies
from api.dispatch.memory_link import MemoryLink
from api.dispatch.memory_owner import MemoryOwner
from api.gateway import Gateway, Limits
from api.owner_watch import OwnerWatch
from api.queries import MemoryQueries
from api.runner import GatewayRunner
from streams.core.commands import AnyCommand, Delete, Grant, LeaseRun, Release, Reply
from streams.core.envelopes import Answer, Offer, Offers, ReplyBatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

PARTITIONS = 4


@dataclass
class Bench:
    """One started client with the owner's side in the test's hands."""

    clock: ManualClock
    link: MemoryLink
    client: DispatchClient

    async def settle(self) -> None:
        """Let the loop run until nothing is left to do at this instant."""
        for _ in range(10):
            turned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turned.set_result, None)
            await turned

    async def advance(self, by_ms: float) -> None:
        """Move virtual time in steps, as a loop would see it."""
        await self.settle()
        until_ms = self.clock.monotonic_ms() + by_ms
        while True:
            wait_ms = self.clock.next_timer_in_ms()
            now_ms = self.clock.monotonic_ms()
            if wait_ms is None or now_ms + wait_ms > until_ms:
                break
            self.clock.advance(wait_ms)
            await self.settle()
        self.clock.advance(until_ms - self.clock.monotonic_ms())
        await self.settle()

    async def find_company(self) -> None:
        """Have the gateway send some 1,000 commands a second, and forget them."""
        calls = []
        for _ in range(60):
            calls.append(asyncio.create_task(self.client.commands([Delete(job_id="company") for _ in range(20)])))
            await self.advance(20)
        for call in calls:
            call.cancel()
        await self.advance(60)
        self.link.sent.clear()

    def offers(self, *offers: Offer, partition: int = 0, incarnation: str | None = None) -> None:
        """Say offers of one owner to this gateway."""
        self.link.say_offers(
            Offers(
                gateway_id=self.client.gateway_id,
                incarnation=self.client.incarnation if incarnation is None else incarnation,
                partition=partition,
                offers=offers,
            )
        )

    def offer(self, number: int, *, due_in_ms: int = 0, queue: str = "q", lane: str = "normal") -> Offer:
        """Make an offer of a run that is due relative to now."""
        return Offer(
            run_id=f"run_job{number}_x",
            job_id=f"job{number}",
            tenant="t",
            queue=queue,
            lane=lane,
            due_at_ms=self.clock.wall_ms() + due_in_ms,
            job_version=1,
        )

    def requests(self) -> list[LeaseRun]:
        """Give all lease requests sent so far."""
        return [command for command in self.link.commands if isinstance(command, LeaseRun)]

    def releases(self) -> list[str]:
        """Give the run ids of all releases sent so far."""
        return [command.run_id for command in self.link.commands if isinstance(command, Release)]

    def grant(self, requests: Sequence[LeaseRun], *, due_at_ms: int | None = None, token: int = 1) -> None:
        """Commit grants for these requests in one batch, now."""
        now_ms = self.clock.wall_ms()
        self.reply(
            [
                (
                    request,
                    grant_for(request, due_at_ms=now_ms if due_at_ms is None else due_at_ms, token=token),
                )
                for request in requests
            ]
        )

    def reply(self, answers: Sequence[tuple[AnyCommand, Reply | Grant]]) -> None:
        """Commit these answers in one batch, now."""
        batch = ReplyBatch(
            gateway_id=self.client.gateway_id,
            answers=tuple(Answer(request_id=command.request_id, reply=answer) for command, answer in answers),
        )
        self.link.say_replies(TimedReplies(self.clock.wall_ms(), batch))


def grant_for(request: LeaseRun, *, due_at_ms: int, token: int = 1, queue: str = "q") -> Grant:
    """Make the grant that answers a request."""
    return Grant(
        job_id=request.job_id,
        run_id=request.run_id,
        task="task",
        tenant="t",
        queue=queue,
        lane="normal",
        worker_id=request.worker_id,
        gateway_id=request.gateway_id,
        attempt=1,
        lease_token=token,
        scheduled_at_ms=due_at_ms,
        due_at_ms=due_at_ms,
        granted_at_ms=due_at_ms,
        expires_at_ms=due_at_ms + request.visibility_ms,
        visibility_ms=request.visibility_ms,
        timeout_ms=0,
        max_attempts=5,
        payload=b"{}",
        content_type="application/json",
        job_version=request.job_version,
    )


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """Give a started client."""
    clock = ManualClock()
    link = MemoryLink(clock, PARTITIONS)
    client = DispatchClient(link, DispatchConfig(partitions=PARTITIONS, gateway_id="gw"), clock)
    await client.start()
    yield Bench(clock, link, client)
    await client.stop()


@dataclass(frozen=True)
class Answered:
    """An HTTP answer as a test looks at it."""

    status: int
    headers: Any
    body: Any

    def problem(self) -> tuple[int, str, str | None]:
        """Give (status, code, field), after checking what holds for every problem."""
        assert self.headers["Content-Type"].startswith("application/problem+json")
        assert self.body["status"] == self.status
        assert self.body["type"].endswith(self.body["code"])
        assert self.body["requestId"] == self.headers["X-Request-Id"]
        assert self.body["detail"]
        assert ("Retry-After" in self.headers) == (self.status in (429, 503))
        return self.status, self.body["code"], self.body["field"]


class Api:
    """A gateway over HTTP on a loopback port, and the owner in memory behind it."""

    def __init__(self, gateway: Gateway, link: MemoryLink, owner: MemoryOwner, queries: MemoryQueries) -> None:
        self.gateway, self.link, self.owner, self.queries = gateway, link, owner, queries
        self.base = ""
        self.session: aiohttp.ClientSession | None = None
        self.headers: dict[str, str] = {}
        self.deaf = False
        """Whether the owner's query address refuses connections."""

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """Call; underscores in header names are hyphens. Bytes go as they are."""
        assert self.session is not None
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
        if body is not None:
            sent = {"Content-Type": "application/json"} | sent
        async with self.session.request(method, self.base + path, data=data, headers=sent) as response:
            raw = await response.read()
            answered = json.loads(raw) if "json" in response.headers.get("Content-Type", "") else raw.decode()
            return Answered(response.status, response.headers, answered)

    async def probe(self, _: str) -> bool:
        """See OwnerWatch."""
        return not self.deaf

    async def create(self, **fields: Any) -> str:
        """Create a job that must be accepted; its id."""
        answered = await self("POST", "/v1/jobs", {"name": "n", "delaySeconds": 0} | fields)
        assert answered.status == 201, answered.body
        job_id: str = answered.body["jobId"]
        return job_id

    async def lease(self, queue: str = "default", **fields: Any) -> list[dict[str, Any]]:
        """Lease runs; the call must be answered."""
        answered = await self("POST", f"/v1/queues/{queue}/lease", {"workerId": "w", "waitSeconds": 5} | fields)
        assert answered.status == 200, answered.body
        runs: list[dict[str, Any]] = answered.body["runs"]
        return runs


@asynccontextmanager
async def serving(auth: Auth, limits: Limits, *, reply_timeout_ms: int = 10_000) -> AsyncIterator[Api]:
    """Serve a gateway whose owner decides in memory."""
    clock = LoopClock()
    link = MemoryLink(clock, PARTITIONS)
    owner = MemoryOwner(link, clock)
    config = DispatchConfig(partitions=PARTITIONS, gateway_id="gw", reply_timeout_ms=reply_timeout_ms)
    client = DispatchClient(link, config, clock)
    await client.start()
    queries = MemoryQueries(owner.jobs, client.partition_of, owner.progress)
    gateway = Gateway(client, queries, auth, limits)
    api = Api(gateway, link, owner, queries)
    gateway.watch = OwnerWatch(client, api.probe)
    app = build_app(api.gateway)
    runner = GatewayRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession() as session:
        api.session = session
        yield api
        client.begin_stop()
    await runner.cleanup()
    await client.stop()


@pytest.fixture
def serve() -> Callable[..., AbstractAsyncContextManager[Api]]:
    """Give `serving`, for tests that need their own configuration."""
    return serving


@pytest.fixture(scope="module")
def serve_once() -> Callable[..., AbstractAsyncContextManager[Api]]:
    """Give `serving`, for a module that keeps one gateway."""
    return serving


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Give a gateway in development mode."""
    async with serving(Auth(None), Limits(partitions=PARTITIONS)) as api:
        yield api
