"""Traffic through real gateways: callers that repeat with the same key, and workers that do everything workers do.

The workers speak plain HTTP, with leases of 5 s (the shortest that a gateway gives). By chance a run of theirs is done
at once, slowly with heartbeats, with heartbeats lost or sent twice, completed twice, left alone by a worker that died,
or worked on by one that is stuck: silent for longer than its lease, and then it completes all the same. `did` counts
what really happened. Every execution and every answer to a completion goes into the journals.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import random
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import msgspec

from streams.audit.journals import ClientCall, Execution, Fault, Journals
from tests.chaos.harness.cluster import now_ms
from tests.chaos.harness.gateway import SDK_QUEUE

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from tests.chaos.harness.gateway import GatewayProcess

TENANT: Final = "default"
"""Of gateways without tokens."""
QUEUE: Final = "http"
VISIBILITY_S: Final = 5
RUNS_MAX: Final = 10
"""Of one answer; with fewer, the backlog of a fault would outlast it on a busy machine."""
WAIT_S: Final = 2
CALL_TIMEOUT_S: Final = 6.0
"""Of one try; longer than a poll waits."""
RETRY_S: Final = 0.3
TRIES_MAX: Final = 600
"""Longer than any fault: all brokers may be gone for two minutes, and a refusal takes no time."""
BEAT_S: Final = 1.2
MARGIN_S: Final = 0.7
"""A worker stops this much before its lease could end."""
LOST_SHARE: Final = 0.4
TICK_S: Final = 0.2
DRAIN_TIMEOUT_S: Final = 90.0
START_TIMEOUT_S: Final = 60.0

CONDUCT: Final = {
    "prompt": 0.66,
    "slow": 0.08,
    "beats_lost": 0.06,
    "beats_doubled": 0.06,
    "completes_twice": 0.08,
    "stuck": 0.03,
    "dies": 0.03,
}


class _Answer(NamedTuple):
    status: int
    """0: no gateway answered."""
    body: dict[str, Any]
    sent_s: float
    """When the try that was answered was sent; monotonic."""


class HttpLoad:
    """`start`, let faults happen, `drain`; then `journals`, `faults`, `did`."""

    def __init__(
        self,
        gateways: Sequence[GatewayProcess],
        *,
        seed: int = 1,
        jobs_per_s: float,
        sdk_jobs_per_s: float = 0.5,
        workers: int = 3,
    ) -> None:
        self._gateways = gateways
        self._rates = {QUEUE: jobs_per_s, SDK_QUEUE: sdk_jobs_per_s}
        self._workers = workers
        self._rng = random.Random(seed)  # noqa: S311 - repeatable
        self._seed = seed
        self._numbers = itertools.count(1)
        self._calls: list[ClientCall] = []
        self._executions: list[Execution] = []
        self.faults: list[Fault] = []
        self.did: Counter[str] = Counter()
        self.gave_up: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="http-load", daemon=True)
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet, self._end = asyncio.Event(), asyncio.Event()
        self._session: aiohttp.ClientSession

    # --- for the test's thread ---

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S) or self._failure:
            raise AssertionError(f"the load did not start: {self._failure!r}")

    def quiet(self) -> None:
        """Create nothing any more; workers go on."""
        self._call(self._quiet.set)

    def drain(self) -> None:
        """End in good order."""
        self.quiet()
        self._call(self._end.set)
        self._thread.join(DRAIN_TIMEOUT_S + 30)
        if self._failure is not None:
            raise AssertionError("the load failed") from self._failure
        assert not self._thread.is_alive(), "the load did not end"

    @property
    def journals(self) -> Journals:
        """Give what was seen."""
        return Journals(calls=tuple(self._calls), executions=tuple(self._executions))

    # --- the loop ---

    def _call(self, what: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it failed, which is told elsewhere
                self._loop.call_soon_threadsafe(what)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - told in the test's thread
            self._failure = error
        self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=1.0)
        async with aiohttp.ClientSession(timeout=timeout) as self._session:
            workers = [asyncio.create_task(self._worker(number)) for number in range(self._workers)]
            callers = [asyncio.create_task(self._create(queue, rate)) for queue, rate in self._rates.items()]
            self._started.set()
            await self._end.wait()
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await asyncio.gather(*callers, *workers)
                while self._tasks:
                    await asyncio.wait([*self._tasks])

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._end.set()

    # --- calls ---

    async def _post(self, path: str, body: dict[str, Any], first: int, **headers: str) -> _Answer:
        """Repeat the same call, at one gateway after the other, until one answers."""
        for attempt in range(TRIES_MAX):
            gateway = self._gateways[(first + attempt) % len(self._gateways)]
            sent_s = time.monotonic()
            try:
                async with self._session.post(gateway.url + path, json=body, headers=headers) as answer:
                    if answer.status < 500 and answer.status != 429:
                        return _Answer(answer.status, await answer.json(), sent_s)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                self.did["tries without an answer"] += 1
            await asyncio.sleep(RETRY_S)
        self.gave_up.append(path)
        return _Answer(0, {}, 0.0)

    async def _create(self, queue: str, rate: float) -> None:
        owed = 0.0
        while not self._quiet.is_set():
            owed += rate * TICK_S
            for _ in range(int(owed)):
                self._spawn(self._create_one(queue))
            owed -= int(owed)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), TICK_S)

    async def _create_one(self, queue: str) -> None:
        number = next(self._numbers)
        key = f"http-{self._seed}-{number}"
        body = {
            "name": key,
            "task": "roll",
            "queue": queue,
            "delaySeconds": self._rng.choice((0, 0, 1, 2)),
            "payload": {"n": number},
            "retry": {"backoff": "fixed", "baseSeconds": 1},
        }
        headers = {"Idempotency-Key": key}
        sent_ms = now_ms()
        status, answer, _ = await self._post("/v1/jobs", body, number, **headers)
        if not status:
            return
        assert status in (200, 201), (status, answer)
        self._calls.append(
            ClientCall(
                request_id=key,
                job_id=answer["jobId"],
                name="Define",
                code="created",
                idempotency_key=key,
                tenant=TENANT,
                sent_at_ms=sent_ms,
                answered_at_ms=now_ms(),
            )
        )

    # --- workers ---

    async def _worker(self, number: int) -> None:
        worker_id = f"hw{number}"
        while not self._end.is_set():
            body = {
                "workerId": worker_id,
                "max": RUNS_MAX,
                "waitSeconds": WAIT_S,
                "visibilitySeconds": VISIBILITY_S,
                "requestId": uuid.uuid4().hex,
            }
            sent_s = time.monotonic()
            status, answer, last_sent_s = await self._post(f"/v1/queues/{QUEUE}/lease", body, number)
            assert status in (0, 200), (status, answer)
            for run in answer.get("runs", ()):
                # The grant came after the first try was sent, and what is left of it was said after the last one was.
                ends_s = max(sent_s + VISIBILITY_S, last_sent_s + run["leaseRemainingMs"] / 1000)
                self._spawn(self._execute(run, worker_id, number, ends_s))

    async def _execute(self, run: dict[str, Any], worker_id: str, number: int, ends_s: float) -> None:
        if time.monotonic() > ends_s - MARGIN_S:
            self.did["answers too late to begin"] += 1
            return
        conduct = self._rng.choices([*CONDUCT], [*CONDUCT.values()])[0]
        self.did[conduct] += 1
        began_ms = now_ms()
        execution = Execution(
            run_id=run["runId"],
            attempt=run["attempt"],
            lease_token=run["leaseToken"],
            worker_id=worker_id,
            scheduled_at_ms=round(dt.datetime.fromisoformat(run["scheduledFor"]).timestamp() * 1000),
            started_at_ms=began_ms,
        )
        goes_on = await self._work(run, number, conduct, ends_s)
        if conduct in ("dies", "stuck", "beats_lost") or not goes_on:
            kind = f"worker_{conduct}" if goes_on or conduct == "dies" else "worker_unheard"
            self.faults.append(Fault(kind=kind, from_ms=began_ms, to_ms=now_ms(), target=worker_id))
        if conduct == "dies":
            self._executions.append(execution)
            return
        self._executions.append(msgspec.structs.replace(execution, ended_at_ms=now_ms()))
        if not goes_on:
            return
        if conduct == "completes_twice":
            await asyncio.gather(self._complete(run, number), self._complete(run, number + 1))
        await self._complete(run, number)

    async def _work(self, run: dict[str, Any], number: int, conduct: str, ends_s: float) -> bool:
        """Do the work; False where the lease could not be kept."""
        match conduct:
            case "stuck":
                await self._beat(run, number)
                await asyncio.sleep(self._rng.uniform(VISIBILITY_S + 1.0, VISIBILITY_S + 4.0))
                return True
            case "slow" | "beats_lost" | "beats_doubled":
                return await self._work_slowly(run, number, conduct, ends_s)
            case _:
                await asyncio.sleep(self._rng.uniform(0, 0.15))
                return True

    async def _work_slowly(self, run: dict[str, Any], number: int, conduct: str, ends_s: float) -> bool:
        done_s = time.monotonic() + self._rng.uniform(VISIBILITY_S, VISIBILITY_S + 3.0)
        while time.monotonic() < done_s:
            sent_s = time.monotonic()
            if sent_s > ends_s - MARGIN_S:
                return False
            if conduct == "beats_lost" and self._rng.random() < LOST_SHARE:
                self.did["heartbeats lost"] += 1
            else:
                statuses = [await self._beat(run, number)]
                if conduct == "beats_doubled":
                    statuses += await asyncio.gather(self._beat(run, number), self._beat(run, number + 1))
                    self.did["heartbeats doubled"] += 1
                if 409 in statuses:
                    return False
                if 200 in statuses:
                    ends_s = sent_s + VISIBILITY_S
            await asyncio.sleep(BEAT_S)
        return True

    async def _beat(self, run: dict[str, Any], number: int) -> int:
        """Send one heartbeat, once. Returns the status, 0 without an answer."""
        gateway = self._gateways[number % len(self._gateways)]
        body = {"leaseToken": run["leaseToken"]}
        try:
            timeout = aiohttp.ClientTimeout(total=BEAT_S)
            url = f"{gateway.url}/v1/runs/{run['runId']}/heartbeat"
            async with self._session.post(url, json=body, timeout=timeout) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def _complete(self, run: dict[str, Any], number: int) -> None:
        call = ClientCall(
            request_id=f"http-complete-{next(self._numbers)}",
            job_id=run["jobId"],
            name="Complete",
            run_id=run["runId"],
            lease_token=run["leaseToken"],
            tenant=TENANT,
            sent_at_ms=now_ms(),
        )
        status, answer, _ = await self._post(
            f"/v1/runs/{run['runId']}/complete", {"leaseToken": run["leaseToken"]}, number
        )
        code = "ok" if status == 200 else str(answer.get("code", ""))
        self.did[f"complete: {code}"] += 1
        assert code in ("ok", "lease_lost", ""), answer
        self._calls.append(msgspec.structs.replace(call, code=code, answered_at_ms=now_ms()))
