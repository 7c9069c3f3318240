"""Links to the broker that are slow, cut, cut one way, or lose answers; of one scheduler, of all, or of the gateway.

The others go on meanwhile. Whatever the rule is, it ends with an open door, and the proxies' counts must have risen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.kafka_dev import wait_until
from tests.chaos.harness.cluster import now_ms
from tests.chaos.harness.proxy import OPEN, TRANSACTION_APIS, Rule, Way

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.broker import Broker
    from tests.chaos.harness.campaign import Campaign
    from tests.chaos.harness.cluster import Scheduler
    from tests.chaos.harness.healing import Healing
    from tests.chaos.harness.proxy import Door

SLOW_S: Final = (4.0, 12.0)
LATENCY_S: Final = (0.05, 0.4)
"""Each way; four round trips of a transaction then take up to 3 s."""

BYTES_PER_S: Final = (40_000.0, 400_000.0)
SESSIONS: Final = (0.5, 2.5)
"""How long a cut lasts: some heal before the group notices, some long after."""

ANSWERS_LOST: Final = (1, 4)
"""Of one fault, each with its connection."""

LOSE_TIMEOUT_S: Final = 30.0
GATEWAY_APIS: Final = ("produce", "fetch")
TAKEN_OVER_TIMEOUT_S: Final = 60.0


class NetworkFaults:
    """The kinds of this family."""

    def __init__(
        self, campaign: Campaign, broker: Broker, healing: Healing, *, slow_s: tuple[float, float] = SLOW_S
    ) -> None:
        self._campaign = campaign
        self._broker = broker
        self._healing = healing
        self._slow_s = slow_s
        self.kinds: dict[str, Callable[[], None]] = {
            "net_slow": self.slow,
            "net_cut": self.cut,
            "net_cut_up": lambda: self.one_way("up"),
            "net_cut_down": lambda: self.one_way("down"),
            "net_cut_all": self.cut_all,
            "net_lost_answers": self.lost_answers,
            "net_gateway_cut": self.gateway_cut,
            "net_gateway_lost_answers": self.gateway_lost_answers,
        }

    # --- schedulers ---

    def slow(self) -> None:
        """Give one owner a slow link with little bandwidth."""
        rng = self._campaign.rng
        way = Way(latency_s=rng.uniform(*LATENCY_S), bytes_per_s=rng.uniform(*BYTES_PER_S))
        self._one("net_slow", Rule(up=way, down=way), rng.uniform(*self._slow_s), "frames_delayed")

    def cut(self, *, sessions: float | None = None) -> None:
        """Cut one owner off: nothing comes through, or connections are refused."""
        rule, count = self._campaign.rng.choice(_CUTS)
        self._one("net_cut", rule, self._cut_s(sessions), count)

    def one_way(self, way: str, *, sessions: float | None = None) -> None:
        """Cut one owner off in one direction. What was sent is gone, or comes late."""
        passage, count = self._campaign.rng.choice((("swallow", "bytes_swallowed"), ("hold", "frames_held")))
        closed = Way(passage="swallow" if passage == "swallow" else "hold")
        rule = Rule(up=closed) if way == "up" else Rule(down=closed)
        self._one(f"net_cut_{way}", rule, self._cut_s(sessions), count)

    def lost_answers(self) -> None:
        """Let requests of one owner's transactions arrive, and lose the answers with their connections."""
        campaign = self._campaign
        victim = campaign.an_owner()
        door = self._door_of(campaign.cluster.schedulers.index(victim))
        self._lose("net_lost_answers", door, TRANSACTION_APIS, victim.name, victim.owned())

    def cut_all(self) -> None:
        """Cut every scheduler off, while the gateway still reaches the broker."""
        rule, count = self._campaign.rng.choice(_CUTS)
        doors = self._broker.doors[:-1]
        everything = frozenset(range(self._campaign.cluster.partitions))
        self._through("net_cut_all", doors, rule, self._cut_s(None), count, "all", everything)

    # --- the gateway ---

    def gateway_cut(self) -> None:
        """Cut the gateway off: calls get no answer, workers are not heard."""
        rule, count = self._campaign.rng.choice(_CUTS)
        self._through("net_gateway_cut", [self._broker.gateway_door], rule, self._cut_s(None), count, "gateway")

    def gateway_lost_answers(self) -> None:
        """Let the gateway's commands arrive, and lose the answers."""
        self._lose("net_gateway_lost_answers", self._broker.gateway_door, GATEWAY_APIS, "gateway", frozenset())

    # --- parts ---

    def _cut_s(self, sessions: float | None) -> float:
        return self._campaign.session_s * (sessions or self._campaign.rng.uniform(*SESSIONS))

    def _door_of(self, number: int) -> Door:
        return self._broker.doors[number]

    def _one(self, kind: str, rule: Rule, seconds: float, count: str) -> None:
        victim = self._campaign.an_owner()
        door = self._door_of(self._campaign.cluster.schedulers.index(victim))
        self._through(kind, [door], rule, seconds, count, victim.name, victim.owned())

    def _through(  # noqa: PLR0917 - the words of one sentence
        self,
        kind: str,
        doors: list[Door],
        rule: Rule,
        seconds: float,
        count: str,
        target: str,
        owned: frozenset[int] = frozenset(),
    ) -> None:
        campaign, network = self._campaign, self._broker.network
        running = [scheduler for scheduler in campaign.cluster.schedulers if scheduler.alive]
        before, at_ms = sum(door.counts[count] for door in doors), now_ms()
        for door in doors:
            network.obey(door, rule)
        campaign.pause(seconds)
        bitten = wait_until(lambda: sum(door.counts[count] for door in doors) > before, LOSE_TIMEOUT_S)
        for door in doors:
            network.obey(door, OPEN)
        assert bitten, f"{kind}: no {count} at {[door.name for door in doors]}"
        times = sum(door.counts[count] for door in doors) - before
        self._healing.wait(running, *self._served(target))
        campaign.note(kind, at_ms, target, owned, f"{seconds:.1f} s, {times} {count.replace('_', ' ')}")

    def _lose(self, kind: str, door: Door, apis: tuple[str, ...], target: str, owned: frozenset[int]) -> None:
        campaign, network = self._campaign, self._broker.network
        running = [scheduler for scheduler in campaign.cluster.schedulers if scheduler.alive]
        times = campaign.rng.randint(*ANSWERS_LOST)
        chosen = frozenset(campaign.rng.sample(apis, campaign.rng.randint(1, len(apis))))
        before, at_ms = door.lost(), now_ms()
        network.obey(door, Rule(lose=chosen, lose_times=times))
        bitten = wait_until(lambda: door.lost().total() >= before.total() + 1, LOSE_TIMEOUT_S)
        wait_until(lambda: door.lost().total() >= before.total() + times, campaign.session_s)
        network.obey(door, OPEN)
        assert bitten, f"{kind}: no answer to {sorted(chosen)} passed {door.name}"
        lost = door.lost() - before
        self._healing.wait(running, *self._served(target))
        campaign.note(
            kind, at_ms, target, owned, "lost answers: " + ", ".join(f"{n} {api}" for api, n in sorted(lost.items()))
        )

    def _served(self, target: str) -> list[Scheduler]:
        """Give the scheduler that must own something again, if it is one."""
        return [scheduler for scheduler in self._campaign.cluster.schedulers if scheduler.name == target]


_CUTS: Final = (
    (Rule(up=Way(passage="swallow"), down=Way(passage="swallow")), "bytes_swallowed"),
    (Rule(up=Way(passage="hold"), down=Way(passage="hold")), "frames_held"),
    (Rule(refuse=True), "refused"),
)
"""Nothing comes through: and what was sent is gone; or comes after the healing; or connections end at once."""
