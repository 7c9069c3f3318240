"""Gateways and SDK workers as processes of their own, beside the schedulers of a cluster."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal

from schemas.config import env_name
from streams.audit.journals import Execution
from streams.kafka_dev import free_ports, wait_until
from tests.chaos.harness.cluster import ASK_TIMEOUT_S, CHECKOUT, Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.chaos.harness.cluster import Cluster

READY_TIMEOUT_S: Final = 120.0
SDK_QUEUE: Final = "sdk"

GatewayStep = Literal["request", "grant", "hand_out", "answer", "report", "reported"]
STEPS: Final[tuple[GatewayStep, ...]] = ("request", "grant", "hand_out", "answer", "report", "reported")


class GatewayProcess(Scheduler):
    """One gateway under control; it comes back on the same port."""

    program = CHECKOUT / "tests" / "chaos" / "gateway_with_faults.py"

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ready(self) -> bool:
        """Ask whether calls can be answered."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=ASK_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except (OSError, ValueError):
            return False

    def wait_ready(self) -> None:
        """Wait for that."""
        assert wait_until(lambda: self.ready, READY_TIMEOUT_S), f"{self.name} is not ready: {self.log()[-15:]}"

    def grants_at_hand(self, order: int) -> list[tuple[str, int]]:
        """Give (run id, lease token) of what lay in its hands when it carried an order out."""
        return [
            (run_id, token)
            for line in self.journal()
            if line["what"] == "hit" and line["order"] == order
            for run_id, token in line["grants"]
        ]


class SdkWorker(Scheduler):
    """One worker on the SDK."""

    program = CHECKOUT / "tests" / "chaos" / "sdk_worker.py"

    def __init__(self, name: str, directory: Path, environment: Mapping[str, str], gateway: GatewayProcess) -> None:
        super().__init__(name, directory, environment, 0)
        self._url = gateway.url

    def arguments(self) -> list[str]:
        """See Scheduler."""
        return [self._url, SDK_QUEUE, self.name, str(self.directory / "journal.jsonl")]

    def executions(self) -> list[Execution]:
        """Give what it wrote down; without an end where it died or was stopped in the middle."""
        moments: dict[tuple[str, int], dict[str, dict[str, int]]] = defaultdict(dict)
        for line in self.journal():
            moments[line["run_id"], line["lease_token"]][line["what"]] = line
        return [
            Execution(
                run_id=run_id,
                attempt=began["attempt"],
                lease_token=token,
                worker_id=self.name,
                scheduled_at_ms=began["scheduled_at_ms"],
                started_at_ms=began["at_ms"],
                ended_at_ms=what["ended"]["at_ms"] if "ended" in what else 0,
            )
            for (run_id, token), what in moments.items()
            if (began := what.get("began"))
        ]


def start_gateways(cluster: Cluster, count: int) -> list[GatewayProcess]:
    """Start gateways on free ports; returns when all are ready."""
    gateways = []
    for number in range(count):
        (ports,) = free_ports(1)
        environment = {**cluster.environment, env_name("gateway.port"): str(ports.broker)}
        gateways.append(GatewayProcess(f"g{number + 1}", cluster.root / f"g{number + 1}", environment, ports.broker))
    for gateway in gateways:
        gateway.start()
    for gateway in gateways:
        gateway.wait_ready()
    return gateways
