"""What the cases share: an owner of one job whose clock stands at 2027-01-01T00:00:00.001Z, and a restart of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.events import OccurrencesSkipped, RunOpened
from streams.core.manual import ManualOwner
from streams.core.state import Job
from streams.core.wire import decode_accepted_definition, decode_state, encode_definition, encode_state

if TYPE_CHECKING:
    from collections.abc import Callable

NEW_YEAR_MS = 1_798_761_600_000


@pytest.fixture
def owner() -> ManualOwner:
    """An owner without a job yet: the default hourly job is due at one o'clock."""
    return ManualOwner(now_ms=NEW_YEAR_MS + 1)


@pytest.fixture
def restart() -> Callable[[ManualOwner], None]:
    """Let another owner take over: it has the ledger's bytes and knows nothing else."""

    def again(owner: ManualOwner) -> None:
        job = owner.must()
        definition = None
        if job.definition is not None:
            definition = decode_accepted_definition(encode_definition(job.definition))
        owner.job = Job(decode_state(encode_state(job.state)), definition)
        owner.heartbeats.clear()
        owner.takeover_at_ms = owner.now_ms

    return again


@pytest.fixture
def opened(owner: ManualOwner) -> Callable[[], list[int]]:
    """Give the scheduled instants of all runs that the schedule opened."""
    return lambda: [e.scheduled_at_ms for e in owner.log if isinstance(e, RunOpened) and e.kind == "schedule"]


@pytest.fixture
def skipped(owner: ManualOwner) -> Callable[[], list[tuple[str, int]]]:
    """Give reason and count of every recorded skip."""
    return lambda: [(e.reason, e.count) for e in owner.log if isinstance(e, OccurrencesSkipped)]
