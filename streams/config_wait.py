"""When a shard waits for topic `config`: a definition is never decided on calendars that the owner has not read yet.

Three waits, each with an end, so that a broker without that topic stops nothing for long:

- after a take-over nothing is decided before the topic was read to its end, since the predecessor may have read more;
- a command that names how far its gateway had read holds the partition's inputs until the owner has read as far;
- a definition from Kafka that names an unknown calendar holds them until everything is read that was written before the
  definition arrived. What is unknown then, is unknown.

A wait that ended by time is not begun again before the reader has moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.core.commands import Define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.core.commands import AnyCommand
    from streams.core.definition import Definition
    from streams.inbox import Inbox
    from streams.owner_config import OwnerConfig

WAIT_MS_MAX: Final = 4_000
"""Below the gateway's wait for a reply (10 s) and far below a lease (30 s), whose heartbeats wait behind."""


class ConfigWait:
    """What one shard waits for."""

    def __init__(self, config: OwnerConfig) -> None:
        self._config = config
        self._acting = False
        self._first_look = config.ask()
        self._hold: _Hold | None = None
        self.until_ms: int | None = None
        """Broker time at which the present wait ends; None: nothing is waited for."""
        self._gave_up_at: tuple[int, int] | None = None
        self._definitions_known_to = 0
        """Definitions below this offset arrived before the last look began."""

    def begin(self, now_ms: int) -> None:
        """Begin the wait of a take-over."""
        self.until_ms = now_ms + WAIT_MS_MAX

    @property
    def acting(self) -> bool:
        """Whether the take-over's wait is over."""
        return self._acting or self._config.looked(self._first_look)

    def may_act(self, now_ms: int) -> bool:
        """Tell whether decisions may be made at all."""
        if not self._acting:
            timed_out = self.until_ms is not None and now_ms >= self.until_ms
            if not timed_out and not self._config.looked(self._first_look):
                return False
            self._acting, self.until_ms = True, None
        return True

    @property
    def holds_inputs(self) -> bool:
        """Whether inputs wait, as far as the reader is."""
        return self._hold is not None and not self._hold.is_over(self._config)

    def may_take(self, now_ms: int) -> bool:
        """Tell whether inputs may be taken; ends a wait whose time is over."""
        hold = self._hold
        if hold is None:
            return True
        if not hold.is_over(self._config):
            if self.until_ms is not None and now_ms < self.until_ms:
                return False
            self._gave_up_at = self._config.place
        self._definitions_known_to = max(self._definitions_known_to, hold.definitions_to)
        self._hold = self.until_ms = None
        return True

    def hold_commands(self, commands: Sequence[AnyCommand], now_ms: int) -> bool:
        """Tell whether commands have to wait for the reader; the wait begins then."""
        needed = max((command.config_offset for command in commands if type(command) is Define), default=0)
        return needed > self._config.next_offset and self._begin(_Hold(next_offset=needed), now_ms)

    def hold_definition(self, definition: Definition, offset: int, inbox: Inbox, now_ms: int) -> bool:
        """Tell whether a definition from Kafka has to wait for the reader; the wait begins then."""
        if not definition.calendars or offset < self._definitions_known_to:
            return False
        known = self._config.calendars.of(definition.tenant)
        if all(name in known for name in definition.calendars):
            return False
        return self._begin(_Hold(look=self._config.ask(), definitions_to=inbox.delivered("definitions")), now_ms)

    def _begin(self, hold: _Hold, now_ms: int) -> bool:
        if hold.is_over(self._config) or self._gave_up_at == self._config.place:
            return False
        self._hold, self.until_ms = hold, now_ms + WAIT_MS_MAX
        return True


class _Hold:
    """What has to be read."""

    def __init__(self, *, next_offset: int = 0, look: int = 0, definitions_to: int = 0) -> None:
        self._next_offset = next_offset
        self._look = look
        self.definitions_to = definitions_to

    def is_over(self, config: OwnerConfig) -> bool:
        return config.next_offset >= self._next_offset and config.looked(self._look)
