"""A region is lost with all that is in it: broker, schedulers, gateway. The runbook's steps are done, as commands."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from schemas.config import env_name, load_settings
from schemas.topics import Topic, topic_name
from streams.kafka_dev import KafkaCluster, free_ports, wait_until
from tests.chaos.harness.cluster import BROKER, READY_TIMEOUT_S, Cluster, Scheduler, now_ms
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

EAST, WEST = "east", "west"
HEAP_MB = 256
SEED = 7
JOBS = 20
EXECUTED_BEFORE = 20
PARTITIONS = 4
WAIT_S = 90.0
LIGHT = Load(seed=SEED, one_offs=10.0, intervals=6, crons=2, changes=2.0, beats=1, workers=4, timer_only=(0,))
"""What matters here is what was accepted when the region went, not how much: three brokers share one machine."""

CONFIGURED = {
    "topics.replication_factor": "2",
    "topics.min_insync_replicas": "2",
    "scheduler.session_timeout_ms": "6000",
    "gateway.reply_timeout_ms": "20000",
}
HOROLOGD = Path(sys.executable).parent / "horologd"
SETTLED = BROKER | {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}
"""A dead broker is noticed after 5 s, not after 9."""


class TwoRegions(Cluster):
    """Schedulers and gateways in two regions, each reading from its own region's copies."""

    def __init__(self, kafka: KafkaCluster, namespace: str, root: Path, **options: Any) -> None:
        super().__init__(
            kafka.bootstrap_servers, namespace, root, partitions=PARTITIONS, scheduler=CONFIGURED, **options
        )
        self.gateways: dict[str, subprocess.Popen[bytes]] = {}
        self.urls: dict[str, str] = {}

    def environment_in(self, region: str) -> dict[str, str]:
        return self.environment | {env_name("kafka.client"): json.dumps({"client.rack": region})}

    def add_in(self, region: str) -> Scheduler:
        directory = self.root / f"{region}-{len(self.schedulers) + 1}"
        (ports,) = free_ports(1)
        own = {env_name("scheduler.data_dir"): str(directory / "data")}
        scheduler = Scheduler(directory.name, directory, self.environment_in(region) | own, ports.broker)
        self.schedulers.append(scheduler)
        scheduler.start()
        return scheduler

    def add_gateway(self, region: str) -> None:
        (ports,) = free_ports(1)
        self.urls[region] = f"http://127.0.0.1:{ports.broker}"
        environment = self.environment_in(region) | {env_name("gateway.port"): str(ports.broker)}
        with (self.root / f"gateway-{region}.log").open("wb") as log:
            self.gateways[region] = subprocess.Popen(  # noqa: S603 - our own program
                [HOROLOGD, "gateway"], env=environment, stdout=log, stderr=log
            )
        assert wait_until(lambda: self.call(region, "GET", "/readyz")[0] == 200, READY_TIMEOUT_S)

    def call(self, region: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310 - our own gateway
            self.urls[region] + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30.0) as answer:  # noqa: S310 - our own gateway
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError as error:
            return 0, str(error)

    def operator(self, *words: str) -> tuple[int, str]:
        """Run what an operator types; the exit code and everything it said."""
        answer = subprocess.run(  # noqa: S603 - our own program
            [HOROLOGD, "regions", *words], env=self.environment, capture_output=True, text=True, check=False
        )
        return answer.returncode, answer.stdout + answer.stderr

    def refuses_writes(self) -> bool:
        """Whether no acknowledged write is possible, on any partition of commands."""
        producer = Producer({**self.settings.kafka.client_config(), "acks": "all", "message.timeout.ms": 2_000})
        outcomes: list[bool] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            outcomes.append(error is None)

        topic = topic_name(self.settings, Topic.COMMANDS)
        for partition in range(self.partitions):
            producer.produce(topic, b"proof", partition=partition, on_delivery=delivered)
        assert wait_until(lambda: producer.poll(0.1) >= 0 and len(outcomes) == self.partitions, WAIT_S)
        return not any(outcomes)

    def brokers(self) -> int:
        """How many the controllers believe alive; 0 where nobody answers yet."""
        admin = AdminClient({**self.settings.kafka.client_config(), "log_level": 0})
        try:
            return len(admin.describe_cluster(request_timeout=10).result().nodes)
        except KafkaException:
            return 0

    def kill_region(self, region: str) -> None:
        for scheduler in self.schedulers:
            if scheduler.name.startswith(region):
                scheduler.kill()
        self.gateways[region].kill()
        self.gateways[region].wait()

    def close_gateways(self) -> None:
        for gateway in self.gateways.values():
            gateway.kill()
            gateway.wait()


@pytest.fixture
def pair(
    tmp_path: Path, namespace: str, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[KafkaCluster, TwoRegions]]:
    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", end="")  # noqa: T201 - the story of a fault test, as it happens

    root = tmp_path / "schedulers"
    root.mkdir()
    with (
        KafkaCluster.region_pair(
            tmp_path / "kafka", (EAST, WEST), ports="free", heap_mb=HEAP_MB, extra=SETTLED
        ) as kafka,
        TwoRegions(kafka, namespace, root, say=say) as cluster,
    ):
        yield kafka, cluster
        cluster.close_gateways()


def test_a_region_is_lost_and_nothing_that_was_accepted(pair: tuple[KafkaCluster, TwoRegions]) -> None:
    kafka, cluster = pair
    east, west = cluster.add_in(EAST), cluster.add_in(WEST)
    cluster.add_gateway(EAST)
    cluster.add_gateway(WEST)
    cluster.wait_whole(east, west, timeout_s=WAIT_S)
    code, said = cluster.operator("check")
    assert (code, "Every acknowledged write is in every region." in said) == (0, True), said
    driver = Driver(load_settings(env=cluster.environment_in(WEST)), LIGHT)
    driver.start()
    assert wait_until(lambda: len(driver.journals.executions) >= EXECUTED_BEFORE, WAIT_S)

    code, said = cluster.operator("fail-over", "--lost", EAST)
    assert (code, "still answer" in said) == (1, True), said

    accepted = []
    for number in range(JOBS):
        job = {"name": f"accepted-{number}", "queue": "by-hand", "delaySeconds": 1 + number % 5}
        status, body = cluster.call(EAST, "POST", "/v1/jobs", job)
        assert status == 201, body
        accepted.append(body["jobId"])
    lost_ms = now_ms()
    kafka.nodes[0].kill()
    cluster.kill_region(EAST)
    cluster.say(f"region {EAST} is gone")

    # Until somebody decides, nothing is acknowledged that would be in one region only.
    assert wait_until(lambda: cluster.brokers() == 1, WAIT_S)
    assert cluster.refuses_writes()

    assert wait_until(lambda: cluster.operator("fail-over", "--lost", EAST)[0] == 0, WAIT_S)
    cluster.wait_whole(west, timeout_s=WAIT_S)
    cluster.note("region_lost", lost_ms, EAST)
    restart_ms = now_ms()
    west.stop()
    west.start()  # it must start although fewer copies are required than configured
    cluster.wait_whole(west, timeout_s=WAIT_S)
    cluster.note("restart", restart_ms, WEST)
    assert _complete_all(cluster, WEST, accepted) == set(accepted)

    back_ms = now_ms()
    kafka.nodes[0].launch(tethered=True)
    kafka.nodes[0].wait_ready(WAIT_S)
    code, said = cluster.operator("restore", "--wait-seconds", str(WAIT_S))
    assert code == 0, said
    code, said = cluster.operator("check")
    assert code == 0, said
    east.start()
    cluster.wait_whole(east, west, timeout_s=WAIT_S)
    cluster.note("region_back", back_ms, EAST)

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    assert driver.gave_up == []
    assert list(cluster.log_lines("copies_away"))


def _complete_all(cluster: TwoRegions, region: str, wanted: list[str]) -> set[str]:
    """Be a worker until every wanted job has run."""
    done: set[str] = set()
    held: dict[str, Any] = {}

    def go_on() -> bool:
        body = {"workerId": "hand", "max": 50}
        status, answer = cluster.call(region, "POST", "/v1/queues/by-hand/lease", body)
        held.update({run["runId"]: run for run in answer["runs"]} if status == 200 else {})
        for run_id, run in [*held.items()]:
            report = {"leaseToken": run["leaseToken"]}
            code, _ = cluster.call(region, "POST", f"/v1/runs/{run_id}/complete", report)
            if code in (200, 409):  # else there was no answer in time: it is repeated
                del held[run_id]
            if code == 200:
                done.add(run["jobId"])
        return done >= set(wanted)

    assert wait_until(go_on, WAIT_S), f"not run: {set(wanted) - done}"
    return done
