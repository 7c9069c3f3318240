"""`python -m streams.demo.tether PROGRAM ARGUMENT...`: become that program, and end (SIGTERM) when the parent is gone.

Linux only; elsewhere the program just runs. So a demo that is killed leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_SET_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2); it survives execve."""


def main() -> None:
    """Tie and become."""
    program, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    os.execv(program, [program, *arguments])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
