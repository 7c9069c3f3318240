"""Jobs as files on real Kafka: imported, applied, exported, applied again with no change; then pruned and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = Path(__file__).parents[1] / "connectors" / "cli" / "files"
SCHEDULES: list[dict[str, Any]] = [
    {"schedule": {"cron": "H H(1-4) * * *", "timeZone": "Europe/Berlin", "gap": "skip", "overlapHour": "both"}},
    {"schedule": {"every": "1d1h", "anchor": "2026-12-01T00:00:00Z"}, "overlap": "queue", "catchUp": "all"},
    {"schedule": {"everyCalendar": {"unit": "year", "at": "10:30", "startDate": "2028-02-29"}}, "lane": "low"},
    {"schedule": {"rrule": "FREQ=WEEKLY;BYDAY=MO", "dtStart": "2027-01-04T09:00:00"}, "maxRuns": 9},
    {"runAt": "2060-01-01T00:00:00.250Z", "payload": {"text": "10:30", "none": None}},
    {"runAtLocal": "2060-01-01T09:00:00", "timeZone": "Asia/Tokyo", "retry": {"backoff": "none"}},
]


def counts(said: Any) -> str:
    assert said.code == 0, said.err
    last: str = said.out.splitlines()[-1]
    return last


def test_files_go_round_without_a_change(stack: Any, tmp_path: Path) -> None:
    horolog: Callable[..., Any] = stack.horolog
    owner = ("--owner", "files-e2e")
    files = [str(tmp_path / name) for name in ("tab.yaml", "cluster.json", "own.json")]
    imports = [
        horolog("import", "crontab", str(FILES / "user-billing"), "--queue", "files", *owner, "-o", files[0]),
        horolog("import", "kubernetes", str(FILES / "cronjobs.yaml"), "--queue", "files", *owner, "-o", files[1]),
    ]
    assert [said.code for said in imports] == [0, 0]
    own = [{"jobId": f"own-{number}", "queue": "files", **form} for number, form in enumerate(SCHEDULES)]
    Path(files[2]).write_text(json.dumps({"owner": owner[1], "jobs": own}))
    created = [counts(horolog("apply", "-f", file)) for file in files]
    again = [counts(horolog("apply", "-f", file)) for file in files]

    assert created == [f"{count} created, 0 changed, 0 deleted, 0 unchanged." for count in (7, 11, 6)]
    assert again == [f"0 created, 0 changed, 0 deleted, {count} unchanged." for count in (7, 11, 6)]

    exported = str(tmp_path / "all.yaml")
    stack.until(lambda: horolog("export", "--queue", "files", "-o", exported).err.startswith("24 jobs."))
    text = Path(exported).read_text()
    document = yaml.safe_load(text)
    paused = [job["jobId"] for job in document["jobs"] if job.get("paused")]
    assert (document["owner"], paused) == ("files-e2e", ["web.replace-me"])
    assert counts(horolog("apply", "-f", exported, "--prune")) == "0 created, 0 changed, 0 deleted, 24 unchanged."
    assert horolog("export", "--queue", "files").out == text

    Path(exported).write_text(json.dumps({"owner": owner[1], "jobs": []}))
    assert counts(horolog("apply", "-f", exported, "--prune")) == "0 created, 0 changed, 24 deleted, 0 unchanged."


def test_what_leaves_the_file_is_pruned_and_a_pause_is_ended(stack: Any, tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"

    def applied(*jobs: dict[str, Any]) -> str:
        path.write_text(json.dumps({"owner": "pruned-e2e", "jobs": list(jobs)}))
        return str(stack.horolog("apply", "-f", str(path), "--prune").out)

    every = {"schedule": {"every": "1h"}}
    until = {"note": "holidays", "until": "2060-01-01T00:00:00Z"}
    first = applied({"jobId": "p-a", "paused": until, **every}, {"jobId": "p-b", **every})
    same = applied({"jobId": "p-a", "paused": until, **every}, {"jobId": "p-b", **every})
    last = applied({"jobId": "p-a", "paused": False, **every})
    job = json.loads(stack.horolog("jobs", "show", "p-a", "--output", "json").out)

    assert first.endswith("2 created, 0 changed, 0 deleted, 0 unchanged.\n")
    assert same == "= p-a\n= p-b\n0 created, 0 changed, 0 deleted, 2 unchanged.\n"
    assert last.startswith("~ p-a\n    paused: ")
    assert last.endswith("- p-b\n0 created, 1 changed, 1 deleted, 0 unchanged.\n")
    assert (job["state"], job["paused"], job["version"]) == ("active", None, 1)
