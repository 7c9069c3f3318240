"""Who waits for a queue, at this gateway and at the others: their demand reaches owners, and any owner tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from api.problems import Problem

if TYPE_CHECKING:
    from api.gateway import Gateway


class Polling(NamedTuple):
    """Workers that wait for a queue."""

    calls: int = 0
    slots: int = 0
    gateways: int = 0

    def plus(self, calls: int, slots: int) -> Polling:
        """Add one gateway's."""
        return Polling(self.calls + calls, self.slots + slots, self.gateways + 1)


NOBODY = Polling()


async def polling_of(gateway: Gateway, tenant: str) -> dict[str, Polling]:
    """Give what waits for each queue of a tenant. Without an owner, what waits here is all that is known."""
    own = {queue: counts for (owner, queue), counts in gateway.client.desk.polling().items() if owner == tenant}
    found = {queue: NOBODY.plus(*counts) for queue, counts in own.items()}
    try:
        rows = await gateway.queries.polling(tenant)
    except Problem:
        return found
    for row in rows:
        if row.gateway_id != gateway.client.gateway_id:  # of this one the owner's word is older
            found[row.queue] = found.get(row.queue, NOBODY).plus(row.calls, row.slots)
    return found
