"""Names that say where something belongs: run ids.

`run_id` is `run_<job_id>_<YYYYMMDDTHHMMSSmmmZ>`, from job and scheduled instant alone, and is parsed from the right
(DESIGN section 5): any gateway can route a heartbeat by it, a second opening of an occurrence has the same id.
Triggers, backfills and replays carry their own id (letters, digits, `.`, `:`, `-`; no underscore) in its place.
"""

from __future__ import annotations

import re
from typing import Final

from streams.core.definition import JOB_ID_PATTERN

_PREFIX: Final = "run_"
SUFFIX_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,63}")
"""No underscore: the last one in a run id ends the job id."""

BACKFILL_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9:-]{0,43}")
"""With a dot and an instant behind it, it must still be a suffix; no dot, so that it ends where the instant begins."""

_INSTANT_PATTERN: Final = re.compile(r"_(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$")

_MS_PER_DAY: Final = 86_400_000


def run_id_at(job_id: str, scheduled_at_ms: int) -> str:
    """Return the run id of an occurrence; `scheduled_at_ms` is epoch milliseconds, years 1 to 9999."""
    return f"run_{job_id}_{_instant_text(scheduled_at_ms)}"


def run_id_of_backfill(job_id: str, backfill_id: str, scheduled_at_ms: int) -> str:
    """Return the run id of a backfill slot: `run_<job_id>_<backfill_id>.<instant>`."""
    return run_id_named(job_id, f"{backfill_id}.{_instant_text(scheduled_at_ms)}")


def _instant_text(scheduled_at_ms: int) -> str:
    days, ms_of_day = divmod(scheduled_at_ms, _MS_PER_DAY)
    year, month, day = _civil(days)
    seconds, ms = divmod(ms_of_day, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04d}{month:02d}{day:02d}T{hour:02d}{minute:02d}{second:02d}{ms:03d}Z"


def run_id_named(job_id: str, suffix: str) -> str:
    """Return the run id of a trigger, backfill slot or replay."""
    if SUFFIX_PATTERN.fullmatch(suffix) is None:
        raise ValueError(f"run id suffix {suffix!r}: allowed are 1 to 64 of letters, digits, '.', ':' and '-'")
    return f"run_{job_id}_{suffix}"


def scheduled_at_of(run_id: str) -> int | None:
    """Return the instant (epoch ms) that the id of a scheduled run names; None for triggers, backfills and replays."""
    match = _INSTANT_PATTERN.search(run_id)
    if match is None:
        return None
    year, month, day, hour, minute, second, ms = (int(part) for part in match.groups())
    days = _days_since_epoch(year, month, day)
    instant_ms = days * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    return instant_ms if run_id.endswith(_instant_text(instant_ms)) else None


def is_instant(suffix: str) -> bool:
    """Tell whether a run id suffix has the form of a scheduled instant, which ids given by people may not have."""
    return scheduled_at_of("_" + suffix) is not None


def job_id_of(run_id: str) -> str | None:
    """Return the job id inside a run id, or None where the text is no run id."""
    if not run_id.startswith(_PREFIX):
        return None
    job_id, underscore, suffix = run_id[len(_PREFIX) :].rpartition("_")
    if not underscore or SUFFIX_PATTERN.fullmatch(suffix) is None or JOB_ID_PATTERN.fullmatch(job_id) is None:
        return None
    return job_id


def _civil(days_since_epoch: int) -> tuple[int, int, int]:
    """Proleptic Gregorian date of a day number (the usual era arithmetic with years that begin in March)."""
    era, day_of_era = divmod(days_since_epoch + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Day number of a proleptic Gregorian date: the inverse of `_civil`."""
    year_from_march = year - (month <= 2)
    era, year_of_era = divmod(year_from_march, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468
