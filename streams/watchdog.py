"""Ends the process when its loop no longer turns.

The group's heartbeats come from a thread of the consumer, so a hung loop keeps its partitions and serves nobody
(facts B4). The watchdog is a thread too: it looks at the time of the loop's last turn and ends the process at once,
with a sentence
that says why, so that the partitions move and a supervisor starts a fresh one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_CODE: Final = 70
"""EX_SOFTWARE of sysexits: an internal error; supervisors restart."""

THREAD_PREFIX: Final = "horolog-"

LOOKS_PER_TIMEOUT: Final = 6
"""How often the thread looks within one time-out."""


def end_process(reason: str) -> None:
    """Write the reason and be gone at once, whatever the other threads do."""
    sys.stderr.write(reason + "\n")
    sys.stderr.flush()
    os._exit(EXIT_CODE)


def end_with_threads(end: Callable[[str], None] = end_process) -> None:
    """Let the process end with any thread of ours that dies: its readers would be silent, and nobody would know why."""

    def died(told: threading.ExceptHookArgs) -> None:
        name = told.thread.name if told.thread is not None else "?"
        sys.excepthook(told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback)
        if name.startswith(THREAD_PREFIX):
            end(f"horologd: the thread {name} died ({told.exc_type.__name__}: {told.exc_value}); ending the process")

    threading.excepthook = died


class Watchdog:
    """Watches one loop."""

    def __init__(
        self,
        timeout_ms: int,
        *,
        end: Callable[[str], None] = end_process,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1000.0,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._end = end
        self._monotonic_ms = monotonic_ms
        self._beaten_at_ms = monotonic_ms()
        self._looked_at_ms = self._beaten_at_ms
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="horolog-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self.beat()
        self._looked_at_ms = self._monotonic_ms()
        self._thread.start()

    def beat(self) -> None:
        """The loop has turned."""
        self._beaten_at_ms = self._monotonic_ms()

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def look(self) -> bool:
        """Judge once; False after the end was called for.

        If this thread itself was not run for longer than the time-out, the whole process was frozen (SIGSTOP, a
        laptop's sleep):
        the loop gets one time-out to turn again, and the broker's fencing judges the rest.
        """
        now_ms = self._monotonic_ms()
        frozen = now_ms - self._looked_at_ms > self._timeout_ms
        self._looked_at_ms = now_ms
        if frozen:
            self._beaten_at_ms = now_ms
            return True
        silence_ms = now_ms - self._beaten_at_ms
        if silence_ms <= self._timeout_ms:
            return True
        self._end(
            f"horologd: the scheduler's loop has not turned for {silence_ms:.0f} ms (bound {self._timeout_ms} ms); "
            "ending the process so that its partitions move; if this repeats, look for a blocking call "
            "or a starved machine"
        )
        return False

    def _run(self) -> None:
        while not self._stopping.wait(self._timeout_ms / LOOKS_PER_TIMEOUT / 1000):
            if not self.look():
                return
