"""Fixtures for the command line's tests: a fake gateway, and `horolog` as a function."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from horolog import cli
from horolog.testing import FakeGateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@dataclass(frozen=True)
class Said:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as fake:
        yield fake


@pytest.fixture
def horolog(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> Callable[..., Awaitable[Said]]:
    """Run one command line against the fake gateway; `pause` stands for the waiting of `--watch`."""

    async def call(*arguments: str, pause: Callable[[float], None] | None = None) -> Said:
        capsys.readouterr()
        options: dict[str, Any] = {} if pause is None else {"pause": pause}
        environment = {"HOROLOG_URL": gateway.url}
        code = await asyncio.to_thread(lambda: cli.run(arguments, environment=environment, **options))
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call
