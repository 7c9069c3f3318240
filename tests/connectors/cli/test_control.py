"""What people do to jobs and runs: trigger, skip, backfill, replay, bulk changes and undo, limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horolog.testing import FakeGateway

    Horolog = Callable[..., Awaitable[Any]]


@pytest.fixture
async def jobs(horolog: Horolog, gateway: FakeGateway) -> FakeGateway:
    """Give a gateway with three hourly jobs, two of them of one team."""
    for number, team in enumerate(("eu", "eu", "us")):
        said = await horolog(
            "jobs", "create", f"n{number}", "--id", f"j{number}", "--every", "1h", "--label", f"t={team}"
        )
        assert said.code == 0
    return gateway


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def die(gateway: FakeGateway, run_id: str) -> None:
    leased = gateway.memory.grant(gateway.runs[run_id], "w", 30.0)
    gateway.memory.apply("fail", run_id, {"leaseToken": leased["leaseToken"], "error": "no", "retryable": False})


async def test_a_trigger_that_is_refused_says_how_to_force_it(horolog: Horolog, jobs: FakeGateway) -> None:
    await horolog("jobs", "trigger", "j0")
    overlapping = await horolog("jobs", "trigger", "j0")
    forced = await horolog("jobs", "trigger", "j0", "--force")
    await horolog("jobs", "pause", "j1")
    paused = await horolog("jobs", "trigger", "j1")

    assert (overlapping.code, paused.code) == (5, 5)
    assert "--force" in overlapping.err
    assert "horolog jobs resume" in paused.err
    assert forced.code == 0
    assert len(jobs.runs) == 2


async def test_pause_and_resume_say_who_and_why(horolog: Horolog, jobs: FakeGateway) -> None:
    await horolog("jobs", "pause", "j0", "--note", "holidays", "--actor", "ann")
    resumed = await horolog("jobs", "resume", "j0", "--note", "back", "--actor", "bob", "-o", "json")

    assert resumed.json["paused"] is None
    assert jobs.calls[-1].body == {"note": "back", "actor": "bob"}


async def test_the_next_occurrence_or_a_named_one_is_skipped(horolog: Horolog, jobs: FakeGateway) -> None:
    following = await horolog("jobs", "skip", "j0")
    named = await horolog("jobs", "skip", "j0", "--at", "2026-12-01T15:00", "-o", "json")
    nothing_there = await horolog("jobs", "skip", "j0", "--at", "2026-12-01T15:30Z")
    behind = await horolog("jobs", "skip", "j0", "--at", "2026-11-30T15:00Z")

    assert following.code == 0
    assert "will not run. Next run: 2026-12-01 11:00:00.000Z" in following.out
    assert named.json["at"] == "2026-12-01T15:00:00.000Z"
    assert (nothing_there.code, behind.code) == (2, 5)
    assert "horolog explain JOB --at TIME" in behind.err
    assert jobs.jobs["j0"].skipped == {"2026-12-01T10:00:00.000Z", "2026-12-01T15:00:00.000Z"}


async def test_a_job_that_has_no_occurrence_left_has_none_to_skip(horolog: Horolog, gateway: FakeGateway) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--cron", "0 0 1 1 *")  # which the fake does not compute

    said = await horolog("jobs", "skip", "x")

    assert said.code == 2
    assert "no occurrence to come" in said.err
    assert gateway.jobs["x"].skipped == set()


async def test_a_backfill_counts_first_and_is_watched_and_stopped(horolog: Horolog, jobs: FakeGateway) -> None:
    line = (
        "jobs",
        "backfill",
        "j0",
        "--from",
        "2026-12-01T02:00Z",
        "--to",
        "2026-12-01T06:00Z",
        "--max-concurrent",
        "2",
    )
    dry = await horolog(*line)
    assert jobs.control.backfills == {}
    begun = await horolog(*line, "--yes", "--key", "k")
    again = await horolog(*line, "--yes", "--key", "k", "-o", "json")
    (backfill_id,) = jobs.control.backfills
    shown = await horolog("backfills", "list", "j0")
    stopped = await horolog("backfills", "stop", "j0", backfill_id)
    ended = await horolog("backfills", "list", "j0", "-o", "json")
    unknown = await horolog("backfills", "stop", "j0", "b-none")
    none = await horolog("backfills", "list", "j1")

    assert (dry.code, begun.code, stopped.code) == (0, 0, 0)
    assert "Would open 4 runs" in dry.out
    assert "add --yes to do it" in dry.out
    assert f"horolog backfills stop j0 {backfill_id}" in begun.out
    assert again.json["backfillId"] == backfill_id
    assert shown.out.splitlines()[1].split()[:5] == [backfill_id, "running", "2", "2", "2"]
    assert [(one["state"], one["endedBy"]) for one in ended.json] == [("ended", "stopped")]
    assert unknown.code == 4
    assert "horolog backfills list" in unknown.err
    assert "horolog jobs backfill j1" in none.err


async def test_a_bulk_pause_is_shown_done_and_undone(horolog: Horolog, jobs: FakeGateway, here: Path) -> None:
    dry = await horolog("jobs", "bulk", "pause", "--label", "t=eu")
    assert not any(job.paused for job in jobs.jobs.values())
    assert files(here) == []
    done = await horolog("jobs", "bulk", "pause", "--label", "t=eu", "--note", "stop", "--until", "2027-01-01", "--yes")
    (file,) = files(here)
    paused = {job_id for job_id, job in jobs.jobs.items() if job.paused}
    await horolog("jobs", "resume", "j1")
    await horolog("jobs", "pause", "j1")
    undone = await horolog("undo", str(file))

    assert (dry.code, done.code) == (0, 0)
    assert "2 jobs would be paused. Nothing was done: add --yes to do it." in dry.out
    assert "2 of 2 jobs paused." in done.out
    assert f"horolog undo {file.name}" in done.out
    assert paused == {"j0", "j1"}
    assert undone.code == 5, "somebody has changed one of them since"
    assert "1 of 2 jobs brought back." in undone.out
    assert "version_mismatch" in undone.out
    assert [bool(jobs.jobs[job_id].paused) for job_id in ("j0", "j1", "j2")] == [False, True, False]


async def test_bulk_delete_goes_over_pages_and_comes_back(
    horolog: Horolog, jobs: FakeGateway, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horolog._cli.bulk._PAGE", 2)
    done = await horolog("jobs", "bulk", "delete", "--prefix", "n", "--yes", "-o", "json")
    assert [job.state for job in jobs.jobs.values()] == ["deleted"] * 3
    (here / "undo.json").write_text(done.out, encoding="utf-8")
    undone = await horolog("undo", "undo.json")

    assert done.code == 0
    assert (len(done.json["undoTokens"]), len(done.json["jobs"]), done.json["more"]) == (2, 3, False)
    assert undone.code == 0
    assert [job.state for job in jobs.jobs.values()] == ["active"] * 3
    keys = {call.headers["Idempotency-Key"] for call in jobs.calls if call.path == "/v1/jobs:delete"}
    assert len(keys) == 1, "one correlation id for all pages"


async def test_bulk_resume_takes_named_jobs_and_stops_at_the_limit(
    horolog: Horolog, jobs: FakeGateway, here: Path
) -> None:
    await horolog("jobs", "bulk", "pause", "j0", "j2", "--yes")
    resumed = await horolog("jobs", "bulk", "resume", "--text", "N", "--limit", "1", "--yes")
    nothing = await horolog("jobs", "bulk", "resume", "j1", "--yes", "--undo-file", "none.json")

    assert sorted(job_id for job_id, job in jobs.jobs.items() if job.paused) == ["j2"]
    assert "There are more than 1" in resumed.err
    assert nothing.code == 0
    assert "No job matches" in nothing.out
    assert not (here / "none.json").exists()


async def test_where_no_undo_file_can_be_made_nothing_is_changed(
    horolog: Horolog, jobs: FakeGateway, here: Path
) -> None:
    (here / "taken.json").write_text("mine", encoding="utf-8")
    said = await horolog("jobs", "bulk", "delete", "j0", "--yes", "--undo-file", "taken.json")

    assert said.code == 2
    assert "nothing was changed" in said.err
    assert (here / "taken.json").read_text(encoding="utf-8") == "mine"
    assert jobs.jobs["j0"].state == "active"


async def test_a_bulk_change_that_breaks_off_says_what_takes_its_beginning_back(
    horolog: Horolog, jobs: FakeGateway, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horolog._cli.bulk._PAGE", 2)
    real = jobs.control.change

    def then_fail(action: str, body: Any, key: str | None) -> dict[str, Any]:
        jobs.refuse("jobs", status=500, code="internal")
        return real(action, body, key)

    monkeypatch.setattr(jobs.control, "change", then_fail)
    broken = await horolog("jobs", "bulk", "pause", "--prefix", "n", "--yes", "--undo-file", "undo.json")
    undone = await horolog("undo", "undo.json")

    assert broken.code == 1
    assert "2 jobs were changed before; take them back with: horolog undo undo.json" in broken.err
    assert undone.code == 0
    assert not any(job.paused for job in jobs.jobs.values())
    assert (here / "undo.json").exists()


async def test_a_dead_run_is_replayed_by_name_and_many_by_filter(horolog: Horolog, jobs: FakeGateway) -> None:
    for job_id in ("j0", "j1", "j2"):
        await horolog("jobs", "trigger", job_id)
    dead = list(jobs.runs)
    for run_id in dead:
        die(jobs, run_id)

    one = await horolog("runs", "replay", dead[0])
    dry = await horolog("runs", "replay", "--queue", "default")
    done = await horolog("runs", "replay", "--label", "t=eu", "--rate", "20", "--yes", "-o", "json")
    rest = await horolog("runs", "replay", "--job", "j2", "--dead-from", "2026-12-01T09:00Z", "--yes")
    nothing = await horolog("runs", "replay", "--text", "n", "--yes")

    assert one.code == 0
    assert "horolog runs show run_j0_r-" in one.out
    assert "2 runs would be replayed. Nothing was done: add --yes to do it." in dry.out
    assert [item["runId"] for item in done.json["runs"]] == [dead[1]]
    assert "Replayed 1 of 1 runs." in rest.out
    assert "No dead run matches." in nothing.out
    assert {run.replay_of for run in jobs.runs.values()} == {None, *dead}


async def test_a_run_that_is_not_dead_is_not_replayed(horolog: Horolog, jobs: FakeGateway) -> None:
    await horolog("jobs", "trigger", "j0")
    (run_id,) = jobs.runs

    said = await horolog("runs", "replay", run_id)

    assert said.code == 5
    assert "horolog runs show" in said.err


async def test_runs_of_many_jobs_are_listed_by_filter(horolog: Horolog, jobs: FakeGateway) -> None:
    for job_id in ("j0", "j1", "j2"):
        await horolog("jobs", "trigger", job_id)

    of_team = await horolog("runs", "list", "--label", "t=eu", "-o", "json")
    of_text = await horolog("runs", "list", "--text", "N2", "--from", "2026-12-01T09:00Z", "-o", "json")
    before = await horolog("runs", "list", "--state", "ready", "--until", "2026-12-01T08:00Z", "-o", "json")

    assert sorted(run["jobId"] for run in of_team.json) == ["j0", "j1"]
    assert [run["jobId"] for run in of_text.json] == ["j2"]
    assert before.json == []
    assert [row["jobId"] for row in (await horolog("jobs", "list", "--text", "N1", "-o", "json")).json] == ["j1"]
    assert len(jobs.runs) == 3


async def test_limits_of_queues_and_tenants_are_changed_one_by_one(horolog: Horolog, gateway: FakeGateway) -> None:
    first = await horolog("queues", "set", "billing", "--max-lease-rate", "5", "--description", "money")
    second = await horolog("queues", "set", "billing", "--max-running", "7", "-o", "json")
    lifted = await horolog("queues", "set", "billing", "--max-lease-rate", "none", "-o", "json")
    tenant = await horolog("tenants", "set", "default", "--max-lease-rate", "2.5")
    shown = await horolog("tenants", "show")
    foreign = await horolog("tenants", "show", "other")

    assert "Saved queue billing, version 1. maxRunning: none, maxLeaseRatePerSecond: 5" in first.out
    assert (second.json["maxRunning"], second.json["maxLeaseRatePerSecond"], second.json["description"]) == (
        7,
        5,
        "money",
    )
    assert (lifted.json["maxRunning"], lifted.json["maxLeaseRatePerSecond"], lifted.json["version"]) == (7, None, 3)
    puts = [
        call.headers.get("If-Match")
        for call in gateway.calls
        if call.path == "/v1/queues/billing" and call.method == "PUT"
    ]
    assert puts == [None, '"1"', '"2"'], "nobody's change in between is lost"
    assert "version 1" in tenant.out
    assert "maxLeaseRatePerSecond" in shown.out
    assert (foreign.code, "token of the tenant" in foreign.err) == (1, True)


async def test_the_limit_of_a_concurrency_key_is_set_shown_and_lifted(horolog: Horolog, gateway: FakeGateway) -> None:
    first = await horolog("concurrency-keys", "set", "customer:42", "--max-running", "2", "--description", "their API")
    second = await horolog("concurrency-keys", "set", "customer:42", "--max-running", "3", "-o", "json")
    shown = await horolog("concurrency-keys", "show", "customer:42")
    listed = await horolog("concurrency-keys", "list")
    lifted = await horolog("concurrency-keys", "set", "customer:42", "--max-running", "none", "--description", "")
    left = await horolog("concurrency-keys", "list", "-o", "json")

    assert "Saved concurrency key customer:42, version 1. maxRunning: 2" in first.out
    assert (second.json["maxRunning"], second.json["description"]) == (3, "their API")
    assert "unitsRunning" in shown.out
    assert "their API" in listed.out
    assert "maxRunning: none" in lifted.out
    assert left.json == []
    puts = [call.headers.get("If-Match") for call in gateway.calls if call.method == "PUT"]
    assert puts == [None, '"1"', '"2"']


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs", "bulk", "delete", "--yes"), "Say which jobs"),
        (("concurrency-keys", "set", "k"), "Nothing to change was named"),
        (("jobs", "bulk"), "ACTION"),
        (("jobs", "backfill", "x"), "--from"),
        (("runs", "replay"), "Name a run, or say which dead runs"),
        (("runs", "replay", "run_x", "--queue", "q"), "not both"),
        (("runs", "replay", "--queue", "q", "--rate", "0"), "--rate: 0 is not between"),
        (("runs", "list", "x", "--queue", "q"), "leave the job out"),
        (("queues", "set", "q"), "Nothing to change was named"),
        (("queues", "set", "q", "--max-running", "many"), "--max-running: 'many' is no number"),
        (("tenants", "set", "default"), "Nothing to change was named"),
        (("undo", "nowhere.json"), "nowhere.json cannot be read"),
        (("undo", str(Path(__file__))), "holds no undo tokens"),
    ],
)
async def test_a_wrong_command_line_is_exit_2_and_changes_nothing(
    horolog: Horolog, gateway: FakeGateway, arguments: tuple[str, ...], words: str
) -> None:
    said = await horolog(*arguments)

    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert not [call for call in gateway.calls if call.method != "GET"]


async def test_a_foreign_undo_token_is_refused_by_the_gateway(horolog: Horolog, here: Path) -> None:
    (here / "undo.json").write_text('{"undoTokens": ["nonsense"]}', encoding="utf-8")

    said = await horolog("undo", "undo.json")

    assert said.code == 2
    assert said.err.startswith("undoToken: ")


async def test_every_command_stands_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    for words in (
        "jobs create|list|show|edit|delete|preview|pause|resume|trigger|skip|backfill",
        "jobs bulk pause|bulk resume|bulk delete",
        "backfills list|stop",
        "runs list|show|cancel|replay",
        "queues list|show|set",
        "tenants show|set",
    ):
        noun, verbs = words.split(" ", 1)
        for verb in verbs.split("|"):
            assert f"horolog {noun} {verb}" in guide, (noun, verb)
    assert "horolog undo" in guide


async def test_a_job_is_created_paused_and_edited_back(horolog: Horolog, gateway: FakeGateway) -> None:
    created = await horolog("jobs", "create", "x", "--id", "x", "--in", "0s", "--paused")
    assert gateway.calls[-1].body["paused"] is True
    assert gateway.jobs["x"].paused is not None
    edited = await horolog("jobs", "edit", "x", "--no-paused")

    assert (created.code, edited.code) == (0, 0)
    assert gateway.jobs["x"].paused is None
