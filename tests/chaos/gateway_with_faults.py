"""A gateway process that ends or freezes itself on a run's way through it, when told to.

    python gateway_with_faults.py DIRECTORY

It is the gateway of `horologd gateway`, configured by HOROLOG_*; orders and journal are those of
scheduler_with_faults.py. Its steps, in the order of a run's way:

    request   lease requests are about to be written
    grant     a grant was read and lies at no worker yet
    hand_out  a poll has its grants and is about to be answered
    answer    the answer is about to leave through HTTP
    report    a completion is about to be written
    reported  the reply to a completion was read and not told yet

With the hit the journal has the grants at hand: [run id, lease token] each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.dispatch.client import DispatchClient
from api.dispatch.kafka_link import KafkaLink
from api.dispatch.lease_desk import LeaseDesk
from api.routes import leases
from api.server import run_gateway
from schemas.config import load_settings
from streams.core.commands import Complete, Grant, LeaseRun
from tests.chaos import newer_schema
from tests.chaos.control import Control, end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streams.core.envelopes import CommandBatch


def _before(control: Control, step: str, grants: Iterable[Grant] = ()) -> None:
    control.at_hand = {"grants": [(grant.run_id, grant.lease_token) for grant in grants]}
    control.before(step)


def watch(control: Control) -> None:
    """Put the steps into the gateway's classes."""
    _watch_requests(control)
    _watch_grants(control)
    _watch_completions(control)


def _watch_requests(control: Control) -> None:
    send = KafkaLink.send

    def sending(self: KafkaLink, partition: int, batch: CommandBatch, done: Any) -> None:
        if any(isinstance(command, LeaseRun) for command in batch.commands):
            _before(control, "request")
        if any(isinstance(command, Complete) for command in batch.commands):
            _before(control, "report")
        send(self, partition, batch, done)

    _put(KafkaLink, "send", sending)


def _watch_grants(control: Control) -> None:
    on_answer, resolve = LeaseDesk.on_answer, LeaseDesk._resolve
    note_leased: Callable[..., None] = leases._note_leased

    def answered(self: LeaseDesk, request_id: str, reply: Any, log_append_ms: int) -> None:
        if isinstance(reply, Grant):
            _before(control, "grant", [reply])
        on_answer(self, request_id, reply, log_append_ms)

    def resolving(self: LeaseDesk, poll: Any, grants: list[Grant]) -> None:
        if grants:
            _before(control, "hand_out", grants)
        resolve(self, poll, grants)

    def noting(gateway: Any, grants: list[Grant], now_ms: int) -> None:
        if grants:
            _before(control, "answer", grants)
        note_leased(gateway, grants, now_ms)

    _put(LeaseDesk, "on_answer", answered)
    _put(LeaseDesk, "_resolve", resolving)
    _put(leases, "_note_leased", noting)


def _watch_completions(control: Control) -> None:
    complete = DispatchClient.complete

    async def completing(self: DispatchClient, runs: Any) -> Any:
        results = await complete(self, runs)
        _before(control, "reported")
        return results

    _put(DispatchClient, "complete", completing)


def _put(owner: object, name: str, seam: object) -> None:
    """Replace a method of the program under test."""
    setattr(owner, name, seam)


def main(directory: Path) -> int:
    """Run a gateway under control."""
    end_with_parent()
    newer_schema.know()
    watch(Control(directory))
    return run_gateway(load_settings())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
