"""Running totals of what jobs count for: pending per tenant, leased per queue.

A change costs the same however many jobs there are. Both stores keep one, moved along in the same batch as the states;
the one on disk writes the totals that a batch touched, so that a take-over reads as many entries as there are tenants
and queues, and no state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.store.interface import Counted

_PENDING: Final = b"p"
_LEASED: Final = b"l"


class Tallies:
    """Totals by encoded key; one that is zero is not there."""

    __slots__ = ("totals",)

    def __init__(self) -> None:
        self.totals: dict[bytes, int] = {}

    def pending(self, tenant: str) -> int:
        """Give how much of a tenant is pending."""
        return self.totals.get(_PENDING + tenant.encode(), 0)

    def leased(self, tenant: str, queue: str) -> int:
        """Give how many runs of a queue workers hold."""
        return self.totals.get(_LEASED + f"{tenant}\0{queue}".encode(), 0)

    def add(self, deltas: dict[bytes, int]) -> None:
        """Follow one batch, as `tally` gathered it."""
        for key, delta in deltas.items():
            total = self.totals.get(key, 0) + delta
            if total:
                self.totals[key] = total
            else:
                self.totals.pop(key, None)


def tally(deltas: dict[bytes, int], counted: Counted, sign: int) -> None:
    """Note what one job's state adds (1) or no longer adds (-1)."""
    tenant, queue, pending, leased = counted
    if pending:
        key = _PENDING + tenant
        deltas[key] = deltas.get(key, 0) + sign * pending
    if leased:
        key = _LEASED + tenant + b"\0" + queue
        deltas[key] = deltas.get(key, 0) + sign * leased
