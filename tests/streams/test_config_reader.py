"""The reader of topic `config` on a real Kafka: whole before anything, then on and on, and to the end when asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from schemas.config import Settings, load_settings
from schemas.topics import Topic, topic_name
from streams.config_reader import ConfigHeard, ConfigReader, ConfigUnreadableError
from streams.core.calendar_records import CalendarRecord, calendar_key, encode_calendar
from streams.core.time import INSTALLED_ZONE_DATA
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S = 60.0


class Heard:
    """What the reader's thread has told."""

    def __init__(self) -> None:
        self._last: ConfigHeard | None = None
        self._changed = threading.Condition()

    def __call__(self, heard: ConfigHeard) -> None:
        with self._changed:
            self._last = heard
            self._changed.notify_all()

    def until(self, holds: Callable[[ConfigHeard], bool]) -> ConfigHeard:
        with self._changed:
            assert self._changed.wait_for(lambda: self._last is not None and holds(self._last), WAIT_S)
            assert self._last is not None
            return self._last


@pytest.fixture
def settings(kafka: Any, namespace: str) -> Settings:
    overrides = {
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace},
        "topics": {"partitions": 1},
    }
    made = load_settings(env={}, overrides=overrides)
    create_topics(made)
    return made


@pytest.fixture
def write(settings: Settings) -> Iterator[Callable[[str, bytes | None], None]]:
    producer = Producer(settings.kafka.client_config())

    def put(key: str, value: bytes | None) -> None:
        producer.produce(topic_name(settings, Topic.CONFIG), value, key=key, partition=0)
        assert producer.flush(WAIT_S) == 0

    yield put
    producer.flush(WAIT_S)


def calendar(name: str, *dates: str) -> tuple[str, bytes]:
    return calendar_key("a", name), encode_calendar(CalendarRecord(tenant="a", name=name, dates=dates))


def test_it_reads_the_topic_whole_and_follows_it(settings: Settings, write: Callable[..., None]) -> None:
    write("queue|a|q", b"junk")
    write(*calendar("one", "2027-01-01"))
    heard = Heard()
    reader = ConfigReader(settings, settings.kafka.client_config(), INSTALLED_ZONE_DATA, heard)
    try:
        first = reader.read_whole(WAIT_S)
        assert (list(first.calendars.of("a")), first.next_offset, first.looked) == (["one"], 2, 0)

        reader.start()
        write(*calendar("two"))
        assert sorted(heard.until(lambda heard: heard.next_offset == 3).calendars.of("a")) == ["one", "two"]
        write(calendar("one")[0], None)
        assert list(heard.until(lambda heard: heard.next_offset == 4).calendars.of("a")) == ["two"]

        write(*calendar("three"))
        reader.look(1)
        looked = heard.until(lambda heard: heard.looked == 1)
        assert looked.next_offset == 5
        assert sorted(looked.calendars.of("a")) == ["three", "two"]
        reader.look(2)  # nothing new: the end alone is an answer
        assert heard.until(lambda heard: heard.looked == 2).next_offset == 5
    finally:
        reader.stop()


def test_an_empty_topic_is_read_at_once(settings: Settings) -> None:
    reader = ConfigReader(settings, settings.kafka.client_config(), INSTALLED_ZONE_DATA, Heard())
    try:
        assert reader.read_whole(WAIT_S).next_offset == 0
    finally:
        reader.stop()


def test_a_topic_that_cannot_be_read_is_an_error_in_bounded_time(settings: Settings) -> None:
    client = settings.kafka.client_config() | {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
    reader = ConfigReader(settings, client, INSTALLED_ZONE_DATA, Heard())
    try:
        with pytest.raises(ConfigUnreadableError, match="could not be read"):
            reader.read_whole(0.1)
    finally:
        reader.stop()
