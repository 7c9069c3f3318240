"""The state behind `FakeGateway`: jobs, runs and queues in memory, with the answers of docs/http-api.md.

Synchronous and free of I/O; time comes from a clock. It keeps the contract's rules (tokens rise, repeats are
replayed, stale tokens get 409, attempts count once heard from) and nothing of the real scheduler: a cron
schedule never becomes due by itself here. Open runs with `FakeGateway.add_run`, a trigger, `runAt` or
`delaySeconds`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horolog._wire import ERROR_CHARACTERS_MAX, PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX, UTC, parse_time, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horolog._clock import Clock

EPOCH = dt.datetime(2026, 12, 1, 9, 0, tzinfo=UTC)  # what the fake's wall clock says at its start
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_TIME_FORMS = ("schedule", "runAt", "runAtLocal", "delaySeconds")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "lane": ("high", "normal", "low"),
    "overlap": ("allow", "skip", "queue", "replace"),
    "catchUp": ("latest", "all", "none"),
}
_DEFAULTS: Mapping[str, Any] = {
    "queue": "default",
    "payload": None,
    "retry": {"maxAttempts": 5, "backoff": "exponential"},
    "catchUp": "latest",
    "overlap": "skip",
    "timeoutSeconds": None,
    "startDeadlineSeconds": None,
    "lane": "normal",
    "labels": {},
    "startAt": None,
    "endAt": None,
    "maxRuns": None,
    "jitterSeconds": 0,
    "calendars": [],
    "concurrencyKey": None,
    "concurrencyWeight": 1,
}
_KNOWN = {"paused", "jobId", "name", "task", "timeZone", *_TIME_FORMS, *_DEFAULTS}
_CRON_ALIASES = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class ProblemError(Exception):
    """An answer of 400 and above."""

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.body = {"status": status, "code": code, "title": code.replace("_", " "), "detail": detail, **more}


@dataclass
class FakeJob:
    """A job of the fake."""

    job_id: str
    definition: dict[str, Any]
    version: int = 1
    state: str = "active"
    paused: dict[str, Any] | None = None
    next_run: float | None = None
    skipped: set[str] = field(default_factory=set)
    created_at: str = ""
    updated_at: str = ""


@dataclass
class FakeRun:
    """A run of the fake, open for tests to look at. `completions` counts accepted completes, `refusals` stale calls."""

    run_id: str
    job_id: str
    queue: str
    task: str
    scheduled_for: str
    payload: Any = None
    lane: str = "normal"
    origin: str = "trigger"
    timeout_seconds: float | None = None
    max_attempts: int = 5
    labels: Mapping[str, str] = field(default_factory=dict)
    due_at: float = 0.0
    state: str = "ready"
    outcome: str | None = None
    reason: str | None = None
    attempt: int = 0
    token: int = 0
    worker_id: str | None = None
    visibility_seconds: float = 30.0
    lease_ends_at: float = 0.0
    heard: bool = False
    cancel_reason: str | None = None
    ended: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    progress: Any = None
    result: Any = None
    error: str | None = None
    retryable: bool | None = None
    heartbeats: int = 0
    grants: int = 0
    completions: int = 0
    failures: int = 0
    releases: int = 0
    refusals: int = 0
    closed_at: str | None = None
    replay_of: str | None = None
    replayed: bool = False


class Memory:
    """All state of a fake gateway; it survives the gateway's restarts, as the log would."""

    def __init__(self, clock: Clock, *, auto_create_queues: bool, retry_delay_seconds: float) -> None:
        self.clock = clock
        self.jobs: dict[str, FakeJob] = {}
        self.runs: dict[str, FakeRun] = {}
        self.queues: dict[str, dict[str, Any]] = {"default": {"version": 0}}
        self.tenants: dict[str, dict[str, Any]] = {}
        self.concurrency_keys: dict[str, dict[str, Any]] = {}
        self._auto_create_queues = auto_create_queues
        self._retry_delay_seconds = retry_delay_seconds
        self._keys: dict[str, tuple[str, dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._origin = clock.monotonic()

    # --- time ---

    def wall(self, monotonic: float | None = None) -> str:
        """Return an instant of the clock as the fake's wall-clock time."""
        now = self.clock.monotonic() if monotonic is None else monotonic
        instant = EPOCH + dt.timedelta(seconds=now - self._origin)
        return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def next_deadline(self) -> float | None:
        """Return when something becomes due or expires next."""
        times = [run.lease_ends_at for run in self.runs.values() if run.state == "leased"]
        times += [run.due_at for run in self.runs.values() if run.state in {"ready", "retrying"}]
        times += [job.next_run for job in self.jobs.values() if job.next_run is not None]
        return min((when for when in times if when > self.clock.monotonic()), default=None)

    def tick(self) -> None:
        """Expire leases and open one-off runs that are due."""
        now = self.clock.monotonic()
        for run in self.runs.values():
            if run.state == "leased" and now >= run.lease_ends_at:
                self._back(run, "expired")
            elif run.state == "retrying" and now >= run.due_at:
                run.state = "ready"
        for job in list(self.jobs.values()):
            if job.next_run is not None and now >= job.next_run and job.state == "active":
                due, job.next_run = job.next_run, None
                stamp = re.sub(r"[^0-9TZ]", "", self.wall(due))
                self.open_run(job, f"run_{job.job_id}_{stamp}", origin="schedule", scheduled_for=self.wall(due))

    # --- jobs ---

    def check_definition(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the definition with its defaults; raises ProblemError."""
        for name in body:
            if name not in _KNOWN:
                raise ProblemError(422, "unknown_field", f"{name}: no such field; remove it", field=name)
        if len(to_json(body.get("payload")).encode()) > PAYLOAD_BYTES_MAX:
            detail = f"payload: more than {PAYLOAD_BYTES_MAX} bytes; store it elsewhere and send a reference"
            raise ProblemError(413, "payload_too_large", detail, field="payload", limit=PAYLOAD_BYTES_MAX)
        if not body.get("name"):
            raise ProblemError(422, "missing_field", "name: give the job a name", field="name")
        if sum(name in body for name in _TIME_FORMS) != 1:
            detail = f"schedule: give exactly one of {', '.join(_TIME_FORMS)}"
            raise ProblemError(422, "bad_schedule", detail, field="schedule", allowed=list(_TIME_FORMS))
        for name, allowed in _CHOICES.items():
            if name in body and body[name] not in allowed:
                detail = f"{name}: {body[name]!r} is not one of {', '.join(allowed)}"
                raise ProblemError(422, "invalid_field", detail, field=name, allowed=list(allowed))
        _check_cron(body.get("schedule") or {})
        definition = {**_DEFAULTS, **body}
        definition.pop("paused", None)
        definition.setdefault("task", definition["name"])
        definition["retry"] = {**_DEFAULTS["retry"], **definition["retry"]}
        self.check_queue(definition["queue"], status=422)
        return definition

    def check_queue(self, queue: str, *, status: int = 404) -> None:
        """Create the queue if that is allowed; raises ProblemError."""
        if queue in self.queues:
            return
        if not self._auto_create_queues:
            detail = f"queue: {queue!r} does not exist; create it with PUT /v1/queues/{queue}"
            raise ProblemError(status, "unknown_queue", detail, field="queue")
        self.queues[queue] = {"version": 0}

    def create_job(self, body: Mapping[str, Any], key: str | None) -> tuple[dict[str, Any], bool]:
        """Create a job; return its answer and whether it repeats an earlier one."""
        request_hash = hashlib.sha256(to_json(body).encode()).hexdigest()
        known = self._keys.get(key or "")
        if key and known is not None:
            if known[0] != request_hash:
                detail = "Idempotency-Key: was used with another body; take a new key"
                raise ProblemError(409, "idempotency_conflict", detail, field="Idempotency-Key")
            return known[1], True
        definition = self.check_definition(body)
        derived = f"k-{hashlib.sha256(key.encode()).hexdigest()[:20]}" if key else f"j-{next(self._numbers)}"
        job_id = body.get("jobId") or derived
        if not _JOB_ID.fullmatch(job_id):
            raise ProblemError(422, "invalid_field", "jobId: letters, digits and . _ : -", field="jobId")
        if job_id in self.jobs and self.jobs[job_id].state != "deleted":
            raise ProblemError(409, "job_exists", f"jobId: {job_id} exists; edit it instead", field="jobId")
        answer = self._store(job_id, definition)
        self._stand(job_id, body)
        if key:
            self._keys[key] = (request_hash, answer)
        return answer, False

    def put_job(
        self, job_id: str, body: Mapping[str, Any], *, version: int | None, create_only: bool
    ) -> tuple[dict[str, Any], bool]:
        """Create or replace; return the answer and whether it was created."""
        definition = self.check_definition({"name": job_id, **body})
        job = self.jobs.get(job_id)
        if job is None or job.state == "deleted":
            if version is not None:
                raise self.version_mismatch(job)
            created = self._store(job_id, definition)
            self._stand(job_id, body)
            return created, True
        same = {**job.definition, "jobId": None} == {**definition, "jobId": None}
        if not same and (create_only or (version is not None and version != job.version)):
            raise self.version_mismatch(job)
        answer = self._job_answer(job) if same else self._store(job_id, definition)
        self._stand(job_id, body)
        return answer, False

    def patch_job(self, job_id: str, body: Mapping[str, Any], *, version: int | None) -> dict[str, Any]:
        """Change some fields."""
        job = self.job(job_id)
        base = {name: value for name, value in job.definition.items() if name != "jobId"}
        if any(name in body for name in _TIME_FORMS):
            base = {name: value for name, value in base.items() if name not in _TIME_FORMS}
        merged = {**base, **body}
        merged.pop("paused", None)
        if isinstance(body.get("retry"), dict):
            merged["retry"] = {**base["retry"], **body["retry"]}
        same = merged == {name: value for name, value in job.definition.items() if name != "jobId"}
        if not same and version is not None and version != job.version:
            raise self.version_mismatch(job)
        answer = self._job_answer(job) if same else self._store(job_id, self.check_definition(merged))
        self._stand(job_id, body)
        return answer

    def _stand(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Pause or resume with a definition, if its body says so."""
        job, paused = self.jobs[job_id], body.get("paused")
        if paused is False:
            job.paused = None
        elif paused and job.paused is None:
            job.paused = {"since": self.wall(), "actor": "anonymous", "note": "", "until": None}

    def delete_job(self, job_id: str, *, version: int | None) -> dict[str, Any]:
        """Delete a job and cancel its runs."""
        job = self.jobs.get(job_id)
        if job is None:
            raise ProblemError(404, "job_not_found", f"no job {job_id}")
        if job.state != "deleted":
            if version is not None and version != job.version:
                raise self.version_mismatch(job)
            job.state, job.next_run = "deleted", None
            job.version += 1
            for run in self.runs.values():
                if run.job_id == job_id and run.state != "closed":
                    self.cancel(run.run_id, reason="job_deleted")
        return self._job_answer(job)

    def job(self, job_id: str) -> FakeJob:
        """Return a job that is not deleted; raises ProblemError."""
        job = self.jobs.get(job_id)
        if job is None or job.state == "deleted":
            raise ProblemError(404, "job_not_found", f"no job {job_id}")
        return job

    def known_job(self, job_id: str) -> FakeJob:
        """Return a job, also one that was deleted; raises ProblemError."""
        if job_id not in self.jobs:
            raise ProblemError(404, "job_not_found", f"jobId: there is no job {job_id!r}", field="jobId")
        return self.jobs[job_id]

    def job_object(self, job: FakeJob, *, payload: bool = True) -> dict[str, Any]:
        """Return the job object of the contract."""
        state = "paused" if job.paused and job.state == "active" else job.state
        open_runs = sum(r.job_id == job.job_id and r.state != "closed" for r in self.runs.values())
        gone = job.state == "deleted"
        value = {
            **({"queue": job.definition["queue"]} if gone else job.definition),
            **self._job_answer(job),
            "tenant": "default",
            "state": state,
            "paused": job.paused,
            "openRuns": open_runs,
            "createdAt": job.created_at,
            "updatedAt": job.updated_at,
        }
        value.pop("consistencyToken")
        if not payload:
            value.pop("payload", None)
        return value

    def open_run(self, job: FakeJob, run_id: str, *, origin: str, scheduled_for: str) -> FakeRun:
        """Open a run of a job."""
        d = job.definition
        run = FakeRun(
            run_id=run_id,
            job_id=job.job_id,
            queue=d["queue"],
            task=d["task"],
            scheduled_for=scheduled_for,
            payload=d["payload"],
            lane=d["lane"],
            origin=origin,
            timeout_seconds=d["timeoutSeconds"],
            max_attempts=d["retry"]["maxAttempts"],
            labels=d["labels"],
            due_at=self.clock.monotonic(),
        )
        self.runs[run_id] = run
        return run

    def copy_run(self, old: FakeRun, run_id: str) -> FakeRun:
        """Open a replay of a dead run."""
        kept = (
            "job_id",
            "queue",
            "task",
            "scheduled_for",
            "payload",
            "lane",
            "timeout_seconds",
            "max_attempts",
            "labels",
        )
        run = FakeRun(
            run_id=run_id,
            origin="replay",
            replay_of=old.run_id,
            due_at=self.clock.monotonic(),
            **{name: getattr(old, name) for name in kept},
        )
        self.runs[run_id] = run
        return run

    def define_again(self, job: FakeJob) -> None:
        """Bring a deleted job back under a new version."""
        job.state = "active"
        self._store(job.job_id, dict(job.definition))

    def next_run_at(self, job: FakeJob) -> str | None:
        """Return the next occurrence that will run, as far as the fake knows schedules."""
        if job.state == "deleted":
            return None
        if job.next_run is not None:
            return None if self.wall(job.next_run) in job.skipped else self.wall(job.next_run)
        if "schedule" not in job.definition:
            return None
        found = self.preview(job.definition, None, len(job.skipped) + 1)["occurrences"]
        return next((one["at"] for one in found if one["at"] not in job.skipped), None)

    def _store(self, job_id: str, definition: dict[str, Any]) -> dict[str, Any]:
        old = self.jobs.get(job_id)
        job = FakeJob(job_id, definition, version=old.version + 1 if old else 1)
        job.paused = old.paused if old and old.state != "deleted" else None
        job.updated_at = self.wall()
        job.created_at = old.created_at if old else job.updated_at
        now = self.clock.monotonic()
        if "delaySeconds" in definition:  # counts from its acceptance, and is an instant from then on
            job.next_run = now + definition.pop("delaySeconds")
            definition["runAt"] = self.wall(job.next_run)
        elif "runAt" in definition:
            at = parse_time(definition["runAt"])
            job.next_run = max(now, self._origin + (at - EPOCH).total_seconds())
        self.jobs[job_id] = job
        return self._job_answer(job)

    def _job_answer(self, job: FakeJob) -> dict[str, Any]:
        return {
            "jobId": job.job_id,
            "version": job.version,
            "nextRunAt": self.next_run_at(job),
            "state": job.state,
            "warnings": [],
            "consistencyToken": f"{job.job_id}@{job.version}",
        }

    def version_mismatch(self, job: FakeJob | None) -> ProblemError:
        version = 0 if job is None else job.version
        detail = f"If-Match: the job has version {version}; read it again and repeat your edit"
        return ProblemError(412, "version_mismatch", detail, field="If-Match", version=version)

    # --- leases ---

    def ready_runs(self, queue: str) -> list[FakeRun]:
        """Return runs that may be leased now, oldest first within their lanes."""
        now = self.clock.monotonic()
        paused = {job.job_id for job in self.jobs.values() if job.paused}
        runs = [
            run
            for run in self.runs.values()
            if run.queue == queue and run.state == "ready" and run.due_at <= now and run.job_id not in paused
        ]
        order = {"high": 0, "normal": 1, "low": 2}
        return sorted(runs, key=lambda run: (order[run.lane], run.due_at))

    def leasable_runs(self, queue: str, most: int) -> list[FakeRun]:
        """Return the ready runs that the limits of their concurrency keys leave room for."""
        found: list[FakeRun] = []
        taken = {key: self.units_running(key) for key in self.concurrency_keys}
        for run in self.ready_runs(queue):
            key, weight = self._concurrency(run)
            limit = self.concurrency_keys.get(key, {}).get("maxRunning")
            if limit is not None and taken[key] + weight > limit:
                continue
            if limit is not None:
                taken[key] += weight
            found.append(run)
        return found[:most]

    def units_running(self, key: str) -> int:
        """Return what the leased runs of a concurrency key take."""
        leased = [self._concurrency(run) for run in self.runs.values() if run.state == "leased"]
        return sum(weight for name, weight in leased if name == key)

    def _concurrency(self, run: FakeRun) -> tuple[str, int]:
        job = self.jobs.get(run.job_id)
        if job is None or not job.definition["concurrencyKey"]:
            return "", 0
        return str(job.definition["concurrencyKey"]), int(job.definition["concurrencyWeight"])

    def grant(self, run: FakeRun, worker_id: str, visibility_seconds: float) -> dict[str, Any]:
        """Lease a run; return it in the contract's form."""
        run.state, run.worker_id, run.heard = "leased", worker_id, False
        run.attempt += 1
        run.token += 1
        run.grants += 1
        run.visibility_seconds = visibility_seconds
        run.lease_ends_at = self.clock.monotonic() + visibility_seconds
        return self.leased_object(run)

    def leased_object(self, run: FakeRun) -> dict[str, Any]:
        """Return a leased run in the contract's form, with what is left of its lease now."""
        return {
            "runId": run.run_id,
            "jobId": run.job_id,
            "queue": run.queue,
            "lane": run.lane,
            "task": run.task,
            "attempt": run.attempt,
            "maxAttempts": run.max_attempts,
            "leaseToken": run.token,
            "leaseExpiresAt": self.wall(run.lease_ends_at),
            "leaseRemainingMs": self._remaining_ms(run),
            "scheduledFor": run.scheduled_for,
            "timeoutSeconds": run.timeout_seconds,
            "payload": run.payload,
            "labels": dict(run.labels),
        }

    def apply(self, kind: str, run_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """Apply a heartbeat, complete, fail or release; raises ProblemError."""
        run = self.run(run_id)
        token = item.get("leaseToken")
        if not isinstance(token, int):
            raise ProblemError(422, "missing_field", "leaseToken: send the lease's token", field="leaseToken")
        ended = run.ended.get(token)
        if ended is not None and ended[0] == kind:
            return {**ended[1], "replayed": True}
        if run.state != "leased" or token != run.token:
            run.refusals += 1
            detail = f"leaseToken: {token} is not the current token of this run; stop working on it"
            raise ProblemError(
                409,
                "lease_lost",
                detail,
                field="leaseToken",
                runState=run.state,
                currentAttempt=run.attempt,
                outcome=run.outcome,
            )
        answer = {"runId": run_id, "ok": True, **getattr(self, f"_{kind}")(run, item)}
        if kind != "heartbeat":
            run.ended[token] = (kind, answer)
        return answer

    def _remaining_ms(self, run: FakeRun) -> int:
        return int((run.lease_ends_at - self.clock.monotonic()) * 1000)

    def _heartbeat(self, run: FakeRun, item: Mapping[str, Any]) -> dict[str, Any]:
        run.heard = True
        run.heartbeats += 1
        run.visibility_seconds = item.get("visibilitySeconds") or run.visibility_seconds
        run.lease_ends_at = self.clock.monotonic() + run.visibility_seconds
        if "progress" in item:
            run.progress = item["progress"]
        return {
            "cancel": run.cancel_reason is not None,
            "cancelReason": run.cancel_reason,
            "leaseRemainingMs": self._remaining_ms(run),
            "leaseExpiresAt": self.wall(run.lease_ends_at),
        }

    def _complete(self, run: FakeRun, item: Mapping[str, Any]) -> dict[str, Any]:
        if len(to_json(item.get("result")).encode()) > RESULT_BYTES_MAX:
            detail = f"result: more than {RESULT_BYTES_MAX} bytes"
            raise ProblemError(413, "result_too_large", detail, field="result", limit=RESULT_BYTES_MAX)
        run.state, run.outcome, run.result = "closed", "ran", item.get("result")
        run.closed_at = self.wall()
        run.completions += 1
        return {"outcome": "ran"}

    def _fail(self, run: FakeRun, item: Mapping[str, Any]) -> dict[str, Any]:
        run.failures += 1
        run.error = str(item.get("error", ""))[:ERROR_CHARACTERS_MAX]
        run.retryable = bool(item.get("retryable", True))
        if run.cancel_reason is not None and run.cancel_reason != "timeout":
            run.state, run.outcome, run.reason = "closed", "cancelled", run.cancel_reason
        elif not run.retryable or run.attempt >= run.max_attempts:
            reason = "max_attempts" if run.retryable else "not_retryable"
            run.state, run.outcome, run.reason = "closed", "dead", reason
        else:
            run.state, run.due_at = "retrying", self.clock.monotonic() + self._retry_delay_seconds
            return {"outcome": None, "nextAttemptAt": self.wall(run.due_at)}
        run.closed_at = self.wall()
        return {"outcome": run.outcome, "nextAttemptAt": None}

    def _release(self, run: FakeRun, _item: Mapping[str, Any]) -> dict[str, Any]:
        run.releases += 1
        run.state = "ready"
        run.attempt -= 1
        return {}

    def _back(self, run: FakeRun, end: str) -> None:
        if not run.heard:
            run.attempt -= 1
        if run.attempt >= run.max_attempts:
            run.state, run.outcome, run.reason = "closed", "dead", "max_attempts"
            run.closed_at = self.wall()
        else:
            run.state, run.due_at = "ready", self.clock.monotonic()
        run.error = end

    def lose_lease(self, run_id: str) -> None:
        """End a lease early, as if it had expired."""
        self._back(self.run(run_id), "expired")

    # --- runs and queues ---

    def run(self, run_id: str) -> FakeRun:
        """Return a run; raises ProblemError."""
        run = self.runs.get(run_id)
        if run is None:
            raise ProblemError(404, "run_not_found", f"no run {run_id}")
        return run

    def cancel(self, run_id: str, *, reason: str = "user") -> FakeRun:
        """Cancel a run: at once, or through its worker."""
        run = self.run(run_id)
        if run.state == "leased":
            run.cancel_reason = run.cancel_reason or reason
        elif run.state != "closed":
            run.state, run.outcome, run.reason = "closed", "cancelled", reason
            run.closed_at = self.wall()
        elif run.outcome != "cancelled":
            detail = f"the run has ended: {run.outcome}"
            raise ProblemError(409, "run_closed", detail, outcome=run.outcome)
        return run

    def run_object(self, run: FakeRun) -> dict[str, Any]:
        """Return the run object of the contract."""
        value = {_camel(f.name): getattr(run, f.name) for f in dataclasses.fields(run)}
        hidden = {"dueAt", "ended", "heard", "token", "cancelReason", "leaseEndsAt", "retryable", "replayed"}
        value = {name: member for name, member in value.items() if name not in hidden}
        return {
            **value,
            "labels": dict(run.labels),
            "leaseToken": run.token,
            "tenant": "default",
            "cancelRequested": run.cancel_reason is not None,
            "leaseExpiresAt": self.wall(run.lease_ends_at) if run.state == "leased" else None,
            "nextAttemptAt": self.wall(run.due_at) if run.state == "retrying" else None,
        }

    def queue_object(self, queue: str, *, polling: int) -> dict[str, Any]:
        """Return the queue object of the contract."""
        self.check_queue(queue)
        runs = [run for run in self.runs.values() if run.queue == queue]
        lanes = {lane: sum(r.state == "ready" and r.lane == lane for r in runs) for lane in _CHOICES["lane"]}
        return {
            "queue": queue,
            "tenant": "default",
            "description": "",
            "maxRunning": None,
            "maxLeaseRatePerSecond": None,
            **self.queues[queue],
            "workersPolling": polling,
            "ready": lanes,
            "leased": sum(run.state == "leased" for run in runs),
            "retrying": sum(run.state == "retrying" for run in runs),
        }

    def put_queue(self, queue: str, body: Mapping[str, Any], *, version: int | None) -> bool:
        """Create a queue or replace its settings; return whether nobody had declared it."""
        old = self.queues.get(queue, {"version": 0})
        self.queues[queue] = self._settings(old, body, version, "queue")
        return bool(old["version"] == 0)

    def concurrency_object(self, key: str) -> dict[str, Any]:
        """Return the object of a concurrency key."""
        limits = {"version": 0, "description": "", "maxRunning": None, **self.concurrency_keys.get(key, {})}
        counted = limits["maxRunning"] is not None
        ready = [run for run in self.runs.values() if run.state == "ready" and self._concurrency(run)[0] == key]
        return {
            "key": key,
            "tenant": "default",
            **limits,
            "unitsRunning": self.units_running(key) if counted else None,
            "runsWaiting": bool(ready) if counted else None,
        }

    def put_concurrency_key(self, key: str, body: Mapping[str, Any], *, version: int | None) -> bool:
        """Set or lift a key's limit; return whether it had none. What says nothing is deleted."""
        old = self.concurrency_keys.get(key)
        new = self._settings(old or {"version": 0}, body, version, "concurrency key")
        if new.get("maxRunning") is None and not new.get("description"):
            self.concurrency_keys.pop(key, None)
            return False
        self.concurrency_keys[key] = new
        return old is None

    def tenant_object(self, tenant: str) -> dict[str, Any]:
        """Return a tenant's limits; raises ProblemError for another tenant than the fake's one."""
        if tenant != "default":
            raise ProblemError(403, "forbidden", f"tenant: the token is not of tenant {tenant}", field="tenant")
        limits = {"version": 0, "pendingCap": None, "maxLeaseRatePerSecond": None, "weight": None}
        return {"tenant": tenant, **limits, **self.tenants.get(tenant, {})}

    def put_tenant(self, tenant: str, body: Mapping[str, Any], *, version: int | None) -> dict[str, Any]:
        """Replace a tenant's limits."""
        old = self.tenant_object(tenant)
        self.tenants[tenant] = self._settings(
            self.tenants.get(tenant, {"version": old["version"]}), body, version, "tenant"
        )
        return self.tenant_object(tenant)

    def _settings(self, old: dict[str, Any], body: Mapping[str, Any], version: int | None, what: str) -> dict[str, Any]:
        new = {**body, "version": old["version"] + 1}
        if old["version"] and {**new, "version": 0} == {**old, "version": 0}:
            return old
        if version is not None and version != old["version"]:
            detail = f"If-Match: the {what} is at version {old['version']}, not {version}; read it again"
            raise ProblemError(412, "version_mismatch", detail, field="If-Match", version=old["version"])
        return new

    def preview(self, definition: Mapping[str, Any], start: str | None, count: int) -> dict[str, Any]:
        """Return occurrences of an interval or a single instant; other forms are not computed here, and say so."""
        begin = parse_time(start or self.wall())
        schedule = definition.get("schedule") or {}
        times: list[dt.datetime] = []
        warnings: list[str] = []
        if "every" in schedule:
            step = dt.timedelta(milliseconds=every_ms(schedule["every"]))
            anchor = parse_time(schedule.get("anchor") or "1970-01-01T00:00:00Z")
            first = anchor + step * (-((anchor - begin) // step))
            first = first if first >= begin else first + step
            times = [first + step * index for index in range(count)]
        elif "runAt" in definition:
            times = [parse_time(definition["runAt"])]
        else:
            warnings = ["the fake gateway previews intervals and runAt only"]
        stamps = [at.isoformat(timespec="milliseconds").replace("+00:00", "Z") for at in times]
        return {
            "occurrences": [{"at": at, "local": at, "note": None} for at in stamps],
            "warnings": warnings,
        }


def every_ms(value: float | str) -> int:
    """Return an interval in milliseconds; raises ProblemError."""
    if isinstance(value, (int, float)):
        return int(value)
    parts = _EVERY.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ProblemError(
            422, "bad_schedule", "schedule.every: write for instance 15m or 1h30m", field="schedule.every"
        )
    return sum(int(number) * _UNIT_MS[unit] for number, unit in parts)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _check_cron(schedule: Mapping[str, Any]) -> None:
    cron = schedule.get("cron")
    if cron is None:
        return
    if cron in _CRON_ALIASES:
        return
    fields = str(cron).split()
    bad = len(fields) not in {5, 6} or any(not re.fullmatch(r"[\w*/,\-#()]+", part) for part in fields)
    if bad or any(int(number) > 59 for number in re.findall(r"\b\d+\b", " ".join(fields[:2]))):
        detail = "schedule.cron: write five fields (minute hour day month weekday) or six (seconds first)"
        raise ProblemError(422, "bad_cron", detail, field="schedule.cron", allowed="5 or 6 fields")
