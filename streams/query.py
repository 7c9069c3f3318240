"""The owner's HTTP side: queries from its committed state, health, metrics. On loopback unless configured otherwise.

Gateways find the address in topic `owners`. A query reads the store of one partition, bounded and paged, and never
holds up
the commit loop: a page is at most PAGE_MAX jobs. Values are the core's structs as JSON (bytes in base64).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from schemas.partition import partition_for
from streams.core.identity import job_id_of
from streams.core.state import Job
from streams.core.wire import decode_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

    from streams.owner import Owner
    from streams.shard import Shard

PAGE_MAX: Final = 200
"""Jobs of one answer: some 5 ms of the loop's time."""

SCAN_MAX: Final = 2_000
"""Jobs looked at for one page when a filter refuses most of them; the caller goes on from the cursor."""


class QueryServer:
    """Answers for the shards that this process owns."""

    def __init__(self, owner: Owner, registry: CollectorRegistry, *, partitions: int) -> None:
        self._owner = owner
        self._registry = registry
        self._partitions = partitions
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError where it is taken."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/q/jobs/{job_id}", self._job),
                web.get("/q/jobs", self._jobs),
                web.get("/q/runs/{run_id}", self._run),
                web.get("/q/queues", self._queues),
                web.get("/livez", self._live),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        address: tuple[str, int] = self._runner.addresses[0]
        return address[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _job(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job_id"]
        shard = self._shard_of(job_id)
        if shard is None:
            return _not_owner()
        job = shard.job(job_id)
        return _missing() if job is None else _json({"job": _job_view(job)})

    async def _run(self, request: web.Request) -> web.Response:
        run_id = request.match_info["run_id"]
        job_id = job_id_of(run_id)
        if job_id is None:
            return _missing()
        shard = self._shard_of(job_id)
        if shard is None:
            return _not_owner()
        job = shard.job(job_id)
        if job is None or (job.run(run_id) is None and job.closed_run(run_id) is None):
            return _missing()
        return _json({"open": job.run(run_id), "closed": job.closed_run(run_id), "job": _job_view(job)})

    async def _jobs(self, request: web.Request) -> web.Response:
        """One page in key order; `next` is the cursor of the page behind it."""
        try:
            partition = int(request.query["partition"])
            limit = min(int(request.query.get("limit", PAGE_MAX)), PAGE_MAX)
        except (KeyError, ValueError):
            limit = 0
        if limit < 1:
            return web.json_response({"detail": "partition and limit must be whole numbers, limit from 1"}, status=400)
        shard = self._owner.shards.get(partition)
        if shard is None or not shard.active:
            return _not_owner()
        wanted = {name: request.query[name] for name in ("tenant", "queue") if name in request.query}
        found, cursor = _page(shard, request.query.get("after"), limit, wanted)
        return _json({"jobs": found, "next": cursor})

    async def _queues(self, request: web.Request) -> web.Response:
        """Waiting runs by line, over all partitions of this process."""
        tenant = request.query.get("tenant")
        rows: dict[tuple[str, str, int], int] = {}
        for shard in self._active():
            for line, count in shard.store.ready_counts().items():
                if tenant is None or line.tenant == tenant:
                    rows[line.tenant, line.queue, line.lane] = rows.get((line.tenant, line.queue, line.lane), 0) + count
        return _json(
            {
                "partitions": [shard.partition for shard in self._active()],
                "queues": [
                    {"tenant": tenant, "queue": queue, "lane": lane, "ready": count}
                    for (tenant, queue, lane), count in sorted(rows.items())
                ],
            }
        )

    async def _live(self, _: web.Request) -> web.Response:
        return _json({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        """200 when every assigned partition is recovered; the body says which is not, and how far it is."""
        recovering = {
            str(partition): {"offset": progress.offset, "end": progress.end} if progress else {}
            for partition, progress in self._owner.recovering.items()
        }
        owned = sorted(shard.partition for shard in self._active())
        body = {"ready": bool(owned) and not recovering, "owned": owned, "recovering": recovering}
        return _json(body, status=200 if body["ready"] else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _active(self) -> Iterator[Shard]:
        return (shard for shard in self._owner.shards.values() if shard.active)

    def _shard_of(self, job_id: str) -> Shard | None:
        shard = self._owner.shards.get(partition_for(job_id, self._partitions))
        return shard if shard is not None and shard.active else None


def _page(
    shard: Shard, after: str | None, limit: int, wanted: dict[str, str]
) -> tuple[list[dict[str, object]], str | None]:
    found: list[dict[str, object]] = []
    looked = 0
    while looked < SCAN_MAX:
        page = shard.store.jobs(after, min(PAGE_MAX, SCAN_MAX - looked))
        for job_id, state_bytes in page:
            after = job_id
            looked += 1
            state = decode_state(state_bytes)
            if all(getattr(state, name) == value for name, value in wanted.items()):
                job = shard.job(job_id)
                found.append(_job_view(job if job is not None else Job(state, None)))
            if len(found) == limit:
                return found, after
        if len(page) < PAGE_MAX:
            return found, None
    return found, after


def _job_view(job: Job) -> dict[str, object]:
    return {"state": job.state, "definition": job.definition}


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def _missing() -> web.Response:
    return _json({"detail": "not found"}, status=404)


def _not_owner() -> web.Response:
    return _json({"detail": "this process does not own the partition; look at topic owners again"}, status=421)
