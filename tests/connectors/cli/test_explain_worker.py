"""`horolog explain` and `horolog worker run`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from horolog._cli.exits import CliError
from horolog._cli.worker import find_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horolog.testing import FakeGateway

    Horolog = Callable[..., Awaitable[Any]]

PROGRAM = Path(sys.executable).with_name("horolog")
END_MAX_S = 60


async def test_a_run_that_waits_for_nobody_is_explained(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")
    await horolog("jobs", "trigger", "x")

    said = await horolog("explain", "x")

    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[0].startswith("x, occurrence 2026-12-01 09:00:0")
    assert lines[1].split()[:2] == ["1.", "no"]
    assert lines[2] == "no worker polling: no worker polling"
    assert "horolog worker run" in lines[3]


async def test_an_instant_without_offset_is_in_the_jobs_zone(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--cron", "0 9 * * *", "--zone", "America/New_York")

    said = await horolog("explain", "x", "--at", "2026-12-02T09:00", "-o", "json")

    assert said.json["at"] == "2026-12-02T14:00:00.000Z"


async def test_a_run_id_names_job_and_instant(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "a_b", "--every", "1h")
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")

    said = await horolog("explain", "run_x_20261202T140000123Z", "-o", "json")

    assert (said.json["jobId"], said.json["at"]) == ("x", "2026-12-02T14:00:00.123Z")


async def test_a_run_whose_id_names_no_instant_is_explained_by_that_of_the_run(
    horolog: Horolog, gateway: FakeGateway
) -> None:
    await horolog("jobs", "create", "x", "--id", "a_b", "--every", "1h")
    await horolog("jobs", "trigger", "a_b")
    (run_id,) = gateway.runs

    said = await horolog("explain", run_id, "-o", "json")
    shown = await horolog("runs", "show", run_id, "-o", "json")

    assert (said.code, said.json["jobId"], said.json["runId"]) == (0, "a_b", run_id)
    assert said.json["at"] == shown.json["scheduledFor"]


async def test_a_job_whose_id_looks_like_that_of_a_run_is_explained(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "run_x_y", "--every", "1h")

    assert (await horolog("explain", "run_x_y", "-o", "json")).json["jobId"] == "run_x_y"


async def test_a_job_that_is_not_there_is_4(horolog: Horolog) -> None:
    assert (await horolog("explain", "nope")).code == 4


# --- worker run ---------------------------------------------------------------------------------------

MODULE = """
import os, horolog
{name} = horolog.Worker(os.environ["HOROLOG_URL"], queue="default", worker_id="w")
@{name}.handler("greet")
def greet(run): return {{"said": run.payload}}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def write(text: str, stem: str) -> str:
        path = tmp_path / f"{stem}.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    monkeypatch.setenv("HOROLOG_URL", "http://127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return write


@pytest.mark.parametrize("attribute", ["", ":worker", ":other"])
def test_a_worker_is_found_by_file_and_attribute(module: Any, attribute: str) -> None:
    name = attribute.lstrip(":") or "worker"
    path = module(MODULE.format(name=name), f"found_{name}_{len(attribute)}")

    assert find_worker(path + attribute).tasks == ("greet",)


def test_a_worker_is_found_by_module_name(module: Any) -> None:
    module(MODULE.format(name="only"), "by_name_module")

    assert find_worker("by_name_module").worker_id == "w"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("", "{path}", "these workers: none"),
        (MODULE.format(name="a") + MODULE.format(name="b"), "{path}", "these workers: a, b"),
        (MODULE.format(name="a"), "{path}:b", "has no Worker named b"),
        ("", "nowhere.py", "There is no file nowhere.py"),
        ("", "no_such_module_here", "There is no module no_such_module_here"),
    ],
)
def test_a_worker_that_is_not_there_is_a_wrong_command_line(module: Any, text: str, name: str, words: str) -> None:
    path = module(text, f"missing_{abs(hash((text, name)))}")

    with pytest.raises(CliError, match=words) as error:
        find_worker(name.format(path=path))

    assert error.value.code == 2


def test_an_import_error_inside_the_module_is_not_hidden(module: Any) -> None:
    module("import no_such_thing_at_all", "imports_what_is_not_there")

    with pytest.raises(ModuleNotFoundError, match="no_such_thing_at_all"):
        find_worker("imports_what_is_not_there")


async def test_worker_run_works_until_sigterm(module: Any, gateway: FakeGateway) -> None:
    path = module(MODULE.format(name="worker"), "run_as_process")
    run_id = gateway.add_run("greet", payload="hello")
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM), "worker", "run", path, "--url", gateway.url, stderr=subprocess.PIPE
    )
    try:
        await gateway.until(lambda: gateway.runs[run_id].outcome == "ran", seconds=END_MAX_S)
        process.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(process.communicate(), END_MAX_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert process.returncode == 0
    assert gateway.runs[run_id].result == {"said": "hello"}
    assert b"Worker w: queue default, tasks greet. Ctrl-C drains." in err
