"""Which part of the data directory a process has for itself, also when several share one on a host."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SLOTS_MAX: Final = 64
"""Schedulers of one host; one per core."""


class DataSlot:
    """The data directory of one process among several on a host: the first `slot-N` that nobody holds.

    A restart finds its slot, and with it warm stores, again; a second process beside it gets the next.
    """

    def __init__(self, data_dir: Path) -> None:
        for number in range(SLOTS_MAX):
            path = data_dir / f"slot-{number}"
            path.mkdir(parents=True, exist_ok=True)
            lock = (path / "lock").open("a")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            self._lock = lock
            self.path = path
            return
        raise RuntimeError(f"{data_dir}: all {SLOTS_MAX} slots are held by running schedulers; set another data_dir")

    def close(self) -> None:
        """Let the next process have it."""
        self._lock.close()
