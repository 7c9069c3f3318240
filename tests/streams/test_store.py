from __future__ import annotations

import gc
import hashlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.store import interface, rocks
from streams.store.interface import (
    UNCHANGED,
    DueEntry,
    IndexHeader,
    LedgerChange,
    LedgerRecord,
    ReadyKey,
    ReadyLine,
    Store,
    StoreClosedError,
    StoreCorruptError,
    StoreCounts,
    StoreIdentity,
    StoreInUseError,
    Unchanged,
)
from streams.store.memory import MemoryStore
from streams.store.rocks import ACTING, LOADING, RocksStore, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IDENTITY = StoreIdentity(cluster_id="cluster", topic_id="topic-uuid", partition=3)
DAY_MS = 86_400_000
HIGH, NORMAL, LOW = 0, 1, 2


@pytest.fixture(params=["rocks", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore(IDENTITY, now_ms=1_000)
    else:
        made, _ = open_store(tmp_path / "p3", IDENTITY, 1_000, DAY_MS)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "p3"


def reopen(path: Path, now_ms: int = 2_000, log_end_offset: int | None = None) -> tuple[RocksStore, str | None]:
    return open_store(path, IDENTITY, now_ms, DAY_MS, log_end_offset)


def ready(job_id: str, due_at_ms: int, tenant: str = "acme", queue: str = "mail", lane: int = NORMAL) -> ReadyKey:
    return ReadyKey(tenant, queue, lane, due_at_ms, f"run_{job_id}_{due_at_ms}", job_id)


def noise(seed: str, size: int) -> bytes:
    return hashlib.shake_256(seed.encode()).digest(size)


def put(job_id: str, deadline_ms: int | None, *keys: ReadyKey, state: bytes = b"state") -> LedgerChange:
    return LedgerChange(job_id, state=state, deadline_ms=deadline_ms, ready=keys)


def apply(store: Store, *changes: LedgerChange) -> None:
    store.apply(changes, ledger_offset=store.ledger_offset + len(changes), now_ms=1_500)


def due_jobs(store: Store, until_ms: int = 10**12) -> list[tuple[int, str]]:
    return [(entry.deadline_ms, entry.job_id) for entry in store.due(None, until_ms, 10**6)]


# ---- keys


def test_ready_keys_sort_by_line_then_due_time_then_run() -> None:
    keys = [
        ReadyKey("a", "q", 0, 300, "r1", "j"),
        ReadyKey("a", "q", 0, 70_000, "r0", "j"),
        ReadyKey("a", "q", 1, 5, "r1", "j"),
        ReadyKey("a", "q", 1, 5, "r2", "j"),
        ReadyKey("a", "qq", 0, 1, "r", "j"),
        ReadyKey("ab", "a", 0, 1, "r", "j"),
    ]

    assert sorted(keys[1::2] + keys[::2], key=ReadyKey.encode) == keys


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
plain_keys = st.builds(ReadyKey, names, names, st.integers(0, 255), st.integers(0, 2**63 - 1), names, names)
bounded = st.just(("", 0)) | st.tuples(names.filter(bool), st.integers(1, 100))
"""A concurrency key and a weight, or none."""
ready_keys = st.builds(lambda key, more: key._replace(concurrency_key=more[0], weight=more[1]), plain_keys, bounded)


@given(ready_keys)
def test_a_ready_key_survives_encoding_and_gives_its_line(key: ReadyKey) -> None:
    assert ReadyKey.decode(key.encode()) == key
    assert interface.line_prefix_of(key.encode()) == key.line.encode()


counts = st.builds(
    lambda pending, leased, more: (pending, leased, *more), st.integers(0, 65_535), st.integers(0, 65_535), bounded
)


@given(st.none() | st.integers(0, 2**62), st.lists(ready_keys, max_size=5, unique=True), names, names, counts)
def test_an_index_header_survives_encoding_also_as_a_prefix(
    deadline: int | None, keys: list[ReadyKey], tenant: str, queue: str, counts: tuple[int, int, str, int]
) -> None:
    header = IndexHeader(deadline, tuple(keys), tenant, queue, *counts)

    assert IndexHeader.decode(header.encode()) == header
    assert IndexHeader.decode(header.encode() + b"the state") == header


@pytest.mark.parametrize(
    "key",
    [
        ReadyKey("a\0b", "q", 0, 1, "r", "j"),
        ReadyKey("a", "q\0", 0, 1, "r", "j"),
        ReadyKey("a", "q", 0, 1, "r\0", "j"),
        ReadyKey("a", "q", 0, 1, "r", "\0j"),
        ReadyKey("a", "q", 256, 1, "r", "j"),
        ReadyKey("a", "q", -1, 1, "r", "j"),
        ReadyKey("a", "q", 0, -1, "r", "j"),
        ReadyKey("a", "q", 0, 1, "r", "j", "k\0", 1),
    ],
)
def test_a_ready_key_that_would_not_sort_or_split_is_refused(key: ReadyKey) -> None:
    with pytest.raises(ValueError, match=r"NUL|out of range"):
        key.encode()


@given(st.binary(max_size=60))
def test_bytes_that_are_no_header_give_a_value_error_and_nothing_else(data: bytes) -> None:
    try:
        header = IndexHeader.decode(data)
    except ValueError:
        header = None

    assert header is None or data.startswith(header.encode())


# ---- one contract, two stores


def test_a_new_store_is_empty_at_offset_zero(store: Store) -> None:
    assert store.identity == IDENTITY
    assert (store.ledger_offset, dict(store.meta), store.written_at_ms) == (0, {}, 1_000)
    assert store.counts == StoreCounts(0, 0)
    assert store.state("a") is None
    assert store.definition("a") is None
    assert store.header("a") is None
    assert due_jobs(store) == []
    assert store.ready_heads(10**12) == []
    assert store.jobs(None, 10) == []


def test_state_definition_offset_and_meta_are_written_together(store: Store) -> None:
    change = LedgerChange("a", state=b"S", definition=b"D", deadline_ms=70, ready=(ready("a", 50),))
    store.apply([change], ledger_offset=12, now_ms=1_700, meta={"next_seq": 9})
    store.apply([], ledger_offset=13, now_ms=1_800, meta={"generation": 2})

    assert (store.state("a"), store.definition("a")) == (b"S", b"D")
    assert store.header("a") == IndexHeader(70, (ready("a", 50),))
    assert store.counts == StoreCounts(1, 1)
    assert (store.ledger_offset, store.written_at_ms) == (13, 1_800)
    assert dict(store.meta) == {"next_seq": 9, "generation": 2}


def test_unchanged_leaves_a_record_and_none_deletes_it(store: Store) -> None:
    apply(store, LedgerChange("a", state=b"S", definition=b"D", deadline_ms=70))
    apply(store, LedgerChange("a", definition=b"D2"))

    assert (store.state("a"), store.definition("a"), due_jobs(store)) == (b"S", b"D2", [(70, "a")])

    apply(store, LedgerChange("a", state=None, definition=UNCHANGED))

    assert (store.state("a"), store.definition("a"), due_jobs(store)) == (None, b"D2", [])

    apply(store, LedgerChange("a", definition=None))

    assert store.definition("a") is None


def test_a_new_state_replaces_the_old_index_entries(store: Store) -> None:
    apply(store, put("a", 70, ready("a", 50), ready("a", 60)))
    apply(store, put("a", 90, ready("a", 60), ready("a", 80, queue="sms")))

    assert due_jobs(store) == [(90, "a")]
    assert store.ready_counts() == {ReadyLine("acme", "mail", NORMAL): 1, ReadyLine("acme", "sms", NORMAL): 1}
    assert store.ready_line(ReadyLine("acme", "mail", NORMAL), 10**6, 10) == [ready("a", 60)]
    assert store.counts == StoreCounts(1, 2)


def test_a_tombstone_removes_both_indexes_entries_and_a_second_one_does_no_harm(store: Store) -> None:
    apply(store, put("a", 70, ready("a", 50)), put("b", 70))
    apply(store, LedgerChange("a", state=None))
    apply(store, LedgerChange("a", state=None))

    assert due_jobs(store) == [(70, "b")]
    assert store.ready_heads(10**6) == []
    assert store.counts == StoreCounts(1, 0)


def test_the_last_change_of_a_job_in_a_batch_wins(store: Store) -> None:
    apply(
        store,
        put("a", 70, ready("a", 50), state=b"1"),
        put("a", 80, state=b"2"),
        LedgerChange("a", state=None),
        put("a", 75, ready("a", 51), state=b"4"),
    )

    assert (store.state("a"), due_jobs(store), store.counts) == (b"4", [(75, "a")], StoreCounts(1, 1))
    assert store.ready_heads(100) == [ready("a", 51)]


def test_a_known_previous_header_gives_the_same_result_as_a_read(store: Store) -> None:
    apply(store, put("a", 70, ready("a", 50)))
    known = store.header("a")
    apply(store, LedgerChange("a", state=b"2", deadline_ms=75, ready=(), previous=known))
    apply(store, LedgerChange("a", state=None, previous=store.header("a")))

    assert (due_jobs(store), store.ready_heads(100), store.counts) == ([], [], StoreCounts(0, 0))


def test_the_offset_never_falls(store: Store) -> None:
    store.apply([], ledger_offset=10, now_ms=1_500)

    with pytest.raises(ValueError, match="falls"):
        store.apply([put("a", 1)], ledger_offset=9, now_ms=1_500)
    with pytest.raises(ValueError, match="falls"):
        store.load([], ledger_offset=9, now_ms=1_500)

    assert (store.ledger_offset, store.state("a"), store.counts.jobs) == (10, None, 0)


@pytest.mark.parametrize("bad", [put("b", -1), put("b", 1, ready("b\0", 5)), put("b", 1, *[ready("b", 5)] * 2)])
def test_a_refused_change_changes_nothing(store: Store, bad: LedgerChange) -> None:
    apply(store, put("a", 70))

    with pytest.raises(ValueError, match=r"zero|NUL|twice"):
        store.apply([put("c", 3), bad], ledger_offset=5, now_ms=1_500)

    assert (store.ledger_offset, store.state("c"), due_jobs(store)) == (1, None, [(70, "a")])
    assert store.counts == StoreCounts(1, 0)


def test_due_gives_pages_in_order_of_deadline_then_job_up_to_the_bound(store: Store) -> None:
    apply(store, put("b", 300), put("a", 300), put("c", 5), put("d", 70_000), put("e", 301), put("f", None))

    first = store.due(None, 301, 2)

    assert first == [DueEntry(5, "c"), DueEntry(300, "a")]
    assert store.due(first[-1], 301, 10) == [DueEntry(300, "b"), DueEntry(301, "e")]
    assert store.due(first[-1], 300, 10) == [DueEntry(300, "b")]
    assert store.due(DueEntry(301, "e"), 301, 10) == []
    assert store.due(None, -1, 10) == []
    assert store.due(None, 10**6, 0) == []


def test_due_finds_an_entry_that_is_put_below_what_was_read_before(store: Store) -> None:
    apply(store, put("a", 300))
    assert store.due(None, 250, 10) == []
    assert store.due(None, 1_000, 10) == [DueEntry(300, "a")]

    apply(store, put("b", 100))

    assert store.due(None, 1_000, 10) == [DueEntry(100, "b"), DueEntry(300, "a")]


def test_ready_heads_gives_the_oldest_due_run_of_each_line(store: Store) -> None:
    apply(
        store,
        put("a", None, ready("a", 50), ready("a", 40)),
        put("b", None, ready("b", 45), ready("b", 60, lane=HIGH)),
        put("c", None, ready("c", 10, tenant="beta")),
        put("d", None, ready("d", 900, queue="later")),
    )

    heads = store.ready_heads(100)

    assert heads == [ready("b", 60, lane=HIGH), ready("a", 40), ready("c", 10, tenant="beta")]
    assert store.ready_heads(100, after=heads[0].line, limit=1) == [ready("a", 40)]
    assert store.ready_heads(100, after=heads[-1].line) == []
    assert store.ready_heads(900)[0] == ready("d", 900, queue="later")
    assert store.ready_heads(-1) == []


def test_ready_line_pages_through_one_line_only(store: Store) -> None:
    line = ReadyLine("acme", "mail", NORMAL)
    apply(
        store,
        *[put(f"j{n}", None, ready(f"j{n}", 100 + n)) for n in range(6)],
        put("x", None, ready("x", 1, lane=LOW), ready("x", 1, queue="mail2")),
    )

    first = store.ready_line(line, 104, 3)

    assert [key.due_at_ms for key in first] == [100, 101, 102]
    assert [key.due_at_ms for key in store.ready_line(line, 104, 10, after=first[-1])] == [103, 104]
    assert store.ready_line(ReadyLine("acme", "none", 0), 10**6, 10) == []
    assert store.ready_line(line, -1, 10) == []


def test_a_line_takes_back_a_run_older_than_those_granted_since(store: Store) -> None:
    """A lease that expires brings its run back to the front."""
    line = ReadyLine("acme", "mail", NORMAL)
    apply(store, put("a", None, ready("a", 10)), put("b", None, ready("b", 20)))
    apply(store, put("a", None))
    assert store.ready_heads(100) == [ready("b", 20)]
    assert store.ready_line(line, 5, 10) == []

    apply(store, put("a", None, ready("a", 10)))

    assert store.ready_heads(100) == [ready("a", 10)]
    assert store.ready_line(line, 100, 10) == [ready("a", 10), ready("b", 20)]


def test_a_line_that_ran_empty_fills_again(store: Store) -> None:
    apply(store, put("a", None, ready("a", 500)))
    apply(store, put("a", None))
    assert store.ready_counts() == {}

    apply(store, put("a", None, ready("a", 5)))

    assert store.ready_heads(10) == [ready("a", 5)]
    assert store.ready_counts() == {ReadyLine("acme", "mail", NORMAL): 1}


def test_jobs_gives_pages_in_key_order_with_the_bare_states(store: Store) -> None:
    apply(store, *[put(job, 5, ready(job, 1), state=job.encode()) for job in ("b", "a.1", "a", "ä", "c")])

    page = store.jobs(None, 3)

    assert page == [("a", b"a"), ("a.1", b"a.1"), ("b", b"b")]
    assert store.jobs("b", 3) == [("c", b"c"), ("ä", "ä".encode())]
    assert store.jobs("ä", 3) == []


def test_an_empty_state_is_a_state(store: Store) -> None:
    apply(store, put("a", None, state=b""))

    assert (store.state("a"), store.header("a"), store.counts.jobs) == (b"", IndexHeader(), 1)


def test_load_fills_states_definitions_and_indexes_without_decoding(store: Store) -> None:
    records = [
        LedgerRecord("d", "a", b"DA"),
        LedgerRecord("s", "a", b"1", IndexHeader(70, (ready("a", 50),)).encode()),
        LedgerRecord("s", "b", b"2", IndexHeader(80).encode()),
        LedgerRecord("s", "a", b"3", IndexHeader(90).encode()),
        LedgerRecord("s", "c", b"4", IndexHeader(1).encode()),
        LedgerRecord("s", "c", None),
        LedgerRecord("d", "c", None),
    ]
    store.load(records, ledger_offset=107, now_ms=1_600, meta={"next_seq": 4})

    assert (store.state("a"), store.definition("a"), store.state("c")) == (b"3", b"DA", None)
    assert due_jobs(store) == [(80, "b"), (90, "a")]
    assert (store.counts, store.ready_heads(100)) == (StoreCounts(2, 0), [])
    assert (store.ledger_offset, store.written_at_ms, dict(store.meta)) == (107, 1_600, {"next_seq": 4})


def test_load_replaces_entries_of_an_earlier_load_and_of_apply(store: Store) -> None:
    apply(store, put("a", 10, ready("a", 5)))
    store.load([LedgerRecord("s", "a", b"2", IndexHeader(20).encode())], ledger_offset=2, now_ms=1_600)
    store.load([LedgerRecord("s", "a", b"3", IndexHeader(30).encode())], ledger_offset=3, now_ms=1_600)
    apply(store, put("b", 25))

    assert due_jobs(store) == [(25, "b"), (30, "a")]
    assert store.counts == StoreCounts(2, 0)


@pytest.mark.parametrize("header", [b"", b"\0" * 13, IndexHeader(5).encode()[:-1], b"\xff" * 40])
def test_load_refuses_a_state_without_a_proper_header(store: Store, header: bytes) -> None:
    good = LedgerRecord("s", "a", b"1", IndexHeader(5).encode())

    with pytest.raises(ValueError, match="header"):
        store.load([good, LedgerRecord("s", "b", b"2", header)], ledger_offset=2, now_ms=1_600)

    assert (store.ledger_offset, store.state("a")) == (0, None)


def test_after_close_every_call_is_refused_and_close_is_harmless(store: Store) -> None:
    store.close()
    store.close()

    for call in (
        lambda: store.state("a"),
        lambda: store.due(None, 10, 1),
        lambda: store.jobs(None, 1),
        lambda: store.apply([], ledger_offset=5, now_ms=1),
    ):
        with pytest.raises(StoreClosedError):
            call()


# ---- both indexes against a model

JOBS = [f"job{n}" for n in range(6)]
LINES = [ReadyLine(t, q, lane) for t, q in (("a", "b"), ("ab", "c"), ("a", "bc")) for lane in (0, 2)]
times = st.integers(0, 40)


def tenant_of(job: str) -> str:
    return f"tenant {int(job[3:]) // 3}"


@st.composite
def changes(draw: st.DrawFn) -> LedgerChange:
    job = draw(st.sampled_from(JOBS))
    kind = draw(st.sampled_from(["put", "put", "put", "delete", "definition"]))
    if kind == "delete":
        return LedgerChange(job, state=None)
    if kind == "definition":
        return LedgerChange(job, definition=draw(st.none() | st.binary(max_size=4)))
    waits = draw(st.lists(st.tuples(st.sampled_from(LINES), times), max_size=3, unique=True))
    bound = draw(st.sampled_from([("", 0), ("k", 1), ("k", 3), ("l", 2)]))
    keys = tuple(ReadyKey(*line, due, f"run{due}", job, *bound) for line, due in waits)
    return LedgerChange(
        job,
        state=draw(st.binary(max_size=8)),
        deadline_ms=draw(st.none() | times),
        ready=keys,
        tenant=tenant_of(job),
        queue=draw(st.sampled_from(["b", "c"])),
        pending=draw(st.integers(0, 3)),
        leased=draw(st.integers(0, 3)),
        concurrency_key=bound[0],
        weight=bound[1],
    )


steps = st.lists(
    st.tuples(st.sampled_from(["apply", "known", "load", "reopen"]), st.lists(changes(), max_size=4), times, times),
    max_size=12,
)


class Model:
    """States and definitions in dictionaries; everything else is derived from them at each look."""

    def __init__(self) -> None:
        self.states: dict[str, LedgerChange] = {}
        self.definitions: dict[str, bytes] = {}

    def follow(self, change: LedgerChange) -> None:
        if change.state is None:
            self.states.pop(change.job_id, None)
        elif isinstance(change.state, bytes):
            self.states[change.job_id] = change
        if change.definition is None:
            self.definitions.pop(change.job_id, None)
        elif isinstance(change.definition, bytes):
            self.definitions[change.job_id] = change.definition

    def due(self) -> list[DueEntry]:
        entries = [(c.deadline_ms, j) for j, c in self.states.items() if c.deadline_ms is not None]
        return [DueEntry(ms, job, tenant_of(job)) for ms, job in sorted(entries)]

    def ready(self) -> list[ReadyKey]:
        return sorted((k for c in self.states.values() for k in c.ready), key=ReadyKey.encode)


def as_records(change: LedgerChange) -> list[LedgerRecord]:
    records = []
    if not isinstance(change.state, Unchanged):
        index = IndexHeader(
            change.deadline_ms, change.ready, change.tenant, change.queue, change.pending, change.leased
        )
        header = index.encode()
        records.append(LedgerRecord("s", change.job_id, change.state, b"" if change.state is None else header))
    if not isinstance(change.definition, Unchanged):
        records.append(LedgerRecord("d", change.job_id, change.definition))
    return records


def check_against_model(store: Store, model: Model, low_ms: int, high_ms: int) -> None:
    due, waiting = model.due(), model.ready()
    assert store.due(None, high_ms, 3) == [e for e in due if e.deadline_ms <= high_ms][:3]
    after = DueEntry(low_ms, "job3")
    assert store.due(after, high_ms, 100) == [e for e in due if after[:2] < e[:2] and e.deadline_ms <= high_ms]
    heads: dict[ReadyLine, ReadyKey] = {}
    for key in waiting:
        heads.setdefault(key.line, key)
    assert store.ready_heads(high_ms) == [key for key in heads.values() if key.due_at_ms <= high_ms]
    for line in LINES:
        expected = [k for k in waiting if k.line == line and k.due_at_ms <= high_ms]
        assert store.ready_line(line, high_ms, 2) == expected[:2]
        if expected:
            assert store.ready_line(line, high_ms, 9, after=expected[0]) == expected[1:]
    assert sum(store.ready_counts().values()) == len(waiting)
    assert store.counts == StoreCounts(len(model.states), len(waiting))
    assert store.jobs(None, 100) == [(j, model.states[j].state) for j in sorted(model.states)]
    for tenant in ("tenant 0", "tenant 1"):
        of_tenant = [change for change in model.states.values() if change.tenant == tenant]
        assert store.tallies.pending(tenant) == sum(change.pending for change in of_tenant)
        for queue in ("b", "c"):
            assert store.tallies.leased(tenant, queue) == sum(c.leased for c in of_tenant if c.queue == queue)
    assert all(store.tallies.totals.values()), "what is zero takes no place"
    for job in JOBS:
        assert store.definition(job) == model.definitions.get(job)


def run_against_model(path: Path | None, script: list[tuple[str, list[LedgerChange], int, int]]) -> None:
    store: Any = MemoryStore(IDENTITY) if path is None else open_store(path, IDENTITY, 0, DAY_MS)[0]
    model, offset = Model(), 0
    for kind, batch, low_ms, high_ms in script:
        offset += 10
        if kind == "reopen":
            if path is not None:
                store.close()
                store, reason = open_store(path, IDENTITY, 0, DAY_MS)
                assert reason is None
        else:
            for change in batch:
                model.follow(change)
        if kind == "apply":
            store.apply(batch, ledger_offset=offset, now_ms=0)
        elif kind == "known":
            told = [msgspec.structs.replace(change, previous=store.header(change.job_id)) for change in batch]
            store.apply(told, ledger_offset=offset, now_ms=0)
        elif kind == "load":
            records = [record for change in batch for record in as_records(change)]
            store.load(records, ledger_offset=offset, now_ms=0)
        check_against_model(store, model, low_ms, high_ms)
    if path is not None:
        store.verify()
    store.close()


@given(steps)
def test_any_sequence_of_writes_leaves_the_memory_store_as_the_model(script: list[Any]) -> None:
    run_against_model(None, script)


@given(steps)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_writes_and_reopenings_leaves_the_rocks_store_as_the_model(
    tmp_path: Path, script: list[Any]
) -> None:
    shutil.rmtree(tmp_path / "model", ignore_errors=True)
    run_against_model(tmp_path / "model", script)


# ---- opening, trusting, closing


def filled(path: Path, jobs: int = 30) -> None:
    """A store of several files: half of it compacted, some in a flushed file, some in the log only."""
    store, _ = reopen(path)
    for part in range(3):
        apply(
            store,
            *[put(f"j{n:03}", n, ready(f"j{n:03}", n), state=b"%03d" % n * 50) for n in range(part, jobs, 3)],
        )
        if part < 2:
            store._database().flush()
    store.close()


def test_a_store_comes_back_whole_after_closing(path: Path) -> None:
    filled(path)

    store, reason = reopen(path, now_ms=3_000, log_end_offset=30)

    assert reason is None
    assert (store.ledger_offset, store.counts, store.written_at_ms) == (30, StoreCounts(30, 30), 1_500)
    assert [job for _, job in due_jobs(store)] == [f"j{n:03}" for n in range(30)]
    store.verify()
    store.close()


def test_a_second_opening_is_refused_clearly_and_harms_nothing(path: Path) -> None:
    store, _ = reopen(path)
    apply(store, put("a", 1))

    with pytest.raises(StoreInUseError, match="open elsewhere"):
        reopen(path)

    apply(store, put("b", 2))
    assert store.counts.jobs == 2
    store.close()


def test_a_store_that_another_process_holds_is_refused_and_left_alone(path: Path) -> None:
    store, _ = reopen(path)
    apply(store, put("a", 1))
    other = f"""
import pathlib
from streams.store.interface import StoreIdentity, StoreInUseError
from streams.store.rocks import open_store
identity = StoreIdentity(cluster_id="of another log", topic_id="t", partition=0)
try:
    open_store(pathlib.Path({str(path)!r}), identity, 10**15, 0)
except StoreInUseError:
    print("in use")
"""
    said = subprocess.run(  # noqa: S603  # our own interpreter and our own lines
        [sys.executable, "-c", other], capture_output=True, text=True, check=True, timeout=60
    )

    assert said.stdout == "in use\n"
    store.verify()
    store.close()


def test_close_releases_the_lock_at_once_also_after_reads(path: Path) -> None:
    gc.disable()  # no cycle collection may be needed for it
    try:
        for _ in range(3):
            store, reason = reopen(path)
            apply(store, put("a", 1, ready("a", 1)))
            store.due(None, 10, 10)
            store.ready_heads(10)
            store.jobs(None, 10)
            store.close()
            assert reason is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("identity", "now_ms", "log_end", "reason"),
    [
        (StoreIdentity(cluster_id="other", topic_id="topic-uuid", partition=3), 2_000, 30, "another log"),
        (StoreIdentity(cluster_id="cluster", topic_id="recreated", partition=3), 2_000, 30, "another log"),
        (StoreIdentity(cluster_id="cluster", topic_id="topic-uuid", partition=4), 2_000, 30, "another log"),
        (msgspec.structs.replace(IDENTITY, format_version=99), 2_000, 30, "another log"),
        (IDENTITY, 2_000, 29, "beyond the log"),
        (IDENTITY, 1_500 + DAY_MS + 1, 30, "too old"),
        (IDENTITY, 1_500 - rocks.FUTURE_MAX_MS - 1, 30, "unknown age"),
    ],
)
def test_a_store_that_is_not_of_this_log_or_time_is_thrown_away(
    path: Path, identity: StoreIdentity, now_ms: int, log_end: int, reason: str
) -> None:
    filled(path)

    store, said = open_store(path, identity, now_ms, DAY_MS, log_end)

    assert said is not None
    assert reason in said
    assert (store.identity, store.ledger_offset, store.counts) == (identity, 0, StoreCounts(0, 0))
    assert (store.written_at_ms, due_jobs(store)) == (now_ms, [])
    store.close()
    again, said = open_store(path, identity, now_ms, DAY_MS, 0)
    assert said is None
    again.close()


@pytest.mark.parametrize(("now_ms", "log_end"), [(1_500 + DAY_MS, 30), (1_500 - rocks.FUTURE_MAX_MS, None)])
def test_a_store_at_the_bounds_of_age_and_log_is_kept(path: Path, now_ms: int, log_end: int | None) -> None:
    filled(path)

    store, reason = reopen(path, now_ms, log_end)

    assert (reason, store.counts.jobs) == (None, 30)
    store.close()


def test_a_file_in_place_of_the_directory_is_replaced(path: Path) -> None:
    path.write_text("not a store")

    store, reason = reopen(path)

    assert reason is not None
    assert store.counts.jobs == 0
    store.close()


def copied_while_open(path: Path, target: Path) -> None:
    """What a crash of the process leaves: the files as the kernel has them, without the lock."""
    shutil.copytree(path, target)
    (target / "LOCK").unlink()


def test_a_crash_of_the_process_loses_no_applied_batch(path: Path, tmp_path: Path) -> None:
    store, _ = reopen(path)
    apply(store, put("a", 1), put("b", 2))
    apply(store, put("a", 3))
    copied_while_open(path, tmp_path / "crashed")
    store.close()

    back, reason = reopen(tmp_path / "crashed")

    assert (reason, back.ledger_offset, due_jobs(back)) == (None, 3, [(2, "b"), (3, "a")])
    back.close()


def test_wherever_the_log_breaks_off_the_store_is_whole_at_an_offset_that_was_applied(
    path: Path, tmp_path: Path
) -> None:
    store, _ = reopen(path)
    whole = {0: read_everything(store)}
    for turn in range(1, 6):
        apply(store, put("a", turn, ready("a", turn)), put(f"b{turn}", 9, state=b"x" * 40), put("c", None))
        whole[store.ledger_offset] = read_everything(store)
    copied_while_open(path, tmp_path / "crashed")
    store.close()
    (log,) = [file for file in (tmp_path / "crashed").glob("*.log") if file.stat().st_size]
    seen: set[int] = set()
    for cut in range(0, log.stat().st_size, 23):
        copy = tmp_path / f"cut{cut}"
        shutil.copytree(tmp_path / "crashed", copy)
        (copy / log.name).write_bytes(log.read_bytes()[:cut])
        outcome = must_be_whole_or_discarded(copy, whole)
        if outcome == "discarded at opening":
            assert not seen  # only where not even the identity is left
        else:
            assert outcome == "whole"
            back, _ = reopen(copy)
            seen.add(back.ledger_offset)
            back.close()

    assert seen >= {0, 3, 6, 9, 12}


def test_a_recovery_s_memory_of_jobs_ends_with_the_first_applied_batch(path: Path) -> None:
    store, _ = reopen(path)
    assert store.seen is not None
    store.load([LedgerRecord("s", "a", b"1", IndexHeader(1).encode())], ledger_offset=1, now_ms=1_600)
    apply(store, put("a", 2))

    assert store.seen is None
    assert due_jobs(store) == [(2, "a")]
    store.close()
    store, _ = reopen(path)
    assert store.seen is None
    store.close()


def test_a_crash_while_loading_leaves_the_store_at_an_older_offset_and_whole(path: Path, tmp_path: Path) -> None:
    store, _ = reopen(path)
    apply(store, put("a", 1))
    store.load([LedgerRecord("s", "b", b"2", IndexHeader(2).encode())], ledger_offset=2, now_ms=1_600)
    copied_while_open(path, tmp_path / "crashed")
    store.close()

    back, reason = reopen(tmp_path / "crashed")

    assert reason is None
    assert (back.ledger_offset, due_jobs(back)) in [(1, [(1, "a")]), (2, [(1, "a"), (2, "b")])]
    back.verify()
    back.close()


def test_what_was_loaded_is_durable_before_the_next_applied_batch_is(path: Path, tmp_path: Path) -> None:
    store, _ = reopen(path)
    store.load([LedgerRecord("s", "a", b"1", IndexHeader(1).encode())], ledger_offset=1, now_ms=1_600)
    apply(store, put("b", 2))
    copied_while_open(path, tmp_path / "crashed")
    store.close()

    back, reason = reopen(tmp_path / "crashed")

    assert (reason, back.ledger_offset, due_jobs(back)) == (None, 2, [(1, "a"), (2, "b")])
    back.close()


def test_what_was_loaded_is_durable_once_the_recovery_is_over(path: Path, tmp_path: Path) -> None:
    store, _ = reopen(path)
    store.load([LedgerRecord("s", "a", b"1", IndexHeader(1).encode())], ledger_offset=1, now_ms=1_600)
    store.loaded()
    copied_while_open(path, tmp_path / "crashed")
    store.close()

    back, reason = reopen(tmp_path / "crashed")

    assert (reason, back.ledger_offset, due_jobs(back)) == (None, 1, [(1, "a")])
    back.close()


def test_sorting_waits_while_an_empty_store_is_filled_and_no_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, str]] = []
    monkeypatch.setattr(RocksStore, "_set_options", lambda _, options: told.append(options))
    store, _ = reopen(path)
    for offset in (1, 2):
        record = LedgerRecord("s", f"j{offset}", b"1", IndexHeader(offset).encode())
        store.load([record], ledger_offset=offset, now_ms=1_600)
    assert told == [LOADING]
    store.loaded()
    assert told == [LOADING, ACTING]
    apply(store, put("b", 3))
    store.close()

    back, _ = reopen(path)
    back.load([LedgerRecord("s", "c", b"4", IndexHeader(4).encode())], ledger_offset=4, now_ms=1_600)
    back.loaded()
    back.close()
    assert told == [LOADING, ACTING]


def test_a_first_state_is_loaded_the_short_way_and_its_headers_are_judged_all_the_same(path: Path) -> None:
    store, _ = reopen(path)
    header = IndexHeader(5, tenant="acme", queue="mail", pending=1)
    first = [LedgerRecord("s", f"j{number}", b"1", header.encode()) for number in range(3)]
    later = LedgerRecord("s", "j1", b"2", IndexHeader(9, tenant="acme", queue="mail", pending=2).encode())
    none = LedgerRecord("s", "none", b"3", IndexHeader(None, tenant="acme", queue="mail", pending=1).encode())
    store.load([*first, later, none], ledger_offset=1, now_ms=1_600)

    assert due_jobs(store) == [(5, "j0"), (5, "j2"), (9, "j1")]
    assert store.counts.jobs == 4
    assert store.tallies.pending("acme") == 5
    below_none = header.encode()[:4] + b"\x80" + header.encode()[5:]
    with pytest.raises(ValueError, match="not an index header"):
        store.load([LedgerRecord("s", "bad", b"1", below_none)], ledger_offset=2, now_ms=1_600)
    store.verify()
    store.close()


# ---- damage


def read_everything(store: RocksStore) -> tuple[Any, ...]:
    """As an owner does: nobody calls `verify` in operation."""
    states = store.jobs(None, 10**6)
    return (
        store.ledger_offset,
        states,
        [store.state(job) for job, _ in states],
        due_jobs(store),
        store.ready_line(ReadyLine("acme", "mail", NORMAL), 10**9, 10**6),
        store.counts,
    )


def must_be_whole_or_discarded(path: Path, whole: dict[int, tuple[Any, ...]]) -> str:
    """Open after damage: a new store, or one that gives exactly what it held at its offset, or an error at
    the first touch of the damage and a new store at the next opening.
    """
    store, reason = reopen(path)
    if reason is not None:
        assert (store.ledger_offset, store.counts, store.jobs(None, 9)) == (0, StoreCounts(0, 0), [])
        store.close()
        return "discarded at opening"
    try:
        seen = read_everything(store)
    except StoreCorruptError:
        store.close()
        store, reason = reopen(path)
        assert reason is not None
        assert "corrupt" in reason
        assert store.counts == StoreCounts(0, 0)
        store.close()
        return "discarded at reading"
    store.close()
    assert seen == whole[seen[0]]
    return "whole"


@pytest.fixture
def intact(tmp_path: Path) -> tuple[Path, dict[int, tuple[Any, ...]]]:
    """A closed store, and what it gives at each of its three offsets."""
    source, whole = tmp_path / "intact", {}
    store, _ = reopen(source)
    whole[0] = read_everything(store)
    for part in range(3):
        batch = [put(f"j{n}", n, ready(f"j{n}", n), state=b"%04d" % n * 40) for n in range(part * 20, 500, 3)]
        apply(store, *batch)
        whole[store.ledger_offset] = read_everything(store)
        if part < 2:
            store._database().flush()
    store.close()
    return source, whole


def files(path: Path, pattern: str) -> list[str]:
    found = sorted(file.name for file in path.glob(pattern))
    assert found, f"no {pattern} to damage"
    return found


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst", "*.log", "OPTIONS-*", "rocksdict-config.json"])
@pytest.mark.parametrize("harm", ["delete", "truncate", "empty", "garbage"])
def test_a_damaged_file_is_noticed_or_harmless(
    intact: tuple[Path, dict[int, tuple[Any, ...]]], tmp_path: Path, pattern: str, harm: str
) -> None:
    source, whole = intact
    outcomes = []
    for name in files(source, pattern):
        copy = tmp_path / "harmed" / f"{harm}-{name}"
        shutil.copytree(source, copy)
        data = (copy / name).read_bytes()
        if harm == "delete":
            (copy / name).unlink()
        elif harm == "truncate":
            (copy / name).write_bytes(data[: len(data) * 2 // 3])
        elif harm == "empty":
            (copy / name).write_bytes(b"")
        else:
            (copy / name).write_bytes(noise(name, len(data)))
        outcomes.append(must_be_whole_or_discarded(copy, whole))

    assert outcomes
    if pattern in {"CURRENT", "MANIFEST-*", "*.sst"} and harm != "truncate":
        assert "whole" not in outcomes


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, dict[int, tuple[Any, ...]]]:
    """What kill -9 leaves: two tables, each with its entry in the manifest, and a log with the batches after them."""
    store, whole = reopen(tmp_path / "open")[0], {}
    whole[0] = read_everything(store)
    for turn in range(9):
        apply(store, *[put(f"j{n}", n, ready(f"j{n}", n), state=b"%04d" % turn * 20) for n in range(turn, 60, 7)])
        whole[store.ledger_offset] = read_everything(store)
        if turn in (2, 5):
            store._database().flush()
    copied_while_open(tmp_path / "open", tmp_path / "killed")
    store.close()
    return tmp_path / "killed", whole


def test_wherever_the_manifest_breaks_off_no_batch_is_missing_in_the_middle(
    killed: tuple[Path, dict[int, tuple[Any, ...]]], tmp_path: Path
) -> None:
    """RocksDB then forgets the last table, whose log is gone, and reads the next log as if nothing were missing."""
    source, whole = killed
    (manifest,) = source.glob("MANIFEST-*")
    outcomes = []
    for cut in range(0, manifest.stat().st_size, 11):
        copy = tmp_path / f"cut{cut}"
        shutil.copytree(source, copy)
        (copy / manifest.name).write_bytes(manifest.read_bytes()[:cut])
        outcomes.append(must_be_whole_or_discarded(copy, whole))

    assert "discarded at opening" in outcomes


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_anywhere_is_noticed_or_harmless(
    intact: tuple[Path, dict[int, tuple[Any, ...]]], seed: int
) -> None:
    source, whole = intact
    patterns = ["*.sst", "*.sst", "*.sst", "MANIFEST-*", "CURRENT", "*.log"]
    names = files(source, patterns[seed % len(patterns)])
    name = names[seed % len(names)]
    data = bytearray((source / name).read_bytes())
    if data:
        chosen = int.from_bytes(noise(f"bit {seed}", 8), "big") % (len(data) * 8)
        data[chosen // 8] ^= 1 << chosen % 8
        (source / name).write_bytes(bytes(data))

    outcome = must_be_whole_or_discarded(source, whole)

    assert outcome in {"whole", "discarded at opening", "discarded at reading"}


@pytest.mark.parametrize("seed", range(6))
def test_damage_in_every_table_that_closing_meets_too_is_noticed(tmp_path: Path, seed: int) -> None:
    """Opening then begins a compaction, which fails, and so does closing what was opened. Found by a chaos run."""
    store, whole = reopen(tmp_path / "open")[0], {}
    for turn in range(4):
        apply(store, *[put(f"j{n}", n, ready(f"j{n}", n), state=b"%04d" % turn * 40) for n in range(300)])
        if turn < 3:
            store._database().flush()
    whole[store.ledger_offset] = read_everything(store)
    copied_while_open(tmp_path / "open", tmp_path / "killed")
    store.close()
    for name in files(tmp_path / "killed", "*.sst"):
        data = bytearray((tmp_path / "killed" / name).read_bytes())
        data[seed * 131] ^= 1
        (tmp_path / "killed" / name).write_bytes(bytes(data))

    assert must_be_whole_or_discarded(tmp_path / "killed", whole).startswith("discarded")


def test_a_scan_over_a_damaged_block_fails_instead_of_ending_early(path: Path) -> None:
    """rocksdict's own keys() and items() stop there without a word."""
    store, _ = reopen(path)
    apply(store, *[put(f"j{n:05}", n, state=noise(str(n), 60)) for n in range(3_000)])
    store._database().compact_range(None, None)
    store.close()
    (table,) = path.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 0x10
    table.write_bytes(bytes(data))

    store, reason = reopen(path)
    assert reason is None
    with pytest.raises(StoreCorruptError) as kept:
        store.jobs(None, 3_000)
    store.close()

    store, reason = reopen(path)  # although the error, and with it every frame it passed, is still held
    assert "checksum" in str(kept.value)
    assert reason is not None
    assert reason.startswith("corrupt")
    store.close()


def test_verify_notices_an_index_that_disagrees_with_the_states(path: Path) -> None:
    store, _ = reopen(path)
    apply(store, put("a", 5))
    store.verify()
    store._database().put(b"t" + (4).to_bytes(8, "big") + b"a", b"")

    with pytest.raises(StoreCorruptError, match="disagree"):
        store.verify()
    store.close()
