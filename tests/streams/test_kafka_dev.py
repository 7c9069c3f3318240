"""The development Kafka, on real processes: life cycle, clear errors, and never touching a stranger."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streams import kafka_dev
from streams.kafka_dev import (
    KafkaCluster,
    KafkaDevError,
    NodePorts,
    PortTakenError,
    ProcessIdentity,
    StartFailedError,
    ToolMissingError,
    find_java,
    free_ports,
    resolve_libs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SMALL_HEAP_MB = 256
WAIT_S = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    root = tmp_path_factory.mktemp("own-kafka")
    # A killed node may come back only when its old session has ended: shorten that from 9 s.
    extra = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with KafkaCluster(root, ports="free", heap_mb=SMALL_HEAP_MB, extra=extra) as started:
        yield started


@pytest.fixture
def running(cluster: KafkaCluster) -> KafkaCluster:
    cluster.start(tethered=True)
    return cluster


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def tool(directory: Path, name: str, script: str) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def write_one(servers: str, topic: str) -> list[str]:
    """Produce one record with acks=all and return what went wrong, nothing if it was stored."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(str(error)) if error else None)
    unsent = producer.flush(WAIT_S)
    return errors if unsent == 0 else [*errors, "not delivered in time"]


def create_topic(servers: str, name: str, *, partitions: int = 1, copies: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, copies)]).values():
        future.result(WAIT_S)


def test_a_started_cluster_stores_records(running: KafkaCluster, namespace: str) -> None:
    create_topic(running.bootstrap_servers, f"{namespace}stores")

    assert write_one(running.bootstrap_servers, f"{namespace}stores") == []


def test_topics_are_not_made_by_mistyping_them(running: KafkaCluster, namespace: str) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})

    admin.list_topics(f"{namespace}mistyped", timeout=WAIT_S)

    assert f"{namespace}mistyped" not in admin.list_topics(timeout=WAIT_S).topics


def test_status_tells_the_address_the_pid_and_the_memory(running: KafkaCluster) -> None:
    (row,) = running.status()

    assert (row.node_id, row.state, row.address) == (1, "running", running.bootstrap_servers)
    assert row.pid is not None
    assert row.rss_mb is not None
    assert row.rss_mb > SMALL_HEAP_MB // 4


def test_a_paused_node_is_silent_and_a_resumed_one_answers(running: KafkaCluster) -> None:
    (node,) = running.nodes
    node.pause()
    silent = node.status().state
    node.resume()
    node.wait_ready()

    assert silent == "silent"
    assert node.status().state == "running"


def test_a_killed_node_is_stopped_and_comes_back_with_its_data(running: KafkaCluster, namespace: str) -> None:
    (node,) = running.nodes
    create_topic(running.bootstrap_servers, f"{namespace}kept")
    killed, state = node.kill(), node.status().state
    running.start(tethered=True)
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})

    assert (killed, state) == (True, "stopped")
    assert f"{namespace}kept" in admin.list_topics(timeout=WAIT_S).topics


def test_a_paused_node_can_be_stopped(running: KafkaCluster) -> None:
    (node,) = running.nodes
    node.pause()

    assert node.stop()
    assert node.status().state == "stopped"
    assert not node.stop()


def test_a_second_start_changes_nothing(running: KafkaCluster) -> None:
    before = running.status()[0].pid
    running.start(tethered=True)

    assert running.status()[0].pid == before


def test_another_process_finds_the_cluster_by_its_root(running: KafkaCluster) -> None:
    saved = KafkaCluster.saved(running.root)

    assert saved is not None
    assert saved.spec == running.spec
    assert [row.state for row in saved.status()] == ["running"]


def test_a_running_cluster_is_not_started_with_other_ports(running: KafkaCluster) -> None:
    other = KafkaCluster(running.root, ports="free")

    with pytest.raises(KafkaDevError, match=r"other settings.*horologd kafka stop"):
        other.start()
    assert running.status()[0].state == "running"


def test_data_of_another_number_of_nodes_is_refused(running: KafkaCluster) -> None:
    with pytest.raises(KafkaDevError, match=r"1 node.*--delete-data"):
        KafkaCluster(running.root, nodes=3)


def test_data_of_a_running_cluster_is_not_deleted(running: KafkaCluster) -> None:
    with pytest.raises(KafkaDevError, match="stop it before"):
        running.delete_data()
    assert running.status()[0].state == "running"


def test_a_taken_port_is_named_with_what_to_do(tmp_path: Path) -> None:
    (ports,) = free_ports(1)
    with socket.socket() as holder:
        holder.bind((kafka_dev.HOST, ports.broker))
        holder.listen()

        with pytest.raises(PortTakenError, match=f"Port {ports.broker} .*--port N"):
            KafkaCluster(tmp_path, ports=[ports]).start()
    assert [row.state for row in KafkaCluster(tmp_path, ports=[ports]).status()] == ["stopped"]


def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    # The format tool does not look at this property; the broker does.
    cluster = KafkaCluster(tmp_path, ports="free", heap_mb=SMALL_HEAP_MB, extra={"authorizer.class.name": "no.Such"})

    with pytest.raises(StartFailedError, match=r"(?s)no\.Such"):
        cluster.start(tethered=True)
    assert [row.state for row in cluster.status()] == ["stopped"]


def test_a_recycled_pid_is_neither_believed_nor_killed(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    cluster = KafkaCluster(tmp_path, ports="free")
    (node,) = cluster.nodes
    node.directory.mkdir(parents=True)
    (node.directory / "process.json").write_text(json.dumps({"pid": stranger.pid, "started": "long ago"}))

    assert node.process is None
    assert not node.send(signal.SIGKILL)
    assert cluster.stop() == 0
    assert stranger.poll() is None


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = kafka_dev.process_started(process.pid)
    assert started is not None
    identity = ProcessIdentity(process.pid, started)
    alive = identity.is_alive()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet collected
    dead = not identity.is_alive()
    process.communicate()

    assert alive
    assert dead


def test_a_tethered_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from streams.kafka_dev import KafkaCluster\n"
        f"cluster = KafkaCluster(Path(sys.argv[1]), ports='free', heap_mb={SMALL_HEAP_MB})\n"
        "cluster.start(tethered=True); print(cluster.nodes[0].process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    answer = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    pid = int(answer.stdout)

    assert answer.returncode == -signal.SIGKILL
    assert kafka_dev.wait_until(lambda: kafka_dev.process_started(pid) is None, WAIT_S)


def test_clients_are_told_the_advertised_address(tmp_path: Path) -> None:
    ports, proxy = free_ports(2)
    advertised = f"{kafka_dev.HOST}:{proxy.broker}"
    cluster = KafkaCluster(tmp_path, ports=[ports], heap_mb=SMALL_HEAP_MB, advertised={1: advertised})
    with cluster:
        admin = AdminClient({"bootstrap.servers": f"{kafka_dev.HOST}:{ports.broker}", "log_level": 0})
        broker = admin.list_topics(timeout=WAIT_S).brokers[1]

    assert f"{broker.host}:{broker.port}" == advertised
    assert cluster.bootstrap_servers == advertised


def test_three_nodes_keep_taking_writes_when_one_is_killed(tmp_path: Path, namespace: str) -> None:
    with KafkaCluster(tmp_path, nodes=3, ports="free", heap_mb=SMALL_HEAP_MB, racks=("a", "b", "c")) as cluster:
        create_topic(cluster.bootstrap_servers, f"{namespace}three", partitions=3, copies=3)
        before = write_one(cluster.bootstrap_servers, f"{namespace}three")
        cluster.nodes[2].kill()
        after = write_one(cluster.bootstrap_servers, f"{namespace}three")
        states = [row.state for row in cluster.status()]

    assert (before, after) == ([], [])
    assert states == ["running", "running", "stopped"]


def test_the_properties_give_each_node_its_rack_and_the_quorum(tmp_path: Path) -> None:
    cluster = KafkaCluster(tmp_path, nodes=3, ports=30_000, racks=("a", "b", "c"), extra={"num.io.threads": "4"})
    properties = cluster.nodes[1].server_properties()

    assert properties["broker.rack"] == "b"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:30001,2@127.0.0.1:30004,3@127.0.0.1:30007"
    assert (properties["min.insync.replicas"], properties["default.replication.factor"]) == ("2", "3")
    assert properties["num.io.threads"] == "4"
    assert cluster.nodes[2].ports == NodePorts(30_006, 30_007, 30_008)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"nodes": 0}, "choose 1 to 9"),
        ({"nodes": 10}, "choose 1 to 9"),
        ({"nodes": 3, "racks": ("a", "b")}, "2 racks .* 3 nodes"),
        ({"nodes": 2, "ports": [NodePorts(1, 2, 3)]}, "1 sets of ports .* 2 nodes"),
        ({"ports": "any"}, "free"),
    ],
)
def test_impossible_layouts_are_refused_in_words(tmp_path: Path, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(KafkaDevError, match=words):
        KafkaCluster(tmp_path, **arguments)  # type: ignore[arg-type] # wrong ones are the point


def test_missing_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(ToolMissingError, match=r"Java 17 or newer.*openjdk-17"):
        find_java()


@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_392", 8)])
def test_an_old_java_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    tool(tmp_path / "bin", "java", f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(ToolMissingError, match=f"is version {major}"):
        find_java()


def test_a_new_java_in_java_home_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "java", "echo 'openjdk version \"25\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java() == str(tmp_path / "bin" / "java")


def a_pom(directory: Path, version: str = "9.9.9") -> Path:
    pom = directory / "deploy" / "kafka" / "pom.xml"
    pom.parent.mkdir(parents=True, exist_ok=True)
    pom.write_text(f"<project><kafka.version>{version}</kafka.version></project>")
    return pom


def a_maven(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `mvn` on PATH that makes the output directory and notes each call in the returned file."""
    calls = directory / "calls"
    script = (
        f'echo call >> {calls}; for a in "$@"; do case "$a" in -DoutputDirectory=*) mkdir -p "${{a#*=}}";; esac; done'
    )
    tool(directory / "bin", "mvn", script)
    monkeypatch.setenv("PATH", f"{directory / 'bin'}:/bin:/usr/bin")
    monkeypatch.delenv(kafka_dev.LIBS_VARIABLE, raising=False)
    return calls


def test_jars_are_resolved_once_and_again_after_the_pom_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, pom = a_maven(tmp_path, monkeypatch), a_pom(tmp_path)
    first, second = resolve_libs(pom), resolve_libs(pom)
    calls_before = calls.read_text().count("call")
    pom.write_text(pom.read_text() + "<!-- changed -->")
    third = resolve_libs(pom)

    assert first == second == third == tmp_path / ".horolog" / "kafka-libs-9.9.9"
    assert (calls_before, calls.read_text().count("call")) == (1, 2)


def test_missing_maven_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(kafka_dev.LIBS_VARIABLE, raising=False)

    with pytest.raises(ToolMissingError, match="apt install maven"):
        resolve_libs(a_pom(tmp_path))


def test_a_failing_maven_is_quoted_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_maven(tmp_path, monkeypatch)
    tool(tmp_path / "bin", "mvn", "echo 'no route to host'; exit 1")

    with pytest.raises(ToolMissingError, match=r"(?s)Check the network.*no route to host"):
        resolve_libs(a_pom(tmp_path))
    assert not (tmp_path / ".horolog" / "kafka-libs-9.9.9").exists()


def test_without_a_checkout_the_libs_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kafka_dev.LIBS_VARIABLE, raising=False)

    with pytest.raises(ToolMissingError, match="HOROLOG_KAFKA_LIBS"):
        resolve_libs(tmp_path / "nowhere" / "pom.xml")


def test_given_libs_are_used_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kafka_dev.LIBS_VARIABLE, str(tmp_path))

    assert resolve_libs() == tmp_path


def test_an_unreadable_cluster_file_names_itself(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")

    with pytest.raises(KafkaDevError, match=r"cluster\.json cannot be read"):
        KafkaCluster.saved(tmp_path)
