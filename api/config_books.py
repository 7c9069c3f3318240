"""Hands each record of topic `config` to the book whose keys begin like it.

Every gateway reads the topic whole at its start and follows it, so all know the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.dispatch.client import DispatchClient
    from api.dispatch.link import ConfigRecord
    from streams.core.calendar_records import CalendarBook


class Book(Protocol):
    """One kind of configuration."""

    key_prefix: str

    def heard(self, key: str, value: bytes | None) -> None:
        """Take a record; None deletes. A value that cannot be read changes nothing."""
        ...


class ConfigBooks:
    """All books of one gateway. Calendars go by the offsets of their records, as owners go by them."""

    def __init__(self, client: DispatchClient, books: Sequence[Book], calendars: CalendarBook) -> None:
        self._books, self._calendars = books, calendars
        client.on_config_change = self._heard
        for record in client.config.values():
            self._heard(record)

    def _heard(self, record: ConfigRecord) -> None:
        self._calendars.take(*record)
        for book in self._books:
            if record.key.startswith(book.key_prefix):
                book.heard(record.key, record.value)
                return
