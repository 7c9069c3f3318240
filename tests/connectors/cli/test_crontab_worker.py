"""The example worker runs what `horolog import crontab` wrote: command, input, environment, failure, cancel."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from horolog._cli.importers.crontab import CrontabOptions, translate_crontab
from horolog.testing import WorkerTest

if TYPE_CHECKING:
    from types import ModuleType

    from horolog.testing import HandlerResult

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "crontab_worker.py"
WAIT_SECONDS = 20.0
ACCOUNT = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crontab_worker", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def payload_of(text: str, **options: Any) -> Any:
    (job,) = translate_crontab(text, CrontabOptions(**options)).jobs
    return job["payload"]


async def ran(example: ModuleType, payload: Any) -> HandlerResult:
    async with WorkerTest(example.worker) as test:
        return await test.start("crontab-command", payload=payload).result()


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("@daily echo hello", "hello\n"),
        (r"@daily echo 100\%", "100%\n"),
        ("@daily cat%one%two", "one\ntwo\n"),
        ('WHO = "you there"\n@daily echo $WHO', "you there\n"),
        ("HOME=/\nLOGNAME=nobody\n@daily pwd; echo $LOGNAME", f"/\n{ACCOUNT}\n"),
        ("@daily echo out; echo err >&2", "out\nerr\n"),
    ],
)
async def test_a_command_runs_as_under_cron(example: ModuleType, text: str, output: str) -> None:
    result = await ran(example, payload_of(text))

    assert (result.outcome, result.result) == ("completed", {"exit": 0, "output": output})


async def test_a_failing_command_fails_with_its_output(example: ModuleType) -> None:
    result = await ran(example, payload_of("@daily echo sorry; exit 3"))

    assert (result.outcome, result.retryable) == ("failed", True)
    assert "exit 3: sorry" in str(result.error)


async def test_a_command_of_another_account_is_refused_for_good(example: ModuleType) -> None:
    mine = await ran(example, payload_of(f"@daily {ACCOUNT} true", user_column=True))
    other = await ran(example, payload_of("@daily somebody-else true", user_column=True))

    assert mine.outcome == "completed"
    assert (other.outcome, other.retryable) == ("failed", False)


async def test_a_cancel_ends_the_command_and_its_children(example: ModuleType, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with WorkerTest(example.worker) as test:
        running = test.start("crontab-command", payload=payload_of(f"@daily echo on; sleep 60 > {pipe}; true"))
        # Opening waits until the child has the other end, reading until nobody has it any more.
        file = await asyncio.wait_for(asyncio.to_thread(open, pipe, "rb"), WAIT_SECONDS)
        running.cancel()
        rest = await asyncio.wait_for(asyncio.to_thread(file.read), WAIT_SECONDS)
        file.close()
        result = await running.result()

    assert (result.outcome, rest) == ("cancelled", b"")


async def test_a_cancel_while_the_command_starts_ends_it_too(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    started, go_on = asyncio.Event(), asyncio.Event()
    spawn = asyncio.create_subprocess_exec

    async def slow_to_return(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await spawn(*arguments, **options)
        started.set()
        await go_on.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow_to_return)
    async with WorkerTest(example.worker) as test:
        running = test.start("crontab-command", payload=payload_of(f"@daily sleep 60 > {pipe}; true"))
        file = await asyncio.wait_for(asyncio.to_thread(open, pipe, "rb"), WAIT_SECONDS)
        await asyncio.wait_for(started.wait(), WAIT_SECONDS)
        running.cancel()
        go_on.set()
        rest = await asyncio.wait_for(asyncio.to_thread(file.read), WAIT_SECONDS)
        file.close()
        result = await running.result()

    assert (result.outcome, rest) == ("cancelled", b"")
