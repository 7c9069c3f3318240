"""Exclusion calendars as the gateway has them: topic `config`, read by the same book as owners read it.

A definition that names calendars is checked in a thread of its own, since looking for its next occurrence may pass
over years of excluded days.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from api.definitions import check
from api.problems import Problem
from streams.core.calendar_records import CalendarBook, CalendarRecord, calendar_key, encode_calendar
from streams.core.time import (
    INSTALLED_ZONE_DATA,
    CalendarSpec,
    InvalidSchedule,
    check_calendar,
)
from streams.core.time.exclusions import CALENDAR_DATES_MAX, CALENDAR_RULES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.bodies import CalendarBody
    from api.dispatch.client import DispatchClient
    from streams.core.definition import Definition

CHECKS_AT_ONCE: Final = 2
"""Threads that compute for people; the loop needs the processor too."""

CALENDARS_PER_TENANT_MAX: Final = 1_000
"""Every process keeps all calendars in memory."""

RULE_CHARS_MAX: Final = 512
DESCRIPTION_CHARS_MAX: Final = 1_000


class CalendarShelf:
    """The calendars of all tenants, and how they are changed."""

    def __init__(self, client: DispatchClient) -> None:
        self._client = client
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        self.book = CalendarBook()

    def specs(self, tenant: str) -> Mapping[str, CalendarSpec]:
        """Give a tenant's calendars by name, as owners use them."""
        return self.book.calendars.of(tenant)

    def require(self, tenant: str, name: str) -> CalendarRecord:
        """Give a calendar. Raises Problem `unknown_calendar`."""
        record = self.book.record(tenant, name)
        if record is None:
            detail = f"calendar: there is no calendar {name!r}; create it with PUT /v1/calendars/{name}."
            raise Problem("unknown_calendar", detail, field="calendar")
        return record

    async def check(self, definition: Definition, *, now_ms: int) -> list[str]:
        """Give warnings for people. Raises Problem for what the core refuses."""
        if not definition.calendars:
            return check(definition, now_ms=now_ms)
        async with self._checks:
            return await asyncio.to_thread(check, definition, now_ms=now_ms, calendars=self.specs(definition.tenant))

    def config_offset(self, definition: Definition) -> int:
        """Give up to where an owner must have read to know the definition's calendars as they are known here."""
        offsets = [self.book.offset_of(definition.tenant, name) for name in definition.calendars]
        return max((offset + 1 for offset in offsets if offset is not None), default=0)

    async def declare(self, record: CalendarRecord) -> None:
        """Write a calendar that was checked. Raises DispatchError."""
        key, value = calendar_key(record.tenant, record.name), encode_calendar(record)
        self.book.take(key, value, await self._client.write_config(key, value))

    async def remove(self, record: CalendarRecord) -> None:
        """Delete a calendar. Raises DispatchError."""
        key = calendar_key(record.tenant, record.name)
        self.book.take(key, None, await self._client.write_config(key, None))

    async def record_of(
        self, body: CalendarBody, tenant: str, name: str, *, before: CalendarRecord | None, now_ms: int, actor: str
    ) -> CalendarRecord:
        """Make the record that a PUT asks for; the version rises only if it says something new. Raises Problem."""
        _check_sizes(body)
        if before is None and sum(1 for _ in self.book.of(tenant)) >= CALENDARS_PER_TENANT_MAX:
            detail = f"calendar: there are {CALENDARS_PER_TENANT_MAX} calendars; delete one that is not needed."
            raise Problem("invalid_field", detail, field="calendar", limit=CALENDARS_PER_TENANT_MAX)
        record = CalendarRecord(
            tenant=tenant,
            name=name,
            time_zone=body.time_zone,
            dates=tuple(dict.fromkeys(body.dates)),
            rules=tuple(dict.fromkeys(body.rules)),
            description=body.description,
            version=1 if before is None else before.version + 1,
            updated_at_ms=now_ms,
            actor=actor,
        )
        if before is not None and (before.spec, before.description) == (record.spec, record.description):
            return before
        async with self._checks:
            problem = await asyncio.to_thread(_refusal, record.spec, body)
        if problem is not None:
            raise problem
        return record


def _check_sizes(body: CalendarBody) -> None:
    for field, values, limit in (
        ("dates", body.dates, CALENDAR_DATES_MAX),
        ("rules", body.rules, CALENDAR_RULES_MAX),
        ("description", body.description, DESCRIPTION_CHARS_MAX),
    ):
        if len(values) > limit:
            detail = f"{field}: {len(values)}, at most {limit}; use less of it."
            raise Problem("invalid_field", detail, field=field, limit=limit)
    for index, rule in enumerate(body.rules):
        if len(rule) > RULE_CHARS_MAX:
            field = f"rules[{index}]"
            detail = f"{field}: {len(rule)} characters, at most {RULE_CHARS_MAX}; use several rules."
            raise Problem("invalid_field", detail, field=field, limit=RULE_CHARS_MAX)


def _refusal(spec: CalendarSpec, body: CalendarBody) -> Problem | None:
    """Say what is wrong with a calendar, in the field that the client wrote."""
    try:
        check_calendar(spec, INSTALLED_ZONE_DATA)
    except InvalidSchedule as error:
        if error.field == "time zone":
            field, code = "timeZone", "bad_time_zone"
        elif error.field == "calendar date":
            field, code = f"dates[{body.dates.index(error.text)}]", "invalid_field"
        else:
            field, code = _rule_at_fault(spec, body), "invalid_field"
        detail = f"{field}: {error.text[:RULE_CHARS_MAX]!r}: {error.reason}; {error.fix}."
        return Problem(code, detail, field=field, allowed=error.fix)
    return None


def _rule_at_fault(spec: CalendarSpec, body: CalendarBody) -> str:
    """Name the first rule that cannot stand alone; all of them where only together they are too much."""
    for index, rule in enumerate(body.rules):
        alone = msgspec.structs.replace(spec, dates=(), rules=(rule,))
        try:
            check_calendar(alone, INSTALLED_ZONE_DATA)
        except InvalidSchedule:
            return f"rules[{index}]"
    return "rules"
