"""Hands each record of topic `config` to the book whose keys begin like it.

Every gateway reads the topic whole at its start and follows it, so all know the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.dispatch.client import DispatchClient


class Book(Protocol):
    """One kind of configuration."""

    key_prefix: str

    def heard(self, key: str, value: bytes | None) -> None:
        """Take a record; None deletes. A value that cannot be read changes nothing."""
        ...


class ConfigBooks:
    """All books of one gateway."""

    def __init__(self, client: DispatchClient, books: Sequence[Book]) -> None:
        self._books = books
        client.on_config_change = self._heard
        for key, value in client.config.items():
            self._heard(key, value)

    def _heard(self, key: str, value: bytes | None) -> None:
        for book in self._books:
            if key.startswith(book.key_prefix):
                book.heard(key, value)
                return
