"""When a cluster is well again after a fault that leaves its processes alone: everything is owned, and commits go on.

A scheduler may end itself while it cannot reach the broker (its watchdog, or a crash that it tells); a supervisor
would start it again, and so does the harness, counted.
"""

from __future__ import annotations

import signal
import threading
import urllib.request
from typing import TYPE_CHECKING, Final

from streams.kafka_dev import wait_until
from tests.chaos.harness.cluster import ASK_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.harness.cluster import Cluster, Scheduler

HEAL_TIMEOUT_S: Final = 120.0
"""For a machine under load; what is promised is judged by the log."""

COMMITS: Final = 3
"""By each owner after all partitions are owned: one may have been under way."""

STACKS_S: Final = 1.0
"""For a process to write its stacks down."""

LINES_TOLD: Final = 80
COMPLAINTS: Final = ("transaction_failed", "broker_unreachable")


def metric(scheduler: Scheduler, name: str) -> float | None:
    """Read one metric without labels; None where the process does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{scheduler.port}/metrics", timeout=ASK_TIMEOUT_S) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    found = [line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(found[0]) if found else None


def commits(scheduler: Scheduler) -> float:
    """How many transactions the process has committed."""
    return metric(scheduler, "horolog_commit_seconds_count") or 0.0


def complaints(cluster: Cluster) -> int:
    """How many log lines of all schedulers tell of a broker that was not there or did not commit."""
    return sum(sum(1 for _ in cluster.log_lines(event)) for event in COMPLAINTS)


class Healing:
    """Waits for it, and starts again what ended itself."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.restarts = 0

    def wait(self, running: Sequence[Scheduler], *must_own: Scheduler) -> None:
        """Return when all partitions are owned, each of `must_own` owns one, and all owners commit."""

        def whole() -> bool:
            self.revive(running)
            return self._cluster.whole(must_own)

        if not wait_until(whole, HEAL_TIMEOUT_S):
            self._cluster.wait_whole(*must_own, timeout_s=0.0)  # tells the story
        before: dict[Scheduler, float] = {}

        def commit() -> bool:
            self.revive(running)
            owners = set(self._cluster.owners().values())
            for owner in owners:
                before.setdefault(owner, commits(owner))
            return self._cluster.whole(must_own) and all(
                commits(owner) >= before[owner] + COMMITS or commits(owner) < before[owner] for owner in owners
            )

        if not wait_until(commit, HEAL_TIMEOUT_S):
            raise AssertionError(
                f"owners do not commit: { {o.name: commits(o) for o in before} }\n{self._stacks(running)}"
            )

    def _stacks(self, running: Sequence[Scheduler]) -> str:
        for scheduler in running:
            scheduler.signal(signal.SIGUSR1)
        threading.Event().wait(STACKS_S)
        return "\n".join(f"--- {s.name}\n" + "\n".join(map(str, s.log()[-LINES_TOLD:])) for s in running)

    def revive(self, running: Sequence[Scheduler]) -> None:
        """Start again what ended itself."""
        for scheduler in running:
            if not scheduler.alive:
                self.restarts += 1
                self._cluster.say(f"{scheduler.name} ended itself with {scheduler.exit_code}; started again")
                scheduler.start()
