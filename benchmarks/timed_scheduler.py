"""A scheduler process that writes down when each step of each commit began; bench_e2e explains late runs by it.

    python -m benchmarks.timed_scheduler FILE

Configured by HOROLOG_* like every scheduler. Writes `wall_ms step` lines once a second's worth has gathered, after the
`apply` step of a commit; `gc MS` lines tell pauses of Python's own collector that took more than 1 ms.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import TYPE_CHECKING, Final

from schemas.config import load_settings
from streams.app import run_scheduler

if TYPE_CHECKING:
    from typing import TextIO

LINES_GATHERED: Final = 300
"""About a second's worth: writing them takes well under a millisecond."""

GC_MS_MIN: Final = 1.0


class StepClock:
    """Notes the time of every step."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: list[str] = []
        self._gc_began_ms = 0.0
        gc.callbacks.append(self._collecting)

    def before(self, step: str) -> None:
        """Note one step of the commit order."""
        self._lines.append(f"{time.time() * 1000:.3f} {step}\n")
        if step == "apply" and len(self._lines) >= LINES_GATHERED:
            self._out.write("".join(self._lines))
            self._out.flush()
            self._lines.clear()

    def _collecting(self, phase: str, _info: dict[str, int]) -> None:
        now_ms = time.time() * 1000
        if phase == "start":
            self._gc_began_ms = now_ms
        elif now_ms - self._gc_began_ms >= GC_MS_MIN:
            self._lines.append(f"{self._gc_began_ms:.3f} gc {now_ms - self._gc_began_ms:.3f}\n")


def main() -> int:
    """Run a scheduler until SIGTERM."""
    with open(sys.argv[1], "a", encoding="ascii") as out:  # noqa: PTH123 - appended to line by line
        return run_scheduler(load_settings(), StepClock(out))


if __name__ == "__main__":
    sys.exit(main())
