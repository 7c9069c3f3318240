"""Commands on their way out, packed per partition: 5 ms of linger when idle, growing to 50 ms under load.

Commands that nobody waits for by the millisecond (reports of workers, requests for runs that are due later) wait for
company up to 50 ms as soon as there is company. Each record costs the broker and the owner's transaction the same
whatever it holds, and what they save is the lateness of runs.

Pure: time comes in as monotonic milliseconds. An owner pays per record, not per command (facts B5), so under load fewer
and fuller batches are worth a few milliseconds; all partitions leave together, since one transaction of the owner
covers them all.
"""

from __future__ import annotations

from typing import Final

from streams.core.commands import AnyCommand, Complete, Define, Fail, Trigger

LINGER_MS_IDLE: Final = 5.0
LINGER_MS_BUSY: Final = 50.0
"""Both from DESIGN section 6, Pace."""

COMPANY_COMMANDS_PER_S: Final = 500
"""Rate at which patient commands wait their longest. Far below it they would wait alone, and save nobody anything."""

BUSY_COMMANDS_PER_S: Final = 8_000
"""Rate of one gateway at which the linger is longest: some 3,500 runs/s with their leases and completions."""

BATCH_COMMANDS_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 256 * 1024
"""A batch is one Kafka record; with one more command of the largest size it stays well below the broker's 1 MB."""

IDLE_AFTER_MS: Final = 1_000
"""A pause this long ends a busy phase."""

_COMMAND_BYTES: Final = 200
"""Ids and numbers of one command, about."""

_RATE_WEIGHT: Final = 0.3
"""Of the newest sample in the moving rate: some three flushes to follow a change."""


class Packer:
    """Pending commands of all partitions."""

    def __init__(self, linger_ms_idle: float = LINGER_MS_IDLE, linger_ms_busy: float = LINGER_MS_BUSY) -> None:
        self._idle_ms, self._busy_ms = linger_ms_idle, linger_ms_busy
        self._pending: dict[int, list[AnyCommand]] = {}
        self._bytes: dict[int, int] = {}
        self._added = 0
        self._flushed_at_ms: float | None = None
        self._rate_per_s = 0.0

    def add(self, partition: int, command: AnyCommand) -> bool:
        """Queue a command. True: that partition's batch is full and should leave now."""
        self._added += 1
        pending = self._pending.get(partition)
        if pending is None:
            pending = self._pending[partition] = []
            self._bytes[partition] = 0
        pending.append(command)
        size = self._bytes[partition] + _COMMAND_BYTES + _extra_bytes(command)
        self._bytes[partition] = size
        return len(pending) >= BATCH_COMMANDS_MAX or size >= BATCH_BYTES_MAX

    def take(self, partition: int) -> tuple[AnyCommand, ...]:
        """Give and forget what waits for one partition."""
        self._bytes.pop(partition, None)
        return tuple(self._pending.pop(partition, ()))

    def take_all(self, now_ms: float) -> list[tuple[int, tuple[AnyCommand, ...]]]:
        """Give and forget everything as (partition, commands), and learn from how much came since the last time."""
        self._learn(now_ms)
        taken = [(partition, tuple(commands)) for partition, commands in self._pending.items()]
        self._pending.clear()
        self._bytes.clear()
        return taken

    def linger_ms(self, *, patient: bool = False) -> float:
        """Give how long a command should wait for company."""
        load = min(self._rate_per_s / (COMPANY_COMMANDS_PER_S if patient else BUSY_COMMANDS_PER_S), 1.0)
        return self._idle_ms + (self._busy_ms - self._idle_ms) * load

    def __bool__(self) -> bool:
        return bool(self._pending)

    def _learn(self, now_ms: float) -> None:
        if self._flushed_at_ms is not None:
            elapsed_ms = max(now_ms - self._flushed_at_ms, 1.0)
            sample = self._added * 1000 / elapsed_ms
            # After a pause the old rate says nothing.
            weight = 1.0 if elapsed_ms >= IDLE_AFTER_MS else _RATE_WEIGHT
            self._rate_per_s += (sample - self._rate_per_s) * weight
        self._flushed_at_ms = now_ms
        self._added = 0


def _extra_bytes(command: AnyCommand) -> int:
    if isinstance(command, Complete):
        return len(command.result)
    if isinstance(command, Define):
        return 1000 + len(command.definition.payload)
    if isinstance(command, Trigger):
        return len(command.payload or b"")
    if isinstance(command, Fail):
        return len(command.error)
    return 0
