"""Exit codes, and how every error becomes one of them with a sentence that says what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog._errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    HorologError,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NOT_FOUND = 4
CONFLICT = 5

EPILOG = (
    "Exit codes: 0 ok, 1 failure, 2 wrong command line, file or definition, 3 gateway not reachable, "
    "4 not found, 5 conflict with another edit or state."
)

_NEXT: Mapping[str, str] = {
    "job_not_found": "A job is called by its id, not its name: `horolog jobs list` shows them.",
    "run_not_found": "`horolog runs list JOB` shows the runs that are remembered; older ones are in topic history.",
    "unknown_queue": "`horolog queues list` shows the queues; `horolog queues set` creates one.",
    "unknown_backfill": "`horolog backfills list JOB` shows the backfills of a job.",
    "too_many_backfills": "`horolog backfills list JOB` shows those that are going; wait for one, or stop it.",
    "job_paused": "Resume it with `horolog jobs resume`, or open a run all the same with --force.",
    "overlap": "`horolog runs list JOB` shows the run in the way: wait for it or cancel it; a trigger may --force.",
    "slot_decided": "`horolog explain JOB --at TIME` says what became of that occurrence.",
    "job_finished": "`horolog jobs show` says how it stands; create a new one for more runs.",
    "too_many_replays": "`horolog jobs trigger` opens a run of its own.",
    "unknown_route": "This gateway is older than this command; update it, or leave the option out.",
    "job_exists": "Change it with `horolog jobs edit`, or choose another --id.",
    "version_mismatch": "Somebody else edited it: look at it with `horolog jobs show`, then repeat with its version.",
    "run_closed": "`horolog runs show` says how it ended.",
    "forbidden": "Use the token of the tenant that owns it.",
}


_CONFLICTS = frozenset({"version_mismatch", "job_finished", "run_closed", "too_many_replays", "overlap"})


def code_of_items(items: Sequence[Mapping[str, Any]]) -> int:
    """Give the exit code of a bulk change: ok, conflict if others were in the way, failure for anything else."""
    codes = {item.get("code") for item in items if item.get("ok") is False}
    if not codes:
        return OK
    return CONFLICT if codes <= _CONFLICTS else FAILED


class CliError(Exception):
    """Ends the command with a code and a message; the message says what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def usage(message: str) -> CliError:
    """Give the error of a wrong command line, file or definition."""
    return CliError(USAGE, message)


def told(error: HorologError, url: str) -> CliError:
    """Give the exit code and the words of an error of the client."""
    if isinstance(error, ApiError):
        return CliError(_code(error), _words(error))
    if isinstance(error, UnreachableError):
        hint = "Start one with `horologd gateway`, or name it with --url or HOROLOG_URL."
        return CliError(UNREACHABLE, f"No gateway answers at {url} ({error}).\n{hint}")
    return CliError(FAILED, str(error))


def _code(error: ApiError) -> int:
    if isinstance(error, NotFoundError):
        return NOT_FOUND
    if isinstance(error, (ConflictError, VersionMismatchError)):
        return CONFLICT
    if isinstance(error, InvalidRequestError):
        return USAGE
    return FAILED


def _words(error: ApiError) -> str:
    text = error.detail
    if error.field and not text.startswith(error.field):
        text = f"{error.field}: {text}"
    if isinstance(error, UnauthorizedError):
        hint = "Give the service token with --token or HOROLOG_TOKEN."
    elif isinstance(error, RateLimitedError):
        hint = f"Repeat after {error.retry_after_seconds or 1:g} s."
    elif isinstance(error, UnavailableError):
        request = f"request {error.extra['requestId']}" if "requestId" in error.extra else "this call"
        hint = f"Repeat the command; if it stays so, look for {request} in the gateway's log."
    elif isinstance(error, ForbiddenError):
        hint = _NEXT["forbidden"]
    else:
        hint = _NEXT.get(error.code, "")
    return f"{text} [{error.code}]" + (f"\n{hint}" if hint else "")
