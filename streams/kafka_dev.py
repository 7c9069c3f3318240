"""A real Apache Kafka on this machine, for development and tests; production brings its own.

`KafkaCluster` starts, stops, kills and pauses one or more KRaft nodes (broker and controller in one
process). The jars come from `deploy/kafka/pom.xml`: Maven resolves them once, afterwards no network is
used. Everything that a cluster leaves behind lies in its root directory, so any process can find and stop
a cluster that another one started. A process is only ever signalled after its recorded start time was
compared, so a recycled pid is never touched. Every error says what to do next. Nothing here is meant for
data that matters: one disk, no authentication, loopback only.
"""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

HOST = "127.0.0.1"
PORT_DEFAULT = 29092
PORTS_PER_NODE = 3  # clients, controller, and between brokers (the last only behind a proxy)
NODES_MAX = 9  # a development machine; also keeps the counted-up ports together
JAVA_MAJOR_MIN = 17  # Kafka 4 brokers are compiled for 17
HEAP_MB_DEFAULT = 768
START_TIMEOUT_S = 60.0  # about 3 s on an idle machine; the rest is for busy ones
STOP_TIMEOUT_S = 15.0  # a controlled shutdown without a quorum would wait for minutes; then SIGKILL
CLUSTER_STOP_TIMEOUT_S = 5.0  # for several nodes together: the last ones have no quorum to leave in order
RESOLVE_TIMEOUT_S = 600.0  # 43 MB from a slow mirror
FORMAT_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 2.0  # one metadata question to a broker that may be frozen
POLL_S = 0.05
LOG_TAIL_LINES = 25
FREE_PORT_RANGE = (20_000, 30_000)  # below the ephemeral range, so that no outgoing connection takes one
FREE_PORT_ATTEMPTS = 5

NEAREST_REPLICA = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
"""Lets consumers with a client.rack read from their own region's copy."""

POM = Path(__file__).resolve().parent.parent / "deploy" / "kafka" / "pom.xml"
LIBS_VARIABLE = "HOROLOG_KAFKA_LIBS"

# Waits for its standard input to close, which happens when the process that holds the other end is gone,
# however it died; then ends the broker, if that pid is still the process that it was.
_TETHER_SCRIPT = 'read -r _; [ "$(cut -d" " -f22 "/proc/$1/stat" 2>/dev/null)" = "$2" ] && kill -9 "$1"; exit 0'


class KafkaDevError(Exception):
    """The development Kafka could not do what was asked; the message says what to do about it."""


class ToolMissingError(KafkaDevError):
    """Java, Maven or Kafka's jars are missing or too old."""


class PortTakenError(KafkaDevError):
    """A port that a node needs is held by another program."""


class StartFailedError(KafkaDevError):
    """Formatting or starting a node failed; the message ends with the tail of its log."""


@dataclass(frozen=True)
class NodePorts:
    """The loopback ports of one node. `internal` is used only when `advertised` moves the clients' one."""

    broker: int
    controller: int
    internal: int

    @classmethod
    def counted_from(cls, first: int, node: int) -> NodePorts:
        """Return the ports of the node with the given index (0-based): first, first + 1, first + 2, ..."""
        base = first + PORTS_PER_NODE * node
        return cls(base, base + 1, base + 2)


@dataclass(frozen=True)
class ClusterSpec:
    """What a cluster is made of; written to `cluster.json` so that `stop` and `status` can find it.

    `advertised` maps a node id (1-based) to the `host:port` that clients are told, for a proxy in front;
    brokers then talk to each other on a listener of their own. `extra` are further server properties and
    win over ours. `racks` has one name a node, or is empty. The last `witnesses` nodes are controllers only: they
    vote, and hold no data.
    """

    ports: tuple[NodePorts, ...]
    cluster_id: str
    heap_mb: int = HEAP_MB_DEFAULT
    racks: tuple[str, ...] = ()
    replication_factor: int = 1
    min_insync_replicas: int = 1
    extra: dict[str, str] = field(default_factory=dict)
    advertised: dict[int, str] = field(default_factory=dict)
    witnesses: int = 0


@dataclass(frozen=True)
class ProcessIdentity:
    """A process as it can be found again: the pid alone may have been given to another one since."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Tell whether that very process still runs; a zombie counts as gone."""
        return process_started(self.pid) == self.started


@dataclass(frozen=True)
class NodeStatus:
    """One row of `horologd kafka status`. `state`: stopped, running, or silent (alive but no answer)."""

    node_id: int
    state: str
    address: str
    pid: int | None
    rss_mb: int | None
    log: Path


def process_started(pid: int) -> str | None:
    """Return a mark of when the process started, or None if it is gone or a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The command in field 2 may hold spaces and brackets: count from behind it.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    answer = subprocess.run(  # noqa: S603 - fixed program, an integer argument
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def process_rss_mb(pid: int) -> int | None:
    """Return the resident memory of a process in MB, or None where the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) // 1024 if found else None


# --- Java, Maven and the jars -------------------------------------------------------------------------


def find_java() -> str:
    """Return the path of a Java of at least version 17; `JAVA_HOME` wins over `PATH`."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    java = java or shutil.which("java")
    advice = (
        f"Install a Java runtime of version {JAVA_MAJOR_MIN} or newer (Debian and Ubuntu: apt install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME to one."
    )
    if java is None:
        message = f"Kafka needs Java {JAVA_MAJOR_MIN} or newer, and no java was found. {advice}"
        raise ToolMissingError(message)
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - found above
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    # Up to Java 8 the version reads 1.8: the second number is the one that counts.
    major = int(found[2] if found[1] == "1" and found[2] else found[1]) if found else 0
    if major < JAVA_MAJOR_MIN:
        message = f"Kafka needs Java {JAVA_MAJOR_MIN} or newer, and {java} is version {major}. {advice}"
        raise ToolMissingError(message)
    return java


def kafka_version(pom: Path = POM) -> str:
    """Return the Kafka version that the pom asks for."""
    found = re.search(r"<kafka\.version>\s*([\w.-]+)\s*</kafka\.version>", pom.read_text())
    if found is None:
        message = f"{pom} has no <kafka.version> property. Restore it from the repository."
        raise KafkaDevError(message)
    return found[1]


def resolve_libs(pom: Path = POM, target_root: Path | None = None) -> Path:
    """Return the directory with Kafka's jars; have Maven fetch them if that was not done for this pom.

    The directory is `<target_root or .horolog beside the pom's project>/kafka-libs-<version>`. A stamp in it
    holds the pom's hash, so a changed pom resolves again. `HOROLOG_KAFKA_LIBS` names a directory to use
    as it is.
    """
    given = os.environ.get(LIBS_VARIABLE)
    if given:
        return Path(given)
    if not pom.exists():
        message = (
            f"{pom} is missing: only a source checkout of Horolog can start its own Kafka. Run horologd from "
            f"a checkout, or set {LIBS_VARIABLE} to the libs directory of a Kafka 4 distribution."
        )
        raise ToolMissingError(message)
    root = target_root or pom.parent.parent.parent / ".horolog"
    libs = root / f"kafka-libs-{kafka_version(pom)}"
    stamp = hashlib.sha256(pom.read_bytes()).hexdigest()
    if _stamp_of(libs) == stamp:
        return libs
    root.mkdir(parents=True, exist_ok=True)
    with (root / "kafka-libs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test sessions may want the jars in the same moment
        if _stamp_of(libs) != stamp:
            _fetch_libs(pom, libs, stamp)
    return libs


def _stamp_of(libs: Path) -> str | None:
    stamp = libs / ".resolved"
    return stamp.read_text() if stamp.exists() else None


def _fetch_libs(pom: Path, libs: Path, stamp: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        message = (
            "Kafka's jars are not here yet, and fetching them needs Maven, which was not found. Install it "
            f"(Debian and Ubuntu: apt install maven; macOS: brew install maven), or set {LIBS_VARIABLE} to "
            "the libs directory of a Kafka 4 distribution."
        )
        raise ToolMissingError(message)
    partial = libs.with_name(libs.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    answer = subprocess.run(  # noqa: S603 - found above, our own pom
        [*command, f"-DoutputDirectory={partial.resolve()}"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=RESOLVE_TIMEOUT_S,
    )
    if answer.returncode != 0:
        tail = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-LOG_TAIL_LINES:])
        message = (
            "Maven could not fetch Kafka's jars. Check the network and Maven's settings (mirror, proxy), "
            f"then try again: {' '.join(command)}\n{tail}"
        )
        raise ToolMissingError(message)
    (partial / ".resolved").write_text(stamp)
    shutil.rmtree(libs, ignore_errors=True)
    partial.rename(libs)


# --- ports --------------------------------------------------------------------------------------------


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT does not matter to a server
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(nodes: int) -> tuple[NodePorts, ...]:
    """Return ports for that many nodes that are free now; another program may still come first."""
    low, high = FREE_PORT_RANGE
    found: list[NodePorts] = []
    for _ in range(1000):
        first = low + secrets.randbelow((high - low) // PORTS_PER_NODE) * PORTS_PER_NODE
        ports = NodePorts.counted_from(first, 0)
        if ports not in found and all(port_is_free(port) for port in dataclasses.astuple(ports)):
            found.append(ports)
        if len(found) == nodes:
            return tuple(found)
    message = f"No {nodes * PORTS_PER_NODE} free ports between {low} and {high}. Stop some local servers."
    raise PortTakenError(message)


def wait_until(done: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until `done` says so; return False if it does not within the time."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


# --- one node -----------------------------------------------------------------------------------------


class KafkaNode:
    """One broker-and-controller process of a cluster, known by its directory below the cluster's root."""

    def __init__(self, root: Path, node_id: int, spec: ClusterSpec) -> None:
        self.node_id = node_id
        self.spec = spec
        self.ports = spec.ports[node_id - 1]
        self.is_witness = node_id > len(spec.ports) - spec.witnesses
        self.directory = root / f"node-{node_id}"
        self.log_path = self.directory / "server.log"
        self._pid_path = self.directory / "process.json"
        self._tether: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return the `host:port` that clients should use; of a witness, which has no clients, the controller's."""
        if self.is_witness:
            return f"{HOST}:{self.ports.controller}"
        return self.spec.advertised.get(self.node_id, f"{HOST}:{self.ports.broker}")

    @property
    def process(self) -> ProcessIdentity | None:
        """Return the live process of this node, or None."""
        try:
            record = json.loads(self._pid_path.read_text())
        except (OSError, ValueError):
            return None
        identity = ProcessIdentity(record["pid"], record["started"])
        return identity if identity.is_alive() else None

    def launch(self, *, tethered: bool = False) -> None:
        """Start the process and return at once; `wait_ready` tells when it answers.

        A tethered broker is ended when this process is gone, however that happens (Linux only).
        Raises PortTakenError, ToolMissingError or StartFailedError. Does nothing if it runs already.
        """
        if self.process is not None:
            return
        self._require_free_ports()
        java, libs = find_java(), resolve_libs()
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        lines = [f"{name}={value}" for name, value in self.server_properties().items()]
        properties.write_text("\n".join(lines) + "\n")
        self._format(java, libs, properties)
        heap = f"{self.spec.heap_mb}m"
        command = [java, f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"]
        command += ["-Djava.awt.headless=true", *_logging_options(), "-cp", f"{libs}/*"]
        identity = self._spawn([*command, "kafka.Kafka", str(properties)])
        if tethered and Path("/proc/self/stat").exists():
            self._tie(identity)

    def _require_free_ports(self) -> None:
        wanted = [self.ports.controller] if self.is_witness else [self.ports.broker, self.ports.controller]
        wanted += [self.ports.internal] if self.spec.advertised else []
        for port in wanted:
            if not port_is_free(port):
                message = (
                    f"Port {port} of node {self.node_id} is in use by another program. Stop that program "
                    f"(`ss -ltnp 'sport = :{port}'` names it), or choose other ports with "
                    "`horologd kafka start --port N`."
                )
                raise PortTakenError(message)

    def _format(self, java: str, libs: Path, properties: Path) -> None:
        if (self.directory / "data" / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", "-t", self.spec.cluster_id, "-c", str(properties)]
        answer = subprocess.run(  # noqa: S603 - java found by find_java, our own arguments
            [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{libs}/*", *tool],
            capture_output=True,
            text=True,
            check=False,
            timeout=FORMAT_TIMEOUT_S,
        )
        if answer.returncode != 0:
            tail = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-LOG_TAIL_LINES:])
            message = (
                f"Kafka could not format {self.directory / 'data'}. Check the free space and the rights of "
                f"that directory, and the properties in {properties}. Its output:\n{tail}"
            )
            raise StartFailedError(message)

    def _spawn(self, command: list[str]) -> ProcessIdentity:
        # Through a shell that ends at once, so that the broker is nobody's child: it outlives this process
        # when wanted, and leaves no zombie here when it is killed.
        script = 'log="$1"; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'
        answer = subprocess.run(  # noqa: S603 - arguments are passed apart from the fixed script
            ["/bin/sh", "-c", script, "sh", str(self.log_path), *command],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            start_new_session=True,
        )
        pid = int(answer.stdout)
        started = process_started(pid)
        if started is None:
            raise StartFailedError(self._start_failure("ended at once"))
        identity = ProcessIdentity(pid, started)
        self._pid_path.write_text(json.dumps(dataclasses.asdict(identity)))
        return identity

    def _tie(self, identity: ProcessIdentity) -> None:
        self._tether = subprocess.Popen(  # noqa: S603 - fixed script, our own arguments
            ["/bin/sh", "-c", _TETHER_SCRIPT, "sh", str(identity.pid), identity.started],
            stdin=subprocess.PIPE,
            start_new_session=True,  # so that ending our process group does not end the tether first
        )

    def _untie(self) -> None:
        tether, self._tether = self._tether, None
        if tether is not None:
            tether.kill()
            tether.communicate()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once the broker answers a metadata request; raise StartFailedError if it ends or is late."""
        alive = True

        def settled() -> bool:
            nonlocal alive
            alive = self.process is not None
            return not alive or self.answers()

        in_time = wait_until(settled, timeout_s)
        if not alive:
            raise StartFailedError(self._start_failure("ended while starting"))
        if not in_time:
            raise StartFailedError(self._start_failure(f"did not answer within {timeout_s:g} s"))

    def _start_failure(self, what: str) -> str:
        return (
            f"Kafka node {self.node_id} {what}. If its data is damaged or from another layout, remove it "
            f"with `horologd kafka stop --delete-data`. The end of {self.log_path}:\n{self.log_tail()}"
        )

    def log_tail(self) -> str:
        """Return the last lines of the broker's log."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
        except OSError:
            return "(no log was written)"

    def answers(self) -> bool:
        """Tell whether the broker answers a metadata request and lists itself; a witness, whether it listens."""
        address = f"{HOST}:{self.ports.broker}"
        port = self.ports.controller if self.is_witness else self.ports.broker
        try:
            with socket.create_connection((HOST, port), timeout=PROBE_TIMEOUT_S):
                if self.is_witness:
                    return True
            admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
            return self.node_id in admin.list_topics(timeout=PROBE_TIMEOUT_S).brokers
        except (OSError, KafkaException):
            return False

    def status(self) -> NodeStatus:
        """Return what the node is doing now; asks the broker itself."""
        process = self.process
        if process is None:
            return NodeStatus(self.node_id, "stopped", self.address, None, None, self.log_path)
        state = "running" if self.answers() else "silent"
        return NodeStatus(self.node_id, state, self.address, process.pid, process_rss_mb(process.pid), self.log_path)

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to the broker; False if it does not run."""
        process = self.process
        if process is None:
            return False
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self, number: signal.Signals = signal.SIGKILL) -> bool:
        """End the broker by a signal and wait until it is gone; False if it did not run."""
        process = self.process
        if process is None or not self.send(number):
            return False
        self.send(signal.SIGCONT)  # a paused process takes no signal but SIGKILL
        if not wait_until(lambda: not process.is_alive(), STOP_TIMEOUT_S):
            message = f"Kafka node {self.node_id} (pid {process.pid}) is still there after {number.name}."
            raise KafkaDevError(message)
        self._forget()
        return True

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop the broker in good order, by force after the time-out; False if it did not run."""
        process = self.process
        if process is None:
            self._forget()
            return False
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        if not wait_until(lambda: not process.is_alive(), timeout_s):
            self.kill()
        self._forget()
        return True

    def _forget(self) -> None:
        self._untie()
        self._pid_path.unlink(missing_ok=True)

    def pause(self) -> bool:
        """Freeze the broker (SIGSTOP): connections stay open and nothing answers."""
        return self.send(signal.SIGSTOP)

    def resume(self) -> bool:
        """Let a paused broker go on (SIGCONT)."""
        return self.send(signal.SIGCONT)

    def server_properties(self) -> dict[str, str]:
        """Return the whole server.properties of this node; facts A1 and A5 are where the values come from."""
        spec, ports = self.spec, self.ports
        replicas, in_sync = str(spec.replication_factor), str(spec.min_insync_replicas)
        voters = ",".join(f"{n}@{HOST}:{p.controller}" for n, p in enumerate(spec.ports, start=1))
        properties = {
            "process.roles": "controller" if self.is_witness else "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            **self._listeners(ports),
            "log.dirs": str((self.directory / "data").resolve()),
            "auto.create.topics.enable": "false",  # a mistyped name must fail, not make a topic
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",  # the first member need not wait for others
            # The default of 10 s adds itself to every take-over from an owner killed in a transaction (A4).
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # of 128 MB, beside a heap of 768 MB
        }
        if spec.racks:
            properties["broker.rack"] = spec.racks[self.node_id - 1]
        return properties | spec.extra

    def _listeners(self, ports: NodePorts) -> dict[str, str]:
        clients = f"CLIENTS://{HOST}:{ports.broker}"
        controller = f"CONTROLLER://{HOST}:{ports.controller}"
        protocols = "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT"
        if self.is_witness:
            return {"listeners": controller, "listener.security.protocol.map": protocols}
        if not self.spec.advertised:
            return {
                "listeners": f"{clients},{controller}",
                "advertised.listeners": clients,
                "inter.broker.listener.name": "CLIENTS",
                "listener.security.protocol.map": protocols,
            }
        # With a proxy before the clients' listener the brokers need a way that does not pass through it.
        internal = f"INTERNAL://{HOST}:{ports.internal}"
        return {
            "listeners": f"{clients},{internal},{controller}",
            "advertised.listeners": f"CLIENTS://{self.address},{internal}",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": f"{protocols},INTERNAL:PLAINTEXT",
        }


def _logging_options() -> list[str]:
    """Return the JVM options that make the broker's log dated, and short where Kafka is talkative."""
    prefix = "-Dorg.slf4j.simpleLogger."
    quiet = ("org.apache.kafka.clients", "org.apache.kafka.common.config", "kafka.server.KafkaConfig")
    return [
        f"{prefix}defaultLogLevel=info",
        f"{prefix}showDateTime=true",
        f"{prefix}dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        f"{prefix}showThreadName=false",
        *(f"{prefix}log.{name}=warn" for name in quiet),
    ]


# --- the cluster --------------------------------------------------------------------------------------


def new_cluster_id() -> str:
    """Return a random id in Kafka's form: 22 characters of URL-safe base64, not beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # the format tool would take it for an option
            return text


class KafkaCluster:
    """Some nodes that form one Kafka, with everything they keep in `root`.

    As a context manager it starts tethered (it ends when this process ends) and stops on leaving; data stays:

        with KafkaCluster(root=tmp, nodes=1, ports="free") as cluster:
            cluster.bootstrap_servers

    A root that already holds a cluster is continued with the same id; another number of nodes is refused.
    `replication_factor` defaults to all brokers up to 3, `min_insync_replicas` to 2 from 3 brokers on, else 1.

    `KafkaCluster.region_pair(root, ("east", "west"))` is one broker in each of two regions and a witness, with
    everything replicated to both: see docs/runbook-regions.md.
    """

    def __init__(
        self,
        root: Path,
        *,
        nodes: int = 1,
        ports: int | Sequence[NodePorts] | str = PORT_DEFAULT,
        heap_mb: int = HEAP_MB_DEFAULT,
        racks: Sequence[str] = (),
        replication_factor: int | None = None,
        min_insync_replicas: int | None = None,
        extra: Mapping[str, str] | None = None,
        advertised: Mapping[int, str] | None = None,
        witnesses: int = 0,
    ) -> None:
        if not 1 <= nodes <= NODES_MAX:
            message = f"{nodes} nodes were asked for: choose 1 to {NODES_MAX} (3 survive the loss of one)."
            raise KafkaDevError(message)
        if racks and len(racks) != nodes:
            message = f"{len(racks)} racks were given for {nodes} nodes: give one a node, or none."
            raise KafkaDevError(message)
        if not 0 <= witnesses < nodes:
            message = f"{witnesses} of {nodes} nodes were to be witnesses: at least one must be a broker."
            raise KafkaDevError(message)
        self.root = root
        self._ports_are_free_choice = ports == "free"
        self.spec = ClusterSpec(
            ports=_choose_ports(nodes, ports),
            cluster_id=_saved_cluster_id(root, nodes) or new_cluster_id(),
            heap_mb=heap_mb,
            racks=tuple(racks),
            replication_factor=replication_factor or min(3, nodes - witnesses),
            min_insync_replicas=min_insync_replicas or (2 if nodes - witnesses >= 3 else 1),
            extra=dict(extra or {}),
            advertised=dict(advertised or {}),
            witnesses=witnesses,
        )
        self.nodes = self._make_nodes()

    @classmethod
    def saved(cls, root: Path) -> KafkaCluster | None:
        """Return the cluster that was last started in `root`, or None if there was none."""
        spec = _load_spec(root)
        if spec is None:
            return None
        return cls(
            root,
            nodes=len(spec.ports),
            ports=spec.ports,
            heap_mb=spec.heap_mb,
            racks=spec.racks,
            replication_factor=spec.replication_factor,
            min_insync_replicas=spec.min_insync_replicas,
            extra=spec.extra,
            advertised=spec.advertised,
            witnesses=spec.witnesses,
        )

    @classmethod
    def region_pair(
        cls,
        root: Path,
        regions: tuple[str, str],
        *,
        ports: int | Sequence[NodePorts] | str = PORT_DEFAULT,
        heap_mb: int = HEAP_MB_DEFAULT,
        extra: Mapping[str, str] | None = None,
    ) -> KafkaCluster:
        """Return two regions of one broker each, and a witness that keeps the quorum when one of them is lost.

        With two replicas and both of them needed, an acknowledged write is in both regions; with a third replica at
        the witness and two of three needed it might be in one region only.
        """
        return cls(
            root,
            nodes=3,
            ports=ports,
            heap_mb=heap_mb,
            racks=(*regions, "witness"),
            replication_factor=2,
            min_insync_replicas=2,
            extra=NEAREST_REPLICA | dict(extra or {}),
            witnesses=1,
        )

    def _make_nodes(self) -> tuple[KafkaNode, ...]:
        return tuple(KafkaNode(self.root, number, self.spec) for number in range(1, len(self.spec.ports) + 1))

    @property
    def bootstrap_servers(self) -> str:
        """Return the clients' addresses of all nodes, comma separated."""
        return ",".join(node.address for node in self.nodes if not node.is_witness)

    def start(self, *, tethered: bool = False, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start what does not run yet and return when every node answers.

        On failure what this call started is stopped again. It is an error if the cluster runs with other
        settings.
        """
        for attempt in range(1, FREE_PORT_ATTEMPTS + 1):
            try:
                self._start_once(tethered=tethered, timeout_s=timeout_s)
            except PortTakenError:
                if not self._ports_are_free_choice or attempt == FREE_PORT_ATTEMPTS:
                    raise
                self.spec = dataclasses.replace(self.spec, ports=free_ports(len(self.nodes)))
                self.nodes = self._make_nodes()
            else:
                return

    def _start_once(self, *, tethered: bool, timeout_s: float) -> None:
        launched: list[KafkaNode] = []
        self.root.mkdir(parents=True, exist_ok=True)
        self._require_same_settings()
        try:
            for node in self.nodes:
                if node.process is None:
                    launched.append(node)
                    node.launch(tethered=tethered)
            _save_spec(self.root, self.spec)
            for node in self.nodes:
                node.wait_ready(timeout_s)
        except BaseException:
            _stop_all(launched)
            raise

    def _require_same_settings(self) -> None:
        saved = _load_spec(self.root)
        running = [node.node_id for node in self.nodes if node.process is not None]
        if running and saved is not None and saved != self.spec:
            first = saved.ports[0].broker
            message = (
                f"The Kafka in {self.root} runs with other settings (first port {first}). Use it as it is, "
                "or stop it first with `horologd kafka stop`."
            )
            raise KafkaDevError(message)

    def stop(self) -> int:
        """Stop every node and return how many were running."""
        return _stop_all(self.nodes)

    def delete_data(self) -> None:
        """Remove everything that the cluster keeps; it must not run."""
        if any(node.process is not None for node in self.nodes):
            message = "The cluster is running: stop it before its data is deleted (`horologd kafka stop`)."
            raise KafkaDevError(message)
        for node in self.nodes:
            shutil.rmtree(node.directory, ignore_errors=True)
        (self.root / "cluster.json").unlink(missing_ok=True)

    def status(self) -> list[NodeStatus]:
        """Return one status a node."""
        return [node.status() for node in self.nodes]

    def __iter__(self) -> Iterator[KafkaNode]:
        return iter(self.nodes)

    def __enter__(self) -> Self:
        self.start(tethered=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _choose_ports(nodes: int, ports: int | Sequence[NodePorts] | str) -> tuple[NodePorts, ...]:
    if isinstance(ports, int):
        return tuple(NodePorts.counted_from(ports, node) for node in range(nodes))
    if isinstance(ports, str):
        if ports != "free":
            message = f'ports={ports!r}: give a first port, one NodePorts a node, or "free".'
            raise KafkaDevError(message)
        return free_ports(nodes)
    if len(ports) != nodes:
        message = f"{len(ports)} sets of ports were given for {nodes} nodes: give one a node."
        raise KafkaDevError(message)
    return tuple(ports)


def _stop_all(nodes: Sequence[KafkaNode]) -> int:
    running = [node for node in nodes if node.process is not None]
    for node in running:
        node.send(signal.SIGTERM)  # all at once: the last ones alone would wait for a quorum
        node.send(signal.SIGCONT)
    allowed_s = STOP_TIMEOUT_S if len(nodes) == 1 else CLUSTER_STOP_TIMEOUT_S
    deadline = time.monotonic() + allowed_s
    for node in nodes:
        node.stop(max(0.0, deadline - time.monotonic()))
    return len(running)


def _save_spec(root: Path, spec: ClusterSpec) -> None:
    target = root / "cluster.json"
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(dataclasses.asdict(spec), indent=2) + "\n")
    partial.rename(target)


def _load_spec(root: Path) -> ClusterSpec | None:
    path = root / "cluster.json"
    with suppress(FileNotFoundError):
        try:
            record = json.loads(path.read_text())
            record["ports"] = tuple(NodePorts(**ports) for ports in record["ports"])
            record["racks"] = tuple(record["racks"])
            record["advertised"] = {int(node): address for node, address in record["advertised"].items()}
            return ClusterSpec(**record)
        except (ValueError, TypeError, KeyError) as error:
            message = f"{path} cannot be read ({error}). Remove {root} if its data does not matter."
            raise KafkaDevError(message) from error
    return None


def _saved_cluster_id(root: Path, nodes: int) -> str | None:
    spec = _load_spec(root)
    if spec is None:
        return None
    if len(spec.ports) != nodes:
        message = (
            f"{root} holds the data of a Kafka with {len(spec.ports)} node(s), and {nodes} were asked for. "
            f"Start it with --nodes {len(spec.ports)}, or delete its data with "
            "`horologd kafka stop --delete-data`."
        )
        raise KafkaDevError(message)
    return spec.cluster_id
