"""Faust: what it drops while the group moves on is fetched again; its signals reach the owner, who is waited for."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped] # it ships no types

from schemas.config import load_settings
from schemas.topics import Topic, topic_name
from streams.faust_app import InputPlace, InputProgress, _ReadCommittedThread, connect, make_app

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

AT_7, AT_0, NEVER = (TopicPartition("job-definitions", partition) for partition in range(3))


class FakeConsumer:
    """Committed offsets and positions; seeks to the committed ones by aiokafka's own code."""

    def __init__(self) -> None:
        self.offsets = {AT_7: 7, AT_0: 0, NEVER: None}
        self.positions = {AT_7: 9, AT_0: 2, NEVER: 2}
        """Behind what was fetched and dropped."""
        self._subscription = self
        self._fetcher = self

    def assigned_partitions(self) -> set[TopicPartition]:
        return set(self.offsets)

    async def committed(self, partition: TopicPartition) -> int | None:
        return self.offsets[partition]

    def seek_to(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    seek = seek_to

    async def seek_to_committed(self) -> Any:
        return await AIOKafkaConsumer.seek_to_committed(self)


class Thread(_ReadCommittedThread):
    """The consumer's thread without a thread."""

    def __init__(self, consumer: FakeConsumer) -> None:
        self._fake = consumer

    def _ensure_consumer(self) -> Any:
        return self._fake

    async def call_thread(self, fun: Callable[..., Awaitable[Any]], *args: Any, **_: Any) -> Any:
        return await fun(*args)


async def test_seeking_back_to_what_is_committed_also_works_where_that_is_nothing_or_0() -> None:
    consumer = FakeConsumer()

    offsets = await Thread(consumer).seek_to_committed()

    assert offsets == consumer.offsets
    assert consumer.positions == {AT_7: 7, AT_0: 0, NEVER: 0}


class FakeOwner:
    """Writes down what it is told, once it has had the time that it takes."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def assigned(self, partitions: list[int]) -> None:
        await asyncio.sleep(0)
        self.told.append(sorted(partitions))

    async def revoked(self) -> None:
        await asyncio.sleep(0)
        self.told.append("revoked")

    async def stop(self) -> None:
        await asyncio.sleep(0)
        self.told.append("stopped")


async def test_the_owner_hears_of_assignments_and_has_stopped_when_the_shutdown_goes_on(tmp_path: Path) -> None:
    """A graceful stop sends no revocation: without the hook before it, the transaction in flight would be cut off."""
    settings = load_settings(env={})
    app, owner = make_app(settings, str(tmp_path)), FakeOwner()
    connect(app, settings, lambda: owner)  # type: ignore[arg-type,return-value] # a fake
    gc.collect()  # Faust holds receivers weakly: whoever connects them must keep them

    commands, definitions = topic_name(settings, Topic.COMMANDS), topic_name(settings, Topic.JOB_DEFINITIONS)
    both = {TopicPartition(topic, partition) for topic in (commands, definitions) for partition in (0, 3)}
    await app.on_partitions_assigned.send(both)
    await app.on_partitions_revoked.send(both)
    await app.on_before_shutdown.send()

    assert owner.told == [[0, 3], "revoked", "stopped"]


def progress_of(positions: dict[TopicPartition, int | None]) -> InputProgress:
    """Progress of an app whose consumer has these positions."""

    def state_value(place: TopicPartition) -> Any:
        position = positions[place]
        return SimpleNamespace(has_valid_position=position is not None, position=position)

    assignment = SimpleNamespace(active=True, tps=positions, state_value=state_value)
    inner = SimpleNamespace(_subscription=SimpleNamespace(subscription=SimpleNamespace(assignment=assignment)))
    app = SimpleNamespace(_consumer=SimpleNamespace(_thread=SimpleNamespace(_consumer=inner)), consumer_generation_id=4)
    return InputProgress(app)  # type: ignore[arg-type] # a fake


def test_the_progress_of_an_input_is_told_but_where_its_agent_waits_for_room() -> None:
    commands, definitions = TopicPartition("commands", 1), TopicPartition("definitions", 1)
    progress = progress_of({commands: 9, definitions: None})
    progress.read[commands] = 8
    progress.delivered[commands] = 7
    assert progress.generation == 4
    assert progress.places() == [
        InputPlace("commands", 1, position=9, read=8, delivered=7),
        InputPlace("definitions", 1, position=None, read=None, delivered=None),
    ]
    progress.waiting.add("commands")
    assert [place.topic for place in progress.places()] == ["definitions"]
    progress.waiting.clear()
    progress.forget()
    assert [place.read for place in progress.places()] == [None, None]


async def test_before_the_start_there_is_no_progress_to_judge(tmp_path: Path) -> None:
    app = make_app(load_settings(env={}), str(tmp_path))
    assert InputProgress(app).places() == []
