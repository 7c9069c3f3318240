"""Calendar intervals: the same local time every n days, weeks or months, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.time.civil import DAY_S, END_DAY, MONTH_COUNT, MONTH_START, month_index

if TYPE_CHECKING:
    from streams.core.time.specs import CalendarUnit


class CalendarPattern:
    """Local seconds number k = 0, 1, ... from an anchor date. A short month uses its last day."""

    def __init__(self, unit: CalendarUnit, every: int, anchor_day: int, second_of_day: int) -> None:
        self._second = second_of_day
        self._monthly = unit == "month"
        self._anchor_day = anchor_day
        self._step_days = every * (7 if unit == "week" else 1)
        self._step_months = every
        if self._monthly:
            self._anchor_month = month_index(anchor_day)
            self._day_of_month = anchor_day - MONTH_START[self._anchor_month]

    def _day(self, step: int) -> int | None:
        if not self._monthly:
            day = self._anchor_day + step * self._step_days
            return day if day < END_DAY else None
        index = self._anchor_month + step * self._step_months
        if index >= MONTH_COUNT:
            return None
        length = MONTH_START[index + 1] - MONTH_START[index]
        return MONTH_START[index] + min(self._day_of_month, length - 1)

    def _local(self, step: int) -> int | None:
        day = self._day(step)
        return None if day is None else day * DAY_S + self._second

    def _steps_below(self, local_s: int) -> int:
        """How many of the local seconds lie before ``local_s``."""
        day = min(max(local_s // DAY_S, self._anchor_day), END_DAY - 1)
        if self._monthly:
            guess = (month_index(day) - self._anchor_month) // self._step_months
        else:
            guess = (day - self._anchor_day) // self._step_days
        at = self._local(guess)
        return guess + 1 if at is not None and at < local_s else guess

    def next_local(self, local_s: int) -> int | None:
        """Return the first match after ``local_s``."""
        return self._local(self._steps_below(local_s + 1))

    def previous_local(self, local_s: int) -> int | None:
        """Return the last match before ``local_s``."""
        step = self._steps_below(local_s) - 1
        return self._local(step) if step >= 0 else None

    def count_local(self, from_s: int, to_s: int) -> int:
        """Count matches in ``[from_s, to_s)``."""
        return max(self._steps_below(to_s) - self._steps_below(from_s), 0)
