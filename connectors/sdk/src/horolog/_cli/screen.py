"""Printing: tables and lines for people, one JSON document for programs. Plain when not a terminal or NO_COLOR."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

_STYLES: Mapping[str, str] = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
_CLEAR = "\x1b[H\x1b[2J"


class Screen:
    """Where a command writes. `out` is standard output, `notes` standard error."""

    def __init__(self, out: TextIO, notes: TextIO, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._out = out
        self._notes = notes
        self._terminal = out.isatty()
        self._colour = self._terminal and not environment.get("NO_COLOR")

    def line(self, text: str = "", style: str = "") -> None:
        """Write one line."""
        self._out.write(self.styled(text, style) + "\n")

    def note(self, text: str) -> None:
        """Tell a person something beside the result."""
        self._notes.write(text + "\n")

    def styled(self, text: str, style: str) -> str:
        """Give the text with its style, where styles are shown."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._colour and text else text

    def json(self, document: Any) -> None:
        """Write a JSON document."""
        self._out.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write rows in columns."""
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        widths = [max(len(line[i]) for line in [list(titles), *cells]) for i in range(len(titles))]
        self.line(_padded(titles, widths), "bold")
        for row in cells:
            self.line(_padded(row, widths))

    def fields(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Write names and values in two columns, leaving out what is not there."""
        shown = [(name, value) for name, value in pairs if value not in (None, "", [], {})]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self.line(f"{self.styled(name.ljust(width), 'bold')}  {text}")

    def clear(self) -> None:
        """Begin a new picture: on a terminal the screen is emptied, elsewhere a line says that a new one begins."""
        self._out.write(_CLEAR if self._terminal else "---\n")

    def flush(self) -> None:
        """Hand everything over now."""
        self._out.flush()


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def last_line(text: str | None, width: int = 80) -> str:
    """Give the last line of a text, which says most in a traceback, cut to a width."""
    lines = (text or "").strip().splitlines()
    line = lines[-1] if lines else ""
    return line if len(line) <= width else line[: width - 3] + "..."


def compact(value: Any) -> str:
    """Write a value of a definition on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
