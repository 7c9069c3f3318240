"""Running totals of what jobs count for: pending per tenant, leased per queue, units and what waits per key.

A change costs the same however many jobs there are. Both stores keep one, moved along in the same batch as the states;
the one on disk writes the totals that a batch touched, so that a take-over reads as many entries as there are tenants
and queues, and no state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from streams.store.interface import Counted

_PENDING: Final = b"p"
_LEASED: Final = b"l"
_UNITS: Final = b"u"
_WAITING: Final = b"w"


def pending_key(tenant: str) -> bytes:
    """Give where the totals have what is pending of a tenant."""
    return _PENDING + tenant.encode()


def leased_key(tenant: str, queue: str) -> bytes:
    """Give where the totals have what workers hold of a queue."""
    return _LEASED + f"{tenant}\0{queue}".encode()


def units_key(tenant: str, concurrency_key: str) -> bytes:
    """Give where the totals have what workers hold of a concurrency key."""
    return _UNITS + key_name(tenant, concurrency_key)


def key_name(tenant: str, concurrency_key: str) -> bytes:
    """Give the name of a concurrency key among all tenants."""
    return f"{tenant}\0{concurrency_key}".encode()


class Tallies:
    """Totals by encoded key; one that is zero is not there."""

    __slots__ = ("_weights", "totals")

    def __init__(self) -> None:
        self.totals: dict[bytes, int] = {}
        self._weights: dict[bytes, set[int]] = {}
        """Of each concurrency key, the weights of which runs wait: what the totals say, by key."""

    def pending(self, tenant: str) -> int:
        """Give how much of a tenant is pending."""
        return self.totals.get(pending_key(tenant), 0)

    def leased(self, tenant: str, queue: str) -> int:
        """Give how many runs of a queue workers hold."""
        return self.totals.get(leased_key(tenant, queue), 0)

    def units(self, tenant: str, concurrency_key: str) -> int:
        """Give how many units of a concurrency key the runs take that workers hold."""
        return self.totals.get(units_key(tenant, concurrency_key), 0)

    def waiting_weight(self, tenant: str, concurrency_key: str, weight_max: int) -> int:
        """Give the largest weight up to a bound of a run of a concurrency key that waits; 0 where none waits."""
        weights = self._weights.get(key_name(tenant, concurrency_key), ())
        return max((weight for weight in weights if weight <= weight_max), default=0)

    def waiting_among(self, names: Mapping[bytes, object]) -> AbstractSet[bytes]:
        """Give those of these concurrency keys (see `key_name`) of which runs wait; costs the smaller of both."""
        return self._weights.keys() & names.keys()

    def add(self, deltas: dict[bytes, int]) -> None:
        """Follow one batch, as `tally` gathered it."""
        for key, delta in deltas.items():
            total = self.totals.get(key, 0) + delta
            if total:
                self.totals[key] = total
            else:
                self.totals.pop(key, None)
            if key[:1] == _WAITING:
                self._follow_weight(key[1:-1], key[-1], waits=total > 0)

    def _follow_weight(self, name: bytes, weight: int, *, waits: bool) -> None:
        weights = self._weights.setdefault(name, set())
        if waits:
            weights.add(weight)
            return
        weights.discard(weight)
        if not weights:
            del self._weights[name]


def tally(deltas: dict[bytes, int], counted: Counted, sign: int) -> None:
    """Note what one job's state adds (1) or no longer adds (-1)."""
    tenant, queue, pending, leased, concurrency_key, weight, ready = counted
    if pending:
        key = _PENDING + tenant
        deltas[key] = deltas.get(key, 0) + sign * pending
    if leased:
        key = _LEASED + tenant + b"\0" + queue
        deltas[key] = deltas.get(key, 0) + sign * leased
    if concurrency_key:
        name = tenant + b"\0" + concurrency_key
        if leased:
            key = _UNITS + name
            deltas[key] = deltas.get(key, 0) + sign * leased * weight
        if ready:
            key = b"%b%b%c" % (_WAITING, name, weight)
            deltas[key] = deltas.get(key, 0) + sign * ready
