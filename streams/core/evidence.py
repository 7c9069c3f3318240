"""What to look for in history to prove something about a job, and whether a record proves it. Pure.

The state of a job says when a thing was decided, not at which offset: that is known only after the commit. History is
in the order of time, so the record is found from the instant on; which record it is, is judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from streams.core.envelopes import HistoryEntry
    from streams.core.events import AnyEvent


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a job that is looked for."""

    events: tuple[str, ...]
    """Names of the events that prove it."""
    at_ms: int
    """It was not decided before this instant."""
    run_id: str = ""
    """Of this run, where an event names one."""
    slot_at_ms: int = 0
    """A skip that covers this occurrence."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Where it stands, and what it says."""

    topic: str
    partition: int
    offset: int
    event_type: str
    event: dict[str, object]


def proving(ask: Ask, entry: HistoryEntry) -> AnyEvent | None:
    """Return the event of a record that is the one looked for."""
    for event in entry.events:
        if type(event).__name__ in ask.events and event_matches(ask, event):
            return event
    return None


def event_matches(ask: Ask, event: AnyEvent) -> bool:
    """Tell whether an event of the right name is about the right run, occurrence and time."""
    at_ms: int = getattr(event, "at_ms", 0)
    if at_ms < ask.at_ms:
        return False
    run_id: str = getattr(event, "run_id", "")
    if run_id:
        return run_id == ask.run_id
    first_at_ms: int | None = getattr(event, "first_at_ms", None)
    if first_at_ms is None:
        return True
    last_at_ms: int = getattr(event, "last_at_ms", first_at_ms)
    return first_at_ms <= ask.slot_at_ms <= last_at_ms
