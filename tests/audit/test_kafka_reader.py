"""A view of a real Kafka holds what a read_committed consumer sees, and counts what it does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from schemas.config import load_settings
from schemas.topics import Topic, topic_name
from streams.audit.checker import check
from streams.audit.kafka_reader import read_run
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from schemas.config import Settings
    from streams.audit.log_view import LogView


@pytest.fixture
def settings(kafka: Any, namespace: str) -> Settings:
    overrides = {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace}
    settings = load_settings(None, {}, {"kafka": overrides, "topics": {"partitions": 2}})
    create_topics(settings)
    return settings


def write(settings: Settings, view: LogView, producer: Producer) -> None:
    for topic in ("commands", "ledger", "history", "leases", "replies"):
        for record in view.records(topic):
            producer.produce(
                topic_name(settings, Topic(topic)),
                record.value,
                record.key,
                record.partition,
                headers=list(record.headers),
            )
    producer.flush(30)


def producer_of(settings: Settings, transactional_id: str) -> Producer:
    producer = Producer({**settings.kafka.client_config(), "transactional.id": transactional_id})
    producer.init_transactions(30)
    return producer


def test_a_committed_run_is_read_whole_and_an_aborted_one_stays_hidden(settings: Settings, script: Any) -> None:
    written = script.log.view()
    producer = producer_of(settings, "audit-test")
    producer.begin_transaction()
    write(settings, written, producer)
    producer.abort_transaction(30)
    producer.begin_transaction()
    write(settings, written, producer)
    producer.commit_transaction(30)

    reading = read_run(settings)

    read = reading.view
    assert [item.entry for item in read.history] == [item.entry for item in written.history]
    assert [item.batch for item in read.commands] == [item.batch for item in written.commands]
    assert {job_id: state for job_id, (_, state) in read.states.items()} == {
        job_id: state for job_id, (_, state) in written.states.items()
    }
    assert reading.hidden == {
        topic: len(written.records(topic)) for topic in ("ledger", "history", "leases", "replies")
    }
    assert read.committed == {0: 0, 1: 0}


def test_the_checker_reads_a_real_log(settings: Settings, script: Any) -> None:
    producer = producer_of(settings, "audit-test-2")
    producer.begin_transaction()
    write(settings, script.log.view(), producer)
    producer.commit_transaction(30)

    report = check(read_run(settings).view, script.journals, script.all_faults)

    by_name = {row.invariant: row for row in report.judged}
    assert by_name["I6"].items > 100
    assert report.of("I3") == report.of("I4") == report.of("I6") == report.of("I11") == ()


def test_empty_topics_are_an_empty_view(settings: Settings) -> None:
    reading = read_run(settings)

    assert reading.view.history == []
    assert not check(reading.view).ok
