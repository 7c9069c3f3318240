"""`horolog apply`: the plan is exact, a second time changes nothing, and only owned jobs are pruned."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from horolog._cli import plan as planning
from horolog._cli.plan import Change, diff, normal, plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horolog.testing import FakeGateway

    Horolog = Callable[..., Awaitable[Any]]

ROOT = Path(__file__).resolve().parents[3]

FILE = {
    "owner": "team",
    "jobs": [
        {"jobId": "a", "name": "a", "schedule": {"every": "15m"}, "payload": {"n": 1}},
        {"jobId": "b", "schedule": {"cron": "0 9 * * *", "timeZone": "Europe/Berlin"}, "retry": {"maxAttempts": 3}},
    ],
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(document: Any, name: str = "jobs.json") -> str:
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return str(path)

    return write


async def test_a_second_apply_changes_nothing(horolog: Horolog, gateway: FakeGateway, write: Any) -> None:
    path = write(FILE)

    first = await horolog("apply", "-f", path)
    versions = {job_id: job.version for job_id, job in gateway.jobs.items()}
    calls = len(gateway.calls)
    second = await horolog("apply", "-f", path)

    assert first.out == "+ a\n+ b\n2 created, 0 changed, 0 deleted, 0 unchanged.\n"
    assert second.out == "= a\n= b\n0 created, 0 changed, 0 deleted, 2 unchanged.\n"
    assert {job_id: job.version for job_id, job in gateway.jobs.items()} == versions == {"a": 1, "b": 1}
    assert {call.method for call in list(gateway.calls)[calls:]} == {"GET"}
    assert gateway.jobs["a"].definition["labels"] == {"horolog/owner": "team"}


async def test_a_change_is_shown_field_by_field(horolog: Horolog, gateway: FakeGateway, write: Any) -> None:
    await horolog("apply", "-f", write(FILE))
    changed = json.loads(json.dumps(FILE))
    changed["jobs"][0] |= {"schedule": {"every": "20m"}, "lane": "high", "payload": {"n": 2}}
    path = write(changed)

    dry = await horolog("apply", "-f", path, "--dry-run")
    before = gateway.jobs["a"].version
    done = await horolog("apply", "-f", path)

    fields = (
        '~ a\n    lane: normal -> high\n    payload: {"n": 1} -> {"n": 2}\n    schedule.every: 900000 -> 1200000\n= b\n'
    )
    assert dry.out.startswith(fields + "Would be: 0 created, 1 changed")
    assert before == 1
    assert done.out == fields + "0 created, 1 changed, 0 deleted, 1 unchanged.\n"
    assert gateway.jobs["a"].version == 2


async def test_prune_deletes_jobs_of_the_same_owner_only(horolog: Horolog, gateway: FakeGateway, write: Any) -> None:
    await horolog("apply", "-f", write(FILE))
    await horolog("jobs", "create", "other", "--id", "other", "--every", "1h")
    await horolog("jobs", "create", "c", "--id", "c", "--every", "1h", "--label", "horolog/owner=somebody")
    path = write({**FILE, "jobs": FILE["jobs"][:1]})

    without = await horolog("apply", "-f", path)
    dry = await horolog("apply", "-f", path, "--prune", "--dry-run")
    pruned = await horolog("apply", "-f", path, "--prune", "-o", "json")
    again = await horolog("apply", "-f", path, "--prune")

    assert without.out == "= a\n0 created, 0 changed, 0 deleted, 1 unchanged.\n"
    assert "- b\nWould be: 0 created, 0 changed, 1 deleted" in dry.out
    assert [(step["jobId"], step["action"]) for step in pruned.json["steps"]] == [("a", "unchanged"), ("b", "deleted")]
    assert again.out == without.out
    assert {job_id: job.state for job_id, job in gateway.jobs.items() if job.state != "active"} == {"b": "deleted"}


async def test_a_deleted_job_is_created_anew(horolog: Horolog, gateway: FakeGateway, write: Any) -> None:
    await horolog("apply", "-f", write(FILE))
    await horolog("jobs", "delete", "a")

    said = await horolog("apply", "-f", write(FILE))

    assert said.out.startswith("+ a\n= b\n")
    assert gateway.jobs["a"].state == "active"


async def test_one_refused_job_does_not_stop_the_others(horolog: Horolog, gateway: FakeGateway, write: Any) -> None:
    jobs = [{"jobId": "bad", "schedule": {"cron": "61 * * * *"}}, {"jobId": "good", "schedule": {"every": "1h"}}]

    said = await horolog("apply", "-f", write({"jobs": jobs}))

    assert said.code == 2
    assert "+ bad  FAILED" in said.out
    assert "1 created, 0 changed, 0 deleted, 0 unchanged, 1 failed." in said.out
    assert said.err.startswith("bad: schedule.cron: ")
    assert list(gateway.jobs) == ["good"]


async def test_somebody_elses_edit_in_between_is_a_conflict(
    horolog: Horolog, gateway: FakeGateway, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await horolog("apply", "-f", write(FILE))
    real = planning.plan

    def edited_meanwhile(*arguments: Any) -> Any:
        steps = real(*arguments)
        gateway.jobs["a"].version = 9
        return steps

    monkeypatch.setattr("horolog._cli.apply.plan", edited_meanwhile)
    changed = {"jobs": [{"jobId": "a", "schedule": {"every": "2h"}}]}
    said = await horolog("apply", "-f", write(changed))

    assert said.code == 5
    assert "a: " in said.err


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"jobs": [{"name": "x"}]}, "job 1 has no jobId"),
        ({"jobs": [{"jobId": "a"}, {"jobId": "a"}]}, "jobId a comes twice"),
        ({"jobs": [{"jobId": "a", "delaySeconds": 5}]}, "write runAt"),
        ({"jobs": {"a": 1}}, "write `jobs:` and below it one definition each"),
        ({"jobs": [], "more": 1}, "more is unknown"),
        ({"jobs": [], "owner": 1}, "owner must be a text"),
        ("{", "is not JSON"),
    ],
)
async def test_a_wrong_file_is_exit_2(
    horolog: Horolog, gateway: FakeGateway, write: Any, document: Any, words: str
) -> None:
    said = await horolog("apply", "-f", write(document))

    assert said.code == 2
    assert words in said.err
    assert not gateway.calls


async def test_a_missing_file_and_a_prune_without_owner_are_exit_2(horolog: Horolog, write: Any) -> None:
    missing = await horolog("apply", "-f", "nowhere.yaml")
    ownerless = await horolog("apply", "-f", write({"jobs": []}), "--prune")

    assert (missing.code, ownerless.code) == (2, 2)
    assert "nowhere.yaml cannot be read" in missing.err
    assert "owner" in ownerless.err


async def test_the_examples_file_is_yaml_and_can_be_applied(horolog: Horolog, gateway: FakeGateway) -> None:
    path = str(ROOT / "examples" / "jobs.yaml")

    first = await horolog("apply", "-f", path)
    second = await horolog("apply", "-f", path, "--prune")

    assert first.code == 0, first.err
    assert "4 unchanged" in second.out
    assert all(job.definition["labels"] == {"horolog/owner": "examples"} for job in gateway.jobs.values())


async def test_without_pyyaml_the_error_says_how_to_get_it(
    horolog: Horolog, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    yaml = await horolog("apply", "-f", write("jobs:\n- jobId: a\n", "jobs.yaml"))
    as_json = await horolog("apply", "-f", write(FILE, "jobs.yaml"))

    assert yaml.code == 2
    assert "pip install 'horolog[yaml]'" in yaml.err
    assert as_json.code == 0


async def test_yaml_that_is_none_is_exit_2(horolog: Horolog, write: Any) -> None:
    said = await horolog("apply", "-f", write("jobs: [", "jobs.yaml"))

    assert said.code == 2
    assert "is not YAML" in said.err


# --- the plan, pure -----------------------------------------------------------------------------------

SERVER: dict[str, Any] = {  # as a gateway writes it
    "jobId": "a",
    "tenant": "default",
    "name": "a",
    "queue": "default",
    "task": "a",
    "schedule": {"every": 900000, "anchor": "1970-01-01T00:00:00.000Z"},
    "retry": {"maxAttempts": 5, "backoff": "exponential", "baseSeconds": 0.0, "maxSeconds": 600.0},
    "catchUp": "latest",
    "overlap": "skip",
    "timeoutSeconds": None,
    "startDeadlineSeconds": None,
    "lane": "normal",
    "labels": {},
    "startAt": None,
    "endAt": None,
    "maxRuns": None,
    "jitterSeconds": 0.0,
    "calendars": [],
    "concurrencyKey": None,
    "concurrencyWeight": 1,
    "payload": None,
    "version": 3,
    "state": "active",
    "nextRunAt": "2026-12-01T09:00:00.000Z",
    "openRuns": 0,
}


@pytest.mark.parametrize(
    ("server", "wanted"),
    [
        ({}, {"schedule": {"every": "15m"}}),
        ({}, {"schedule": {"every": 900_000}, "retry": {"backoff": "exponential"}, "lane": None}),
        (
            {"schedule": {"cron": "0 9 * * *", "timeZone": "UTC", "gap": "shift", "overlapHour": "first"}},
            {"schedule": {"cron": "0 9 * * *"}},
        ),
        (
            {"schedule": None, "runAt": "2026-12-01T09:00:00.000Z"},
            {"runAt": "2026-12-01T10:00:00+01:00"},
        ),
        (
            {"retry": {"maxAttempts": 5, "backoff": "fixed", "baseSeconds": 1.0, "maxSeconds": 600.0}},
            {"schedule": {"every": "15m"}, "retry": {"backoff": "fixed"}},
        ),
        (
            {"calendars": ["holidays"]},
            {"schedule": {"every": "15m"}, "calendars": [{"name": "holidays", "mode": "exclude"}]},
        ),
        (
            {
                "schedule": {
                    "everyCalendar": {
                        "unit": "month",
                        "every": 12,
                        "at": "09:00",
                        "startDate": "2026-12-31",
                        "timeZone": "UTC",
                    },
                    "gap": "shift",
                    "overlapHour": "first",
                }
            },
            {"schedule": {"everyCalendar": {"unit": "year", "at": "09:00", "startDate": "2026-12-31"}}},
        ),
    ],
)
def test_the_same_in_other_words_is_no_change(server: dict[str, Any], wanted: dict[str, Any]) -> None:
    (step,) = plan({"a": wanted}, {"a": SERVER | server}, [])

    assert (step.action, step.changes) == ("=", ())


def test_a_field_that_leaves_the_file_goes_back_to_its_default() -> None:
    (step,) = plan({"a": {"schedule": {"every": "15m"}}}, {"a": SERVER | {"maxRuns": 4, "task": "t"}}, [])

    assert step.changes == (Change("maxRuns", 4, None), Change("task", "t", "a"))
    assert step.version == 3


def test_another_time_form_is_a_change_of_both() -> None:
    (step,) = plan({"a": {"runAt": "2026-12-01T09:00:00Z"}}, {"a": SERVER}, [])

    assert [change.field for change in step.changes] == ["runAt", "schedule"]


def test_a_payload_is_compared_whole() -> None:
    assert diff({"payload": {"a": 1}}, {"payload": {"a": 2}}) == [Change("payload", {"a": 1}, {"a": 2})]


def test_what_cannot_be_read_is_left_to_the_gateway() -> None:
    wrong = normal({"schedule": {"every": "soon"}, "runAt": "noon", "startAt": 5}, "a")

    assert wrong["schedule"]["every"] == "soon"
    assert (wrong["runAt"], wrong["startAt"]) == ("noon", 5)
    assert normal({"schedule": "daily"}, "a")["schedule"] == "daily"
