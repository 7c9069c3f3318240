"""The in-memory Kafka must be as dangerous as the real one: each line of the table in facts A2 is a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.harness.memory_broker import BrokerError, MemoryBroker
from tests.simulation.harness.virtual_time import World

if TYPE_CHECKING:
    from collections.abc import Iterator

LEDGER = "ledger"


@pytest.fixture
def world() -> Iterator[World]:
    world = World(seed=1, start_ms=1_000_000)
    yield world
    world.end()


@pytest.fixture
def broker(world: World) -> MemoryBroker:
    broker = MemoryBroker(world, partitions=2)
    broker.join("", lambda _generation, _partitions: None)
    return broker


def send(broker: MemoryBroker, membership: tuple[int, str], offset: int = 5) -> int:
    epoch = broker.init_transactions("t")
    broker.produce("t", epoch, (LEDGER, 0), key=b"k", value=b"v", headers=())
    broker.send_offsets("t", epoch, {("commands", 0): offset}, membership)
    return epoch


def values(broker: MemoryBroker, *, committed: bool = True) -> list[bytes | None]:
    return [entry.value for entry in broker.read(LEDGER, 0, 0, committed=committed)]


def test_the_current_generation_commits(broker: MemoryBroker) -> None:
    epoch = send(broker, (1, "member-1"))
    broker.end_transaction("t", epoch, commit=True)

    assert values(broker) == [b"v"]
    assert broker.committed["commands", 0] == 5


@pytest.mark.parametrize(
    ("membership", "code"),
    [((0, "member-1"), "ILLEGAL_GENERATION"), ((2, "member-1"), "ILLEGAL_GENERATION"), ((1, "m"), "UNKNOWN_MEMBER_ID")],
)
def test_another_generation_or_member_is_refused(broker: MemoryBroker, membership: tuple[int, str], code: str) -> None:
    with pytest.raises(BrokerError) as caught:
        send(broker, membership)

    assert caught.value.code == code
    assert broker.stale_refused == 1


def test_generation_minus_one_with_no_member_is_not_checked(broker: MemoryBroker) -> None:
    epoch = send(broker, (-1, ""))
    broker.end_transaction("t", epoch, commit=True)

    assert broker.committed["commands", 0] == 5


def test_the_end_of_a_transaction_is_not_checked_against_the_generation(broker: MemoryBroker) -> None:
    epoch = send(broker, (1, "member-1"))
    broker.join("", lambda _generation, _partitions: None)
    broker.join("member-1", lambda _generation, _partitions: None)
    broker.end_transaction("t", epoch, commit=True)

    assert broker.generation == 2
    assert values(broker) == [b"v"]


def test_a_second_initialisation_ends_and_fences(broker: MemoryBroker) -> None:
    epoch = send(broker, (1, "member-1"))
    broker.init_transactions("t")

    with pytest.raises(BrokerError, match="_FENCED"):
        broker.end_transaction("t", epoch, commit=True)
    assert values(broker) == []
    assert broker.stable_end(LEDGER, 0) == broker.end(LEDGER, 0)


def test_the_stable_offset_is_withheld_while_a_transaction_has_one_for_it(broker: MemoryBroker) -> None:
    epoch = send(broker, (1, "member-1"))
    during = (broker.stable_offset(("commands", 0)), broker.stable_offset(("commands", 1)))
    broker.end_transaction("t", epoch, commit=True)

    assert during == (None, 0)
    assert broker.stable_offset(("commands", 0)) == 5


def test_the_stable_end_stops_at_the_first_open_record(broker: MemoryBroker) -> None:
    broker.append(LEDGER, 0, b"k", b"before")
    epoch = send(broker, (1, "member-1"))
    broker.append(LEDGER, 0, b"k", b"behind")
    during = (broker.stable_end(LEDGER, 0), values(broker), values(broker, committed=False))
    broker.end_transaction("t", epoch, commit=False)

    assert during == (1, [b"before"], [b"before", b"v", b"behind"])
    assert values(broker) == [b"before", b"behind"]


def test_an_open_transaction_is_aborted_after_its_time(world: World, broker: MemoryBroker) -> None:
    epoch = send(broker, (1, "member-1"))
    world.run(11_000)

    with pytest.raises(BrokerError, match="_FENCED"):
        broker.end_transaction("t", epoch, commit=True)
    assert values(broker) == []


def test_a_second_identical_end_is_as_good_as_the_first(broker: MemoryBroker) -> None:
    epoch = send(broker, (1, "member-1"))
    broker.end_transaction("t", epoch, commit=True)
    broker.end_transaction("t", epoch, commit=True)

    assert values(broker) == [b"v"]


def test_a_silent_member_is_dropped_and_its_partitions_move(world: World) -> None:
    broker, told = MemoryBroker(world, partitions=2), []
    first = broker.join("", lambda generation, partitions: told.append(("first", generation, partitions)))
    second = broker.join("", lambda generation, partitions: told.append(("second", generation, partitions)))
    broker.join(first, lambda generation, partitions: told.append(("first", generation, partitions)))

    def beat() -> None:
        answer = broker.heartbeat(second, broker.generation)
        if answer == "rebalance":
            broker.join(second, lambda generation, partitions: told.append(("second", generation, partitions)))
        world.at(1_000, beat)

    beat()
    world.run(10_000)

    assert told == [("first", 1, [0, 1]), ("first", 2, [0]), ("second", 2, [1]), ("second", 3, [0, 1])]
    assert broker.heartbeat(first, 2) == "unknown"
