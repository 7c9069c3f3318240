"""How long a scheduler needs for a partition with a million pending jobs: from nothing, and from its local store.

    python -m benchmarks.bench_recovery [--jobs N] [--keep DIR] [--profile]

On a Kafka of its own. The ledger is written first, by the product's own `decide` and `Sealer`, so it is what an owner
writes: a state, a definition, and the marker of each transaction. Then `horologd scheduler` is started on it, stopped,
started again, killed, and started a third time. Times are from the group's assignment to the partition being acted for
(`/readyz`). `--keep DIR` leaves Kafka's data there and uses it the next time; `--profile` rebuilds in this process
instead, and prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib.metadata
import json
import os
import platform
import pstats
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from schemas.config import Settings, env_name, load_settings
from streams.batch import Batch
from streams.core.commands import Define
from streams.core.context import Context
from streams.core.decide import decide
from streams.core.definition import Definition
from streams.core.time import INSTALLED_ZONE_DATA, OneOffSpec
from streams.kafka_dev import KafkaCluster, free_ports, kafka_version, process_rss_mb
from streams.ledger_log import KafkaLedgerLog
from streams.membership import Membership
from streams.owner import input_topics
from streams.sealing import Sealer
from streams.store.rocks import open_store
from streams.takeover import Takeover
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.core.state import Job
    from streams.store.interface import Store, StoreIdentity

CHUNK: Final = 5_000
"""Jobs of one transaction."""

FIRST_DUE_S: Final = 6 * 3_600
"""From now: nothing falls due while the benchmark runs."""

POLL_S: Final = 0.1
"""Between two looks at /readyz; each costs the scheduler a millisecond or two."""

READY_TIMEOUT_S: Final = 600.0
NAMESPACE: Final = "recovery."
DONE: Final = "ledger-written"
HOROLOGD: Final = Path(sys.executable).parent / "horologd"


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def load() -> str:
    """Say how busy the machine is: nothing here is absolute."""
    return "load " + "/".join(f"{value:.1f}" for value in os.getloadavg())


def cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process: on a busy machine it says more than the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settings_of(bootstrap_servers: str) -> Settings:
    """Return the settings of one partition."""
    where = {"bootstrap_servers": bootstrap_servers, "namespace": NAMESPACE}
    return load_settings(env={}, overrides={"kafka": where, "topics": {"partitions": 1}})


# --- the ledger ---


def write_ledger(settings: Settings, jobs: int) -> None:
    """Write what an owner writes that has accepted so many one-off jobs."""
    sealer = Sealer(settings, Membership("bench", 1, "member"), f"{NAMESPACE}bench")
    producer = Producer(
        {
            **settings.kafka.client_config(),
            "transactional.id": sealer.transactional_id,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10 * CHUNK,
        }
    )
    producer.init_transactions(30)
    for first in range(0, jobs, CHUNK):
        producer.begin_transaction()
        now_ms = time.time_ns() // 1_000_000
        batch = Batch(partition=0, now_ms=now_ms)
        for job in _accepted(range(first, min(first + CHUNK, jobs)), now_ms):
            batch.before[job.state.job_id] = None
            batch.after[job.state.job_id] = job
        sealer.seal(batch, {}, first + 1)
        if batch.write is None:
            raise RuntimeError("the batch was not sealed")
        for record in (*batch.write.records, batch.write.marker):
            producer.produce(
                record.topic, record.value, record.key, partition=record.partition, headers=record.headers or []
            )
        producer.commit_transaction(60)


def _accepted(numbers: range, now_ms: int) -> Iterator[Job]:
    context = Context(now_ms=now_ms, zone_data=INSTALLED_ZONE_DATA)
    for number in numbers:
        definition = Definition(
            job_id=f"acme.reminder.{number:012d}",
            tenant=f"team-{number % 50}",
            queue="mail",
            name="reminder",
            task="send",
            schedule=OneOffSpec(at_ms=now_ms + FIRST_DUE_S * 1_000 + number * 86_400 % 86_400_000),
            payload=b'{"customer": %d, "template": "reminder", "channel": "mail"}' % number,
        )
        command = Define(job_id=definition.job_id, definition=definition, request_hash=f"{number:032x}", mode="create")
        job = decide(None, command, context).job_after
        if job is None:
            raise RuntimeError(f"{definition.job_id} was not accepted")
        yield job


# --- a scheduler process ---


class Scheduler:
    """One `horologd scheduler` on that ledger."""

    def __init__(self, settings: Settings, root: Path) -> None:
        (ports,) = free_ports(1)
        self._url = f"http://127.0.0.1:{ports.broker}"
        self._log = root / "scheduler.log"
        self._log.unlink(missing_ok=True)
        values = {
            "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
            "kafka.namespace": NAMESPACE,
            "topics.partitions": "1",
            "scheduler.data_dir": str(root / "data"),
            "scheduler.admin_port": str(ports.broker),
            "log.format": "json",
        }
        environment = {**os.environ, **{env_name(name): value for name, value in values.items()}}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([HOROLOGD, "scheduler"], env=environment, stdout=log, stderr=log)

    def recovered(self, label: str) -> None:
        """Wait until it acts for the partition, and tell how long that took and how progress showed."""
        seen: list[dict[str, Any]] = []
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            body = self._readyz()
            if body.get("owned"):
                break
            if body.get("recovering", {}).get("0"):
                seen.append(body["recovering"]["0"])
            time.sleep(POLL_S)
        else:
            raise RuntimeError(f"not ready: {self._log.read_text(encoding='utf-8')[-2_000:]}")
        took_s = time.time() - self._at_s("partitions_assigned")
        (ready,) = self._lines("partitions_ready")
        distinct = len({json.dumps(progress) for progress in seen})
        say(
            f"{label:<34} {took_s:6.2f} s to act ({ready['took_ms'] / 1000:.2f} s taking over), "
            f"{cpu_s(self._process.pid):.1f} s of CPU since its start, "
            f"{process_rss_mb(self._process.pid)} MB resident, {distinct} steps of progress seen in /readyz; {load()}"
        )

    def end(self, number: signal.Signals) -> None:
        """Stop it and wait."""
        self._process.send_signal(number)
        self._process.wait(60)

    def _readyz(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=5) as answer:
                body: dict[str, Any] = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                body = json.loads(error.read())
        except OSError:
            return {}
        return body

    def _lines(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self._log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line.get("event") == event]

    def _at_s(self, event: str) -> float:
        return datetime.fromisoformat(self._lines(event)[0]["ts"]).timestamp()


# --- in this process ---


def profile(settings: Settings, root: Path) -> None:
    """Rebuild once here, under cProfile, and once without it."""
    for profiled in (False, True):
        log = KafkaLedgerLog(settings, settings.kafka.client_config())
        log.warm_up()
        path = root / f"profile-{profiled}"

        def make(partition: int, identity: StoreIdentity, end: int, path: Path = path) -> Store:
            return open_store(path / str(partition), identity, time.time_ns() // 1_000_000, 10**10, end)[0]

        takeover = Takeover(
            log, make, input_topics=input_topics(settings), still_current=lambda: True, own_id=lambda: "none"
        )
        profiler = cProfile.Profile()
        began, cpu = time.monotonic(), time.process_time()
        if profiled:
            profiler.enable()
        recovered = takeover.run([0])
        profiler.disable()
        took, spent = time.monotonic() - began, time.process_time() - cpu
        if recovered is None:
            raise RuntimeError("the take-over was given up")
        say(f"in this process: {took:.2f} s, {spent:.2f} s of CPU, {recovered[0].store.counts.jobs} jobs; {load()}")
        if profiled:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
        began = time.monotonic()
        recovered[0].store.close()
        say(f"closing the store: {time.monotonic() - began:.2f} s")
        log.close()


def main() -> None:
    """Fill the ledger, and recover from it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("confluent-kafka", "rocksdict"))
    say(f"Python {platform.python_version()}, Kafka {kafka_version()}, {versions}, {os.cpu_count()} CPUs, {load()}")
    with tempfile.TemporaryDirectory(prefix="horolog-recovery-") as scratch:
        root = (chosen.keep or Path(scratch)).resolve()
        with KafkaCluster(root / "kafka", ports="free") as kafka:
            settings = settings_of(kafka.bootstrap_servers)
            create_topics(settings)
            if not (root / DONE).exists():
                began = time.monotonic()
                write_ledger(settings, chosen.jobs)
                (root / DONE).write_text(str(chosen.jobs), encoding="utf-8")
                say(f"wrote the ledger of {chosen.jobs} jobs in {time.monotonic() - began:.1f} s")
            if chosen.profile:
                profile(settings, Path(scratch))
                return
            for label, ending in (
                ("from nothing", signal.SIGTERM),
                ("from its store, after a stop", signal.SIGKILL),
                ("from its store, after kill -9", signal.SIGTERM),
            ):
                scheduler = Scheduler(settings, Path(scratch))
                try:
                    scheduler.recovered(label)
                    threading.Event().wait(2.0)
                finally:
                    scheduler.end(ending)


if __name__ == "__main__":
    main()
