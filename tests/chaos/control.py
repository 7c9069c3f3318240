"""What a program under test does to itself: it obeys orders from a file, and keeps a journal beside it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from tests.chaos.harness import clock

if TYPE_CHECKING:
    from pathlib import Path

PR_SET_PDEATHSIG: Final = 1
ACTIONS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def end_with_parent() -> None:
    """Let the kernel end this process with the one that started it (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Control:
    """The order of the moment, and the journal. `Steps` of the scheduler."""

    def __init__(self, directory: Path) -> None:
        self._order_path = directory / "order.json"
        self._journal = (directory / "journal.jsonl").open("a", buffering=1)
        self._seen = 0
        self._order: dict[str, Any] | None = None
        self._skip = 0
        self.consumes = True
        """Whether the transaction in flight consumes an input record."""
        self.writes = 1
        """For how many partitions it writes."""
        self.at_hand: dict[str, object] = {}
        """Further fields for the journal when an order is carried out."""

    def before(self, step: str) -> None:
        """Obey the order if this is its moment."""
        self._read()
        order = self._order
        if order is None or order["step"] != step:
            return
        if order["inputs"] not in ("any", "some" if self.consumes else "none"):
            return
        if self.writes < order["writes"]:
            return
        if self._skip > 0:
            self._skip -= 1
            return
        self._order = None
        self.write("hit", order=order["id"], step=step, action=order["action"], **self.at_hand)
        # To this very thread, which then takes not one step more. Sent to the process, the signal goes to any of its
        # threads, and this one may have taken the step before that one has stopped them all.
        signal.pthread_kill(threading.get_ident(), ACTIONS[order["action"]])

    def write(self, what: str, **fields: object) -> None:
        """Add a line to the journal; it is with the kernel when this returns."""
        line = {"what": what, "at_ms": clock.judged_ms(), "pid": os.getpid(), **fields}
        self._journal.write(json.dumps(line) + "\n")

    def _read(self) -> None:
        try:
            stamp = self._order_path.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if stamp == self._seen:
            return
        self._seen = stamp
        self._order = json.loads(self._order_path.read_text())
        self._skip = self._order["skip"] if self._order else 0
