"""Scheduler processes on a real Kafka, and the faults that are done to them.

A `Cluster` is one namespace: its topics and some schedulers, each a process of its own with its own log, started
through tests/chaos/scheduler_with_faults.py. Every fault and its healing goes into one list with wall times, told as it
happens, so that a failure can be repeated and judged. Only processes that this object started are ever signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from schemas.config import env_name, load_settings
from streams.audit.journals import Fault
from streams.kafka_dev import free_ports, wait_until
from streams.topic_admin import create_topics
from tests.chaos.harness.clock import BROKER_OFF_VARIABLE, judged_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from schemas.config import Settings
    from tests.chaos.harness.clock import Clocks

CHECKOUT: Final = Path(__file__).resolve().parents[3]
PROGRAM: Final = CHECKOUT / "tests" / "chaos" / "scheduler_with_faults.py"
READY_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0
ASK_TIMEOUT_S: Final = 1.0

Step = Literal["begin", "produce", "flush", "offsets", "commit", "reply", "apply"]
Inputs = Literal["any", "some", "none"]
"""Which transactions an order is for: those that consume input records, those that do not, or all."""

STEPS: Final[tuple[Step, ...]] = ("begin", "produce", "flush", "offsets", "commit", "reply", "apply")

FAST: Final = {
    "scheduler.session_timeout_ms": "2000",
    "scheduler.heartbeat_interval_ms": "300",
    "scheduler.rebalance_timeout_ms": "6000",
}
"""Settings for tests: a third of the usual session, so that three times the faults fit into the same time."""

BROKER: Final = {"group.min.session.timeout.ms": "1000", "log.cleaner.backoff.ms": "1000"}
"""What the broker needs for FAST, and for a cleaner that looks for work at once (with tiny segments only)."""


def now_ms() -> int:
    """Wall time by the clock of all journals."""
    return judged_ms()


class Scheduler:
    """One scheduler that can die and be started again; its directory keeps orders, journal and log."""

    program: Path = PROGRAM

    def __init__(self, name: str, directory: Path, environment: Mapping[str, str], port: int) -> None:
        self.name = name
        self.directory = directory
        self.port = port
        self.log_path = directory / "scheduler.log"
        self._environment = dict(environment) | {env_name("scheduler.admin_port"): str(port)}
        self._process: subprocess.Popen[bytes] | None = None
        self._orders = 0
        self.frozen = False
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def alive(self) -> bool:
        """Whether the process exists; a frozen one does."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the last process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        """Where its stores lie, in a slot of its own."""
        return Path(self._environment[env_name("scheduler.data_dir")])

    @property
    def exit_code(self) -> int | None:
        """Of the last process, None while it lives."""
        return self._process.poll() if self._process else None

    def arguments(self) -> list[str]:
        """Give what its program is told on the command line."""
        return [str(self.directory)]

    def start(self, **extra: str) -> None:
        """Start a process; returns at once."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        (self.directory / "order.json").unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, str(self.program), *self.arguments()],
                env=self._environment | extra,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if there is one."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_gone()

    def freeze(self) -> None:
        """Stop all its threads; connections stay open."""
        self.signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)
        self.frozen = False

    def stop(self) -> float:
        """End it in good order; return the seconds that took."""
        began = time.monotonic()
        self.thaw()
        self.signal(signal.SIGTERM)
        self.wait_gone()
        return time.monotonic() - began

    def wait_gone(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait for its end."""
        if self._process is not None:
            self._process.wait(timeout_s)
        self.frozen = False

    def order(
        self, step: str, action: Literal["kill", "stop"], *, skip: int = 0, inputs: Inputs = "any", writes: int = 1
    ) -> int:
        """Tell it what to do to itself before a step; replaces an earlier order. Returns the order's id.

        `writes`: for how many partitions the transaction must write.
        """
        self._orders += 1
        order = {"id": self._orders, "step": step, "action": action, "skip": skip, "inputs": inputs, "writes": writes}
        text = json.dumps(order)
        partial = self.directory / "order.partial"
        partial.write_text(text)
        partial.rename(self.directory / "order.json")
        return self._orders

    def hit_at_ms(self, order: int, timeout_s: float = 20.0) -> int | None:
        """Wait for an order to be carried out; None if it was not in time."""
        found: list[int] = []

        def carried_out() -> bool:
            found.extend(line["at_ms"] for line in self.journal() if line["what"] == "hit" and line["order"] == order)
            return bool(found)

        return found[0] if wait_until(carried_out, timeout_s) else None

    def journal(self) -> list[dict[str, Any]]:
        """Read what it wrote down."""
        return _json_lines(self.directory / "journal.jsonl")

    def log(self) -> list[dict[str, Any]]:
        """Read its log lines; text that is no JSON comes as {"event": text}."""
        return [*_json_lines(self.log_path.with_suffix(".old")), *_json_lines(self.log_path)]

    def set_log_aside(self) -> None:
        """Let the log file begin at its start again, for a process that may write only short files."""
        with self.log_path.with_suffix(".old").open("ab") as old:
            old.write(self.log_path.read_bytes())
        os.truncate(self.log_path, 0)

    def owned(self) -> frozenset[int]:
        """Ask which partitions it acts for; none where it does not answer."""
        if not self.alive or self.frozen:
            return frozenset()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=ASK_TIMEOUT_S) as answer:
                body = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                body = json.loads(error.read())
        except (OSError, ValueError):
            return frozenset()
        return frozenset(body["owned"])


class Cluster:
    """One namespace with its schedulers."""

    def __init__(
        self,
        bootstrap_servers: str,
        namespace: str,
        root: Path,
        *,
        partitions: int = 6,
        scheduler: Mapping[str, str] | None = None,
        ways: Sequence[str] = (),
        clocks: Clocks | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`scheduler`: further settings by their names, as text. `say` hears every fault as it happens.

        `ways`: the bootstrap address of each scheduler, in the order in which they are added; the last is the
        gateway's. `clocks`: the wall clocks of schedulers, which tests set.
        """
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",
            BROKER_OFF_VARIABLE: os.environ.get(BROKER_OFF_VARIABLE, "0"),
            **{
                env_name(name): value
                for name, value in {
                    "kafka.bootstrap_servers": bootstrap_servers,
                    "kafka.namespace": namespace,
                    "topics.partitions": str(partitions),
                    "scheduler.group_id": f"{namespace}scheduler",
                    "log.format": "json",
                    **FAST,
                    **(scheduler or {}),
                }.items()
            },
        }
        self.settings: Settings = load_settings(env=self.environment)
        self._ways = tuple(ways)
        self._clocks = clocks
        self.partitions = partitions
        self.root = root
        self.schedulers: list[Scheduler] = []
        self.faults: list[Fault] = []
        self.say = say
        self._began_ms = now_ms()
        create_topics(self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for scheduler in self.schedulers:
            scheduler.kill()

    def add(self, *, data_dir: Path | None = None, without: str = "") -> Scheduler:
        """Start one more scheduler. `data_dir`: one that it shares; its own by default. `without`: guards left out."""
        name = f"s{len(self.schedulers) + 1}"
        directory = self.root / name
        own = {env_name("scheduler.data_dir"): str(data_dir or directory / "data"), "CHAOS_WITHOUT": without}
        if self._clocks is not None:
            own |= self._clocks.environment(name)
        if self._ways:
            own[env_name("kafka.bootstrap_servers")] = self._ways[len(self.schedulers)]
        environment = self.environment | own
        (ports,) = free_ports(1)
        scheduler = Scheduler(name, directory, environment, ports.broker)
        self.schedulers.append(scheduler)
        scheduler.start()
        return scheduler

    @property
    def gateway_settings(self) -> Settings:
        """As `settings`, by the gateway's own way to the broker."""
        servers = {env_name("kafka.bootstrap_servers"): self._ways[-1]} if self._ways else {}
        return load_settings(env=self.environment | servers)

    # --- waiting ---

    def owners(self) -> dict[int, Scheduler]:
        """Ask every scheduler; a partition that nobody or two act for is left out."""
        found: dict[int, list[Scheduler]] = {}
        for scheduler in self.schedulers:
            for partition in scheduler.owned():
                found.setdefault(partition, []).append(scheduler)
        return {partition: names[0] for partition, names in found.items() if len(names) == 1}

    def whole(self, among: Iterable[Scheduler] | None = None) -> bool:
        """Whether every partition has one owner, and each of `among` owns something."""
        owners = self.owners()
        wanted = set(among or ())
        return len(owners) == self.partitions and wanted <= set(owners.values())

    def wait_whole(self, *among: Scheduler, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait for that; raises AssertionError with the ends of all logs."""
        if not wait_until(lambda: self.whole(among), timeout_s):
            tails = "\n".join(f"--- {s.name}\n" + "\n".join(map(str, s.log()[-15:])) for s in self.schedulers)
            raise AssertionError(f"partitions without an owner after {timeout_s} s: {self.owners()}\n{tails}")

    # --- what happened ---

    def note(self, kind: str, from_ms: int, target: str = "", evidence: str = "") -> None:
        """Write a fault down that began at `from_ms` and is healed now."""
        fault = Fault(kind=kind, from_ms=from_ms, to_ms=now_ms(), target=target)
        self.faults.append(fault)
        since_s = (from_ms - self._began_ms) / 1000
        healed_s = (fault.to_ms - from_ms) / 1000
        bit = f"; {evidence}" if evidence else ""
        self.say(f"{since_s:8.2f} s  {kind:<24} {target:<6} healed after {healed_s:.2f} s{bit}")

    def log_lines(self, event: str) -> Iterator[dict[str, Any]]:
        """Give all log lines of one event, of all schedulers."""
        for scheduler in self.schedulers:
            for line in scheduler.log():
                if line.get("event") == event:
                    yield line

    def refused(self) -> list[dict[str, Any]]:
        """Give every transaction that the broker refused."""
        return [line for s in self.schedulers for line in s.journal() if line["what"] == "refused"]

    def stale_refused(self) -> int:
        """Count the transactions that were refused since their owner was no longer the owner."""
        return sum(line["outcome"] == "stale" or "FENCED" in line["reason"] for line in self.refused())


def _json_lines(path: Path) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    with suppress(FileNotFoundError):
        for text in path.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            lines.append(line if isinstance(line, dict) else {"event": text})
    return lines
