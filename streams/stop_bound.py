"""Ends a process that has given everything up and still does not end, because a client hangs while it closes.

librdkafka waits on conditions by the wall clock: a wait that began before the clock was set back an hour lasts an hour
longer, and closing waits for it. By then every partition is given up and every transaction is over, so nothing is lost
by ending at once; a supervisor would send SIGKILL after 30 s.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from streams.watchdog import THREAD_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSE_MAX_S: Final = 10.0
"""Closing takes a second; Kubernetes grants 30 s from SIGTERM to SIGKILL."""


def end_now(code: int) -> None:
    """End the process without closing anything."""
    sys.stderr.flush()
    os._exit(code)


class StopBound:
    """`begin` when everything is given up; `done` when all is closed."""

    def __init__(self, *, close_max_s: float = CLOSE_MAX_S, end: Callable[[int], None] = end_now) -> None:
        self._close_max_s = close_max_s
        self._end = end
        self._done = threading.Event()

    def begin(self, code: int) -> None:
        """End the process with this code if it takes too long from here."""
        threading.Thread(target=self._wait, args=(code,), name=f"{THREAD_PREFIX}stop-bound", daemon=True).start()

    def done(self) -> None:
        """All is closed."""
        self._done.set()

    def _wait(self, code: int) -> None:
        if not self._done.wait(self._close_max_s):
            sys.stderr.write(
                f"horologd: closing connections took over {self._close_max_s:g} s after all partitions were given up; "
                "the process ends without it, and nothing is lost; was the machine's clock set back?\n"
            )
            self._end(code)
