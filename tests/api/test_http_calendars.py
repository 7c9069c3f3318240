"""Exclusion calendars over HTTP: made, read, listed, deleted, named by jobs, and followed by them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from streams.core.calendar_records import CalendarRecord, calendar_key, encode_calendar
from streams.core.commands import Define
from streams.core.events import CursorMoved

if TYPE_CHECKING:
    from tests.api.conftest import Api


def days(count: int) -> list[str]:
    """The next `count` dates in UTC, from today."""
    return [(datetime.now(UTC) + timedelta(days=number)).strftime("%Y-%m-%d") for number in range(count)]


DAILY = {"schedule": {"cron": "0 12 * * *"}}


async def test_a_calendar_is_made_read_changed_and_deleted(api: Api) -> None:
    body = {"timeZone": "Europe/Berlin", "dates": ["2027-12-25"], "rules": ["* * 31 12 *"], "description": "closed"}
    made = await api("PUT", "/v1/calendars/bank", body)
    assert (made.status, made.headers["ETag"]) == (201, '"1"')
    assert made.body | {"updatedAt": ""} == {
        "name": "bank", "tenant": "default", "version": 1, "updatedAt": "", "updatedBy": made.body["updatedBy"], **body,
    }  # fmt: skip
    same = await api("PUT", "/v1/calendars/bank", body)
    assert (same.status, same.body["version"]) == (200, 1)
    changed = await api("PUT", "/v1/calendars/bank", {"dates": ["2027-12-26"]}, If_Match='"1"')
    assert (changed.body["version"], changed.body["timeZone"], changed.body["rules"]) == (2, "UTC", [])
    stale = await api("PUT", "/v1/calendars/bank", {"dates": []}, If_Match='"1"')
    assert stale.problem() == (412, "version_mismatch", "If-Match")
    assert (await api("GET", "/v1/calendars/bank")).body == changed.body
    gone = await api("DELETE", "/v1/calendars/bank")
    assert gone.body == {"name": "bank", "version": 2, "state": "deleted"}
    assert (await api("GET", "/v1/calendars/bank")).problem() == (404, "unknown_calendar", "calendar")
    assert (await api("DELETE", "/v1/calendars/bank")).problem() == (404, "unknown_calendar", "calendar")


async def test_calendars_are_listed_by_name_in_pages(api: Api) -> None:
    for name in ("c", "a", "b"):
        await api("PUT", f"/v1/calendars/{name}", {})
    first = (await api("GET", "/v1/calendars?limit=2")).body
    assert [calendar["name"] for calendar in first["calendars"]] == ["a", "b"]
    second = (await api("GET", f"/v1/calendars?limit=2&cursor={first['nextCursor']}")).body
    assert [calendar["name"] for calendar in second["calendars"]] == ["c"]
    assert second["nextCursor"] is None
    assert (await api("GET", "/v1/calendars?cursor=x")).problem() == (400, "bad_header", "cursor")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"timeZone": "Mars/Olympus"}, "bad_time_zone", "timeZone"),
        ({"dates": ["2027-12-25", "25.12."]}, "invalid_field", "dates[1]"),
        ({"rules": ["* * 31 12 *", "0 9 * *"]}, "invalid_field", "rules[1]"),
        ({"rules": ["FREQ=DAILY;COUNT=9999"]}, "invalid_field", "rules[0]"),
        ({"rules": ["FREQ=MINUTELY"]}, "invalid_field", "rules[0]"),
        ({"rules": ["FREQ=WEEKLY;BYDAY=XX"]}, "invalid_field", "rules[0]"),
        ({"rules": ["0/15 * * * *"]}, "invalid_field", "rules[0]"),
        ({"rules": [f"0,20,40 {hour} * * *" for hour in range(24)]}, "invalid_field", "rules"),
        ({"rules": [f"FREQ=YEARLY;BYMONTH={month}" for month in range(1, 10)]}, "invalid_field", "rules"),
        ({"dates": ["2027-12-25"] * 10_001}, "invalid_field", "dates"),
        ({"rules": ["* * 1 1 *"] * 65}, "invalid_field", "rules"),
        ({"rules": ["* " * 300]}, "invalid_field", "rules[0]"),
        ({"dates": 7}, "invalid_field", "dates"),
        ({"days": []}, "unknown_field", "days"),
    ],
)  # fmt: skip
async def test_what_is_no_calendar_is_refused_and_the_field_named(api: Api, body: Any, code: str, field: str) -> None:
    assert (await api("PUT", "/v1/calendars/c", body)).problem() == (422, code, field)
    assert (await api("GET", "/v1/calendars")).body["calendars"] == []


async def test_a_job_on_a_calendar_runs_where_the_preview_says(api: Api) -> None:
    await api("PUT", "/v1/calendars/days", {"dates": days(3)})
    previewed = (await api("POST", "/v1/preview", DAILY | {"calendars": ["days"], "count": 2})).body["occurrences"]
    assert previewed[0]["at"][:10] not in days(3)
    made = await api("POST", "/v1/jobs", DAILY | {"name": "n", "calendars": ["days"]})
    assert made.body["nextRunAt"] == previewed[0]["at"]
    job_id = made.body["jobId"]
    assert (await api("GET", f"/v1/jobs/{job_id}")).body["calendars"] == ["days"]
    preview = (await api("GET", f"/v1/jobs/{job_id}/preview?count=2")).body["occurrences"]
    assert [row["at"] for row in preview] == [row["at"] for row in previewed]


async def test_jobs_follow_a_calendar_that_changes(api: Api) -> None:
    await api("PUT", "/v1/calendars/days", {"dates": []})
    job_id = await api.create(delaySeconds=None, calendars=["days"], **DAILY)
    first = api.owner.jobs[job_id].state.next_at_ms
    await api("PUT", "/v1/calendars/days", {"dates": days(3)})
    moved = (await api("GET", f"/v1/jobs/{job_id}")).body["nextRunAt"]
    assert moved[:10] not in days(3)
    await api("PUT", "/v1/calendars/days", {"dates": []})
    assert api.owner.jobs[job_id].state.next_at_ms == first
    events = [event for _, decision in api.owner.decided for event in decision.events if isinstance(event, CursorMoved)]
    assert [(event.calendars_from, event.calendars_to) for event in events] == [
        ("days@0", "days@1"),
        ("days@1", "days@2"),
    ]


async def test_an_unknown_calendar_is_refused_with_the_known_ones(api: Api) -> None:
    for number in range(25):
        await api("PUT", f"/v1/calendars/c{number:02}", {})
    refused = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1, "calendars": ["nope"]})
    assert refused.problem() == (422, "invalid_field", "calendars")
    assert "'nope'" in refused.body["detail"]
    assert refused.body["allowed"] == [f"c{number:02}" for number in range(20)]
    preview = await api("POST", "/v1/preview", {"delaySeconds": 1, "calendars": ["nope"]})
    assert preview.problem() == (422, "invalid_field", "calendars")


async def test_a_job_whose_calendars_exclude_everything_is_refused(api: Api) -> None:
    await api("PUT", "/v1/calendars/all", {"rules": ["* * * * *"]})
    refused = await api("POST", "/v1/jobs", DAILY | {"name": "n", "calendars": ["all"]})
    assert refused.problem() == (422, "never_fires", "calendars")


async def test_a_definition_carries_how_far_its_gateway_had_read(api: Api) -> None:
    await api("PUT", "/v1/queues/q", {"description": "offset 0"})
    await api("PUT", "/v1/calendars/a", {})
    await api("PUT", "/v1/calendars/b", {})
    await api("PUT", "/v1/calendars/other", {})
    await api.create(calendars=["b", "a"], delaySeconds=60)
    await api.create(delaySeconds=60)
    defined = [command for command, _ in api.owner.decided if isinstance(command, Define)]
    assert [command.config_offset for command in defined] == [3, 0]


async def test_a_calendar_that_jobs_name_is_kept_unless_forced(api: Api) -> None:
    await api("PUT", "/v1/calendars/used", {})
    job_id = await api.create(delaySeconds=3600, calendars=["used"])
    await api.create(delaySeconds=3600)
    refused = await api("DELETE", "/v1/calendars/used")
    assert refused.problem() == (409, "calendar_in_use", "calendar")
    assert refused.body["jobId"] == job_id
    assert [job["jobId"] for job in (await api("GET", "/v1/jobs?calendar=used")).body["jobs"]] == [job_id]
    assert (await api("GET", "/v1/jobs?calendar=use")).body["jobs"] == []
    assert (await api("DELETE", "/v1/calendars/used?force=maybe")).problem() == (400, "bad_header", "force")
    assert (await api("DELETE", "/v1/calendars/used?force=true")).status == 200
    assert api.owner.jobs[job_id].state.calendars == "used@-"


async def test_a_calendar_is_not_deleted_while_its_users_are_not_known(api: Api) -> None:
    await api("PUT", "/v1/calendars/used", {})
    api.queries.absent.add(2)
    assert (await api("DELETE", "/v1/calendars/used")).problem()[:2] == (503, "no_owner")
    assert (await api("GET", "/v1/calendars/used")).status == 200


async def test_calendars_belong_to_a_tenant(api: Api) -> None:
    record = CalendarRecord(tenant="other", name="theirs", dates=("2027-01-01",))
    api.link.write_config(calendar_key("other", "theirs"), encode_calendar(record), lambda *_: None)
    assert api.gateway.calendars.book.record("other", "theirs") == record
    assert (await api("GET", "/v1/calendars/theirs")).problem()[1] == "unknown_calendar"
    refused = await api("POST", "/v1/jobs", {"name": "n", "delaySeconds": 1, "calendars": ["theirs"]})
    assert refused.body["allowed"] == []


async def test_a_failed_write_changes_nothing(api: Api) -> None:
    api.link.failure = "unknown"
    assert (await api("PUT", "/v1/calendars/c", {})).problem()[:2] == (504, "outcome_unknown")
    api.link.failure = None
    assert (await api("GET", "/v1/calendars/c")).status == 404
