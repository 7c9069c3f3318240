"""What one run costs the owner, without Kafka: define, lease, complete of one-off jobs through a real shard and store.

    python -m benchmarks.bench_owner [--runs N] [--batch N] [--profile]

Prints microseconds of this process's CPU per run, by part; see `--profile` for where they go.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import importlib.metadata
import platform
import pstats
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.config import Settings
from schemas.partition import partition_for
from streams.broker_clock import BrokerClock
from streams.core.commands import Complete, Define, LeaseRun
from streams.core.definition import Definition
from streams.core.envelopes import CommandBatch
from streams.core.identity import run_id_at
from streams.core.time import INSTALLED_ZONE_DATA, OneOffSpec
from streams.core.wire import encode_commands
from streams.inbox import Input
from streams.membership import Membership
from streams.owner import shard_settings
from streams.sealing import Sealer
from streams.shard import Shard
from streams.store.interface import StoreIdentity
from streams.store.rocks import open_store
from streams.transaction import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streams.batch import Batch
    from streams.core.commands import AnyCommand

START_MS = 1_800_000_000_000


class Bench:
    """One shard of a one-partition Horolog, with commits that succeed at once."""

    def __init__(self, directory: Path) -> None:
        settings = Settings.model_validate({"topics": {"partitions": 1}})
        identity = StoreIdentity(cluster_id="c", topic_id="t", partition=0)
        store, _ = open_store(directory, identity, START_MS, 10**9)
        self.clock = BrokerClock()
        self.sealer = Sealer(settings, Membership("g", 1, "m"), "tx")
        self.shard = Shard(
            0,
            store,
            self.clock,
            self.sealer,
            settings=shard_settings(settings),
            zone_data=INSTALLED_ZONE_DATA,
            floors={"commands": 0, "definitions": 0},
            topics={"commands": 1, "definitions": 2},
            next_seq=1,
            last_marker_ms=0,
        )
        self.now_ms = START_MS
        self.ledger_offset = 0
        self.command_offset = 0
        self.spent: dict[str, float] = {}
        self._commit(self.shard.first_batch())

    def tokens(self, run_ids: Sequence[str]) -> list[int]:
        """Return the present lease tokens."""
        found = []
        for run_id in run_ids:
            job = self.shard.job(run_id[4:].rpartition("_")[0])
            run = job.run(run_id) if job else None
            found.append(run.lease.lease_token if run and run.lease else 0)
        return found

    def send(self, commands: Sequence[AnyCommand]) -> None:
        """Push one record, as a gateway packs it."""
        batch = CommandBatch(gateway_id="gw", incarnation="1", sent_at_ms=self.now_ms, commands=tuple(commands))
        self.shard.push(Input("commands", self.command_offset, self.now_ms, b"", encode_commands(batch)))
        self.command_offset += 1

    def turn(self, name: str) -> None:
        """Decide and commit everything that waits."""
        while True:
            with self._timed(f"{name}: decide and seal"):
                batch = self.shard.collect(float(self.now_ms))
            if batch is None:
                return
            with self._timed(f"{name}: replies"):
                records = self.sealer.reply_records([batch])
            if not records:
                raise RuntimeError("nobody was answered")
            with self._timed(f"{name}: apply"):
                self._commit(batch)

    def _commit(self, batch: Batch) -> None:
        self.ledger_offset += 10_000
        self.shard.committed(batch, Receipt(self.ledger_offset, self.now_ms, float(self.now_ms)), self.now_ms)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - started


def run(bench: Bench, runs: int, batch: int) -> None:
    """Take `runs` one-offs through their life, `batch` of them at a time."""
    for first in range(0, runs, batch):
        job_ids = [f"bench-{number:09d}" for number in range(first, min(first + batch, runs))]
        due_at_ms = bench.now_ms + 1_000
        bench.send([_define(job_id, due_at_ms) for job_id in job_ids])
        bench.turn("define")
        run_ids = [run_id_at(job_id, due_at_ms) for job_id in job_ids]
        bench.now_ms = due_at_ms + 1
        bench.clock.sample(bench.now_ms, float(bench.now_ms))
        bench.send(
            [
                LeaseRun(
                    job_id=job_id,
                    request_id=f"l{run_id}",
                    run_id=run_id,
                    worker_id="w",
                    gateway_id="gw",
                    valid_until_ms=due_at_ms + 2_000,
                )
                for job_id, run_id in zip(job_ids, run_ids, strict=True)
            ]
        )
        bench.turn("lease")
        bench.send(
            [
                Complete(job_id=job_id, request_id=f"c{run_id}", run_id=run_id, lease_token=token)
                for job_id, run_id, token in zip(job_ids, run_ids, bench.tokens(run_ids), strict=True)
            ]
        )
        bench.turn("complete")


def _define(job_id: str, due_at_ms: int) -> Define:
    definition = Definition(
        job_id=job_id,
        tenant="default",
        queue="billing",
        name="rollup",
        task="rollup",
        schedule=OneOffSpec(at_ms=due_at_ms),
        payload=b'{"invoice": 4711}',
    )
    return Define(job_id=job_id, request_id=f"d{job_id}", definition=definition, request_hash=job_id, mode="create")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    partition_for("warm", 1)
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory) / "store")
        profile = cProfile.Profile() if options.profile else None
        if profile is not None:
            profile.enable()
        run(bench, options.runs, options.batch)
        if profile is not None:
            profile.disable()
        bench.shard.store.close()
    versions = {name: importlib.metadata.version(name) for name in ("rocksdict", "fastavro", "msgspec")}
    print(f"python {platform.python_version()}, {versions}, {options.runs} runs, {options.batch} a batch")
    for name, seconds in sorted(bench.spent.items()):
        print(f"{name:28} {seconds * 1e6 / options.runs:8.1f} us a run")
    print(f"{'all':28} {sum(bench.spent.values()) * 1e6 / options.runs:8.1f} us a run")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
