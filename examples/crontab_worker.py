"""A worker for jobs that `horolog import crontab` wrote: it runs their commands as cron would, under its own account.

    horolog import crontab /etc/crontab --user-column --zone Europe/Berlin --queue host-7 --prefix host-7 -o host-7.yaml
    horolog apply -f host-7.yaml
    QUEUE=host-7 horolog worker run examples/crontab_worker.py

Start one worker for each account that the commands need, each on a queue of its own: a worker refuses a command of
another user. Whoever may write jobs of the queue can run commands as the worker.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import asyncio
import os
import pwd
import signal
from typing import Any

import horolog

OUTPUT_CHARACTERS = 16_384  # of output that a run keeps; a result may have 65,536 bytes
KILL_SECONDS = 5.0  # a command's time to end after SIGTERM, before its lease would end
ENVIRONMENT = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}

worker = horolog.Worker(
    os.environ.get("HOROLOG_URL", "http://127.0.0.1:8080"), queue=os.environ.get("QUEUE", "default")
)


def environment_of(payload: dict[str, Any]) -> dict[str, str]:
    """Give what cron would: the account's own names, then the crontab's lines."""
    account = pwd.getpwuid(os.getuid())
    own = {**ENVIRONMENT, "HOME": account.pw_dir, "USER": account.pw_name}
    return {**own, **payload.get("environment", {}), "LOGNAME": account.pw_name}


@worker.handler("crontab-command")
async def run_command(run: horolog.Run) -> dict[str, Any]:
    """Run the payload's command; its output is the result. Raises when it fails, and the job's retry policy decides."""
    payload = run.payload
    account = pwd.getpwuid(os.getuid()).pw_name
    if payload.get("user") not in (None, account):
        message = f"the command is for {payload['user']}, this worker runs as {account}"
        raise horolog.PermanentFailure(message)
    process = await start(payload)
    try:
        output, _ = await process.communicate(payload.get("stdin", "").encode())
    finally:
        await end(process)
    text = output.decode(errors="replace")[-OUTPUT_CHARACTERS:]
    if process.returncode:
        message = f"exit {process.returncode}: {text}"
        raise RuntimeError(message)
    return {"exit": 0, "output": text}


async def start(payload: dict[str, Any]) -> asyncio.subprocess.Process:
    """Start the payload's command; a cancel that comes meanwhile ends it too, with all that it has started."""
    starting = asyncio.ensure_future(spawn(payload))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await end(await starting)
        raise


async def spawn(payload: dict[str, Any]) -> asyncio.subprocess.Process:
    """Start the payload's command in a session of its own, so that its children can be ended with it."""
    environment = environment_of(payload)
    return await asyncio.create_subprocess_exec(
        environment["SHELL"],
        "-c",
        payload["command"],
        env=environment,
        cwd=environment["HOME"] if os.path.isdir(environment["HOME"]) else "/",  # noqa: ASYNC240,PTH112 - a local folder
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


async def end(process: asyncio.subprocess.Process) -> None:
    """End a command that a cancel or a time-out has left running."""
    if process.returncode is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), KILL_SECONDS)
    except asyncio.TimeoutError:  # noqa: UP041 - not yet the builtin in Python 3.10
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
