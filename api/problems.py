"""Errors as problem+json (RFC 9457): one table from code to status, and one from the owner's answers to codes.

`code` is the contract (docs/http-api.md, section 1); each `detail` names the field and says what to do.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from api.dispatch.calls import RETRY_AFTER_S, Failure

if TYPE_CHECKING:
    from streams.core.commands import Reply, ReplyCode

TYPE_PREFIX: Final = "https://horolog.invalid/problems/"

STATUS: Final = MappingProxyType(
    {
        "bad_json": (400, "The body is not a JSON object"),
        "bad_request": (400, "The request is not HTTP"),
        "bad_header": (400, "A header or query parameter cannot be read"),
        "bad_path": (400, "A name in the path is not a name"),
        "unauthorized": (401, "A known service token is needed"),
        "forbidden": (403, "This belongs to another tenant"),
        "job_not_found": (404, "There is no such job"),
        "run_not_found": (404, "There is no such run"),
        "unknown_queue": (404, "There is no such queue"),
        "unknown_calendar": (404, "There is no such calendar"),
        "unknown_tenant": (404, "There is no such tenant"),
        "unknown_backfill": (404, "There is no such backfill"),
        "unknown_route": (404, "There is no such route"),
        "method_not_allowed": (405, "The route has no such method"),
        "body_timeout": (408, "The body did not come in time"),
        "idempotency_conflict": (409, "The key was used with another body"),
        "calendar_in_use": (409, "Jobs name the calendar"),
        "job_exists": (409, "The job exists with another definition"),
        "lease_lost": (409, "The lease is not held under this token"),
        "run_closed": (409, "The run has ended"),
        "slot_decided": (409, "The occurrence was decided already"),
        "job_paused": (409, "The job is paused"),
        "job_finished": (409, "The job has finished"),
        "overlap": (409, "Another run of the job is open"),
        "not_paused": (409, "The job is not paused"),
        "version_mismatch": (412, "The version is another one"),
        "payload_too_large": (413, "The payload is too large"),
        "result_too_large": (413, "The result is too large"),
        "body_too_large": (413, "The body is too large"),
        "bad_content_type": (415, "The body must be JSON"),
        "missing_field": (422, "A field is missing"),
        "unknown_field": (422, "A field is not known"),
        "invalid_field": (422, "A field has a value that is not allowed"),
        "bad_cron": (422, "The cron expression cannot be read"),
        "bad_schedule": (422, "The schedule cannot be read"),
        "bad_time_zone": (422, "The time zone is not known"),
        "never_fires": (422, "The schedule fires at no instant"),
        "too_many_backfills": (429, "Too many backfills of the job are going"),
        "pending_cap": (429, "Too much is pending"),
        "rate_limited": (429, "Too many calls"),
        "too_many_open_runs": (429, "Too many runs of the job are open"),
        "too_many_replays": (409, "The work was replayed too often"),
        "internal": (500, "A defect of the server"),
        "no_owner": (503, "No scheduler owns the partition"),
        "starting": (503, "The gateway is starting"),
        "stopping": (503, "The gateway is stopping"),
        "overloaded": (503, "Too much is asked at once"),
        "not_caught_up": (503, "A change is not shown yet"),
        "outcome_unknown": (504, "The answer did not come in time"),
    }
)
"""code: (status, title)."""

CODE_OF_REPLY: Final[MappingProxyType[ReplyCode, str]] = MappingProxyType(
    {
        "invalid": "invalid_field",
        "not_found": "job_not_found",
        "version_conflict": "version_mismatch",
        "idempotency_conflict": "idempotency_conflict",
        "wrong_tenant": "forbidden",
        "lease_lost": "lease_lost",
        "not_due": "invalid_field",
        "not_leasable": "lease_lost",
        "stale_offer": "lease_lost",
        "paused": "job_paused",
        "blocked": "overlap",
        "too_many_open_runs": "too_many_open_runs",
        "too_many_replays": "too_many_replays",
        "gone": "job_finished",
        "quota": "pending_cap",
        "quarantined": "internal",
        "behind": "not_caught_up",
    }
)
"""Every refusal of an owner; `ok`, `created` and `granted` are none."""

_ADVICE: Final = MappingProxyType(
    {
        "version_mismatch": ("If-Match", "read it again"),
        "forbidden": ("jobId", "use its own token"),
        "job_not_found": ("jobId", "look at its spelling"),
    }
)
"""Of refusals in which the owner names no field: the field, and what to do."""

OUTCOME: Final = MappingProxyType({"succeeded": "ran", "skipped": "skipped", "cancelled": "cancelled", "dead": "dead"})
"""The core's outcomes in the words of the API."""


class Problem(Exception):  # noqa: N818 - the RFC's word for it
    """An answer of 400 and above. `members` are extra members of the body, `headers` of the answer."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        allowed: Any = None,
        limit: float | None = None,
        members: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status, self.title = STATUS[code]
        self.detail = detail
        self.field = field
        self.allowed = allowed
        self.limit = limit
        self.members = members or {}
        self.headers = headers or {}
        if self.status in (429, 503):
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S))

    def body(self, request_id: str) -> bytes:
        """Give the problem+json body."""
        fields = {
            "type": TYPE_PREFIX + self.code,
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "field": self.field,
            "allowed": self.allowed,
            "limit": self.limit,
            "detail": self.detail,
            "requestId": request_id,
            **self.members,
        }
        try:
            return msgspec.json.encode(fields)
        except UnicodeEncodeError:
            # Text of the request stands in it that is no Unicode: shown escaped.
            return json.dumps(fields, default=str).encode()

    def item(self, run_id: str) -> dict[str, Any]:
        """Give the result of one item of a batch form."""
        item: dict[str, Any] = {
            "runId": run_id,
            "ok": False,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.field is not None:
            item["field"] = self.field
        if self.limit is not None:
            item["limit"] = self.limit
        if self.status in (429, 503):
            item["retryAfterSeconds"] = int(self.headers["Retry-After"])
        return item | self.members


def problem_of(result: Reply | Failure) -> Problem:
    """Give the problem that an owner's refusal, or the lack of an answer, is."""
    if isinstance(result, Failure):
        return Problem(result.code, result.detail)
    code = CODE_OF_REPLY.get(result.code, "internal")
    members: dict[str, Any] = {}
    if code == "version_mismatch":
        members["version"] = result.version
    detail = result.detail or f"The owner answered {result.code}."
    field = result.field or None
    if field is None and code in _ADVICE:
        field, advice = _ADVICE[code]
        detail = f"{field}: {detail}" if ";" in detail else f"{field}: {detail}; {advice}."
    if code == "internal":
        detail = "The job is set aside after a defect; its owner's log has the reason."
    return Problem(code, detail, field=field, members=members)


def lease_lost(reply: Reply, lease_token: int, field: str = "leaseToken") -> Problem:
    """Say who holds the run, or how it ended."""
    outcome = OUTCOME.get(reply.outcome)
    if outcome is not None:
        detail = f"{field}: the run has ended ({outcome}); {lease_token} holds nothing. Stop working on this run."
    elif reply.attempt:
        detail = (
            f"{field}: {lease_token} is not the current token of this run; its attempt is {reply.attempt}. "
            "Stop working on this run."
        )
    else:
        detail = (
            f"{field}: {lease_token} holds no lease of this run, or the run is not known any more. Stop working on it."
        )
    members = {
        "runState": "closed" if outcome else None,
        "currentAttempt": reply.attempt or None,
        "outcome": outcome,
    }
    return Problem("lease_lost", detail, field=field, members=members)
