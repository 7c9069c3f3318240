"""One partition: what is decided when, what a commit changes, and what an abort must leave as it was."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streams.core.decide
import streams.shard
from schemas.partition import partition_for
from streams.core.commands import CancelRun, Complete, Define, Fail, Heartbeat, Release, Trigger
from streams.core.identity import run_id_at
from streams.core.time import IntervalSpec
from streams.core.wire import encode_definition
from streams.shard import DEAD_LETTER_KEY_BYTES_MAX, DEAD_LETTERS_MAX, QUARANTINE_RETRY_MS, TIMERS_AT_ONCE
from streams.store.interface import StoreCorruptError

if TYPE_CHECKING:
    from streams.core.commands import Grant

MINUTE_MS = 60_000
VISIBILITY_MS = 30_000
Job = "Callable[..., Definition]"


def due_soon(rig: Any, make_job: Any, job_id: str = "j", after_ms: int = 1_000, **fields: Any) -> int:
    """Define a one-off job; return its instant."""
    at_ms: int = rig.now_ms + after_ms
    rig.define(make_job(job_id, at_ms=at_ms, **fields))
    rig.run()
    return at_ms


def granted(rig: Any, make_job: Any, job_id: str = "j", **fields: Any) -> Grant:
    """Define a job, let it fall due, lease its run."""
    at_ms = due_soon(rig, make_job, job_id, **fields)
    rig.advance(at_ms - rig.now_ms)
    rig.run()
    request = rig.lease(job_id, at_ms)
    rig.send(request)
    rig.run()
    grant: Grant = rig.grant(request.request_id)
    return grant


def hear_all(rig: Any) -> None:
    """All commands up to now are consumed, and the shard knows it."""
    rig.shard.commands_end(rig.now_ms, rig.shard.inbox.consumed["commands"])


# --- nothing before the commit ---


def test_nothing_changes_before_the_commit(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    batch = rig.collect()
    assert batch is not None
    assert batch.after["j"] is not None
    assert rig.shard.job("j") is None
    assert rig.store.counts.jobs == 0
    assert rig.shard.next_seq == 1
    rig.commit(batch)
    assert rig.shard.job("j") is not None
    assert rig.store.counts.jobs == 1
    assert rig.shard.next_seq == 2


def test_the_store_holds_the_offset_and_the_numbers_of_the_commit(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    rig.advance(5)
    rig.turn()
    assert rig.store.meta["next_seq"] == 2
    assert rig.store.meta["last_marker_ms"] == rig.now_ms
    assert rig.store.ledger_offset > 0


def test_replies_leave_with_the_batch_only(rig: Any, make_job: Any) -> None:
    request_id = rig.define(make_job("j"))
    batch = rig.collect()
    assert [answer.request_id for answer in batch.answers["g"]] == [request_id]
    assert request_id not in rig.answers
    rig.shard.rolled_back(batch)
    again = rig.collect()
    assert again.answers == batch.answers


def test_sequence_numbers_are_dense_over_commits_and_aborts(rig: Any, make_job: Any) -> None:
    for number in range(6):
        rig.define(make_job(f"j{number}"))
        batch = rig.collect()
        if number % 2:
            rig.shard.rolled_back(batch)
            batch = rig.collect()
        rig.commit(batch)
    assert [entry.seq for entry in rig.history] == [1, 2, 3, 4, 5, 6]


def test_decisions_of_one_batch_see_each_other(rig: Any, make_job: Any) -> None:
    at_ms = rig.now_ms - 1
    request = rig.lease("j", at_ms)
    rig.define(make_job("j", at_ms=at_ms))
    rig.send(request)
    rig.send(Complete(job_id="j", request_id="done", run_id=request.run_id, lease_token=1))
    batch = rig.collect()
    rig.commit(batch)
    assert rig.grant(request.request_id).lease_token == 1
    assert rig.reply("done").code == "ok"
    assert rig.names("j") == ["JobDefined", "RunOpened", "LeaseGranted", "RunSucceeded", "JobFinished"]
    assert [len(batch.history), len(batch.changes)] == [3, 1]


def test_what_nobody_can_see_needs_no_transaction_and_its_offset_rides_on_the_next(rig: Any, make_job: Any) -> None:
    grant = granted(rig, make_job)
    rig.send(Heartbeat(job_id="j", run_id=grant.run_id, lease_token=1))
    assert rig.collect() is None
    consumed = rig.shard.inbox.consumed["commands"]
    rig.define(make_job("k"))
    batch = rig.collect()
    assert set(batch.write.offsets.values()) == {consumed + 1, 0}


def test_an_idle_partition_writes_a_marker_after_ten_seconds(rig: Any) -> None:
    rig.advance(9_999)
    assert rig.collect() is None
    rig.advance(1)
    batch = rig.collect()
    assert [batch.write.records, batch.write.marker.key] == [[], b"m|"]
    rig.commit(batch)
    assert rig.collect() is None


def test_nothing_is_decided_before_the_first_receipt(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(begin=False)
    rig.define(make_job("j"))
    assert rig.collect() is None
    assert not rig.shard.active
    rig.commit(rig.shard.first_batch())
    assert rig.shard.active
    assert rig.collect().after["j"] is not None


def test_nothing_is_decided_while_the_clock_is_not_ready(rig: Any, make_job: Any) -> None:
    rig.clock.reset("another leader")
    rig.define(make_job("j"))
    assert rig.collect() is None
    assert list(rig.shard.offers(rig.demand, rig.monotonic_ms)) == []
    rig.advance(1)
    assert rig.collect() is not None


# --- aborts ---


def test_an_abort_restores_inputs_timers_and_parked_requests_in_their_order(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job)
    first, second = rig.lease("j", at_ms), rig.lease("j", at_ms)
    rig.send(first)
    rig.send(second)
    rig.run()
    rig.advance(at_ms - rig.now_ms)
    rig.define(make_job("k"))
    batches = []
    for _ in range(3):
        batch = rig.collect()
        batches.append((batch.history, batch.answers, batch.leases, batch.write.offsets))
        rig.shard.rolled_back(batch)
    assert batches[0] == batches[1] == batches[2]
    rig.run()
    assert rig.grant(first.request_id).lease_token == 1
    assert rig.reply(second.request_id).code == "not_leasable"


def test_an_aborted_expiry_is_decided_again_with_the_same_evidence(rig: Any, make_job: Any) -> None:
    grant = granted(rig, make_job)
    rig.send(Heartbeat(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    heard_at_ms = rig.now_ms
    rig.advance(VISIBILITY_MS + 10)
    hear_all(rig)
    first = rig.collect()
    rig.shard.rolled_back(first)
    second = rig.collect()
    assert [type(e).__name__ for e in first.history[0].events] == ["LeaseExpired", "RunRetried"]
    assert first.history == second.history
    assert second.history[0].events[0].heartbeat_at_ms == heard_at_ms


def test_consumed_evidence_goes_back_with_the_inputs(rig: Any, make_job: Any) -> None:
    granted(rig, make_job)
    rig.advance(VISIBILITY_MS + 10)
    rig.send(Trigger(job_id="none", request_id="x", trigger_id="t"))
    batch = rig.collect()
    assert batch.inputs
    rig.shard.rolled_back(batch)
    assert rig.shard._consumed_to_ms < rig.now_ms


class Story:
    """The same inputs against two shards: one commits always, the other aborts at random."""

    def __init__(self, make_rig: Any, make_job: Any, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a story, no secret
        self.rigs = [make_rig(decisions_max=7), make_rig(decisions_max=7)]
        self.make_job = make_job
        self.due: list[tuple[str, int]] = []

    def step(self) -> None:
        rng, first = self.rng, self.rigs[0]
        choice = rng.random()
        if choice < 0.3:
            job_id, at_ms = f"j{rng.randrange(6)}", first.now_ms + rng.randrange(-50, 3_000)
            self.due.append((job_id, at_ms))
            request_id = f"d{rng.random()}"
            for rig in self.rigs:
                rig.define(self.make_job(job_id, at_ms=at_ms), request_id)
        elif choice < 0.6 and self.due:
            job_id, at_ms = rng.choice(self.due)
            request = first.lease(job_id, at_ms)
            for rig in self.rigs:
                rig.send(request)
        elif choice < 0.9 and self.due:
            self._settle_run()
        ms = rng.choice((0, 1, 300, 1_500, VISIBILITY_MS))
        for rig in self.rigs:
            rig.advance(ms)
            hear_all(rig)

    def _settle_run(self) -> None:
        job_id, at_ms = self.rng.choice(self.due)
        fields: dict[str, Any] = {"job_id": job_id, "run_id": run_id_at(job_id, at_ms), "lease_token": 1}
        kind = self.rng.choice((Complete, Fail, Heartbeat, Release))
        request_id = f"s{self.rng.random()}"
        for rig in self.rigs:
            rig.send(kind(request_id=request_id, **fields))

    def turn(self, aborts: list[bool]) -> None:
        always, sometimes = self.rigs
        while True:
            batch = always.collect()
            other = sometimes.collect()
            while other is not None and aborts and aborts.pop():
                sometimes.shard.rolled_back(other)
                other = sometimes.collect()
            assert (batch is None) == (other is None)
            if batch is None:
                if not always.shard.has_work():
                    return
                continue
            always.commit(batch)
            sometimes.commit(other)


# The fixtures are classes and functions: nothing of one example is left for the next.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), aborts=st.lists(st.booleans(), max_size=60))
def test_aborts_change_nothing_of_what_follows(seed: int, aborts: list[bool], make_rig: Any, make_job: Any) -> None:
    story = Story(make_rig, make_job, seed)
    for _ in range(30):
        story.step()
        story.turn(aborts)
    always, sometimes = story.rigs
    assert always.history == sometimes.history
    assert always.answers == sometimes.answers
    assert always.store.jobs(None, 100) == sometimes.store.jobs(None, 100)
    assert always.store.due(None, 2**60, 100) == sometimes.store.due(None, 2**60, 100)
    assert always.history


# --- time ---


def test_a_heartbeat_counts_from_its_append_and_not_from_its_consumption(rig: Any, make_job: Any) -> None:
    grant = granted(rig, make_job)
    rig.advance(20_000)
    appended_ms = rig.now_ms
    rig.advance(15_000)
    rig.send(Heartbeat(job_id="j", request_id="h", run_id=grant.run_id, lease_token=1), at_ms=appended_ms)
    rig.run()
    assert rig.reply("h").expires_at_ms == appended_ms + VISIBILITY_MS
    hear_all(rig)
    rig.advance(15_000)
    hear_all(rig)
    rig.run()
    assert "LeaseExpired" not in rig.names("j")
    rig.advance(10)
    hear_all(rig)
    rig.run()
    assert rig.names("j")[-2:] == ["LeaseExpired", "RunRetried"]


def test_heartbeats_are_remembered_for_as_long_as_their_lease_lives(rig: Any, make_job: Any) -> None:
    grant = granted(rig, make_job)
    rig.send(Heartbeat(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    assert rig.shard._heartbeats == {grant.run_id: rig.now_ms}
    rig.send(Complete(job_id="j", run_id=grant.run_id, lease_token=1))
    batch = rig.collect()
    rig.shard.rolled_back(batch)
    assert rig.shard._heartbeats != {}
    rig.run()
    assert rig.shard._heartbeats == {}


def test_a_lease_expires_only_with_proof_that_all_earlier_commands_were_consumed(rig: Any, make_job: Any) -> None:
    granted(rig, make_job)
    rig.advance(VISIBILITY_MS + 1_000)
    rig.run()
    assert "LeaseExpired" not in rig.names("j")
    assert rig.shard.end_offset_wanted
    rig.shard.commands_end(rig.now_ms, rig.shard.inbox.consumed["commands"] + 1)
    rig.advance(200)
    rig.run()
    assert "LeaseExpired" not in rig.names("j")
    asked_at_ms = rig.now_ms
    rig.send(Trigger(job_id="none", request_id="x", trigger_id="t"), at_ms=rig.now_ms - 5_000)
    rig.run()
    rig.shard.commands_end(asked_at_ms, rig.shard.inbox.consumed["commands"])
    rig.advance(200)
    rig.run()
    expired = rig.history[-1].events[0]
    assert type(expired).__name__ == "LeaseExpired"
    assert expired.consumed_to_ms == asked_at_ms


def test_a_parked_request_is_granted_in_the_decision_that_opens_the_run(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job)
    request = rig.lease("j", at_ms)
    rig.send(request)
    rig.run()
    assert request.request_id not in rig.answers
    rig.advance(at_ms - rig.now_ms)
    rig.run()
    assert [type(e).__name__ for e in rig.history[-1].events] == ["RunOpened", "LeaseGranted"]
    assert rig.history[-1].cause.kind == "parked"
    assert rig.grant(request.request_id).granted_at_ms == at_ms


def test_a_parked_request_that_a_gateway_repeats_is_parked_once(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job)
    request = rig.lease("j", at_ms)
    rig.send(request)
    rig.run()
    rig.send(request)
    rig.run()
    assert [parked.command.request_id for parked in rig.shard._parked["j"]] == [request.request_id]


def test_a_parked_request_is_forgotten_after_its_valid_until(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job)
    request = rig.lease("j", at_ms, valid_ms=100)
    rig.send(request)
    rig.run()
    rig.advance(at_ms - rig.now_ms + 101)
    rig.run()
    assert rig.names("j")[-1] == "RunOpened"
    assert request.request_id not in rig.answers
    assert rig.shard._parked == {}


def test_a_request_parked_for_a_retry_is_granted_at_the_due_time_of_the_retry(rig: Any, make_job: Any) -> None:
    grant = granted(rig, make_job, retry=retry_after(5_000))
    rig.send(Fail(job_id="j", request_id="f", run_id=grant.run_id, lease_token=1))
    rig.run()
    due_at_ms = rig.shard.job("j").run(grant.run_id).due_at_ms
    assert due_at_ms > rig.now_ms
    rig.advance(due_at_ms - rig.now_ms - 500)
    request = rig.lease("j", due_at_ms)
    rig.send(msgspec.structs.replace(request, run_id=grant.run_id))
    rig.run()
    rig.define(make_job("k"))
    rig.run()
    assert request.request_id not in rig.answers
    assert rig.shard.next_collect_ms() <= due_at_ms
    rig.advance(500)
    rig.run()
    assert rig.grant(request.request_id).attempt == 2


def retry_after(delay_ms: int) -> Any:
    from streams.core.definition import Retry  # noqa: PLC0415 - one use

    return Retry(backoff="fixed", delay_ms=delay_ms)


# --- bounds and turns ---


def test_decisions_of_one_batch_are_bounded(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(decisions_max=10)
    for number in range(25):
        rig.define(make_job(f"j{number}"))
    sizes = []
    while (batch := rig.turn()) is not None:
        sizes.append(batch.decisions)
    assert sizes == [10, 10, 5]


def test_bytes_of_one_batch_are_bounded(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(batch_bytes_max=1_000_000)
    at_ms = rig.now_ms + 1_000
    for number in range(40):
        definition = make_job(f"j{number}", at_ms=at_ms, payload=b"p" * 60_000)
        rig.send(Define(job_id=definition.job_id, request_id="r", definition=definition, request_hash="h"))
    sizes = []
    while (batch := rig.turn()) is not None:
        sizes.append(len(batch.after))
    assert sizes == [9, 9, 9, 9, 4]
    for number in range(40):
        rig.send(rig.lease(f"j{number}", at_ms))
    rig.run()
    rig.advance(1_000)
    batch = rig.turn()
    assert len(batch.answers["g"]) == TIMERS_AT_ONCE
    rig.run()
    assert rig.names().count("LeaseGranted") == 40


def test_batches_shrink_after_an_abort_and_grow_again(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(decisions_max=1_000)
    for number in range(3_000):
        rig.define(make_job(f"j{number}"))
    sizes = []
    for aborted in (True, True, True, True, True, False, False, False, False, False):
        batch = rig.collect()
        sizes.append(batch.decisions)
        if aborted:
            rig.shard.rolled_back(batch)
        else:
            rig.commit(batch)
    assert sizes == [1_000, 500, 250, 125, 100, 100, 200, 400, 800, 1_000]


def test_many_jobs_that_cannot_be_written_are_set_aside_in_one_turn(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(state_bytes_max=16_384)
    for number in range(150):
        definition = make_job(f"bad{number:03}")
        rig.send(Define(job_id=definition.job_id, request_id="r", definition=definition, request_hash="h" * 10_000))
    rig.define(make_job("good"))
    rig.run()
    assert len(rig.shard.quarantined) == 150
    assert rig.shard.job("good") is not None


def test_a_flood_of_one_tenant_delays_nobody_else(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(decisions_max=100)
    at_ms = rig.now_ms + 1_000
    for number in range(1_000):
        rig.define(make_job(f"flood{number}", at_ms=at_ms))
    rig.define(make_job("zz", at_ms=at_ms, tenant="b"))
    rig.run()
    rig.advance(1_000)
    batch = rig.turn()
    assert "zz" in batch.after
    assert len(batch.after) == 100
    rig.run()
    assert rig.names().count("RunOpened") == 1_001


@pytest.mark.parametrize("overlap", ["allow", "queue"])
def test_what_the_open_run_bound_holds_back_is_not_offered_until_a_run_has_ended(
    make_rig: Any, make_job: Any, overlap: str
) -> None:
    """It would be refused, and offered again at once, as long as workers wait: a commit each time, for nothing."""
    rig = make_rig(open_runs_max=2)
    rig.define(make_job("a", overlap=overlap, schedule=IntervalSpec(every_ms=1_000, anchor_ms=0)))
    rig.run()
    for _ in range(6):
        rig.advance(1_000)
        rig.run()
    for _ in range(5):
        rig.want()
        open_runs = {run.run_id for run in rig.shard.job("a").state.open}
        assert len(open_runs) == 2
        assert set(rig.offered()) <= open_runs
        rig.advance(3_000)
    run = rig.shard.job("a").state.open[0]
    request = msgspec.structs.replace(rig.lease("a", rig.now_ms), run_id=run.run_id)
    rig.send(request)
    rig.run()
    token = rig.grant(request.request_id).lease_token
    rig.send(Complete(job_id="a", request_id=rig.request(), run_id=run.run_id, lease_token=token))
    rig.run()
    rig.want()
    rig.advance(3_000)
    opened = {one.run_id for one in rig.shard.job("a").state.open} - open_runs
    assert len(opened) == 1
    if overlap == "allow":
        assert opened & set(rig.offered())


def test_with_a_lower_bound_of_open_runs_a_full_job_does_not_wake_itself(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(open_runs_max=2)
    rig.define(make_job("j", overlap="allow", concurrent_runs_max=64))
    for number in range(2):
        rig.send(Trigger(job_id="j", request_id=f"t{number}", trigger_id=f"t{number}"))
    rig.run()
    assert len(rig.shard.job("j").state.open) == 2
    rig.advance(2 * 3_600_000)
    rig.run()
    assert rig.shard.next_collect_ms() > rig.now_ms


# --- what cannot be decided ---


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Jobs about which no decision succeeds."""
    jobs: set[str] = set()
    decide = streams.core.decide.decide

    def fail(job: Any, command: Any, context: Any) -> Any:
        if command.job_id in jobs:
            raise ValueError("boom")
        return decide(job, command, context)

    monkeypatch.setattr(streams.shard, "decide", fail)
    return jobs


def test_a_job_whose_decision_raises_is_set_aside_and_its_partition_goes_on(
    rig: Any, make_job: Any, broken: set[str]
) -> None:
    broken.add("bad")
    bad, good = rig.define(make_job("bad")), rig.define(make_job("good"))
    rig.run()
    assert rig.reply(bad).code == "quarantined"
    assert "boom" in rig.reply(bad).detail
    assert rig.reply(good).code == "created"
    assert [(letter.code, letter.key, letter.source_offset) for letter in rig.dead_letters] == [
        ("quarantined", b"bad", 0)
    ]
    assert [job_id for job_id, _ in rig.shard.newly_quarantined()] == ["bad"]
    assert rig.shard.newly_quarantined() == []


def test_an_abort_does_not_lose_the_dead_letter_of_a_quarantine(rig: Any, make_job: Any, broken: set[str]) -> None:
    broken.add("bad")
    request_id = rig.define(make_job("bad"))
    rig.shard.rolled_back(rig.collect())
    rig.run()
    assert rig.reply(request_id).code == "quarantined"
    assert [letter.code for letter in rig.dead_letters] == ["quarantined"]


def test_a_definition_of_a_quarantined_job_leaves_one_dead_letter(rig: Any, make_job: Any, broken: set[str]) -> None:
    broken.add("bad")
    item = rig.publish(make_job("bad"))
    rig.publish(make_job("good"))
    rig.run()
    assert [(letter.source_topic, letter.source_offset) for letter in rig.dead_letters] == [
        (rig.sealer.source_topic("definitions"), item.offset)
    ]
    assert rig.shard.job("good") is not None


def test_commands_for_a_quarantined_job_are_refused_until_it_is_tried_again(
    rig: Any, make_job: Any, broken: set[str]
) -> None:
    at_ms = due_soon(rig, make_job, "bad")
    broken.add("bad")
    rig.advance(at_ms - rig.now_ms)
    rig.run()
    assert list(rig.shard.quarantined) == ["bad"]
    broken.clear()
    rig.advance(1_000)
    trigger = Trigger(job_id="bad", request_id="t", trigger_id="t")
    rig.send(trigger)
    rig.run()
    assert rig.reply("t").code == "quarantined"
    rig.advance(QUARANTINE_RETRY_MS - 1_000)
    rig.run()
    assert rig.shard.quarantined == {}
    assert rig.names("bad")[-1] == "RunOpened"


def test_timers_of_a_job_that_stays_broken_are_tried_every_minute(rig: Any, make_job: Any, broken: set[str]) -> None:
    at_ms = due_soon(rig, make_job, "bad")
    broken.add("bad")
    rig.advance(at_ms - rig.now_ms)
    for _ in range(3):
        rig.run()
        assert [job_id for job_id, _ in rig.shard.newly_quarantined()] == ["bad"]
        rig.advance(QUARANTINE_RETRY_MS // 2)
        rig.run()
        assert rig.shard.newly_quarantined() == []
        rig.advance(QUARANTINE_RETRY_MS // 2)


def test_a_state_that_cannot_be_read_stops_its_job_only(rig: Any, make_job: Any, make_rig: Any) -> None:
    at_ms = due_soon(rig, make_job, "bad")
    due_soon(rig, make_job, "good")
    header, _ = rig.store._states["bad"]
    rig.store._states["bad"] = (header, b"\0\0\0\0\3nonsense")
    rig.store._meta.clear()
    again = make_rig(store=rig.store)
    again.want()
    again.offered()
    again.advance(at_ms - again.now_ms)
    again.send(Trigger(job_id="bad", request_id="t", trigger_id="t"))
    again.run()
    assert again.reply("t").code == "quarantined"
    assert again.names() == ["RunOpened"]
    assert list(again.shard.quarantined) == ["bad"]


def decided_by_timer(rig: Any, at_ms: int) -> None:
    rig.advance(at_ms - rig.now_ms)
    rig.run()


def decided_by_command(rig: Any, _: int) -> None:
    rig.send(Trigger(job_id="bad", request_id="t", trigger_id="t"))
    rig.run()


def looked_ahead(rig: Any, at_ms: int) -> None:
    rig.run()
    rig.advance(at_ms - 100 - rig.now_ms)
    rig.want()
    rig.offered()


@pytest.mark.parametrize("reading", [decided_by_timer, decided_by_command, looked_ahead])
def test_a_damaged_store_ends_the_process_and_is_not_the_jobs_fault(
    rig: Any, make_job: Any, make_rig: Any, monkeypatch: pytest.MonkeyPatch, reading: Any
) -> None:
    """The next opening throws the store away and replays. In quarantine a job would stay, and its state is fine."""
    at_ms = due_soon(rig, make_job, "bad")
    rig.store._meta.clear()
    again = make_rig(store=rig.store)

    def fail(_: str) -> bytes:
        raise StoreCorruptError("block checksum mismatch")

    monkeypatch.setattr(rig.store, "state", fail)
    with pytest.raises(StoreCorruptError):
        reading(again, at_ms)
    assert again.shard.quarantined == {}


def test_a_state_beyond_its_bound_sets_its_job_aside(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(state_bytes_max=16_384)
    rig.define(make_job("bad", overlap="allow", concurrent_runs_max=64))
    rig.run()
    for number in range(3):
        payload = bytes(10_000)
        rig.send(Trigger(job_id="bad", request_id=f"t{number}", trigger_id=f"t{number}", payload=payload))
        rig.define(make_job(f"good{number}"))
    rig.run()
    assert "quarantined" in {rig.reply(f"t{number}").code for number in range(3)}
    assert {letter.code for letter in rig.dead_letters} == {"quarantined"}
    assert all(rig.shard.job(f"good{number}") is not None for number in range(3))


class PickyBroker:
    """Refuses transactions that hold a record about this job."""

    def __init__(self, rig: Any, job_id: str) -> None:
        self.rig = rig
        self.job_id = job_id
        self.tries = 0

    def run(self) -> None:
        for _ in range(60):
            batch = self.rig.collect()
            if batch is None:
                return
            self.tries += 1
            if self.job_id in batch.after:
                self.rig.shard.rolled_back(batch, poisoned=True)
            else:
                self.rig.commit(batch)
        raise AssertionError("the poison was not found")


def test_a_poisoned_batch_is_halved_until_its_job_is_found(rig: Any, make_job: Any) -> None:
    requests = {number: rig.define(make_job(f"j{number:02}")) for number in range(32)}
    broker = PickyBroker(rig, "j17")
    broker.run()
    assert rig.reply(requests[17]).code == "quarantined"
    assert {rig.reply(request).code for number, request in requests.items() if number != 17} == {"created"}
    assert list(rig.shard.quarantined) == ["j17"]
    assert broker.tries < 30


def test_in_a_poisoned_record_with_many_commands_the_largest_state_is_set_aside(rig: Any, make_job: Any) -> None:
    names = ("small1", "big", "small2")
    defines = [
        Define(
            job_id=name,
            request_id=name,
            request_hash=name * (100 if name == "big" else 1),
            definition=make_job(name),
        )
        for name in names
    ]
    rig.send(*defines)
    PickyBroker(rig, "big").run()
    assert [rig.reply(name).code for name in names] == ["created", "quarantined", "created"]


def test_a_poisoned_timer_is_set_aside(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job, "bad")
    due_soon(rig, make_job, "good")
    rig.advance(at_ms - rig.now_ms)
    PickyBroker(rig, "bad").run()
    assert rig.names("good")[-1] == "RunOpened"
    assert list(rig.shard.quarantined) == ["bad"]


# --- inputs that are no inputs ---


def foreign_job(partitions: int = 2) -> str:
    return next(name for name in (f"x{n}" for n in range(100)) if partition_for(name, partitions) == 1)


def own_job(partitions: int = 2) -> str:
    return next(name for name in (f"x{n}" for n in range(100)) if partition_for(name, partitions) == 0)


def test_a_command_on_the_wrong_partition_is_refused_and_the_next_one_decided(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(partitions=2)
    foreign, own = foreign_job(), own_job()
    rig.send(
        Define(job_id=foreign, request_id="f", definition=make_job(foreign), request_hash="h"),
        Define(job_id=own, request_id="o", definition=make_job(own), request_hash="h"),
    )
    rig.run()
    assert (rig.reply("f").code, rig.reply("f").field) == ("invalid", "jobId")
    assert rig.reply("o").code == "created"
    assert [(letter.code, letter.index, letter.value) for letter in rig.dead_letters] == [("wrong_partition", 0, None)]


def test_a_definition_on_the_wrong_partition_names_the_partitioner(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(partitions=2)
    rig.publish(make_job(foreign_job()))
    rig.publish(make_job(own_job()))
    rig.run()
    (letter,) = rig.dead_letters
    assert (letter.code, letter.field) == ("wrong_partition", "key")
    assert "partitioner=murmur2_random" in letter.reason
    assert rig.shard.job(own_job()) is not None


@pytest.mark.parametrize(
    ("key", "value", "code", "field"),
    [
        (b"j", b"not avro", "unreadable", "value"),
        (b"\xff\xfe", b"x", "unreadable", "key"),
        (None, b"x", "unreadable", "value"),
    ],
)
def test_an_unreadable_definition_becomes_a_dead_letter(  # noqa: PLR0917 - a table
    rig: Any, make_job: Any, key: bytes | None, value: bytes, code: str, field: str
) -> None:
    item = rig.push("definitions", key, value)
    rig.publish(make_job("good"))
    rig.run()
    (letter,) = rig.dead_letters
    assert (letter.code, letter.field, letter.source_offset) == (code, field, item.offset)
    assert letter.value == value
    assert rig.shard.job("good") is not None


def test_an_invalid_definition_names_its_field(rig: Any, make_job: Any) -> None:
    rig.publish(make_job("j", timeout_ms=-5))
    rig.run()
    (letter,) = rig.dead_letters
    assert letter.code == "invalid"
    assert letter.field.startswith("timeout")


def test_a_definition_under_another_key_is_refused(rig: Any, make_job: Any) -> None:
    rig.push("definitions", b"other", encode_definition(make_job("j")))
    rig.run()
    assert [(letter.code, letter.field) for letter in rig.dead_letters] == [("invalid", "job_id")]


def test_a_null_for_a_missing_job_becomes_a_dead_letter(rig: Any, make_job: Any) -> None:
    rig.push("definitions", b"nobody", None)
    rig.publish(make_job("good"))
    rig.run()
    (letter,) = rig.dead_letters
    assert (letter.code, letter.field, letter.key, letter.value) == ("invalid", "key", b"nobody", None)
    assert "no such job" in letter.reason
    assert rig.names() == ["JobDefined"]


def test_a_null_deletes_the_job(rig: Any, make_job: Any) -> None:
    rig.publish(make_job("j"))
    rig.push("definitions", b"j", None)
    rig.run()
    assert rig.shard.job("j").state.status == "deleted"


def test_the_same_definition_again_changes_nothing_and_another_one_is_a_new_version(rig: Any, make_job: Any) -> None:
    rig.publish(make_job("j"))
    rig.publish(make_job("j"))
    rig.publish(make_job("j", task="other"))
    rig.run()
    assert rig.names("j") == ["JobDefined", "JobEdited"]
    assert rig.shard.job("j").state.version == 2


def test_a_dead_letter_keeps_a_bounded_part_of_what_it_is_about(rig: Any) -> None:
    rig.push("definitions", b"k" * 500_000, b"v" * 900_000)
    rig.run()
    (letter,) = rig.dead_letters
    assert len(letter.key) == DEAD_LETTER_KEY_BYTES_MAX
    assert len(letter.value) == 64 * 1024
    assert len(letter.reason) <= 2_000


def test_a_flood_of_unreadable_inputs_does_not_fill_one_transaction(rig: Any) -> None:
    for _ in range(DEAD_LETTERS_MAX + 50):
        rig.push("commands", b"k", b"not avro")
    sizes = []
    while (batch := rig.turn()) is not None:
        sizes.append(len(batch.dead_letters))
    assert sizes == [DEAD_LETTERS_MAX, 50]


def test_what_was_delivered_twice_or_below_the_floor_is_ignored(rig: Any, make_job: Any) -> None:
    item = rig.send(Define(job_id="j", request_id="a", definition=make_job("j"), request_hash="h"))
    assert not rig.shard.push(item)
    rig.run()
    assert not rig.shard.push(item)
    assert rig.names() == ["JobDefined"]


# --- offers ---


def test_nothing_is_offered_without_demand_and_the_loop_can_sleep(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job)
    assert rig.offered() == []
    rig.advance(at_ms - rig.now_ms + 5_000)
    rig.run()
    assert rig.offered() == []
    assert rig.shard.next_offers_ms(rig.demand) is None
    assert rig.shard.next_collect_ms() > rig.now_ms


def test_a_run_is_offered_a_look_ahead_before_it_is_due(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job, after_ms=10_000)
    rig.want()
    rig.advance(7_900)
    assert rig.offered() == []
    rig.advance(100)
    assert rig.offered() == [run_id_at("j", at_ms)]


def test_after_a_take_over_the_waiting_runs_of_all_lines_are_offered(rig: Any, make_job: Any, make_rig: Any) -> None:
    at_ms = rig.now_ms + 1_000
    for number in range(1_100):
        rig.define(make_job(f"j{number}", at_ms=at_ms, queue=f"q{number}"))
    rig.run()
    rig.advance(1_000)
    rig.run(turns_max=100)
    again = make_rig(store=rig.store, begin=False)
    again.advance(2_000)
    again.commit(again.shard.first_batch())
    again.want(queue="q0")
    again.want(queue="q999", gateway_id="h")
    assert sorted(again.offered()) == sorted([run_id_at("j0", at_ms), run_id_at("j999", at_ms)])
    assert len(again.shard.book) == 1_100


def test_a_released_run_is_offered_again_at_once(rig: Any, make_job: Any) -> None:
    rig.want()
    at_ms = due_soon(rig, make_job)
    rig.advance(at_ms - rig.now_ms)
    rig.run()
    run_id = run_id_at("j", at_ms)
    assert rig.offered() == [run_id]
    request = rig.lease("j", at_ms)
    rig.send(request)
    rig.run()
    assert rig.offered() == []
    rig.send(Release(job_id="j", request_id="r", run_id=run_id, lease_token=1))
    rig.run()
    assert rig.offered() == [run_id]


def test_a_run_whose_request_came_too_late_is_offered_again(rig: Any, make_job: Any) -> None:
    rig.want()
    at_ms = due_soon(rig, make_job)
    rig.advance(at_ms - rig.now_ms)
    rig.run()
    assert rig.offered() == [run_id_at("j", at_ms)]
    request = rig.lease("j", at_ms, valid_ms=500)
    rig.advance(501)
    rig.send(request)
    rig.run()
    assert rig.reply(request.request_id).code == "stale_offer"
    assert rig.offered() == [run_id_at("j", at_ms)]


def test_a_run_that_cannot_be_leased_is_offered_no_more(rig: Any, make_job: Any) -> None:
    rig.want()
    at_ms = due_soon(rig, make_job)
    rig.advance(at_ms - rig.now_ms)
    rig.run()
    assert rig.offered() == [run_id_at("j", at_ms)]
    rig.send(rig.lease("j", at_ms))
    late = rig.lease("j", at_ms)
    rig.send(late)
    rig.run()
    assert rig.reply(late.request_id).code == "not_leasable"
    assert rig.offered() == []
    assert len(rig.shard.book) == 0


def test_an_expiry_that_ends_in_a_cancellation_closes_the_lease_once(rig: Any, make_job: Any) -> None:
    grant = granted(rig, make_job)
    rig.send(CancelRun(job_id="j", request_id="c", run_id=grant.run_id, tenant="a"))
    rig.run()
    rig.advance(VISIBILITY_MS + 1)
    hear_all(rig)
    rig.run()
    assert {"LeaseExpired", "RunCancelled"} <= set(rig.names("j"))
    assert [view.closed for view in rig.leases] == [None, "expired"]
    assert rig.leases[-1].outcome == "cancelled"


# --- the clock ---


def test_after_a_step_back_nothing_is_early_and_parked_requests_wait(rig: Any, make_job: Any) -> None:
    at_ms = due_soon(rig, make_job, after_ms=5_000)
    request = rig.lease("j", at_ms)
    rig.send(request)
    rig.run()
    rig.advance(-600_000)
    rig.run()
    assert rig.names("j") == ["JobDefined"]
    rig.advance(604_999)
    rig.run()
    assert request.request_id not in rig.answers
    rig.advance(1)
    rig.run()
    assert rig.grant(request.request_id).granted_at_ms == at_ms


def test_a_gap_of_more_than_a_minute_without_owner_makes_occurrences_missed(make_rig: Any, make_job: Any) -> None:
    first = make_rig()
    first.define(make_job("j"))
    first.run()
    again = make_rig(store=first.store, begin=False)
    again.shard._last_marker_ms = first.now_ms
    again.advance(3 * 3_600_000 + 1)
    again.commit(again.shard.first_batch())
    again.run()
    events = [event for entry in again.history for event in entry.events]
    assert [type(event).__name__ for event in events] == ["OccurrencesSkipped", "RunOpened"]
    assert [events[0].reason, events[0].count, events[1].missed] == ["catch_up", 2, True]
