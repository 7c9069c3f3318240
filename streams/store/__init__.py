"""The store of one partition: a cache of the ledger at one offset. Read `interface` first."""

from __future__ import annotations

from streams.store.interface import (
    UNCHANGED,
    DueEntry,
    IndexHeader,
    LedgerChange,
    LedgerRecord,
    ReadyKey,
    ReadyLine,
    Store,
    StoreClosedError,
    StoreCorruptError,
    StoreCounts,
    StoreError,
    StoreIdentity,
    StoreInUseError,
)

__all__ = [
    "UNCHANGED",
    "DueEntry",
    "IndexHeader",
    "LedgerChange",
    "LedgerRecord",
    "ReadyKey",
    "ReadyLine",
    "Store",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreCounts",
    "StoreError",
    "StoreIdentity",
    "StoreInUseError",
]
