"""Faults of gateways and workers that are processes of their own, and what became of grants on their way.

A gateway is stateless: its end loses nothing. Grants that it had not handed out come back when their lease ends,
without a counted attempt (DESIGN section 7, point 5); `returned` looks that up in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import msgspec

from streams.audit.journals import Fault, Journals
from streams.core import events as ev
from tests.chaos.harness.cluster import now_ms
from tests.chaos.harness.gateway import STEPS, SdkWorker, start_gateways
from tests.chaos.harness.http_load import HttpLoad

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from streams.audit.log_view import LogView
    from tests.chaos.harness.campaign import Campaign
    from tests.chaos.harness.cluster import Cluster
    from tests.chaos.harness.driver import Driver
    from tests.chaos.harness.gateway import GatewayProcess, GatewayStep

HIT_TIMEOUT_S: Final = 90.0
FROZEN_S: Final = (2.0, 7.0)
"""Shorter and longer than a worker's lease of 5 s."""
WORKER_FROZEN_S: Final = 17.0
"""Past the SDK's lease of 15 s."""
GATEWAYS: Final = 2
HTTP_JOBS_PER_S: Final = 5.0


class Fleet:
    """Gateways, SDK workers and HTTP traffic of one cluster, beside its driver. Ends what it started.

    `drain`, `journals`, `faults` and `gave_up` are those of the driver and of all these together.
    """

    def __init__(
        self, cluster: Cluster, driver: Driver, *, seed: int = 1, sdk_workers: int = 1, share: float = 1.0
    ) -> None:
        self._driver = driver
        self._own_faults: list[Fault] = []
        self.gateways = start_gateways(cluster, GATEWAYS)
        self.workers = [
            SdkWorker(f"w{n + 1}", cluster.root / f"w{n + 1}", cluster.environment, self.gateways[n % GATEWAYS])
            for n in range(sdk_workers)
        ]
        self.load = HttpLoad(self.gateways, seed=seed, jobs_per_s=HTTP_JOBS_PER_S * share)
        for worker in self.workers:
            worker.start()
        self.load.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.workers, *self.gateways):
            process.kill()

    def drain(self) -> None:
        """End all traffic in good order: first who asks, then the gateways."""
        self.load.drain()
        self._driver.drain()
        for process in (*self.workers, *self.gateways):
            process.stop()

    def note(self, fault: Fault) -> None:
        """Write down what a worker was made to do."""
        self._own_faults.append(fault)

    @property
    def journals(self) -> Journals:
        """Give everything that was seen."""
        driver, load = self._driver.journals, self.load.journals
        sdk = [execution for worker in self.workers for execution in worker.executions()]
        return Journals(calls=driver.calls + load.calls, executions=(*driver.executions, *load.executions, *sdk))

    @property
    def faults(self) -> list[Fault]:
        """Give what workers did wrong."""
        return [*self._driver.faults, *self.load.faults, *self._own_faults]

    @property
    def gave_up(self) -> list[str]:
        """Give the calls that never got an answer."""
        return [*self._driver.gave_up, *self.load.gave_up]


class GatewayFaults:
    """Does them to a fleet."""

    def __init__(self, campaign: Campaign, fleet: Fleet) -> None:
        self._campaign = campaign
        self._fleet = fleet
        self._rng = campaign.rng
        self.at_hand: list[tuple[str, int]] = []
        """(run id, lease token) of grants that died with a gateway."""
        self.kinds: dict[str, Callable[[], None]] = {
            **{f"gateway_kill_before_{step}": (lambda step=step: self.kill_at(step)) for step in STEPS},  # type: ignore[misc]
            "gateway_kill": self.kill,
            "gateway_freeze": self.freeze,
            "gateway_freeze_before_answer": self.freeze_at_answer,
            "gateway_restart": self.restart,
            "worker_kill": self.worker_kill,
            "worker_freeze": self.worker_freeze,
        }

    def kill_at(self, step: GatewayStep) -> None:
        """Let a gateway kill itself before a step; start it again."""
        gateway = self._rng.choice(self._fleet.gateways)
        order = gateway.order(step, "kill", skip=self._rng.randrange(4))
        hit_ms = gateway.hit_at_ms(order, HIT_TIMEOUT_S)
        assert hit_ms is not None, f"{gateway.name} never came to {step}"
        gateway.wait_gone()
        grants = gateway.grants_at_hand(order)
        self.at_hand += grants
        self._back(f"gateway_kill_before_{step}", gateway, hit_ms, f"{len(grants)} grants in its hands")

    def kill(self) -> None:
        """Kill a gateway at any moment."""
        gateway, at_ms = self._rng.choice(self._fleet.gateways), now_ms()
        gateway.kill()
        self._back("gateway_kill", gateway, at_ms, f"exit code {gateway.exit_code}")

    def restart(self) -> None:
        """Stop all gateways in turn in good order, and start them again."""
        for gateway in self._fleet.gateways:
            at_ms = now_ms()
            took_s = gateway.stop()
            assert gateway.exit_code == 0, f"{gateway.name} ended with {gateway.exit_code}: {gateway.log()[-5:]}"
            self._back("gateway_restart", gateway, at_ms, f"stopped in {took_s:.2f} s")

    def freeze(self) -> None:
        """Freeze a gateway at any moment, for less or more than a lease."""
        gateway, at_ms = self._rng.choice(self._fleet.gateways), now_ms()
        gateway.freeze()
        self._frozen("gateway_freeze", gateway, at_ms)

    def freeze_at_answer(self) -> None:
        """Freeze one that is about to answer with runs: it may hand them out when their leases are over."""
        gateway = self._rng.choice(self._fleet.gateways)
        hit_ms = gateway.hit_at_ms(gateway.order("answer", "stop"), HIT_TIMEOUT_S)
        assert hit_ms is not None, f"{gateway.name} never came to answer"
        gateway.frozen = True
        self._frozen("gateway_freeze_before_answer", gateway, hit_ms)

    def _frozen(self, kind: str, gateway: GatewayProcess, at_ms: int) -> None:
        self._campaign.pause(self._rng.uniform(*FROZEN_S))
        assert not gateway.ready, f"{gateway.name} answers although it is frozen"
        gateway.thaw()
        gateway.wait_ready()
        self._campaign.note(kind, at_ms, gateway.name, (), "did not answer meanwhile")

    def worker_kill(self) -> None:
        """Kill an SDK worker in the middle of something; start it again."""
        worker = self._rng.choice(self._fleet.workers)
        at_ms = now_ms()
        worker.kill()
        left = [execution for execution in worker.executions() if not execution.ended_at_ms]
        worker.start()
        self._worker_done("worker_kill", worker, at_ms, f"{len(left)} runs left without an end so far")

    def worker_freeze(self) -> None:
        """Freeze an SDK worker past its leases; it must not complete what is no longer its own."""
        worker = self._rng.choice(self._fleet.workers)
        at_ms, before = now_ms(), len(worker.journal())
        worker.freeze()
        self._campaign.pause(WORKER_FROZEN_S)
        assert len(worker.journal()) == before, f"{worker.name} works although it is frozen"
        worker.thaw()
        self._worker_done("worker_freeze", worker, at_ms, "did nothing meanwhile")

    def _worker_done(self, kind: str, worker: SdkWorker, at_ms: int, evidence: str) -> None:
        self._campaign.note(kind, at_ms, worker.name, (), evidence)
        self._fleet.note(Fault(kind=kind, from_ms=at_ms, to_ms=now_ms(), target=worker.name))

    def _back(self, kind: str, gateway: GatewayProcess, at_ms: int, evidence: str) -> None:
        gateway.start()
        gateway.wait_ready()
        self._campaign.note(kind, at_ms, gateway.name, (), evidence)


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one grant that nobody got."""

    run_id: str
    lease_token: int
    how: str
    """Name of the event that ended the lease; empty while it lasts."""
    counted: bool
    """Whether an attempt was burnt."""
    late_ms: int
    """From the grant to the next one, or to the run's end."""


def returned(view: LogView, grants: list[tuple[str, int]]) -> list[Returned]:
    """Look up in the log what became of grants that died with a gateway."""
    wanted = {run_id for run_id, _ in grants}
    stories: dict[str, list[tuple[int, ev.Event]]] = {run_id: [] for run_id in wanted}
    for item in view.history:
        for event in item.entry.events:
            run_id = getattr(event, "run_id", "")
            if run_id in wanted:
                stories[run_id].append((item.record.timestamp_ms, event))
    return [_returned(run_id, token, stories[run_id]) for run_id, token in grants]


def _returned(run_id: str, token: int, story: list[tuple[int, ev.Event]]) -> Returned:
    granted = [(at_ms, event.lease.lease_token) for at_ms, event in story if isinstance(event, ev.LeaseGranted)]
    since_ms = next(at_ms for at_ms, its_token in granted if its_token == token)
    ends = [(at_ms, event) for at_ms, event in story if getattr(event, "lease_token", 0) == token]
    again_ms = [at_ms for at_ms, its_token in granted if its_token > token] or [at_ms for at_ms, _ in ends]
    return Returned(
        run_id=run_id,
        lease_token=token,
        how=type(ends[0][1]).__name__ if ends else "",
        counted=any(isinstance(event, ev.LeaseExpired) and event.counted for _, event in ends),
        late_ms=again_ms[0] - since_ms if again_ms else 0,
    )
