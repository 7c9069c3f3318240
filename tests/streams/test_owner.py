"""The loop over the shards: what it does when transactions fail, the group moves on, or the broker is away."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio

import streams.owner
from schemas.codec import encode
from schemas.partition import partition_for
from streams.batch import Batch
from streams.core.commands import Define
from streams.core.envelopes import Demand, KeyRunning, OwnerView, QueueDemand, TenantPending
from streams.core.wire import decode_owner_view
from streams.offer_book import OFFER_TTL_MS
from streams.owner import COMMIT_MS, IN_FLIGHT_MAX_MS, INPUTS_WAIT_MS
from streams.takeover import Progress, Takeover
from streams.transaction import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streams.ledger_log import LogIdentity

WAIT_S = 20.0


@pytest_asyncio.fixture
async def owned(owner_rig: Any) -> AsyncIterator[Any]:
    """An owner of the partitions 0 and 1 of two, not assigned yet."""
    rig = owner_rig()
    yield rig
    await rig.close()


def on(partition: int, number: int = 0) -> str:
    """A job id of a partition."""
    found = [name for name in (f"j{n}" for n in range(200)) if partition_for(name, 2) == partition]
    return found[number]


def define(make_job: Any, name: str) -> Define:
    return Define(job_id=name, request_id=f"r-{name}", definition=make_job(name), request_hash="h")


class Gate:
    """Holds the commit thread before the end of its next transaction."""

    def __init__(self, rig: Any) -> None:
        self.entered = asyncio.Event()
        self.opened = threading.Event()
        self._loop = asyncio.get_running_loop()
        rig.committer.begun = self._begun

    def _begun(self, _: Any) -> None:
        self._loop.call_soon_threadsafe(self.entered.set)
        assert self.opened.wait(WAIT_S)


# --- taking over and acting ---


async def test_partitions_act_after_their_own_first_commit(owned: Any) -> None:
    await owned.assign(0, 1)
    await owned.active(0, 1)
    first = owned.committer.transactions[0]
    assert [write.marker.key for write in first.writes] == [b"m|", b"m|"]
    assert sorted(record.key for record in first.shared if record.topic.endswith("owners")) == [b"0", b"1"]
    assert owned.log.calls.index("stable_committed") < owned.log.calls.index("read_ledger")


async def test_what_arrives_during_a_take_over_waits_for_it(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    assert owned.log.committed[owned.log.inputs[0]] == {0: 1}


async def test_records_of_a_partition_that_is_not_ours_are_ignored(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    owned.deliver(1, 0, define(make_job, on(1)))
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    assert owned.owner.shards.keys() == {0}


@pytest.mark.parametrize("bound", ["records_max", "bytes_max"])
async def test_the_source_waits_while_a_recovering_partition_holds_too_much(
    owned: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    await owned.assign(0)
    rooms = owned.owner._early
    room = rooms[0]
    monkeypatch.setattr(room, bound, 1)
    owned.deliver(0, 0, define(make_job, on(0)))
    waiting = asyncio.ensure_future(owned.owner.room(0))
    done, _ = await asyncio.wait([waiting], timeout=0)
    assert not done
    del rooms[0]
    owned.owner.demand.forget_silent(0)
    owned.owner._room.set()
    await asyncio.wait_for(waiting, WAIT_S)
    assert waiting.done()


# --- transactions that fail ---


async def test_an_aborted_batch_is_decided_again(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    owned.committer.script = [Outcome.ABORTED, Outcome.ABORTED]
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    assert owned.told.names.count("failed") == 2


async def test_a_stale_generation_forgets_everything_and_waits_for_the_group(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    assert owned.owner.is_member
    owned.committer.script = [Outcome.STALE]
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.heard("failed")
    await owned.told.until(lambda: not owned.owner.is_member)
    assert owned.owner.shards == {}
    assert owned.stores.now_open() == []
    count = len(owned.committer.transactions)
    await owned.assign(0)
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    assert len(owned.committer.transactions) > count


async def test_a_stale_owner_whose_transaction_could_not_be_ended_fences_itself_before_it_takes_over(
    owned: Any, make_job: Any
) -> None:
    await owned.assign(0)
    await owned.active(0)
    owned.committer.script = [Outcome.STALE]
    owned.committer.producer_lost = True
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.heard("failed")
    await owned.assign(0)
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    assert owned.committer.renewals == 1


async def test_an_unknown_outcome_renews_the_producer_reloads_and_loses_no_input(owned: Any, make_job: Any) -> None:
    await owned.assign(0, 1)
    await owned.active(0, 1)
    owned.committer.script = [Outcome.UNKNOWN]
    gate = Gate(owned)
    owned.deliver(0, 0, define(make_job, on(0)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    owned.deliver(0, 1, define(make_job, on(0, 1)))  # while the outcome is open
    owned.deliver(1, 0, define(make_job, on(1)))
    gate.opened.set()
    await owned.told.heard("failed")
    owned.deliver(0, 2, define(make_job, on(0, 2)))  # while it is loaded again
    await owned.told.until(lambda: len(owned.defined()) == 4)
    assert sorted(owned.defined()) == sorted([on(0), on(0, 1), on(0, 2), on(1)])
    assert owned.committer.renewals == 1
    assert owned.log.committed[owned.log.inputs[0]] == {0: 3, 1: 1}
    assert owned.committer.transactions[-1].writes[0].marker.headers[0] == ("x", b"tx-1")


async def test_a_poisoned_transaction_sets_aside_the_job_at_fault_and_no_other(
    owned: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.owner, "RETRY_PAUSE_S", 0.0)
    await owned.assign(0, 1)
    await owned.active(0, 1)
    bad = on(0, 3)

    def judge(transaction: Any) -> Outcome:
        keys = {record.key for write in transaction.writes for record in write.records}
        return Outcome.POISONED if b"s|" + bad.encode() in keys else Outcome.COMMITTED

    owned.committer.judge = judge
    for number in range(8):
        owned.deliver(0, number, define(make_job, on(0, number)))
    owned.deliver(1, 0, define(make_job, on(1)))
    good = {on(0, number) for number in range(8)} - {bad} | {on(1)}
    await owned.told.until(lambda: set(owned.defined()) == good and "quarantined" in owned.told.names)
    assert [detail[0] for name, detail in owned.told.details if name == "quarantined"] == [bad]
    owned.committer.judge = lambda _: Outcome.COMMITTED
    owned.deliver(0, 8, define(make_job, on(0, 8)))
    owned.deliver(1, 1, define(make_job, on(1, 1)))
    await owned.told.until(lambda: {on(0, 8), on(1, 1)} <= set(owned.defined()))


async def test_inputs_that_were_committed_after_all_are_not_decided_twice(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    owned.committer.script = [Outcome.UNKNOWN]

    def commits_unseen(_: Any) -> None:
        owned.log.committed[owned.log.inputs[0]][0] = 1
        owned.committer.begun = lambda _: None

    owned.committer.begun = commits_unseen
    owned.deliver(0, 0, define(make_job, on(0)))
    owned.deliver(0, 1, define(make_job, on(0, 1)))
    await owned.told.until(lambda: on(0, 1) in owned.defined())
    assert owned.defined() == [on(0, 1)]


async def test_nothing_is_loaded_again_under_a_generation_whose_assignment_has_not_come(
    owned: Any, make_job: Any
) -> None:
    await owned.assign(0)
    await owned.active(0)
    owned.committer.script = [Outcome.UNKNOWN]
    gate = Gate(owned)
    owned.deliver(0, 0, define(make_job, on(0)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    owned.live.generation += 1
    gate.opened.set()
    await owned.told.heard("no_membership")
    assert owned.owner.shards == owned.owner.recovering == {}
    await owned.owner.assigned([1])
    await owned.active(1)
    assert owned.owner.shards.keys() == {1}
    assert owned.committer.renewals == 1


async def test_a_renewal_that_the_broker_does_not_answer_is_tried_again(
    owned: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.owner, "UNREACHABLE_PAUSE_S", 0.0)
    await owned.assign(0)
    await owned.active(0)
    owned.committer.script = [Outcome.UNKNOWN]
    owned.committer.renewals_failing = 3
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    assert owned.told.names.count("unreachable") == 3
    assert owned.committer.renewals == 1
    assert owned.owner.failure is None


async def test_an_unknown_outcome_while_another_partition_is_taken_over_opens_no_store_twice(
    owned: Any, make_job: Any
) -> None:
    await owned.assign(0)
    await owned.active(0)
    gate = Gate(owned)
    owned.deliver(0, 0, define(make_job, on(0)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    owned.committer.script = [Outcome.UNKNOWN]
    revoked = asyncio.ensure_future(owned.owner.revoked())
    gate.opened.set()
    await asyncio.wait_for(revoked, WAIT_S)
    await owned.assign(0, 1)
    await owned.active(0, 1)
    assert sorted(owned.stores.now_open()) == [0, 1]
    assert owned.owner.failure is None
    assert owned.committer.renewals == 1


# --- the group moves on ---


async def test_a_revocation_waits_for_the_transaction_in_flight(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    gate = Gate(owned)
    owned.deliver(0, 0, define(make_job, on(0)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    revoked = asyncio.ensure_future(owned.owner.revoked())
    done, _ = await asyncio.wait([revoked], timeout=0)
    assert not done
    gate.opened.set()
    await asyncio.wait_for(revoked, WAIT_S)
    assert owned.defined() == [on(0)]
    assert owned.owner.shards == {}


async def test_nothing_is_committed_after_a_revocation(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    await owned.owner.revoked()
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.assign(1)
    await owned.active(1)
    assert owned.defined() == []


async def test_the_next_generation_of_the_same_member_keeps_its_state(owned: Any, make_job: Any) -> None:
    await owned.assign(0, 1)
    await owned.active(0, 1)
    shard = owned.owner.shards[0]
    await owned.owner.revoked()
    await owned.assign(0)
    assert owned.owner.shards == {0: shard}
    assert owned.stores.now_open() == [0]
    owned.deliver(0, 0, define(make_job, on(0)))
    await owned.told.until(lambda: owned.defined() == [on(0)])
    last = owned.committer.transactions[-1]
    assert last.membership.generation == 2
    assert [record.key for record in last.shared if record.topic.endswith("owners")] == [b"0"]


@pytest.mark.parametrize("change", ["generation", "member"])
async def test_a_generation_in_between_or_another_member_loads_everything_again(owned: Any, change: str) -> None:
    await owned.assign(0)
    await owned.active(0)
    shard = owned.owner.shards[0]
    await owned.owner.revoked()
    if change == "generation":
        owned.live.generation += 1
    else:
        owned.live.member_id = "other"
    await owned.assign(0)
    await owned.active(0)
    assert owned.owner.shards[0] is not shard
    assert owned.stores.now_open() == [0]


async def test_an_assignment_without_a_revocation_counts_as_both(owned: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    shard = owned.owner.shards[0]
    await owned.assign(0, 1)
    await owned.active(0, 1)
    assert owned.owner.shards[0] is shard
    assert sorted(owned.stores.now_open()) == [0, 1]
    owned.live.member_id = "other"
    await owned.assign(1)
    await owned.active(1)
    assert owned.stores.now_open() == [1]
    assert owned.owner.failure is None


@pytest.mark.parametrize("member_id", ["member", "other"])
async def test_what_arrives_while_an_assignment_without_a_revocation_waits_for_the_last_commit_is_not_lost(
    owned: Any, make_job: Any, member_id: str
) -> None:
    await owned.assign(0, 1)
    await owned.active(0, 1)
    gate = Gate(owned)
    owned.deliver(1, 0, define(make_job, on(1)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    owned.live.member_id = member_id
    assigned = asyncio.ensure_future(owned.assign(0))
    await asyncio.wait([assigned], timeout=0)
    owned.deliver(0, 0, define(make_job, on(0)))  # the source delivers for the new assignment already
    gate.opened.set()
    await asyncio.wait_for(assigned, WAIT_S)
    owned.deliver(0, 1, define(make_job, on(0, 1)))
    await owned.told.until(lambda: on(0, 1) in owned.defined())
    assert owned.defined() == [on(1), on(0), on(0, 1)]


async def test_an_assignment_without_a_membership_closes_everything_and_waits(owned: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    await owned.owner.revoked()
    owned.live.generation = -1
    await owned.owner.assigned([0])
    assert owned.told.names[-1] == "no_membership"
    assert (owned.owner.shards, owned.stores.now_open()) == ({}, [])
    owned.live.generation = 5
    await owned.owner.assigned([0])
    await owned.active(0)


async def test_a_take_over_that_was_overtaken_leaves_no_store_open(owned: Any) -> None:
    started, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    identity = owned.log.identity

    def slow_identity() -> LogIdentity:
        loop.call_soon_threadsafe(started.set)
        assert go_on.wait(WAIT_S)
        owned.log.identity = identity
        found: LogIdentity = identity()
        return found

    owned.log.identity = slow_identity
    await owned.assign(0, 1)
    await asyncio.wait_for(started.wait(), WAIT_S)
    await owned.owner.revoked()
    await owned.assign(0, 1)
    go_on.set()
    await owned.active(0, 1)
    assert sorted(owned.stores.now_open()) == [0, 1]
    assert owned.told.names.count("ready") == 1
    assert owned.owner.failure is None


async def test_the_next_take_over_begins_when_the_stores_of_the_overtaken_one_are_closed(
    owned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    open_at_start: list[list[int]] = []

    class Unwary(Takeover):
        """Does not notice that the assignment has moved on, as one that was just looking elsewhere."""

        def run(self, partitions: Any) -> Any:
            open_at_start.append(owned.stores.now_open())
            self._still_current = lambda: True
            found = super().run(partitions)
            if len(open_at_start) == 1:
                loop.call_soon_threadsafe(begun.set)
                assert go_on.wait(WAIT_S)
            return found

    monkeypatch.setattr(streams.owner, "Takeover", Unwary)
    await owned.assign(0)
    await asyncio.wait_for(begun.wait(), WAIT_S)
    await owned.owner.revoked()
    await owned.assign(0)
    go_on.set()
    await owned.active(0)
    assert open_at_start == [[], []]
    assert owned.stores.now_open() == [0]


async def test_every_store_is_closed_exactly_once_at_the_end(owned: Any) -> None:
    for _ in range(3):
        await owned.assign(0, 1)
        await owned.active(0, 1)
        await owned.owner.revoked()
        owned.live.generation += 1
    await owned.close()
    assert owned.stores.now_open() == []
    assert len(owned.stores.closes) == len(set(owned.stores.closes)) == len(owned.stores.opened)


# --- a broker that is away ---


async def test_a_take_over_goes_on_when_the_broker_comes_back(owned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.owner, "UNREACHABLE_PAUSE_S", 0.0)
    owned.log.unreachable = 7
    await owned.assign(0)
    await owned.active(0)
    assert owned.told.names.count("unreachable") == 7
    assert owned.stores.now_open() == [0]
    assert owned.owner.failure is None


async def test_a_take_over_is_not_tried_again_once_the_group_has_moved_on(
    owned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.owner, "UNREACHABLE_PAUSE_S", 0.0)
    owned.log.unreachable = 10**9
    await owned.assign(0)
    await owned.told.heard("unreachable")
    await owned.owner.revoked()
    owned.log.unreachable = 0
    await owned.assign(1)
    await owned.active(1)
    assert owned.owner.shards.keys() == {1}


async def test_an_unanswered_question_for_the_end_of_commands_is_asked_again(owned: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    shard = owned.owner.shards[0]
    owned.log.unreachable = 1
    shard.end_offset_wanted = True
    owned.owner.heard_demand(demand())
    await owned.told.heard("unreachable")
    assert owned.owner.failure is None
    shard.end_offset_wanted = True
    answered = asyncio.Event()
    commands_end = shard.commands_end

    def heard(asked_at_ms: int, end_offset: int) -> None:
        commands_end(asked_at_ms, end_offset)
        answered.set()

    shard.commands_end = heard
    owned.owner.heard_demand(demand())
    await asyncio.wait_for(answered.wait(), WAIT_S)
    assert owned.log.calls.count("input_ends") == 2


def demand() -> Any:
    from streams.core.envelopes import Demand  # noqa: PLC0415 - one use

    return Demand(gateway_id="g", incarnation="i", sent_at_ms=0, queues=())


# --- clocks ---


async def test_a_wall_clock_that_is_far_from_the_brokers_is_told_after_each_commit(owned: Any) -> None:
    broker_ms = 1_798_761_600_000  # the stamp of all records of the fake log
    owned.owner._runtime = msgspec.structs.replace(owned.owner._runtime, wall_ms=lambda: broker_ms + 3_600_000)
    await owned.assign(0)
    await owned.active(0)
    assert owned.told.skews
    assert owned.told.skews[-1] == pytest.approx(3_600_000, abs=WAIT_S * 1000)


async def test_a_take_over_that_is_given_up_says_no_more_how_far_it_is(owned: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    owned.owner._progressed(owned.owner._epoch - 1, Progress(1, 0, 5, 10))
    assert owned.owner.recovering == {}


# --- what must end the process ---


async def test_an_exception_of_a_decision_loop_ends_the_loop_and_is_told(owned: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    owned.owner.shards[0].collect = broken
    owned.owner.heard_demand(demand())
    done, _ = await asyncio.wait([owned.task], timeout=WAIT_S)
    assert done
    assert isinstance(owned.owner.failure, OSError)


async def test_an_exception_after_a_commit_ends_the_loop_and_frees_a_waiting_revocation(
    owned: Any, make_job: Any
) -> None:
    await owned.assign(0)
    await owned.active(0)
    gate = Gate(owned)
    owned.owner.shards[0].committed = broken
    owned.deliver(0, 0, define(make_job, on(0)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    revoked = asyncio.ensure_future(owned.owner.revoked())
    gate.opened.set()
    await asyncio.wait_for(revoked, WAIT_S)
    await asyncio.wait([owned.task], timeout=WAIT_S)
    assert isinstance(owned.owner.failure, OSError)


async def test_a_store_that_cannot_be_opened_ends_the_loop(owned: Any) -> None:
    owned.stores.open = broken
    owned.owner._runtime = msgspec.structs.replace(owned.owner._runtime, open_store=broken)
    await owned.assign(0)
    done, _ = await asyncio.wait([owned.task], timeout=WAIT_S)
    assert done
    assert isinstance(owned.owner.failure, OSError)


def broken(*_: Any) -> Any:
    raise OSError("the disk is full")


async def test_the_loop_sleeps_while_nothing_is_to_be_done(owned: Any) -> None:
    await owned.assign(0, 1)
    await owned.active(0, 1)
    await owned.owner._turn()
    assert owned.owner._wait_ms() > 1


# --- the watchdog's question ---


async def test_a_loop_that_no_longer_turns_counts_as_stalled(owned: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    assert owned.owner.stalled_ms() < WAIT_S * 1000
    owned.task.cancel()
    await asyncio.gather(owned.task, return_exceptions=True)
    owned.owner._turned_at_ms -= 60_000
    assert owned.owner.stalled_ms() >= 60_000


async def test_a_transaction_in_flight_is_no_stall_it_has_its_own_bounds(owned: Any, make_job: Any) -> None:
    await owned.assign(0)
    await owned.active(0)
    gate = Gate(owned)
    owned.deliver(0, 0, define(make_job, on(0)))
    await asyncio.wait_for(gate.entered.wait(), WAIT_S)
    owned.owner._turned_at_ms -= 60_000
    assert owned.owner.stalled_ms() == 0.0
    owned.owner._turned_at_ms -= IN_FLIGHT_MAX_MS  # the client does not come back, whatever its time-outs say
    assert owned.owner.stalled_ms() > IN_FLIGHT_MAX_MS
    gate.opened.set()


# --- the pace ---


async def halted(owned: Any, *partitions: int) -> None:
    """Take partitions over, with nothing left to sweep, and stop the loop: the test asks its parts itself."""
    await owned.assign(*partitions)
    await owned.active(*partitions)
    owned.task.cancel()
    await asyncio.gather(owned.task, return_exceptions=True)
    for shard in owned.owner.shards.values():
        shard._zone_sweep.done = True


@pytest.mark.parametrize(("decisions", "pause_ms"), [(0, 0.0), (4, 0.2), (400, 20.0), (800, 40.0), (100_000, 40.0)])
async def test_commits_follow_at_once_when_idle_and_batches_grow_when_busy(
    owned: Any, decisions: int, pause_ms: float
) -> None:
    owner = owned.owner
    owner._runtime = msgspec.structs.replace(owner._runtime, monotonic_ms=lambda: 1_000.0)
    owner._pace([Batch(partition=0, now_ms=0, decisions=decisions)], 1_000.0)
    assert owner._next_commit_ms == pytest.approx(1_000.0 + pause_ms)


async def test_the_decisions_of_a_turn_are_shared_out_among_busy_partitions(owned: Any, make_job: Any) -> None:
    await halted(owned, 0, 1)
    total = owned.settings.scheduler.tick_commands_max
    owned.owner._share_out()
    assert {shard.decisions_share for shard in owned.owner.shards.values()} == {total}
    for partition in (0, 1):
        owned.deliver(partition, 0, define(make_job, on(partition)))
    owned.owner._share_out()
    assert {shard.decisions_share for shard in owned.owner.shards.values()} == {total // 2}


@pytest.mark.parametrize(
    ("due_in_ms", "waited_ms", "deciding"),
    [
        (-1, 0, {1}),  # a run is due on 1: it does not wait for the inputs of 0
        (-1, INPUTS_WAIT_MS, {0, 1}),  # nor do these wait for ever
        (COMMIT_MS - 5, 0, set()),  # it would fall due during their commit
        (COMMIT_MS + 100, 0, {0}),  # nothing else to do
    ],
)
async def test_inputs_alone_wait_a_little_while_runs_of_other_partitions_are_due(
    owned: Any,
    make_job: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    due_in_ms: int,
    waited_ms: int,
    deciding: set[int],
) -> None:
    await halted(owned, 0, 1)
    owner = owned.owner
    now_ms = owner._runtime.monotonic_ms()
    second = owner.shards[1]
    due_at_ms = second.clock.now_ms(now_ms) + due_in_ms
    monkeypatch.setattr(second, "next_collect_ms", lambda: due_at_ms)
    monkeypatch.setattr(second, "urgent", lambda at_ms: second.clock.now_ms(at_ms) >= due_at_ms)
    owned.deliver(0, 0, define(make_job, on(0)))
    owner._arrived_ms[0] = now_ms - waited_ms

    assert {shard.partition for shard in owner._taking_part(now_ms)} == deciding


async def test_the_loop_sleeps_until_waiting_inputs_have_their_turn(
    owned: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await halted(owned, 0, 1)
    owner = owned.owner
    now_ms = owner._runtime.monotonic_ms()
    owner._runtime = msgspec.structs.replace(owner._runtime, monotonic_ms=lambda: now_ms)
    owner._next_commit_ms = 0.0
    due_at_ms = owner.shards[1].clock.now_ms(now_ms) + COMMIT_MS - 2
    monkeypatch.setattr(owner.shards[1], "next_collect_ms", lambda: due_at_ms)
    owned.deliver(0, 0, define(make_job, on(0)))
    owner._arrived_ms[0] = now_ms - INPUTS_WAIT_MS + 3

    assert owner._wait_ms() == pytest.approx(3)


# --- what others must know ---


async def test_what_counts_against_limits_is_told_in_topic_owners_though_nothing_else_is_to_commit(
    owned: Any, make_job: Any
) -> None:
    owned.owner.heard_limit("tenant|a", encode("TenantConfig", {"tenant": "a", "pending_max": 5}))
    await owned.assign(0, 1)
    await owned.active(0, 1)
    later = [define(lambda name: make_job(name, at_ms=2**42), on(0, number)) for number in range(2)]
    owned.deliver(0, 0, *later)

    def said() -> list[OwnerView]:
        shared = [record for transaction in owned.committer.transactions for record in transaction.shared]
        views = [decode_owner_view(record.value) for record in shared if record.topic.endswith("owners")]
        return [view for view in views if view.pending]

    await owned.told.until(lambda: bool(said()))
    (view,) = said()
    assert (view.partition, view.pending) == (0, (TenantPending(tenant="a", pending=2),))
    first = decode_owner_view(owned.committer.transactions[0].shared[0].value)
    assert view.since_ms == first.since_ms, "the owner acts since then still"


async def test_a_queue_at_its_bound_is_not_offered(owned: Any, make_job: Any) -> None:
    record = {"tenant": "a", "queue": "q", "running_max": 0}
    owned.owner.heard_limit("queue|a|q", encode("QueueConfig", record))
    queues = (QueueDemand(tenant="a", queue="q", slots=5),)
    await owned.assign(0, 1)
    await owned.active(0, 1)
    owned.owner.heard_demand(Demand(gateway_id="g", incarnation="i", sent_at_ms=0, queues=queues))
    owned.deliver(0, 0, define(lambda name: make_job(name, at_ms=1), on(0)))
    await owned.told.until(lambda: bool(owned.owner.shards[0].store.counts.ready))
    owned.owner._offer(owned.owner._runtime.monotonic_ms())
    assert owned.offers == []
    owned.owner.heard_limit("queue|a|q", None)
    owned.owner._offer(owned.owner._runtime.monotonic_ms())
    assert len(owned.offers) == 1


def limit_key(owned: Any, running_max: int) -> None:
    record = {"tenant": "a", "key": "k", "running_max": running_max}
    owned.owner.heard_limit("concurrency|a|k", encode("ConcurrencyConfig", record))


async def test_what_waits_for_a_key_is_told_and_its_room_is_offered_once_in_all_partitions(
    owned: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_key(owned, 1)
    await owned.assign(0, 1)
    await owned.active(0, 1)
    for partition in (0, 1):
        job = define(lambda name: make_job(name, at_ms=1, concurrency_key="k", concurrency_weight=1), on(partition))
        owned.deliver(partition, 0, job)

    def said() -> set[int]:
        shared = [record for transaction in owned.committer.transactions for record in transaction.shared]
        views = [decode_owner_view(record.value) for record in shared if record.topic.endswith("owners")]
        waits = KeyRunning(tenant="a", key="k", units=0, weight=1)
        return {view.partition for view in views if view.keys == (waits,)}

    await owned.told.until(lambda: said() == {0, 1})
    owned.task.cancel()
    await asyncio.gather(owned.task, return_exceptions=True)
    owner = owned.owner
    monkeypatch.setattr(owner.demand, "forget_silent", lambda _: None)
    queues = (QueueDemand(tenant="a", queue="q", slots=5),)
    owner.heard_demand(Demand(gateway_id="g", incarnation="i", sent_at_ms=0, queues=queues))
    served: set[int] = set()
    now_ms = owner._runtime.monotonic_ms()
    for _ in range(50):
        owned.offers.clear()
        now_ms += OFFER_TTL_MS  # the offer before lapses, and gives its unit back
        owner._offer(now_ms)
        owner._offer(now_ms)
        assert sum(len(offers.offers) for offers in owned.offers) == 1, "one unit, whoever asks"
        served.update(offers.partition for offers in owned.offers)
    assert served == {0, 1}, "no partition is always behind the other"


async def test_the_loop_sleeps_while_its_inputs_are_held_for_a_calendar(
    owned: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await halted(owned, 0)
    shard = owned.owner.shards[0]
    owned.deliver(0, 0, define(make_job, on(0)))
    owned.owner._next_commit_ms = 0.0
    assert owned.owner._wait_ms() == 0.0

    monkeypatch.setattr(type(shard), "has_inputs", property(lambda _: False))

    assert owned.owner._wait_ms() > 0.0
    assert owned.owner._taking_part(owned.owner._runtime.monotonic_ms()) == []
