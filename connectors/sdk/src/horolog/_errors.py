"""What can go wrong, as few named exceptions; each says what the caller may do.

Three families. `ApiError` and its subclasses are answers of the gateway (docs/http-api.md, section 1);
`UnreachableError` means that no answer came. `PermanentFailure` is raised by handlers. `RunStopped` and its
subclasses are reasons for stopping a handler: they derive from `asyncio.CancelledError`, so an `except
Exception` in a handler does not swallow them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class HorologError(Exception):
    """Base of the errors that the client raises."""


class UnreachableError(HorologError):
    """No answer: connection refused or broken, or a time-out. It is not known whether the call took effect."""


class ApiError(HorologError):
    """A problem+json answer.

    `status` is the HTTP status, `code` the stable code, `detail` what to do about it, `field` the dotted path of
    the field at fault (or None), `extra` all other members of the problem, `retry_after_seconds` the server's
    wish (or None).
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        field: str | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.extra: Mapping[str, Any] = extra or {}
        self.retry_after_seconds = retry_after_seconds


class InvalidRequestError(ApiError):
    """400, 405, 413, 415, 422: the request itself is wrong; `field` names where."""


class UnauthorizedError(ApiError):
    """401: no token, or one that is not known."""


class ForbiddenError(ApiError):
    """403: the token's tenant may not do this."""


class NotFoundError(ApiError):
    """404: no such job, run, queue, tenant or route; `code` says which."""


class ConflictError(ApiError):
    """409: the state forbids it; `code` says why."""


class StaleLeaseError(ConflictError):
    """409 `lease_lost`: the token is not the current one. Stop working on that run."""


class VersionMismatchError(ApiError):
    """412: somebody else edited it first; `extra["version"]` is the present version."""


class RateLimitedError(ApiError):
    """429: over a limit; wait `retry_after_seconds`."""


class UnavailableError(ApiError):
    """408, 500, 503, 504: the gateway cannot answer now; the call may be repeated."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidRequestError,
    405: InvalidRequestError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: VersionMismatchError,
    408: UnavailableError,
    429: RateLimitedError,
}


def error_from_problem(
    status: int, problem: Mapping[str, Any], *, retry_after_seconds: float | None = None
) -> ApiError:
    """Turn a problem+json object (or what a proxy sent in its place) into the matching `ApiError`."""
    code = str(problem.get("code") or f"http_{status}")
    detail = str(problem.get("detail") or problem.get("title") or "no detail given")
    field = problem.get("field")
    kind = UnavailableError if status >= 500 else _BY_STATUS.get(status, ApiError)
    if code == "lease_lost":
        kind = StaleLeaseError
    known = {"type", "title", "status", "code", "detail", "field"}
    return kind(
        status,
        code,
        detail,
        None if field is None else str(field),
        extra={key: value for key, value in problem.items() if key not in known},
        retry_after_seconds=retry_after_seconds,
    )


class PermanentFailure(Exception):  # noqa: N818 - an outcome, not an error; the design sets the name
    """Raise it in a handler: the run fails at once and is not tried again (`retryable: false`)."""


class RunStopped(asyncio.CancelledError):
    """Why a handler is stopped. An async handler sees `asyncio.CancelledError`; `run.stop_reason` is one of these."""


class RunCancelled(RunStopped):
    """Somebody asked to cancel the run (a person, `overlap: replace`, a deleted job)."""


class RunTimedOut(RunStopped):
    """The attempt ran longer than the job's `timeoutSeconds`."""


class LeaseLost(RunStopped):
    """The lease is gone or was not confirmed in time: another worker may have the run. Nothing is reported."""


class WorkerStopping(RunStopped):
    """The worker is shutting down and `drain_seconds` are over; the run is failed as retryable."""
