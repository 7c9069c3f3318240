"""Damage to the files of a store, and the proof that it is one: what the store says before and after, on copies.

Nothing here knows of schedulers. A store that is damaged may be thrown away (at opening, or at the first read), or
stand at an older offset than before; it must never look whole and be another. `harm` tries until there is damage to
be seen.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final, Literal

from streams.store.interface import StoreCorruptError, StoreError
from streams.store.rocks import RocksStore
from tests.chaos.harness.cluster import now_ms

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

How = Literal["bits", "truncated", "deleted"]

PATTERNS: Final = ("*.sst", "*.log", "MANIFEST-*", "CURRENT")
FLIP_EVERY_BYTES: Final = 1_024
FLIPS_MIN: Final = 4
TRIES_MAX: Final = 12


def stores_in(data_dir: Path) -> list[Path]:
    """Give the directories of all stores of all slots."""
    return sorted(path.parent for path in data_dir.glob("slot-*/stores/*/CURRENT"))


def offset_of(store: Path, scratch: Path) -> int | None:
    """Give the ledger offset that a copy of a store stands at; None where it cannot be read from end to end.

    Raises AssertionError for one that can be read and contradicts itself: damage that nobody would notice.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(store, scratch)
    try:
        opened = RocksStore(scratch, None, now_ms())
    except StoreError:
        return None
    try:
        opened.verify()
    except StoreCorruptError as error:
        if "disagree" in str(error):
            raise AssertionError(f"damage that nobody would notice: {error}") from error
        return None
    finally:
        opened.close()
    return opened.ledger_offset


def harm(store: Path, how: How, rng: random.Random, scratch: Path) -> str | None:
    """Damage one file of a store so that it can be seen. Returns what was done; None if no try led to damage."""
    before = offset_of(store, scratch / "before")
    for _ in range(TRIES_MAX):
        pattern = rng.choice(PATTERNS)
        found = sorted(path for path in store.glob(pattern) if path.stat().st_size or how == "deleted")
        if not found:
            continue
        name = rng.choice(found).name
        copy = scratch / "harmed"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(store, copy)
        _WAYS[how](copy / name, rng)
        after = offset_of(copy, scratch / "after")
        if after == before:
            continue
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        told = "unreadable" if after is None else f"at {after} instead of {before}"
        return f"{store.name}/{name} {told}"
    return None


def _flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(max(FLIPS_MIN, len(data) // FLIP_EVERY_BYTES)):
        bit = rng.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(data))


def _truncate(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def _delete(path: Path, _: random.Random) -> None:
    path.unlink()


_WAYS: Final[dict[How, Callable[[Path, random.Random], None]]] = {
    "bits": _flip,
    "truncated": _truncate,
    "deleted": _delete,
}
