"""Which lane of a queue comes next: 70/20/10, exactly and deterministically (DESIGN section 7, point 3).

A wheel of ten places holds seven times high, twice normal, once low, spread out. A place whose lane is empty is used
by the next lower lane that is not; below low it goes to the highest lane that is not empty. So with high
empty normal gets 90 and low 10; with normal empty high gets 70 and low 30; with low empty high gets 80.
"""

from __future__ import annotations

from typing import Final

HIGH: Final = 0
NORMAL: Final = 1
LOW: Final = 2

LANES: Final = ("high", "normal", "low")
"""Highest first; the position is the lane's number."""

LANE_NUMBER: Final = {name: number for number, name in enumerate(LANES)}

_H, _N, _L = HIGH, NORMAL, LOW
WHEEL: Final = (_H, _H, _N, _H, _H, _L, _H, _H, _N, _H)


class LaneWheel:
    """The turn of one queue. It moves only when a run is taken."""

    __slots__ = ("_place",)

    def __init__(self) -> None:
        self._place = 0

    def next_lane(self, filled: tuple[bool, bool, bool]) -> int | None:
        """Give the lane to take from, and move on; None (and no move) if all are empty."""
        if not any(filled):
            return None
        wanted = WHEEL[self._place]
        self._place = (self._place + 1) % len(WHEEL)
        for step in range(len(LANES)):
            lane = (wanted + step) % len(LANES)
            if filled[lane]:
                return lane
        raise AssertionError(filled)
