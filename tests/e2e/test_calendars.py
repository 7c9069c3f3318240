"""An exclusion calendar from the command line to the run, on a real scheduler, gateway and Kafka."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import horolog

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_SECOND = "* * * * * *"
DAYS = 3
"""Today, should the test go on over midnight, and a day more."""


@pytest.fixture
def client(stack: Any) -> Iterator[horolog.Client]:
    with horolog.Client(stack.url, retry_seconds=60.0) as client:
        yield client


def days() -> list[str]:
    today = dt.datetime.now(dt.UTC).date()
    return [(today + dt.timedelta(days=number)).isoformat() for number in range(DAYS)]


def test_an_excluded_job_runs_once_its_calendar_no_longer_excludes_the_day(
    stack: Any, client: horolog.Client, name: str
) -> None:
    dates = [part for day in days() for part in ("--date", day)]
    said = stack.horolog("calendars", "put", name, *dates, "--description", "closed")
    assert said.code == 0, said.err
    # At once, so that the owner may hear of the job before it has read the calendar.
    closed = client.create_job(name, job_id=f"{name}-closed", queue=name, cron=EVERY_SECOND, calendars=[name])
    assert closed.next_run_at is not None
    assert closed.next_run_at.date().isoformat() not in days()
    client.create_job(name, job_id=f"{name}-open", queue=name, cron=EVERY_SECOND)
    leased: list[str] = []

    def lease_some() -> None:
        for run in client.lease(name, worker_id="e2e", max_runs=5, wait_seconds=2.0):
            leased.append(run.job_id)
            client.complete(run.run_id, run.lease_token)

    def open_ran_three_times() -> bool:
        lease_some()
        return leased.count(f"{name}-open") >= 3

    stack.until(open_ran_three_times)
    assert f"{name}-closed" not in leased  # three seconds of due instants have passed

    refused = stack.horolog("calendars", "delete", name)
    assert (refused.code, f"{name}-closed" in refused.err) == (5, True)
    client.put_calendar(name, dates=[])

    def closed_ran() -> bool:
        lease_some()
        return f"{name}-closed" in leased

    stack.until(closed_ran)
    client.put_calendar(name, rules=["* * * * *"])
    stack.until(lambda: client.get_job(f"{name}-closed").next_run_at is None)
    assert client.get_job(f"{name}-closed").state == "active"
    preview = client.preview_job(f"{name}-closed", count=2)
    assert preview.occurrences == ()
    client.delete_job(f"{name}-closed")
    client.delete_job(f"{name}-open")
