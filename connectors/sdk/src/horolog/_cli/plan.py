"""What `apply` would do: pure comparison of wanted definitions with present jobs, field by field.

Both sides are first written in one form (defaults filled in, lengths in milliseconds, instants in UTC), so that a file
that says the same in other words changes nothing.

`paused` is no field of the definition but a state: `true`, `false` or `{"note", "until"}` in the file asks for it, and
a file that does not name it leaves it as it is.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horolog._wire import UTC, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CREATE, CHANGE, DELETE, KEEP = "+", "~", "-", "="
PAUSED = "paused"

DEFAULTS: Mapping[str, Any] = {
    "queue": "default",
    "payload": None,
    "catchUp": "latest",
    "overlap": "skip",
    "timeoutSeconds": None,
    "startDeadlineSeconds": None,
    "lane": "normal",
    "labels": {},
    "startAt": None,
    "endAt": None,
    "maxRuns": None,
    "jitterSeconds": 0,
    "calendars": [],
    "concurrencyKey": None,
    "concurrencyWeight": 1,
}
_FIELDS = frozenset(DEFAULTS) | {"name", "task", "retry", "schedule", "runAt", "runAtLocal", "timeZone"}
RETRY_DEFAULTS: Mapping[str, Any] = {"maxAttempts": 5, "backoff": "exponential", "maxSeconds": 600}
BASE_SECONDS = {"fixed": 1}  # else 0: the backoff has no floor
_LENGTH = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_INSTANTS = ("startAt", "endAt", "runAt")
_MISSING = object()


@dataclass(frozen=True)
class Change:
    """One field that differs; a side that lacks it has None."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Step:
    """What happens to one job. `version` is that of the present one (0: there is none).

    `pause`: None leaves the pause state alone, False resumes, an object (`note`, `until`) pauses. A pause goes with the
    definition, its note and end after it; `defines` says whether the definition changes at all.
    """

    action: str
    job_id: str
    version: int = 0
    definition: Mapping[str, Any] | None = None
    changes: tuple[Change, ...] = ()
    pause: Mapping[str, Any] | bool | None = None

    @property
    def defines(self) -> bool:
        """Whether the definition is sent, and not only the pause state."""
        return self.action == CREATE or any(change.field != PAUSED for change in self.changes)


def plan(
    wanted: Mapping[str, Mapping[str, Any]],
    present: Mapping[str, Mapping[str, Any]],
    owned: Iterable[Mapping[str, Any]],
) -> list[Step]:
    """Give one step a job: the wanted ones in their order, then the deletions of `owned` jobs that are not wanted."""
    steps = [_step(job_id, definition, present.get(job_id)) for job_id, definition in wanted.items()]
    steps += [
        Step(DELETE, job["jobId"], job["version"])
        for job in sorted(owned, key=lambda job: str(job["jobId"]))
        if job["jobId"] not in wanted and job.get("state") != "deleted"
    ]
    return steps


def _step(job_id: str, wanted: Mapping[str, Any], job: Mapping[str, Any] | None) -> Step:
    definition = {name: value for name, value in wanted.items() if name != PAUSED}
    pause = {} if wanted.get(PAUSED) is True else wanted.get(PAUSED)
    if job is None or job.get("state") == "deleted":
        change = _pause_change(None, pause)
        return Step(CREATE, job_id, 0, definition, change, pause if change else None)
    change = _pause_change(job.get(PAUSED), pause)
    changes = (*diff(normal(job, job_id), normal(definition, job_id)), *change)
    return Step(CHANGE if changes else KEEP, job_id, job["version"], definition, changes, pause if change else None)


def _pause_change(present: Any, wanted: Any) -> tuple[Change, ...]:
    """Give the change of the pause state; what the file does not name, `paused` or a part of it, is no change."""
    if wanted is None:
        return ()
    before = {name: _pause_part(present, name) for name in ("note", "until")} if present else False
    if isinstance(wanted, dict) and isinstance(before, dict):
        asked = {name: _pause_part(wanted, name) for name in wanted}
        if all(before[name] == value for name, value in asked.items()):
            return ()
        return (Change(PAUSED, _pause_text(before), _pause_text(asked)),)
    if wanted is False and before is False:
        return ()
    return (Change(PAUSED, _pause_text(before), _pause_text(wanted)),)


def _pause_part(pause: Mapping[str, Any], name: str) -> Any:
    value = pause.get(name) or None
    return _instant(value) if name == "until" and value is not None else value


def _pause_text(pause: Any) -> Any:
    """Write a pause state as a file does."""
    given = {name: value for name, value in pause.items() if value is not None} if isinstance(pause, dict) else {}
    return given or pause is not False


def diff(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> list[Change]:
    """Give the fields that differ, with their dotted paths; payloads are compared whole."""
    changes: list[Change] = []
    for name in sorted(set(before) | set(after)):
        old, new = before.get(name, _MISSING), after.get(name, _MISSING)
        if old == new:
            continue
        inner = f"{path}{name}"
        if isinstance(old, dict) and isinstance(new, dict) and inner != "payload":
            changes += diff(old, new, f"{inner}.")
        else:
            changes.append(Change(inner, None if old is _MISSING else old, None if new is _MISSING else new))
    return changes


def normal(definition: Mapping[str, Any], job_id: str) -> dict[str, Any]:
    """Write a definition (or the definition in a job object) in the one form."""
    given = {name: value for name, value in definition.items() if name in _FIELDS and value is not None}
    form: dict[str, Any] = {**DEFAULTS, "name": job_id, **given}
    form.setdefault("task", form["name"])
    form["retry"] = _retry(given.get("retry") or {})
    form["calendars"] = [_calendar(calendar) for calendar in form["calendars"]]
    for name in _INSTANTS:
        if form.get(name) is not None:
            form[name] = _instant(form[name])
    if "schedule" in form:
        form["schedule"] = _schedule(form["schedule"])
    return form


def _retry(retry: Mapping[str, Any]) -> dict[str, Any]:
    form = {**RETRY_DEFAULTS, **{name: value for name, value in retry.items() if value is not None}}
    form.setdefault("baseSeconds", BASE_SECONDS.get(form["backoff"], 0))
    return form


def _calendar(calendar: Any) -> Any:
    return calendar["name"] if isinstance(calendar, dict) and calendar.get("mode", "exclude") == "exclude" else calendar


def _schedule(schedule: Any) -> Any:
    if not isinstance(schedule, dict):
        return schedule
    form = {name: value for name, value in schedule.items() if value is not None}
    if "every" in form:
        form["every"] = _every_ms(form["every"])
        form["anchor"] = _instant(form.get("anchor", "1970-01-01T00:00:00Z"))
        return form
    form.setdefault("gap", "shift")
    form.setdefault("overlapHour", "first")
    if isinstance(form.get("everyCalendar"), dict):
        calendar = {"every": 1, "timeZone": "UTC", **form["everyCalendar"]}
        if calendar.get("unit") == "year":
            calendar.update(unit="month", every=calendar["every"] * 12)
        form["everyCalendar"] = calendar
    else:
        form.setdefault("timeZone", "UTC")
    return form


def _every_ms(every: Any) -> Any:
    parts = _LENGTH.findall(every) if isinstance(every, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != every:
        return every  # a number of milliseconds, or wrong: the gateway will say so
    return sum(int(number) * _UNIT_MS[unit] for number, unit in parts)


def _instant(text: Any) -> Any:
    try:
        normal_text = text[:-1] + "+00:00" if text[-1:] in {"Z", "z"} else text
        at = dt.datetime.fromisoformat(normal_text)
    except (TypeError, ValueError):
        return text
    return format_time(at.replace(tzinfo=UTC) if at.tzinfo is None else at)
