"""The goal: no guard of DESIGN section 15 is there for nothing, and none can be lost unseen. The method: take one
away, run simulated fleets under many faults, and see the checker report the very violation that the guard prevents.

Two guards stand behind each other: records flushed before the offsets, and an offset for every partition. Either one
makes a successor wait for a transaction that was frozen before its commit; with neither, a paused owner writes behind
its back. The flush alone is no guard in any schedule (docs/invariants.md has the argument), so it is taken away where
the other one is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import streams.shard
import streams.transaction
from streams.core.commands import Complete, Fail, LeaseRun, Release, Wake
from streams.core.decide import decide
from streams.inbox import Inbox
from streams.takeover import Takeover
from streams.transaction import KafkaCommitter
from tests.simulation.harness.scenario import Fleet, Plan, live_through, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.commands import AnyCommand
    from streams.core.context import Context, Decision
    from streams.core.state import Job
    from tests.simulation.harness.owner_process import OwnerProcess

    Decide = Callable[[Job | None, AnyCommand, Context], Decision]

SEEDS = range(200, 206)
"""A mutation must be found in one of these; most are in the first."""


GASP_AFTER_MS = 9_500.0
"""Behind the session time-out and a rebalance, and before the broker aborts the open transaction by itself."""

GASP_MS = 5.0
"""Two requests of a commit take less; a reload, or another transaction, more."""


def hot(seed: int) -> Plan:
    """Give a short life full of faults."""
    return Plan(seed=seed, hours=0.1, heal_ms=20_000, fault_every_ms=7_000, change_every_ms=5_000)


def restless(seed: int) -> Plan:
    """Give one full of edits."""
    return Plan(seed=seed, hours=0.06, heal_ms=5_000, fault_every_ms=60_000, change_every_ms=150)


def sleepy(seed: int) -> Plan:
    """Give one full of workers that sleep through their lease and go on afterwards."""
    return Plan(seed=seed, hours=0.15, heal_ms=5_000, fault_every_ms=60_000, worker_sleeps=0.5, slow=0.6)


class LastGasp(Fleet):
    """A fleet whose owners freeze when all but the commit is done, are woken when others have taken over, and die when
    that commit is through: what they would do next is the business of other guards.
    """

    def _kinds(self) -> dict[Callable[[], None], int]:
        return {self._freeze_before_commit: 1}

    def _freeze_before_commit(self) -> None:
        owner = self._any_owner()
        if owner is not None:
            owner.trap.set("commit", lambda: self._freeze_wake_and_kill(owner))

    def _freeze_wake_and_kill(self, owner: OwnerProcess) -> None:
        if not owner.process.dead:
            self._book("owner_freeze", GASP_AFTER_MS, owner.name)
            owner.freeze()
            self.world.at(GASP_AFTER_MS, owner.thaw)
            self.world.at(GASP_AFTER_MS + GASP_MS, lambda: self._kill_owner(owner))


def last_gasps() -> set[str]:
    """Give the invariants that report a stale owner in such fleets."""
    found: set[str] = set()
    for seed in SEEDS[:4]:
        result = live_through(LastGasp(Plan(seed=seed, hours=0.1, heal_ms=20_000, fault_every_ms=10_000)))
        found.update(v.invariant for v in result.report.violations if "generation went back" in v.message)
    return found


def found_by(phrase: str, plan: Callable[[int], Plan] = hot) -> tuple[str, int]:
    """Give the invariant that reported the phrase, and the seed; or what else was found."""
    for seed in SEEDS:
        result = simulate(plan(seed))
        for violation in result.report.violations:
            if phrase in violation.message:
                return violation.invariant, seed
    return "nothing found", -1


def mutated(monkeypatch: pytest.MonkeyPatch, change: Callable[[Decide], Decide]) -> None:
    monkeypatch.setattr(streams.shard, "decide", change(decide))


PHRASES = (
    "was acknowledged, but is not in the log",
    "before its time by the broker's stamp",
    "leased on an offer of version",
    "although it was heard from",
    "generation went back",
    "is followed by",
    "answered 2 times",
)


@pytest.mark.parametrize("plan", [hot, restless, sleepy])
def test_with_all_guards_in_place_none_of_it_is_found(plan: Callable[[int], Plan]) -> None:
    report = simulate(plan(SEEDS[0])).report

    assert [v.message for v in report.violations if any(phrase in v.message for phrase in PHRASES)] == []


def any_token(wrapped: Decide) -> Decide:
    """Accept a completion under whatever token lives."""

    def decide_(job: Job | None, command: AnyCommand, context: Context) -> Decision:
        if isinstance(command, Complete | Fail | Release) and job is not None:
            run = job.run(command.run_id)
            if run is not None and run.lease is not None:
                command = msgspec.structs.replace(command, lease_token=run.lease.lease_token)
        return wrapped(job, command, context)

    return decide_


def clock_ahead(wrapped: Decide) -> Decide:
    """Judge due times by a clock that runs a second ahead."""

    def decide_(job: Job | None, command: AnyCommand, context: Context) -> Decision:
        return wrapped(job, command, msgspec.structs.replace(context, now_ms=context.now_ms + 1_000))

    return decide_


def any_version(wrapped: Decide) -> Decide:
    """Grant on offers of any version."""

    def decide_(job: Job | None, command: AnyCommand, context: Context) -> Decision:
        if isinstance(command, LeaseRun):
            command = msgspec.structs.replace(command, job_version=0)
        return wrapped(job, command, context)

    return decide_


def no_evidence(wrapped: Decide) -> Decide:
    """Expire by the logged end alone: no heartbeats, no look at what was not consumed yet."""

    def decide_(job: Job | None, command: AnyCommand, context: Context) -> Decision:
        if isinstance(command, Wake):
            context = msgspec.structs.replace(context, heartbeats={}, consumed_to_ms=context.now_ms + 1)
        return wrapped(job, command, context)

    return decide_


def no_takeover_grace(wrapped: Decide) -> Decide:
    """Expire without the visibility that a take-over adds."""

    def decide_(job: Job | None, command: AnyCommand, context: Context) -> Decision:
        return wrapped(job, command, msgspec.structs.replace(context, takeover_at_ms=0))

    return decide_


@pytest.mark.parametrize(
    ("guard", "plan", "invariant", "phrase"),
    [
        (any_token, sleepy, "I5", "was acknowledged, but is not in the log"),
        (clock_ahead, hot, "I1", "before its time by the broker's stamp"),
        (any_version, restless, "I13", "leased on an offer of version"),
        (no_evidence, hot, "I10", "although it was heard from"),
        (no_takeover_grace, hot, "I10", "although it was heard from"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_decision_without_its_guard_is_found(
    monkeypatch: pytest.MonkeyPatch,
    guard: Callable[[Decide], Decide],
    plan: Callable[[int], Plan],
    invariant: str,
    phrase: str,
) -> None:
    mutated(monkeypatch, guard)

    assert found_by(phrase, plan)[0] == invariant


def test_without_the_generation_a_stale_owner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    unchecked = b"CGMDv2:\xff\xff\xff\xff" + b"group\0" + b"\0" + b"\x01"
    monkeypatch.setattr(streams.transaction, "group_metadata", lambda _membership: unchecked)

    assert found_by("generation went back")[0] == "I6"


def only_consumed_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send offsets only for partitions in which something was consumed."""
    send_all = KafkaCommitter._send_offsets
    last: dict[tuple[int, str, int], int] = {}

    def send_some(self: KafkaCommitter, transaction: Any) -> None:
        writes = []
        for write in transaction.writes:
            moved = {t: o for t, o in write.offsets.items() if last.get((id(self), t, write.partition), -1) != o}
            last.update({(id(self), t, write.partition): o for t, o in moved.items()})
            if moved:
                writes.append(write._replace(offsets=moved))
        if writes:
            send_all(self, msgspec.structs.replace(transaction, writes=writes))

    monkeypatch.setattr(KafkaCommitter, "_send_offsets", send_some)


def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the records in the client until the commit, as librdkafka does by itself."""
    monkeypatch.setattr(KafkaCommitter, "_flush", lambda _self, _transaction, _receipts, _refused: None)


def test_without_an_offset_for_every_partition_a_stale_owner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    only_consumed_offsets(monkeypatch)

    assert found_by("generation went back")[0] == "I6"


def test_the_flush_protects_where_an_owner_freezes_between_offsets_and_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush shows a successor that a transaction is open, where no offset does (docs/invariants.md)."""
    only_consumed_offsets(monkeypatch)
    with_flush = last_gasps()
    no_flush(monkeypatch)
    without_flush = last_gasps()

    assert with_flush == set()
    assert without_flush == {"I6"}


def test_without_the_floor_repeated_commands_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Inbox.__init__

    def begin_at_zero(self: Inbox, floors: Any) -> None:
        begin(self, floors)
        self._next_delivery = dict.fromkeys(floors, 0)

    monkeypatch.setattr(Inbox, "__init__", begin_at_zero)

    assert found_by("answered 2 times")[0] == "I7"


def test_without_waiting_for_open_transactions_a_takeover_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def now(self: Takeover, partitions: list[int]) -> dict[int, int]:
        return self._log.ledger_ends(partitions, stable=True)

    def unstable(self: Takeover, partitions: list[int]) -> dict[int, dict[str, int]]:
        log: Any = self._log
        committed = log._broker.committed
        return {p: {s: committed[t, p] for t, s in self._input_topics.items()} for p in partitions}

    monkeypatch.setattr(Takeover, "_wait_stable", now)
    monkeypatch.setattr(Takeover, "_stable_floors", unstable)

    assert found_by("is followed by")[0] == "I6"
