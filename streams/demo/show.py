"""The play: set the stage, register jobs in three ways, show runs, kill an owner midway, judge, clear the stage."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from schemas.config import ENV_PREFIX, env_name, load_settings
from schemas.partition import partition_for
from streams.audit.journals import Fault
from streams.demo import jobs
from streams.demo.journal import Attempt, Journal
from streams.demo.processes import Child, DemoError, SchedulerProcess, now_ms, script, wait_owned, wait_ready
from streams.demo.screen import Screen
from streams.demo.verdict import WORKER_OUT, judge, keep_faults, lateness_sentence, past
from streams.kafka_dev import KafkaCluster, free_ports, port_is_free
from streams.topic_admin import create_topics, repair_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemas.config import Settings
    from streams.demo.options import Options

ROOT: Final = Path(__file__).resolve().parent.parent.parent
KAFKA_PORT: Final = 29_092
GATEWAY_PORT: Final = 8_080
ADMIN_PORTS: Final = (6_066, 6_067)
LIBS_VARIABLE: Final = "HOROLOG_KAFKA_LIBS"
HEAP_MB: Final = 512
KILL_AFTER_S: Final = 20.0
"""Without an end in sight; with one, the kill is at two fifths of the time."""

KILL_AT: Final = 0.4
TAKEOVER_MAX_S: Final = 60.0
"""Promised are 15 s; the rest is for machines that are busy with other things."""

LOOK_S: Final = 0.1
TAKEOVER_LOOK_S: Final = 0.05
SETTLE_S: Final = 12.0
"""How long the demo goes on after a take-over at least, so that what was late is seen to run."""


class Ports(msgspec.Struct, frozen=True):
    """Where the demo listens, on loopback. The controller of Kafka listens one above the broker."""

    kafka: int
    gateway: int
    admins: tuple[int, int]


class Stop:
    """What Ctrl-C does: at first an orderly end, and KeyboardInterrupt where nothing can end in order yet."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.patient = False

    def __call__(self, number: int, frame: object) -> None:
        """Handle SIGINT and SIGTERM."""
        del number, frame
        if not self.patient or self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()


def run_demo(options: Options) -> int:
    """Play; give the exit code. Raises DemoError, KafkaDevError."""
    options.directory.mkdir(parents=True, exist_ok=True)
    stop = Stop()
    before = [(number, signal.signal(number, stop)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with only_one(options.directory), Screen() as screen, ExitStack() as stage:
            return _Show(options, stop, screen, stage).play()
    except KeyboardInterrupt:
        sys.stdout.write("Stopped; everything that the demo started has ended.\n")
        return 130
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Hold the directory. Raises DemoError where another demo does."""
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError(f"A demo runs in {directory} already: end it with Ctrl-C, or name another --dir.") from None
        yield


class _Show:
    """One session. The stack ends what was started, in reverse order, whatever happens."""

    def __init__(self, options: Options, stop: Stop, screen: Screen, stage: ExitStack) -> None:
        self.options, self.stop, self.screen, self.stage = options, stop, screen, stage
        self.began_ms = now_ms()
        self.sessions = options.directory / "sessions"
        self.session = self.sessions / str(self.began_ms)
        self.ports = choose_ports(free=options.free_ports)
        self.environment = self._environment()
        self.settings: Settings = load_settings(env=self.environment)
        self.url = f"http://127.0.0.1:{self.ports.gateway}"
        self.cluster = KafkaCluster(options.directory / "kafka", ports=self.ports.kafka, heap_mb=HEAP_MB)
        self.schedulers: list[SchedulerProcess] = []
        self.children: list[Child] = []
        self.attempts: list[Attempt] = []
        self.faults: list[Fault] = []
        self.job_ids: list[str] = []
        self.gap: tuple[int, int] | None = None
        self.live_ms = self.began_ms
        """From here on everything is up: what fell due before was late for want of it."""

    def play(self) -> int:
        """See the module."""
        self.session.mkdir(parents=True)
        try:
            self._set_stage()
            self._register()
        except DemoError as error:
            anew = f"All logs: {self.session}. To begin anew: rm -r {self.options.directory}"
            raise DemoError(f"{error}\n{anew}") from error
        self.stop.patient = True
        journal = Journal(self.session / WORKER_OUT)
        self._live(journal)
        self.screen.end_status()
        return self._judge(journal)

    # --- before ---

    def _environment(self) -> dict[str, str]:
        """Give the environment of all processes: this one's without its Horolog settings, and the demo's own."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX) or k == LIBS_VARIABLE}
        config = self.options.directory / "horolog.toml"
        config.write_text(_CONFIG.format(ports=self.ports, data=self.options.directory / "data"), encoding="utf-8")
        return kept | {
            "HOROLOG_CONFIG": str(config),
            "HOROLOG_URL": f"http://127.0.0.1:{self.ports.gateway}",
            "PYTHONUNBUFFERED": "1",
            "QUEUE": jobs.QUEUE,
            "WORKER_ID": "worker-1",
        }

    def _set_stage(self) -> None:
        say = self.screen.say
        self.screen.chapter(f"Horolog demo. Data and logs: {self.options.directory}")
        say(f"Kafka on port {self.ports.kafka} ...")
        self.stage.callback(self.cluster.stop)
        self.cluster.start(tethered=True)
        create_topics(self.settings)
        repair_topics(self.settings)  # a directory of an older version
        left = past(self.settings)
        if left.jobs:
            counts = f"{left.jobs} jobs, {left.runs} runs, {left.succeeded} of them completed"
            self.screen.chapter(f"Found in the log from earlier: {counts}.")
        say("Two schedulers ...")
        for number, port in enumerate(self.ports.admins, start=1):
            child = self._start(f"scheduler-{number}", [script("horologd"), "scheduler"], "scheduler.admin_port", port)
            self.schedulers.append(SchedulerProcess(child, port))
        wait_owned(self.schedulers, self.settings.topics.partitions)
        say(f"A gateway at {self.url} ...")
        wait_ready(self._start("gateway", [script("horologd"), "gateway"]), f"{self.url}/readyz")
        say("A worker (examples/worker.py) ...")
        self._start("worker", [sys.executable, str(ROOT / "examples" / "worker.py")])
        pids = ", ".join(f"{child.name} {child.pid}" for child in self.children)
        say(f"Processes: {pids}", "dim")

    def _start(self, name: str, command: list[str], setting: str = "", value: object = None) -> Child:
        extra = {env_name(setting): str(value)} if setting else {}
        child = Child(name, command, self.environment | extra, self.session)
        self.stage.callback(child.stop)
        self.children.append(child)
        return child

    def _register(self) -> None:
        say = self.screen.say
        made = jobs.over_http(self.url, str(self.began_ms))
        say(f"1. over HTTP: {', '.join(made)}")
        said = jobs.over_kafka(ROOT, self.settings.kafka.bootstrap_servers, self.environment)
        say(f"2. by a plain Kafka producer: demo-kafka-count ({said})")
        said = jobs.over_file(ROOT, self.environment)
        say("3. horolog apply -f examples/jobs.yaml:\n" + "\n".join(f"     {line}" for line in said.splitlines()))
        files = ("demo-file-tick", "demo-file-retry", "demo-file-report")
        self.job_ids = [*made, "demo-kafka-count", *files]

    # --- the runs ---

    def _live(self, journal: Journal) -> None:
        for_s = self.options.for_s
        began_s = time.monotonic()
        self.live_ms = now_ms()
        kill_at_s = began_s + (KILL_AFTER_S if for_s is None else for_s * KILL_AT)
        end_s = None if for_s is None else began_s + for_s
        until = "until Ctrl-C" if for_s is None else f"for {for_s:g} s"
        self.screen.chapter(f"Runs, {until}; late = handler start - scheduled instant")
        self.screen.header()
        while not self.stop.asked.is_set() and (end_s is None or time.monotonic() < end_s):
            self._show_new(journal)
            for child in self.children:
                child.require_alive()
            if self.gap is None and time.monotonic() >= kill_at_s:
                self._kill_owner(journal)
                end_s = None if end_s is None else max(end_s, time.monotonic() + SETTLE_S)
            self._show_status(end_s)
            self.stop.asked.wait(LOOK_S)

    def _show_new(self, journal: Journal) -> None:
        for attempt in journal.new():
            self.attempts.append(attempt)
            self.screen.row(attempt)

    def _show_status(self, end_s: float | None) -> None:
        owned = " ".join(f"{s.child.name}:{'up' if s.child.alive else 'dead'}" for s in self.schedulers)
        left = "Ctrl-C ends" if end_s is None else f"{max(0.0, end_s - time.monotonic()):.0f} s left"
        self.screen.status(f" {len(self.attempts)} attempts  {owned}  {left} ")

    def _kill_owner(self, journal: Journal) -> None:
        """SIGKILL the scheduler that owns most of our jobs, and measure until the other one acts for all."""
        wanted = [partition_for(job_id, self.settings.topics.partitions) for job_id in self.job_ids]
        owned = {scheduler: scheduler.owned() for scheduler in self.schedulers}
        victim = max(self.schedulers, key=lambda scheduler: sum(p in owned[scheduler] for p in wanted))
        heir = next(scheduler for scheduler in self.schedulers if scheduler is not victim)
        lost = sorted(owned[victim])
        at_ms = now_ms()
        victim.child.kill()
        self.children.remove(victim.child)
        name = victim.child.name
        self.screen.alarm(f"--- kill -9 {name} (pid {victim.child.pid}), owner of partitions {lost}")
        deadline = time.monotonic() + TAKEOVER_MAX_S
        while len(heir.owned()) < self.settings.topics.partitions:
            self._show_new(journal)
            self.screen.status(f" {heir.child.name} takes over: {(now_ms() - at_ms) / 1000:.1f} s ")
            heir.child.require_alive()
            if time.monotonic() > deadline:
                raise DemoError(f"{heir.child.name} did not take over in {TAKEOVER_MAX_S:g} s.\n{heir.child.tail()}")
            self.stop.asked.wait(TAKEOVER_LOOK_S)
        until_ms = now_ms()
        self.gap = (at_ms, until_ms)
        self.faults.append(Fault(kind="kill", from_ms=at_ms, to_ms=until_ms, target=name))
        keep_faults(self.session, self.faults)
        gap_s = (until_ms - at_ms) / 1000
        self.screen.alarm(
            f"--- {heir.child.name} owns all {len(heir.owned())} partitions: {gap_s:.2f} s after the kill"
        )

    # --- afterwards ---

    def _judge(self, journal: Journal) -> int:
        self.screen.chapter("Stopping worker, gateway and schedulers; then the checker reads the whole log ...")
        for name in ("worker", "gateway"):
            for child in self.children:
                if child.name == name:
                    child.stop()
            self._show_new(journal)
        for scheduler in self.schedulers:
            scheduler.child.begin_stop()
        for scheduler in self.schedulers:
            scheduler.child.stop()
        verdict = judge(self.settings, self.sessions, self.began_ms, now_ms())
        good = "bold green" if verdict.clean else "bold red"
        for sentence in verdict.sentences():
            self.screen.say(sentence, good)
        self.screen.say(f"Lateness: {lateness_sentence(self.attempts, self.live_ms, self.gap)}.")
        if self.gap is None:
            self.screen.say("No owner was killed: the demo ended before that.")
        else:
            gap_s = (self.gap[1] - self.gap[0]) / 1000
            self.screen.say(f"The killed owner's partitions had another owner after {gap_s:.2f} s.")
        told = ", ".join(f"{jobs.WAYS[way]} {count}" for way, count in verdict.ran.items())
        self.screen.say(f"Completed runs by way of registration: {told}.")
        self.screen.say(f"Checker's report: {self.session / 'verdict.json'}. Start again to find all of it again.")
        if verdict.clean and not verdict.every_way_ran:
            self.screen.alarm("A way of registration has no completed run: give the demo more time (FOR=40).")
        return 0 if verdict.clean and verdict.every_way_ran else 1


def choose_ports(*, free: bool) -> Ports:
    """Give free ports, or the usual ones. Raises DemoError, which names those that are taken."""
    if free:
        kafka, gateway, admins = free_ports(3)
        return Ports(kafka.broker, gateway.broker, (admins.broker, admins.controller))
    ports = Ports(KAFKA_PORT, GATEWAY_PORT, ADMIN_PORTS)
    what = {
        ports.kafka: "Kafka",
        ports.kafka + 1: "Kafka's controller",
        ports.gateway: "the gateway",
        ports.admins[0]: "a scheduler",
        ports.admins[1]: "a scheduler",
    }
    taken = [f"port {port} (for {name})" for port, name in what.items() if not port_is_free(port)]
    if taken:
        raise DemoError(
            f"In use by other programs: {', '.join(taken)}. End those (`ss -ltnp` names them), or let the demo choose "
            "free ports: make demo PORTS=free"
        )
    return ports


_CONFIG: Final = """\
# Written by the demo at each start. HOROLOG_CONFIG=<this file> points horologd at the same Kafka.
[kafka]
bootstrap_servers = "127.0.0.1:{ports.kafka}"

[scheduler]
data_dir = "{data}"

[gateway]
port = {ports.gateway}

[log]
format = "json"
"""
