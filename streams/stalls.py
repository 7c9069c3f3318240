"""Ends the process when something in it stands still that should move: an agent, the consumer, a producer.

The loop's own watchdog (`streams.watchdog`) sees a loop that hangs. This one sees what leaves the loop turning and the
process useless: an agent of Faust that died or waits for ever, a consumer that fetches no more while its topic grows
(both have been reported of Faust and aiokafka after trouble with brokers: facts B6), a producer of which nothing comes
back. Each is a reading: how far something is, and how far it should come. One that does not move within its bound,
although it should and the broker answers, ends the process with the reason; others take the partitions, and a
supervisor starts a fresh one. While the broker does not answer nothing is judged.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from confluent_kafka import KafkaException

from streams.watchdog import end_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOOK_MS: Final = 3_000
"""Between two looks; each costs the broker two small requests."""

INPUT_BOUND_MS: Final = 30_000
"""Of agents and the consumer: five times the session and the rebalance time-out, so that no ordinary change of the
group, and no restart of a broker, comes near it."""

PRODUCER_BOUND_MS: Final = 60_000
"""Of producers: a transaction of a dead broker takes its time-outs (some 20 s), and then the producer is renewed."""

FROZEN_LOOKS: Final = 3
"""So many times later than planned, and this process itself did not run, or the broker did not answer: begin anew."""


class Reading(NamedTuple):
    """Something that should move while `done` is below `wanted`."""

    name: str
    done: int
    wanted: int
    bound_ms: int


class Facts(Protocol):
    """Where the readings come from. Called in the watch's own thread."""

    def readings(self) -> Iterable[Reading]:
        """Ask the broker and look around; raises KafkaException where the broker does not answer."""
        ...


class Stalls:
    """Judges readings. Pure but for the memory of what it saw."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}
        self._looked_at_ms: float | None = None

    def look(self, now_ms: float, readings: Iterable[Reading]) -> str | None:
        """Return why the process should end; None where everything moves or need not."""
        looked_at_ms, self._looked_at_ms = self._looked_at_ms, now_ms
        if looked_at_ms is not None and now_ms - looked_at_ms > FROZEN_LOOKS * LOOK_MS:
            self._since = {}
        since: dict[str, tuple[int, float]] = {}
        reason: str | None = None
        for name, done, wanted, bound_ms in readings:
            if done >= wanted:
                continue
            before, from_ms = self._since.get(name, (done, now_ms))
            since[name] = (done, from_ms if before == done else now_ms)
            still_ms = now_ms - since[name][1]
            if still_ms > bound_ms:
                reason = f"{name} has stood at {done} of {wanted} for {still_ms:.0f} ms (bound {bound_ms} ms)"
        self._since = since
        return reason

    def forget(self) -> None:
        """Begin anew: nothing can be judged."""
        self._since = {}


class StallWatch:
    """Looks every LOOK_MS in a thread of its own."""

    def __init__(
        self,
        facts: Facts,
        *,
        stalled: Callable[[str], None],
        end: Callable[[str], None] = end_process,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1000.0,
    ) -> None:
        """`stalled` is told the reason before the end."""
        self._facts = facts
        self._stalled = stalled
        self._end = end
        self._monotonic_ms = monotonic_ms
        self._stalls = Stalls()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="horolog-stalls", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def look(self) -> bool:
        """Judge once; False after the end was called for."""
        try:
            readings = [*self._facts.readings()]
        except KafkaException:
            self._stalls.forget()
            return True
        reason = self._stalls.look(self._monotonic_ms(), readings)
        if reason is None or self._stopping.is_set():
            return True
        self._stalled(reason)
        self._end(f"horologd: {reason}; ending the process so that its partitions move to one that works")
        return False

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_MS / 1000):
            if not self.look():
                return


def producer_reading(name: str, acknowledged: int, wanted: int) -> Reading:
    """Return the reading of a producer: something of what it was given must come back."""
    return Reading(f"the producer of {name}", acknowledged, wanted, PRODUCER_BOUND_MS)


def input_readings(
    place: str, *, end: int, position: int | None, read: int | None, delivered: int | None, generation: int
) -> Iterable[Reading]:
    """Return the readings of one input partition, along the way of its records.

    `end`: the broker's stable end. `position`: the consumer's next fetch. `read`: the last offset that Faust handed to
    the agent, `delivered`: that which the agent handed on.
    """
    yield Reading(f"the consumer of {place} (generation {generation})", position or 0, end, INPUT_BOUND_MS)
    if read is not None:
        done = -1 if delivered is None else delivered
        yield Reading(f"the agent of {place} (generation {generation})", done, read, INPUT_BOUND_MS)
