"""What people see: a row for each attempt as it ends, chapters between them, and on a terminal a line of state below.

Plain lines where the output is no terminal or NO_COLOR is set.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from streams.demo.jobs import way_of

if TYPE_CHECKING:
    from types import TracebackType

    from streams.demo.journal import Attempt

_COLUMNS: Final = (
    ("way", 5),
    ("job", 32),
    ("scheduled for (UTC)", 19),
    ("late ms", 8),
    ("attempt", 7),
    ("worker", 10),
    ("outcome", 10),
)
OUTCOMES: Final = {"complete": "ran", "fail": "failed", "release": "given back"}
_STYLES: Final = {"ran": "green", "failed": "yellow", "given back": "dim"}
REFRESH_PER_S: Final = 4
LATE_MS: Final = 1_000
"""From here on a lateness is marked: it should be a few milliseconds."""


class Screen:
    """Writes to standard output; use as a context manager."""

    def __init__(self) -> None:
        self._plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
        self._console = Console(highlight=False)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_status()

    def chapter(self, text: str) -> None:
        """Say what happens now."""
        self._write(text, "bold cyan")

    def alarm(self, text: str) -> None:
        """Say something that must not be overlooked."""
        self._write(text, "bold red")

    def say(self, text: str, style: str = "") -> None:
        """Say something."""
        self._write(text, style)

    def header(self) -> None:
        """Write the columns' names."""
        self._write("".join(f"{title:<{width}}  " for title, width in _COLUMNS).rstrip(), "bold")

    def row(self, attempt: Attempt) -> None:
        """Write one attempt."""
        outcome = OUTCOMES.get(attempt.outcome, attempt.outcome)
        scheduled = dt.datetime.fromtimestamp(attempt.scheduled_ms / 1000, dt.UTC)
        cells = (
            way_of(attempt.job_id),
            attempt.job_id,
            scheduled.strftime("%H:%M:%S.%f")[:-3],
            f"{attempt.late_ms:>7}",
            str(attempt.attempt),
            attempt.worker,
            outcome,
        )
        text = "".join(f"{cell:<{width}}  " for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
        late = outcome == "ran" and attempt.attempt == 1 and attempt.late_ms > LATE_MS
        self._write(text.rstrip(), "magenta" if late else _STYLES.get(outcome, ""))

    def status(self, text: str) -> None:
        """Show one line of state below the rows; nothing where lines are plain."""
        if self._plain:
            return
        line = Text(text, style="reverse")
        if self._live is None:
            self._live = Live(line, console=self._console, refresh_per_second=REFRESH_PER_S, transient=True)
            self._live.start()
        else:
            self._live.update(line)

    def end_status(self) -> None:
        """Take that line away."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _write(self, text: str, style: str) -> None:
        if self._plain:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        else:
            self._console.print(Text(text, style=style))
