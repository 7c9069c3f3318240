"""Input that cannot be read, between good records: it is told with its place and reason, and stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import Producer

from schemas.codec import header_of
from schemas.partition import partition_for
from schemas.topics import Topic, topic_name
from streams.core.commands import Delete
from streams.core.definition import Definition
from streams.core.envelopes import CommandBatch
from streams.core.time import OneOffSpec
from streams.core.wire import decode_dead_letter, encode_commands, encode_definition
from tests.chaos.harness.cluster import now_ms
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.config import Settings
    from tests.chaos.harness.cluster import Cluster

PARTITION = 3
LARGE = b"\0" + b"x" * 900_000
HUGE = b"\0" + b"x" * 1_500_000
"""Larger than any record of ours, and than a consumer's usual fetch; the topics take batches of up to 2 MiB."""
UNKNOWN_SCHEMA = header_of(4_000_000) + b"body"
FLUSH_TIMEOUT_S = 20.0


class Poisoner:
    """Writes to the input topics as a careless producer would."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.partitions = settings.topics.partitions
        self.places: dict[tuple[str, int], str] = {}
        """(topic, offset) of what must become a dead letter, and its code."""
        self.good: list[str] = []
        self._producer = Producer(settings.kafka.client_config() | {"message.max.bytes": 2_000_000})

    def job_here(self, name: str, *, here: bool = True) -> str:
        number = 0
        while (partition_for(f"{name}-{number}", self.partitions) == PARTITION) is not here:
            number += 1
        return f"{name}-{number}"

    def definition(self, job_id: str) -> Definition:
        return Definition(
            job_id=job_id, tenant="team", queue="work", name="n", task="t", schedule=OneOffSpec(now_ms() + 500)
        )

    def write(self, topic: Topic, key: bytes | None, value: bytes | None, code: str = "") -> None:
        """Write to the one partition; `code`: of the dead letter that must follow."""

        def delivered(error: object, message: object) -> None:
            assert error is None, error
            if code:
                self.places[topic.value, message.offset()] = code  # type: ignore[attr-defined]

        self._producer.produce(topic_name(self.settings, topic), value, key, PARTITION, on_delivery=delivered)
        assert self._producer.flush(FLUSH_TIMEOUT_S) == 0

    def write_good(self) -> None:
        job_id = self.job_here(f"good{len(self.good)}")
        self.good.append(job_id)
        self.write(Topic.JOB_DEFINITIONS, job_id.encode(), encode_definition(self.definition(job_id)))

    def poison_definitions(self) -> None:
        here, elsewhere = self.job_here("bad"), self.job_here("lost", here=False)
        good = encode_definition(self.definition(here))
        for key, value, code in (
            (here.encode(), b"\1" + good[1:], "unreadable"),  # wrong magic byte
            (here.encode(), UNKNOWN_SCHEMA, "unreadable"),
            (here.encode(), good[: len(good) // 2], "unreadable"),
            (here.encode(), b"", "unreadable"),
            (here.encode(), None, "invalid"),  # deletes a job that is not there
            (here.encode(), LARGE, "unreadable"),
            (here.encode(), HUGE, "unreadable"),
            (b"\xff\xfe", good, "unreadable"),
            (elsewhere.encode(), encode_definition(self.definition(elsewhere)), "wrong_partition"),
        ):
            self.write(Topic.JOB_DEFINITIONS, key, value, code)
            self.write_good()

    def poison_commands(self) -> None:
        elsewhere = self.job_here("lost", here=False)
        batch = CommandBatch(
            gateway_id="careless",
            incarnation="1",
            sent_at_ms=now_ms(),
            commands=(Delete(job_id=elsewhere, request_id="careless-1", actor="ann"),),
        )
        good = encode_commands(msgspec.structs.replace(batch, commands=()))
        for value, code in (
            (b"\1" + good[1:], "unreadable"),
            (UNKNOWN_SCHEMA, "unreadable"),
            (good[: len(good) // 2], "unreadable"),
            (b"", "unreadable"),
            (None, "unreadable"),
            (LARGE, "unreadable"),
            (HUGE, "unreadable"),
            (encode_definition(self.definition(elsewhere)), "unreadable"),  # another record than a batch
            (encode_commands(batch), "wrong_partition"),
        ):
            self.write(Topic.COMMANDS, b"careless", value, code)
            self.write_good()


def test_poison_becomes_dead_letters_and_the_next_good_one_is_processed(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    cluster.wait_whole(cluster.add())
    driver = Driver(cluster.settings, Load(seed=3, dies=0.0, slow=0.0))
    driver.start()
    poisoner = Poisoner(cluster.settings)
    poisoner.poison_definitions()
    poisoner.poison_commands()

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    defined = {item.entry.job_id for item in verdict.view.history}
    assert set(poisoner.good) <= defined
    letters = [decode_dead_letter(record.value) for record in verdict.view.records("dead-letter")]
    namespace = cluster.settings.kafka.namespace
    told = {(letter.source_topic.removeprefix(namespace), letter.source_offset): letter for letter in letters}
    assert {place: letter.code for place, letter in told.items()} == poisoner.places
    assert all(letter.source_partition == PARTITION and letter.field and letter.reason for letter in letters)
    assert not list(cluster.log_lines("job_quarantined"))
