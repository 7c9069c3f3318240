"""The owner's HTTP side: queries from its committed state, health, metrics. On loopback unless configured otherwise.

Gateways find the address in topic `owners`. A query reads the store of one partition, bounded and paged; those that
read many jobs take turns (`query_turns.py`), and let the commit loop go on after every SLICE jobs. Values are the
core's structs as JSON (bytes in base64). A job whose state cannot be read is named in its page, and stops nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from schemas.codec import Undecodable
from schemas.partition import partition_for
from streams.core.evidence import Ask
from streams.core.identity import job_id_of
from streams.core.job_filter import JobFilter
from streams.core.state import Job
from streams.core.wire import decode_accepted_definition, decode_state
from streams.offer_book import LANES
from streams.query_turns import BusyError, QueryTurns
from streams.store.interface import ReadyKey, ReadyLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from prometheus_client import CollectorRegistry

    from streams.core.evidence import Proof
    from streams.core.state import JobState
    from streams.history_reader import History
    from streams.overdue import Overdue
    from streams.owner import Owner
    from streams.shard import Shard

    _Rest = Callable[[], Awaitable[None]]

PAGE_MAX: Final = 200
"""Jobs of one answer: some 5 ms of the loop's time, in slices."""

PAGE_BYTES_MAX: Final = 1_048_576
"""Of states and definitions as they are stored: an answer is one piece of JSON, written in one go (some 3 ms)."""

SLICE: Final = 50
"""Jobs read before the loop gets its turn: about 1 ms."""

RUNS_SLICE: Final = 500
"""Lines of the ready index that are read before the loop gets its turn: about 1 ms."""

ROWS_SLICE: Final = 20
"""Rows of queues that are made before the loop gets its turn, each with one look into the ready index."""

RETRY_AFTER_S: Final = 1
"""A turn takes some 50 ms, with all that wait some 3 s."""

COUNTED_MAX: Final = 10_000
"""Retries of one line that are counted; a line with more says so many."""

LEASED_SCAN_MAX: Final = 5_000
"""Jobs of a partition that are read to count its leases; a larger one does not know (null)."""

LEASED_AGE_S: Final = 2.0
"""How old a count of leases may be: dashboards ask often."""

SCAN_MAX: Final = 2_000
"""Jobs looked at for one page when a filter refuses most of them; the caller goes on from the cursor."""

_ALL_DUE_MS: Final = 2**62
"""Later than any due time."""

ASKS_MAX: Final = 16
"""Of one question; an explanation has half of it."""

_ASKS: Final = msgspec.json.Decoder(list[Ask])
_FILTER: Final = msgspec.json.Decoder(JobFilter)


class QueryServer:
    """Answers for the shards that this process owns."""

    def __init__(
        self,
        owner: Owner,
        registry: CollectorRegistry,
        *,
        partitions: int,
        history: History | None = None,
        standing: Callable[[], Awaitable[Mapping[int, Overdue]]] | None = None,
    ) -> None:
        """`history` None: questions about it find nothing. `standing` measures how late this process is."""
        self._history = history
        self._standing = standing
        self._owner = owner
        self._registry = registry
        self._partitions = partitions
        self._runner: web.AppRunner | None = None
        self._leased: dict[int, tuple[float, Counter[ReadyLine]]] = {}
        self._turns = QueryTurns()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError where it is taken."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/q/jobs/{job_id}", self._job),
                web.get("/q/jobs", self._jobs),
                web.get("/q/runs/{run_id}", self._run),
                web.get("/q/queues", self._queues),
                web.get("/q/polling", self._polling),
                web.get("/q/history/{job_id}", self._evidence),
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
        if self._history is not None:
            await asyncio.to_thread(self._history.close)

    async def _job(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job_id"]
        shard = self._shard_of(job_id)
        if shard is None:
            return _not_owner()
        try:
            job = shard.job(job_id)
        except (Undecodable, ValueError):
            return _unreadable()
        return _missing() if job is None else _json({"job": _job_view(shard, job)})

    async def _run(self, request: web.Request) -> web.Response:
        run_id = request.match_info["run_id"]
        job_id = job_id_of(run_id)
        if job_id is None:
            return _missing()
        shard = self._shard_of(job_id)
        if shard is None:
            return _not_owner()
        try:
            job = shard.job(job_id)
        except (Undecodable, ValueError):
            return _unreadable()
        if job is None or (job.run(run_id) is None and job.closed_run(run_id) is None):
            return _missing()
        return _json({"open": job.run(run_id), "closed": job.closed_run(run_id), "job": _job_view(shard, job)})

    async def _jobs(self, request: web.Request) -> web.Response:
        """One page in key order; `next` is the cursor of the page behind it."""
        try:
            partition = int(request.query["partition"])
            limit = min(int(request.query.get("limit", PAGE_MAX)), PAGE_MAX)
            wanted = _FILTER.decode(request.query["filter"]) if "filter" in request.query else None
        except (KeyError, ValueError):  # msgspec's errors are ValueErrors
            limit, wanted = 0, None
        if limit < 1:
            detail = "partition and limit must be whole numbers, limit from 1, and filter a JobFilter"
            return web.json_response({"detail": detail}, status=400)
        shard = self._owner.shards.get(partition)
        if shard is None or not shard.active:
            return _not_owner()
        plain = {name: request.query[name] for name in ("tenant", "queue") if name in request.query}
        try:
            async with self._turns.mine() as rest:
                page = await _page(shard, request.query.get("after"), limit, _Wanted(plain, wanted), rest)
                return _not_owner() if page is None else _json(page)
        except BusyError:
            return _busy()

    async def _queues(self, request: web.Request) -> web.Response:
        """Runs by line, over all partitions of this process. `now_ms` (broker time) tells retries from ready runs."""
        tenant, now_text = request.query.get("tenant"), request.query.get("now_ms", "")
        now_ms = int(now_text) if now_text.isdigit() and len(now_text) < 16 else None
        shards = list(self._active())
        rows: dict[ReadyLine, _Row] = {}
        try:
            for shard in shards:
                async with self._turns.mine() as rest:  # a turn each: other questions need not wait for all
                    await self._count(shard, rows, tenant, now_ms, rest)
        except BusyError:
            return _busy()
        return _json(
            {"partitions": [shard.partition for shard in shards], "queues": [rows[line] for line in sorted(rows)]}
        )

    async def _count(
        self, shard: Shard, rows: dict[ReadyLine, _Row], tenant: str | None, now_ms: int | None, rest: _Rest
    ) -> None:
        leased = await self._leased_of(shard, rest)
        counts = shard.store.ready_counts() if shard.active else {}
        lines = [line for line in {*counts, *(leased or {})} if tenant is None or line.tenant == tenant]
        for number, line in enumerate(lines, start=1):
            if not shard.active:
                return
            ready = counts.get(line, 0)
            row = rows.setdefault(line, _Row(line.tenant, line.queue, line.lane))
            row.add(shard, line, ready, None if leased is None else leased[line])
            if now_ms is not None:
                row.retrying = (row.retrying or 0) + (await _retrying(shard, line, now_ms, rest) if ready else 0)
            if number % ROWS_SLICE == 0:
                await rest()

    async def _leased_of(self, shard: Shard, rest: _Rest) -> Counter[ReadyLine] | None:
        """Count leases by line; None where the partition has too many jobs to look at each."""
        if shard.store.counts.jobs > LEASED_SCAN_MAX:
            return None
        known = self._leased.get(shard.partition)
        if known is not None and time.monotonic() - known[0] < LEASED_AGE_S:
            return known[1]
        counted: Counter[ReadyLine] = Counter()
        after: str | None = None
        while page := shard.store.jobs(after, SLICE) if shard.active else []:
            for job_id, state_bytes in page:
                after = job_id
                state = _state_or_none(state_bytes)
                for run in () if state is None else state.open:
                    if run.lease is not None and state is not None:
                        counted[ReadyLine(state.tenant, state.queue, LANES.index(run.lane))] += 1
            await rest()
        self._leased[shard.partition] = (time.monotonic(), counted)
        return counted

    async def _polling(self, request: web.Request) -> web.Response:
        """Who waits for a tenant's queues, at every gateway that tells its demand."""
        return _json({"polling": self._owner.demand.polling(request.query.get("tenant", ""))})

    async def _evidence(self, request: web.Request) -> web.Response:
        """Records of history that prove what is asked, in the order of the asks; null where none is found."""
        job_id = request.match_info["job_id"]
        shard = self._shard_of(job_id)
        if shard is None:
            return _not_owner()
        try:
            asks = _ASKS.decode(request.query.get("asks", "[]"))[:ASKS_MAX]
        except ValueError:  # msgspec's errors are ValueErrors
            return web.json_response({"detail": "asks must be a list of Ask"}, status=400)
        found: list[Proof | None] = [None] * len(asks)
        if self._history is not None and asks:
            found = await self._history.find(shard.partition, job_id, asks)
        return _json({"found": found})

    async def _live(self, _: web.Request) -> web.Response:
        return _json({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        """200 when every assigned partition is recovered; else the body says how many records of how many are read.

        How late the owner is stands there for people and does not change the status: a restart would add to it.
        """
        recovering = {
            str(partition): {"restored": progress.restored, "total": progress.total} if progress else {}
            for partition, progress in self._owner.recovering.items()
        }
        owned = sorted(shard.partition for shard in self._active())
        late = (await self._standing()).values() if self._standing is not None else ()
        body = {
            "ready": bool(owned) and not recovering,
            "owned": owned,
            "recovering": recovering,
            "overdueSlotMs": max((overdue.slot_ms for overdue in late), default=0),
            "oldestReadyRunMs": max((overdue.ready_ms for overdue in late), default=0),
        }
        return _json(body, status=200 if body["ready"] else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        if self._standing is not None:
            await self._standing()
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _active(self) -> Iterator[Shard]:
        return (shard for shard in self._owner.shards.values() if shard.active)

    def _shard_of(self, job_id: str) -> Shard | None:
        shard = self._owner.shards.get(partition_for(job_id, self._partitions))
        return shard if shard is not None and shard.active else None


class _Row(msgspec.Struct):
    """Runs of one line."""

    tenant: str
    queue: str
    lane: int
    ready: int = 0
    """That wait, retries included."""
    retrying: int | None = None
    """Of these, those that are not due yet; null without `now_ms`."""
    leased: int | None = 0
    oldest_due_at_ms: int | None = None

    def add(self, shard: Shard, line: ReadyLine, ready: int, leased: int | None) -> None:
        """Add one partition's."""
        self.ready += ready
        self.leased = None if leased is None or self.leased is None else self.leased + leased
        oldest = shard.store.ready_line(line, _ALL_DUE_MS, 1)
        if oldest:
            self.oldest_due_at_ms = min(self.oldest_due_at_ms or _ALL_DUE_MS, oldest[0].due_at_ms)


class _Wanted(NamedTuple):
    """What a page is filtered by."""

    plain: Mapping[str, str]
    filter: JobFilter | None

    def state(self, state: JobState) -> bool:
        """Judge a state."""
        if any(getattr(state, name) != value for name, value in self.plain.items()):
            return False
        return self.filter is None or self.filter.matches_state(state)

    def job(self, job: Job) -> bool:
        """Judge the rest of a job whose state passed."""
        if self.filter is None or self.filter.knows(job.state):
            return True
        return self.filter.matches_definition(job.definition)


async def _retrying(shard: Shard, line: ReadyLine, now_ms: int, rest: _Rest) -> int:
    """Count the runs of a line that are not due yet, COUNTED_MAX at most."""
    counted = 0
    after = ReadyKey(*line, now_ms + 1, "", "")
    while counted < COUNTED_MAX and shard.active:
        keys = shard.store.ready_line(line, _ALL_DUE_MS, min(RUNS_SLICE, COUNTED_MAX - counted), after)
        counted += len(keys)
        if len(keys) < RUNS_SLICE:
            break
        after = keys[-1]
        await rest()
    return counted


async def _page(shard: Shard, after: str | None, limit: int, wanted: _Wanted, rest: _Rest) -> dict[str, object] | None:
    """Give a page; None if the partition was given up meanwhile. Nothing is put into the shard's cache."""
    found: list[dict[str, object]] = []
    unreadable: list[str] = []
    looked = size_bytes = 0
    while looked < SCAN_MAX:
        if not shard.active:
            return None
        size = min(SLICE, PAGE_MAX, SCAN_MAX - looked)
        page = shard.store.jobs(after, size)
        for job_id, state_bytes in page:
            after = job_id
            looked += 1
            try:
                state = decode_state(state_bytes)
                stored = shard.store.definition(job_id) if wanted.state(state) else None
                definition = None if stored is None else decode_accepted_definition(stored)
            except (Undecodable, ValueError):
                unreadable.append(job_id)
                continue
            job = Job(state, definition)
            if wanted.state(state) and wanted.job(job):
                found.append(_job_view(shard, job))
                size_bytes += len(state_bytes) + len(stored or b"")
            if len(found) == limit or size_bytes >= PAGE_BYTES_MAX:
                return {"jobs": found, "next": after, "unreadable": unreadable}
        if len(page) < size:
            return {"jobs": found, "next": None, "unreadable": unreadable}
        await rest()
    return {"jobs": found, "next": after, "unreadable": unreadable}


def _state_or_none(state_bytes: bytes) -> JobState | None:
    try:
        return decode_state(state_bytes)
    except (Undecodable, ValueError):
        return None


def _job_view(shard: Shard, job: Job) -> dict[str, object]:
    """Give a job, and what its workers said last of how far they are: soft state, which a successor does not have."""
    view: dict[str, object] = {"state": job.state, "definition": job.definition}
    progress = shard.progress.of(run.run_id for run in job.state.open)
    return view | {"progress": progress} if progress else view


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def _missing() -> web.Response:
    return _json({"detail": "not found"}, status=404)


def _unreadable() -> web.Response:
    return _json({"detail": "the job's state cannot be read; the log of this process has the reason"}, status=422)


def _busy() -> web.Response:
    answer = _json({"detail": "too many questions wait already; ask again in a second"}, status=503)
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def _not_owner() -> web.Response:
    return _json({"detail": "this process does not own the partition; look at topic owners again"}, status=421)
