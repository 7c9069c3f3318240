"""A random mix of faults for a given time, then healing, judgement, and figures. `make chaos FOR=600 SEED=3` calls it.

python -m tests.chaos.run --for SECONDS --seed N [--session-ms 6000] [--schedulers 2] [--kinds kill,freeze] [--keep DIR]

It starts a Kafka of its own, prints every fault with its time and how long healing took, and ends with the checker's
table and a table of time without dispatch by kind of fault. Exit code 1 on any violation. The same seed gives the same
order of faults. `--keep` leaves logs and the judged run behind, for `python -m tests.chaos.judge_again`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import platform
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streams.kafka_dev import KafkaCluster, kafka_version
from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.cluster import BROKER, Cluster
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge, seconds

if TYPE_CHECKING:
    from tests.chaos.harness.campaign import Injected
    from tests.chaos.harness.verdict import Verdict

SHARES: Final = {"rolling_restart": 0.5, "storm": 0.3}
"""How often a kind is drawn, against 1 of every other."""

CALM_S: Final = 3.0
"""Between two faults, so that their figures stay apart."""

HEAL_S: Final = 15.0


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)  # noqa: T201 - a program's output


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(description="Faults on real Kafka")
    parser.add_argument("--for", dest="seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--session-ms", type=int, default=6_000)
    parser.add_argument("--schedulers", type=int, default=2)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    say(f"seed {chosen.seed}, {chosen.seconds:g} s, session {chosen.session_ms} ms, {chosen.schedulers} schedulers")
    say(f"Kafka {kafka_version()}, Python {platform.python_version()}, {_versions()}")
    with tempfile.TemporaryDirectory(prefix="horolog-chaos-") as scratch:
        root = chosen.keep or Path(scratch)
        with KafkaCluster(root=Path(scratch) / "kafka", ports="free", extra=BROKER) as kafka:
            return campaign(kafka.bootstrap_servers, root, chosen)


def campaign(bootstrap_servers: str, root: Path, chosen: argparse.Namespace) -> int:
    """Do faults until the time is over; judge and tell."""
    rng = random.Random(chosen.seed)  # noqa: S311 - repeatable
    session = {"scheduler.session_timeout_ms": str(chosen.session_ms)}
    with Cluster(bootstrap_servers, f"chaos{uuid.uuid4().hex[:8]}.", root, scheduler=session, say=say) as cluster:
        schedulers = [cluster.add() for _ in range(chosen.schedulers)]
        cluster.wait_whole(*schedulers)
        driver = Driver(cluster.settings, Load(seed=chosen.seed, timer_only=(0,)))
        driver.start()
        faults = Campaign(cluster, rng)
        kinds = [kind for kind in faults.kinds if not chosen.kinds or kind in chosen.kinds.split(",")]
        weights = [SHARES.get(kind, 1.0) for kind in kinds]
        ends = time.monotonic() + chosen.seconds
        while time.monotonic() < ends:
            faults.kinds[rng.choices(kinds, weights)[0]]()
            faults.pause(CALM_S)
        verdict = judge(cluster, driver, heal_s=HEAL_S)
        tell(verdict, faults.injected, driver)
        failed = sum(1 for _ in cluster.log_lines("job_quarantined")) + len(driver.gave_up)
        say(
            f"stale transactions refused by the broker: {verdict.stale_refused}; records that stayed hidden: "
            f"{verdict.hidden}; calls given up: {len(driver.gave_up)}"
        )
        return 0 if verdict.report.ok and not failed else 1


def tell(verdict: Verdict, injected: list[Injected], driver: Driver) -> None:
    """Print the checker's table, and time without dispatch by kind of fault.

    gap: between commits on the partitions concerned; others: on the other partitions; hand-out: between two runs given
    to any worker, which sees committed grants that no gateway can read yet.
    """
    say("\n" + verdict.report.to_table())
    executed: dict[str, int] = {}
    for execution in driver.journals.executions:
        executed[execution.run_id] = executed.get(execution.run_id, 0) + 1
    say(f"runs executed: {len(executed)}, more than once: {sum(times > 1 for times in executed.values())}")
    workers = Counter(fault.kind for fault in driver.faults)
    say(f"faults of workers: {dict(workers)}")
    titles = f"{'times':>6}{'gap p50':>9}{'gap max':>9}{'others max':>12}{'hand-out':>10}{'late max':>10}"
    say(f"\n{'seconds, by fault':<24}{titles}")
    starts = sorted(execution.started_at_ms for execution in driver.journals.executions)
    figures = []
    for kind in sorted({fault.kind for fault in injected}):
        faults = [fault for fault in injected if fault.kind == kind]
        own, others, late, silent = [], [0], [0], [0]
        for fault in faults:
            gaps = verdict.gaps(fault.from_ms, fault.to_ms)
            own.append(max((gaps.get(p, 0) for p in fault.partitions), default=0))
            others += [gap for p, gap in gaps.items() if p not in fault.partitions]
            silent += [b - a for a, b in itertools.pairwise(starts) if b >= fault.from_ms and a <= fault.to_ms]
            late += verdict.lateness_ms(fault.from_ms, fault.to_ms)[-1:]
        own.sort()
        row = (kind, len(faults), own[len(own) // 2], own[-1], max(others), max(silent), max(late))
        figures.append(row)
        say(
            f"{kind:<24}{row[1]:>6}"
            + "".join(f"{seconds(ms):>{w}.2f}" for ms, w in zip(row[2:], (9, 9, 12, 10, 10), strict=True))
        )
    say("figures: " + json.dumps(figures))


def _versions() -> str:
    return ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("faust-streaming", "aiokafka", "confluent-kafka")
    )


if __name__ == "__main__":
    sys.exit(main())
