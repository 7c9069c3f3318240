"""The proxy of the harness by itself: what it passes, delays, holds, swallows and loses, between two plain sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from streams.kafka_dev import free_ports, wait_until
from tests.chaos.harness.proxy import OPEN, Door, Network, Rule, Way

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCE, END_TRANSACTION = 0, 26
WAIT_S = 20.0
SHORT_S = 0.3
"""In which nothing may come."""


def request(api: int, number: int) -> bytes:
    body = api.to_bytes(2, "big") + b"\0\0" + number.to_bytes(4, "big") + b"asked"
    return len(body).to_bytes(4, "big") + body


def answer(number: int) -> bytes:
    body = number.to_bytes(4, "big") + b"told"
    return len(body).to_bytes(4, "big") + body


class Pair:
    """A client's socket and the broker's end of the same connection."""

    def __init__(self, door: Door, listener: socket.socket) -> None:
        self.client = socket.create_connection(("127.0.0.1", door.port), WAIT_S)
        self.broker, _ = listener.accept()
        self.broker.settimeout(WAIT_S)

    def sends(self, data: bytes, *, up: bool) -> None:
        (self.client if up else self.broker).sendall(data)

    def gets(self, data: bytes, *, up: bool) -> None:
        reader = self.broker if up else self.client
        found = b""
        while len(found) < len(data):
            piece = reader.recv(len(data) - len(found))
            assert piece, f"closed after {found!r}"
            found += piece
        assert found == data

    def nothing(self, *, up: bool) -> None:
        reader = self.broker if up else self.client
        reader.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            reader.recv(1)
        reader.settimeout(WAIT_S)

    def closed(self) -> None:
        for end in (self.client, self.broker):
            with suppress(ConnectionError):
                assert end.recv(1) == b""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(WAIT_S)
        yield listener


@pytest.fixture
def door(listener: socket.socket) -> Door:
    (ports,) = free_ports(1)
    return Door("D", ports.broker, listener.getsockname()[1])


@pytest.fixture
def network(door: Door) -> Iterator[Network]:
    with Network([door]) as network:
        yield network


@pytest.fixture
def pair(network: Network, door: Door, listener: socket.socket) -> Iterator[Pair]:
    assert network.doors == [door]
    pair = Pair(door, listener)
    yield pair
    pair.client.close()
    pair.broker.close()


def test_an_open_door_passes_both_ways(pair: Pair, door: Door) -> None:
    pair.sends(request(PRODUCE, 1), up=True)
    pair.gets(request(PRODUCE, 1), up=True)
    pair.sends(answer(1), up=False)
    pair.gets(answer(1), up=False)
    assert not door.counts


def test_what_was_swallowed_is_gone_and_healing_closes_its_connection(pair: Pair, network: Network, door: Door) -> None:
    network.obey(door, Rule(up=Way(passage="swallow")))
    pair.sends(request(PRODUCE, 1), up=True)
    pair.nothing(up=True)
    pair.sends(answer(0), up=False)
    pair.gets(answer(0), up=False)  # the other way is open
    assert door.counts["bytes_swallowed"] == len(request(PRODUCE, 1))
    network.obey(door, OPEN)
    pair.closed()


def test_what_was_held_comes_late_on_the_same_connection(pair: Pair, network: Network, door: Door) -> None:
    network.obey(door, Rule(down=Way(passage="hold")))
    pair.sends(answer(1), up=False)
    pair.nothing(up=False)
    network.obey(door, OPEN)
    pair.gets(answer(1), up=False)
    assert door.counts["frames_held"] == 1


def test_only_the_named_answer_is_lost_as_often_as_was_said(
    pair: Pair, network: Network, door: Door, listener: socket.socket
) -> None:
    network.obey(door, Rule(lose=frozenset({"end_transaction"}), lose_times=1))
    pair.sends(request(PRODUCE, 1) + request(END_TRANSACTION, 2), up=True)
    pair.gets(request(PRODUCE, 1) + request(END_TRANSACTION, 2), up=True)  # both arrive
    pair.sends(answer(1), up=False)
    pair.gets(answer(1), up=False)
    pair.sends(answer(2), up=False)
    pair.closed()
    assert door.lost() == {"end_transaction": 1}
    again = Pair(door, listener)
    again.sends(request(END_TRANSACTION, 3), up=True)
    again.gets(request(END_TRANSACTION, 3), up=True)
    again.sends(answer(3), up=False)
    again.gets(answer(3), up=False)
    again.client.close()
    again.broker.close()


def test_a_slow_link_takes_its_time(pair: Pair, network: Network, door: Door) -> None:
    network.obey(door, Rule(up=Way(latency_s=0.2, bytes_per_s=100.0)))
    began = time.monotonic()
    pair.sends(request(PRODUCE, 1), up=True)
    pair.gets(request(PRODUCE, 1), up=True)
    assert time.monotonic() - began >= 0.2
    assert door.counts["frames_delayed"] == door.counts["frames_slowed"] == 1


def test_a_door_that_refuses_closes_what_was_open_and_what_comes(pair: Pair, network: Network, door: Door) -> None:
    network.obey(door, Rule(refuse=True))
    pair.closed()
    late = socket.create_connection(("127.0.0.1", door.port), WAIT_S)
    late.settimeout(WAIT_S)
    with closing(late), suppress(ConnectionError):
        assert late.recv(1) == b""
    assert door.counts["refused"] == 1


def test_a_connection_that_was_just_being_opened_is_closed_as_well(
    network: Network, door: Door, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_connection = asyncio.open_connection

    async def opened_late(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        streams = await open_connection(host, port)
        while door.rule is OPEN:
            await door.wait_change()
        return streams

    monkeypatch.setattr(asyncio, "open_connection", opened_late)
    pair = Pair(door, listener)
    network.obey(door, Rule(refuse=True))
    pair.closed()
    pair.client.close()
    pair.broker.close()
    assert door.counts["closed"] == 1


def test_a_broker_that_is_not_there_is_counted(door: Door, listener: socket.socket) -> None:
    listener.close()
    with Network([door]), closing(socket.create_connection(("127.0.0.1", door.port), WAIT_S)):
        assert wait_until(lambda: door.counts["broker_absent"] == 1, WAIT_S)
    assert not any(thread.name == "network" for thread in threading.enumerate())
