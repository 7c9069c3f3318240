"""Faults of the log: compaction and retention while owners recover, a transaction left open, two schema versions.

The ledger gets segments of a second, so that the cleaner always has something to do; what it and retention remove is in
the run's archive, for the judge.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from schemas.partition import partition_for
from schemas.topics import Topic, topic_name
from streams.core.definition import Definition
from streams.core.time import OneOffSpec
from streams.core.wire import encode_definition
from streams.kafka_dev import wait_until
from tests.chaos import newer_schema
from tests.chaos.harness.archive import Archive
from tests.chaos.harness.cluster import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.audit.log_view import LogView
    from tests.chaos.harness.campaign import Campaign
    from tests.chaos.harness.cluster import Scheduler

TINY: Final = {
    "segment.ms": "1000",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "3000",
    "max.compaction.lag.ms": "5000",
}
"""Everything older than some seconds may be compacted at any moment; the archive has read it by then."""

ARCHIVED: Final = (Topic.LEDGER, Topic.COMMANDS, Topic.LEASES, Topic.REPLIES)
CLEANED_TIMEOUT_S: Final = 120.0
REQUEST_TIMEOUT_S: Final = 15.0
RETENTION_EVERY_S: Final = 0.5
NEWER_S: Final = 3.0
"""Of traffic under an owner that writes the next schema versions."""

ABANDONED_MS: Final = 8_000
"""The producer's transaction time-out; the broker looks for such transactions every 10 s."""

ENDED_TIMEOUT_S: Final = 90.0


class LogFaults:
    """Does them to a campaign's cluster. Begin it before the first fault: it keeps the archive."""

    def __init__(self, campaign: Campaign) -> None:
        newer_schema.know()
        self._campaign = campaign
        self._cluster = campaign.cluster
        self._settings = campaign.cluster.settings
        self._admin = AdminClient(self._settings.kafka.client_config())
        self._tiny = False
        self._numbers = 0
        self.archive = Archive(self._settings, ARCHIVED)
        self.abandoned: list[str] = []
        """Jobs defined in transactions that never committed."""
        self.behind: list[str] = []
        """Jobs defined in the same partitions behind those."""
        self.kinds: dict[str, Callable[[], None]] = {
            "compaction": self.compaction,
            "retention": self.retention,
            "open_transaction": self.open_transaction,
            "schema_versions": self.schema_versions,
        }

    def wrong(self, view: LogView) -> list[str]:
        """Say which definitions of transactions left open took effect, and which behind them did not."""
        defined = {item.entry.job_id for item in view.history}
        wrong = [f"{job_id}: its transaction never committed" for job_id in self.abandoned if job_id in defined]
        return wrong + [f"{job_id}: lost behind an open transaction" for job_id in self.behind if job_id not in defined]

    # --- compaction ---

    def compaction(self) -> None:
        """Rebuild all partitions from nothing while the cleaner works on the ledger."""
        at_ms = now_ms()
        self._make_tiny()
        kept = 0

        def cleaned() -> bool:
            nonlocal kept
            kept = len(Archive(self._settings, [Topic.LEDGER]).end()[Topic.LEDGER])
            return kept < self.archive.count(Topic.LEDGER) * 3 // 4

        assert wait_until(cleaned, CLEANED_TIMEOUT_S), f"the ledger's cleaner did nothing: {kept} records are left"
        running = [scheduler for scheduler in self._cluster.schedulers if scheduler.alive]
        for scheduler in running:
            scheduler.kill()
        for scheduler in running:
            shutil.rmtree(scheduler.data_dir)
            scheduler.start()
        self._cluster.wait_whole(*running)
        told = f"rebuilt from {kept} of {self.archive.count(Topic.LEDGER)} records of the ledger"
        self._campaign.note("compaction", at_ms, "all", range(self._cluster.partitions), told)

    def _make_tiny(self) -> None:
        if self._tiny:
            return
        name = topic_name(self._settings, Topic.LEDGER)
        entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in TINY.items()]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        for answer in self._admin.incremental_alter_configs([resource]).values():
            answer.result(REQUEST_TIMEOUT_S)
        self._tiny = True

    # --- retention ---

    def retention(self) -> None:
        """Delete all consumed commands again and again while an owner dies and comes back."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        victim.kill()
        gone = self._delete_consumed()
        victim.start()

        def back() -> bool:
            nonlocal gone
            self._campaign.pause(RETENTION_EVERY_S)
            gone += self._delete_consumed()
            return self._cluster.whole([victim])

        assert wait_until(back, ENDED_TIMEOUT_S), f"{victim.name} owns nothing: {victim.log()[-5:]}"
        gone += self._delete_consumed()
        assert gone, "no command was deleted"
        self._campaign.note("retention", at_ms, victim.name, owned, f"{gone} records of commands deleted")

    def _delete_consumed(self) -> int:
        """Delete what is consumed and archived; return how many offsets that were."""
        name = topic_name(self._settings, Topic.COMMANDS)
        places = [TopicPartition(name, partition) for partition in range(self._cluster.partitions)]
        earliest = {
            place.partition: answer.result(REQUEST_TIMEOUT_S).offset
            for place, answer in self._admin.list_offsets(dict.fromkeys(places, _EARLIEST)).items()
        }
        consumer = Consumer({**self._settings.kafka.client_config(), "group.id": self._settings.scheduler.group_id})
        try:
            committed = consumer.committed(places, timeout=REQUEST_TIMEOUT_S)
        finally:
            consumer.close()
        bounds = {
            place.partition: min(place.offset, self.archive.read_to(Topic.COMMANDS, place.partition))
            for place in committed
        }
        wanted = [TopicPartition(name, p, bound) for p, bound in bounds.items() if bound > earliest[p]]
        if wanted:
            for answer in self._admin.delete_records(wanted).values():
                answer.result(REQUEST_TIMEOUT_S)
        return sum(place.offset - earliest[place.partition] for place in wanted)

    # --- transactions ---

    def open_transaction(self) -> None:
        """Leave a producer's transaction open on an input topic, and let an owner die meanwhile."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        partition = self._campaign.rng.randrange(self._cluster.partitions)
        left, after = self._job_in(partition), self._job_in(partition)
        self._abandon(left, partition)
        self._define(after, partition)
        self.abandoned.append(left)
        self.behind.append(after)
        assert not self._stable(partition), "the transaction is not open"
        victim.kill()
        victim.start()
        self._cluster.wait_whole(victim)
        while_open = not self._stable(partition)
        assert wait_until(lambda: self._stable(partition), ENDED_TIMEOUT_S), "the transaction is still open"
        told = f"on job-definitions-{partition}, {'still' if while_open else 'no longer'} open when the owner was back"
        self._campaign.note("open_transaction", at_ms, victim.name, owned, told)

    def _abandon(self, job_id: str, partition: int) -> None:
        config = self._settings.kafka.client_config()
        own = {"transactional.id": f"abandoned-{job_id}", "transaction.timeout.ms": ABANDONED_MS}
        producer = Producer({**config, **own})
        producer.init_transactions(REQUEST_TIMEOUT_S)
        producer.begin_transaction()
        self._produce(producer, job_id, partition)
        # It ends here with neither commit nor abort, as a killed process does.

    def _define(self, job_id: str, partition: int) -> None:
        self._produce(Producer(self._settings.kafka.client_config()), job_id, partition)

    def _produce(self, producer: Producer, job_id: str, partition: int) -> None:
        definition = Definition(
            job_id=job_id, tenant="team", queue="work", name=job_id, task="roll", schedule=OneOffSpec(now_ms() + 500)
        )
        name = topic_name(self._settings, Topic.JOB_DEFINITIONS)
        producer.produce(name, encode_definition(definition), job_id.encode(), partition)
        assert producer.flush(REQUEST_TIMEOUT_S) == 0

    def _job_in(self, partition: int) -> str:
        while True:
            self._numbers += 1
            job_id = f"from-kafka-{self._numbers}"
            if partition_for(job_id, self._cluster.partitions) == partition:
                return job_id

    def _stable(self, partition: int) -> bool:
        """Whether everything in a partition of job-definitions is decided."""
        place = TopicPartition(topic_name(self._settings, Topic.JOB_DEFINITIONS), partition)
        ends = [
            self._admin.list_offsets({place: _LATEST}, isolation_level=level)[place].result(REQUEST_TIMEOUT_S).offset
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        return bool(ends[0] == ends[1])

    # --- schemas ---

    def schema_versions(self) -> None:
        """Let an owner write the next version of every record, and one of today take over from it."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        victim.stop()
        victim.start(CHAOS_SCHEMA="newer")
        self._cluster.wait_whole(victim)
        self._campaign.pause(NEWER_S)
        victim.kill()
        self._cluster.wait_whole()
        self._restart(victim)
        newer = sum(
            newer_schema.is_newer(record.value)
            for record in Archive(self._settings, [Topic.LEDGER]).end()[Topic.LEDGER]
            if record.timestamp_ms >= at_ms
        )
        assert newer, f"{victim.name} wrote nothing in a next version"
        self._campaign.note("schema_versions", at_ms, victim.name, owned, f"{newer} ledger records of next versions")

    def _restart(self, victim: Scheduler) -> None:
        victim.start()
        self._cluster.wait_whole(victim)


_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # its stub lacks the types
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call] # its stub lacks the types
