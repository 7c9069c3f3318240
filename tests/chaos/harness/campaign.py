"""The faults that are done to a cluster, each with its healing, and which partitions each concerns.

Every fault is a method that returns when it is healed: all partitions have one owner again. Random choices come from
the given generator, so a seed repeats the order of faults; the moments within a run follow the machine's own pace.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import msgspec

from streams.kafka_dev import wait_until
from tests.chaos.harness.cluster import STEPS, now_ms
from tests.chaos.harness.store_faults import StoreFaults

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from tests.chaos.harness.cluster import Cluster, Inputs, Scheduler, Step

HIT_TIMEOUT_S: Final = 15.0
"""Beats make every owner commit several times a second."""

SKIP_MAX: Final = 20
"""How many transactions may go by before an order is carried out: within a second or two."""

STORM_CHANGES: Final = 5


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, when it began and was healed, and the partitions that lost their owner by it."""

    kind: str
    from_ms: int
    to_ms: int
    target: str
    partitions: tuple[int, ...]
    evidence: str = ""
    """How it is known that the fault bit, where a process that is gone or asleep does not show it."""


class Campaign:
    """Does faults to a cluster of at least two schedulers."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.injected: list[Injected] = []
        self.session_s = cluster.settings.scheduler.session_timeout_ms / 1000
        self.kinds: dict[str, Callable[[], None]] = {
            **{f"kill_before_{step}": (lambda step=step: self.kill_at(step)) for step in STEPS},  # type: ignore[misc]
            "kill": self.kill,
            **{f"freeze_before_{step}": (lambda step=step: self.freeze_at(step)) for step in STEPS},  # type: ignore[misc]
            "freeze": self.freeze,
            "graceful_stop": self.graceful_stop,
            "join": self.join,
            "rolling_restart": self.rolling_restart,
            "storm": self.storm,
        }
        self.kinds |= StoreFaults(self).kinds

    # --- kills ---

    def kill_at(self, step: Step) -> None:
        """Let an owner kill itself before a step; start it again when others have taken over."""
        victim = self.an_owner()
        owned = victim.owned()
        order = victim.order(step, "kill", skip=self.rng.randrange(SKIP_MAX))
        hit_ms = victim.hit_at_ms(order, HIT_TIMEOUT_S)
        assert hit_ms is not None, f"{victim.name} never came to {step}"
        self._killed(f"kill_before_{step}", victim, hit_ms, owned)

    def kill(self) -> None:
        """Kill an owner at any moment."""
        victim = self.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        victim.kill()
        self._killed("kill", victim, at_ms, owned)

    def _killed(self, kind: str, victim: Scheduler, at_ms: int, owned: frozenset[int]) -> None:
        victim.wait_gone()
        self.cluster.wait_whole()
        self._note(kind, at_ms, victim, owned)
        self._restart(victim)

    # --- freezes ---

    def freeze_at(self, step: Step, *, inputs: Inputs = "any", sessions: float | None = None) -> None:
        """Let an owner freeze before a step until others have its partitions; then let it go on."""
        victim = self.an_owner()
        owned = victim.owned()
        order = victim.order(step, "stop", skip=self.rng.randrange(SKIP_MAX), inputs=inputs)
        hit_ms = victim.hit_at_ms(order, HIT_TIMEOUT_S)
        assert hit_ms is not None, f"{victim.name} never came to {step}"
        victim.frozen = True
        self._frozen(f"freeze_before_{step}", victim, hit_ms, owned, sessions)

    def freeze(self) -> None:
        """Freeze an owner at any moment."""
        victim = self.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        victim.freeze()
        self._frozen("freeze", victim, at_ms, owned, None)

    def _frozen(self, kind: str, victim: Scheduler, at_ms: int, owned: frozenset[int], sessions: float | None) -> None:
        self.pause(self.session_s * (sessions or self.rng.uniform(1.5, 4.0)))
        self.cluster.wait_whole()
        victim.thaw()
        self.cluster.wait_whole(victim)
        self._note(kind, at_ms, victim, owned)

    # --- orderly changes ---

    def graceful_stop(self) -> None:
        """Stop an owner in good order; start it again."""
        victim = self.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        victim.stop()
        self.cluster.wait_whole()
        self._note("graceful_stop", at_ms, victim, owned)
        self._restart(victim)

    def join(self) -> None:
        """Let a new member join, and leave again."""
        before, at_ms = self.cluster.owners(), now_ms()
        newcomer = next((s for s in self.cluster.schedulers if not s.alive), None)
        if newcomer is None:
            newcomer = self.cluster.add()
        else:
            newcomer.start()
        self.cluster.wait_whole(newcomer)
        moved = frozenset(p for p, owner in self.cluster.owners().items() if before.get(p) is not owner)
        self._note("join", at_ms, newcomer, moved)
        newcomer.stop()
        self.cluster.wait_whole()

    def rolling_restart(self) -> None:
        """Stop and start every process in turn."""
        at_ms = now_ms()
        for scheduler in [s for s in self.cluster.schedulers if s.alive]:
            scheduler.stop()
            scheduler.start()
            self.cluster.wait_whole(scheduler)
        everything = frozenset(range(self.cluster.partitions))
        self._note("rolling_restart", at_ms, self.cluster.schedulers[0], everything)

    def storm(self) -> None:
        """Let members come and go every moment, without waiting for the group to settle."""
        at_ms = now_ms()
        running = [s for s in self.cluster.schedulers if s.alive]
        for _ in range(STORM_CHANGES):
            changing = self.rng.choice(running)
            if changing.alive:
                self.rng.choice((changing.stop, changing.kill))()
            else:
                changing.start()
            self.pause(self.rng.uniform(0.5, 3.0))
        for scheduler in running:
            if not scheduler.alive:
                scheduler.start()
        self.cluster.wait_whole(*running)
        self._note("storm", at_ms, running[0], frozenset(range(self.cluster.partitions)))

    # --- parts ---

    def an_owner(self) -> Scheduler:
        """Choose one that acts for some partition now; waits until there is one."""
        owners: list[Scheduler] = []

        def someone() -> bool:
            owners[:] = sorted(set(self.cluster.owners().values()), key=lambda scheduler: scheduler.name)
            return bool(owners)

        assert wait_until(someone, 60.0), "nobody owns anything"
        return self.rng.choice(owners)

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        threading.Event().wait(seconds)

    def _restart(self, victim: Scheduler) -> None:
        at_ms, before = now_ms(), self.cluster.owners()
        victim.start()
        self.cluster.wait_whole(victim)
        moved = frozenset(p for p, owner in self.cluster.owners().items() if before.get(p) is not owner)
        self._note("rejoin", at_ms, victim, moved)

    def _note(self, kind: str, at_ms: int, target: Scheduler, partitions: frozenset[int], evidence: str = "") -> None:
        self.note(kind, at_ms, target.name, partitions, evidence)

    def note(self, kind: str, at_ms: int, target: str, partitions: Iterable[int], evidence: str = "") -> None:
        """Write a fault down that is healed now. `evidence`: how it is known that it bit."""
        self.cluster.note(kind, at_ms, target, evidence)
        self.injected.append(
            Injected(
                kind=kind,
                from_ms=at_ms,
                to_ms=now_ms(),
                target=target,
                partitions=tuple(sorted(partitions)),
                evidence=evidence,
            )
        )
