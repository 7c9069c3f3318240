"""The goal: a check that cannot fail proves nothing. The method: one clean log that passes every invariant, and for
each promise a copy with exactly that promise broken, which must be reported under its number.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streams.audit.checker import INVARIANTS, check
from streams.audit.journals import ClientCall, Execution, Faults, Journals, Limits
from streams.audit.log_view import LogView
from streams.audit.scripted_log import START_MS
from streams.core.commands import Heartbeat
from streams.core.envelopes import CommandBatch, HistoryEntry, LeaseView, Marker, ReplyBatch
from streams.core.events import (
    JobDefined,
    JobDeleted,
    JobPaused,
    JobResumed,
    LeaseExpired,
    LeaseGranted,
    LeaseReleased,
    OccurrencesSkipped,
    RunDied,
    RunFailed,
    RunOpened,
    RunRetried,
    RunSucceeded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.audit.report import Report

    Damage = Callable[[Any], None]

MINUTE_MS = 60_000


def judge(script: Any, **options: Any) -> Report:
    limits = options.pop("limits", None)
    faults = options.pop("faults", script.all_faults)
    return check(script.log.view(**options), script.journals, faults, limits)


def test_a_clean_run_passes_and_every_invariant_judged_something(script: Any) -> None:
    report = judge(script, limits=Limits(fair_tenants=("blue",), fair_lateness_p99_ms=120_000))

    assert report.violations == ()
    assert report.ok
    assert {row.invariant: row.items > 0 for row in report.judged} == {name: True for name, _, _ in INVARIANTS}


def test_the_report_counts_runs_and_tells_their_lateness(script: Any) -> None:
    report = judge(script)

    assert report.counts["runs"] == 10
    assert report.counts["expired"] == 1
    assert report.lateness.runs == 10
    assert report.lateness.p50_ms == 5
    assert report.lateness.max_ms == 60_026
    assert report.lateness_by_tenant["blue"].runs == 10


def test_the_report_prints_a_table_and_json(script: Any) -> None:
    script.log.change(RunSucceeded, 1, lease_token=99)
    report = judge(script)

    table = report.to_table()
    assert "I5  one completion" in table
    assert "completed under token 99" in table
    assert json.loads(report.to_json())["counts"]["runs"] == 10


def test_an_empty_log_is_not_called_good() -> None:
    report = check(LogView([]))

    assert not report.ok
    assert {row.invariant for row in report.judged if row.vacuous} == {
        "I0", "I1", "I2", "I3", "I4", "I6", "I7", "I9", "I11", "I13",
    }  # fmt: skip


def rows_of(script: Any, kind: type) -> list[Any]:
    return [row for row in script.log.rows if isinstance(row.value, kind)]


def unreadable_history(script: Any) -> None:
    script.log.find(RunOpened)[0].value = b"\x00garbage"


def opened_early_by_the_brokers_stamp(script: Any) -> None:
    script.log.find(RunOpened, 1)[0].at_ms -= 10


def opened_early_by_the_owners_clock(script: Any) -> None:
    script.log.change_entry(RunOpened, 1, now_ms=START_MS + MINUTE_MS - 1)


def clock_ahead_of_the_broker(script: Any) -> None:
    script.log.change_entry(RunOpened, 1, now_ms=START_MS + MINUTE_MS + 50)


def retried_early(script: Any) -> None:
    script.log.change(RunRetried, 0, due_at_ms=START_MS + 2 * MINUTE_MS + 50_000)


def executed_early(script: Any) -> None:
    script.executions[0] = msgspec.structs.replace(script.executions[0], started_at_ms=START_MS)


def occurrence_lost(script: Any) -> None:
    for kind in (RunSucceeded, LeaseGranted, RunOpened):
        script.log.drop(kind, 1)


def occurrence_twice(script: Any) -> None:
    script.log.repeat(RunOpened, 2)


def skip_lost(script: Any) -> None:
    script.log.drop(OccurrencesSkipped)


def skip_miscounted(script: Any) -> None:
    script.log.change(OccurrencesSkipped, count=3)


def skip_too_wide(script: Any) -> None:
    script.log.change(OccurrencesSkipped, last_at_ms=START_MS + 9 * MINUTE_MS, count=5)


def ran_when_nobody_asked(script: Any) -> None:
    script.log.change(RunOpened, 2, scheduled_at_ms=START_MS + 2 * MINUTE_MS + 7)


def one_off_lost(script: Any) -> None:
    for kind in (RunSucceeded, LeaseGranted, RunOpened):
        script.log.drop(kind, 0)


def two_outcomes(script: Any) -> None:
    script.log.repeat(RunDied)


def leased_while_leased(script: Any) -> None:
    script.log.drop(LeaseReleased)


def failed_under_another_token(script: Any) -> None:
    script.log.change(RunFailed, 0, lease_token=1)


def died_while_leased(script: Any) -> None:
    script.log.drop(RunFailed, 1)


def grant_not_in_the_public_view(script: Any) -> None:
    script.log.remove(lambda row: isinstance(row.value, LeaseView) and row.value.lease_token == 2)


def public_view_never_closed(script: Any) -> None:
    script.log.remove(
        lambda row: isinstance(row.value, LeaseView) and row.value.lease_token == 4 and row.value.closed is not None
    )


def public_view_closed_otherwise(script: Any) -> None:
    row = next(row for row in rows_of(script, LeaseView) if row.value.closed == "expired")
    row.value = msgspec.structs.replace(row.value, closed="succeeded")


def token_used_twice(script: Any) -> None:
    row, position = script.log.find(LeaseGranted, 4)
    lease = row.value.events[position].lease
    script.log.change(LeaseGranted, 4, lease=msgspec.structs.replace(lease, lease_token=3))


def attempt_lost_after_release(script: Any) -> None:
    script.log.change(LeaseGranted, 4, attempt=3)


def attempt_not_counted(script: Any) -> None:
    script.log.change(LeaseGranted, 3, attempt=1)


def completed_twice(script: Any) -> None:
    script.log.repeat(RunSucceeded, 1)


def completed_under_an_old_token(script: Any) -> None:
    script.log.change(RunSucceeded, 2, lease_token=3)


def acknowledged_completion_lost(script: Any) -> None:
    script.log.drop(RunSucceeded, 1)


def completion_refused_and_kept(script: Any) -> None:
    position = next(i for i, call in enumerate(script.calls) if call.name == "Complete")
    script.calls[position] = msgspec.structs.replace(script.calls[position], code="lease_lost")


def leased_after_the_end(script: Any) -> None:
    script.log.change(LeaseGranted, 6, run_id=script.run_id(MINUTE_MS))


def sequence_with_a_hole(script: Any) -> None:
    script.log.renumber = False
    script.log.drop(RunSucceeded, 1)


def stale_generation_visible(script: Any) -> None:
    script.log.change_entry(RunOpened, 6, generation=1, member_id="member-1", transactional_id="owner-1")


def two_members_in_one_generation(script: Any) -> None:
    script.log.change_entry(RunOpened, 2, member_id="somebody")


def generation_minus_one(script: Any) -> None:
    script.log.change_entry(RunOpened, 2, generation=-1, member_id="")


def marker_of_another_generation(script: Any) -> None:
    row = rows_of(script, Marker)[4]
    row.value = msgspec.structs.replace(row.value, generation=7, member_id="m7")


def decided_twice(script: Any) -> None:
    script.log.repeat(JobDefined)


def answer_lost(script: Any) -> None:
    script.log.rows.remove(rows_of(script, ReplyBatch)[0])


def answered_twice(script: Any) -> None:
    row = rows_of(script, ReplyBatch)[0]
    script.log.rows.append(msgspec.structs.replace(row))


def command_lost(script: Any) -> None:
    row, _ = script.log.find(RunSucceeded, 1)
    script.log.drop(RunSucceeded, 1)
    cause = row.value.cause
    script.log.remove(
        lambda row: isinstance(row.value, ReplyBatch) and row.value.answers[0].request_id == cause.request_id
    )


def acknowledged_job_missing(script: Any) -> None:
    script.calls.append(ClientCall(request_id="x", job_id="nowhere", name="Define", code="created"))


def one_key_two_jobs(script: Any) -> None:
    first = script.calls[0]
    script.calls.append(msgspec.structs.replace(first, job_id="late", idempotency_key=first.idempotency_key))


def caught_up_twice(script: Any) -> None:
    script.log.change(OccurrencesSkipped, last_at_ms=START_MS + 7 * MINUTE_MS, count=3)
    script.log.repeat(RunOpened, 5)
    changes = {"scheduled_at_ms": START_MS + 8 * MINUTE_MS, "run_id": script.run_id(8 * MINUTE_MS)}
    script.log.change(RunOpened, 5, **changes)


def missed_without_an_absence(script: Any) -> None:
    script.log.change(OccurrencesSkipped, 1, reason="catch_up")


def run_called_missed_without_an_absence(script: Any) -> None:
    script.log.change(RunOpened, 2, missed=True)


def duplicate_without_a_fault(script: Any) -> None:
    script.faults.clear()


def executed_under_no_lease(script: Any) -> None:
    script.executions.append(msgspec.structs.replace(script.executions[0], lease_token=77))


def executed_twice_under_one_lease(script: Any) -> None:
    script.executions.append(msgspec.structs.replace(script.executions[0], worker_id="w2"))


def ledger_state_differs(script: Any) -> None:
    row = [row for row in script.log.rows if row.key == b"s|tick"][-1]
    row.value = msgspec.structs.replace(row.value, lease_token_last=1)


def ledger_definition_differs(script: Any) -> None:
    row = [row for row in script.log.rows if row.key == b"d|late"][-1]
    row.value = msgspec.structs.replace(row.value, tenant="red")


def ledger_lost_a_job(script: Any) -> None:
    script.log.remove(lambda row: row.key in {b"s|late", b"d|late"})


def event_that_does_not_fit(script: Any) -> None:
    script.log.change(RunSucceeded, 2, run_id="run_tick_20200101T000000000Z")


def leased_while_paused(script: Any) -> None:
    row, _ = script.log.find(JobPaused)
    at = script.log.rows.index(row)
    opened, _ = script.log.find(RunOpened, 7)
    script.log.rows.remove(opened)
    script.log.rows.insert(at + 1 if script.log.rows.index(row) == at else at, opened)


def never_paused(script: Any) -> None:
    script.log.drop(JobPaused)


def opened_under_an_old_version(script: Any) -> None:
    script.log.change(RunOpened, 8, job_version=1)


def leased_on_a_stale_offer(script: Any) -> None:
    row = next(row for row in rows_of(script, CommandBatch) if row.at_ms == START_MS + 16 * MINUTE_MS - 100)
    asked = msgspec.structs.replace(row.value.commands[0], job_version=1)
    row.value = msgspec.structs.replace(row.value, commands=(asked,))


def opened_beside_another(script: Any) -> None:
    script.log.drop(RunSucceeded, 1)


def opened_after_the_delete(script: Any) -> None:
    row, _ = script.log.find(JobDeleted)
    script.log.rows.remove(row)
    first, _ = script.log.find(RunOpened, 9)
    script.log.rows.insert(script.log.rows.index(first), row)


def skipped_for_no_deadline(script: Any) -> None:
    script.log.change(OccurrencesSkipped, 1, reason="start_deadline")


def expired_too_soon(script: Any) -> None:
    script.log.change(LeaseExpired, expires_at_ms=START_MS + 3 * MINUTE_MS)


def expired_before_all_was_consumed(script: Any) -> None:
    script.log.change(LeaseExpired, consumed_to_ms=START_MS + 2 * MINUTE_MS)


def expired_although_heard_from(script: Any) -> None:
    run_id = script.run_id(2 * MINUTE_MS)
    beat = Heartbeat(job_id="tick", run_id=run_id, lease_token=4)
    script.log.ask(beat, None, at_ms=START_MS + 2 * MINUTE_MS + 20_000)
    script.log.change(LeaseExpired, heartbeat_at_ms=0, expires_at_ms=START_MS + 2 * MINUTE_MS + 31_000)


DEFECTS: list[tuple[str, Damage, str]] = [
    ("I0", unreadable_history, "history:"),
    ("I1", opened_early_by_the_brokers_stamp, "before its time by the broker's stamp"),
    ("I1", opened_early_by_the_owners_clock, "before its time by its owner's own clock"),
    ("I1", clock_ahead_of_the_broker, "the owner's clock ran 45 ms ahead"),
    ("I1", retried_early, "leased"),
    ("I1", executed_early, "started"),
    ("I2", occurrence_lost, "has 0 records"),
    ("I2", occurrence_twice, "opened 2 times"),
    ("I2", skip_lost, "has 0 records"),
    ("I2", skip_miscounted, "3 skipped"),
    ("I2", skip_too_wide, "has 2 records"),
    ("I2", ran_when_nobody_asked, "does not ask for"),
    ("I9", one_off_lost, "undecided for"),
    ("I2", two_outcomes, "has 2 outcomes"),
    ("I3", leased_while_leased, "granted while"),
    ("I3", failed_under_another_token, "ends token 1"),
    ("I3", died_while_leased, "RunDied while token"),
    ("I3", grant_not_in_the_public_view, "public view"),
    ("I3", public_view_never_closed, "public view"),
    ("I3", public_view_closed_otherwise, "public view"),
    ("I4", token_used_twice, "token 3 after"),
    ("I4", attempt_lost_after_release, "attempt 3 was granted after 1"),
    ("I4", attempt_not_counted, "attempt 1 was granted after 1"),
    ("I5", completed_twice, "completed a second time"),
    ("I5", completed_under_an_old_token, "completed under token 3"),
    ("I5", acknowledged_completion_lost, "was acknowledged, but is not in the log"),
    ("I5", completion_refused_and_kept, "was refused, but is in the log"),
    ("I5", leased_after_the_end, "LeaseGranted after RunSucceeded"),
    ("I6", sequence_with_a_hole, "is followed by"),
    ("I6", stale_generation_visible, "generation went back from 2 to 1"),
    ("I6", two_members_in_one_generation, "has members"),
    ("I6", generation_minus_one, "without generation or member"),
    ("I6", marker_of_another_generation, "marker's generation went back"),
    ("I7", decided_twice, "had an effect before"),
    ("I7", answer_lost, "asked 1 and answered 0"),
    ("I7", answered_twice, "asked 1 and answered 2"),
    ("I7", command_lost, "asked 1 and answered 0"),
    ("I7", acknowledged_job_missing, "no such job"),
    ("I7", one_key_two_jobs, "made tick and late"),
    ("I8", caught_up_twice, "catch-up latest"),
    ("I8", missed_without_an_absence, "called missed"),
    ("I8", run_called_missed_without_an_absence, "called missed"),
    ("I10", duplicate_without_a_fault, "without any fault"),
    ("I10", executed_under_no_lease, "never granted"),
    ("I10", executed_twice_under_one_lease, "without any fault"),
    ("I10", expired_too_soon, "expired without evidence"),
    ("I10", expired_before_all_was_consumed, "expired without evidence"),
    ("I10", expired_although_heard_from, "although it was heard from"),
    ("I11", ledger_state_differs, "lease_token_last"),
    ("I11", ledger_definition_differs, "tenant"),
    ("I11", ledger_lost_a_job, "ledger has none"),
    ("I11", event_that_does_not_fit, "replay stops at RunSucceeded"),
    ("I13", leased_while_paused, "opened while the job was paused"),
    ("I13", never_paused, "skipped for paused"),
    ("I13", opened_under_an_old_version, "opened under version 1 of 2"),
    ("I13", leased_on_a_stale_offer, "leased on an offer of version 1 of 2"),
    ("I13", opened_beside_another, "under overlap skip"),
    ("I13", opened_after_the_delete, "opened after the job was deleted"),
    ("I13", skipped_for_no_deadline, "skipped for start_deadline"),
]


@pytest.mark.parametrize(
    ("invariant", "damage", "message"), DEFECTS, ids=[f"{name}-{damage.__name__}" for name, damage, _ in DEFECTS]
)
def test_a_log_with_this_defect_is_refused(script: Any, invariant: str, damage: Damage, message: str) -> None:
    damage(script)
    report = judge(script)

    messages = [violation.message for violation in report.of(invariant)]
    assert any(message in text for text in messages), report.to_table()
    assert not report.ok


def test_every_invariant_has_a_defect_that_it_finds() -> None:
    by_hand = {"I12"}  # below, since it needs other limits

    assert {name for name, _, _ in INVARIANTS} == {name for name, _, _ in DEFECTS} | by_hand


def test_a_record_of_a_refused_transaction_may_not_be_visible(script: Any) -> None:
    report = judge(script, refused=frozenset({("history", 0, 4)}))

    assert "refused transaction is visible" in report.of("I0")[0].message


def test_an_effect_whose_offset_was_not_committed_is_a_violation(script: Any) -> None:
    report = judge(script, committed={0: script.log.commands - 1})

    assert "but the offset stands at" in report.of("I7")[0].message


@pytest.mark.parametrize(("first", "broken"), [(JobResumed, 0), (LeaseGranted, 1)])
def test_a_parked_request_may_have_woken_its_job_before_and_granted_nothing(
    script: Any, first: type[Any], broken: int
) -> None:
    earlier, _ = script.log.find(first, 0)
    at = script.log.rows.index(earlier)
    later = next(
        row
        for row in script.log.rows[at + 1 :]
        if isinstance(row.value, HistoryEntry) and any(isinstance(event, LeaseGranted) for event in row.value.events)
    )
    replace = msgspec.structs.replace
    cause = replace(earlier.value.cause, topic="horolog.commands", partition=0, offset=10_000)
    earlier.value = replace(earlier.value, cause=replace(cause, kind="command"))
    later.value = replace(later.value, cause=replace(cause, kind="parked"))

    told = [violation.message for violation in judge(script).of("I7") if "had an effect before" in violation.message]

    assert len(told) == broken


def test_a_command_beyond_the_committed_offset_needs_no_answer(script: Any) -> None:
    script.log.ask(rows_of(script, CommandBatch)[0].value.commands[0], None, at_ms=START_MS + 20 * MINUTE_MS)
    report = judge(script, committed={0: script.log.commands - 1})

    assert report.violations == ()


@pytest.mark.parametrize(("lived_on_ms", "excused"), [(-500, True), (0, True), (1_900, True), (2_100, False)])
def test_only_the_last_answers_of_an_owner_that_ended_may_be_unsaid(
    script: Any, *, lived_on_ms: int, excused: bool
) -> None:
    at_ms = 40 * MINUTE_MS
    row, position = script.log.find(JobDefined)
    script.define(msgspec.structs.replace(row.value.events[position].definition, job_id="last"), at_ms, None)
    reply = rows_of(script, ReplyBatch)[-1]
    script.log.rows.remove(reply)
    script.log.mark(at_ms=START_MS + at_ms + lived_on_ms)
    script.log.take_over(at_ms=START_MS + at_ms + 9_000)

    messages = [violation.message for violation in judge(script).of("I7")]

    assert [text for text in messages if "asked 1 and answered 0" in text] == messages
    assert (messages == []) is excused


def test_a_run_due_and_never_leased_is_found_at_the_end(script: Any) -> None:
    for kind in (RunSucceeded, LeaseGranted):
        script.log.drop(kind, 8 if kind is RunSucceeded else 12)
    script.log.drop(JobDeleted)
    report = judge(script)

    assert any("due and unleased" in violation.message for violation in report.of("I9"))


def test_a_silent_lease_that_never_expires_is_found_at_the_end(script: Any) -> None:
    script.log.drop(RunSucceeded, 8)
    report = judge(script)

    assert any("silent lease" in violation.message for violation in report.of("I9"))


def test_an_occurrence_that_nobody_decided_is_found_at_the_end(script: Any) -> None:
    script.log.drop(JobDeleted)
    report = judge(script)

    assert any("undecided for" in violation.message for violation in report.of("I9"))


def test_a_paused_job_may_wait_for_ever(script: Any) -> None:
    script.log.drop(JobResumed)
    script.log.remove(lambda row: row.topic != "commands" and row.at_ms > START_MS + 12 * MINUTE_MS + 30_005)
    script.log.drop(OccurrencesSkipped, 1)
    report = judge(script, end_at_ms=START_MS + 60 * MINUTE_MS)

    assert report.of("I9") == ()


def test_a_pause_that_outlives_its_end_is_found(script: Any) -> None:
    script.log.change(JobPaused, until_ms=START_MS + 20 * MINUTE_MS)
    script.log.drop(JobResumed)
    script.log.remove(lambda row: row.topic != "commands" and row.at_ms > START_MS + 12 * MINUTE_MS + 30_005)
    script.log.drop(OccurrencesSkipped, 1)
    report = judge(script, end_at_ms=START_MS + 60 * MINUTE_MS)

    assert any("still paused" in violation.message for violation in report.of("I9"))


def test_a_tenant_that_was_late_under_a_flood_is_found(script: Any) -> None:
    report = judge(script, limits=Limits(fair_tenants=("blue",)))

    assert "p99 lateness" in report.of("I12")[0].message


def test_a_tenant_without_runs_proves_no_fairness(script: Any) -> None:
    report = judge(script, limits=Limits(fair_tenants=("green",)))

    assert "had no run" in report.of("I12")[0].message


def test_the_share_of_duplicates_is_bounded_where_asked(script: Any) -> None:
    report = judge(script, limits=Limits(duplicates_per_million=100))

    assert "over 100 per million" in report.of("I10")[0].message


def test_absences_are_not_judged_on_a_compacted_ledger(script: Any) -> None:
    report = judge(script, whole=False)

    row = next(row for row in report.judged if row.invariant == "I8")
    assert (row.items, sum(row.not_judged.values())) == (0, 2)


@pytest.mark.parametrize(("policy", "phrase"), [("none", "catch-up none"), ("all", "catch-up all"), ("latest", None)])
def test_catch_up_is_judged_by_the_jobs_policy(script: Any, policy: str, phrase: str | None) -> None:
    row, position = script.log.find(JobDefined)
    definition = msgspec.structs.replace(row.value.events[position].definition, catch_up=policy)
    script.log.change(JobDefined, definition=definition)
    report = judge(script)

    assert [violation.message.startswith(phrase or "?") for violation in report.of("I8")] == ([True] if phrase else [])


def test_a_history_that_begins_in_the_middle_is_left_out_and_counted(script: Any) -> None:
    script.log.drop(JobDefined)
    report = judge(script, whole=False)

    row = next(row for row in report.judged if row.invariant == "I2")
    assert row.not_judged["history begins inside the job's life"] == 1


def test_early_starts_within_the_clocks_error_are_allowed(script: Any) -> None:
    late = Execution(
        run_id=script.run_id(MINUTE_MS), attempt=1, lease_token=1, worker_id="w",
        scheduled_at_ms=START_MS + MINUTE_MS, started_at_ms=START_MS + MINUTE_MS - 3,
    )  # fmt: skip
    journals = Journals(executions=(late,))

    strict = check(script.log.view(), journals, Faults())
    loose = check(script.log.view(), journals, Faults(clock_error_ms=3))

    assert len(strict.of("I1")) == 1
    assert loose.of("I1") == ()


def test_expiries_are_counted_for_the_table(script: Any) -> None:
    script.log.drop(LeaseExpired)

    assert judge(script).counts["expired"] == 0
