"""Latency and rate of the whole of Horolog on this machine, counted from the workers' own journals.

    python -m benchmarks.bench_e2e [--rates 1000,1500,2000,3500] [--seconds 60] [--latency-rate 500] [--out FILE]

Starts a Kafka of its own, a scheduler, a gateway and workers as separate processes, on free loopback ports; ends
them all. For each
rate it creates one-off jobs, due evenly over the window, through topic `commands` before the window begins (creating
is timed apart), lets
the window pass, and reads from the workers' journals when each handler started. A rate is held if every run was
executed and p99 of
(handler start - scheduled instant) is under 1 s. CPU is of this machine's processes over the window, in cores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.kafka_link import KafkaLink, KafkaLinkConfig
from benchmarks.bursts import BURST_MS, Burst, broker_pauses, bursts, intervals
from schemas.config import load_settings
from streams.core.commands import Define, Reply
from streams.core.definition import Definition
from streams.core.time import OneOffSpec
from streams.kafka_dev import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.bursts import Interval
    from schemas.config import Settings

READY_TIMEOUT_S = 60.0
CREATE_CHUNK = 2_000
LEAD_S = 8.0
SETTLE_S = 15.0
HELD_P99_MS = 1_000.0
BURSTS_SHOWN = 10
TICK = os.sysconf("SC_CLK_TCK")


class System:
    """The processes under test."""

    def __init__(self, root: Path, *, partitions: int, workers: int, slots: int) -> None:
        self.root, self.workers, self.slots = root, workers, slots
        self.partitions = partitions
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.pids: dict[str, int] = {}
        self.environment: dict[str, str] = {}
        self.gateway_port = _free_port()
        self.steps_path = root / "steps"
        self.broker_gc_path = root / "broker-gc.log"

    def slow(self, since_ms: float, until_ms: float) -> list[Interval]:
        """Return what scheduler and broker did in a window, and how long each step took."""
        steps = self.steps_path.read_text(encoding="ascii").splitlines()
        within = [line for line in steps if since_ms <= float(line.split(" ", 1)[0]) <= until_ms]
        pauses = broker_pauses(self.broker_gc_path.read_text(encoding="utf-8")) if self.broker_gc_path.exists() else []
        return intervals(within) + pauses

    def start(self, bootstrap_servers: str) -> None:
        """Start everything but the workers, and wait until it answers."""
        self.environment = {
            "HOROLOG_KAFKA__BOOTSTRAP_SERVERS": bootstrap_servers,
            "HOROLOG_KAFKA__NAMESPACE": "bench.",
            "HOROLOG_TOPICS__PARTITIONS": str(self.partitions),
            "HOROLOG_SCHEDULER__DATA_DIR": str(self.root / "data"),
            "HOROLOG_SCHEDULER__ADMIN_PORT": str(_free_port()),
            "HOROLOG_GATEWAY__PORT": str(self.gateway_port),
            "HOROLOG_LOG__FORMAT": "json",
        }
        subprocess.run([*_HOROLOGD, "topics", "create"], env=self._env(), check=True, capture_output=True)
        self._spawn("scheduler", [sys.executable, "-m", "benchmarks.timed_scheduler", str(self.steps_path)])
        _wait_ready(f"http://127.0.0.1:{self.environment['HOROLOG_SCHEDULER__ADMIN_PORT']}/readyz")
        self._spawn("gateway", [*_HOROLOGD, "gateway"])
        _wait_ready(f"http://127.0.0.1:{self.gateway_port}/readyz")

    def settings(self) -> Settings:
        """Return the configuration that the processes run with."""
        return load_settings(env=self.environment)

    @contextlib.contextmanager
    def working(self) -> Iterator[list[Path]]:
        """Run the workers; their journals are whole once this is left."""
        journals = [self.root / f"journal-{time.time_ns()}-{number}" for number in range(self.workers)]
        url = f"http://127.0.0.1:{self.gateway_port}"
        for number, journal in enumerate(journals):
            command = [sys.executable, "-m", "benchmarks.e2e_worker", url, "bench", str(self.slots), str(journal)]
            self._spawn(f"worker-{number}", command)
        try:
            yield journals
        finally:
            for number in range(self.workers):
                self._end(f"worker-{number}")

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time so far of each process."""
        return {name: _cpu_seconds(pid) for name, pid in self.pids.items()}

    def commits(self) -> tuple[float, float]:
        """Return how many transactions the scheduler has committed, and the seconds that they took together."""
        url = f"http://127.0.0.1:{self.environment['HOROLOG_SCHEDULER__ADMIN_PORT']}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("horolog_commit_seconds_"))
        return float(values["horolog_commit_seconds_count"]), float(values["horolog_commit_seconds_sum"])

    def stop(self) -> None:
        """End what was started."""
        for name in [*self.processes]:
            self._end(name)

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=self._env(), stdout=log, stderr=log)
        self.processes[name] = process
        self.pids[name] = process.pid

    def _end(self, name: str) -> None:
        process = self.processes.pop(name, None)
        self.pids.pop(name, None)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


_HOROLOGD = [sys.executable, "-c", "from streams.cli import main; main()"]


async def create(settings: Settings, rate: float, seconds: float, name: str) -> tuple[int, float, float]:
    """Create one-offs due evenly over a window that begins a little after the last is created.

    Returns (how many, first due in epoch ms, seconds that creating took).
    """
    config = DispatchConfig(partitions=settings.topics.partitions, gateway_id=f"bench-{name}")
    client = DispatchClient(
        KafkaLink(KafkaLinkConfig.from_settings(settings, config.gateway_id), config.gateway_id), config
    )
    await client.start()
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not client.ready and time.monotonic() < deadline:  # noqa: ASYNC110 - a benchmark may poll
        await asyncio.sleep(0.05)
    count = int(rate * seconds)
    # Creating runs at several thousand a second; the window begins when it surely is over.
    first_due_ms = time.time() * 1000 + LEAD_S * 1000 + count / 2_000 * 1000
    started = time.monotonic()
    for first in range(0, count, CREATE_CHUNK):
        commands = [
            _define(f"{name}-{number:07d}", int(first_due_ms + number * 1000 / rate))
            for number in range(first, min(first + CREATE_CHUNK, count))
        ]
        for reply in await client.commands(commands):
            if not isinstance(reply, Reply) or reply.code != "created":
                raise RuntimeError(f"a job was not created: {reply}")
    took = time.monotonic() - started
    await client.stop()
    return count, first_due_ms, took


def _define(job_id: str, due_at_ms: int) -> Define:
    definition = Definition(
        job_id=job_id,
        tenant="default",
        queue="bench",
        name="bench",
        task="bench",
        schedule=OneOffSpec(at_ms=due_at_ms),
        payload=b"{}",
    )
    return Define(job_id=job_id, definition=definition, request_hash=job_id, mode="create")


def measure(system: System, rate: float, seconds: float, label: str) -> dict[str, Any]:
    """Hold one rate and read the journals."""
    with system.working() as journals:
        count, first_due_ms, create_seconds = asyncio.run(create(system.settings(), rate, seconds, label))
        print(f"  {label}: {count} jobs created in {create_seconds:.1f} s; waiting for the window", flush=True)
        _sleep_until(first_due_ms / 1000)
        before, wall, commits = system.cpu_seconds(), time.monotonic(), system.commits()
        _sleep_until(first_due_ms / 1000 + seconds)
        cpu = {name: spent - before[name] for name, spent in system.cpu_seconds().items() if name in before}
        window = time.monotonic() - wall
        after = system.commits()
        commits = (after[0] - commits[0], after[1] - commits[1])
        time.sleep(SETTLE_S)
    starts = [line.split() for journal in journals for line in journal.read_text(encoding="utf-8").splitlines()]
    starts = [row for row in starts if row[0].startswith(f"run_{label}-")]
    lateness = sorted(float(at) - float(due) for _, due, at, _ in starts)
    distinct = len({row[0] for row in starts})
    late = {name: _percentile(lateness, q) for name, q in _PERCENTILES.items()}
    result: dict[str, Any] = {
        "label": label,
        "rate": rate,
        "seconds": seconds,
        "jobs": count,
        "executed": len(starts),
        "distinct": distinct,
        "create_per_second": round(count / create_seconds),
        "lateness_ms": late,
        "commits_per_second": round(commits[0] / window, 1),
        "commit_ms_mean": round(commits[1] * 1000 / commits[0], 1) if commits[0] else None,
        "early": sum(1 for value in lateness if value < 0),
        "cpu_cores": {name: round(spent / window, 3) for name, spent in cpu.items()},
    }
    runs = [(float(due), float(at)) for _, due, at, _ in starts]
    found = bursts(runs, system.slow(first_due_ms, first_due_ms + seconds * 1000 + SETTLE_S * 1000))
    result["bursts"] = [_told(burst, first_due_ms) for burst in found]
    result["held"] = distinct == count and late["p99"] < HELD_P99_MS
    _show(result)
    return result


_PERCENTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}


def _percentile(ordered: list[float], q: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * q))], 1) if ordered else float("inf")


def _show(result: dict[str, Any]) -> None:
    late = result["lateness_ms"]
    cores = " ".join(f"{name} {value:.2f}" for name, value in result["cpu_cores"].items())
    verdict = "held" if result["held"] else "NOT held"
    lateness = f"p50 {late['p50']:>7.1f} ms  p99 {late['p99']:>8.1f} ms  max {late['max']:>8.1f} ms"
    runs = f"{result['rate']:>7.0f}/s {result['distinct']:>7}/{result['jobs']}"
    commits = f"commits {result['commits_per_second']}/s of {result['commit_ms_mean']} ms"
    print(f"{runs} {lateness}  {verdict:8} {commits}  cores: {cores}", flush=True)
    _show_bursts(result["bursts"])


def _told(burst: Burst, first_due_ms: float) -> dict[str, Any]:
    return {
        "at_s": round((burst.began_ms - first_due_ms) / 1000, 2),
        "runs": burst.runs,
        "worst_ms": round(burst.worst_ms, 1),
        "explained": burst.explained,
        "causes": [
            f"{cause.what} {cause.took_ms:.0f} ms" + (f" (median {cause.usual_ms:.0f})" if cause.usual_ms else "")
            for cause in burst.causes
        ],
    }


def _show_bursts(told: Sequence[dict[str, Any]]) -> None:
    explained = sum(burst["explained"] for burst in told)
    print(f"  bursts over {BURST_MS:.0f} ms: {len(told)}, explained {explained}; the worst:", flush=True)
    for burst in sorted(told, key=lambda burst: -burst["worst_ms"])[:BURSTS_SHOWN]:
        causes = ", ".join(burst["causes"]) or "nothing was slow"
        print(
            f"    at {burst['at_s']:6.2f} s {burst['runs']:4} runs up to {burst['worst_ms']:6.1f} ms: {causes}",
            flush=True,
        )


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def _sleep_until(wall_s: float) -> None:
    time.sleep(max(0.0, wall_s - time.time()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_ready(url: str) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{url} did not become ready in {READY_TIMEOUT_S:.0f} s; see the logs beside the journals")


def main() -> None:
    """Run the latency window, then the ladder of rates, and print and keep what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rates", default="1000,1500,2000,2500,3000,3500")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--latency-rate", type=float, default=500.0)
    parser.add_argument("--latency-seconds", type=float, default=30.0)
    parser.add_argument("--warm-seconds", type=float, default=45.0)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--slots", type=int, default=500)
    parser.add_argument(
        "--verification-off", action="store_true", help="transaction.partition.verification.enable=false"
    )
    parser.add_argument("--out", type=Path, default=Path(".horolog/bench-e2e.json"))
    options = parser.parse_args()
    versions = {
        name: version(name) for name in ("confluent-kafka", "faust-streaming", "aiokafka", "rocksdict", "aiohttp")
    }
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "versions": versions, **vars(options)}
    print(json.dumps(about, default=str))
    extra = {"transaction.partition.verification.enable": "false"} if options.verification_off else {}
    results = []
    root = Path(tempfile.mkdtemp(prefix="horolog-bench-"))
    os.environ["JDK_JAVA_OPTIONS"] = f"-Xlog:gc:file={root / 'broker-gc.log'}:time"
    with KafkaCluster(root=root / "kafka", ports="free", extra=extra) as cluster:
        system = System(root, partitions=options.partitions, workers=options.workers, slots=options.slots)
        system.pids["broker"] = cluster.nodes[0].status().pid or 0
        try:
            system.start(cluster.bootstrap_servers)
            print("warming up", flush=True)
            measure(system, options.latency_rate, options.warm_seconds, "warm")
            results.append(measure(system, options.latency_rate, options.latency_seconds, "latency"))
            for rate in [float(text) for text in options.rates.split(",") if text]:
                results.append(measure(system, rate, options.seconds, f"rate{rate:.0f}"))
                if not results[-1]["held"]:
                    break
        finally:
            system.stop()
    held = [result["rate"] for result in results if result["held"]]
    print(f"highest rate held: {max(held, default=0):.0f}/s")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"about": about, "results": results}, indent=1, default=str), encoding="utf-8")
    print(f"raw data: {options.out}; logs and journals: {root}")


if __name__ == "__main__":
    main()
