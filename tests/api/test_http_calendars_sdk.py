"""The SDK's client and `horolog calendars` against the real gateway, so that all mean the same by each field."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest

import horolog
from horolog.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any


@pytest.fixture
def cli(api: Api, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run one command line; gives its exit code, what it printed and what it noted."""

    async def call(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(run, arguments, environment={"HOROLOG_URL": api.base})
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


async def test_the_client_keeps_calendars(api: Api) -> None:
    day = dt.date(2027, 12, 25)
    async with horolog.AsyncClient(api.base) as client:
        made = await client.put_calendar("bank", dates=[day], rules=["* * 31 12 *"], time_zone="Europe/Berlin")
        assert (made.version, made.dates, made.rules, made.time_zone) == (
            1,
            ("2027-12-25",),
            ("* * 31 12 *",),
            "Europe/Berlin",
        )
        assert made.updated_at is not None
        assert await client.get_calendar("bank") == made
        with pytest.raises(horolog.VersionMismatchError):
            await client.put_calendar("bank", version=7)
        assert [calendar.name for calendar in (await client.list_calendars(limit=1)).items] == ["bank"]
        job = await client.create_job("n", delay_seconds=3600, calendars=["bank"])
        assert [found.job_id for found in (await client.list_jobs(calendar="bank")).items] == [job.job_id]
        with pytest.raises(horolog.ConflictError, match=job.job_id):
            await client.delete_calendar("bank")
        with horolog.Client(api.base) as blocking:
            await asyncio.to_thread(lambda: blocking.delete_calendar("bank", force=True))
        with pytest.raises(horolog.NotFoundError):
            await client.get_calendar("bank")


async def test_a_calendar_is_put_shown_listed_and_deleted_from_the_command_line(
    cli: Any, tmp_path: Path, api: Api
) -> None:
    file = tmp_path / "bank.json"
    file.write_text(json.dumps({"timeZone": "Europe/Berlin", "dates": ["2027-12-25"], "description": "closed"}))
    assert (await cli("calendars", "put", "bank", "-f", str(file), "--date", "2027-12-26"))[:2] == (
        0,
        "Calendar bank is at version 1.\n",
    )
    code, out, _ = await cli("calendars", "show", "bank", "--output", "json")
    shown = json.loads(out)
    assert (code, shown["dates"], shown["timeZone"]) == (0, ["2027-12-25", "2027-12-26"], "Europe/Berlin")
    assert "2027-12-25, 2027-12-26" in (await cli("calendars", "show", "bank"))[1]
    await cli("calendars", "put", "other", "--rule", "* * 31 12 *")
    code, out, _ = await cli("calendars", "list", "--output", "json")
    assert [calendar["name"] for calendar in json.loads(out)] == ["bank", "other"]
    table = (await cli("calendars", "list"))[1]
    assert "closed" in table
    assert "* * 31 12 *" in table

    await api.create(delaySeconds=3600, calendars=["bank"])
    code, _, noted = await cli("calendars", "delete", "bank")
    assert code == 5
    assert "--force" in noted or "force=true" in noted
    assert (await cli("calendars", "delete", "bank", "--force"))[:2] == (0, "Calendar bank is deleted.\n")
    assert (await cli("calendars", "show", "bank"))[0] == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [("[]", "must hold one object"), ('{"days": []}', "days: is not a field"), ('{"dates": "x"}', "dates: must be")],
)
async def test_a_file_that_is_no_calendar_is_refused(cli: Any, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    code, _, noted = await cli("calendars", "put", "c", "-f", str(file))

    assert code == 2
    assert said in noted


async def test_what_the_gateway_refuses_is_told_with_its_field(cli: Any) -> None:
    code, _, noted = await cli("calendars", "put", "c", "--date", "25.12.2027")

    assert code == 2
    assert "dates[0]" in noted
