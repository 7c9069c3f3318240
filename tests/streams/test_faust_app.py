"""Faust's part: what is fetched while the group moves on, and dropped by Faust, is fetched again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped] # it ships no types

from streams.faust_app import _ReadCommittedThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
