"""A broker that is killed, stopped or away. Our cluster has one node, so all brokers are gone at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.chaos.harness.cluster import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.broker import Broker
    from tests.chaos.harness.campaign import Campaign
    from tests.chaos.harness.healing import Healing

GONE_S: Final = (30.0, 120.0)
"""How long all brokers are away."""


class BrokerFaults:
    """The kinds of this family."""

    def __init__(
        self, campaign: Campaign, broker: Broker, healing: Healing, *, gone_s: tuple[float, float] = GONE_S
    ) -> None:
        self._campaign = campaign
        self._broker = broker
        self._healing = healing
        self._gone_s = gone_s
        self.kinds: dict[str, Callable[[], None]] = {
            "broker_kill": lambda: self._down("broker_kill", broker.kill, 0.0),
            "broker_stop": lambda: self._down("broker_stop", broker.stop, 0.0),
            "broker_gone": lambda: self._down(
                "broker_gone",
                campaign.rng.choice((broker.kill, broker.stop)),
                campaign.rng.uniform(*self._gone_s),
            ),
        }

    def _down(self, kind: str, end: Callable[[], None], away_s: float) -> None:
        campaign, broker = self._campaign, self._broker
        campaign.an_owner()
        running = [scheduler for scheduler in campaign.cluster.schedulers if scheduler.alive]
        before, at_ms = broker.pid, now_ms()
        knocks = sum(door.counts["broker_absent"] for door in broker.doors)
        end()
        assert broker.pid is None, f"the broker outlived {kind}"
        campaign.pause(away_s)
        broker.start()
        away_ms = now_ms() - at_ms
        knocks = sum(door.counts["broker_absent"] for door in broker.doors) - knocks
        assert broker.pid not in (None, before)
        assert knocks > 0, f"nobody missed the broker in {away_ms} ms of {kind}"
        self._healing.wait(running)
        campaign.note(
            kind,
            at_ms,
            "broker",
            range(campaign.cluster.partitions),
            f"away {away_ms / 1000:.2f} s, {knocks} connections refused",
        )
