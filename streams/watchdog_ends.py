"""How often watchdogs ended the processes of one data directory: a count that outlives the process that it ends.

A counter in memory is gone with the process before anybody reads it. So the end is written to a file first, and the
next process of the same data slot begins with that count.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from streams.watchdog import THREAD_PREFIX, end_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE_NAME: Final = "watchdog-ends"
"""In the data slot: the count, and the reason of the last end in the line below it."""

WRITE_MAX_S: Final = 1.0
"""A disk that hangs may be why the process is ended; the end does not wait for it longer than this."""


class WatchdogEnds:
    """The count of one data slot."""

    def __init__(self, directory: Path, *, end: Callable[[str], None] = end_process) -> None:
        self._path = directory / FILE_NAME
        self._end = end
        self.count, self.reason = _read(self._path)
        """As earlier processes left them; 0 and empty where there was no end."""

    def end(self, reason: str) -> None:
        """Write that this process is ended, and end it."""
        writer = threading.Thread(target=self._write, args=(reason,), name=f"{THREAD_PREFIX}last-words", daemon=True)
        writer.start()
        writer.join(WRITE_MAX_S)
        self._end(reason)

    def _write(self, reason: str) -> None:
        first_line = " ".join(reason.split())
        try:
            self._path.write_text(f"{self.count + 1}\n{first_line}\n")
        except OSError:
            return  # a full disk must not keep the process from its end


def _read(path: Path) -> tuple[int, str]:
    """Read the file; one that is missing or damaged counts nothing."""
    try:
        count, _, reason = path.read_text().partition("\n")
        return max(0, int(count)), reason.strip()
    except (OSError, ValueError):
        return 0, ""
