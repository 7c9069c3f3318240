"""Checks of a definition before it is accepted: each refusal names the field, the bound and what to do.

`validate_definition` is for whoever accepts definitions: the gateway, the owner (from Kafka), a command line. `decide`
repeats only `validate_references`, which needs the configuration of the moment. Pure; raises `InvalidDefinition` for
the first field at fault, returns warnings for what is legal but surprising.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from streams.core.definition import (
    CONCURRENCY_KEY_PATTERN,
    CONCURRENCY_WEIGHT_MAX,
    JOB_ID_PATTERN,
    LABELS_MAX,
    NAME_PATTERN,
    PAYLOAD_BYTES_MAX,
)
from streams.core.state import OPEN_RUNS_MAX
from streams.core.time import InvalidSchedule, Jitter, OneOffSpec, Window, validate_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.core.definition import Definition, Retry
    from streams.core.time import CalendarSpec, ZoneData

NAME_CHARS_MAX: Final = 128
"""Names are for people; queues, tenants and tasks are in NAME_PATTERN or as long (docs/http-api.md)."""

ATTEMPTS_MAX: Final = 100
"""docs/http-api.md; with the ceiling of the backoff, 100 attempts are most of a day."""

RETRY_DELAY_MS_MAX: Final = 86_400_000
TIMEOUT_MS_MIN: Final = 1_000
TIMEOUT_MS_MAX: Final = 604_800_000
START_DEADLINE_MS_MAX: Final = 31_536_000_000
JITTER_MS_MAX: Final = 86_400_000
"""docs/http-api.md: a day, a week, a year, a day."""

LABEL_KEY_CHARS_MAX: Final = 64
LABEL_VALUE_CHARS_MAX: Final = 256
CALENDARS_MAX: Final = 8
CONTENT_TYPE_CHARS_MAX: Final = 128
MAX_RUNS_MAX: Final = 2**31

INSTANT_MS_MIN: Final = 0
INSTANT_MS_MAX: Final = 253_402_300_799_999
"""1970 to the end of 9999: what a run id can name."""

_NO_CALENDARS: Mapping[str, CalendarSpec] = MappingProxyType({})


class InvalidDefinition(ValueError):  # noqa: N818 - named in the contract, read as a sentence by callers
    """A definition that is refused."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


def validate_definition(
    definition: Definition,
    *,
    now_ms: int,
    zone_data: ZoneData,
    calendars: Mapping[str, CalendarSpec] = _NO_CALENDARS,
) -> list[str]:
    """Return warnings, as sentences. Raises InvalidDefinition(field, reason) for what is refused."""
    _check_names(definition)
    _check_content(definition)
    _check_retry(definition.retry)
    _check_policies(definition)
    _check_window(definition)
    validate_references(definition, job_id=definition.job_id, calendars=calendars)
    warnings = _schedule_warnings(definition, now_ms, zone_data, calendars)
    if definition.overlap == "allow" and definition.concurrent_runs_max == 1:
        warnings.append("overlap 'allow' with concurrent_runs_max 1 behaves like 'skip'; 0 means no bound of its own")
    if definition.catch_up == "all" and definition.overlap == "replace":
        warnings.append("catch_up 'all' runs missed occurrences one after the other; 'replace' applies to the others")
    return warnings


def validate_references(definition: Definition, *, job_id: str, calendars: Mapping[str, CalendarSpec]) -> None:
    """Check what only the moment knows: that the record belongs to this job, and that its calendars exist."""
    if definition.job_id != job_id:
        raise InvalidDefinition("job_id", f"the definition names {definition.job_id!r}, its key {job_id!r}")
    for name in definition.calendars:
        if name not in calendars:
            known = ", ".join(sorted(calendars)[:10]) or "none"
            raise InvalidDefinition("calendars", f"there is no calendar {name!r}; known are: {known}")


def _check_names(definition: Definition) -> None:
    if JOB_ID_PATTERN.fullmatch(definition.job_id) is None:
        raise InvalidDefinition("job_id", "1 to 128 of letters, digits, '.', '_', ':' and '-', first a letter or digit")
    for field in ("tenant", "queue"):
        if NAME_PATTERN.fullmatch(getattr(definition, field)) is None:
            raise InvalidDefinition(field, "1 to 100 of letters, digits, '.', '_' and '-', first a letter or digit")
    for field in ("name", "task"):
        text: str = getattr(definition, field)
        if not 1 <= len(text) <= NAME_CHARS_MAX or not text.isprintable():
            raise InvalidDefinition(field, f"1 to {NAME_CHARS_MAX} printable characters")


def _check_content(definition: Definition) -> None:
    if len(definition.payload) > PAYLOAD_BYTES_MAX:
        raise InvalidDefinition(
            "payload",
            f"{len(definition.payload)} bytes, at most {PAYLOAD_BYTES_MAX}; store it elsewhere and send its address",
        )
    if len(definition.content_type) > CONTENT_TYPE_CHARS_MAX:
        raise InvalidDefinition("content_type", f"at most {CONTENT_TYPE_CHARS_MAX} characters")
    if len(definition.labels) > LABELS_MAX:
        raise InvalidDefinition("labels", f"{len(definition.labels)} labels, at most {LABELS_MAX}")
    for key, value in definition.labels.items():
        if not 1 <= len(key) <= LABEL_KEY_CHARS_MAX or len(value) > LABEL_VALUE_CHARS_MAX:
            bound = f"key 1 to {LABEL_KEY_CHARS_MAX}, value at most {LABEL_VALUE_CHARS_MAX} characters"
            raise InvalidDefinition("labels", f"label {key[:LABEL_KEY_CHARS_MAX]!r}: {bound}")


def _check_retry(retry: Retry) -> None:
    _check_range("retry.max_attempts", retry.max_attempts, 1, ATTEMPTS_MAX)
    _check_range("retry.delay_ms", retry.delay_ms, 0, RETRY_DELAY_MS_MAX)
    _check_choice("retry.backoff", retry.backoff, ("exponential", "fixed", "none"))


def _check_policies(definition: Definition) -> None:
    _check_choice("catch_up", definition.catch_up, ("latest", "all", "none"))
    _check_choice("overlap", definition.overlap, ("allow", "skip", "queue", "replace"))
    _check_choice("lane", definition.lane, ("high", "normal", "low"))
    _check_choice("jitter_kind", definition.jitter_kind, ("none", "job", "occurrence"))
    _check_range("concurrent_runs_max", definition.concurrent_runs_max, 0, OPEN_RUNS_MAX)
    if definition.timeout_ms:
        _check_range("timeout_ms", definition.timeout_ms, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX)
    _check_range("start_deadline_ms", definition.start_deadline_ms, 0, START_DEADLINE_MS_MAX)
    _check_range("jitter_ms", definition.jitter_ms, 0, JITTER_MS_MAX)
    if definition.jitter_kind == "none" and definition.jitter_ms:
        raise InvalidDefinition("jitter_ms", "has no effect under jitter_kind 'none'; use 'job' or 'occurrence'")
    if definition.jitter_kind != "none" and not definition.jitter_ms:
        raise InvalidDefinition("jitter_ms", f"1 to {JITTER_MS_MAX} under jitter_kind {definition.jitter_kind!r}")
    _check_range("max_runs", definition.max_runs, 0, MAX_RUNS_MAX)
    _check_concurrency(definition)
    if len(definition.calendars) > CALENDARS_MAX:
        raise InvalidDefinition("calendars", f"{len(definition.calendars)} calendars, at most {CALENDARS_MAX}")
    if len(set(definition.calendars)) != len(definition.calendars):
        raise InvalidDefinition("calendars", "names a calendar twice")


def _check_concurrency(definition: Definition) -> None:
    key = definition.concurrency_key
    if key and not CONCURRENCY_KEY_PATTERN.fullmatch(key):
        allowed = "1 to 128 of letters, digits, '.', '_', ':' and '-', first a letter or digit"
        raise InvalidDefinition("concurrency_key", allowed)
    _check_range("concurrency_weight", definition.concurrency_weight, 0, CONCURRENCY_WEIGHT_MAX)
    if definition.concurrency_weight and not key:
        raise InvalidDefinition("concurrency_weight", "has no effect without a concurrency_key")


def _check_window(definition: Definition) -> None:
    for field in ("start_at_ms", "end_at_ms"):
        instant: int | None = getattr(definition, field)
        if instant is not None:
            _check_range(field, instant, INSTANT_MS_MIN, INSTANT_MS_MAX)
    start, end = definition.start_at_ms, definition.end_at_ms
    if start is not None and end is not None and end < start:
        raise InvalidDefinition("end_at_ms", f"{end} lies before start_at_ms {start}; swap or drop one of them")
    if isinstance(definition.schedule, OneOffSpec):
        _check_range("schedule.at_ms", definition.schedule.at_ms, INSTANT_MS_MIN, INSTANT_MS_MAX)


def _schedule_warnings(
    definition: Definition, now_ms: int, zone_data: ZoneData, calendars: Mapping[str, CalendarSpec]
) -> list[str]:
    try:
        found = validate_spec(
            definition.schedule,
            job_id=definition.job_id,
            after_ms=now_ms - 1,
            window=Window(definition.start_at_ms, definition.end_at_ms),
            jitter=Jitter(definition.jitter_kind, definition.jitter_ms),
            calendars=tuple(calendars[name] for name in definition.calendars),
            zone_data=zone_data,
        )
    except InvalidSchedule as error:
        raise InvalidDefinition(_field_of(error.field), f"{error.text!r}: {error.reason}; {error.fix}") from error
    return [warning.message for warning in found]


def _field_of(field: str) -> str:
    """Name a schedule's field as the definition does."""
    named = {"endAt": "end_at_ms", "calendars": "calendars", "window": "start_at_ms", "schedule": "schedule"}
    if "jitter" in field.lower():
        return "jitter_ms"
    return named.get(field, f"schedule.{field}")


def _check_range(field: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise InvalidDefinition(field, f"{value} is out of range; allowed are {minimum} to {maximum}")


def _check_choice(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidDefinition(field, f"{value!r} is not one of {', '.join(allowed)}")
