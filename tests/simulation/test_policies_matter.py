"""The goal: no policy of a job or a run is there for nothing, and none can be lost unseen. The method: break one in the
core on purpose, let jobs live, and see the checker report the very promise that it keeps.

A change is either another function in the core's place, or a core that sees something else than the truth (`blind`),
while the log says what really was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from streams.core import (
    decide_attempt,
    decide_control,
    decide_definition,
    decide_draft,
    decide_due,
    decide_lease,
    decide_wake,
)
from streams.core.apply import apply
from streams.core.deadline import deadline_ms, lease_end_ms
from streams.core.decide_cursor import follow_calendars
from streams.core.events import (
    BackfillEnded,
    DeadRunReplayed,
    OccurrencesSkipped,
    RunRetried,
    RunUnheld,
)
from streams.core.state import Job
from tests.simulation.harness.policy_world import PolicyPlan, live

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.context import Decision

SEEDS = range(300, 308)
"""A mutation must be found in one of these; most are in the first."""


def busy(seed: int) -> PolicyPlan:
    """Give a short life in which people do everything, often, and workers are slow."""
    return PolicyPlan(seed=seed, hours=3.0, jobs=6, change_every_ms=20_000.0, slow=0.3, outage_every_ms=2_400_000.0)


def backfilling(seed: int) -> PolicyPlan:
    """Give one in which people start backfills and delete jobs, and little else."""
    return PolicyPlan(
        seed=seed, hours=6.0, jobs=6, change_every_ms=60_000.0, slow=0.3, outage_every_ms=0,
        deeds=("define", "backfill", "backfill", "delete"),
    )  # fmt: skip


def stubborn(seed: int) -> PolicyPlan:
    """Give one of long runs whose workers heed no cancel, without any fault."""
    return PolicyPlan(
        seed=seed, hours=6.0, jobs=6, change_every_ms=60_000.0, slow=0.9, stubborn=1.0, outage_every_ms=0,
        lost=0.0, doubled=0.0, worker_dies=0.0, worker_sleeps=0.0,
        deeds=("define", "one_off", "trigger", "cancel"),
    )  # fmt: skip


def restless(seed: int) -> PolicyPlan:
    """Give one of edits only, many of which meet an owner that just came back."""
    return PolicyPlan(seed=seed, hours=6.0, jobs=6, change_every_ms=30_000.0, outage_every_ms=60_000.0, deeds=("edit",))


def away(seed: int) -> PolicyPlan:
    """Give one of recurring jobs whose owner is often away, and nobody else does anything."""
    return PolicyPlan(seed=seed, hours=10.0, jobs=8, change_every_ms=1e9, outage_every_ms=300_000.0)


def pausing(seed: int) -> PolicyPlan:
    """Give one of pauses that end by themselves, or do not end."""
    return PolicyPlan(seed=seed, hours=6.0, jobs=8, change_every_ms=600_000.0, deeds=("pause",))


def doomed(seed: int) -> PolicyPlan:
    """Give one in which every attempt fails and everything is replayed."""
    return PolicyPlan(
        seed=seed, hours=2.0, jobs=1, change_every_ms=5_000.0, fails=1.0, slow=0.0, outage_every_ms=0,
        deeds=("replay",), lost=0.0,
    )  # fmt: skip


def found_by(phrase: str, plan: Callable[[int], PolicyPlan]) -> str:
    """Give the invariant that reported the phrase; or what else was found."""
    others: set[str] = set()
    for seed in SEEDS:
        for violation in live(plan(seed)).report.violations:
            if phrase in violation.message:
                return violation.invariant
            others.add(f"{violation.invariant} {violation.message}")
    return f"not found, but {sorted(others)[:10]}"


# --- how to break something ---

Patch = pytest.MonkeyPatch


def blind(patch: Patch, module: Any, name: str, see: Callable[[Job], Job], drop: tuple[type, ...] = ()) -> None:
    """Let one function of the core see another job; its events are folded on the true one."""
    wrapped = getattr(module, name)

    def changed(job: Job | None, *arguments: Any) -> Decision:
        decision: Decision = wrapped(None if job is None else see(job), *arguments)
        if not decision.events:
            return decision
        events = tuple(event for event in decision.events if not isinstance(event, drop))
        after = job
        for event in events:
            after = apply(after, event)
        return replace(decision, events=events, job_after=after)

    patch.setattr(module, name, changed)


def unseen(**fields: Any) -> Callable[[Job], Job]:
    """See other values in the definition."""
    return lambda job: job if job.definition is None else Job(job.state, replace(job.definition, **fields))


def true(job: Job) -> Job:
    """See the job as it is."""
    return job


def unpaused(job: Job) -> Job:
    """See no pause."""
    return Job(replace(job.state, pause=None), job.definition)


def uncancelled(job: Job) -> Job:
    """See no cancel requests."""
    runs = tuple(replace(run, cancel_requested_at_ms=0) for run in job.state.open)
    return Job(replace(job.state, open=runs), job.definition)


def instead_of_skipping(patch: Patch, reason: str) -> None:
    """Open what would be skipped for a reason."""
    skip_until = decide_due.skip_until

    def changed(draft: Any, why: Any, until_ms: int, **options: Any) -> None:
        at_ms = draft.state.next_at_ms
        if why == reason and at_ms is not None:
            decide_due.open_next(draft, at_ms, held=False, missed=reason == "catch_up")
        else:
            skip_until(draft, why, until_ms, **options)

    patch.setattr(decide_due, "skip_until", changed)


def catch_up_as(policy: str, other: str) -> Callable[[Patch], None]:
    """Treat one catch-up policy as another."""

    def broken(patch: Patch) -> None:
        blind(patch, decide_wake, "wake", lambda job: _swap(job, "catch_up", policy, other))

    return broken


def overlap_as(policy: str, other: str) -> Callable[[Patch], None]:
    """Treat one overlap policy as another."""

    def broken(patch: Patch) -> None:
        blind(patch, decide_wake, "wake", lambda job: _swap(job, "overlap", policy, other))

    return broken


def _swap(job: Job, field: str, policy: str, other: str) -> Job:
    if job.definition is None or getattr(job.definition, field) != policy:
        return job
    return Job(job.state, replace(job.definition, **{field: other}))


# --- what is broken ---


def late_starts(patch: Patch) -> None:
    for module in (decide_lease, decide_wake):
        patch.setattr(module, "start_deadline_ms", lambda _run, _definition: None)


def late_openings(patch: Patch) -> None:
    instead_of_skipping(patch, "start_deadline")


def no_limit_of_runs(patch: Patch) -> None:
    for module in (decide_due, decide_draft):
        patch.setattr(module, "concurrency_limit", lambda _definition, _open_max: 99)


def one_run_at_a_time(patch: Patch) -> None:
    patch.setattr(decide_due, "concurrency_limit", lambda _definition, _open_max: 1)


def nothing_replaced(patch: Patch) -> None:
    patch.setattr(decide_due, "replace_live", lambda _draft, _live: None)


def last_come_first_served(patch: Patch) -> None:
    def changed(draft: Any) -> None:
        held = [run for run in draft.state.open if run.held]
        if draft.job.definition is not None and held and len(held) == len(draft.state.open):
            draft.emit(RunUnheld(run_id=held[-1].run_id, at_ms=draft.now_ms))

    for module in (decide_lease, decide_attempt, decide_control, decide_wake, decide_definition):
        patch.setattr(module, "release_held", changed)


def nobody_let_go(patch: Patch) -> None:
    for module in (decide_lease, decide_attempt, decide_control, decide_wake, decide_definition):
        patch.setattr(module, "release_held", lambda _draft: None)


def no_time_out(patch: Patch) -> None:
    blind(patch, decide_lease, "lease_run", unseen(timeout_ms=0))


def time_outs_forgotten(patch: Patch) -> None:
    def changed(run: Any, lease: Any, **soft: int) -> Any:
        return lease_end_ms(run, replace(lease, timeout_at_ms=0), **soft)

    patch.setattr(decide_wake, "lease_end_ms", changed)


def cancel_grace_forgotten(patch: Patch) -> None:
    def changed(run: Any, lease: Any, **soft: int) -> Any:
        return lease_end_ms(replace(run, cancel_requested_at_ms=0), lease, **soft)

    patch.setattr(decide_wake, "lease_end_ms", changed)


def retry_of_final_failures(patch: Patch) -> None:
    verdict = decide_attempt.verdict_on_failure
    patch.setattr(
        decide_lease,
        "verdict_on_failure",
        lambda draft, run_id, *, error, retryable: verdict(draft, run_id, error=error, retryable=retryable or True),
    )


def retry_for_ever(patch: Patch) -> None:
    def changed(draft: Any, run: Any, _reason: str, _error: str) -> None:
        draft.emit(RunRetried(run_id=run.run_id, due_at_ms=draft.now_ms + 1_500, at_ms=draft.now_ms))

    patch.setattr(decide_attempt, "_die", changed)


def no_retry(patch: Patch) -> None:
    patch.setattr(
        decide_lease,
        "verdict_on_failure",
        lambda draft, run_id, *, error, **_: decide_attempt._die(draft, draft.job.run(run_id), "x", error),
    )


def long_waits(patch: Patch) -> None:
    wait_ms = decide_attempt.backoff_ms
    patch.setattr(decide_attempt, "backoff_ms", lambda retry, run_id, attempt: 10 * wait_ms(retry, run_id, attempt + 3))


def pause_ignored(patch: Patch) -> None:
    def changed(state: Any, now_ms: int) -> bool:
        return state.next_at_ms is not None and state.next_at_ms <= now_ms and state.status == "active"

    patch.setattr(decide_due, "is_due", changed)
    patch.setattr(
        "tests.simulation.harness.policy_world.deadline_ms", lambda job, **bound: deadline_ms(unpaused(job), **bound)
    )


def paused_ones_run_afterwards(patch: Patch) -> None:
    patch.setattr(decide_control, "skip_paused", lambda _draft, _until_ms: None)


def triggers_beside_others(patch: Patch) -> None:
    patch.setattr(decide_control, "concurrency_limit", lambda _definition, _open_max: 99)


def triggers_in_a_pause(patch: Patch) -> None:
    blind(patch, decide_control, "trigger", unpaused)


def triggers_repeated(patch: Patch) -> None:
    known = decide_control._known
    patch.setattr(
        decide_control,
        "_known",
        lambda job, command, run_id: known(job, command, run_id) if job.run(run_id) is not None else None,
    )


def skips_forgotten(patch: Patch) -> None:
    instead_of_skipping(patch, "requested")


def skips_not_recorded(patch: Patch) -> None:
    def changed(job: Job | None, command: Any, context: Any) -> Decision:
        return replace(skip_slot(job, command, context), events=(), job_after=None)

    skip_slot = decide_control.skip_slot
    patch.setattr(decide_control, "skip_slot", changed)


def cancels_not_sent(patch: Patch) -> None:
    patch.setattr(decide_control, "cancel_run", lambda _draft, _run, **_: None)


def cancels_not_told(patch: Patch) -> None:
    blind(patch, decide_lease, "heartbeat", uncancelled)


def retried_after_a_cancel(patch: Patch) -> None:
    blind(patch, decide_lease, "fail", uncancelled)


def backfills_survive(patch: Patch) -> None:
    blind(patch, decide_definition, "delete", true, drop=(BackfillEnded,))


def due_ones_vanish(patch: Patch) -> None:
    blind(patch, decide_definition, "define", true, drop=(OccurrencesSkipped,))


def any_version(patch: Patch) -> None:
    for module, name in ((decide_definition, "define"), (decide_definition, "delete"), (decide_control, "skip_slot")):
        wrapped = getattr(module, name)
        patch.setattr(module, name, _without_version(wrapped))


def _without_version(wrapped: Callable[..., Decision]) -> Callable[..., Decision]:
    return lambda job, command, context: wrapped(job, replace(command, expected_version=0), context)


def every_second_slot(patch: Patch) -> None:
    opened = decide_due._open_backfill_slot
    patch.setattr(
        decide_due,
        "_open_backfill_slot",
        lambda draft, item: opened(draft, replace(item, cursor_at_ms=item.cursor_at_ms + 1)),
    )


def all_slots_at_once(patch: Patch) -> None:
    patch.setattr(
        decide_due, "backfill_can_open", lambda state, _item, most: state.pause is None and len(state.open) < most
    )


def backfills_stand_still(patch: Patch) -> None:
    patch.setattr(decide_wake, "open_backfills", lambda _draft: None)


def backfills_without_rate(patch: Patch) -> None:
    patch.setattr(decide_due, "backfill_due_ms", lambda _item: 0)


def pauses_without_end(patch: Patch) -> None:
    for module in (decide_wake, decide_lease, decide_control, decide_definition):
        patch.setattr(module, "settle_pause", follow_calendars)


def replays_without_end(patch: Patch) -> None:
    patch.setattr(decide_control, "REPLAYS_MAX", 10**6)


def replays_not_counted(patch: Patch) -> None:
    open_replay = decide_control._open_replay
    patch.setattr(
        decide_control, "_open_replay", lambda draft, dead, run_id: open_replay(draft, replace(dead, replays=0), run_id)
    )


def replayed_twice(patch: Patch) -> None:
    blind(patch, decide_control, "replay", true, drop=(DeadRunReplayed,))


def more_than_max_runs(patch: Patch) -> None:
    blind(patch, decide_wake, "wake", unseen(max_runs=0))


CASES: list[tuple[Callable[[Patch], None], Callable[[int], PolicyPlan], str, str]] = [
    (catch_up_as("latest", "all"), away, "I8", "catch-up latest, but"),
    (catch_up_as("latest", "none"), away, "I8", "catch-up latest, but the latest did not run"),
    (catch_up_as("none", "latest"), away, "I8", "catch-up none, but"),
    (catch_up_as("all", "latest"), away, "I13", "skipped as missed under catch-up all"),
    (overlap_as("queue", "skip"), busy, "I13", "skipped for overlap under overlap queue"),
    (overlap_as("replace", "skip"), busy, "I13", "skipped for overlap under overlap replace"),
    (overlap_as("skip", "queue"), busy, "I13", "under overlap skip"),
    (overlap_as("skip", "replace"), busy, "I13", "replaced under overlap skip"),
    (overlap_as("allow", "skip"), busy, "I13", "skipped for overlap beside 1 of"),
    (no_limit_of_runs, busy, "I13", "and not held"),
    (one_run_at_a_time, busy, "I13", "skipped for overlap beside 1 of"),
    (nothing_replaced, busy, "I13", "which was not replaced"),
    (last_come_first_served, busy, "I13", "which waits longer"),
    (nobody_let_go, busy, "I13", "held although nothing is going"),
    (late_starts, busy, "I13", "leased at or after its start deadline"),
    (late_openings, busy, "I13", "opened at or after its start deadline"),
    (no_time_out, busy, "I13", "times out at 0 instead of"),
    (time_outs_forgotten, stubborn, "I13", "the bound of its attempt"),
    (cancel_grace_forgotten, stubborn, "I13", "the bound of its attempt"),
    (retry_of_final_failures, busy, "I13", "retried after a failure that is final"),
    (retry_for_ever, busy, "I13", "which was the last"),
    (no_retry, busy, "I13", "dead after attempt 1 of"),
    (long_waits, busy, "I13", "ms for its retry"),
    (pause_ignored, busy, "I13", "opened while the job was paused"),
    (paused_ones_run_afterwards, busy, "I13", "opened although it fell due in a pause"),
    (triggers_beside_others, busy, "I13", "triggered beside"),
    (triggers_in_a_pause, busy, "I13", "triggered without force while the job was paused"),
    (triggers_repeated, busy, "I2", "opened 2 times"),
    (skips_forgotten, busy, "I13", "opened although somebody asked to skip it"),
    (skips_not_recorded, busy, "I13", "SkipSlot was acknowledged, but it had no effect"),
    (cancels_not_sent, busy, "I13", "a cancel was acknowledged, but nobody was told"),
    (cancels_not_told, busy, "I13", "a heartbeat was not told of the cancel"),
    (retried_after_a_cancel, busy, "I13", "although a cancel was asked for"),
    (backfills_survive, backfilling, "I13", "deleted, but a backfill was left going"),
    (due_ones_vanish, restless, "I2", "has 0 records"),
    (any_version, busy, "I13", "changed version"),
    (every_second_slot, busy, "I13", "first difference"),
    (all_slots_at_once, busy, "I13", "runs of its backfill are open already"),
    (backfills_stand_still, busy, "I13", "stands still"),
    (backfills_without_rate, busy, "I13", "before its rate allows it"),
    (pauses_without_end, pausing, "I9", "still paused"),
    (replays_without_end, doomed, "I13", "of at most 10"),
    (replays_not_counted, busy, "I13", "replay 1 of a run with"),
    (replayed_twice, busy, "I13", "which is no dead run that was taken for it"),
    (more_than_max_runs, busy, "I13", "of at most 12 opened"),
]


@pytest.mark.parametrize("plan", [busy, stubborn, restless, away, pausing, doomed])
def test_with_all_policies_in_place_nothing_is_found(plan: Callable[[int], PolicyPlan]) -> None:
    result = live(plan(SEEDS[0]))

    assert result.ok, result.story()


@pytest.mark.parametrize(("change", "plan", "invariant", "phrase"), CASES, ids=[case[3] for case in CASES])
def test_a_policy_that_is_lost_is_found(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Patch], None],
    plan: Callable[[int], PolicyPlan],
    invariant: str,
    phrase: str,
) -> None:
    change(monkeypatch)

    assert found_by(phrase, plan) == invariant
