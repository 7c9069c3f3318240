"""Request bodies as strict structs, and their errors as problems that name the field.

`decode` takes the bytes of a body; unknown fields, wrong types and missing fields are told with their path
in the words of docs/http-api.md. Values are checked where they are used (definitions.py, routes).
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
import msgspec.inspect
from msgspec import UNSET, Raw, UnsetType

from api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

B = TypeVar("B")

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "lane": ("high", "normal", "low"),
    "catchUp": ("latest", "all", "none"),
    "overlap": ("allow", "skip", "queue", "replace"),
    "backoff": ("exponential", "fixed", "none"),
    "gap": ("shift", "skip"),
    "overlapHour": ("first", "second", "both"),
    "unit": ("day", "week", "month", "year"),
    "mode": ("exclude", "include"),
}


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of all bodies."""


class CalendarIntervalBody(Body, frozen=True, kw_only=True):
    """`everyCalendar`."""

    unit: Literal["day", "week", "month", "year"]
    start_date: str
    at: str
    every: int = 1
    time_zone: str = "UTC"


class ScheduleBody(Body, frozen=True, kw_only=True):
    """`schedule`: exactly one of `cron`, `every`, `everyCalendar`, `rrule`, and what belongs to it."""

    cron: str | None = None
    every: int | str | None = None
    every_calendar: CalendarIntervalBody | None = None
    rrule: str | None = None
    time_zone: str | None = None
    gap: Literal["shift", "skip"] | None = None
    overlap_hour: Literal["first", "second", "both"] | None = None
    anchor: str | None = None
    dt_start: str | None = None


class RetryBody(Body, frozen=True, kw_only=True):
    """`retry`; what is left out keeps its value (PATCH) or default."""

    max_attempts: int | None = None
    backoff: Literal["exponential", "fixed", "none"] | None = None
    base_seconds: float | None = None
    max_seconds: float | None = None


class CalendarRef(Body, frozen=True, kw_only=True):
    """One of `calendars`."""

    name: str
    mode: Literal["exclude", "include"] = "exclude"


class JobBody(Body, frozen=True, kw_only=True):
    """A definition: of POST, PUT and PATCH, and the schedule part of a preview. Null means the default."""

    job_id: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    task: str | UnsetType | None = UNSET
    schedule: ScheduleBody | UnsetType | None = UNSET
    run_at: str | UnsetType | None = UNSET
    run_at_local: str | UnsetType | None = UNSET
    time_zone: str | UnsetType | None = UNSET
    delay_seconds: float | UnsetType | None = UNSET
    payload: Raw | UnsetType = UNSET
    retry: RetryBody | UnsetType | None = UNSET
    catch_up: Literal["latest", "all", "none"] | UnsetType | None = UNSET
    overlap: Literal["allow", "skip", "queue", "replace"] | UnsetType | None = UNSET
    timeout_seconds: float | UnsetType | None = UNSET
    start_deadline_seconds: float | UnsetType | None = UNSET
    lane: Literal["high", "normal", "low"] | UnsetType | None = UNSET
    labels: dict[str, str] | UnsetType | None = UNSET
    start_at: str | UnsetType | None = UNSET
    end_at: str | UnsetType | None = UNSET
    max_runs: int | UnsetType | None = UNSET
    jitter_seconds: float | UnsetType | None = UNSET
    calendars: list[str | CalendarRef] | UnsetType | None = UNSET
    concurrency_key: str | UnsetType | None = UNSET
    concurrency_weight: int | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET


class PreviewBody(JobBody, frozen=True, kw_only=True):
    """`POST /v1/preview`."""

    from_: str | None = msgspec.field(name="from", default=None)
    count: int = 10


class PauseBody(Body, frozen=True, kw_only=True):
    """Pause."""

    note: str = ""
    actor: str = ""
    until: str | None = None


class ResumeBody(Body, frozen=True, kw_only=True):
    """Resume."""

    note: str = ""
    actor: str = ""


class TriggerBody(Body, frozen=True, kw_only=True):
    """Trigger."""

    payload: Raw | UnsetType = UNSET
    note: str = ""
    force: bool = False


class SkipBody(Body, frozen=True, kw_only=True):
    """Skip one occurrence."""

    at: str


class BackfillBody(Body, frozen=True, kw_only=True):
    """Backfill of `[from, to)`."""

    from_: str = msgspec.field(name="from")
    to: str
    max_concurrent: int = 1
    rate_per_second: float | None = None
    dry_run: bool = False


class NoBody(Body, frozen=True, kw_only=True):
    """Nothing to say."""


class BulkFilterBody(Body, frozen=True, kw_only=True):
    """Which jobs; all that is given must match."""

    queue: str = ""
    labels: dict[str, str] = {}
    text: str = ""
    name_prefix: str = ""
    job_ids: list[str] = []


class BulkBody(Body, frozen=True, kw_only=True):
    """Bulk pause, resume or delete."""

    filter: BulkFilterBody
    dry_run: bool = True
    note: str = ""
    actor: str = ""
    until: str | None = None
    limit: int = 1_000
    cursor: str | None = None


class UndoBody(Body, frozen=True, kw_only=True):
    """Take a bulk change back."""

    undo_token: str


class ReplayBody(Body, frozen=True, kw_only=True):
    """Replay of one dead run."""

    note: str = ""


class BulkReplayBody(Body, frozen=True, kw_only=True):
    """Replay of dead runs by filter."""

    queue: str = ""
    job_id: str = ""
    labels: dict[str, str] = {}
    text: str = ""
    dead_from: str | None = None
    dead_until: str | None = None
    dry_run: bool = True
    rate_per_second: float = 100
    limit: int = 100
    cursor: str | None = None


class TenantBody(Body, frozen=True, kw_only=True):
    """`PUT /v1/tenants/{tenant}`."""

    pending_cap: int | None = None
    max_lease_rate_per_second: float | None = None
    weight: float | None = None


class CancelBody(Body, frozen=True, kw_only=True):
    """Cancel of a run."""

    note: str = ""


class LeaseBody(Body, frozen=True, kw_only=True):
    """Lease."""

    worker_id: str
    max: int = 1
    visibility_seconds: float | None = None
    wait_seconds: float | None = None
    request_id: str | None = None


class HeartbeatBody(Body, frozen=True, kw_only=True):
    """One heartbeat. `run_id` only in the batch form."""

    lease_token: int
    run_id: str = ""
    visibility_seconds: float | None = None
    progress: Raw | UnsetType = UNSET


class CompleteBody(Body, frozen=True, kw_only=True):
    """One completion."""

    lease_token: int
    run_id: str = ""
    result: Raw | UnsetType = UNSET


class FailBody(Body, frozen=True, kw_only=True):
    """One failure."""

    lease_token: int
    error: str
    run_id: str = ""
    error_type: str | None = None
    retryable: bool = True


class ReleaseBody(Body, frozen=True, kw_only=True):
    """One run handed back."""

    lease_token: int
    run_id: str = ""
    reason: str | None = None


class BatchBody(Body, frozen=True, kw_only=True):
    """The envelope of all batch forms; items are decoded one by one only if one of them is wrong."""

    runs: list[Raw]
    worker_id: str | None = None
    visibility_seconds: float | None = None


class QueueBody(Body, frozen=True, kw_only=True):
    """`PUT /v1/queues/{queue}`."""

    max_running: int | None = None
    max_lease_rate_per_second: float | None = None
    description: str = ""


class ConcurrencyKeyBody(Body, frozen=True, kw_only=True):
    """`PUT /v1/concurrency-keys/{key}`."""

    max_running: int | None = None
    description: str = ""


class CalendarBody(Body, frozen=True, kw_only=True):
    """`PUT /v1/calendars/{calendar}`: the whole calendar."""

    time_zone: str = "UTC"
    dates: list[str] = []
    rules: list[str] = []
    description: str = ""


_AT: Final = re.compile(r" - at `(?:key in )?(\$[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]+)`")
_TYPES: Final = re.compile(r"Expected (.+?), got (.+)")
_WORDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
}
"""Types as a writer of JSON knows them; msgspec names Python's."""
_INVALID: Final = re.compile(r"Invalid enum value (.*?)(?: - at|$)")


def decoder(body_type: type[B]) -> msgspec.json.Decoder[B]:
    """Give a strict decoder to use with `decode`."""
    return msgspec.json.Decoder(body_type, strict=True)


def decode(json_decoder: msgspec.json.Decoder[B], data: bytes, prefix: str = "") -> B:
    """Read a body. Raises Problem `bad_json`, `missing_field`, `unknown_field` or `invalid_field`.

    `prefix` is put before the field's path, for items of a batch.
    """
    try:
        return json_decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _wrong_shape(str(error), prefix, json_decoder.type) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("bad_json", f"The body is not JSON: {error}{_place(data, str(error))}.") from None
    except RecursionError:
        raise Problem("bad_json", "The body is nested too deeply; flatten it.") from None


def compact(raw: Raw, field: str) -> bytes:
    """Give the compact JSON text of a value that came as it was; null is empty. Raises Problem."""
    data = bytes(raw)
    try:
        text = msgspec.json.format(data, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("bad_json", f"{field}: {error}") from None
    return b"" if text == b"null" else text


def _place(data: bytes, message: str) -> str:
    match = re.search(r"\(byte (\d+)\)", message)
    at = min(int(match[1]), len(data)) if match else len(data)
    line = data.count(b"\n", 0, at) + 1
    column = at - (data.rfind(b"\n", 0, at) + 1) + 1
    return f" (line {line}, column {column})"


def _wrong_shape(message: str, prefix: str, body_type: Any) -> Problem:
    at = _AT.search(message)
    path = at[1].removeprefix("$").lstrip(".") if at else ""
    if (missing := _MISSING.search(message)) is not None:
        field = _join(prefix, path, missing[1])
        return Problem("missing_field", f"{field}: is required; send it.", field=field)
    if (unknown := _UNKNOWN.search(message)) is not None:
        field = _join(prefix, path, unknown[1])
        known = _names_at(body_type, path)
        near = difflib.get_close_matches(unknown[1], known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}."
        return Problem("unknown_field", f"{field}: is not a known field; {advice}", field=field, allowed=known)
    field = _join(prefix, path, "")
    if not field:
        return Problem("bad_json", f"The body must be a JSON object. {message}.")
    allowed = CHOICES.get(re.split(r"[.\]]", field)[-1])
    if (invalid := _INVALID.search(message)) is not None and allowed:
        detail = f"{field}: {invalid[1]} is not one of {', '.join(allowed)}; use one of them."
        return Problem("invalid_field", detail, field=field, allowed=list(allowed))
    reason = message.split(" - at ", maxsplit=1)[0].replace("`", "")
    if (types := _TYPES.fullmatch(reason)) is not None:
        wanted, got = _in_words(types[1]), _in_words(types[2])
        return Problem("invalid_field", f"{field}: is {got}; send {wanted}.", field=field, allowed=wanted)
    return Problem("invalid_field", f"{field}: {reason}; send the right type.", field=field)


def _names_at(body_type: Any, path: str) -> list[str]:
    """Give the names of the fields of the object at a path of a body."""
    info: Any = msgspec.inspect.type_info(body_type)
    for step in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        options = _objects(info)
        if step.startswith("["):
            info = next((one.item_type for one in options if isinstance(one, msgspec.inspect.ListType)), None)
        else:
            fields = {field.encode_name: field.type for one in options for field in getattr(one, "fields", ())}
            info = fields.get(step)
    return [field.encode_name for one in _objects(info) for field in getattr(one, "fields", ())]


def _objects(info: Any) -> Sequence[Any]:
    return info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in types.split(" | "))


def _join(*parts: str) -> str:
    joined = ""
    for part in parts:
        if part:
            joined += part if part.startswith("[") or not joined else f".{part}"
    return joined
