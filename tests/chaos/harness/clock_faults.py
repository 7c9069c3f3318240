"""Wall clocks of schedulers that step by an hour, either way, or drift; of one process, or of all of them together.

If all schedulers are off by the same hour, it is the broker that is apart, for them. A broker that is an hour apart
from everything for a whole run is `tests.chaos.run --broker-off`.

What must hold: nothing early, lost or twice (the checker), and a skew of over a second is told (`clock_skewed`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from streams.kafka_dev import wait_until
from tests.chaos.harness.cluster import now_ms
from tests.chaos.harness.healing import metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.chaos.harness.campaign import Campaign
    from tests.chaos.harness.clock import Clocks, SettableClock
    from tests.chaos.harness.cluster import Scheduler
    from tests.chaos.harness.healing import Healing

HOUR_S: Final = 3_600.0
OFF_S: Final = (4.0, 12.0)
"""How long a clock is wrong."""

RATES: Final = (-0.4, -0.2, 0.2, 0.4)
"""Seconds in each second; far beyond any clock, so that the bound of a second is passed in a few."""

ALERT_S: Final = 1.0
"""scheduler.clock_skew_alert_ms."""

ALERT_TIMEOUT_S: Final = 30.0
TOLERANCE_S: Final = 5.0
"""Of the reported skew: a sample is as old as the last commit."""


class ClockFaults:
    """The kinds of this family."""

    def __init__(
        self, campaign: Campaign, healing: Healing, clocks: Clocks, *, off_s: tuple[float, float] = OFF_S
    ) -> None:
        self._campaign = campaign
        self._healing = healing
        self._clocks = clocks
        self._off_s = off_s
        self.kinds: dict[str, Callable[[], None]] = {
            "clock_forward": lambda: self._step("clock_forward", HOUR_S),
            "clock_back": lambda: self._step("clock_back", -HOUR_S),
            "clock_drift": self._drift,
            "clocks_forward": lambda: self._step("clocks_forward", HOUR_S, everybody=True),
            "clocks_back": lambda: self._step("clocks_back", -HOUR_S, everybody=True),
        }

    def _step(self, kind: str, offset_s: float, *, everybody: bool = False) -> None:
        victims = self._victims(everybody=everybody)
        seconds = self._campaign.rng.uniform(*self._off_s)
        self._off(
            kind,
            victims,
            seconds,
            lambda clock: clock.step(offset_s),
            lambda skew_s: abs(skew_s - offset_s) < TOLERANCE_S,
        )

    def _drift(self) -> None:
        victims = self._victims(everybody=False)
        rate, seconds = self._campaign.rng.choice(RATES), self._campaign.rng.uniform(*self._off_s)
        self._off(
            "clock_drift",
            victims,
            seconds,
            lambda clock: clock.drift(rate),
            lambda skew_s: skew_s * math.copysign(1.0, rate) > ALERT_S,
        )

    def _victims(self, *, everybody: bool) -> list[Scheduler]:
        campaign = self._campaign
        chosen = campaign.an_owner()
        return [s for s in campaign.cluster.schedulers if s.alive] if everybody else [chosen]

    def _off(
        self,
        kind: str,
        victims: Sequence[Scheduler],
        seconds: float,
        disturb: Callable[[SettableClock], None],
        is_off: Callable[[float], bool],
    ) -> None:
        campaign, at_ms = self._campaign, now_ms()
        running = [scheduler for scheduler in campaign.cluster.schedulers if scheduler.alive]
        owned = frozenset(partition for victim in victims for partition in victim.owned())
        alerts = {victim: _alerts(victim) for victim in victims}

        def told() -> bool:
            skews = [metric(victim, "horolog_clock_skew_seconds") or 0.0 for victim in victims if victim.owned()]
            return bool(skews) and all(is_off(skew) for skew in skews)

        for victim in victims:
            disturb(self._clocks.of(victim.name))
        campaign.pause(seconds)
        bitten = wait_until(told, ALERT_TIMEOUT_S)
        alerted = wait_until(
            lambda: all(_alerts(victim) > alerts[victim] for victim in victims if victim.owned()), ALERT_TIMEOUT_S
        )
        skews = {victim.name: metric(victim, "horolog_clock_skew_seconds") for victim in victims}
        for victim in victims:
            self._clocks.of(victim.name).step(0.0)
        assert bitten, f"{kind}: the clocks of {[v.name for v in victims]} did not move: {skews}"
        assert alerted, f"{kind}: skews {skews}, and no alert"
        self._healing.wait(running)
        names = ",".join(victim.name for victim in victims)
        told_s = ", ".join(f"{name} {skew or 0.0:+.1f} s" for name, skew in skews.items())
        campaign.note(kind, at_ms, names, owned, f"{seconds:.1f} s, skew told: {told_s}")


def _alerts(scheduler: Scheduler) -> int:
    return sum(line.get("event") == "clock_skewed" for line in scheduler.log())
