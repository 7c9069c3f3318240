"""What connects the dispatch client with the log: three things to send, three to hear. No rule of dispatch lives here.

Implementations: `kafka_link.KafkaLink` (real), `memory_link.MemoryLink` (tests, simulator). All listener calls come in
the event loop's thread, whole batches at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from schemas.codec import TooLarge

if TYPE_CHECKING:
    from streams.core.envelopes import CommandBatch, Demand, Offers, OwnerView, ReplyBatch

SendFailure = Literal["not_written", "unknown"]
"""`not_written`: certainly not in the log (503). `unknown`: it may be (504)."""

UNENCODABLE: Final = (OverflowError, TooLarge)
"""A number of more than 64 bits, or more bytes than one record may have."""

SendDone = Callable[[int | None, SendFailure | None], None]
"""Called once with (LogAppendTime or None, failure or None)."""


ConfigDone = Callable[[int | None, SendFailure | None], None]
"""Called once with (offset of the record or None, failure or None)."""


class ConfigRecord(NamedTuple):
    """A record of topic `config`; a value of None deletes."""

    key: str
    value: bytes | None
    offset: int


class TimedReplies(NamedTuple):
    """A record of topic `replies` and the broker's time of it."""

    log_append_ms: int
    batch: ReplyBatch


class LinkListener(Protocol):
    """Who hears. Each call takes everything that arrived together."""

    def on_offers(self, offers: Sequence[Offers]) -> None:
        """Offers for this gateway id, of any incarnation."""
        ...

    def on_replies(self, replies: Sequence[TimedReplies]) -> None:
        """Committed replies for this gateway id."""
        ...

    def on_owners(self, owners: Sequence[tuple[int, OwnerView | None]]) -> None:
        """(partition, owner); None: the partition has no owner. The first call holds all that is known at the start."""
        ...

    def on_config(self, records: Sequence[ConfigRecord]) -> None:
        """Records of topic `config`, all of them from its beginning."""
        ...


class Link(Protocol):
    """A way to the log for one gateway."""

    @property
    def healthy(self) -> bool:
        """False after an error that only a restart heals."""
        ...

    async def start(self, listener: LinkListener) -> None:
        """Connect. When it returns, every answer to a command sent from now on will be heard."""
        ...

    def send(self, partition: int, batch: CommandBatch, done: SendDone) -> None:
        """Write commands with acks=all to that partition of `commands`. Never blocks; failures go to `done`.

        Raises one of UNENCODABLE if no record can hold the batch; then nothing was sent, and `done` is not called.
        """
        ...

    def publish_demand(self, demand: Demand) -> None:
        """Write a hint; a lost one is replaced by the next."""
        ...

    def write_config(self, key: str, value: bytes | None, done: ConfigDone) -> None:
        """Write one record of topic `config` with acks=all. It is heard as every other one."""
        ...

    async def stop(self) -> None:
        """Send what was accepted, within a few seconds, and disconnect."""
        ...
