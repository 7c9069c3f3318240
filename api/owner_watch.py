"""Notices a dead owner before topic `owners` says so: its commands get no answer, and its query address is deaf.

Both must hold: a slow owner accepts connections, and one whose queries fail may still decide. What is taken for gone is
answered 503 `no_owner` at once instead of 504 after ten seconds; any answer, or another entry in `owners`, ends that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from api.dispatch.client import DispatchClient

SILENT_MS: Final = 1_500
"""A command without an answer for so long is unusual: an owner commits within some 100 ms."""

PROBE_S: Final = 0.5
"""How long a connection may take; the owner is in the same network."""

LOOK_S: Final = 0.5


async def accepts(url: str) -> bool:
    """Tell whether somebody listens at a URL's address, within PROBE_S."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(PROBE_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError, ValueError):
        return False
    writer.close()
    return True


class OwnerWatch:
    """Looks at silent partitions, one probe for each address at a time."""

    def __init__(self, client: DispatchClient, probe: Callable[[str], Awaitable[bool]] = accepts) -> None:
        self._client, self._probe = client, probe
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="owner-watch")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self, *, all_of_them: bool = False) -> None:
        """Probe the owners of partitions that owe an answer (or all) and mark those that are deaf as gone."""
        client = self._client
        partitions = list(client.owners) if all_of_them else client.silent_partitions(SILENT_MS)
        views = {partition: client.owners[partition] for partition in partitions if partition in client.owners}
        urls = list({view.query_url for view in views.values()})
        heard = dict(zip(urls, await asyncio.gather(*map(self._probe, urls)), strict=True))
        for partition, view in views.items():
            if not heard[view.query_url]:
                client.mark_gone(partition, view)
            elif all_of_them:
                client.mark_back(partition)
