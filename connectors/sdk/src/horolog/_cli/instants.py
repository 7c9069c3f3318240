"""Times as people read and write them: in the job's zone and in UTC."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import TYPE_CHECKING, Any

from horolog._cli.exits import usage
from horolog._wire import UTC, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def zone_of(job: Mapping[str, Any] | None) -> str:
    """Give the name of the zone that a job's schedule is written in; UTC where it has none."""
    if not job:
        return "UTC"
    schedule = job.get("schedule") or {}
    calendar = schedule.get("everyCalendar") or {}
    return str(schedule.get("timeZone") or calendar.get("timeZone") or job.get("timeZone") or "UTC")


def _zone(name: str) -> dt.tzinfo:
    try:
        return UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return UTC  # no zone data on this host, or a name of a newer one: UTC is never wrong


def utc(text: str | None) -> str:
    """Write an instant of the API in UTC, without the T."""
    if not text:
        return ""
    return parse_time(text).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def local(text: str | None, zone: str) -> str:
    """Write an instant in a zone, with the day of the week and the offset."""
    if not text:
        return ""
    at = parse_time(text).astimezone(_zone(zone))
    offset = at.strftime("%z")
    return f"{at:%a %Y-%m-%d %H:%M:%S}{offset[:3]}:{offset[3:5]}"


def both(text: str | None, zone: str) -> str:
    """Write an instant in the zone and in UTC."""
    if not text:
        return "-"
    return utc(text) if zone == "UTC" else f"{local(text, zone)} {zone} ({utc(text)})"


def read_instant(text: str, zone: str, option: str) -> str:
    """Read `2026-12-01T09:00:00Z`, any offset, or a local time of `zone`; give RFC 3339. Raises CliError."""
    try:
        normal = text.strip()
        normal = normal[:-1] + "+00:00" if normal[-1:] in {"Z", "z"} else normal
        at = dt.datetime.fromisoformat(normal)
    except ValueError:
        examples = f"2026-12-01T09:00:00Z, or 2026-12-01T09:00 ({zone} time)"
        message = f"{option}: {text!r} is no time. Write for instance {examples}."
        raise usage(message) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=_zone(zone))
    return format_time(at)


def read_seconds(text: str, option: str) -> float:
    """Read `90`, `90s`, `20m`, `1h30m`; give seconds. Raises CliError."""
    try:
        return float(text)
    except ValueError:
        pass
    parts = _LENGTH.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        message = f"{option}: {text!r} is no length of time. Write for instance 90, 20m or 1h30m."
        raise usage(message)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
