"""What a translation gives: jobs, and a remark for whatever the jobs do not say in the same way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

NOTE, LEFT_OUT, ERROR = "note", "left out", "error"


class Remark(NamedTuple):
    """`kind` is `note` (translated, with a difference), `left out` (has no translation) or `error` (cannot be read).

    `line` is 0 for what is about the whole file.
    """

    line: int
    kind: str
    text: str


@dataclass
class Translation:
    """Jobs in the form of `horolog apply`, and the remarks in the order of the file."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def note(self, line: int, text: str) -> None:
        """Name a difference."""
        self.remarks.append(Remark(line, NOTE, text))

    def leave_out(self, line: int, text: str) -> None:
        """Name what has no translation."""
        self.remarks.append(Remark(line, LEFT_OUT, text))

    def fail(self, line: int, text: str) -> None:
        """Name what cannot be read."""
        self.remarks.append(Remark(line, ERROR, text))

    def count(self, kind: str) -> int:
        """Count the remarks of a kind."""
        return sum(remark.kind == kind for remark in self.remarks)


class NotTranslatableError(ValueError):
    """What cannot be read or said; the text names the place within its line and the way out."""
