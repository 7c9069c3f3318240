"""What follows an attempt that ended without success: another one, or death. And when the other one is due."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from streams.core.decide_draft import release_held
from streams.core.events import RunCancelled, RunDied, RunRetried

if TYPE_CHECKING:
    from streams.core.decide_draft import Draft
    from streams.core.definition import Retry
    from streams.core.state import OpenRun

BACKOFF_FLOOR_MS: Final = 1_000
BACKOFF_CEILING_MS: Final = 600_000
"""DESIGN section 10: full jitter within min(600, 2^attempt) seconds; the first second belongs to whatever is down."""

_DOUBLINGS_MAX: Final = 10
"""2^10 s is over the ceiling: no larger power is ever computed."""


def verdict_on_failure(draft: Draft, run_id: str, *, error: str, retryable: bool) -> None:
    """Decide about a run whose attempt failed (the event before this one)."""
    run = draft.job.run(run_id)
    if run is None:
        return
    retry = draft.definition.retry
    if not retryable:
        _die(draft, run, "not_retryable", error)
    elif retry.backoff == "none":
        _die(draft, run, "no_retry", error)
    elif run.attempt >= retry.max_attempts:
        _die(draft, run, "max_attempts", error)
    else:
        due_at_ms = draft.now_ms + backoff_ms(retry, run_id, run.attempt)
        draft.emit(RunRetried(run_id=run_id, due_at_ms=due_at_ms, at_ms=draft.now_ms))


def verdict_on_expiry(draft: Draft, run_id: str, *, counted: bool, reason: str) -> None:
    """Decide about a run whose lease ended without a word: a cancel wins; an uncounted attempt is free and at once."""
    run = draft.job.run(run_id)
    if run is None:
        return
    if run.cancel_requested_at_ms or draft.job.definition is None:
        draft.emit(
            RunCancelled(
                run_id=run_id,
                lease_token=run.ended_token,
                actor="",
                reason=run.cancel_reason,
                at_ms=draft.now_ms,
            )
        )
        release_held(draft)
    elif not counted:
        draft.emit(RunRetried(run_id=run_id, due_at_ms=draft.now_ms, at_ms=draft.now_ms))
    elif run.attempt >= draft.definition.retry.max_attempts or draft.definition.retry.backoff == "none":
        used_up = "no_retry" if draft.definition.retry.backoff == "none" else "max_attempts"
        _die(draft, run, "timeout" if reason == "timeout" else used_up, run.error)
    else:
        due_at_ms = draft.now_ms + backoff_ms(draft.definition.retry, run_id, run.attempt)
        draft.emit(RunRetried(run_id=run_id, due_at_ms=due_at_ms, at_ms=draft.now_ms))


def backoff_ms(retry: Retry, run_id: str, attempt: int) -> int:
    """Return the wait after `attempt` (1 is the first), in ms. The random part comes from run id and attempt."""
    if retry.backoff == "fixed":
        return retry.delay_ms
    ceiling_ms = min(BACKOFF_CEILING_MS, 1_000 << min(max(attempt, 1), _DOUBLINGS_MAX))
    digest = hashlib.blake2b(f"{run_id}:{attempt}".encode(), digest_size=8).digest()
    spread_ms = ceiling_ms - BACKOFF_FLOOR_MS + 1
    jittered_ms = BACKOFF_FLOOR_MS + int.from_bytes(digest, "big") % spread_ms
    return max(retry.delay_ms, jittered_ms)


def _die(draft: Draft, run: OpenRun, reason: str, error: str) -> None:
    draft.emit(RunDied(run_id=run.run_id, attempt=run.attempt, reason=reason, error=error, at_ms=draft.now_ms))
    release_held(draft)
