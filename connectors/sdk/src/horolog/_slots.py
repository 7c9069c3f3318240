"""Which queue may use a worker's free slots. Decides only; requests are sent by `_leaser`.

A slot is promised to a lease request before that goes out, so a worker never holds more runs than it can start. Queues
share what is promised evenly. A request that waits on an empty queue holds its slots idle, so:

- A queue is *hungry* when its last request brought as many runs as it asked for, and none has waited for
  `LISTEN_SECONDS` since. A queue with no request out *lacks*.
- A queue that lacks while no slot is free has another queue's idle request called back: a hungry queue after
  `LISTEN_SECONDS` of its waiting, another one after `TURN_SECONDS`.
- While some queue is hungry, the others only *look*: one slot, `LISTEN_SECONDS`, then a rest; a tenth of the slots
  (at least one) may be out on looks.
- Who lacks longest comes first, and those who have a request out come last.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horolog._clock import Clock, wait_event

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS_MAX = 1_000  # docs/http-api.md section 4: of one request
LISTEN_SECONDS = 0.5  # a gateway needs 0.3 s for one turn of demand, offer and grant; what waits longer found nothing
TURN_SECONDS = 1.0  # with fewer slots than idle queues, these take turns; shorter turns cost more calls
REST_SECONDS = 2.0  # between two looks: with two slots, looks take about an eighth of them
_LOOKS_SHARE = 10  # one slot in so many may be out on looks at a time


@dataclass(eq=False)
class Ask:
    """One lease request: how many slots it holds, how long it may wait, since when; and whether it is called back."""

    count: int
    wait_seconds: float
    since: float
    is_look: bool = False
    called_back: bool = False
    polling: asyncio.Future[Any] | None = None

    def call_back(self) -> None:
        """Stop waiting: the request is to be repeated without a wait, for what was granted already."""
        self.called_back = True
        if self.polling is not None:
            self.polling.cancel()


@dataclass(eq=False)
class Line:
    """What is known of one queue."""

    asks: list[Ask] = field(default_factory=list)
    full: bool = False
    turn: int = 0
    rests_until: float = 0.0

    def is_hungry(self, now: float) -> bool:
        """Whether its queue has more work than slots, as far as can be told."""
        return self.full and all(now - ask.since < LISTEN_SECONDS for ask in self.asks)

    @property
    def held(self) -> int:
        """Slots promised to its requests."""
        return sum(ask.count for ask in self.asks)


class Slots:
    """The worker's slots, shared by its queues."""

    def __init__(
        self, total: int, *, busy: Callable[[], int], blocked: Callable[[], bool], clock: Clock, poll_seconds: float
    ) -> None:
        self._total = total
        self._busy = busy
        self._blocked = blocked
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._lines: list[Line] = []
        self._turns = itertools.count(1)
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        """Slots that are neither in use nor promised."""
        return self._total - self._busy() - sum(line.held for line in self._lines)

    def line(self) -> Line:
        """Add a queue."""
        line = Line()
        self._lines.append(line)
        return line

    def freed(self) -> None:
        """Tell waiters that a slot may be free."""
        self._changed.set()

    def take(self, line: Line) -> Ask | None:
        """Promise slots to a request of this queue; None if it may have none now."""
        free = self.free
        if free <= 0 or self._blocked():
            return None
        now = self._clock.monotonic()
        rivals = [other for other in self._lines if other is not line and not other.asks and self._may_ask(other, now)]
        is_look = self._only_looks(line, now)
        if is_look:
            count = self._look(line, rivals, now)
        else:
            share = -(-self._total // len(self._lines))
            count = min(_part(line, free, rivals), share - line.held, RUNS_MAX)
        if count <= 0:
            if rivals:
                self._changed.set()  # they come first, and may be asleep
            return None
        wait_seconds = LISTEN_SECONDS if is_look else TURN_SECONDS if rivals else self._poll_seconds
        ask = Ask(count, min(wait_seconds, self._poll_seconds), now, is_look=is_look)
        line.asks.append(ask)
        line.turn = next(self._turns)
        if rivals:
            self._changed.set()  # what is left is theirs
        return ask

    def put(self, line: Line, ask: Ask, runs: int) -> None:
        """Take back the slots of a request that has ended with so many runs."""
        line.asks.remove(ask)
        line.full = runs >= ask.count
        if not runs:
            line.rests_until = self._clock.monotonic() + REST_SECONDS
        self._changed.set()

    async def wait(self, line: Line) -> None:
        """Wait until `take` might answer otherwise; where the rules allow it, call back an idle request meanwhile."""
        now = self._clock.monotonic()
        self._changed.clear()
        self._call_back_for(line, now)
        alone = line.asks or len(self._lines) == 1
        moments = [] if alone else [moment for moment in self._moments(line) if moment > now]
        if moments:
            await wait_event(self._clock, self._changed, min(moments) - now)
        else:
            await self._changed.wait()

    def _only_looks(self, line: Line, now: float) -> bool:
        return not line.is_hungry(now) and any(other.is_hungry(now) for other in self._lines if other is not line)

    def _may_ask(self, line: Line, now: float) -> bool:
        """Whether a queue that lacks may send a request now, were there a slot."""
        if not self._only_looks(line, now):
            return True
        out = sum(ask.is_look for other in self._lines for ask in other.asks)
        return now >= line.rests_until and out < max(1, self._total // _LOOKS_SHARE)

    def _look(self, line: Line, rivals: list[Line], now: float) -> int:
        earlier = any(self._only_looks(other, now) and other.turn < line.turn for other in rivals)
        return int(not line.asks and not earlier and self._may_ask(line, now))

    def _call_back_for(self, line: Line, now: float) -> None:
        if line.asks or self.free > 0 or self._blocked() or self._only_looks(line, now):
            return
        asks = [(other, ask) for other in self._lines if other is not line for ask in other.asks]
        if any(ask.called_back for _, ask in asks):
            return  # one at a time: its slots may be enough
        patience = LISTEN_SECONDS if line.is_hungry(now) else TURN_SECONDS
        idle = [ask for other, ask in asks if now - ask.since >= patience and not other.is_hungry(now)]
        if idle:
            max(idle, key=lambda ask: ask.count).call_back()

    def _moments(self, line: Line) -> list[float]:
        """Instants at which time alone changes what the rules say."""
        since = [ask.since for other in self._lines for ask in other.asks]
        return [line.rests_until, *(at + LISTEN_SECONDS for at in since), *(at + TURN_SECONDS for at in since)]


def _part(line: Line, free: int, rivals: list[Line]) -> int:
    """Give how many of the free slots a queue may take, when each of the rivals is to get one at the least."""
    if line.asks:
        return free - len(rivals)
    earlier = sum(other.turn < line.turn for other in rivals)
    return min(-(-free // (1 + len(rivals))), free - earlier)
