"""What the watch over stalls looks at in a scheduler: the way of its inputs, and its producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.stalls import input_readings, producer_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streams.faust_app import InputProgress
    from streams.ledger_log import KafkaLedgerLog
    from streams.stalls import Reading


class SchedulerFacts:
    """Readings of one scheduler process; asks the broker, in the watch's thread."""

    def __init__(
        self,
        log: KafkaLedgerLog,
        inputs: InputProgress,
        transactions: Callable[[], tuple[int, int]],
        replies: Callable[[], tuple[int, int]],
    ) -> None:
        """`transactions` and `replies`: how many came through, and how many should have."""
        self._log = log
        self._inputs = inputs
        self._transactions = transactions
        self._replies = replies

    def readings(self) -> Iterable[Reading]:
        """Look around. The ends come first: what is behind them by then was there to be read."""
        generation = self._inputs.generation
        ends = self._log.stable_ends((place.topic, place.partition) for place in self._inputs.places())
        for place in self._inputs.places():
            topic, partition, position, read, delivered = place
            end = ends.get((topic, partition))
            if end is not None:
                yield from input_readings(
                    f"{topic}-{partition}",
                    end=end,
                    position=position,
                    read=read,
                    delivered=delivered,
                    generation=generation,
                )
        # Too few copies in sync are the brokers' trouble, and a new process would meet the same.
        if self._log.takes_writes():
            yield producer_reading("transactions", *self._transactions())
            yield producer_reading("replies", *self._replies())
