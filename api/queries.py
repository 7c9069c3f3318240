"""Questions about jobs to the owner that holds them, named in topic `owners`; an owner answers from its store.

`OwnerQueries` is what routes use, `HttpQueries` the real one, `MemoryQueries` for tests. A job or page may be
milliseconds behind a reply that was just read; `Gateway.job` reads again where that matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations at run time
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import quote

import aiohttp
import msgspec

from api.problems import Problem
from streams.core.definition import Definition
from streams.core.evidence import Proof, proving
from streams.core.state import Job, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from api.dispatch.client import DispatchClient
    from streams.core.envelopes import HistoryEntry
    from streams.core.evidence import Ask
    from streams.core.job_filter import JobFilter

QUERY_TIMEOUT_S: Final = 5.0
"""An owner answers in milliseconds, or it hangs and its watchdog (3 s) ends it."""

CONNECTIONS_PER_OWNER: Final = 16


_NOTHING_SAID: Final[Mapping[str, bytes]] = MappingProxyType({})


class SeenJob(Job, frozen=True):
    """A job as its owner shows it: with what its workers said last of how far they are, by run."""

    progress: Mapping[str, bytes] = _NOTHING_SAID


class Page(NamedTuple):
    """Some jobs of one partition, in key order."""

    jobs: list[SeenJob]
    next_after: str | None
    """Where to go on; None at the end of the partition."""


class ReadyCount(NamedTuple):
    """Runs of one line at one owner; None where it does not know."""

    tenant: str
    queue: str
    lane: int
    ready: int
    retrying: int | None = None
    leased: int | None = None
    oldest_due_at_ms: int | None = None


class PollingAt(NamedTuple):
    """Who waits for a queue at one gateway."""

    gateway_id: str
    queue: str
    slots: int
    calls: int


class OwnerQueries(Protocol):
    """Read only. All raise Problem `no_owner` where nobody answers."""

    async def job(self, job_id: str) -> SeenJob | None:
        """Give a job."""
        ...

    async def page(self, partition: int, after: str | None, limit: int, wanted: JobFilter) -> Page:
        """Give the next jobs of a partition behind `after`; a short page is not the last one unless it says so."""
        ...

    async def ready(self, tenant: str) -> list[ReadyCount]:
        """Give the waiting runs of a tenant, over all partitions that have an owner."""
        ...

    async def polling(self, tenant: str) -> list[PollingAt]:
        """Give who waits for the tenant's queues at every gateway, as one owner knows it."""
        ...

    async def evidence(self, job_id: str, asks: Sequence[Ask]) -> list[Proof | None]:
        """Give a record of history for each thing that is asked, where there is one."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


MaybeDefinition = Definition | None


class _JobAnswer(msgspec.Struct, frozen=True):
    state: JobState
    definition: MaybeDefinition
    progress: dict[str, bytes] = {}


class _OneJob(msgspec.Struct, frozen=True):
    job: _JobAnswer


class _JobPage(msgspec.Struct, frozen=True):
    jobs: list[_JobAnswer]
    next: str | None


class _ReadyRow(msgspec.Struct, frozen=True):
    tenant: str
    queue: str
    lane: int
    ready: int
    retrying: int | None = None
    leased: int | None = None
    oldest_due_at_ms: int | None = None


class _ReadyAnswer(msgspec.Struct, frozen=True):
    queues: list[_ReadyRow]


class _PollingRow(msgspec.Struct, frozen=True):
    gateway_id: str
    queue: str
    slots: int
    calls: int


class _PollingAnswer(msgspec.Struct, frozen=True):
    polling: list[_PollingRow]


class _EvidenceAnswer(msgspec.Struct, frozen=True):
    found: list[Proof | None]


_POLLING: Final = msgspec.json.Decoder(_PollingAnswer)
_EVIDENCE: Final = msgspec.json.Decoder(_EvidenceAnswer)
_ONE_JOB: Final = msgspec.json.Decoder(_OneJob)
_JOB_PAGE: Final = msgspec.json.Decoder(_JobPage)
_READY: Final = msgspec.json.Decoder(_ReadyAnswer)


class HttpQueries:
    """Asks owners over their admin HTTP."""

    def __init__(self, client: DispatchClient) -> None:
        self._client = client
        self._session: aiohttp.ClientSession | None = None

    async def job(self, job_id: str) -> SeenJob | None:
        """See OwnerQueries."""
        body = await self._get(self._client.partition_of(job_id), f"/q/jobs/{quote(job_id, safe='')}", {})
        return None if body is None else _job(_ONE_JOB.decode(body).job)

    async def page(self, partition: int, after: str | None, limit: int, wanted: JobFilter) -> Page:
        """See OwnerQueries."""
        query = {"partition": str(partition), "limit": str(limit), "filter": msgspec.json.encode(wanted).decode()}
        if after is not None:
            query["after"] = after
        body = await self._get(partition, "/q/jobs", query)
        if body is None:
            return Page([], None)
        answer = _JOB_PAGE.decode(body)
        return Page([_job(job) for job in answer.jobs], answer.next)

    async def ready(self, tenant: str) -> list[ReadyCount]:
        """See OwnerQueries."""
        urls = {view.query_url: partition for partition, view in self._client.owners.items()}
        bodies = await asyncio.gather(
            *(
                self._get(partition, "/q/queues", {"tenant": tenant, "now_ms": str(self._client.broker.now_ms())})
                for partition in urls.values()
            )
        )
        return [
            ReadyCount(row.tenant, row.queue, row.lane, row.ready, row.retrying, row.leased, row.oldest_due_at_ms)
            for body in bodies
            if body is not None
            for row in _READY.decode(body).queues
        ]

    async def polling(self, tenant: str) -> list[PollingAt]:
        """See OwnerQueries."""
        urls = {view.query_url: partition for partition, view in self._client.owners.items()}
        for partition in sorted(urls.values()):
            body = await self._get(partition, "/q/polling", {"tenant": tenant})
            if body is not None:
                rows = _POLLING.decode(body).polling
                return [PollingAt(row.gateway_id, row.queue, row.slots, row.calls) for row in rows]
        return []

    async def evidence(self, job_id: str, asks: Sequence[Ask]) -> list[Proof | None]:
        """See OwnerQueries."""
        query = {"asks": msgspec.json.encode(list(asks)).decode()}
        path = f"/q/history/{quote(job_id, safe='')}"
        body = await self._get(self._client.partition_of(job_id), path, query)
        return [None] * len(asks) if body is None else _EVIDENCE.decode(body).found

    async def close(self) -> None:
        """See OwnerQueries."""
        if self._session is not None:
            await self._session.close()

    async def _get(self, partition: int, path: str, query: Mapping[str, str]) -> bytes | None:
        """Give the body; None for 404."""
        view = self._client.owners.get(partition)
        if view is None:
            raise _no_owner(partition)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=QUERY_TIMEOUT_S),
                connector=aiohttp.TCPConnector(limit_per_host=CONNECTIONS_PER_OWNER),
            )
        try:
            async with self._session.get(view.query_url.rstrip("/") + path, params=query) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError):
            raise _no_owner(partition) from None
        if response.status == 404:
            return None
        if response.status == 422:
            detail = "The job's state cannot be read; the owner's log has the reason."
            raise Problem("internal", detail)
        if response.status == 503:
            raise Problem("overloaded", "Too many questions wait at the scheduler already. Ask again in a second.")
        if response.status != 200:
            raise _no_owner(partition)
        return body


class MemoryQueries:
    """Answers from a dictionary."""

    def __init__(
        self, jobs: Mapping[str, Job], partition_of: Callable[[str], int], progress: Mapping[str, bytes] | None = None
    ) -> None:
        self._jobs = jobs
        self._progress = {} if progress is None else progress
        self._partition_of = partition_of
        self.absent: set[int] = set()
        """Partitions without an owner."""
        self.ready_counts: list[ReadyCount] = []
        self.polling_rows: list[PollingAt] = []
        self.history: list[tuple[str, HistoryEntry]] = []
        """Job and entry, at the offset that is the place in this list."""

    async def job(self, job_id: str) -> SeenJob | None:
        """See OwnerQueries."""
        self._require(self._partition_of(job_id))
        job = self._jobs.get(job_id)
        return None if job is None else self._seen(job)

    def _seen(self, job: Job) -> SeenJob:
        said = self._progress
        progress = {run.run_id: said[run.run_id] for run in job.state.open if run.run_id in said}
        return SeenJob(job.state, job.definition, progress)

    async def page(self, partition: int, after: str | None, limit: int, wanted: JobFilter) -> Page:
        """See OwnerQueries."""
        self._require(partition)
        behind = [
            self._seen(job)
            for job_id, job in sorted(self._jobs.items())
            if self._partition_of(job_id) == partition and (after is None or job_id > after) and wanted.matches(job)
        ]
        page = behind[:limit]
        return Page(page, page[-1].state.job_id if len(behind) > limit else None)

    async def ready(self, tenant: str) -> list[ReadyCount]:
        """See OwnerQueries."""
        return [count for count in self.ready_counts if count.tenant == tenant]

    async def polling(self, tenant: str) -> list[PollingAt]:
        """See OwnerQueries."""
        return self.polling_rows if tenant else []

    async def evidence(self, job_id: str, asks: Sequence[Ask]) -> list[Proof | None]:
        """See OwnerQueries."""
        return [self._proof(job_id, ask) for ask in asks]

    async def close(self) -> None:
        """See OwnerQueries."""

    def _proof(self, job_id: str, ask: Ask) -> Proof | None:
        for offset, (of_job, entry) in enumerate(self.history):
            event = proving(ask, entry) if of_job == job_id else None
            if event is not None:
                return Proof(
                    topic="history",
                    partition=self._partition_of(job_id),
                    offset=offset,
                    event_type=type(event).__name__,
                    event=msgspec.to_builtins(event),
                )
        return None

    def _require(self, partition: int) -> None:
        if partition in self.absent:
            raise _no_owner(partition)


def _job(answer: _JobAnswer) -> SeenJob:
    return SeenJob(answer.state, answer.definition, answer.progress)


def _no_owner(partition: int) -> Problem:
    detail = f"No scheduler answers for partition {partition} at the moment. Repeat the call in a second."
    return Problem("no_owner", detail)
