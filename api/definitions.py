"""Job definitions between the words of HTTP (docs/http-api.md, section 2) and the core's `Definition`. Pure.

`define` makes a whole definition (POST, PUT), `patch` changes one (PATCH), `definition_view` writes one back. Both
ends are checked here: `check` asks the core's own validation and names the field as the client wrote it.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

import msgspec
from msgspec import UNSET, Raw

from api.bodies import CalendarRef, JobBody, RetryBody, ScheduleBody, compact
from api.instants import INSTANT_ALLOWED, instant_text, ms_of_seconds, parse_instant, parse_length_ms
from api.problems import Problem
from streams.core.definition import (
    CONCURRENCY_KEY_PATTERN,
    CONCURRENCY_WEIGHT_MAX,
    JOB_ID_PATTERN,
    NAME_PATTERN,
    PAYLOAD_BYTES_MAX,
    Definition,
    Retry,
    Schedule,
)
from streams.core.time import (
    INSTALLED_ZONE_DATA,
    CalendarIntervalSpec,
    CronSpec,
    IntervalSpec,
    InvalidSchedule,
    Jitter,
    LocalOneOffSpec,
    OneOffSpec,
    RRuleSpec,
    Window,
    compile_schedule,
)
from streams.core.validate import (
    JITTER_MS_MAX,
    MAX_RUNS_MAX,
    RETRY_DELAY_MS_MAX,
    START_DEADLINE_MS_MAX,
    TIMEOUT_MS_MAX,
    TIMEOUT_MS_MIN,
    InvalidDefinition,
    validate_definition,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.core.state import Job, KeyUse
    from streams.core.time import CalendarSpec
    from streams.core.time import Schedule as CompiledSchedule

DELAY_SECONDS_MAX: Final = 31_536_000
EVERY_MS_MIN: Final = 1_000
EVERY_MS_MAX: Final = 366 * 86_400_000
LABELS_MAX: Final = 16
RETRY_BASE_SECONDS_FIXED: Final = 1.0
RETRY_MAX_SECONDS: Final = 600.0
"""The ceiling of the backoff (DESIGN section 10); not yet a field of its own."""

QUEUE_DEFAULT: Final = "default"

CALENDARS_TOLD_MAX: Final = 20
"""Known names that a refusal lists."""

MONTHS_PER_YEAR: Final = 12

_TIME_FORMS: Final = ("schedule", "run_at", "run_at_local", "delay_seconds")
_FORMS_TEXT: Final = ("schedule", "runAt", "runAtLocal", "delaySeconds")
_CRON_FIELDS: Final = frozenset({"cron", "second", "minute", "hour", "day of month", "month", "day of week"})

_CORE_FIELDS: Final = {
    "job_id": "jobId",
    "content_type": "payload",
    "catch_up": "catchUp",
    "timeout_ms": "timeoutSeconds",
    "start_deadline_ms": "startDeadlineSeconds",
    "jitter_ms": "jitterSeconds",
    "jitter_kind": "jitterSeconds",
    "concurrent_runs_max": "overlap",
    "max_runs": "maxRuns",
    "concurrency_key": "concurrencyKey",
    "concurrency_weight": "concurrencyWeight",
    "start_at_ms": "startAt",
    "end_at_ms": "endAt",
    "retry.max_attempts": "retry.maxAttempts",
    "retry.delay_ms": "retry.baseSeconds",
    "schedule.at_ms": "runAt",
}
"""The core's field names in the words of HTTP, where they differ."""

_SCHEDULE_FIELDS: Final = {
    "rrule": "schedule.rrule",
    "dtstart": "schedule.dtStart",
    "gap": "schedule.gap",
    "overlapHour": "schedule.overlapHour",
    "every": "schedule.every",
    "unit": "schedule.everyCalendar.unit",
    "localTime": "schedule.everyCalendar.at",
    "anchorDate": "schedule.everyCalendar.startDate",
    "at": "runAtLocal",
    "endAt": "endAt",
    "window": "startAt",
    "calendars": "calendars",
    "jitter": "jitterSeconds",
}


def define(body: JobBody, *, job_id: str, tenant: str, now_ms: int, default_name: str = "") -> Definition:
    """Make a definition from a whole body. Raises Problem."""
    name = body.name or default_name
    if not name:
        raise Problem("missing_field", "name: is required; send it.", field="name")
    schedule = _time_form(body, now_ms)
    if schedule is None:
        raise _not_one_form("none of them was sent")
    blank = Definition(
        job_id=job_id, tenant=tenant, queue=QUEUE_DEFAULT, name=name, task=_task(body, name), schedule=schedule
    )
    return _apply(blank, body)


def _task(body: JobBody, name: str) -> str:
    """Give the task: the job's name where none is sent. An empty one is no task, and is refused as a wrong one."""
    return name if body.task is UNSET or body.task is None else body.task


def patch(definition: Definition, body: JobBody, *, now_ms: int) -> Definition:
    """Change the fields that the body names (RFC 7396). Raises Problem."""
    if body.job_id is not UNSET and body.job_id not in (None, definition.job_id):
        raise Problem("invalid_field", "jobId: cannot be changed; create another job.", field="jobId")
    changes: dict[str, Any] = {}
    if body.name is not UNSET:
        if not body.name:
            raise Problem("invalid_field", "name: cannot be removed; send a text.", field="name")
        changes["name"] = body.name
    if body.task is not UNSET:
        changes["task"] = _task(body, changes.get("name", definition.name))
    schedule = _time_form(body, now_ms)
    if schedule is not None:
        changes["schedule"] = schedule
    return _apply(msgspec.structs.replace(definition, **changes), body)


def check(definition: Definition, *, now_ms: int, calendars: Mapping[str, CalendarSpec] | None = None) -> list[str]:
    """Give warnings for people. Raises Problem for what the core refuses."""
    try:
        return validate_definition(definition, now_ms=now_ms, zone_data=INSTALLED_ZONE_DATA, calendars=calendars or {})
    except InvalidDefinition as error:
        cause = error.__cause__
        if isinstance(cause, InvalidSchedule):
            raise schedule_problem(cause, definition.schedule) from None
        field = _CORE_FIELDS.get(error.field, error.field)
        if field == "payload":
            raise payload_too_large(len(definition.payload)) from None
        allowed = sorted(calendars or ())[:CALENDARS_TOLD_MAX] if field == "calendars" else None
        raise Problem("invalid_field", f"{field}: {error.reason}.", field=field, allowed=allowed) from None


def schedule_of(definition: Definition, calendars: Mapping[str, CalendarSpec]) -> CompiledSchedule:
    """Compile a definition's schedule, as owners do. A calendar that is not there excludes nothing."""
    return compile_schedule(
        definition.schedule,
        job_id=definition.job_id,
        window=Window(definition.start_at_ms, definition.end_at_ms),
        jitter=Jitter(definition.jitter_kind, definition.jitter_ms),
        calendars=tuple(calendars[name] for name in definition.calendars if name in calendars),
        zone_data=INSTALLED_ZONE_DATA,
    )


def schedule_problem(error: InvalidSchedule, schedule: Schedule) -> Problem:
    """Say what is wrong with a schedule, in the field that the client wrote."""
    if error.field in _CRON_FIELDS and isinstance(schedule, CronSpec):
        field, code = "schedule.cron", "bad_cron"
    elif error.field == "time zone":
        field = "timeZone" if isinstance(schedule, LocalOneOffSpec) else "schedule.timeZone"
        if isinstance(schedule, CalendarIntervalSpec):
            field = "schedule.everyCalendar.timeZone"
        code = "bad_time_zone"
    else:
        field, code = _SCHEDULE_FIELDS.get(error.field, "schedule"), "bad_schedule"
        if field in {"calendars", "jitterSeconds", "endAt"}:
            code = "invalid_field"
    if "never fires" in error.reason:
        code = "never_fires"
    named = "" if error.field in ("cron", "time zone") else f"{error.field} "
    detail = f"{field}: {named}{error.text!r}: {error.reason}; {error.fix}{'' if error.fix.endswith('?') else '.'}"
    return Problem(code, detail, field=field, allowed=error.fix)


def check_job_id(job_id: str, field: str = "jobId") -> str:
    """Give the id back. Raises Problem."""
    if JOB_ID_PATTERN.fullmatch(job_id) is None:
        allowed = "1 to 128 of letters, digits, '.', '_', ':' and '-', first a letter or digit"
        raise Problem("invalid_field", f"{field}: use {allowed}.", field=field, allowed=allowed)
    return job_id


def check_name(text: str, field: str, code: str = "invalid_field") -> str:
    """Give a queue's or tenant's name back. Raises Problem."""
    if NAME_PATTERN.fullmatch(text) is None:
        allowed = "1 to 100 of letters, digits, '.', '_' and '-', first a letter or digit"
        raise Problem(code, f"{field}: {text[:40]!r} is no name; use {allowed}.", field=field, allowed=allowed)
    return text


def check_concurrency_key(text: str, field: str = "concurrencyKey", code: str = "invalid_field") -> str:
    """Give a concurrency key back. Raises Problem."""
    if CONCURRENCY_KEY_PATTERN.fullmatch(text) is None:
        allowed = "1 to 128 of letters, digits, '.', '_', ':' and '-', first a letter or digit"
        raise Problem(code, f"{field}: {text[:40]!r} is no key; use {allowed}.", field=field, allowed=allowed)
    return text


def payload_too_large(size: int, field: str = "payload") -> Problem:
    """Refuse a payload by size."""
    detail = f"{field}: {size} bytes, at most {PAYLOAD_BYTES_MAX}; store it elsewhere and send its address."
    return Problem("payload_too_large", detail, field=field, limit=PAYLOAD_BYTES_MAX)


def job_id_of_key(tenant: str, idempotency_key: str) -> str:
    """Derive the job id of a create with an Idempotency-Key."""
    return f"k-{_digest('job', tenant, idempotency_key)}"


def trigger_id_of_key(tenant: str, job_id: str, idempotency_key: str) -> str:
    """Derive the trigger id of a trigger with an Idempotency-Key."""
    return f"t-{_digest('trigger', tenant, job_id, idempotency_key)}"


def backfill_id_of_key(tenant: str, job_id: str, idempotency_key: str) -> str:
    """Derive the id of a backfill with an Idempotency-Key."""
    return f"b-{_digest('backfill', tenant, job_id, idempotency_key)}"


def replay_id_of_run(run_id: str) -> str:
    """Derive the id of a replay: a dead run is replayed once, so a repeat finds the run that the first call opened."""
    return f"r-{_digest('replay', run_id)}"


def correlation_id_of_key(tenant: str, action: str, idempotency_key: str) -> str:
    """Derive the correlation id of a bulk change with an Idempotency-Key."""
    return f"c-{_digest('bulk', tenant, action, idempotency_key)[:16]}"


class KeyFields(TypedDict, total=False):
    """A command's members for the call's Idempotency-Key; none without a key."""

    key: str
    body: str
    memo: bytes


def key_fields(key: str | None, body: bytes, *belongs_to: str) -> KeyFields:
    """Give digests of the key, with what it belongs to, and of the body."""
    if key is None:
        return {}
    return {"key": _digest("key", *belongs_to, key), "body": body_hash(body)[:32]}


def bulk_key_fields(key: str | None, body: bytes, *belongs_to: str) -> KeyFields:
    """Give the same for a bulk call, whose pages and dry run are one request: `cursor` and `dryRun` do not count."""
    if key is None:
        return {}
    fields = msgspec.json.decode(body)
    rest = {name: value for name, value in fields.items() if name not in ("cursor", "dryRun")}
    return key_fields(key, msgspec.json.encode(rest), *belongs_to)


def earlier_use(job: Job, keyed: KeyFields) -> KeyUse | None:
    """Give what a job remembers of an earlier try of this very call, whose answer may have been lost.

    Raises Problem where the key was used with another body.
    """
    use = job.key_use(keyed["key"]) if keyed else None
    if use is not None and use.body != keyed["body"]:
        raise key_of_another_body()
    return use


def key_of_another_body() -> Problem:
    """Return the refusal of a key that was used with another body."""
    detail = "Idempotency-Key: was used with another body; send the first body again, or another key."
    return Problem("idempotency_conflict", detail, field="Idempotency-Key")


def standing(body: JobBody) -> Literal["", "active", "paused"]:
    """Give what the body wants the job to be; `paused` null or left out wants nothing."""
    if body.paused is UNSET or body.paused is None:
        return ""
    return "paused" if body.paused else "active"


def body_hash(body: bytes) -> str:
    """Give the same text for bodies that say the same: key order and white space do not count."""
    canonical = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _apply(definition: Definition, body: JobBody) -> Definition:
    """Set every field that the body names; null sets the default."""
    changes: dict[str, Any] = _policies(body)
    if body.payload is not UNSET:
        changes["payload"] = read_payload(body.payload)
        changes["content_type"] = "application/json"
    if body.retry is not UNSET:
        changes["retry"] = Retry() if body.retry is None else _retry(definition.retry, body.retry)
    _apply_seconds(changes, body)
    for name in ("start_at", "end_at"):
        text = getattr(body, name)
        if text is not UNSET:
            changes[f"{name}_ms"] = None if text is None else read_instant(text, _camel(name))
    if body.labels is not UNSET:
        changes["labels"] = _labels(body.labels or {})
    if body.calendars is not UNSET:
        changes["calendars"] = _calendars(body.calendars or [])
    return msgspec.structs.replace(definition, **changes)


def _policies(body: JobBody) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, default in (("catch_up", "latest"), ("lane", "normal"), ("max_runs", 0)):
        value = getattr(body, name)
        if value is not UNSET:
            changes[name] = default if value is None else value
    if body.queue is not UNSET:
        changes["queue"] = check_name(body.queue or QUEUE_DEFAULT, "queue")
    if body.overlap is not UNSET:
        changes["overlap"] = body.overlap or "skip"
    if body.max_runs is not UNSET and body.max_runs is not None and not 1 <= body.max_runs <= MAX_RUNS_MAX:
        detail = f"maxRuns: use a whole number from 1 to {MAX_RUNS_MAX}, or null."
        raise Problem("invalid_field", detail, field="maxRuns", limit=MAX_RUNS_MAX)
    return changes | _concurrency(body)


def _concurrency(body: JobBody) -> dict[str, Any]:
    """A weight of 1 is the default and is kept as such; without a key there is none."""
    changes: dict[str, Any] = {}
    key, weight = body.concurrency_key, body.concurrency_weight
    if key is not UNSET:
        changes["concurrency_key"] = "" if key is None else check_concurrency_key(key)
        if key is None and weight is UNSET:
            changes["concurrency_weight"] = 0
    if weight is not UNSET:
        if weight is not None and not 1 <= weight <= CONCURRENCY_WEIGHT_MAX:
            allowed = f"1 to {CONCURRENCY_WEIGHT_MAX}"
            detail = f"concurrencyWeight: {weight} is out of range; use {allowed}."
            limit = CONCURRENCY_WEIGHT_MAX if weight > 1 else 1
            raise Problem("invalid_field", detail, field="concurrencyWeight", limit=limit, allowed=allowed)
        changes["concurrency_weight"] = 0 if weight in (None, 1) else weight
    return changes


def _apply_seconds(changes: dict[str, Any], body: JobBody) -> None:
    for name, field, least_ms, most_ms in (
        ("timeout_seconds", "timeout_ms", TIMEOUT_MS_MIN, TIMEOUT_MS_MAX),
        ("start_deadline_seconds", "start_deadline_ms", 0, START_DEADLINE_MS_MAX),
        ("jitter_seconds", "jitter_ms", 0, JITTER_MS_MAX),
    ):
        seconds = getattr(body, name)
        if seconds is UNSET:
            continue
        changes[field] = 0 if seconds is None else _seconds(seconds, _camel(name), least_ms, most_ms)
    if "jitter_ms" in changes:
        changes["jitter_kind"] = "occurrence" if changes["jitter_ms"] else "none"


def _seconds(seconds: float, field: str, least_ms: int, most_ms: int) -> int:
    """Give milliseconds. Raises Problem, in the caller's unit: the core would speak of milliseconds."""
    least, most = least_ms // 1000, most_ms // 1000
    if not least <= seconds <= most:
        allowed = f"{least} to {most}"
        detail = f"{field}: {seconds:g} is out of range; use {allowed}."
        limit = least if seconds < least else most
        raise Problem("invalid_field", detail, field=field, limit=limit, allowed=allowed)
    return ms_of_seconds(seconds)


def read_payload(raw: Raw, field: str = "payload") -> bytes:
    """Give the compact bytes of a payload; null is empty. Raises Problem."""
    payload = compact(raw, field)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise payload_too_large(len(payload), field)
    return payload


def read_instant(text: str, field: str) -> int:
    """Read an instant of the body or the query. Raises Problem."""
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Problem("invalid_field", f"{field}: {error}.", field=field, allowed=INSTANT_ALLOWED) from None


def _retry(retry: Retry, body: RetryBody) -> Retry:
    backoff = body.backoff or retry.backoff
    if body.max_seconds not in (None, RETRY_MAX_SECONDS):
        detail = f"retry.maxSeconds: only {RETRY_MAX_SECONDS:g} is possible; leave it out."
        raise Problem("invalid_field", detail, field="retry.maxSeconds", limit=RETRY_MAX_SECONDS)
    delay_ms = retry.delay_ms
    if body.base_seconds is not None:
        delay_ms = _seconds(body.base_seconds, "retry.baseSeconds", 0, RETRY_DELAY_MS_MAX)
    elif backoff == "fixed" and not delay_ms:
        delay_ms = ms_of_seconds(RETRY_BASE_SECONDS_FIXED)
    attempts = retry.max_attempts if body.max_attempts is None else body.max_attempts
    return Retry(max_attempts=attempts, backoff=backoff, delay_ms=delay_ms)


def _labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > LABELS_MAX:
        detail = f"labels: {len(labels)} labels, at most {LABELS_MAX}; remove some."
        raise Problem("invalid_field", detail, field="labels", limit=LABELS_MAX)
    return labels


def _calendars(calendars: list[str | CalendarRef]) -> tuple[str, ...]:
    names = []
    for index, calendar in enumerate(calendars):
        if isinstance(calendar, CalendarRef):
            if calendar.mode == "include":
                field = f"calendars[{index}].mode"
                raise Problem("invalid_field", f"{field}: only exclude is possible.", field=field, allowed=["exclude"])
            names.append(calendar.name)
        else:
            names.append(calendar)
    return tuple(names)


def _time_form(body: JobBody, now_ms: int) -> Schedule | None:
    """Give the one time form of the body, None if there is none."""
    sent = [
        text for form, text in zip(_TIME_FORMS, _FORMS_TEXT, strict=True) if getattr(body, form) not in (UNSET, None)
    ]
    if len(sent) > 1:
        raise _not_one_form(f"{' and '.join(sent)} were sent")
    if body.time_zone not in (UNSET, None) and sent != ["runAtLocal"]:
        detail = "timeZone: belongs beside runAtLocal; a schedule has its own timeZone."
        raise Problem("bad_schedule", detail, field="timeZone")
    if isinstance(body.schedule, ScheduleBody):
        return _schedule(body.schedule)
    if isinstance(body.run_at, str):
        return OneOffSpec(at_ms=read_instant(body.run_at, "runAt"))
    if isinstance(body.run_at_local, str):
        zone = body.time_zone
        if not isinstance(zone, str):
            raise Problem("missing_field", "timeZone: is required beside runAtLocal.", field="timeZone")
        return LocalOneOffSpec(local=body.run_at_local, time_zone=zone)
    if isinstance(body.delay_seconds, int | float):
        return OneOffSpec(at_ms=now_ms + _delay_ms(body.delay_seconds))
    return None


def _delay_ms(seconds: float) -> int:
    if not 0 <= seconds <= DELAY_SECONDS_MAX:
        detail = f"delaySeconds: {seconds} is out of range; use 0 to {DELAY_SECONDS_MAX}."
        raise Problem(
            "invalid_field",
            detail,
            field="delaySeconds",
            limit=DELAY_SECONDS_MAX,
            allowed=f"0 to {DELAY_SECONDS_MAX}",
        )
    return ms_of_seconds(seconds)


def _not_one_form(what: str) -> Problem:
    detail = f"schedule: send exactly one of {', '.join(_FORMS_TEXT)}; {what}."
    return Problem("bad_schedule", detail, field="schedule", allowed=list(_FORMS_TEXT))


_BELONGS: Final[dict[str, frozenset[str]]] = {
    "cron": frozenset({"time_zone", "gap", "overlap_hour"}),
    "every": frozenset({"anchor"}),
    "every_calendar": frozenset({"gap", "overlap_hour"}),
    "rrule": frozenset({"dt_start", "time_zone", "gap", "overlap_hour"}),
}
"""Form of `schedule`: the fields that may stand beside it."""


def _schedule(body: ScheduleBody) -> Schedule:
    forms = [form for form in _BELONGS if getattr(body, form) is not None]
    if len(forms) != 1:
        names = [_camel(form) for form in _BELONGS]
        detail = f"schedule: must have exactly one of {', '.join(names)}."
        raise Problem("bad_schedule", detail, field="schedule", allowed=names)
    form = forms[0]
    for name in ("time_zone", "gap", "overlap_hour", "anchor", "dt_start"):
        if getattr(body, name) is not None and name not in _BELONGS[form]:
            field = f"schedule.{_camel(name)}"
            raise Problem("bad_schedule", f"{field}: has no meaning beside {_camel(form)}; remove it.", field=field)
    gap, overlap_hour = body.gap or "shift", body.overlap_hour or "first"
    zone = body.time_zone or "UTC"
    if body.cron is not None:
        return CronSpec(expression=body.cron, time_zone=zone, gap=gap, overlap_hour=overlap_hour)
    if body.every is not None:
        anchor_ms = 0 if body.anchor is None else read_instant(body.anchor, "schedule.anchor")
        return IntervalSpec(every_ms=_every_ms(body.every), anchor_ms=anchor_ms)
    if body.rrule is not None:
        if body.dt_start is None:
            raise Problem("missing_field", "schedule.dtStart: is required beside rrule.", field="schedule.dtStart")
        return RRuleSpec(
            rule=body.rrule, dtstart_local=body.dt_start, time_zone=zone, gap=gap, overlap_hour=overlap_hour
        )
    return _calendar_interval(body)


def _calendar_interval(body: ScheduleBody) -> CalendarIntervalSpec:
    calendar = body.every_calendar
    if calendar is None:
        raise AssertionError(body)
    return CalendarIntervalSpec(
        unit="month" if calendar.unit == "year" else calendar.unit,
        every=calendar.every * (MONTHS_PER_YEAR if calendar.unit == "year" else 1),
        local_time=calendar.at,
        anchor_date=calendar.start_date,
        time_zone=calendar.time_zone,
        gap=body.gap or "shift",
        overlap_hour=body.overlap_hour or "first",
    )


def _every_ms(every: int | str) -> int:
    try:
        every_ms = parse_length_ms(every)
    except ValueError as error:
        raise Problem("bad_schedule", f"schedule.every: {error}.", field="schedule.every") from None
    if not EVERY_MS_MIN <= every_ms <= EVERY_MS_MAX:
        detail = f"schedule.every: {every_ms} ms is out of range; use 1 s to 366 d."
        raise Problem("bad_schedule", detail, field="schedule.every", allowed="1 s to 366 d")
    return every_ms


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def definition_view(definition: Definition, *, with_payload: bool) -> dict[str, Any]:
    """Write a definition's fields as docs/http-api.md names them, defaults filled in."""
    view: dict[str, Any] = {
        "jobId": definition.job_id,
        "tenant": definition.tenant,
        "name": definition.name,
        "queue": definition.queue,
        "task": definition.task,
        **schedule_view(definition.schedule),
        "retry": {
            "maxAttempts": definition.retry.max_attempts,
            "backoff": definition.retry.backoff,
            "baseSeconds": definition.retry.delay_ms / 1000,
            "maxSeconds": RETRY_MAX_SECONDS,
        },
        "catchUp": definition.catch_up,
        "overlap": definition.overlap,
        "timeoutSeconds": definition.timeout_ms / 1000 if definition.timeout_ms else None,
        "startDeadlineSeconds": definition.start_deadline_ms / 1000 if definition.start_deadline_ms else None,
        "lane": definition.lane,
        "labels": definition.labels,
        "startAt": None if definition.start_at_ms is None else instant_text(definition.start_at_ms),
        "endAt": None if definition.end_at_ms is None else instant_text(definition.end_at_ms),
        "maxRuns": definition.max_runs or None,
        "jitterSeconds": definition.jitter_ms / 1000,
        "calendars": list(definition.calendars),
        "concurrencyKey": definition.concurrency_key or None,
        "concurrencyWeight": definition.concurrency_weight or 1,
    }
    if with_payload:
        view |= payload_view(definition.payload, definition.content_type)
    return view


def payload_view(payload: bytes, content_type: str) -> dict[str, Any]:
    """Give `payload` as JSON, or `payloadBase64` where it is none."""
    if not payload:
        return {"payload": None}
    if content_type == "application/json" and is_json(payload):
        return {"payload": Raw(payload)}
    return {"payloadBase64": base64.b64encode(payload).decode()}


def is_json(payload: bytes) -> bool:
    """Tell whether bytes are one JSON text in UTF-8: a Kafka producer may have written anything."""
    try:
        payload.decode()
        _ANY_JSON.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


_ANY_JSON: Final = msgspec.json.Decoder(Raw)


def schedule_view(schedule: Schedule) -> dict[str, Any]:
    """Give the one time form."""
    match schedule:
        case OneOffSpec():
            return {"runAt": instant_text(schedule.at_ms)}
        case LocalOneOffSpec():
            return {"runAtLocal": schedule.local, "timeZone": schedule.time_zone}
        case CronSpec():
            form: dict[str, Any] = {"cron": schedule.expression, "timeZone": schedule.time_zone}
        case IntervalSpec():
            return {"schedule": {"every": schedule.every_ms, "anchor": instant_text(schedule.anchor_ms)}}
        case CalendarIntervalSpec():
            form = {
                "everyCalendar": {
                    "unit": schedule.unit,
                    "every": schedule.every,
                    "at": schedule.local_time,
                    "startDate": schedule.anchor_date,
                    "timeZone": schedule.time_zone,
                }
            }
        case RRuleSpec():
            form = {"rrule": schedule.rule, "dtStart": schedule.dtstart_local, "timeZone": schedule.time_zone}
    return {"schedule": form | {"gap": schedule.gap, "overlapHour": schedule.overlap_hour}}
