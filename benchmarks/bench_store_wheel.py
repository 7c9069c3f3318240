"""What one operation of the wheel and of the store costs on this machine. Run: python -m benchmarks.bench_store_wheel.

Each number is the best of some rounds (other work on the machine only adds), in microseconds an operation,
or a rate. `--load N` sets the number of
jobs of the recovery (200,000 unless given; a million is the number that a restart must rebuild in 30 s).
Databases lie in a temporary directory (`TMPDIR` moves it).
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from streams.store.interface import (
    DueEntry,
    IndexHeader,
    LedgerChange,
    LedgerRecord,
    ReadyKey,
    ReadyLine,
    StoreIdentity,
)
from streams.store.rocks import RocksStore, open_store
from streams.wheel import TimingWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDENTITY = StoreIdentity(cluster_id="bench", topic_id="bench", partition=0)
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
STATE_BYTES = 600
LOAD_BATCH = 5_000
ROUNDS = 5


def say(text: str) -> None:
    """Write one line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def best_us(operations: int, action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Give the best time of one of `operations` that one call of `action` does."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) / operations * 1e6)
    return min(times)


def state_bytes(number: int) -> bytes:
    """Give a state as compressible as Avro records are: half noise, half repetition."""
    noise = hashlib.shake_256(number.to_bytes(8, "big")).digest(STATE_BYTES // 2)
    return noise + bytes(STATE_BYTES - len(noise))


def job_id(number: int) -> str:
    """Give a job id of a usual length."""
    return f"acme.report.{number:012d}"


def bench_wheel(entries: int = 100_000) -> None:
    """Put, move, cancel, and advance through 30 s in steps of 10 ms."""
    pairs = [(job_id(number), START_MS + number * 7_919 % 30_000) for number in range(entries)]
    costs: dict[str, list[float]] = {"put": [], "move": [], "cancel": [], "advance by 30 s": []}
    for _ in range(ROUNDS):
        wheel = TimingWheel(START_MS)

        def put(wheel: TimingWheel = wheel) -> None:
            for key, deadline_ms in pairs:
                wheel.put(key, deadline_ms)

        def move(wheel: TimingWheel = wheel) -> None:
            for key, deadline_ms in pairs:
                wheel.put(key, deadline_ms ^ 8)

        def cancel(wheel: TimingWheel = wheel) -> None:
            for key, _ in pairs:
                wheel.cancel(key)

        def advance(wheel: TimingWheel = wheel) -> None:
            for step in range(3_001):
                wheel.advance(START_MS + step * 10)

        costs["put"].append(best_us(entries, put, rounds=1))
        costs["move"].append(best_us(entries, move, rounds=1))
        costs["cancel"].append(best_us(entries, cancel, rounds=1))
        put()
        costs["advance by 30 s"].append(best_us(entries, advance, rounds=1))
    parts = "  ".join(f"{name} {min(values):.2f}" for name, values in costs.items())
    say(f"wheel, us per entry of {entries}: {parts}")
    wheel = TimingWheel(START_MS)
    steps = iter(range(1, 10**9))
    idle = best_us(10_000, lambda: [wheel.advance(START_MS + next(steps) * 10) for _ in range(10_000)])
    wheel.put("a", wheel.now_ms + 20_000)
    wake = best_us(10_000, lambda: [wheel.next_deadline_ms() for _ in range(10_000)])
    say(f"wheel, idle: advance by a slot {idle:.2f} us  next_deadline_ms {wake:.2f} us")


def change(number: int, round_number: int, *, told: bool) -> LedgerChange:
    """Give the change that a grant makes: new deadline, and its ready key gone or back."""
    waiting = ReadyKey(
        "acme", "mail", 1, START_MS + number, f"run_{job_id(number)}_20260101T000000000Z", job_id(number)
    )

    def header(turn: int) -> IndexHeader:
        return IndexHeader(START_MS + number + turn, (waiting,) if turn % 2 else ())

    now = header(round_number)
    before = header(round_number - 1) if told else None
    return LedgerChange(
        job_id(number), state_bytes(number), deadline_ms=now.deadline_ms, ready=now.ready, previous=before
    )


def bench_apply(store: RocksStore, jobs: int = 20_000) -> None:
    """Apply changes of jobs that exist, in batches of three sizes; with and without the header at hand."""
    turn = 0
    for told in (False, True):
        costs = []
        for batch in (10, 100, 1_000):
            times = []
            for _ in range(ROUNDS):
                turn += 1
                changes = [change(number, turn, told=told) for number in range(jobs)]
                began = time.perf_counter()
                for at in range(0, jobs, batch):
                    store.apply(changes[at : at + batch], ledger_offset=store.ledger_offset + 1, now_ms=START_MS)
                times.append((time.perf_counter() - began) / jobs * 1e6)
            costs.append(f"{batch}: {min(times):.2f}")
        say(f"store.apply per change ({'header told' if told else 'header read'}), batches of {'  '.join(costs)} us")


def recovery(jobs: int, *, definitions: bool) -> Iterator[list[LedgerRecord]]:
    """Give a ledger of `jobs` states (and definitions) in batches; a tenth of the states come twice."""
    batch: list[LedgerRecord] = []
    for number in range(jobs):
        if definitions:
            batch.append(LedgerRecord("d", job_id(number), state_bytes(number + 1)[:400]))
        spread = number * 7_919 % jobs
        header = IndexHeader(START_MS + spread * 10).encode()
        batch.append(LedgerRecord("s", job_id(number), state_bytes(number), header))
        if number % 10 == 9:
            batch.append(LedgerRecord("s", job_id(number - 5), state_bytes(number - 5), header))
        if len(batch) >= LOAD_BATCH:
            yield batch
            batch = []
    yield batch


def bench_load(path: Path, jobs: int, *, definitions: bool) -> None:
    """Load a whole ledger into a new store; batches are made before the clock runs."""
    store, _ = open_store(path, IDENTITY, START_MS, DAY_MS)
    records, spent_s, cpu = 0, 0.0, time.process_time()
    for batch in recovery(jobs, definitions=definitions):
        began = time.perf_counter()
        store.load(batch, ledger_offset=store.ledger_offset + len(batch), now_ms=START_MS)
        spent_s += time.perf_counter() - began
        records += len(batch)
    cpu = time.process_time() - cpu
    began = time.perf_counter()
    store.close()
    closed_s = time.perf_counter() - began
    began = time.perf_counter()
    store, reason = open_store(path, IDENTITY, START_MS, DAY_MS)
    opened_s = time.perf_counter() - began
    size_mb = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    say(
        f"store.load {jobs} jobs{' with definitions' if definitions else ''}, {records} records: {spent_s:.2f} s,"
        f" {records / spent_s:,.0f} records/s, {jobs / spent_s:,.0f} jobs/s (CPU with making them {cpu:.1f} s);"
        f" close {closed_s:.2f} s, open {opened_s:.3f} s ({reason or 'kept'}, {store.counts.jobs} jobs),"
        f" {size_mb:.0f} MB"
    )
    bench_due(store, jobs)
    store.close()


def bench_due(store: RocksStore, jobs: int) -> None:
    """Read the due index by seek, from a continuation key and from the floor above deleted entries."""
    after = DueEntry(START_MS + jobs * 5, "")
    one = best_us(1_000, lambda: [store.due(after, START_MS + jobs * 10, 1) for _ in range(1_000)])
    page = best_us(1_000, lambda: store.due(after, START_MS + jobs * 10, 1_000))
    dead = store.due(None, START_MS + jobs * 10, min(jobs // 2, 100_000))
    store.apply(
        [LedgerChange(entry.job_id, None) for entry in dead],
        ledger_offset=store.ledger_offset + 1,
        now_ms=START_MS,
    )
    floored = best_us(1_000, lambda: [store.due(None, START_MS + jobs * 10, 1) for _ in range(1_000)])
    store._due_floor = b""  # noqa: SLF001  # shows what the floor saves
    began = time.perf_counter()
    store.due(None, START_MS + jobs * 10, 1)
    bare_us = (time.perf_counter() - began) * 1e6
    say(
        f"store.due: seek and one entry {one:.2f} us; a page of 1,000 {page:.3f} us an entry;"
        f" behind {len(dead)} deleted entries {floored:.2f} us (without the floor {bare_us:,.0f} us)"
    )


def bench_ready(store: RocksStore, lines: int = 500, runs: int = 40) -> None:
    """Read the heads of many lines and one line, after half of the runs were granted."""
    for number in range(lines * runs):
        key = ReadyKey(f"t{number % 50}", f"q{number % lines}", 1, START_MS + number, f"run{number}", f"w{number}")
        store.apply(
            [LedgerChange(f"w{number}", b"s", ready=(key,))],
            ledger_offset=store.ledger_offset + 1,
            now_ms=START_MS,
        )
    for number in range(lines * runs // 2):
        store.apply([LedgerChange(f"w{number}", b"s")], ledger_offset=store.ledger_offset + 1, now_ms=START_MS)
    far_ms = START_MS + lines * runs
    heads = best_us(lines, lambda: store.ready_heads(far_ms))
    line = ReadyLine("t7", "q7", 1)
    one = best_us(1_000, lambda: [store.ready_line(line, far_ms, 1) for _ in range(1_000)])
    page = best_us(1_000 * runs // 2, lambda: [store.ready_line(line, far_ms, runs) for _ in range(1_000)])
    say(
        f"store.ready_heads over {lines} lines {heads:.2f} us a line; head of one line {one:.2f} us;"
        f" whole line {page:.2f} us a run"
    )


def main() -> None:
    """Run everything once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=int, default=200_000)
    jobs: int = parser.parse_args().load
    names = " ".join(f"{name} {metadata.version(name)}" for name in ("rocksdict", "msgspec"))
    say(f"Python {platform.python_version()}, {names}, {platform.system()} {platform.machine()}")
    bench_wheel()
    with tempfile.TemporaryDirectory() as directory:
        store, _ = open_store(Path(directory) / "apply", IDENTITY, START_MS, DAY_MS)
        bench_apply(store)
        bench_ready(store)
        store.close()
        bench_load(Path(directory) / "states", jobs, definitions=False)
        bench_load(Path(directory) / "both", jobs, definitions=True)


if __name__ == "__main__":
    main()
