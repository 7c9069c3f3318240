"""Job definitions from any Kafka client, end to end: a scheduler process, the examples, and what can be wrong."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from schemas.config import Settings, load_settings
from schemas.partition import partition_for
from schemas.topics import Topic, topic_name, topic_partitions
from streams.core.calendar_records import CalendarRecord, calendar_key, encode_calendar
from streams.core.commands import Complete, Grant, LeaseRun, Reply
from streams.core.envelopes import CommandBatch, Demand, QueueDemand
from streams.core.time import CronSpec, IntervalSpec
from streams.core.wire import (
    decode_dead_letter,
    decode_history,
    decode_offers,
    decode_replies,
    encode_commands,
    encode_definition,
    encode_demand,
)
from streams.kafka_dev import HOST, free_ports, port_is_free, wait_until
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from streams.core.definition import Definition

WAIT_S = 60.0
PARTITIONS = 2
ROOT = Path(__file__).resolve().parents[2]
HOROLOGD = Path(sys.executable).with_name("horologd")


class Kafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


class Topics:
    """Reads whole topics read_committed and keeps what it saw; writes what clients write."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._consumers: dict[Topic, Consumer] = {}
        self._seen: dict[Topic, list[Any]] = {}
        self._producer = Producer({**settings.kafka.client_config(), "log_level": 0})

    def seen(self, topic: Topic) -> list[Any]:
        """All messages of a topic up to now."""
        consumer = self._consumers.get(topic)
        if consumer is None:
            consumer = self._consumers[topic] = Consumer(
                {
                    **self.settings.kafka.client_config(),
                    "group.id": "test-reader",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "log_level": 0,
                }
            )
            name = topic_name(self.settings, topic)
            count = topic_partitions(self.settings, topic)
            consumer.assign([TopicPartition(name, partition, 0) for partition in range(count)])
        found = self._seen.setdefault(topic, [])
        while (message := consumer.poll(0.05)) is not None:
            if message.error() is None:
                found.append(message)
        return found

    def until(self, look: Callable[[], Any]) -> Any:
        """Wait for the first answer of `look` that is true."""
        found: list[Any] = []

        def done() -> bool:
            answer = look()
            if answer:
                found.append(answer)
            return bool(answer)

        assert wait_until(done, WAIT_S), "it did not come"
        return found[0]

    def send(self, topic: Topic, partition: int, key: str, value: bytes | None) -> None:
        self._producer.produce(topic_name(self.settings, topic), value, key, partition)
        assert self._producer.flush(WAIT_S) == 0

    def define(self, definition: Definition, *, partition: int | None = None) -> None:
        place = partition_for(definition.job_id, PARTITIONS) if partition is None else partition
        self.send(Topic.JOB_DEFINITIONS, place, definition.job_id, encode_definition(definition))

    def events(self, job_id: str) -> list[str]:
        """Names of the events of a job."""
        entries = [decode_history(message.value()) for message in self.seen(Topic.HISTORY)]
        return [type(event).__name__ for entry in entries if entry.job_id == job_id for event in entry.events]

    def dead_letters(self, key: bytes) -> list[Any]:
        letters = [decode_dead_letter(message.value()) for message in self.seen(Topic.DEAD_LETTER)]
        return [letter for letter in letters if letter.key == key]

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


@pytest.fixture(scope="module")
def settings(kafka: Kafka) -> Settings:
    namespace = f"t{uuid.uuid4().hex[:12]}."
    overrides: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace},
        "topics": {"partitions": PARTITIONS},
        "scheduler": {"group_id": f"g-{namespace}"},
    }
    settings = load_settings(env={}, overrides=overrides)
    create_topics(settings)
    return settings


def environment(settings: Settings, data_dir: Path, **more: str) -> dict[str, str]:
    own = {
        "HOROLOG_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "HOROLOG_KAFKA__NAMESPACE": settings.kafka.namespace,
        "HOROLOG_TOPICS__PARTITIONS": str(PARTITIONS),
        "HOROLOG_SCHEDULER__GROUP_ID": settings.scheduler.group_id,
        "HOROLOG_SCHEDULER__DATA_DIR": str(data_dir),
        "HOROLOG_SCHEDULER__ADMIN_PORT": "0",
        "HOROLOG_LOG__FORMAT": "json",
    }
    return {name: value for name, value in os.environ.items() if not name.startswith("HOROLOG_")} | own | more


def started(command: str, env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stream:
        return subprocess.Popen([str(HOROLOGD), command], env=env, stderr=stream, cwd=log.parent)  # noqa: S603 - our own


def stopped(process: subprocess.Popen[bytes], log: Path) -> None:
    """A stop by SIGTERM is clean."""
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(WAIT_S)
        raise
    assert code == 0, log.read_text()[-4_000:]


@pytest.fixture(scope="module")
def scheduler(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler process that acts for both partitions."""
    folder = tmp_path_factory.mktemp("scheduler")
    log = folder / "log"
    process = started("scheduler", environment(settings, folder / "data"), log)
    yield process
    stopped(process, log)


@pytest.fixture(scope="module")
def topics(settings: Settings, scheduler: subprocess.Popen[bytes]) -> Iterator[Topics]:
    assert scheduler.poll() is None
    topics = Topics(settings)
    yield topics
    topics.close()


@pytest.fixture(scope="module")
def registry_url(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway process, for its registry."""
    folder = tmp_path_factory.mktemp("gateway")
    log = folder / "log"
    port = free_ports(1)[0].broker
    process = started("gateway", environment(settings, folder, HOROLOG_GATEWAY__PORT=str(port)), log)
    assert wait_until(lambda: not port_is_free(port), WAIT_S)
    yield f"http://{HOST}:{port}"
    stopped(process, log)


def example(name: str, settings: Settings) -> ModuleType:
    """An example as it is in the tree, with the namespace of this test."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.TOPIC = topic_name(settings, Topic.JOB_DEFINITIONS)  # type: ignore[attr-defined] # what the example defines
    return module


def unique(prefix: str = "job") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def granted(topics: Topics, job_id: str, queue: str) -> Grant:
    """Do what a gateway with one waiting worker does, until the job's run is granted."""
    gateway_id = unique("g")
    asked: set[str] = set()
    grants: list[Grant] = []

    def look() -> Grant | None:
        wanted = (QueueDemand(tenant="default", queue=queue, slots=1),)
        demand = Demand(gateway_id=gateway_id, incarnation="i", sent_at_ms=0, queues=wanted)
        topics.send(Topic.DEMAND, 0, gateway_id, encode_demand(demand))
        for message in topics.seen(Topic.OFFERS):
            offers = decode_offers(message.value())
            for offer in offers.offers if offers.gateway_id == gateway_id else ():
                if offer.job_id == job_id and offer.run_id not in asked:
                    asked.add(offer.run_id)
                    command(
                        topics,
                        gateway_id,
                        LeaseRun(
                            job_id=job_id,
                            request_id=offer.run_id,
                            run_id=offer.run_id,
                            worker_id="w",
                            gateway_id=gateway_id,
                            job_version=offer.job_version,
                            valid_until_ms=offer.due_at_ms + 60_000,
                        ),
                    )
        grants.extend(answer for answer in answers(topics, gateway_id) if isinstance(answer, Grant))
        return grants[0] if grants else None

    grant: Grant = topics.until(look)
    return grant


def command(topics: Topics, gateway_id: str, asked: LeaseRun | Complete) -> None:
    batch = CommandBatch(gateway_id=gateway_id, incarnation="i", sent_at_ms=0, commands=(asked,))
    place = partition_for(asked.job_id, PARTITIONS)
    topics.send(Topic.COMMANDS, place, asked.job_id, encode_commands(batch))


def answers(topics: Topics, gateway_id: str) -> list[Reply | Grant]:
    batches = [decode_replies(message.value()) for message in topics.seen(Topic.REPLIES)]
    return [answer.reply for batch in batches if batch.gateway_id == gateway_id for answer in batch.answers]


def test_a_job_from_the_schema_file_alone_is_opened_granted_and_completed(topics: Topics, settings: Settings) -> None:
    job_id = unique()
    job = {"job_id": job_id, "queue": "line", "schedule": ("horolog.IntervalSchedule", {"every_ms": 1_000})}
    told = example("kafka_producer_schema_file_only", settings).define(
        settings.kafka.bootstrap_servers, ROOT / "schemas" / "JobDefinition.avsc", job
    )
    assert told.endswith(f"partition {partition_for(job_id, PARTITIONS)}")
    grant = granted(topics, job_id, "line")
    assert (grant.job_id, grant.task, grant.attempt, grant.lease_token) == (job_id, job_id, 1, 1)
    assert grant.granted_at_ms >= grant.scheduled_at_ms
    command(
        topics,
        "done",
        Complete(job_id=job_id, request_id="c", run_id=grant.run_id, lease_token=grant.lease_token),
    )
    (reply,) = topics.until(lambda: answers(topics, "done"))
    assert isinstance(reply, Reply)
    assert (reply.code, reply.outcome) == ("ok", "succeeded")


AVRO_EXAMPLE = """
import runpy, sys
example = runpy.run_path(sys.argv[1])
define = example["define"]
define.__globals__["TOPIC"] = sys.argv[2]
define.__globals__["JOB"]["job_id"] = sys.argv[3]
print(define(sys.argv[4], sys.argv[5]))
"""
"""The example in a process of its own, as users run it; with the topic and the job id of the test."""


def test_a_job_through_confluent_s_serializer_and_the_gateway_s_registry_is_accepted(
    topics: Topics, settings: Settings, registry_url: str
) -> None:
    job_id = unique()
    arguments = [topic_name(settings, Topic.JOB_DEFINITIONS), job_id, settings.kafka.bootstrap_servers, registry_url]
    command = [sys.executable, "-c", AVRO_EXAMPLE, str(ROOT / "examples" / "kafka_producer_avro.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)  # noqa: S603 - our own
    told = done.stdout.strip()
    assert told.endswith(f"partition {partition_for(job_id, PARTITIONS)}")
    assert topics.until(lambda: topics.events(job_id)) == ["JobDefined"]


def test_an_edit_raises_the_version_and_the_same_definition_again_changes_nothing(
    topics: Topics, make_job: Any
) -> None:
    job_id, after = unique(), unique()
    schedule = IntervalSpec(every_ms=86_400_000 * 300, anchor_ms=1)
    first = make_job(job_id, schedule=schedule)
    for definition in (first, first, make_job(job_id, schedule=schedule, task="other")):
        topics.define(definition)
    follow(topics, make_job, after, job_id)
    entries = [decode_history(message.value()) for message in topics.seen(Topic.HISTORY)]
    versions = [
        getattr(event, "version", None) for entry in entries if entry.job_id == job_id for event in entry.events
    ]
    assert topics.events(job_id) == ["JobDefined", "JobEdited"]
    assert versions == [1, 2]


def follow(topics: Topics, make_job: Any, job_id: str, like: str) -> str:
    """Define a good job behind what was sent to the partition of `like`, and wait until it is accepted."""
    place = partition_for(like, PARTITIONS)
    good = next(f"{job_id}-{n}" for n in range(100) if partition_for(f"{job_id}-{n}", PARTITIONS) == place)
    topics.define(make_job(good, schedule=IntervalSpec(every_ms=86_400_000 * 300, anchor_ms=1)))
    topics.until(lambda: topics.events(good))
    return good


def test_an_unreadable_definition_is_a_dead_letter_and_the_next_one_is_processed(topics: Topics, make_job: Any) -> None:
    job_id = unique()
    place = partition_for(job_id, PARTITIONS)
    topics.send(Topic.JOB_DEFINITIONS, place, job_id, b'{"json": "is not Avro"}')
    follow(topics, make_job, unique(), job_id)
    (letter,) = topics.dead_letters(job_id.encode())
    assert letter.source_topic == topic_name(topics.settings, Topic.JOB_DEFINITIONS)
    assert (letter.source_partition, letter.code, letter.field) == (place, "unreadable", "value")
    assert letter.source_offset >= 0
    assert letter.value == b'{"json": "is not Avro"}'
    assert letter.reason


def test_a_bad_cron_expression_is_named_with_its_field(topics: Topics, make_job: Any) -> None:
    job_id = unique()
    topics.define(make_job(job_id, schedule=CronSpec(expression="61 9 * * *", time_zone="UTC")))
    follow(topics, make_job, unique(), job_id)
    (letter,) = topics.dead_letters(job_id.encode())
    assert letter.code == "invalid"
    assert letter.field.startswith("schedule")
    assert "61" in letter.reason
    assert topics.events(job_id) == []


def test_a_definition_on_another_partition_is_a_dead_letter_that_names_the_partitioner(
    topics: Topics, make_job: Any
) -> None:
    job_id = unique()
    place = 1 - partition_for(job_id, PARTITIONS)
    topics.define(make_job(job_id), partition=place)
    (letter,) = topics.until(lambda: topics.dead_letters(job_id.encode()))
    assert (letter.source_partition, letter.code, letter.field) == (place, "wrong_partition", "key")
    assert "partitioner=murmur2_random" in letter.reason
    assert topics.events(job_id) == []


def test_a_null_deletes_a_job_and_is_a_dead_letter_where_there_is_none(topics: Topics, make_job: Any) -> None:
    job_id, nobody = unique(), unique("nobody")
    topics.define(make_job(job_id, schedule=IntervalSpec(every_ms=86_400_000 * 300, anchor_ms=1)))
    for name in (nobody, job_id):
        topics.send(Topic.JOB_DEFINITIONS, partition_for(name, PARTITIONS), name, None)
    topics.until(lambda: topics.events(job_id) == ["JobDefined", "JobDeleted"])
    (letter,) = topics.until(lambda: topics.dead_letters(nobody.encode()))
    assert (letter.code, letter.field) == ("invalid", "key")
    assert topics.dead_letters(job_id.encode()) == []


def test_a_definition_of_another_tenant_is_refused(topics: Topics, make_job: Any) -> None:
    job_id = unique()
    schedule = IntervalSpec(every_ms=86_400_000 * 300, anchor_ms=1)
    topics.define(make_job(job_id, schedule=schedule))
    topics.define(make_job(job_id, schedule=schedule, tenant="other"))
    (letter,) = topics.until(lambda: topics.dead_letters(job_id.encode()))
    assert letter.code == "wrong_tenant"
    assert topics.events(job_id) == ["JobDefined"]


def test_a_definition_in_a_transaction_is_seen_only_if_it_is_committed(topics: Topics, make_job: Any) -> None:
    aborted, committed = unique(), unique()
    schedule = IntervalSpec(every_ms=86_400_000 * 300, anchor_ms=1)
    config = {**topics.settings.kafka.client_config(), "transactional.id": unique("user"), "log_level": 0}
    producer = Producer(config)
    producer.init_transactions(WAIT_S)
    name = topic_name(topics.settings, Topic.JOB_DEFINITIONS)
    for job_id, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
        producer.begin_transaction()
        value = encode_definition(make_job(job_id, schedule=schedule))
        producer.produce(name, value, job_id, partition_for(job_id, PARTITIONS))
        producer.flush(WAIT_S)
        end(WAIT_S)
    topics.until(lambda: topics.events(committed))
    follow(topics, make_job, unique(), aborted)
    assert topics.events(aborted) == []
    assert topics.dead_letters(aborted.encode()) == []


BROKEN_PROCESS = """
import sys
from schemas.config import load_settings
from streams.app import run_scheduler

class Broken:
    def before(self, step):
        if step == "apply":
            raise OSError("the disk is full")

sys.exit(run_scheduler(load_settings(), Broken()))
"""


def test_a_failure_after_a_commit_ends_the_process_with_its_reason(kafka: Kafka, tmp_path: Path) -> None:
    namespace = f"t{uuid.uuid4().hex[:12]}."
    where = {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace}
    overrides: dict[str, dict[str, Any]] = {
        "kafka": where,
        "topics": {"partitions": PARTITIONS},
        "scheduler": {"group_id": f"g-{namespace}"},
    }
    own = load_settings(env={}, overrides=overrides)
    create_topics(own)
    command = [sys.executable, "-c", BROKEN_PROCESS]
    done = subprocess.run(  # noqa: S603 - our own
        command,
        env=environment(own, tmp_path),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert '"event": "owner_failed"' in done.stderr
    assert "the disk is full" in done.stderr


def test_a_definition_right_behind_its_calendar_is_accepted_and_one_without_is_a_dead_letter(
    topics: Topics, make_job: Any
) -> None:
    name, unknown, known = unique("calendar"), unique("unknown"), unique("known")
    on_calendar = {"tenant": "default", "schedule": CronSpec("0 9 * * *"), "calendars": (name,)}
    topics.define(msgspec.structs.replace(make_job(unknown), **on_calendar))
    letters = topics.until(lambda: topics.dead_letters(unknown.encode()))
    assert [(letter.code, letter.field) for letter in letters] == [("invalid", "calendars")]
    assert name in letters[0].reason

    record = CalendarRecord(tenant="default", name=name, dates=("2027-01-01",))
    topics.send(Topic.CONFIG, 0, calendar_key("default", name), encode_calendar(record))
    topics.define(msgspec.structs.replace(make_job(known), **on_calendar))
    assert topics.until(lambda: topics.events(known))[0] == "JobDefined"
    assert topics.dead_letters(known.encode()) == []
