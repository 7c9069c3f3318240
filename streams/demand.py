"""What gateways say their waiting workers could take: a table of hints, whole per gateway, forgotten after silence.

Losing all of it costs seconds of lateness and never a run (DESIGN section 4). Pure: time comes in as an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.core.envelopes import Demand

FORGET_AFTER_MS: Final = 5_000
"""A gateway refreshes every second; after five missed ones it is gone."""

GATEWAYS_MAX: Final = 1_000
"""More than any deployment has; a flood of made-up gateway ids cannot grow the table beyond it."""


class GatewayDemand(msgspec.Struct):
    """The latest word of one gateway."""

    incarnation: str
    heard_at_ms: float
    slots: dict[tuple[str, str], int]
    """(tenant, queue) to free slots."""
    calls: dict[tuple[str, str], int] = {}
    """(tenant, queue) to waiting lease calls."""


class PollingRow(msgspec.Struct, frozen=True):
    """Who waits for a queue at one gateway."""

    gateway_id: str
    queue: str
    slots: int
    calls: int


class DemandTable:
    """The demand of all gateways, by monotonic time."""

    def __init__(self) -> None:
        self._gateways: dict[str, GatewayDemand] = {}

    def update(self, demand: Demand, now_monotonic_ms: float) -> None:
        """Replace what a gateway said before."""
        if demand.gateway_id not in self._gateways and len(self._gateways) >= GATEWAYS_MAX:
            return
        slots = {(queue.tenant, queue.queue): queue.slots for queue in demand.queues if queue.slots > 0}
        calls = {(queue.tenant, queue.queue): queue.calls for queue in demand.queues if queue.slots > 0}
        self._gateways[demand.gateway_id] = GatewayDemand(demand.incarnation, now_monotonic_ms, slots, calls)

    def forget_silent(self, now_monotonic_ms: float) -> None:
        """Drop the gateways that were not heard from for FORGET_AFTER_MS."""
        silent = [
            gateway_id
            for gateway_id, demand in self._gateways.items()
            if now_monotonic_ms - demand.heard_at_ms > FORGET_AFTER_MS
        ]
        for gateway_id in silent:
            del self._gateways[gateway_id]

    def incarnation(self, gateway_id: str) -> str | None:
        """Return the present incarnation of a gateway; None where it is not known."""
        demand = self._gateways.get(gateway_id)
        return demand.incarnation if demand else None

    def queues(self) -> dict[tuple[str, str], list[tuple[str, int]]]:
        """Return (tenant, queue) to its (gateway id, slots), for every queue that somebody waits for."""
        wanted: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for gateway_id, demand in self._gateways.items():
            for queue, slots in demand.slots.items():
                wanted.setdefault(queue, []).append((gateway_id, slots))
        return wanted

    def polling(self, tenant: str) -> list[PollingRow]:
        """Return who waits for a tenant's queues, for people."""
        return [
            PollingRow(gateway_id, key[1], slots, demand.calls.get(key, 0))
            for gateway_id, demand in self._gateways.items()
            for key, slots in demand.slots.items()
            if key[0] == tenant
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(self._gateways)

    def __len__(self) -> int:
        return len(self._gateways)
