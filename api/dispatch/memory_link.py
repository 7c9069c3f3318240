"""A link without Kafka: what was sent lies in lists, and what should be heard is said by hand.

For tests, and for the simulator: `on_send` sees each batch as it is "appended", in order, and may answer at once or
later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from api.dispatch.link import ConfigRecord
from streams.core.envelopes import OwnerView
from streams.core.wire import decode_commands, encode_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from api.dispatch.clock import Clock
    from api.dispatch.link import ConfigDone, LinkListener, SendDone, SendFailure, TimedReplies
    from streams.core.commands import AnyCommand
    from streams.core.envelopes import CommandBatch, Demand, Offers


class MemoryLink:
    """Records what a gateway sends; `say_*` delivers to it."""

    def __init__(self, clock: Clock, partitions: int) -> None:
        self.clock = clock
        self.partitions = partitions
        self.listener: LinkListener | None = None
        self.sent: list[tuple[int, CommandBatch]] = []
        self.demands: list[Demand] = []
        self.on_send: Callable[[int, CommandBatch], None] | None = None
        self.on_demand: Callable[[Demand], None] | None = None
        self.failure: SendFailure | None = None
        """While set, sends end with it and nothing is recorded."""
        self.owned_at_start: Iterable[int] = range(partitions)
        """Partitions that have an owner when the gateway starts."""
        self.config_end = 0
        """The offset of the next record of `config`."""
        self.on_config: Callable[[Sequence[ConfigRecord]], None] | None = None
        """Hears them beside the gateway."""
        self._healthy = True
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def healthy(self) -> bool:
        """See Link."""
        return self._healthy

    @property
    def commands(self) -> list[AnyCommand]:
        """All commands sent so far."""
        return [command for _, batch in self.sent for command in batch.commands]

    async def start(self, listener: LinkListener) -> None:
        """See Link."""
        self.listener = listener
        self.say_owners(dict.fromkeys(self.owned_at_start, "http://127.0.0.1:6066"))

    def send(self, partition: int, batch: CommandBatch, done: SendDone) -> None:
        """See Link. The batch is acknowledged before `on_send` sees it."""
        if self.failure is not None:
            done(None, self.failure)
            return
        batch = decode_commands(encode_commands(batch))  # as the log would have it
        self.sent.append((partition, batch))
        done(self.clock.wall_ms(), None)
        if self.on_send is not None:
            self.on_send(partition, batch)
        self._wake()

    def publish_demand(self, demand: Demand) -> None:
        """See Link."""
        self.demands.append(demand)
        if self.on_demand is not None:
            self.on_demand(demand)
        self._wake()

    def write_config(self, key: str, value: bytes | None, done: ConfigDone) -> None:
        """See Link. It is heard at once."""
        if self.failure is not None:
            done(None, self.failure)
            return
        record = ConfigRecord(key, value, self.config_end)
        self.config_end += 1
        for hear in (self._heard_by.on_config, self.on_config):
            if hear is not None:
                hear([record])
        done(record.offset, None)

    async def stop(self) -> None:
        """See Link."""
        self._healthy = False

    async def until(self, holds: Callable[[], bool], *, timeout_s: float = 20) -> None:
        """Wait until a condition holds; it is looked at whenever the gateway sends something. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not holds():
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(waiting)
                await waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def say_offers(self, *offers: Offers) -> None:
        """Let the gateway hear offers."""
        self._heard_by.on_offers(offers)

    def say_replies(self, *replies: TimedReplies) -> None:
        """Let the gateway hear committed replies."""
        self._heard_by.on_replies(replies)

    def say_owners(self, urls: dict[int, str | None]) -> None:
        """Let the gateway hear who owns what: partition to query URL, None for no owner."""
        self._heard_by.on_owners([(partition, _view(partition, url)) for partition, url in urls.items()])

    @property
    def _heard_by(self) -> LinkListener:
        if self.listener is None:
            raise RuntimeError("the gateway has not started this link")
        return self.listener


def _view(partition: int, url: str | None) -> OwnerView | None:
    if url is None:
        return None
    return OwnerView(
        partition=partition,
        generation=1,
        member_id="memory",
        transactional_id=f"of {url}",
        query_url=url,
        since_ms=0,
    )
