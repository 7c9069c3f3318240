"""Limits over all partitions: what counts, what is admitted, and what several processes may start at once."""

from __future__ import annotations

import itertools
import random
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from schemas.codec import encode
from streams.core.commands import Complete, Define, Delete, Fail, Grant, Pause, Release, Resume, Trigger
from streams.core.deadline import ready_runs
from streams.core.envelopes import Demand, OwnerView, QueueDemand, TenantPending
from streams.core.wire import decode_state
from streams.demand import DemandTable
from streams.limits import SETTLE_MS, TELL_EVERY_MS, Limits
from streams.sealing import STATE_PREFIX
from streams.shard import DEAD_LETTERS_MAX
from streams.store.interface import LedgerChange, LedgerRecord, ReadyKey, StoreIdentity
from streams.store.memory import MemoryStore
from streams.store.rocks import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streams.store.interface import Store

IDENTITY = StoreIdentity(cluster_id="c", topic_id="t", partition=0)
MINUTE_MS = 60_000


def cap(limits: Limits, tenant: str, pending_max: int | None) -> None:
    limits.heard_config(f"tenant|{tenant}", encode("TenantConfig", {"tenant": tenant, "pending_max": pending_max}))


def bound(limits: Limits, queue: str, running_max: int | None, tenant: str = "a") -> None:
    record = {"tenant": tenant, "queue": queue, "running_max": running_max}
    limits.heard_config(f"queue|{tenant}|{queue}", encode("QueueConfig", record))


def bound_key(limits: Limits, key: str, running_max: int | None, tenant: str = "a") -> None:
    record = {"tenant": tenant, "key": key, "running_max": running_max}
    limits.heard_config(f"concurrency|{tenant}|{key}", encode("ConcurrencyConfig", record))


def view(
    partition: int, owner: str = "other", pending: dict[str, int] | None = None, running: Any = (), keys: Any = ()
) -> OwnerView:
    return OwnerView(
        partition=partition,
        generation=1,
        member_id="m",
        transactional_id=owner,
        query_url="",
        since_ms=0,
        pending=tuple(TenantPending(tenant=tenant, pending=count) for tenant, count in (pending or {}).items()),
        running=running,
        keys=keys,
    )


# --- what counts ---


def recounted(states: list[bytes]) -> dict[bytes, int]:
    """The totals by the words of docs/guarantees.md, from nothing but the states."""
    totals: dict[bytes, int] = {}
    for state in map(decode_state, states):
        pending = sum(run.lease is None for run in state.open)
        pending += state.status == "active" and state.next_at_ms is not None
        leased = sum(run.lease is not None for run in state.open)
        counts = [(f"p{state.tenant}", pending), (f"l{state.tenant}\0{state.queue}", leased)]
        if state.concurrency_key:
            name, weight = f"{state.tenant}\0{state.concurrency_key}", state.concurrency_weight
            waits = len(ready_runs(state))
            counts += [(f"u{name}", leased * weight), (f"w{name}{chr(weight)}", waits)]
        for key, count in counts:
            totals[key.encode()] = totals.get(key.encode(), 0) + count
    return {key: count for key, count in totals.items() if count}


class Scramble:
    """Random work on some jobs of two tenants and two queues."""

    def __init__(self, rig: Any, make_job: Any, seed: int) -> None:
        self.rig, self.make_job, self.rng = rig, make_job, random.Random(seed)  # noqa: S311 - no secret
        self.records: list[LedgerRecord] = []

    def step(self) -> None:
        rig, rng = self.rig, self.rng
        job_id = f"j{rng.randrange(6)}"
        request = {"job_id": job_id, "request_id": rig.request()}
        job = rig.shard.job(job_id)
        held = [run for run in job.state.open if run.lease] if job else []
        ready = [run for run in job.state.open if not run.lease] if job else []
        match rng.choice(("define", "lease", "lease", "end", "end", "pause", "resume", "trigger", "delete", "time")):
            case "define":
                fields: dict[str, Any] = {
                    "tenant": f"t{job_id[1]}",
                    "queue": rng.choice("qr"),
                    "payload": rng.randbytes(2),
                }
                if rng.random() < 0.5:
                    fields["at_ms"] = rig.now_ms + rng.choice((-MINUTE_MS, 1_000, MINUTE_MS))
                fields["overlap"] = rng.choice(("skip", "queue", "replace"))
                if rng.random() < 0.7:
                    fields["concurrency_key"] = rng.choice("kl")
                    fields["concurrency_weight"] = rng.choice((0, 1, 3))
                definition = self.make_job(job_id, **fields)
                rig.send(Define(**request, definition=definition, request_hash=str(rng.random())))
            case "lease" if ready:
                lease = msgspec.structs.replace(rig.lease(job_id, rig.now_ms), run_id=ready[0].run_id)
                rig.send(lease)
            case "end" if held:
                kind = rng.choice((Complete, Fail, Release))
                rig.send(kind(**request, run_id=held[0].run_id, lease_token=held[0].lease.lease_token))
            case "pause":
                rig.send(Pause(**request, until_ms=rng.choice((0, rig.now_ms + 5_000))))
            case "resume":
                rig.send(Resume(**request))
            case "trigger":
                rig.send(Trigger(**request, trigger_id=f"x{rng.random()}", force=rng.random() < 0.5))
            case "delete":
                rig.send(Delete(**request))
            case _:
                rig.advance(rng.choice((1_000, MINUTE_MS, 60 * MINUTE_MS)))
                rig.shard.commands_end(rig.now_ms, rig.shard.inbox.consumed["commands"])

    def turn(self) -> None:
        """Collect; commit, or now and then abort; keep what would stand in the ledger."""
        batch = self.rig.collect()
        if batch is None:
            return
        if self.rng.random() < 0.2:
            self.rig.shard.rolled_back(batch)
            return
        for record in batch.write.records:
            if record.key.startswith(STATE_PREFIX):
                headers = dict(record.headers or [])
                self.records.append(LedgerRecord("s", record.key[2:].decode(), record.value, headers.get("i", b"")))
        self.rig.commit(batch)


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore(IDENTITY) if request.param == "memory" else open_store(tmp_path / "p", IDENTITY, 0, 1)[0]
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(4))
def test_the_running_totals_are_a_full_recount_at_every_commit_and_after_a_take_over(
    make_rig: Any, make_job: Any, store: Store, seed: int
) -> None:
    rig = make_rig(store=store)
    work = Scramble(rig, make_job, seed)
    counted: set[bytes] = set()
    for _ in range(300):
        work.step()
        work.turn()
        assert store.tallies.totals == recounted([state for _, state in store.jobs(None, 100)])
        counted.update(store.tallies.totals)
        assert_weights_follow(store)
    successor = MemoryStore(IDENTITY)
    successor.load(work.records, ledger_offset=1, now_ms=0)
    assert successor.tallies.totals == store.tallies.totals
    assert_weights_follow(successor)
    assert {key[:1] for key in counted} == {b"p", b"l", b"u", b"w"}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_told_is_a_full_recount_of_what_has_a_limit(
    make_rig: Any, make_job: Any, store: Store, seed: int
) -> None:
    """Limits come and go while runs wait, run and end; nothing is told of what has none."""
    rig = make_rig(store=store)
    work, rng = Scramble(rig, make_job, seed), random.Random(seed)  # noqa: S311 - no secret
    limits = Limits()
    caps: dict[str, int] = {}
    queues: dict[tuple[str, str], int] = {}
    keys: dict[tuple[str, str], int] = {}
    told: set[str] = set()
    for _ in range(200):
        work.step()
        work.turn()
        tenant, name, limit = rng.choice(TENANTS), rng.choice("qrkl"), rng.choice((None, 0, 2, 9))
        _put(caps, tenant, limit)
        cap(limits, tenant, limit)
        if name in "qr":
            _put(queues, (tenant, name), limit)
            bound(limits, name, limit, tenant)
        else:
            _put(keys, (tenant, name), limit)
            bound_key(limits, name, limit, tenant)
        limits.begin_turn({0: store}, 0, 0)
        limits.note_waiting()
        word = limits.word(0, store)
        states = [decode_state(state) for _, state in store.jobs(None, 100)]
        totals = recounted([state for _, state in store.jobs(None, 100)])
        assert {one.tenant: one.pending for one in word.pending} == {
            tenant: totals[f"p{tenant}".encode()] for tenant in caps if f"p{tenant}".encode() in totals
        }
        said = {(one.tenant, one.queue): (one.running, one.waiting) for one in word.running}
        expected = {}
        for tenant, queue in queues:
            waits = any(ready_runs(state) for state in states if (state.tenant, state.queue) == (tenant, queue))
            if (leased := totals.get(f"l{tenant}\0{queue}".encode(), 0)) or waits:
                expected[tenant, queue] = (leased, waits)
        assert said == expected
        told.update(f"queue {leased > 0} {waits}" for leased, waits in said.values())
        units_said = {(one.tenant, one.key): (one.units, one.weight) for one in word.keys}
        of_key = {}
        for (tenant, key), at_most in keys.items():
            weight = store.tallies.waiting_weight(tenant, key, at_most)
            if (units := totals.get(f"u{tenant}\0{key}".encode(), 0)) or weight:
                of_key[tenant, key] = (units, weight)
        assert units_said == of_key
        told.update(f"key {units > 0} {weight > 0}" for units, weight in units_said.values())
    assert told >= {f"{kind} {one}" for kind in ("queue", "key") for one in ("True False", "False True")}


TENANTS = tuple(f"t{number}" for number in range(6))


def _put(limits: dict[Any, int], name: Any, limit: int | None) -> None:
    if limit is None:
        limits.pop(name, None)
    else:
        limits[name] = limit


def test_what_limits_cost_depends_on_what_they_meet_and_not_on_how_many_there_are(store: Store) -> None:
    """A scheduler has 16 partitions, and looks at the limits some hundred times a second."""
    demand = DemandTable()
    demand.update(_said(("q", 1), ("r", 1)), 0)
    ready = (ReadyKey("a", "q", 1, 0, "r1", "j", "k", 1), ReadyKey("a", "q", 1, 0, "r2", "j", "k", 1))
    fields: dict[str, Any] = {"tenant": "a", "queue": "q", "concurrency_key": "k", "weight": 1}
    change = LedgerChange("j", state=b"", pending=2, leased=1, ready=ready, **fields)
    store.apply([change], ledger_offset=1, now_ms=0)
    calls = []
    for count in (1, 400):
        limits = Limits()
        for number in range(count):
            cap(limits, f"a{number or ''}", 5)
            bound(limits, f"q{number or ''}", 5)
            bound_key(limits, f"k{number or ''}", 5)
        limits.heard_owner(1, view(1))
        limits.begin_turn({0: store}, 0, 0)
        limits.note_waiting()
        calls.append(_calls_of(limits, demand, store))
        word = limits.word(0, store)
        assert ([one.queue for one in word.running], [one.key for one in word.keys]) == (["q"], ["k"])
    assert calls[0] == calls[1]


def _calls_of(limits: Limits, demand: DemandTable, store: Store) -> int:
    """Count the calls, in Python and in C, of what is done each turn and each second."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        limits.begin_turn({0: store}, 0, 0)
        limits.note_waiting()
        limits.has_news(0, store)
        for queue in demand.queues():
            limits.queue_room(*queue)
    finally:
        sys.setprofile(None)
    return calls


def assert_weights_follow(store: Store) -> None:
    """The largest weight that waits is what the totals say."""
    for tenant, key in itertools.product(("t0", "t1", "t2"), "kl"):
        name = f"w{tenant}\0{key}".encode()
        weights = [total[-1] for total in store.tallies.totals if total[:-1] == name]
        assert store.tallies.waiting_weight(tenant, key, 100) == max(weights, default=0)


def test_a_one_off_is_pending_until_a_worker_has_it_and_again_while_it_waits_for_its_retry(
    rig: Any, make_job: Any
) -> None:
    at_ms = rig.now_ms + 1_000
    rig.define(make_job("j", at_ms=at_ms))
    rig.run()
    assert rig.store.tallies.pending("a") == 1
    rig.advance(1_000)
    rig.run()
    assert rig.store.tallies.pending("a") == 1
    request = rig.lease("j", at_ms)
    rig.send(request)
    rig.run()
    assert (rig.store.tallies.pending("a"), rig.store.tallies.leased("a", "q")) == (0, 1)
    grant = rig.grant(request.request_id)
    rig.send(Fail(job_id="j", request_id="f", run_id=grant.run_id, lease_token=grant.lease_token))
    rig.run()
    assert (rig.store.tallies.pending("a"), rig.store.tallies.leased("a", "q")) == (1, 0)


# --- the cap on what is pending ---


def test_a_definition_from_kafka_beyond_the_cap_is_a_small_dead_letter(rig: Any, make_job: Any) -> None:
    cap(rig.limits, "a", 2)
    items = [rig.publish(make_job(f"j{n}")) for n in range(4)]
    rig.publish(make_job("other", tenant="b"))
    rig.run()
    letters = [(letter.code, letter.field, letter.key, letter.source_offset) for letter in rig.dead_letters]
    assert letters == [("quota", "tenant", b"j2", items[2].offset), ("quota", "tenant", b"j3", items[3].offset)]
    assert rig.dead_letters[0].value is None
    assert "which is its cap" in rig.dead_letters[0].reason
    assert [job_id for job_id, _ in rig.store.jobs(None, 10)] == ["j0", "j1", "other"]


def test_only_new_jobs_meet_the_cap(rig: Any, make_job: Any) -> None:
    rig.publish(make_job("j"))
    rig.run()
    cap(rig.limits, "a", 0)
    rig.publish(make_job("j", lane="high"))
    rig.run()
    assert rig.shard.job("j").state.version == 2
    rig.push("definitions", b"j", None)
    rig.run()
    rig.publish(make_job("j", lane="low"))
    rig.run()
    assert [letter.code for letter in rig.dead_letters] == ["quota"], "a deleted job would be a new one"
    rig.define(make_job("by-http"))
    rig.run()
    assert rig.shard.job("by-http") is not None, "calls are the gateways' to refuse"


def test_room_comes_back_when_a_run_is_leased_or_the_cap_is_lifted(rig: Any, make_job: Any) -> None:
    cap(rig.limits, "a", 1)
    at_ms = rig.now_ms + 1_000
    rig.publish(make_job("j0", at_ms=at_ms))
    rig.publish(make_job("j1"))
    rig.run()
    rig.advance(1_000)
    rig.run()
    rig.send(rig.lease("j0", at_ms))
    rig.run()
    rig.publish(make_job("j2"))
    rig.publish(make_job("j3"))
    rig.run()
    cap(rig.limits, "a", None)
    rig.publish(make_job("j4"))
    rig.run()
    assert [letter.key for letter in rig.dead_letters] == [b"j1", b"j3"]
    assert rig.shard.job("j2") is not None
    assert rig.shard.job("j4") is not None


def test_a_flood_beyond_the_cap_holds_up_nobody_behind_it(rig: Any, make_job: Any) -> None:
    """Refusals cost a decision each, not a place among the few dead letters that a batch may hold."""
    cap(rig.limits, "a", 0)
    for n in range(3 * DEAD_LETTERS_MAX):
        rig.publish(make_job(f"j{n}"))
    rig.define(make_job("other", tenant="b"))
    rig.turn()
    assert len(rig.dead_letters) == 3 * DEAD_LETTERS_MAX
    assert rig.shard.job("other") is not None


def test_what_other_partitions_hold_counts_and_what_this_process_holds_counts_once() -> None:
    limits, store = Limits(), MemoryStore(IDENTITY)
    cap(limits, "a", 10)
    store.apply([LedgerChange("j", state=b"", tenant="a", pending=3)], ledger_offset=1, now_ms=0)
    limits.heard_owner(0, view(0, pending={"a": 9}))
    limits.heard_owner(1, view(1, pending={"a": 9}))
    limits.heard_owner(1, view(1, pending={"a": 5, "b": 7}))
    limits.begin_turn({0: store}, 0, 0)
    assert [limits.admits("a") for _ in range(3)] == [True, True, False]
    limits.heard_owner(1, None)
    limits.begin_turn({0: store}, 0, 0)
    assert [limits.admits("a") for _ in range(8)] == [True] * 7 + [False]


def test_what_cannot_be_read_limits_nothing_and_changes_nothing() -> None:
    limits = Limits()
    cap(limits, "a", 1)
    limits.heard_config("tenant|a", b"rubbish")
    limits.heard_config("calendar|a|x", b"rubbish")
    assert limits.pending_cap("a") == 1
    limits.heard_config("tenant|a", None)
    assert limits.pending_cap("a") is None


# --- the bound on running runs ---


def test_no_more_runs_of_a_queue_are_granted_than_its_bound(rig: Any, make_job: Any) -> None:
    bound(rig.limits, "q", 2)
    at_ms = rig.now_ms + 1_000
    for n in range(3):
        rig.define(make_job(f"j{n}", at_ms=at_ms))
    rig.run()
    rig.advance(1_000)
    rig.run()
    requests = [rig.lease(f"j{n}", at_ms) for n in range(3)]
    rig.send(*requests)
    rig.run()
    granted = [rig.grant(request.request_id) for request in requests[:2]]
    assert rig.reply(requests[2].request_id).code == "not_leasable"
    assert rig.store.tallies.leased("a", "q") == 2

    rig.send(*requests[:1])
    rig.run()
    assert isinstance(rig.answers[requests[0].request_id], Grant), "a repeat is the same grant and takes no place"
    rig.want()
    assert rig.offered() == [], "nothing is offered that could not start"
    done = Complete(job_id="j0", request_id="c", run_id=granted[0].run_id, lease_token=granted[0].lease_token)
    rig.send(done)
    rig.run()
    rig.count()
    assert rig.offered() == [requests[2].run_id]
    again = rig.lease("j2", at_ms)
    rig.send(again)
    rig.run()
    assert rig.grant(again.request_id).run_id == requests[2].run_id


class Process:
    """One owner process with one partition, whose runs start at once and end as told; each has a weight."""

    def __init__(self, name: str, partition: int, key: str = "") -> None:
        self.limits, self.partition, self.key = Limits(), partition, key
        self.limits.own_name = name
        self.store = MemoryStore(IDENTITY)
        self.running: list[int] = []
        self.waiting: list[int] = []
        self._offset = 0

    def set(self, running: list[int], waiting: list[int]) -> None:
        weights = {*running, *waiting, *self.running, *self.waiting}
        self.running, self.waiting = running, waiting
        self._offset += 1
        changes = [self._change(weight, running.count(weight), waiting.count(weight)) for weight in weights]
        self.store.apply(changes, ledger_offset=self._offset, now_ms=0)

    def _change(self, weight: int, running: int, waiting: int) -> LedgerChange:
        """One job has all runs of a weight."""
        job_id, bound = f"j{weight}", (self.key, weight if self.key else 0)
        ready = tuple(ReadyKey("a", "q", 1, 0, f"r{n}", job_id, *bound) for n in range(waiting))
        return LedgerChange(
            job_id,
            state=b"",
            tenant="a",
            queue="q",
            leased=running,
            ready=ready,
            concurrency_key=bound[0],
            weight=bound[1],
        )

    def turn(self, now_ms: int) -> None:
        """Start as many of the waiting runs as may be, in their order."""
        self.limits.begin_turn({self.partition: self.store}, now_ms, now_ms)
        started = 0
        while started < len(self.waiting):
            if self.limits.may_run("a", "q", self.key, self.waiting[started]) is not None:
                break
            started += 1
        self.set(self.running + self.waiting[:started], self.waiting[started:])

    def word(self, now_ms: int) -> OwnerView:
        self.limits.begin_turn({self.partition: self.store}, now_ms, now_ms)
        self.limits.note_waiting()
        told = self.limits.word(self.partition, self.store)
        return view(self.partition, self.limits.own_name, running=told.running, keys=told.keys)


STEP_MS = 100


class Fleet:
    """Processes that tell each other their counts: each second, each at another moment, within another second."""

    def __init__(self, running_max: int, count: int, seed: int, weights: tuple[int, ...] = ()) -> None:
        """With `weights`, what is bounded is a concurrency key, whose runs have these weights; else a queue."""
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        key = "k" if weights else ""
        self.weights = weights or (1,)
        self.processes = [Process(f"p{n}", n, key) for n in range(count)]
        self._phases = [self.rng.randrange(0, TELL_EVERY_MS, STEP_MS) for _ in self.processes]
        self._under_way: list[tuple[int, OwnerView]] = []
        self.peak = 0
        for process in self.processes:
            (bound_key if key else bound)(process.limits, key or "q", running_max)
            for other in self.processes:
                process.limits.heard_owner(other.partition, view(other.partition, other.limits.own_name))

    def step(self, now_ms: int, *, busy: bool) -> None:
        for process, phase in zip(self.processes, self._phases, strict=True):
            if busy and self.rng.random() < 0.05:
                more = [self.rng.choice(self.weights) for _ in range(self.rng.randrange(4))]
                process.set(process.running, process.waiting + more)
            if process.running and self.rng.random() < 0.1:
                process.set(process.running[1:], process.waiting)
            if now_ms % TELL_EVERY_MS == phase:
                delay_ms = self.rng.randrange(0, 1_000, STEP_MS)
                self._under_way.append((now_ms + delay_ms, process.word(now_ms)))
        self._deliver(now_ms)
        for process in self.processes:
            process.turn(now_ms)
        self.peak = max(self.peak, sum(sum(process.running) for process in self.processes))

    def _deliver(self, now_ms: int) -> None:
        for _, word in [told for told in self._under_way if told[0] <= now_ms]:
            for process in self.processes:
                process.limits.heard_owner(word.partition, word)
        self._under_way = [told for told in self._under_way if told[0] > now_ms]


@pytest.mark.parametrize("running_max", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_several_processes_never_run_more_than_the_bound_and_starve_none(
    running_max: int, count: int, seed: int
) -> None:
    fleet = Fleet(running_max, count, seed)
    for now_ms in range(0, 60_000, STEP_MS):
        fleet.step(now_ms, busy=now_ms < 30_000)
    assert fleet.peak == running_max, "the bound is used, and never passed"
    work_off(fleet)
    assert fleet.peak == running_max


def work_off(fleet: Fleet) -> None:
    now_ms = 60_000
    while any(process.waiting for process in fleet.processes):
        fleet.step(now_ms, busy=False)
        now_ms += STEP_MS
        assert now_ms < 1_000_000, "somebody starves"


@pytest.mark.parametrize(("running_max", "weights"), [(5, (1, 5)), (7, (1, 2, 3)), (4, (4,)), (10, (1, 8))])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("seed", range(2))
def test_weights_are_divided_in_lots_that_let_each_of_them_start(
    running_max: int, weights: tuple[int, ...], count: int, seed: int
) -> None:
    fleet = Fleet(running_max, count, seed, weights)
    for now_ms in range(0, 60_000, STEP_MS):
        fleet.step(now_ms, busy=now_ms < 30_000)
    assert max(weights) <= fleet.peak <= running_max, "the limit is never passed"
    work_off(fleet)
    assert fleet.peak <= running_max


def test_a_heavy_run_gets_its_turn_though_light_ones_never_cease_elsewhere() -> None:
    fleet = Fleet(5, 2, 0, (1, 5))
    light, heavy = fleet.processes
    heavy.set([], [5])
    now_ms = 0
    while heavy.waiting:
        light.set(light.running[1:], [1] * 5)
        fleet.step(now_ms, busy=False)
        now_ms += STEP_MS
        assert now_ms < 100_000, "it starves"
    assert fleet.peak == 5


def test_a_run_that_is_heavier_than_the_limit_divides_nothing() -> None:
    process = Process("p", 0, "k")
    bound_key(process.limits, "k", 4)
    process.set([], [1, 3, 50])
    assert [told.weight for told in process.word(0).keys] == [3]
    bound_key(process.limits, "k", 50)
    assert [told.weight for told in process.word(0).keys] == [50]


def test_a_process_without_others_waits_for_nobody_and_one_with_others_lets_them_hear_it() -> None:
    alone, newcomer = Process("p0", 0), Process("p2", 2)
    newcomer.limits.heard_owner(1, view(1))
    for process in (alone, newcomer):
        bound(process.limits, "q", 2)
        process.set([], [1, 1, 1])
        process.word(0)
        process.turn(0)
    assert (len(alone.running), len(newcomer.running)) == (2, 0)
    newcomer.turn(SETTLE_MS - 1)
    assert newcomer.running == []
    newcomer.turn(SETTLE_MS)
    assert len(newcomer.running) == 2


def test_workers_that_wait_for_a_full_queue_cause_no_refusals(rig: Any, due: Any) -> None:
    """As many requests as offers, as many grants as there is room: each refusal would be a commit."""
    bound(rig.limits, "q", 2)
    names = due(**{f"j{number}": {} for number in range(30)})
    running: list[Any] = []
    asked = 0
    while asked < len(names):
        rig.want(50)
        offered = rig.offered()
        assert rig.offered() == [], "what is offered takes its place until it is answered"
        for run_id in offered:
            asked += 1
            answer = lease_of(rig, run_id)
            assert type(answer) is Grant
            running.append(answer)
        assert len(running) <= 2
        if running:
            complete(rig, running.pop(0))
        rig.advance(20)
    assert asked == len(names)


def _said(*queues: tuple[str, int]) -> Any:
    slots = tuple(QueueDemand(tenant="a", queue=queue, slots=number) for queue, number in queues)
    return Demand(gateway_id="g", incarnation="i", sent_at_ms=0, queues=slots)


# --- concurrency keys, in one process ---


@pytest.fixture
def due(rig: Any, make_job: Any) -> Any:
    """Define one-off jobs that are due now: name to fields."""

    def define(**jobs: dict[str, Any]) -> dict[str, str]:
        at_ms = rig.now_ms + 1_000
        for name, fields in jobs.items():
            rig.define(make_job(name, at_ms=at_ms, **fields))
        rig.run()
        rig.advance(1_000)
        rig.run()
        return {name: rig.lease(name, at_ms).run_id for name in jobs}

    return define


def lease_of(rig: Any, run_id: str) -> Any:
    """Ask for a run by its id; give the answer."""
    request = rig.lease(run_id.removeprefix("run_").rpartition("_")[0], rig.now_ms)
    rig.send(msgspec.structs.replace(request, run_id=run_id))
    rig.run()
    return rig.answers[request.request_id]


def complete(rig: Any, grant: Any) -> None:
    rig.send(
        Complete(job_id=grant.job_id, request_id=rig.request(), run_id=grant.run_id, lease_token=grant.lease_token)
    )
    rig.run()


def test_a_key_is_shared_by_jobs_of_all_queues_and_a_weight_counts_units(rig: Any, due: Any) -> None:
    bound_key(rig.limits, "k", 3)
    key = {"concurrency_key": "k"}
    runs = due(
        a={**key, "concurrency_weight": 2},
        b={**key, "queue": "r"},
        c=key,
        d={"tenant": "b", **key},
    )
    first, second = lease_of(rig, runs["a"]), lease_of(rig, runs["b"])
    assert (type(first), type(second)) == (Grant, Grant)
    assert rig.store.tallies.units("a", "k") == 3
    third = lease_of(rig, runs["c"])
    assert (third.code, third.detail) == ("not_leasable", "as many runs of the concurrency key are running as may be")
    assert type(lease_of(rig, runs["d"])) is Grant, "another team's key of this name is another key"
    complete(rig, second)
    assert type(lease_of(rig, runs["c"])) is Grant


def test_a_run_is_bounded_by_its_queue_and_its_key_and_a_refusal_takes_nothing(rig: Any, due: Any) -> None:
    bound(rig.limits, "q", 1)
    bound_key(rig.limits, "k", 0)
    runs = due(keyed={"concurrency_key": "k"}, plain={}, other={"queue": "r", "concurrency_key": "l"})
    requests = [rig.lease("keyed", rig.now_ms), rig.lease("plain", rig.now_ms)]
    wanted = [runs["keyed"], runs["plain"]]
    rig.send(*(msgspec.structs.replace(r, run_id=i) for r, i in zip(requests, wanted, strict=True)))
    rig.run()
    assert rig.reply(requests[0].request_id).code == "not_leasable"
    assert rig.grant(requests[1].request_id).run_id == runs["plain"], "the refused run took no place of the queue"
    bound_key(rig.limits, "k", None)
    assert lease_of(rig, runs["keyed"]).detail == "as many runs of the queue are running as may be"
    assert type(lease_of(rig, runs["other"])) is Grant, "a key without a limit bounds nothing"


def test_a_full_key_holds_up_nobody_behind_it_and_goes_on_where_it_was_when_there_is_room(rig: Any, due: Any) -> None:
    bound_key(rig.limits, "k", 1)
    runs = due(**{f"k{n:02}": {"concurrency_key": "k"} for n in range(30)}, zz={})
    rig.want()
    assert sorted(rig.offered()) == sorted([runs["k00"], runs["zz"]]), "no more than may start, and the run behind all"
    grant = lease_of(rig, runs["k00"])
    assert rig.offered() == []
    complete(rig, grant)
    assert rig.offered() == [runs["k01"]]
    bound_key(rig.limits, "k", 3)
    assert rig.offered() == [runs["k02"], runs["k03"]], "a raised limit is used at once, jobs untouched"


def test_what_waits_in_the_store_only_is_bounded_by_its_key_too(make_rig: Any, rig: Any, due: Any) -> None:
    """A successor knows keys and weights from the ready index, without decoding a job."""
    runs = due(a={"concurrency_key": "k", "concurrency_weight": 2}, b={"concurrency_key": "k"}, c={})
    after = make_rig(store=rig.store)
    bound_key(after.limits, "k", 1)
    after.want()
    assert sorted(after.offered()) == sorted([runs["b"], runs["c"]]), "a is heavier than the limit, and holds up nobody"
    bound_key(after.limits, "k", 3)
    assert after.offered() == [runs["a"]]


def test_a_deleted_job_counts_until_its_worker_is_done(rig: Any, due: Any) -> None:
    bound_key(rig.limits, "k", 1)
    runs = due(a={"concurrency_key": "k"}, b={"concurrency_key": "k"})
    grant = lease_of(rig, runs["a"])
    rig.send(Delete(job_id="a", request_id=rig.request()))
    rig.run()
    assert lease_of(rig, runs["b"]).code == "not_leasable"
    complete(rig, grant)
    assert type(lease_of(rig, runs["b"])) is Grant


def test_an_edit_moves_the_leased_runs_of_a_job_to_its_new_key(rig: Any, due: Any, make_job: Any) -> None:
    runs = due(a={"concurrency_key": "k", "overlap": "allow"})
    lease_of(rig, runs["a"])
    assert rig.store.tallies.units("a", "k") == 1
    edited = make_job("a", concurrency_key="l", concurrency_weight=4)
    rig.send(Define(job_id="a", request_id=rig.request(), definition=edited, request_hash="e", mode="edit"))
    rig.run()
    assert (rig.store.tallies.units("a", "k"), rig.store.tallies.units("a", "l")) == (0, 4)
