"""`horolog import`: real-looking files to jobs and remarks, as recorded; nothing crashes; the result can be applied.

The records beside the files (`NAME.jobs.yaml`, `NAME.notes`) are standard output and standard error of
`horolog import ...` in that folder with the options below; write them anew in that way, and read the difference.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api.bodies import JobBody, decode, decoder
from api.definitions import check, define
from horolog._cli.documents import Document, parse_documents
from horolog._cli.exits import CliError
from horolog._cli.importers.crontab import CrontabOptions, split_percent, translate_crontab
from horolog._cli.importers.kubernetes import KubernetesOptions, translate_cronjobs
from horolog._cli.importers.remarks import ERROR, Translation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horolog.testing import FakeGateway

    Horolog = Callable[..., Awaitable[Any]]

FILES = Path(__file__).parent / "files"
NOW_MS = 1_800_000_000_000
IMPORTS = {
    "etc-crontab": ["crontab", "etc-crontab", "--user-column", "--zone", "Europe/Berlin", "--prefix", "host-7"],
    "cron-d-php": ["crontab", "cron-d-php", "--user-column", "--zone", "Europe/Berlin", "--prefix", "host-7"],
    "cron-d-statistics": ["crontab", "cron-d-statistics", "--user-column", "--zone", "America/New_York"],
    "user-billing": ["crontab", "user-billing"],
    "user-many-slots": ["crontab", "user-many-slots", "--zone", "Europe/Berlin", "--task", "run"],
    "cronjobs": ["kubernetes", "cronjobs.yaml", "cronjobs.json", "--owner", "cluster"],
}


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)


def accepted(job: dict[str, Any]) -> bool:
    """Ask the gateway's own reading and the core's own validation."""
    body = {name: value for name, value in job.items() if name not in {"jobId", "paused"}}
    read = decode(decoder(JobBody), json.dumps(body).encode())
    check(define(read, job_id=job["jobId"], tenant="default", now_ms=NOW_MS), now_ms=NOW_MS)
    return True


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("name", IMPORTS)
async def test_a_file_is_translated_as_recorded(horolog: Horolog, name: str) -> None:
    said = await horolog("import", *IMPORTS[name])

    assert said.code == 0
    assert said.err == (FILES / f"{name}.notes").read_text()
    assert said.out == (FILES / f"{name}.jobs.yaml").read_text()
    assert all(accepted(job) for job in yaml.safe_load(said.out)["jobs"])


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("name", IMPORTS)
async def test_the_translation_is_applied_once(
    horolog: Horolog, gateway: FakeGateway, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "jobs.json"
    path = str(file)
    imported = await horolog("import", *IMPORTS[name], "-o", path)
    count = len(json.loads(file.read_text())["jobs"])
    first = await horolog("apply", "-f", path)
    again = await horolog("apply", "-f", path)

    assert (imported.code, imported.out) == (0, "")
    assert first.out.endswith(f"{count} created, 0 changed, 0 deleted, 0 unchanged.\n"), first.err
    assert again.out.endswith(f"0 created, 0 changed, 0 deleted, {count} unchanged.\n")
    assert len(gateway.jobs) == count


async def test_a_line_that_changes_or_goes_is_changed_or_pruned(
    horolog: Horolog, gateway: FakeGateway, tmp_path: Path
) -> None:
    tab, jobs = tmp_path / "crontab", str(tmp_path / "jobs.yaml")

    async def sync(text: str) -> str:
        tab.write_text(text)
        assert (await horolog("import", "crontab", str(tab), "--owner", "host", "-o", jobs)).code == 0
        return str((await horolog("apply", "-f", jobs, "--prune")).out)

    await horolog("jobs", "create", "mine", "--id", "mine", "--every", "1h")
    await sync("0 1 * * * a\n0 2 * * * b\n")
    out = await sync("# moved\n\n0 3 * * * b\n")

    assert "    schedule.cron: 0 2 * * * -> 0 3 * * *\n" in out
    assert out.endswith("0 created, 1 changed, 1 deleted, 0 unchanged.\n")
    assert gateway.jobs["mine"].state == "active"


# --- crontabs -----------------------------------------------------------------------------------------


def tab(text: str, **options: Any) -> Translation:
    return translate_crontab(text, CrontabOptions(**options))


@pytest.mark.parametrize(
    ("text", "options", "line", "words"),
    [
        ("\n61 * * * * a", {}, 2, "minute 61: 61 is out of range 0-59"),
        ("* * * * *", {}, 1, "5 words; write five fields, then a command"),
        ("* * * * * a", {"user_column": True}, 1, "then a user and a command"),
        ("@daily", {}, 1, "write an @name, then a command"),
        ("@fortnightly a", {}, 1, "@fortnightly is not one of @reboot"),
        ("* * * * * %in", {}, 1, "no command stands before the first %"),
        ("#\nCRON_TZ=CET-1CEST,M3.5.0\n", {}, 2, "CRON_TZ: 'CET-1CEST,M3.5.0' is no IANA time zone"),
        ("RANDOM_DELAY=soon", {}, 1, "RANDOM_DELAY: 'soon' is no number of minutes"),
        ("* * * * * a\0b", {}, 1, "a NUL; this is no crontab"),
        (f"* * * * * {'a' * 70_000}", {}, 1, "at most 65536; put them into a script"),
    ],
)
def test_what_is_wrong_in_a_crontab_is_named_with_its_line(
    text: str, options: dict[str, Any], line: int, words: str
) -> None:
    (error,) = [remark for remark in tab(text, **options).remarks if remark.kind == ERROR]

    assert error.line == line
    assert words in error.text


def test_a_wrong_line_does_not_hide_the_next_one() -> None:
    result = tab("61 * * * * a\n* * * * * b\n* 25 * * * c\n")

    assert [remark.line for remark in result.remarks if remark.kind == ERROR] == [1, 3]
    assert [job["payload"]["command"] for job in result.jobs] == ["b"]


def test_environment_and_zone_hold_for_the_lines_below_them() -> None:
    text = "@daily a\nA = 'x y' \nCRON_TZ=:Asia/Tokyo\n@daily b\nA=\n@daily c\n"
    jobs = tab(text).jobs

    assert [job["payload"].get("environment") for job in jobs] == [None, {"A": "x y"}, {"A": ""}]
    assert [job["schedule"]["timeZone"] for job in jobs] == ["UTC", "Asia/Tokyo", "Asia/Tokyo"]


def test_a_crontab_s_way_of_running_is_kept() -> None:
    (job,) = tab("@hourly a").jobs

    assert (job["overlap"], job["catchUp"], job["retry"]) == ("allow", "none", {"maxAttempts": 1})
    assert job["jobId"] == job["name"]


def test_a_line_keeps_its_id_when_its_time_or_place_changes() -> None:
    ids = [job["jobId"] for job in tab("0 1 * * * a\n0 2 * * * b\n0 3 * * * a\n").jobs]
    moved = [job["jobId"] for job in tab("#\n5 5 * * * b\n0 9 * * * a\n").jobs]

    assert len(set(ids)) == 3
    assert moved == [ids[1], ids[0]]


def test_a_system_crontab_without_the_option_is_suspected() -> None:
    notes = [remark.text for remark in tab("@daily root a\n@daily root b\r\n").remarks]

    assert any("give --user-column" in note for note in notes)
    assert any("CR LF" in note for note in notes)


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        ("date", "date", None),
        (r"date +\%F", "date +%F", None),
        ("mail a%x%%y", "mail a", "x\n\ny\n"),
        ("mail a%x%", "mail a", "x\n"),
        (r"a%50\%", "a", "50%\n"),
        (r"a \\%b", r"a \\", "b\n"),
        (r"a \n \" \%", r"a \n \" %", None),
        ("%a", "", "a\n"),
    ],
)
def test_percent_signs_are_read_as_cron_does(written: str, command: str, stdin: str | None) -> None:
    assert split_percent(written) == (command, stdin)


LINES = st.one_of(
    st.text(alphabet=st.characters(exclude_characters="\n"), max_size=40),
    st.from_regex(r"[-@*/0-9a-z,~% =\"'#]{0,30}", fullmatch=True),
    st.from_regex(r"([*0-9]{1,2}[-/,~]?[0-9]{0,2} ){5}[a-z%\\ ]{0,10}", fullmatch=True),
    st.from_regex(r"(TZ|CRON_TZ|MAILTO|RANDOM_DELAY|A) ?= ?[A-Za-z0-9/]{0,12}", fullmatch=True),
)


@settings(deadline=None)
@given(st.lists(LINES, max_size=12).map("\n".join), st.booleans())
def test_no_text_crashes_and_each_line_has_its_job_or_its_reason(text: str, user_column: bool) -> None:  # noqa: FBT001 - drawn
    result = tab(text, user_column=user_column)
    lines = text.split("\n")

    assert all(0 <= remark.line <= len(lines) and remark.text for remark in result.remarks)
    assert all(accepted(job) for job in result.jobs if job["schedule"]["timeZone"] == "UTC")
    entries = [line.strip(" \t\r") for line in lines]
    silent = [n for n, line in enumerate(entries, 1) if re.match(r"[-0-9*@]", line) and "=" not in line]
    refused = {remark.line for remark in result.remarks if remark.kind != "note"}
    assert len(result.jobs) >= len([n for n in silent if n not in refused])


# --- Kubernetes ---------------------------------------------------------------------------------------


def manifest(spec: dict[str, Any] | None = None, job: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    template = {"spec": {**(job or {}), "template": {"spec": {"containers": []}}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "a", **metadata},
        "spec": {"schedule": "0 3 * * *", "timeZone": "UTC", "jobTemplate": template, **(spec or {})},
    }


def cluster(*values: Any, **options: Any) -> Translation:
    documents = [Document(1 + 10 * number, value) for number, value in enumerate(values)]
    return translate_cronjobs(documents, KubernetesOptions(**options))


def notes_of(value: dict[str, Any]) -> list[str]:
    return [remark.text for remark in cluster(value).remarks if remark.line]


@pytest.mark.parametrize(
    ("spec", "job", "fields"),
    [
        ({}, {}, {"overlap": "allow", "retry": {"maxAttempts": 7, "baseSeconds": 10}}),
        ({"concurrencyPolicy": "Forbid"}, {"backoffLimit": 0}, {"overlap": "skip"}),
        ({"concurrencyPolicy": "Replace"}, {"backoffLimit": 3}, {"overlap": "replace"}),
        ({"startingDeadlineSeconds": 200}, {"activeDeadlineSeconds": 60}, {"startDeadlineSeconds": 200}),
        ({"suspend": True}, {}, {"paused": True}),
        ({"schedule": "@every 90m"}, {}, {"schedule": {"every": "90m"}}),
        ({"timeZone": "Asia/Tokyo"}, {}, {"schedule": {"cron": "0 3 * * *", "timeZone": "Asia/Tokyo"}}),
    ],
)
def test_what_the_scheduler_has_to_know_becomes_fields(
    spec: dict[str, Any], job: dict[str, Any], fields: dict[str, Any]
) -> None:
    (translated,) = cluster(manifest(spec, job)).jobs

    assert fields.items() <= translated.items()
    assert translated["retry"]["maxAttempts"] == job.get("backoffLimit", 6) + 1
    assert translated.get("timeoutSeconds") == job.get("activeDeadlineSeconds")
    assert "suspend" in spec or "paused" not in translated
    assert accepted(translated)


def test_the_zone_of_a_cronjob_without_one_is_named_and_chosen() -> None:
    value = manifest({"timeZone": None})

    assert "kube-controller-manager's zone counts: UTC" in notes_of(value)[0]
    assert cluster(value, zone="Europe/Paris").jobs[0]["schedule"]["timeZone"] == "Europe/Paris"


def test_labels_beyond_the_bounds_are_named() -> None:
    labels = {f"l{number:02}": "x" for number in range(20)} | {"long" * 20: "x"}
    value = manifest(labels=labels, namespace="n")
    (job,) = cluster(value).jobs

    assert len(job["labels"]) == 15  # the 16th is the owner's
    assert job["labels"]["kubernetes/namespace"] == "n"
    assert any(note.startswith("CronJob n/a: labels not translated: ") and "l19" in note for note in notes_of(value))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (manifest({"schedule": "0 3 * *"}), "CronJob a: 4 fields"),
        (manifest({"schedule": "0 0 31 2 *"}), "no such day exists"),
        (manifest({"schedule": ["0 3 * * *"]}), "spec.schedule: must be a text"),
        (manifest({"schedule": "@reboot"}), "@reboot is not one of"),
        (manifest({"schedule": "@every 1.5h"}), "write whole hours, minutes and seconds"),
        (manifest({"schedule": "@every 100ms"}), "write 1 s to 366 d"),
        (manifest({"schedule": "TZ=Asia/Tokyo 0 3 * * *"}), "keep spec.timeZone"),
        (manifest({"timeZone": "Local"}), "spec.timeZone: 'Local' is no IANA time zone"),
        (manifest({"concurrencyPolicy": "forbid"}), "spec.concurrencyPolicy: 'forbid' is not one of"),
        (manifest({"suspend": "yes"}), "spec.suspend: must be true or false"),
        (manifest({"startingDeadlineSeconds": -1}), "spec.startingDeadlineSeconds: must be a whole number from 0"),
        (manifest({}, {"backoffLimit": "6"}), "spec.jobTemplate.spec.backoffLimit: must be a whole number from 0"),
        (manifest({"jobTemplate": None}), "spec.jobTemplate: is missing"),
        (manifest({"jobTemplate": {"spec": []}}), "spec.jobTemplate.spec: must be an object"),
        (manifest(name=None, generateName="a-"), "metadata.name is missing"),
        (manifest(name="A b"), "metadata.name: 'A b' is no name of Kubernetes"),
        (manifest({}, {"x": "y" * 70_000}), "at most 65536; move files and scripts out of it"),
        ([1], "is no Kubernetes object"),
        ({"kind": "CronJobList", "items": {}}, "items: must be a list"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_named_with_its_line(value: Any, words: str) -> None:
    result = cluster(None, value)
    (error,) = result.remarks

    assert (error.line, error.kind) == (11, ERROR)
    assert words in error.text
    assert not result.jobs


def test_the_same_cronjob_twice_is_an_error() -> None:
    assert "comes twice" in cluster(manifest(), manifest()).remarks[-1 - 2].text


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "schedule": VALUES | st.from_regex(r"((TZ|CRON_TZ)=[A-Z]{0,4} )?([*?0-9]{1,2}[-/,]?[0-9]{0,2} ){4,5}"),
        "timeZone": VALUES | st.just("UTC"),
        "concurrencyPolicy": VALUES,
        "suspend": VALUES,
        "startingDeadlineSeconds": VALUES,
        "jobTemplate": VALUES | st.just({"spec": {}}),
    },
)


@settings(deadline=None)
@given(VALUES | SPECS.map(lambda spec: {**manifest(), "spec": spec}) | SPECS.map(manifest))
def test_no_document_crashes_the_translation(value: Any) -> None:
    result = cluster(value)

    assert all(remark.line in {0, 1} and remark.text for remark in result.remarks)
    assert result.jobs or result.remarks or value is None or value.get("items") == []


# --- files --------------------------------------------------------------------------------------------


def read_or_refused(text: str) -> list[Document] | str:
    try:
        return parse_documents(Path("x.yaml"), text)
    except CliError as error:
        return str(error)


@settings(deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"[-{}\[\]:&*!|>'\"%@a1 \n?,.#~]{0,40}", fullmatch=True))
def test_no_text_crashes_the_reader_of_files(text: str) -> None:
    got = read_or_refused(text)

    assert got.startswith("x.yaml") if isinstance(got, str) else all(json.dumps(d.value) and d.line for d in got)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: [", "x.yaml is not YAML: .*line 2"),
        ("a: 1\n---\nd: 2026-13-45\n", "the document at line 3 cannot be read"),
        ("&a [*a]", "the document at line 1 cannot be read"),
        ("? [1]\n: 2", "x.yaml"),
        ("x: .nan", "the document at line 1 cannot be read"),
        ("- *nobody", "x.yaml is not YAML: .*undefined alias"),
        ("[" * 3_000, "x.yaml"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ('{"a": NaN', "x.yaml is not YAML"),
        ("spec: {{ .Values.cron }}", "x.yaml"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, words: str) -> None:
    with pytest.raises(CliError, match=f"(?s){words}") as caught:
        parse_documents(Path("x.yaml"), text)

    assert caught.value.code == 2


async def test_errors_are_exit_2_and_nothing_is_written(horolog: Horolog, tmp_path: Path) -> None:
    path, out = tmp_path / "tab", tmp_path / "jobs.yaml"
    path.write_text("@daily a\n61 * * * * b\n")
    said = await horolog("import", "crontab", str(path), "-o", str(out))

    assert (said.code, said.out) == (2, "")
    assert f"{path}:2: error: minute 61: 61 is out of range 0-59" in said.err
    assert "1 errors: nothing was written" in said.err
    assert not out.exists()


async def test_bytes_that_are_no_text_and_missing_files_are_exit_2(horolog: Horolog, tmp_path: Path) -> None:
    path = tmp_path / "tab"
    path.write_bytes(b"\xff\xfe@daily a")
    codes = [
        (await horolog("import", "crontab", str(path))).code,
        (await horolog("import", "kubernetes", str(tmp_path / "none.yaml"))).code,
        (await horolog("import", "crontab", str(path), "--prefix", "a b")).code,
        (await horolog("import", "crontab")).code,
    ]

    assert codes == [2, 2, 2, 2]


async def test_one_cronjob_in_two_files_is_exit_2(horolog: Horolog, tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.write_text(json.dumps(manifest()))
    said = await horolog("import", "kubernetes", *map(str, paths))

    assert said.code == 2
    assert "a comes in two files" in said.err


async def test_a_crontab_may_come_from_standard_input(horolog: Horolog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"@daily a\n")))
    said = await horolog("import", "crontab", "-", "--format", "json")

    assert said.json["jobs"][0]["payload"] == {"command": "a"}


async def test_without_pyyaml_json_still_works(
    horolog: Horolog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        return missing() if name == "yaml" else real(name, package)

    def missing() -> NoReturn:
        raise ImportError("yaml")

    monkeypatch.setattr(importlib, "import_module", without)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(manifest()))
    as_yaml = await horolog("import", "kubernetes", str(path))
    as_json = await horolog("import", "kubernetes", str(path), "--format", "json")

    assert as_yaml.code == 2
    assert "pip install 'horolog[yaml]', or write JSON with --format json" in as_yaml.err
    assert [job["jobId"] for job in as_json.json["jobs"]] == ["a"]
