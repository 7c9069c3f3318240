"""Input that cannot be read, between good records: it is told with its place and reason, and stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.config import Settings
    from streams.audit.log_view import LogView
    from streams.core.envelopes import DeadLetter
    from tests.chaos.harness.campaign import Campaign

LARGE: Final = b"\0" + b"x" * 900_000
HUGE: Final = b"\0" + b"x" * 1_500_000
"""Larger than any record of ours, and than a consumer's usual fetch; the topics take batches of up to 2 MiB."""
UNKNOWN_SCHEMA: Final = header_of(4_000_000) + b"body"
FLUSH_TIMEOUT_S: Final = 20.0


class Poisoner:
    """Writes to the input topics as a careless producer would."""

    def __init__(self, settings: Settings, partition: int, name: str = "") -> None:
        self.settings = settings
        self.partition = partition
        self._name = name
        self.partitions = settings.topics.partitions
        self.places: dict[tuple[str, int], str] = {}
        """(topic, offset) of what must become a dead letter, and its code."""
        self.good: list[str] = []
        self._producer = Producer(settings.kafka.client_config() | {"message.max.bytes": 2_000_000})

    def job_here(self, name: str, *, here: bool = True) -> str:
        """Give the id of a job that belongs to this partition, or to another."""
        number = 0
        name = self._name + name
        while (partition_for(f"{name}-{number}", self.partitions) == self.partition) is not here:
            number += 1
        return f"{name}-{number}"

    def definition(self, job_id: str) -> Definition:
        """Give a job that runs in half a second."""
        return Definition(
            job_id=job_id, tenant="team", queue="work", name="n", task="t", schedule=OneOffSpec(now_ms() + 500)
        )

    def write(self, topic: Topic, key: bytes | None, value: bytes | None, code: str = "") -> None:
        """Write to the one partition; `code`: of the dead letter that must follow."""

        def delivered(error: object, message: object) -> None:
            assert error is None, error
            if code:
                self.places[topic.value, message.offset()] = code  # type: ignore[attr-defined]

        self._producer.produce(topic_name(self.settings, topic), value, key, self.partition, on_delivery=delivered)
        assert self._producer.flush(FLUSH_TIMEOUT_S) == 0

    def write_good(self) -> None:
        """Write a definition that must take effect."""
        job_id = self.job_here(f"good{len(self.good)}")
        self.good.append(job_id)
        self.write(Topic.JOB_DEFINITIONS, job_id.encode(), encode_definition(self.definition(job_id)))

    def poison_definitions(self) -> None:
        """Write every form of bad definition, each with a good one behind it."""
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
        """Write every form of bad batch of commands, each with a good definition behind it."""
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

    def wrong(self, view: LogView) -> list[str]:
        """Say what is missing or told otherwise in the log of a run: dead letters of the bad, effects of the good."""
        namespace = self.settings.kafka.namespace
        told: dict[tuple[str, int], DeadLetter] = {}
        for record in view.records("dead-letter"):
            letter = decode_dead_letter(record.value)
            if letter.source_partition == self.partition:
                told[letter.source_topic.removeprefix(namespace), letter.source_offset] = letter
        defined = {item.entry.job_id for item in view.history}
        lost = [job_id for job_id in self.good if job_id not in defined]
        wrong = [f"{job_id}: a good definition among bad ones had no effect" for job_id in lost]
        for place, code in self.places.items():
            answer = told.get(place)
            if answer is None:
                wrong.append(f"{place}: no dead letter")
            elif answer.code != code or not answer.field or not answer.reason:
                wrong.append(f"{place}: {answer.code} in place of {code}, field {answer.field!r}, {answer.reason!r}")
        return wrong


class PoisonFaults:
    """Does it to a campaign's cluster; `wrong` judges it in the end."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._poisoners: list[Poisoner] = []
        self.kinds: dict[str, Callable[[], None]] = {
            "poison_definitions": lambda: self._poison("poison_definitions"),
            "poison_commands": lambda: self._poison("poison_commands"),
        }

    def wrong(self, view: LogView) -> list[str]:
        """Say which bad input has no dead letter, and which good one had no effect."""
        return [line for poisoner in self._poisoners for line in poisoner.wrong(view)]

    def _poison(self, kind: str) -> None:
        cluster, at_ms = self._campaign.cluster, now_ms()
        # Partition 0 is the one that must have no input at all.
        partition = self._campaign.rng.randrange(1, cluster.partitions)
        poisoner = Poisoner(cluster.settings, partition, f"p{len(self._poisoners)}-")
        self._poisoners.append(poisoner)
        if kind == "poison_definitions":
            poisoner.poison_definitions()
        else:
            poisoner.poison_commands()
        self._campaign.note(kind, at_ms, f"partition {partition}", (), f"{len(poisoner.places)} bad records")
