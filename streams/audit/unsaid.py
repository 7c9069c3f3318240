"""Which answers an owner may have owed when it ended.

Replies leave after the commit that they tell of, so an owner that dies between the two leaves the answers of its last
commits unsaid; callers ask again. That excuses a command only if it was decided right before an owner's end: the
decisions around it in its partition say when that was.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from streams.audit.log_view import short_topic

if TYPE_CHECKING:
    from streams.audit.log_view import LogView

UNSAID_MS: Final = 2_000
"""Replies of commits this long before an owner's last one may still have been on their way, on a busy machine."""


class Unsaid:
    """Ends of owners and times of decisions, by partition."""

    def __init__(self, view: LogView) -> None:
        self._ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """(time of an owner's last marker, sequence number that would have come next), by partition."""
        for before, after in itertools.pairwise(view.markers):
            same = before.record.partition == after.record.partition
            if same and before.marker.transactional_id != after.marker.transactional_id:
                self._ends[before.record.partition].append((before.record.timestamp_ms, before.marker.next_seq))
        decided: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for item in view.history:
            cause = item.entry.cause
            if cause.kind == "command" and short_topic(cause.topic) == "commands":
                decided[cause.partition].append((cause.offset, item.entry.seq, item.record.timestamp_ms))
        self._decided = {partition: sorted(rows) for partition, rows in decided.items()}

    def possible(self, partition: int, offset: int) -> bool:
        """Tell whether the command at this offset may have been decided in an owner's last moments."""
        rows = self._decided.get(partition, [])
        before, after = bisect_left(rows, (offset + 1, 0, 0)), bisect_left(rows, (offset, 0, 0))
        not_before_seq = rows[before - 1][1] if before else 0
        not_after_ms = rows[after][2] if after < len(rows) else 2**62
        return any(
            not_before_seq < next_seq and not_after_ms >= end_ms - UNSAID_MS
            for end_ms, next_seq in self._ends[partition]
        )
