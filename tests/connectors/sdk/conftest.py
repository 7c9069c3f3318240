"""Fixtures for the SDK's tests: a fake gateway, a recorder of events, and workers that are drained at the end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from horolog.testing import FakeGateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import horolog

DRAINED_SECONDS = 30.0  # real time; a worker that does not end fails its test


class Events:
    """Records a worker's events; `until` waits for one."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        self.seen.append((event, dict(fields)))
        self._changed.set()

    def names(self) -> list[str]:
        return [event for event, _ in self.seen]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.seen if name == event]

    async def until(self, event: str, *, count: int = 1, seconds: float = 20.0) -> dict[str, Any]:
        async def wait() -> None:
            while len(self.of(event)) < count:
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), seconds)
        return self.of(event)[count - 1]


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as fake:
        yield fake


@pytest.fixture
def working() -> Callable[[horolog.Worker], contextlib.AbstractAsyncContextManager[asyncio.Task[None]]]:
    """Return `async with working(worker)`: the worker runs inside and is drained afterwards."""

    @contextlib.asynccontextmanager
    async def work(worker: horolog.Worker) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.get_running_loop().create_task(worker.run_async())
        try:
            yield task
        finally:
            worker.stop()
            await asyncio.wait_for(task, DRAINED_SECONDS)

    return work
