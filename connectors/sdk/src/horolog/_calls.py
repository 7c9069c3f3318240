"""Every call of the HTTP API, declared once: a function that builds a `Call`.

`Client` and `AsyncClient` both derive their methods from these functions, so a route exists in one place only.
A `Call` is a value: method, path, query, headers, body and how to read the answer; it can be sent again
unchanged, with the same idempotency key. Times are aware datetimes; durations are seconds; see docs/http-api.md
for bounds and errors.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from horolog._types import (
    Backfill,
    BackfillProgress,
    BulkChange,
    Calendar,
    ConcurrencyKey,
    Explanation,
    ItemResult,
    Job,
    JobRef,
    LeasedRun,
    Page,
    Preview,
    Queue,
    Readiness,
    Replayed,
    RunRecord,
    Skipped,
    Tenant,
    Triggered,
    decode,
)
from horolog._wire import format_time, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Unpack

T = TypeVar("T")
D = TypeVar("D")
LEASE_WAIT_SECONDS_MAX = 20.0  # docs/http-api.md section 4


@dataclass(frozen=True)
class Answer:
    """What came back: status, headers with lower-case names, decoded JSON body (an empty object if there was none).

    Of a call that asks for text, the body is `{"text": ...}`.
    """

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request and how to read its answer.

    `wait_seconds` is how long the server may hold it. `accept` are statuses from 300 on that are answers and no errors.
    `wants_text`: the answer is no JSON.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_seconds: float = 0.0
    accept: frozenset[int] = frozenset()
    wants_text: bool = False


class JobFields(TypedDict, total=False):
    """The fields of a job definition, in Python names (docs/http-api.md section 2).

    Time, one of: `cron` (with `time_zone`, `gap`, `overlap_hour`), `every` ("15m" or timedelta, with `anchor`),
    `schedule` (the JSON object as it is), `run_at`, `run_at_local` (with `time_zone`), `delay_seconds`.
    `paused` creates a job paused, or pauses or resumes it with the edit, in one decision.
    """

    queue: str
    task: str
    cron: str
    time_zone: str
    gap: str
    overlap_hour: str
    every: str | dt.timedelta
    anchor: dt.datetime
    schedule: Mapping[str, Any]
    run_at: dt.datetime
    run_at_local: dt.datetime | str
    delay_seconds: float
    payload: Any
    retry: Mapping[str, Any]
    catch_up: str
    overlap: str
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    lane: str
    labels: Mapping[str, str]
    start_at: dt.datetime | None
    end_at: dt.datetime | None
    max_runs: int | None
    jitter_seconds: float
    calendars: Sequence[Any]
    concurrency_key: str | None
    concurrency_weight: int
    paused: bool


_SCHEDULE_PARTS = ("cron", "every", "anchor", "gap", "overlap_hour")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _wire_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return format_time(value)
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    return value


def _definition(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `JobFields` into the JSON definition; raises TypeError for unknown names and for mixed time forms."""
    unknown = sorted(set(fields) - set(JobFields.__annotations__))
    if unknown:
        message = f"unknown job field: {', '.join(unknown)}; known: {', '.join(JobFields.__annotations__)}"
        raise TypeError(message)
    parts = {name: fields[name] for name in _SCHEDULE_PARTS if name in fields}
    apart = {*_SCHEDULE_PARTS, "run_at_local"}
    body = {_camel(name): _wire_value(value) for name, value in fields.items() if name not in apart}
    if parts:
        if ("cron" in parts) == ("every" in parts) or "schedule" in fields:
            message = "give exactly one of cron, every, schedule"
            raise TypeError(message)
        if "cron" in parts and "timeZone" in body:
            parts["time_zone"] = body.pop("timeZone")
        body["schedule"] = {_camel(name): _wire_value(value) for name, value in parts.items()}
    local = fields.get("run_at_local")
    if isinstance(local, dt.datetime):
        if local.tzinfo is not None:
            message = "run_at_local is wall-clock time: give a datetime without tzinfo, and time_zone"
            raise ValueError(message)
        local = local.isoformat()
    if local is not None:
        body["runAtLocal"] = local
    return body


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe=":") for part in parts)


def _query(path: str, pairs: Iterable[tuple[str, Any]]) -> str:
    given = [(name, _wire_value(value)) for name, value in pairs if value is not None]
    return f"{path}?{urlencode(given)}" if given else path


def _tokens(consistency: str | Sequence[str] | None) -> list[tuple[str, Any]]:
    tokens = [consistency] if isinstance(consistency, str) else consistency or ()
    return [("consistency", token) for token in tokens]


def _headers(key: str | None = None, *, version: int | None = None, create_only: bool = False) -> dict[str, str]:
    headers = {"Idempotency-Key": key or f"sdk-{uuid.uuid4().hex}"}
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    if create_only:
        headers["If-None-Match"] = "*"
    return headers


def _one(cls: type[D]) -> Callable[[Answer], D]:
    def read(answer: Answer) -> D:
        return decode(cls, answer.body)

    return read


def _page(cls: type[D], member: str) -> Callable[[Answer], Page[D]]:
    def read(answer: Answer) -> Page[D]:
        items = tuple(decode(cls, item) for item in answer.body[member])
        return Page(items, answer.body.get("nextCursor"))

    return read


def _list(cls: type[D], member: str) -> Callable[[Answer], tuple[D, ...]]:
    def read(answer: Answer) -> tuple[D, ...]:
        return tuple(decode(cls, item) for item in answer.body[member])

    return read


def _job_ref(answer: Answer) -> JobRef:
    replayed = answer.headers.get("idempotent-replayed") == "true"
    return decode(JobRef, {**answer.body, "replayed": replayed})


def _given(**fields: Any) -> str:
    return to_json({name: _wire_value(value) for name, value in fields.items() if value is not None})


# --- jobs ---------------------------------------------------------------------------------------


def create_job(
    name: str,
    *,
    job_id: str | None = None,
    idempotency_key: str | None = None,
    **fields: Unpack[JobFields],
) -> Call[JobRef]:
    """Create a job. Without `job_id` the id is derived from the idempotency key (one is made up if you give none)."""
    body = {"name": name, **_definition(fields)}
    if job_id is not None:
        body["jobId"] = job_id
    return define_job(body, idempotency_key=idempotency_key)


def define_job(definition: Mapping[str, Any], *, idempotency_key: str | None = None) -> Call[JobRef]:
    """Create a job from the JSON definition as it is (camelCase), for tools that read files."""
    return Call("POST", "/v1/jobs", _job_ref, to_json(dict(definition)), _headers(idempotency_key))


def put_job(
    job_id: str,
    definition: Mapping[str, Any],
    *,
    version: int | None = None,
    create_only: bool = False,
    idempotency_key: str | None = None,
) -> Call[JobRef]:
    """Create or replace the job of that id by a JSON definition; `version` guards against others' edits."""
    headers = _headers(idempotency_key, version=version, create_only=create_only)
    return Call("PUT", _path("jobs", job_id), _job_ref, to_json(dict(definition)), headers)


def get_job(job_id: str) -> Call[Job]:
    """Return a job."""
    return Call("GET", _path("jobs", job_id), _one(Job))


def edit_job(
    job_id: str,
    *,
    version: int | None = None,
    name: str | None = None,
    idempotency_key: str | None = None,
    **fields: Unpack[JobFields],
) -> Call[JobRef]:
    """Change the given fields only; `version` guards against others' edits."""
    body = _definition(fields)
    if name is not None:
        body["name"] = name
    headers = _headers(idempotency_key, version=version)
    return Call("PATCH", _path("jobs", job_id), _job_ref, to_json(body), headers)


def patch_job(
    job_id: str,
    changes: Mapping[str, Any],
    *,
    version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[JobRef]:
    """Change a job by a JSON merge patch as it is (camelCase), for tools that read files."""
    headers = _headers(idempotency_key, version=version)
    return Call("PATCH", _path("jobs", job_id), _job_ref, to_json(dict(changes)), headers)


def delete_job(job_id: str, *, version: int | None = None, idempotency_key: str | None = None) -> Call[JobRef]:
    """Delete a job; its unleased runs are cancelled at once, leased ones through their heartbeat."""
    headers = _headers(idempotency_key, version=version)
    return Call("DELETE", _path("jobs", job_id), _job_ref, None, headers)


def list_jobs(
    *,
    queue: str | None = None,
    state: str | None = None,
    name_prefix: str | None = None,
    text: str | None = None,
    labels: Mapping[str, str] | None = None,
    next_from: dt.datetime | None = None,
    next_until: dt.datetime | None = None,
    consistency: str | Sequence[str] | None = None,
    calendar: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Job]]:
    """Return one page of jobs; pass `page.next_cursor` as `cursor` for the next.

    `text` is part of a name, task or id; `consistency` the tokens of changes that the page must show.
    """
    pairs: list[tuple[str, Any]] = [("queue", queue), ("state", state), ("namePrefix", name_prefix), ("text", text)]
    pairs += [("label", f"{key}:{value}") for key, value in (labels or {}).items()]
    pairs += [("nextFrom", next_from), ("nextUntil", next_until), ("calendar", calendar), *_tokens(consistency)]
    pairs += [("limit", limit), ("cursor", cursor)]
    return Call("GET", _query("/v1/jobs", pairs), _page(Job, "jobs"))


def list_job_runs(
    job_id: str, *, state: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[RunRecord]]:
    """Return one page of a job's runs, newest first."""
    pairs = [("state", state), ("limit", limit), ("cursor", cursor)]
    return Call("GET", _query(_path("jobs", job_id, "runs"), pairs), _page(RunRecord, "runs"))


def preview_job(job_id: str, *, start: dt.datetime | None = None, count: int | None = None) -> Call[Preview]:
    """Return a job's next occurrences from `start` (default: now)."""
    pairs = [("from", start), ("count", count)]
    return Call("GET", _query(_path("jobs", job_id, "preview"), pairs), _one(Preview))


def preview_schedule(
    *, start: dt.datetime | None = None, count: int | None = None, **fields: Unpack[JobFields]
) -> Call[Preview]:
    """Return the next occurrences of a schedule that is not stored."""
    return preview_definition(_definition(fields), start=start, count=count)


def preview_definition(
    definition: Mapping[str, Any], *, start: dt.datetime | None = None, count: int | None = None
) -> Call[Preview]:
    """Return the next occurrences of a time form given as JSON (camelCase)."""
    body = {**definition, "from": None if start is None else format_time(start), "count": count}
    given = {name: value for name, value in body.items() if value is not None}
    return Call("POST", "/v1/preview", _one(Preview), to_json(given))


def explain_job(job_id: str, *, at: dt.datetime | None = None) -> Call[Explanation]:
    """Say why a run did or did not happen at an instant (default: the latest or next occurrence)."""
    return Call("GET", _query(_path("jobs", job_id, "explain"), [("at", at)]), _one(Explanation))


def pause_job(
    job_id: str, *, note: str | None = None, actor: str | None = None, until: dt.datetime | None = None
) -> Call[Job]:
    """Pause a job, for good or until an instant; runs already leased go on."""
    body = _given(note=note, actor=actor, until=until)
    return Call("POST", _path("jobs", job_id, "pause"), _one(Job), body, _headers())


def resume_job(job_id: str, *, note: str | None = None, actor: str | None = None) -> Call[Job]:
    """Resume a paused job."""
    return Call("POST", _path("jobs", job_id, "resume"), _one(Job), _given(note=note, actor=actor), _headers())


_KEEP: Any = object()


def trigger_job(
    job_id: str,
    *,
    payload: Any = _KEEP,
    note: str | None = None,
    force: bool = False,
    idempotency_key: str | None = None,
) -> Call[Triggered]:
    """Open a run now, with the job's payload or another one; `force`: whatever pause and overlap say."""
    body: dict[str, Any] = {} if note is None else {"note": note}
    if force:
        body["force"] = True
    if payload is not _KEEP:
        body["payload"] = payload
    path = _path("jobs", job_id, "trigger")
    return Call("POST", path, _one(Triggered), to_json(body), _headers(idempotency_key))


def backfill_job(
    job_id: str,
    *,
    start: dt.datetime,
    end: dt.datetime,
    max_concurrent: int | None = None,
    rate_per_second: float | None = None,
    dry_run: bool = False,
    idempotency_key: str | None = None,
) -> Call[Backfill]:
    """Open a run for every past occurrence in `[start, end)`, oldest first; a dry run only counts them."""
    body: dict[str, Any] = {"from": format_time(start), "to": format_time(end), "dryRun": dry_run}
    if max_concurrent is not None:
        body["maxConcurrent"] = max_concurrent
    if rate_per_second is not None:
        body["ratePerSecond"] = rate_per_second
    path = _path("jobs", job_id, "backfill")
    return Call("POST", path, _one(Backfill), to_json(body), _headers(idempotency_key))


def list_backfills(job_id: str) -> Call[tuple[BackfillProgress, ...]]:
    """Return the backfills of a job that are going, and the last ones that ended."""
    return Call("GET", _path("jobs", job_id, "backfills"), _list(BackfillProgress, "backfills"))


def stop_backfill(job_id: str, backfill_id: str) -> Call[BackfillProgress]:
    """End a backfill; what it opened stays."""
    path = _path("jobs", job_id, "backfills", backfill_id, "stop")
    return Call("POST", path, _one(BackfillProgress), "{}", _headers())


def skip_occurrence(job_id: str, *, at: dt.datetime, version: int | None = None) -> Call[Skipped]:
    """Leave out the occurrence at this instant."""
    headers = _headers(version=version)
    return Call("POST", _path("jobs", job_id, "skip"), _one(Skipped), _given(at=at), headers)


def change_jobs(
    action: Literal["pause", "resume", "delete"],
    *,
    queue: str | None = None,
    labels: Mapping[str, str] | None = None,
    text: str | None = None,
    name_prefix: str | None = None,
    job_ids: Sequence[str] | None = None,
    dry_run: bool = True,
    note: str | None = None,
    actor: str | None = None,
    until: dt.datetime | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    idempotency_key: str | None = None,
) -> Call[BulkChange]:
    """Pause, resume or delete all jobs that match, a page of them; only tells which unless `dry_run=False`.

    At least one of the filters is needed. `undo_change` takes `undo_token` of the answer.
    """
    pairs = {"queue": queue, "labels": labels, "text": text, "namePrefix": name_prefix, "jobIds": job_ids}
    wanted = {name: value for name, value in pairs.items() if value is not None}
    body = _given(filter=wanted, dryRun=dry_run, note=note, actor=actor, until=until, limit=limit, cursor=cursor)
    return Call("POST", f"/v1/jobs:{quote(action, safe='')}", _one(BulkChange), body, _headers(idempotency_key))


def undo_change(undo_token: str) -> Call[BulkChange]:
    """Take a page of a bulk change back, where nobody changed the jobs since."""
    return Call("POST", "/v1/jobs:undo", _one(BulkChange), _given(undoToken=undo_token), _headers())


# --- runs ---------------------------------------------------------------------------------------


def get_run(run_id: str) -> Call[RunRecord]:
    """Return a run."""
    return Call("GET", _path("runs", run_id), _one(RunRecord))


def list_runs(
    *,
    queue: str | None = None,
    state: str | None = None,
    outcome: str | None = None,
    job_id: str | None = None,
    text: str | None = None,
    labels: Mapping[str, str] | None = None,
    start: dt.datetime | None = None,
    end: dt.datetime | None = None,
    consistency: str | Sequence[str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[RunRecord]]:
    """Return one page of runs, scheduled in `[start, end)`, of jobs that match `text` and `labels`."""
    pairs: list[tuple[str, Any]] = [("queue", queue), ("state", state), ("outcome", outcome), ("jobId", job_id)]
    pairs += [("text", text), ("from", start), ("until", end)]
    pairs += [("label", f"{key}:{value}") for key, value in (labels or {}).items()]
    pairs += [*_tokens(consistency), ("limit", limit), ("cursor", cursor)]
    return Call("GET", _query("/v1/runs", pairs), _page(RunRecord, "runs"))


def cancel_run(run_id: str, *, note: str | None = None) -> Call[RunRecord]:
    """Cancel a run: at once if it is not leased, else through its worker's next heartbeat."""
    return Call("POST", _path("runs", run_id, "cancel"), _one(RunRecord), _given(note=note), _headers())


def replay_run(run_id: str, *, note: str | None = None, idempotency_key: str | None = None) -> Call[RunRecord]:
    """Open a new run for a dead one, with its payload; a repeat finds that run."""
    path = _path("runs", run_id, "replay")
    return Call("POST", path, _one(RunRecord), _given(note=note), _headers(idempotency_key))


def replay_runs(
    *,
    queue: str | None = None,
    job_id: str | None = None,
    text: str | None = None,
    labels: Mapping[str, str] | None = None,
    dead_from: dt.datetime | None = None,
    dead_until: dt.datetime | None = None,
    dry_run: bool = True,
    rate_per_second: float | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Replayed]:
    """Replay dead runs that match, a page of them, at a rate; counts them only unless `dry_run=False`.

    `dead_from` and `dead_until` bound when they died. Repeating the call replays nothing twice.
    """
    body = _given(
        queue=queue,
        jobId=job_id,
        text=text,
        labels=labels,
        deadFrom=dead_from,
        deadUntil=dead_until,
        dryRun=dry_run,
        ratePerSecond=rate_per_second,
        limit=limit,
        cursor=cursor,
    )
    return Call("POST", "/v1/runs:replay", _one(Replayed), body, _headers(idempotency_key))


# --- leases -------------------------------------------------------------------------------------


def lease(
    queue: str,
    *,
    worker_id: str,
    max_runs: int = 1,
    visibility_seconds: float = 30,
    wait_seconds: float = LEASE_WAIT_SECONDS_MAX,
    request_id: str | None = None,
) -> Call[tuple[LeasedRun, ...]]:
    """Wait for runs and lease them; an empty answer is normal. Heartbeat on receipt, then within the visibility."""
    body = _given(
        workerId=worker_id,
        max=max_runs,
        visibilitySeconds=visibility_seconds,
        waitSeconds=wait_seconds,
        requestId=request_id or uuid.uuid4().hex,
    )
    return Call("POST", _path("queues", queue, "lease"), _list(LeasedRun, "runs"), body, wait_seconds=wait_seconds)


def heartbeat(
    run_id: str, lease_token: int, *, progress: Any = None, visibility_seconds: float | None = None
) -> Call[ItemResult]:
    """Renew a lease; the answer may ask to cancel. Raises StaleLeaseError when it is lost."""
    body = _given(leaseToken=lease_token, progress=progress, visibilitySeconds=visibility_seconds)
    return Call("POST", _path("runs", run_id, "heartbeat"), _one(ItemResult), body)


def complete(run_id: str, lease_token: int, *, result: Any = None) -> Call[ItemResult]:
    """Complete a run; a repeat with the same token is answered alike."""
    body = _given(leaseToken=lease_token, result=result)
    return Call("POST", _path("runs", run_id, "complete"), _one(ItemResult), body)


def fail(
    run_id: str, lease_token: int, *, error: str, error_type: str | None = None, retryable: bool = True
) -> Call[ItemResult]:
    """Fail an attempt; it is retried by the job's policy unless `retryable` is false."""
    body = _given(leaseToken=lease_token, error=error, errorType=error_type, retryable=retryable)
    return Call("POST", _path("runs", run_id, "fail"), _one(ItemResult), body)


def release(run_id: str, lease_token: int, *, reason: str | None = None) -> Call[ItemResult]:
    """Give back a run that was not started; its attempt number is returned."""
    body = _given(leaseToken=lease_token, reason=reason)
    return Call("POST", _path("runs", run_id, "release"), _one(ItemResult), body)


def _batch(kind: str, items: Sequence[Mapping[str, Any]], **shared: Any) -> Call[tuple[ItemResult, ...]]:
    body = _given(runs=[dict(item) for item in items], **shared)
    return Call("POST", f"/v1/runs:{kind}", _list(ItemResult, "runs"), body)


def heartbeat_many(
    items: Sequence[Mapping[str, Any]], *, worker_id: str | None = None, visibility_seconds: float | None = None
) -> Call[tuple[ItemResult, ...]]:
    """Batch form; items are `{"runId", "leaseToken", ...}` as in docs/http-api.md, results in the same order."""
    return _batch("heartbeat", items, workerId=worker_id, visibilitySeconds=visibility_seconds)


def complete_many(items: Sequence[Mapping[str, Any]]) -> Call[tuple[ItemResult, ...]]:
    """Batch form; see `heartbeat_many`."""
    return _batch("complete", items)


def fail_many(items: Sequence[Mapping[str, Any]]) -> Call[tuple[ItemResult, ...]]:
    """Batch form; see `heartbeat_many`."""
    return _batch("fail", items)


def release_many(items: Sequence[Mapping[str, Any]]) -> Call[tuple[ItemResult, ...]]:
    """Batch form; see `heartbeat_many`."""
    return _batch("release", items)


# --- queues, tenants, service -------------------------------------------------------------------


def get_queue(queue: str) -> Call[Queue]:
    """Return a queue with what waits in it."""
    return Call("GET", _path("queues", queue), _one(Queue))


def list_queues() -> Call[tuple[Queue, ...]]:
    """Return the queues of the token's tenant."""
    return Call("GET", "/v1/queues", _list(Queue, "queues"))


def put_queue(
    queue: str,
    *,
    max_running: int | None = None,
    max_lease_rate_per_second: float | None = None,
    description: str | None = None,
    version: int | None = None,
) -> Call[Queue]:
    """Create a queue or replace its settings: what is left out goes back to its default. `version` guards."""
    body = _given(maxRunning=max_running, maxLeaseRatePerSecond=max_lease_rate_per_second, description=description)
    return Call("PUT", _path("queues", queue), _one(Queue), body, _headers(version=version))


def get_concurrency_key(key: str) -> Call[ConcurrencyKey]:
    """Return a concurrency key: its limit, and what counts against it."""
    return Call("GET", _path("concurrency-keys", key), _one(ConcurrencyKey))


def list_concurrency_keys() -> Call[tuple[ConcurrencyKey, ...]]:
    """Return the tenant's concurrency keys that have a limit."""
    return Call("GET", "/v1/concurrency-keys", _list(ConcurrencyKey, "concurrencyKeys"))


def put_concurrency_key(
    key: str, *, max_running: int | None = None, description: str | None = None, version: int | None = None
) -> Call[ConcurrencyKey]:
    """Set how many units the running jobs of a key may take together; None lifts it. `version` guards."""
    body = _given(maxRunning=max_running, description=description)
    return Call("PUT", _path("concurrency-keys", key), _one(ConcurrencyKey), body, _headers(version=version))


def put_calendar(
    name: str,
    *,
    dates: Sequence[str | dt.date] = (),
    rules: Sequence[str] = (),
    time_zone: str = "UTC",
    description: str = "",
    version: int | None = None,
) -> Call[Calendar]:
    """Create an exclusion calendar or replace it whole. `version` guards against others' edits.

    `dates` are local dates; `rules` five cron fields, whose minutes are excluded, or an RRULE, whose days are.
    """
    days = [day.isoformat() if isinstance(day, dt.date) else day for day in dates]
    body = _given(dates=days, rules=list(rules), timeZone=time_zone, description=description)
    return Call("PUT", _path("calendars", name), _one(Calendar), body, _headers(version=version))


def get_calendar(name: str) -> Call[Calendar]:
    """Return an exclusion calendar."""
    return Call("GET", _path("calendars", name), _one(Calendar))


def list_calendars(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[Calendar]]:
    """Return one page of the tenant's calendars, by name."""
    pairs = [("limit", limit), ("cursor", cursor)]
    return Call("GET", _query("/v1/calendars", pairs), _page(Calendar, "calendars"))


def delete_calendar(name: str, *, force: bool = False, version: int | None = None) -> Call[Calendar]:
    """Delete a calendar that no job names; with `force` any: its jobs then run as if it excluded nothing.

    Of what is returned, only name and last version are set.
    """
    path = _query(_path("calendars", name), [("force", "true" if force else None)])
    return Call("DELETE", path, _one(Calendar), None, _headers(version=version))


def get_tenant(tenant: str) -> Call[Tenant]:
    """Return a tenant's limits."""
    return Call("GET", _path("tenants", tenant), _one(Tenant))


def put_tenant(
    tenant: str,
    *,
    pending_cap: int | None = None,
    max_lease_rate_per_second: float | None = None,
    weight: float | None = None,
    version: int | None = None,
) -> Call[Tenant]:
    """Replace a tenant's limits: what is left out is lifted. `version` guards against others' edits."""
    body = _given(pendingCap=pending_cap, maxLeaseRatePerSecond=max_lease_rate_per_second, weight=weight)
    return Call("PUT", _path("tenants", tenant), _one(Tenant), body, _headers(version=version))


def _readiness(answer: Answer) -> Readiness:
    status = str(answer.body.get("status", ""))
    return Readiness(answer.status == 200, tuple(answer.body.get("checks", ())), status)


def live() -> Call[Readiness]:
    """Ask whether the gateway lives; one that does not is an answer, not an error."""
    return Call("GET", "/livez", _readiness, accept=frozenset({503}))


def ready() -> Call[Readiness]:
    """Ask whether the gateway is ready; an unready gateway is an answer, not an error."""
    return Call("GET", "/readyz", _readiness, accept=frozenset({503}))


def _text(answer: Answer) -> str:
    return str(answer.body["text"])


def metrics() -> Call[str]:
    """Return the gateway's metrics, as Prometheus reads them."""
    return Call("GET", "/metrics", _text, wants_text=True)


def _as_it_is(answer: Answer) -> Mapping[str, Any]:
    return dict(answer.body)


def openapi() -> Call[Mapping[str, Any]]:
    """Return the gateway's OpenAPI document."""
    return Call("GET", "/openapi.json", _as_it_is)
