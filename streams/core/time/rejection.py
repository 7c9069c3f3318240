"""What validation says: one exception for "cannot be scheduled", one value for "probably not what you meant"."""

from __future__ import annotations

import msgspec

#: How much of the offending text a message repeats; expressions can be kilobytes long.
SHOWN_TEXT_MAX = 80


class InvalidSchedule(ValueError):  # noqa: N818 - the public name in the contract, read as a sentence by callers
    """A schedule that is refused: names the field, the text, the reason and the fix."""

    def __init__(self, field: str, text: str, reason: str, fix: str) -> None:
        shown = text if len(text) <= SHOWN_TEXT_MAX else text[: SHOWN_TEXT_MAX - 3] + "..."
        self.field = field
        self.text = shown
        self.reason = reason
        self.fix = fix
        super().__init__(f"{field} {shown!r}: {reason}; {fix}")


class Warning_(msgspec.Struct, frozen=True):  # noqa: N801 - ``Warning`` is a builtin
    """An accepted schedule that may surprise its author. ``code`` is stable, ``message`` is for people."""

    code: str
    field: str
    text: str
    message: str
