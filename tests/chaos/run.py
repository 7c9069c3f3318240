"""A random mix of faults for a given time, then healing, judgement, and figures. `make chaos FOR=600 SEED=3` calls it.

python -m tests.chaos.run --for SECONDS --seed N [--session-ms 6000] [--schedulers 2] [--kinds kill,freeze] [--keep DIR]
    [--results FILE] [--broker-off SECONDS] [--load SHARE]

Every family of faults (`harness/families.py`) comes once before any comes again. `--load 0.5`: half the traffic, so
that more runs fit on a machine. `--broker-off`: the broker's clock is so many seconds away from everybody's (needs a C
compiler).

It starts a Kafka of its own, prints every fault with its time and how long healing took, and ends with the checker's
table and a table of time without dispatch by kind of fault. Exit code 1 on any violation. The same seed gives the same
order of faults. A line of figures is added to `--results`, by default .horolog/chaos-results.jsonl;
`python -m tests.chaos.figures FILE...` adds runs up. `--keep` leaves logs and the judged run behind, for
`python -m tests.chaos.judge_again`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.chaos.figures import table, totals
from tests.chaos.harness.broker import Broker
from tests.chaos.harness.broker_faults import BrokerFaults
from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.clock import BROKER_OFF_VARIABLE, Clocks, build_shim
from tests.chaos.harness.clock_faults import ClockFaults
from tests.chaos.harness.cluster import CHECKOUT, Cluster
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.families import Deck
from tests.chaos.harness.gateway_faults import Fleet, GatewayFaults, returned
from tests.chaos.harness.healing import Healing
from tests.chaos.harness.log_faults import LogFaults
from tests.chaos.harness.network_faults import NetworkFaults
from tests.chaos.harness.poison import PoisonFaults
from tests.chaos.harness.results import append, measure, versions
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from tests.chaos.harness.cluster import Scheduler
    from tests.chaos.harness.results import Result
    from tests.chaos.harness.verdict import Verdict

CALM_S: Final = 3.0
"""Between two faults, so that their figures stay apart."""

HEAL_S: Final = 15.0

UNHEALED_MAX: Final = 3
"""A run in which so many faults did not bite, or did not heal in time, ends and is judged."""


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
    parser.add_argument("--broker-off", type=float, default=0.0)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--results", type=Path, default=CHECKOUT / ".horolog" / "chaos-results.jsonl")
    chosen = parser.parse_args()
    say(f"seed {chosen.seed}, {chosen.seconds:g} s, session {chosen.session_ms} ms, {chosen.schedulers} schedulers")
    say(", ".join(f"{name} {version}" for name, version in versions().items()))
    with tempfile.TemporaryDirectory(prefix="horolog-chaos-") as scratch:
        root = chosen.keep or Path(scratch)
        env = _clock_of_the_broker(root, chosen.broker_off) if chosen.broker_off else {}
        with Broker(Path(scratch) / "kafka", doors=chosen.schedulers + 3, env=env) as broker:
            return campaign(broker, root, chosen)


def _clock_of_the_broker(root: Path, off_s: float) -> dict[str, str]:
    shim = build_shim(root / "clocks")
    if shim is None:
        sys.exit("--broker-off needs a C compiler")
    os.environ[BROKER_OFF_VARIABLE] = str(off_s)
    clocks = Clocks(root / "clocks", shim)
    clocks.of("broker").step(off_s)
    return clocks.environment("broker")


def campaign(broker: Broker, root: Path, chosen: argparse.Namespace) -> int:
    """Do faults until the time is over; judge and tell."""
    rng = random.Random(chosen.seed)  # noqa: S311 - repeatable
    session = {"scheduler.session_timeout_ms": str(chosen.session_ms)}
    ways = [door.address for door in broker.doors]
    clocks = Clocks(root / "clocks", build_shim(root / "clocks"))
    say(f"clocks of schedulers: {clocks.shim or 'Python code only, no C compiler here'}")
    name = f"chaos{uuid.uuid4().hex[:8]}."
    with (
        ExitStack() as stack,
        Cluster(broker.bootstrap_servers, name, root, scheduler=session, ways=ways, clocks=clocks, say=say) as cluster,
    ):
        schedulers = [cluster.add() for _ in range(chosen.schedulers)]
        cluster.wait_whole(*schedulers)
        driver = Driver(cluster.gateway_settings, Load.of(chosen.load, seed=chosen.seed, timer_only=(0,)))
        driver.start()
        faults = Campaign(cluster, rng)
        healing = Healing(cluster)
        faults.kinds |= BrokerFaults(faults, broker, healing).kinds
        faults.kinds |= NetworkFaults(faults, broker, healing).kinds
        if not chosen.broker_off:  # else every scheduler is as far off already
            faults.kinds |= ClockFaults(faults, healing, clocks).kinds
        fleet = stack.enter_context(Fleet(cluster, driver, seed=chosen.seed, share=chosen.load))
        gateway_faults, log_faults = GatewayFaults(faults, fleet), LogFaults(faults)
        poison = PoisonFaults(faults)
        faults.kinds |= gateway_faults.kinds | log_faults.kinds | poison.kinds
        kinds = [kind for kind in faults.kinds if not chosen.kinds or kind in chosen.kinds.split(",")]
        deck = Deck(kinds, rng)
        ends = time.monotonic() + chosen.seconds
        unhealed: list[str] = []
        while time.monotonic() < ends and len(unhealed) < UNHEALED_MAX:
            kind = deck.draw()
            try:
                faults.kinds[kind]()
            except AssertionError as error:  # what happened until now is judged all the same
                unhealed.append(f"{kind}: {str(error).partition(chr(10))[0]}")
                say(f"NOT HEALED {error}")
                _bring_back(schedulers)
            faults.pause(CALM_S)
        verdict = judge(cluster, fleet, heal_s=HEAL_S, archive=log_faults.archive)
        result = measure(
            verdict,
            faults.injected,
            fleet,
            seed=chosen.seed,
            seconds=chosen.seconds,
            session_ms=chosen.session_ms,
            schedulers=chosen.schedulers,
            quarantined=sum(1 for _ in cluster.log_lines("job_quarantined")),
            unhealed=unhealed,
        )
        append(chosen.results, result)
        tell(verdict, result)
        say(f"\ntraffic through gateways: {dict(fleet.load.did)}")
        for row in returned(verdict.view, gateway_faults.at_hand):
            say(f"died with a gateway: {row}")
        wrong = log_faults.wrong(verdict.view) + poison.wrong(verdict.view)
        for line in wrong:
            say(line)
        return 0 if result.ok and not wrong else 1


def _bring_back(schedulers: list[Scheduler]) -> None:
    """Let go on, or start again, what a fault that failed left behind."""
    for scheduler in schedulers:
        if scheduler.frozen:
            scheduler.thaw()
        if not scheduler.alive:
            scheduler.start()


def tell(verdict: Verdict, result: Result) -> None:
    """Print the checker's table, and the sums and the table of time without dispatch, as for several runs."""
    say("\n" + verdict.report.to_table())
    say(f"\n{totals([result])}\n\n{table([result])}")


if __name__ == "__main__":
    sys.exit(main())
