"""`decide(job, command, context) -> Decision`: what follows from a command, without changing anything.

Pure: no clock, no randomness, no I/O; the same arguments give the same decision. It never mutates its arguments, and
answers every command with a reply or a refusal instead of raising: an exception means a defect, and the owner
quarantines the job. The rules live beside it, one module per role: `decide_definition`, `decide_lease`, `decide_wake`,
`decide_control`; `decide_due` opens and skips, `decide_attempt` judges failures, `decide_keyed` knows repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from streams.core import decide_control, decide_definition, decide_lease, decide_wake
from streams.core.commands import (
    CancelRun,
    Complete,
    Define,
    Delete,
    Fail,
    Heartbeat,
    LeaseRun,
    Pause,
    Release,
    ReplayRun,
    Resume,
    SkipSlot,
    StartBackfill,
    StopBackfill,
    Trigger,
    Wake,
)
from streams.core.decide_keyed import keyed

if TYPE_CHECKING:
    from streams.core.commands import AnyCommand
    from streams.core.context import Context, Decision
    from streams.core.state import Job


def decide(job: Job | None, command: AnyCommand, context: Context) -> Decision:  # noqa: C901, PLR0911, PLR0912 - one flat table of commands
    """Return the events that follow from `command`, and its reply. `job` None: there is no record of it."""
    match command:
        case LeaseRun():
            return decide_lease.lease_run(job, command, context)
        case Complete():
            return decide_lease.complete(job, command, context)
        case Heartbeat():
            return decide_lease.heartbeat(job, command, context)
        case Define():
            return keyed(decide_definition.define, job, command, context)
        case Wake():
            return decide_wake.wake(job, context)
        case Fail():
            return decide_lease.fail(job, command, context)
        case Release():
            return decide_lease.release(job, command, context)
        case Trigger():
            return keyed(decide_control.trigger, job, command, context)
        case Delete():
            return keyed(decide_definition.delete, job, command, context)
        case Pause():
            return keyed(decide_control.pause, job, command, context)
        case Resume():
            return keyed(decide_control.resume, job, command, context)
        case CancelRun():
            return keyed(decide_control.cancel, job, command, context)
        case SkipSlot():
            return decide_control.skip_slot(job, command, context)
        case ReplayRun():
            return keyed(decide_control.replay, job, command, context)
        case StartBackfill():
            return keyed(decide_control.start_backfill, job, command, context)
        case StopBackfill():
            return decide_control.stop_backfill(job, command, context)
        case _:
            assert_never(command)
