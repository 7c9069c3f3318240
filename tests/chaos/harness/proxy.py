"""A link to the broker that can be slow, cut one way, or lose answers. It knows Kafka's framing and nothing else of it.

A `Door` is one listener of the broker seen through a port of its own. What may go through is its `Rule`, which can
change at any time. Frames pass whole, so a fault never tears one; where frames were swallowed, healing closes the
connections, as no TCP connection goes on after bytes of it are gone. Held frames arrive late instead, like segments
that TCP sends again after a split: that is how an isolated owner's last words reach a broker that has moved on.

`Network` runs all doors in one thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

HOST: Final = "127.0.0.1"
FRAMES_QUEUED_MAX: Final = 1_000
"""Of one connection and way; then the sender has to wait, as with a full socket."""

PIECE_BYTES: Final = 2_048
"""Written at once where bandwidth is short."""

CALL_TIMEOUT_S: Final = 30.0

APIS: Final = {
    0: "produce",
    1: "fetch",
    8: "offset_commit",
    11: "join_group",
    12: "heartbeat",
    14: "sync_group",
    22: "init_producer_id",
    24: "add_partitions",
    25: "add_offsets",
    26: "end_transaction",
    28: "transaction_offsets",
}
"""Kafka's numbers of the requests whose answers tests lose."""

TRANSACTION_APIS: Final = ("produce", "add_partitions", "add_offsets", "transaction_offsets", "end_transaction")

Passage = Literal["pass", "hold", "swallow"]


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to frames in one direction."""

    passage: Passage = "pass"
    latency_s: float = 0.0
    bytes_per_s: float = 0.0
    """0: as fast as they come."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a door does now."""

    up: Way = Way()
    """To the broker."""
    down: Way = Way()
    refuse: bool = False
    """Closes every connection, and each new one at once."""
    lose: frozenset[str] = frozenset()
    """APIs whose answers are lost: the next such answer is swallowed and its connection closed."""
    lose_times: int = 0
    """How many in all."""


OPEN: Final = Rule()


class Door:
    """One port in front of one port of the broker. All of it runs in the network's thread."""

    def __init__(self, name: str, port: int, target_port: int) -> None:
        self.name = name
        self.port = port
        self.target_port = target_port
        self.counts: Counter[str] = Counter()
        """What happened: bytes_swallowed, frames_held, frames_delayed, closed, refused, lost_<api>."""
        self._rule = OPEN
        self._changed = asyncio.Event()
        self._lose_left = 0
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where a client connects."""
        return f"{HOST}:{self.port}"

    @property
    def rule(self) -> Rule:
        """What is in force."""
        return self._rule

    def lost(self) -> Counter[str]:
        """Give how many answers were lost, by API."""
        return Counter({api: self.counts[f"lost_{api}"] for api in APIS.values() if self.counts[f"lost_{api}"]})

    async def open(self) -> None:
        """Listen. The broker need not be there yet."""
        self._server = await asyncio.start_server(self._connected, HOST, self.port)

    async def close(self) -> None:
        """Listen no more and drop all connections."""
        if self._server is not None:
            self._server.close()
        self._drop(lambda _: True)

    async def obey(self, rule: Rule) -> None:
        """Change the rule. Connections that lost bytes are closed where those would pass again."""
        self._rule, self._lose_left = rule, rule.lose_times
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if rule.refuse:
            self._drop(lambda _: True)
        elif rule.up.passage != "swallow" or rule.down.passage != "swallow":
            self._drop(lambda connection: connection.torn)

    async def wait_change(self) -> None:
        """Return at the next change of the rule."""
        await self._changed.wait()

    def loses(self, api: str) -> bool:
        """Tell whether this answer is to be lost, and count it."""
        if self._lose_left <= 0 or api not in self._rule.lose:
            return False
        self._lose_left -= 1
        self.counts[f"lost_{api}"] += 1
        return True

    def _drop(self, which: Callable[[_Connection], bool]) -> None:
        for connection in [c for c in self._connections if which(c)]:
            connection.end()
            self.counts["closed"] += 1

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._rule.refuse:
            self.counts["refused"] += 1
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self.target_port)
        except OSError:
            self.counts["broker_absent"] += 1
            writer.transport.abort()
            return
        connection = _Connection(self, writer, far_writer)
        if self._rule.refuse:  # since a moment ago: it was not yet among those that the rule closed
            self.counts["closed"] += 1
            connection.end()
            return
        self._connections.add(connection)
        try:
            await connection.run(reader, far_reader)
        finally:
            self._connections.discard(connection)


class _Connection:
    """Two pumps. Ends when either side does."""

    def __init__(self, door: Door, client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self._door = door
        self._client = client
        self._broker = broker
        self._asked: deque[tuple[bytes, str]] = deque()
        """Correlation ids and APIs of requests under way; answers come in their order."""
        self.torn = False
        """Whether a frame of it was swallowed."""

    def end(self) -> None:
        """Reset both sides."""
        self._client.transport.abort()
        self._broker.transport.abort()

    async def run(self, client: asyncio.StreamReader, broker: asyncio.StreamReader) -> None:
        parts: list[Coroutine[object, object, None]] = []
        for reader, writer, up in ((client, self._broker, True), (broker, self._client, False)):
            queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(FRAMES_QUEUED_MAX)
            parts += [self._read(reader, queue, up=up), self._write(writer, queue, up=up)]
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.end()

    def _way(self, *, up: bool) -> Way:
        return self._door.rule.up if up else self._door.rule.down

    async def _read(self, reader: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]], *, up: bool) -> None:
        clock = asyncio.get_running_loop().time
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(size, "big"))
                if up:
                    api = APIS.get(int.from_bytes(body[:2], "big"), "")
                    self._asked.append((body[4:8], api))
                elif self._answers_lost(body):
                    return
                await queue.put((clock() + self._way(up=up).latency_s, size + body))

    def _answers_lost(self, body: bytes) -> bool:
        while self._asked:
            correlation, api = self._asked.popleft()
            if correlation == body[:4]:
                return self._door.loses(api)
        return False

    async def _write(
        self, writer: asyncio.StreamWriter, queue: asyncio.Queue[tuple[float, bytes]], *, up: bool
    ) -> None:
        counts, clock = self._door.counts, asyncio.get_running_loop().time
        with suppress(OSError):
            while True:
                due, frame = await queue.get()
                if due > clock():
                    counts["frames_delayed"] += 1
                    await asyncio.sleep(due - clock())
                if self._way(up=up).passage == "hold":
                    counts["frames_held"] += 1
                    counts["bytes_held"] += len(frame)
                while self._way(up=up).passage == "hold":
                    await self._door.wait_change()
                if self._way(up=up).passage == "swallow":
                    counts["frames_swallowed"] += 1
                    counts["bytes_swallowed"] += len(frame)
                    self.torn = True
                    continue
                await self._send(writer, frame, up=up)

    async def _send(self, writer: asyncio.StreamWriter, frame: bytes, *, up: bool) -> None:
        bytes_per_s = self._way(up=up).bytes_per_s
        if not bytes_per_s:
            writer.write(frame)
            await writer.drain()
            return
        self._door.counts["frames_slowed"] += 1
        for at in range(0, len(frame), PIECE_BYTES):
            piece = frame[at : at + PIECE_BYTES]
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(len(piece) / bytes_per_s)


class Network:
    """All doors, in a thread of their own. Methods are called from other threads."""

    def __init__(self, doors: list[Door]) -> None:
        self.doors = doors
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for door in self.doors:
            self._call(door.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for door in self.doors:
            self._call(door.close())
        self._call(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()

    def obey(self, door: Door, rule: Rule) -> None:
        """Put a rule in force at a door."""
        self._call(door.obey(rule))

    def _call(self, work: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    async def _settle(self) -> None:
        """Let the connections' tasks end, so that none is destroyed while it waits."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
