"""The broker's clock, as an owner can know it. Pure: every time is an argument.

Due times are judged by the clock that stamps the log (DESIGN section 6, "Time"), so that two owners with
wrong clocks agree, and nobody can call a run early. The owner learns that clock from its own records: a
record stamped `log_append_ms` and acknowledged at `acked_monotonic_ms` of the local monotonic clock shows
that, at that local instant, the broker's clock had reached at least `log_append_ms`. The difference of the
two is therefore a *lower bound* of the offset (broker minus monotonic), too low by the time that the
acknowledgement took. The best bound is the highest; `now_ms` never runs ahead of the broker, and is behind
it by the fastest acknowledgement of late.

**Drift.** Two clocks may part by up to `DRIFT_MAX_PPM`. A bound loses that much with its age, so an old one
stays a lower bound however the clocks drifted since, and gives way to newer ones. Bounds older than
`WINDOW_MS` are forgotten, the newest excepted: it is the only thing known in a quiet partition.

**The broker's clock is set forward:** the next sample shows it, and is followed at once.

**It is set back:** nothing in a lower bound can show that, so three other things do.
1. A sample that is stamped earlier than the one before it by more than `JITTER_MS`, although it was
   appended later.
2. A sample that gives `sent_monotonic_ms`: the broker's clock, at the local instant of sending, had not
   passed `log_append_ms`. If the estimate says that it had, the estimate is void. This finds any step that
   is longer than the round trip.
3. If both see nothing (a small step without `sent_monotonic_ms`): the window, after two minutes.
In the first two cases all older bounds are dropped and the new sample counts alone.

**Another broker leads the partition:** that is a step of the clock, forward or back, and the first record that the new
leader stamps shows it by the same rules; nobody needs to be told of the change. Until then an owner may
judge by the old leader's clock, for the time of one transaction; a run that it opens too early by the new one is
held by the gateway until its due time, since the record of its grant bears the new leader's stamp.

**What callers see** (`now_ms`): a clock that does not go back, with one exception. When the estimate falls
behind what was said before by at most `HOLD_MAX_MS`, the clock stands still until the estimate has caught
up, which takes no longer than that, and no instant is reached that the broker had not reached. When it
falls by more, the clock goes back to the estimate: an owner must not be frozen for two hours because
somebody corrected a clock. Nothing runs twice from that, for what was opened is in the ledger. Deadlines
that lie between the two are future again, and `steps_back` rises, for the owner to rewind its wheel.
"""

from __future__ import annotations

import math
from typing import Final

DRIFT_MAX_PPM: Final = 1_000
"""Two machines, each of them slewed by the kernel at its usual limit of 500 ppm, in opposite directions."""
WINDOW_MS: Final = 120_000
"""How long a bound counts. Twelve of the records that an idle partition writes."""
BUCKET_MS: Final = 10_000
"""One bound is kept for each, so memory does not depend on the rate of samples."""
HOLD_MAX_MS: Final = 1_000
"""A step back up to this stops the clock; a longer one turns it."""
JITTER_MS: Final = 1
"""Stamps are whole milliseconds and a broker's threads may take them out of order by one."""

_DRIFT: Final = DRIFT_MAX_PPM / 1e6


class ClockNotReadyError(Exception):
    """No sample yet, since the start: nothing may be judged due."""


class BrokerClock:
    """A lower bound of one partition leader's clock. Times are milliseconds; monotonic ones are floats."""

    def __init__(self) -> None:
        #: Bounds by bucket number, oldest first: the offset as it would be at monotonic time 0 if the
        #: clocks had parted as fast as they may; so that bounds of different age compare as they are.
        self._bounds: dict[int, float] = {}
        self._best: float | None = None
        self._stamped_ms: int | None = None
        self._said_ms: int | None = None
        self._steps_back = 0
        self._last_reset: str | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a sample to judge by."""
        return self._best is not None

    @property
    def steps_back(self) -> int:
        """How often `now_ms` went back. A change tells the owner to rewind its wheel."""
        return self._steps_back

    @property
    def last_reset(self) -> str | None:
        """Why the bounds were last dropped, for the log."""
        return self._last_reset

    def sample(self, log_append_ms: int, acked_monotonic_ms: float, sent_monotonic_ms: float | None = None) -> None:
        """Learn from one own record: its LogAppendTime, and the local instants of its way there and back.

        Samples come in the order of their offsets. `sent_monotonic_ms` must not be later than the moment at
        which the record was handed to the client; leave it out rather than guess.
        """
        if self._is_set_back(log_append_ms, sent_monotonic_ms):
            self.reset("broker clock set back")
        self._stamped_ms = log_append_ms
        bound = log_append_ms - acked_monotonic_ms + _DRIFT * acked_monotonic_ms
        bucket = math.floor(acked_monotonic_ms / BUCKET_MS)
        known = self._bounds.get(bucket)
        if known is None:
            oldest = bucket - WINDOW_MS // BUCKET_MS
            self._bounds = {number: kept for number, kept in self._bounds.items() if number > oldest}
            self._bounds[bucket] = bound
            self._best = max(self._bounds.values())
        elif bound > known:
            self._bounds[bucket] = bound
            self._best = bound if self._best is None else max(self._best, bound)

    def reset(self, reason: str) -> None:
        """Forget all bounds. Not ready until the next sample."""
        self._bounds.clear()
        self._best = None
        self._stamped_ms = None
        self._last_reset = reason

    def now_ms(self, monotonic_ms: float) -> int:
        """Give the latest broker time that has surely been reached. Raises ClockNotReadyError.

        Goes back only as the module's rule says, and then raises `steps_back` by one.
        """
        estimate = math.floor(self._estimate(monotonic_ms))
        said = self._said_ms
        if said is not None and estimate < said:
            if said - estimate <= HOLD_MAX_MS:
                return said
            self._steps_back += 1
        self._said_ms = estimate
        return estimate

    def skew_ms(self, wall_ms: float, monotonic_ms: float) -> float:
        """Give local wall clock minus broker's clock at `monotonic_ms`; too high by the latency at most.

        Raises ClockNotReadyError.
        """
        return wall_ms - self._estimate(monotonic_ms)

    def _estimate(self, monotonic_ms: float) -> float:
        if self._best is None:
            raise ClockNotReadyError(self._last_reset or "no sample yet")
        return monotonic_ms + self._best - _DRIFT * monotonic_ms

    def _is_set_back(self, log_append_ms: int, sent_monotonic_ms: float | None) -> bool:
        if self._stamped_ms is not None and log_append_ms < self._stamped_ms - JITTER_MS:
            return True
        if sent_monotonic_ms is None or self._best is None:
            return False
        # The stamp is cut to whole milliseconds: the clock was below the next one.
        return self._estimate(sent_monotonic_ms) >= log_append_ms + 1


class BrokerClocks:
    """One clock for each partition of an owner, dropped and made anew as assignments change."""

    def __init__(self) -> None:
        self._clocks: dict[int, BrokerClock] = {}

    def of(self, partition: int) -> BrokerClock:
        """Give the partition's clock; a new one if there is none."""
        return self._clocks.setdefault(partition, BrokerClock())

    def drop(self, partition: int) -> None:
        """Forget a partition that was given up."""
        self._clocks.pop(partition, None)
