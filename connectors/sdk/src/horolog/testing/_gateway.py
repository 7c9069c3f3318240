"""`FakeGateway`: the HTTP contract served from memory on a loopback port, with faults on demand.

    async with FakeGateway() as gateway:
        run_id = gateway.add_run("task", payload={"n": 1})
        worker = Worker(gateway.url, queue="default")
        ...
        await gateway.until(lambda: gateway.runs[run_id].outcome == "ran")

State survives `restart`; what a real gateway holds in memory (parked requests, kept lease answers) does not.
Faults name a kind of call: "lease", "heartbeat", "complete", "fail", "release", "jobs", "runs", "queues", or
"*".
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from horolog._clock import Clock, SystemClock, Timer, sleep
from horolog._wire import BATCH_ITEMS_MAX
from horolog.testing._control import Control, has_text
from horolog.testing._memory import FakeJob, FakeRun, Memory, ProblemError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from typing_extensions import Self

CALLS_KEPT = 100_000  # calls that a test can look back at
UNTIL_SECONDS = 20.0  # real time that a test waits for a signal before it fails
_BODY_BYTES_MAX = 4 * 1024 * 1024
_KEEP_ANSWER_SECONDS = 10.0  # docs/http-api.md section 4
_LEASE_KINDS = ("heartbeat", "complete", "fail", "release")


@dataclass
class Gate:
    """Holds calls until `release`; `reached` is set when the first one stands in it."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let the held calls go on."""
        self.opened.set()


@dataclass
class _Fault:
    kind: str
    action: str
    times: int
    status: int = 503
    code: str = "no_owner"
    retry_after_seconds: int | None = None
    gate: Gate | None = None


@dataclass(frozen=True)
class RecordedCall:
    """One call that reached the fake, before any fault; `runs` counts the items of a batch form."""

    kind: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def runs(self) -> int:
        """How many runs the call is about."""
        return len(self.body.get("runs", ())) if isinstance(self.body, dict) else 0


class FakeGateway:
    """An in-memory gateway for tests of workers and clients. See the module's docstring."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        tokens: Mapping[str, str] | None = None,
        auto_create_queues: bool = True,
        retry_delay_seconds: float = 0.0,
    ) -> None:
        self._clock = clock or SystemClock()
        self._tokens = tokens
        self.memory = Memory(
            self._clock, auto_create_queues=auto_create_queues, retry_delay_seconds=retry_delay_seconds
        )
        self.control = Control(self.memory)
        self.calls: deque[RecordedCall] = deque(maxlen=CALLS_KEPT)
        self._faults: list[_Fault] = []
        self._gates: list[Gate] = []
        self._incarnation = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._timer: Timer | None = None
        self._leases: dict[str, tuple[float, list[str]]] = {}
        self._parked: dict[str, asyncio.Event] = {}
        self._polling: Counter[str] = Counter()
        self._added = 0
        self.up = False

    # --- life ---

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """The address; stays the same over restarts."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen (on the same port as before, if it was started before)."""
        app = web.Application(client_max_size=_BODY_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        await site.start()
        self._runner = runner
        self._port = int(runner.addresses[0][1])
        self.up = True
        self._changed()

    async def stop(self) -> None:
        """Go away as a killed gateway does: connections break, parked requests and kept answers are forgotten."""
        self.up = False
        self._leases.clear()
        for parked in self._parked.values():
            parked.set()
        self._incarnation += 1
        for gate in self._gates:
            gate.release()
        if self._timer is not None:
            self._timer.cancel()
        runner, self._runner = self._runner, None
        if runner is not None:
            for connection in list(runner.server.connections if runner.server else ()):
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    # --- what tests arrange and look at ---

    @property
    def runs(self) -> dict[str, FakeRun]:
        """All runs by id."""
        return self.memory.runs

    @property
    def jobs(self) -> dict[str, FakeJob]:
        """All jobs by id."""
        return self.memory.jobs

    def add_run(self, task: str, *, queue: str = "default", payload: Any = None, **more: Any) -> str:
        """Open a run that is due now and return its id; `more` are fields of `FakeRun`."""
        self._added += 1
        job_id = f"job-{self._added}"
        run_id = f"run_{job_id}_20261201T090000000Z"
        self.memory.check_queue(queue)
        self.memory.runs[run_id] = FakeRun(
            run_id=run_id,
            job_id=job_id,
            queue=queue,
            task=task,
            payload=payload,
            scheduled_for="2026-12-01T09:00:00.000Z",
            due_at=self._clock.monotonic(),
            **more,
        )
        self._changed()
        return run_id

    def cancel_run(self, run_id: str, *, reason: str = "user") -> None:
        """Ask to cancel a run."""
        self.memory.cancel(run_id, reason=reason)
        self._changed()

    def lose_lease(self, run_id: str) -> None:
        """End a run's lease as if it had expired; another worker may get it."""
        self.memory.lose_lease(run_id)
        self._changed()

    def drop_answers(self, kind: str, *, times: int = 1) -> None:
        """Carry out the next calls of a kind, then break the connection instead of answering."""
        self._faults.append(_Fault(kind, "drop_answer", times))

    def drop_requests(self, kind: str, *, times: int = 1) -> None:
        """Break the connection of the next calls of a kind without carrying them out."""
        self._faults.append(_Fault(kind, "drop_request", times))

    def refuse(
        self,
        kind: str,
        *,
        status: int = 503,
        code: str = "no_owner",
        times: int = 1,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Answer the next calls of a kind with an error."""
        self._faults.append(_Fault(kind, "refuse", times, status, code, retry_after_seconds))

    def refuse_items(self, kind: str, *, status: int = 503, code: str = "no_owner", times: int = 1) -> None:
        """Answer the next items of a kind (in batch forms) with an error, the others as usual."""
        self._faults.append(_Fault(kind, "refuse_item", times, status, code))

    def hang(self, kind: str, *, times: int = 1) -> Gate:
        """Hold the next calls of a kind, before they are carried out, until the gate is released."""
        gate = Gate()
        self._gates.append(gate)
        self._faults.append(_Fault(kind, "hang", times, gate=gate))
        return gate

    def clear_faults(self) -> None:
        """Forget all faults that have not struck."""
        for gate in self._gates:
            gate.release()
        self._faults.clear()

    def count(self, kind: str) -> int:
        """Return how many calls of a kind have come."""
        return sum(call.kind == kind for call in self.calls)

    async def until(self, condition: Callable[[], bool], *, seconds: float = UNTIL_SECONDS) -> None:
        """Wait until a condition holds; it is looked at whenever something happens here. Raises TimeoutError."""

        async def wait() -> None:
            while not condition():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter

        await asyncio.wait_for(wait(), seconds)

    # --- serving ---

    def _changed(self) -> None:
        if self.up:
            self._arm()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for parked in self._parked.values():
            parked.set()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.memory.next_deadline()
        self._timer = None if deadline is None else self._clock.call_at(deadline, self._tick)

    def _turn(self) -> None:
        self.memory.tick()
        self.control.tick()

    def _tick(self) -> None:
        self._timer = None
        self._turn()
        self._changed()

    def _strike(self, kind: str, actions: tuple[str, ...]) -> _Fault | None:
        for fault in self._faults:
            if fault.kind in {kind, "*"} and fault.action in actions:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        kind = _kind(request.path)
        try:
            body = json.loads(raw) if raw else {}
        except ValueError as error:
            return _problem(ProblemError(400, "bad_json", f"the body is not JSON: {error}"))
        self.calls.append(RecordedCall(kind, request.method, request.path, dict(request.headers), body))
        self._changed()
        fault = self._strike(kind, ("drop_request", "drop_answer", "refuse", "hang"))
        if fault is not None and fault.gate is not None:
            incarnation = self._incarnation
            fault.gate.reached.set()
            await fault.gate.opened.wait()
            if incarnation != self._incarnation:  # the gateway died with the call in its hands
                return _break(request)
        if fault is not None and fault.action == "drop_request":
            return _break(request)
        if fault is not None and fault.action == "refuse":
            return _problem(ProblemError(fault.status, fault.code, "a fault of the test"), fault.retry_after_seconds)
        try:
            response = await self._answer(kind, request, body)
        except ProblemError as problem:
            response = _problem(problem)
        self._turn()
        self._changed()
        if fault is not None and fault.action == "drop_answer":
            return _break(request)
        return response

    async def _answer(self, kind: str, request: web.Request, body: Any) -> web.Response:
        parts = request.path.strip("/").split("/")
        if request.path in {"/livez", "/readyz"}:
            return web.json_response({"status": "ok"})
        self._authorize(request)
        if not isinstance(body, dict):
            raise ProblemError(400, "bad_json", "the body is not an object")
        self._turn()
        if kind == "lease":
            return await self._lease(parts[2], body)
        if kind in _LEASE_KINDS:
            return self._lease_call(kind, parts, body)
        routes: Mapping[str, Callable[[web.Request, list[str], dict[str, Any]], Awaitable[web.Response]]] = {
            "jobs": self._jobs,
            "runs": self._runs,
            "queues": self._queues,
            "tenants": self._tenants,
            "concurrency-keys": self._concurrency_keys,
            "preview": self._preview,
        }
        if kind not in routes:
            raise ProblemError(404, "unknown_route", f"no route {request.path}")
        return await routes[kind](request, parts, body)

    def _authorize(self, request: web.Request) -> None:
        if self._tokens is None:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self._tokens:
            detail = "Authorization: the token is not known; send Bearer and a service token"
            raise ProblemError(401, "unauthorized", detail, field="Authorization")

    # --- leases ---

    async def _lease(self, queue: str, body: Mapping[str, Any]) -> web.Response:
        self.memory.check_queue(queue)
        request_id = str(body.get("requestId") or f"minted-{len(self.calls)}")
        kept = self._leases.get(request_id)
        if kept is not None and self._clock.monotonic() - kept[0] <= _KEEP_ANSWER_SECONDS:
            runs = [self.memory.leased_object(self.memory.runs[run_id]) for run_id in kept[1]]
            return web.json_response({"requestId": request_id, "runs": runs})
        parked = asyncio.Event()
        replaced = self._parked.get(request_id)
        self._parked[request_id] = parked
        if replaced is not None:
            replaced.set()
        self._polling[queue] += 1
        try:
            runs = await self._wait_for_runs(queue, body, request_id, parked)
        finally:
            self._polling[queue] -= 1
            if self._parked.get(request_id) is parked:
                del self._parked[request_id]
        if runs:
            self._leases[request_id] = (self._clock.monotonic(), [run["runId"] for run in runs])
        return web.json_response({"requestId": request_id, "runs": runs})

    async def _wait_for_runs(
        self, queue: str, body: Mapping[str, Any], request_id: str, parked: asyncio.Event
    ) -> list[dict[str, Any]]:
        until = self._clock.monotonic() + float(body.get("waitSeconds", 20))
        while self.up and self._parked.get(request_id) is parked:
            ready = self.memory.leasable_runs(queue, int(body.get("max", 1)))
            if ready:
                visibility = float(body.get("visibilitySeconds", 30))
                return [self.memory.grant(run, str(body["workerId"]), visibility) for run in ready]
            left = until - self._clock.monotonic()
            if left <= 0:
                break
            parked.clear()
            await _first(parked.wait(), sleep(self._clock, left))
        return []

    def _lease_call(self, kind: str, parts: list[str], body: dict[str, Any]) -> web.Response:
        if len(parts) == 4:
            return web.json_response(self.memory.apply(kind, parts[2], body))
        items = body.get("runs")
        if not isinstance(items, list) or not 1 <= len(items) <= BATCH_ITEMS_MAX:
            detail = f"runs: send 1 to {BATCH_ITEMS_MAX} items"
            raise ProblemError(422, "invalid_field", detail, field="runs", limit=BATCH_ITEMS_MAX)
        shared = {"visibilitySeconds": body["visibilitySeconds"]} if "visibilitySeconds" in body else {}
        return web.json_response({"runs": [self._item(kind, {**shared, **item}) for item in items]})

    def _item(self, kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
        run_id = str(item.get("runId"))
        fault = self._strike(kind, ("refuse_item",))
        if fault is not None:
            return {"runId": run_id, "ok": False, "status": fault.status, "code": fault.code}
        try:
            return self.memory.apply(kind, run_id, item)
        except ProblemError as problem:
            return {"runId": run_id, "ok": False, **problem.body}

    # --- jobs, runs, queues ---

    async def _jobs(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        if len(parts) == 2 and ":" in parts[1]:
            return self._bulk(request, parts[1].partition(":")[2], body)
        if len(parts) == 3:
            return self._one_job(request, parts[2], body)
        if len(parts) > 3:
            return self._job_action(request, parts, body)
        if request.method == "GET":
            return self._job_list(request)
        answer, replayed = self.memory.create_job(body, request.headers.get("Idempotency-Key"))
        headers = {"Idempotent-Replayed": "true"} if replayed else {}
        return _json(answer, 201, {**headers, "Location": f"/v1/jobs/{answer['jobId']}"})

    def _one_job(self, request: web.Request, job_id: str, body: dict[str, Any]) -> web.Response:
        memory, version = self.memory, _version(request)
        match request.method:
            case "GET":
                return _json(memory.job_object(memory.known_job(job_id)))
            case "PUT":
                create_only = request.headers.get("If-None-Match") == "*"
                answer, created = memory.put_job(job_id, body, version=version, create_only=create_only)
                return _json(answer, 201 if created else 200)
            case "PATCH":
                return _json(memory.patch_job(job_id, body, version=version))
            case "DELETE":
                return _json(memory.delete_job(job_id, version=version))
            case _:
                raise ProblemError(405, "method_not_allowed", f"{request.method} is not allowed here")

    def _job_action(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        _, _, job_id, action = parts[:4]
        if request.method == "POST":
            return self._job_command(request, parts, body)
        memory = self.memory
        if action == "backfills":
            return _json(self.control.list_backfills(job_id))
        job = memory.job(job_id)
        if request.method == "GET" and action == "runs":
            state = request.query.get("state")
            runs = [r for r in reversed(list(self.runs.values())) if r.job_id == job_id]
            chosen = [memory.run_object(r) for r in runs if state in {None, r.state}]
            answer, status = _page("runs", chosen, request), 200
        elif request.method == "GET" and action == "preview":
            answer, status = {"jobId": job_id, **self._occurrences(job.definition, request.query)}, 200
        elif request.method == "GET" and action == "explain":
            answer, status = self._explain(job, request.query.get("at")), 200
        else:
            raise ProblemError(405, "method_not_allowed", f"{request.method} is not allowed here")
        return _json(answer, status)

    def _job_command(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        control, key, job_id = self.control, request.headers.get("Idempotency-Key"), parts[2]
        match parts[3:]:
            case ["pause"]:
                return _json(self.memory.job_object(control.pause(job_id, body)))
            case ["resume"]:
                return _json(self.memory.job_object(control.resume(job_id)))
            case ["trigger"]:
                run = control.trigger(job_id, body, key)
                return _json({"runId": run.run_id, "jobId": job_id, "scheduledFor": run.scheduled_for}, 201)
            case ["skip"]:
                return _json(control.skip(job_id, body, _version(request)))
            case ["backfill"]:
                return _json(*control.backfill(job_id, body, key))
            case ["backfills", backfill_id, "stop"]:
                return _json(control.stop_backfill(job_id, backfill_id))
            case _:
                raise ProblemError(405, "method_not_allowed", f"{request.method} is not allowed here")

    def _bulk(self, request: web.Request, action: str, body: dict[str, Any]) -> web.Response:
        if action == "undo":
            return _json(self.control.undo(body))
        if action not in {"pause", "resume", "delete"}:
            raise ProblemError(404, "unknown_route", f"no route {request.path}")
        return _json(self.control.change(action, body, request.headers.get("Idempotency-Key")))

    def _job_list(self, request: web.Request) -> web.Response:
        query = request.query
        labels = dict(label.split(":", 1) for label in query.getall("label", []))
        chosen = [
            (job.definition, self.memory.job_object(job, payload=False))
            for _, job in sorted(self.jobs.items())
            if (job.state != "deleted" or query.get("state") == "deleted") and has_text(job, query.get("text", ""))
        ]
        found = [
            shown
            for definition, shown in chosen
            if query.get("queue") in {None, shown["queue"]}
            and query.get("state") in {None, shown["state"]}
            and definition["name"].startswith(query.get("namePrefix", ""))
            and labels.items() <= definition["labels"].items()
        ]
        return _json(_page("jobs", found, request))

    def _occurrences(self, definition: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
        return self.memory.preview(definition, query.get("from"), int(query.get("count") or 10))

    async def _preview(self, _request: web.Request, _parts: list[str], body: dict[str, Any]) -> web.Response:
        return _json({"jobId": None, **self._occurrences(body, body)})

    def _explain(self, job: FakeJob, at: str | None) -> dict[str, Any]:
        runs = [run for run in self.runs.values() if run.job_id == job.job_id]
        run = next((r for r in reversed(runs) if at in {None, r.scheduled_for}), None)
        polling = self._polling[job.definition["queue"]] > 0
        if run is None:
            situation = "paused" if job.paused else "will_run_at" if job.next_run else "not_scheduled"
        elif run.state == "closed":
            situation = {"ran": "ran", "dead": "dead", "cancelled": "cancelled"}[str(run.outcome)]
        else:
            open_states = {"leased": "running", "retrying": "waiting_for_retry"}
            situation = open_states.get(run.state, "waiting_for_slot" if polling else "no_worker_polling")
        return {
            "jobId": job.job_id,
            "at": at or (run.scheduled_for if run else None),
            "runId": run.run_id if run else None,
            "situation": situation,
            "summary": situation.replace("_", " "),
            "conditions": [{"name": situation, "holds": situation == "ran", "detail": "", "evidence": None}],
        }

    async def _runs(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        memory = self.memory
        if request.path == "/v1/runs:replay":
            return _json(self.control.replay_many(body))
        match (request.method, parts[2:]):
            case ("GET", []):
                wanted = {name: request.query.get(name) for name in ("queue", "state", "outcome", "jobId")}
                objects = [memory.run_object(run) for run in self.runs.values()]
                chosen = [o for o in objects if all(v in {None, o[k]} for k, v in wanted.items())]
                chosen = [o for o in chosen if self._run_matches(o, request)]
                return _json(_page("runs", chosen, request))
            case ("GET", [run_id]):
                return _json(memory.run_object(memory.run(run_id)))
            case ("POST", [run_id, "cancel"]):
                return _json(memory.run_object(memory.cancel(run_id)))
            case ("POST", [run_id, "replay"]):
                return _json(memory.run_object(self.control.replay(run_id)), 201)
            case _:
                raise ProblemError(404, "unknown_route", f"no route {request.path}")

    def _run_matches(self, run: Mapping[str, Any], request: web.Request) -> bool:
        query, job = request.query, self.jobs.get(run["jobId"])
        labels = dict(label.split(":", 1) for label in query.getall("label", []))
        return (
            labels.items() <= run["labels"].items()
            and ("text" not in query or (job is not None and has_text(job, query["text"])))
            and run["scheduledFor"] >= query.get("from", "")
            and ("until" not in query or run["scheduledFor"] < query["until"])
        )

    async def _concurrency_keys(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        memory = self.memory
        match (request.method, parts[2:]):
            case ("GET", []):
                found = [memory.concurrency_object(key) for key in sorted(memory.concurrency_keys)]
                return _json({"concurrencyKeys": found})
            case ("GET", [key]):
                return _json(memory.concurrency_object(key))
            case ("PUT", [key]):
                is_new = memory.put_concurrency_key(key, body, version=_version(request))
                return _json(memory.concurrency_object(key), 201 if is_new else 200)
            case _:
                raise ProblemError(405, "method_not_allowed", f"{request.method} is not allowed here")

    async def _tenants(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        if request.method == "PUT":
            return _json(self.memory.put_tenant(parts[2], body, version=_version(request)))
        return _json(self.memory.tenant_object(parts[2]))

    async def _queues(self, request: web.Request, parts: list[str], body: dict[str, Any]) -> web.Response:
        match (request.method, parts[2:]):
            case ("GET", []):
                names = sorted(self.memory.queues)
                queues = [self.memory.queue_object(name, polling=self._polling[name]) for name in names]
                return _json({"queues": queues})
            case ("GET", [queue]):
                return _json(self.memory.queue_object(queue, polling=self._polling[queue]))
            case ("PUT", [queue]):
                is_new = self.memory.put_queue(queue, body, version=_version(request))
                put = self.memory.queue_object(queue, polling=self._polling[queue])
                return _json(put, 201 if is_new else 200)
            case _:
                raise ProblemError(405, "method_not_allowed", f"{request.method} is not allowed here")


def _kind(path: str) -> str:
    parts = path.strip("/").split("/")
    if len(parts) >= 2 and parts[1].startswith("runs:"):
        verb = parts[1].partition(":")[2]
        return verb if verb in _LEASE_KINDS else "runs"
    if len(parts) == 4 and parts[1] == "queues" and parts[3] == "lease":
        return "lease"
    if len(parts) == 4 and parts[1] == "runs" and parts[3] in _LEASE_KINDS:
        return parts[3]
    return parts[1].partition(":")[0] if len(parts) >= 2 else "service"


def _version(request: web.Request) -> int | None:
    text = request.headers.get("If-Match")
    return None if text is None else int(text.strip('"'))


def _json(body: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    sent = dict(headers or {})
    if "version" in body:
        sent["ETag"] = f'"{body["version"]}"'
    return web.json_response(body, status=status, headers=sent)


def _page(member: str, items: list[dict[str, Any]], request: web.Request) -> dict[str, Any]:
    start = int(request.query.get("cursor", "0"))
    limit = int(request.query.get("limit", "100"))
    more = start + limit < len(items)
    return {member: items[start : start + limit], "nextCursor": str(start + limit) if more else None}


def _problem(problem: ProblemError, retry_after_seconds: int | None = None) -> web.Response:
    headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
    text = json.dumps(problem.body)
    return web.Response(status=problem.status, text=text, content_type="application/problem+json", headers=headers)


def _break(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def _first(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
