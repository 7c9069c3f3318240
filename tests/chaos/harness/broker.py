"""A Kafka for fault tests: one node that can be killed and started again, with a way of its own for each client.

Beside the direct listener, which the harness uses itself, the node has one listener for each door; each is advertised
at the port of a proxy, so that whoever came through a door keeps using it. Schedulers get one door each, the gateway
another: each can be cut off alone.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from streams.kafka_dev import HOST, KafkaCluster, PortTakenError, free_ports, port_is_free, wait_until
from tests.chaos.harness.cluster import BROKER
from tests.chaos.harness.proxy import Door, Network

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from streams.kafka_dev import KafkaNode

DOORS: Final = 4
"""Three schedulers (two, and one that joins) and the gateway."""

ATTEMPTS: Final = 5
"""Another program may take a port between the look and the start."""

RESTART_TIMEOUT_S: Final = 120.0
"""About 4 s on an idle machine; after kill -9 the logs are checked first."""


class Broker:
    """One node, its doors, and their network. A context manager: leaving it ends the node."""

    def __init__(
        self, root: Path, *, doors: int = DOORS, extra: Mapping[str, str] = BROKER, env: Mapping[str, str] | None = None
    ) -> None:
        """`env`: further environment of the node's process, such as a clock that can be set."""
        self._root = root
        self._count = doors
        self._extra = dict(extra)
        self._env = dict(env or {})
        self._kafka: KafkaCluster
        self.network: Network

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):
            self._prepare(self._root / f"try-{attempt}")
            try:
                with _environment(self._env):
                    self._kafka.start(tethered=True)
            except PortTakenError:
                if attempt == ATTEMPTS:
                    raise
                continue
            try:
                self.network.__enter__()
            except BaseException:
                self._kafka.stop()
                raise
            break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.network.__exit__(kind, error, trace)
        self._kafka.stop()

    def _prepare(self, root: Path) -> None:
        own, *others = free_ports(1 + self._count)
        doors = [Door(f"D{n}", ports.internal, ports.broker) for n, ports in enumerate(others, start=1)]
        direct = f"CLIENTS://{HOST}:{own.broker}"
        names = ["CLIENTS", "CONTROLLER", *(door.name for door in doors)]
        behind = [f"{door.name}://{HOST}:{door.target_port}" for door in doors]
        listeners = {
            "listeners": ",".join([direct, f"CONTROLLER://{HOST}:{own.controller}", *behind]),
            "advertised.listeners": ",".join([direct, *(f"{door.name}://{door.address}" for door in doors)]),
            "inter.broker.listener.name": "CLIENTS",
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "num.network.threads": "1",  # of each listener
        }
        self._kafka = KafkaCluster(root=root, ports=[own], extra={**listeners, **self._extra})
        self.network = Network(doors)

    @property
    def bootstrap_servers(self) -> str:
        """The direct way, for the harness itself."""
        return self._kafka.bootstrap_servers

    @property
    def doors(self) -> list[Door]:
        """All of them: the last is for the gateway."""
        return self.network.doors

    @property
    def gateway_door(self) -> Door:
        """The gateway's."""
        return self.doors[-1]

    @property
    def pid(self) -> int | None:
        """Of the node; None while it is gone."""
        process = self._node.process
        return None if process is None else process.pid

    def kill(self) -> None:
        """kill -9."""
        assert self._node.kill(), "the broker was gone already"

    def stop(self) -> None:
        """Stop in good order."""
        assert self._node.stop(), "the broker was gone already"

    def start(self) -> None:
        """Start it again on the same data; returns when it answers."""
        # A JVM that was killed is a zombie first, and gives its ports back when the last of its threads has ended.
        ports = self._node.ports
        own = (ports.broker, ports.controller, ports.internal)
        assert wait_until(lambda: all(map(port_is_free, own)), RESTART_TIMEOUT_S), "one of its ports is taken"
        with _environment(self._env):
            self._node.launch(tethered=True)
        self._node.wait_ready(RESTART_TIMEOUT_S)

    @property
    def _node(self) -> KafkaNode:
        return self._kafka.nodes[0]


@contextmanager
def _environment(extra: Mapping[str, str]) -> Iterator[None]:
    """Let a child inherit more than we have; the node takes its environment from this process."""
    before = {name: os.environ.get(name) for name in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
