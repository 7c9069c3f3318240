"""What gateways say that they could take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streams.demand
from streams.core.envelopes import Demand, QueueDemand
from streams.demand import FORGET_AFTER_MS, DemandTable

if TYPE_CHECKING:
    import pytest


def said(gateway_id: str, incarnation: str = "i", **slots: int) -> Demand:
    queues = tuple(QueueDemand(tenant="a", queue=queue, slots=number) for queue, number in slots.items())
    return Demand(gateway_id=gateway_id, incarnation=incarnation, sent_at_ms=0, queues=queues)


def test_each_word_of_a_gateway_replaces_the_one_before() -> None:
    table = DemandTable()
    table.update(said("g", q=3, r=1), 0)
    table.update(said("g", q=2), 1)
    assert table.queues() == {("a", "q"): [("g", 2)]}


def test_queues_list_all_gateways_that_wait() -> None:
    table = DemandTable()
    table.update(said("g", q=3), 0)
    table.update(said("h", q=5, r=0), 0)
    assert table.queues() == {("a", "q"): [("g", 3), ("h", 5)]}


def test_a_gateway_is_forgotten_after_five_silent_seconds() -> None:
    table = DemandTable()
    table.update(said("g", q=1), 0)
    table.update(said("h", q=1), 1_000)
    table.forget_silent(FORGET_AFTER_MS)
    assert [*table] == ["g", "h"]
    table.forget_silent(FORGET_AFTER_MS + 1)
    assert [*table] == ["h"]


def test_the_incarnation_is_that_of_the_last_word() -> None:
    table = DemandTable()
    table.update(said("g", "one", q=1), 0)
    table.update(said("g", "two", q=1), 1)
    assert table.incarnation("g") == "two"
    assert table.incarnation("nobody") is None


def test_made_up_gateways_cannot_grow_the_table_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.demand, "GATEWAYS_MAX", 2)
    table = DemandTable()
    for number in range(5):
        table.update(said(f"g{number}", q=1), 0)
    table.update(said("g1", q=7), 1)
    assert len(table) == 2
    assert table.queues() == {("a", "q"): [("g0", 1), ("g1", 7)]}
