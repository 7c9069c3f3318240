from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from streams.core.apply import IllegalEvent, apply
from streams.core.events import (
    BackfillEnded,
    BackfillMoved,
    CursorMoved,
    CursorNoted,
    DeadRunReplayed,
    JobCheckpoint,
    JobDefined,
    JobDeleted,
    JobEdited,
    JobFinished,
    JobForgotten,
    JobPaused,
    JobResumed,
    LeaseExpired,
    LeaseGranted,
    LeaseReleased,
    LeaseRenewed,
    OccurrencesMissed,
    OccurrencesSkipped,
    RunCancelled,
    RunCancelRequested,
    RunDied,
    RunFailed,
    RunOpened,
    RunRetried,
    RunSkipped,
    RunSucceeded,
    RunUnheld,
    SlotSkipRequested,
)
from streams.core.identity import run_id_at
from streams.core.state import Lease

if TYPE_CHECKING:
    from streams.core.events import AnyEvent
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000
RUN = run_id_at("job", AT)


def refused(owner: ManualOwner, event: AnyEvent) -> str:
    with pytest.raises(IllegalEvent) as caught:
        apply(owner.job, event)
    return str(caught.value)


def lease(token: int = 1) -> Lease:
    return Lease(
        lease_token=token,
        worker_id="w",
        gateway_id="g",
        request_id="r",
        granted_at_ms=AT,
        visibility_ms=30_000,
        expires_at_ms=AT + 30_000,
    )


def opening(**fields: object) -> RunOpened:
    event = RunOpened(
        run_id=RUN,
        kind="schedule",
        scheduled_at_ms=AT,
        due_at_ms=AT,
        at_ms=AT,
        job_version=1,
        lane="normal",
        next_at_ms=AT + HOUR,
    )
    return replace(event, **fields)


def skipping(**fields: object) -> OccurrencesSkipped:
    event = OccurrencesSkipped(reason="overlap", first_at_ms=AT, last_at_ms=AT, count=1, at_ms=AT, next_at_ms=AT + HOUR)
    return replace(event, **fields)


@pytest.fixture
def open_run(owner: ManualOwner) -> ManualOwner:
    """An hourly job with its one o'clock run open and unleased."""
    owner.define()
    owner.run_until(AT)
    return owner


@pytest.fixture
def leased(open_run: ManualOwner) -> ManualOwner:
    """The same run under lease token 1."""
    open_run.grant()
    return open_run


def test_the_error_names_job_event_and_what_was_expected(leased: ManualOwner) -> None:
    message = refused(leased, RunSucceeded(run_id=RUN, lease_token=2, attempt=1, at_ms=AT))

    assert "job (active" in message
    assert "RunSucceeded" in message
    assert "current lease token, which is 1" in message


def test_nothing_but_a_definition_happens_to_a_missing_job(owner: ManualOwner) -> None:
    assert "a job" in refused(owner, RunUnheld(run_id=RUN, at_ms=AT))


def test_a_grant_needs_the_next_token(open_run: ManualOwner) -> None:
    for token in (0, 2):
        assert "token 1" in refused(open_run, LeaseGranted(run_id=RUN, attempt=1, lease=lease(token), at_ms=AT))


def test_a_grant_needs_the_next_attempt(open_run: ManualOwner) -> None:
    assert "attempt 1" in refused(open_run, LeaseGranted(run_id=RUN, attempt=2, lease=lease(), at_ms=AT))


def test_a_grant_is_never_early(open_run: ManualOwner) -> None:
    assert "due" in refused(open_run, LeaseGranted(run_id=RUN, attempt=1, lease=lease(), at_ms=AT - 1))


def test_a_second_lease_of_a_run_is_refused(leased: ManualOwner) -> None:
    assert "unleased" in refused(leased, LeaseGranted(run_id=RUN, attempt=2, lease=lease(2), at_ms=AT))


def test_a_paused_job_takes_no_grant(open_run: ManualOwner) -> None:
    open_run.job = apply(open_run.job, JobPaused(actor="", note="", until_ms=0, at_ms=AT))

    assert "paused" in refused(open_run, LeaseGranted(run_id=RUN, attempt=1, lease=lease(), at_ms=AT))


def test_an_opening_is_never_early(owner: ManualOwner) -> None:
    owner.define()

    refused(owner, opening(at_ms=AT - 1))
    refused(owner, opening(due_at_ms=AT - 1))


def test_an_occurrence_is_opened_once(open_run: ManualOwner) -> None:
    refused(open_run, opening())


def test_the_cursor_moves_from_the_value_it_was_read_at(owner: ManualOwner) -> None:
    owner.define()

    refused(owner, opening(scheduled_at_ms=AT + HOUR, due_at_ms=AT + HOUR, at_ms=AT + HOUR))
    refused(owner, skipping(first_at_ms=AT + HOUR, last_at_ms=AT + HOUR))


def test_the_cursor_never_goes_back(owner: ManualOwner) -> None:
    owner.define()

    refused(owner, opening(next_at_ms=AT))
    refused(owner, skipping(next_at_ms=AT))
    refused(owner, CursorMoved(from_at_ms=AT, to_at_ms=AT - 2 * HOUR, zone_data_from="a", zone_data_to="b", at_ms=AT))


def test_a_skipped_range_has_an_order_and_a_count(owner: ManualOwner) -> None:
    owner.define()

    refused(owner, skipping(last_at_ms=AT - 1))
    refused(owner, skipping(count=0))


@pytest.mark.parametrize(
    "event",
    [
        LeaseRenewed(run_id=RUN, lease_token=2, heartbeat_at_ms=AT, expires_at_ms=AT + 60_000, at_ms=AT),
        LeaseReleased(run_id=RUN, lease_token=2, reason="", at_ms=AT),
        RunFailed(run_id=RUN, lease_token=2, attempt=1, error="", retryable=True, at_ms=AT),
        RunCancelled(run_id=RUN, lease_token=2, actor="", reason="", at_ms=AT),
        LeaseExpired(
            run_id=RUN,
            lease_token=2,
            attempt=1,
            at_ms=AT,
            expires_at_ms=AT,
            heartbeat_at_ms=0,
            takeover_at_ms=0,
            consumed_to_ms=AT,
            counted=True,
        ),
    ],
)
def test_only_the_current_token_changes_a_leased_run(leased: ManualOwner, event: AnyEvent) -> None:
    refused(leased, event)


@pytest.mark.parametrize(
    "event",
    [
        RunRetried(run_id=RUN, due_at_ms=AT, at_ms=AT),
        RunDied(run_id=RUN, attempt=1, reason="", error="", at_ms=AT),
        RunSkipped(run_id=RUN, reason="deleted", at_ms=AT),
        RunCancelled(run_id=RUN, lease_token=1, actor="", reason="", at_ms=AT),
        RunCancelled(run_id=RUN, lease_token=0, actor="", reason="", at_ms=AT),
        RunUnheld(run_id=RUN, at_ms=AT),
        LeaseRenewed(run_id=RUN, lease_token=1, heartbeat_at_ms=AT, expires_at_ms=AT, at_ms=AT),
        JobFinished(at_ms=AT, forget_at_ms=AT),
        JobForgotten(at_ms=AT + 10**10),
        JobDeleted(version=2, actor="", at_ms=AT, forget_at_ms=AT),
        JobResumed(actor="", note="", at_ms=AT, next_at_ms=AT + HOUR),
        DeadRunReplayed(run_id=RUN, at_ms=AT),
        BackfillMoved(backfill_id="b", cursor_at_ms=None, at_ms=AT),
        BackfillEnded(backfill_id="b", reason="", at_ms=AT),
        CursorNoted(next_at_ms=AT, notes=(), dropped=(), at_ms=AT),
        OccurrencesMissed(until_ms=0, at_ms=AT),
        SlotSkipRequested(slot_at_ms=AT + HOUR - 1, actor="", at_ms=AT),
        RunSucceeded(run_id="run_job_other", lease_token=1, attempt=1, at_ms=AT),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_does_not_fit_a_leased_run_is_refused(leased: ManualOwner, event: AnyEvent) -> None:
    refused(leased, event)


def test_an_unleased_run_is_neither_asked_to_cancel_nor_succeeds(open_run: ManualOwner) -> None:
    refused(open_run, RunCancelRequested(run_id=RUN, actor="", reason="", at_ms=AT))
    refused(open_run, RunSucceeded(run_id=RUN, lease_token=0, attempt=0, at_ms=AT))


def test_a_job_is_defined_once_and_edited_version_by_version(owner: ManualOwner) -> None:
    owner.define()
    definition = owner.definition(payload=b"x")
    defined = JobDefined(
        definition=definition, version=2, request_hash="", at_ms=AT, next_at_ms=AT + HOUR, zone_data=""
    )
    edited = JobEdited(
        definition=definition,
        version=3,
        request_hash="",
        at_ms=AT,
        next_at_ms=AT + HOUR,
        previous_next_at_ms=AT,
        zone_data="",
    )

    refused(owner, defined)
    refused(owner, edited)
    refused(owner, replace(edited, version=2, definition=replace(definition, tenant="others")))
    assert apply(owner.job, replace(edited, version=2)) is not None


def test_a_checkpoint_stands_for_everything_before_it(leased: ManualOwner) -> None:
    job = leased.must()

    assert apply(None, JobCheckpoint(state=job.state, definition=job.definition, at_ms=AT)) == job
