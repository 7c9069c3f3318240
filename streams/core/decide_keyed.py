"""Idempotency keys: what a key led to is remembered with the job, so that another body under it is refused.

A rule by itself makes most repeats harmless: a trigger's run id comes from its key.
Edits, deletions, pauses and resumes are not: between the first call and its repeat, somebody else may have changed
the job, and the repeat must not undo that. So a repeat of these hears the first answer and does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from streams.core.apply import apply
from streams.core.commands import Define, Delete, Keyed, Pause, Reply, Resume
from streams.core.context import Decision
from streams.core.events import KeyUsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.context import Context
    from streams.core.state import Job, KeyUse

C = TypeVar("C", bound=Keyed)


def keyed(
    rule: Callable[[Job | None, C, Context], Decision], job: Job | None, command: C, context: Context
) -> Decision:
    """Decide a command that may have a key: by its rule, unless the key was used already."""
    if not command.key:
        return rule(job, command, context)
    use = None if job is None else job.key_use(command.key)
    if job is not None and use is not None:
        if use.body != command.body:
            detail = "Idempotency-Key: was used with another body; send the first body again, or another key"
            reply = Reply(code="idempotency_conflict", job_id=command.job_id, field="Idempotency-Key", detail=detail)
            return Decision(reply=reply)
        if isinstance(command, Define | Delete | Pause | Resume):
            return Decision(reply=_first_answer(job, use))
    decision = rule(job, command, context)
    return decision if use is not None else _remembered(job, command, context, decision)


def _remembered(job: Job | None, command: Keyed, context: Context, decision: Decision) -> Decision:
    """Add the key to what was accepted. A refused call may be made again with another body."""
    reply = decision.reply
    after = decision.job_after if decision.events else job
    if after is None or not isinstance(reply, Reply) or reply.code not in ("ok", "created"):
        return decision
    event = KeyUsed(key=command.key, body=command.body, memo=command.memo, at_ms=context.now_ms)
    return Decision(events=(*decision.events, event), reply=reply, job_after=apply(after, event))


def _first_answer(job: Job, use: KeyUse) -> Reply:
    return Reply(
        code="ok", job_id=job.state.job_id, version=use.version, next_at_ms=job.state.next_at_ms, replayed=True
    )
