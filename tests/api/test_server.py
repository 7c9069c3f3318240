"""The gateway's process over a real Kafka, without an owner."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from api.auth import Auth
from api.server import EXIT_CANNOT_START, EXIT_OK, serve
from schemas.config import Settings, load_settings
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 30


def settings_of(kafka: Any, namespace: str, **gateway: Any) -> Settings:
    return load_settings(
        env={},
        overrides={
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace},
            "gateway": {"port": 0} | gateway,
        },
    )


async def test_serves_declares_a_queue_in_the_log_and_finds_it_after_a_restart(kafka: Any, namespace: str) -> None:
    settings = settings_of(kafka, namespace)
    create_topics(settings)
    for method, status in (("PUT", 201), ("GET", 200)):
        stop = asyncio.Event()
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(settings, Auth(None), stop, on_listening=url.set_result))
        base = await asyncio.wait_for(url, WAIT_S)
        async with aiohttp.ClientSession() as session:
            body = {"description": "bills"} if method == "PUT" else None
            async with session.request(method, f"{base}/v1/queues/billing", json=body) as response:
                assert response.status == status
                assert (await response.json())["description"] == "bills"
            async with session.get(f"{base}/readyz") as response:
                assert response.status == 503
                assert "0 of 8 partitions" in await response.text()
            async with session.post(f"{base}/v1/jobs", json={"name": "n", "delaySeconds": 1}) as response:
                assert (response.status, response.headers["Retry-After"]) == (503, "1")
            poll = asyncio.create_task(session.post(f"{base}/v1/queues/q/lease", json={"workerId": "w"}))
            while not await _polling(session, f"{base}/v1/queues/q"):
                pass
            stop.set()
            assert await asyncio.wait_for(server, WAIT_S) == EXIT_OK
            async with await poll as answer:
                assert (answer.status, (await answer.json())["runs"]) == (200, [])


async def _polling(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        calls: int = (await response.json())["workersPolling"]
        return calls


PROGRAM = (
    "import sys; from schemas.config import load_settings; from api.server import run_gateway; "
    "sys.exit(run_gateway(load_settings()))"
)


@contextmanager
def gateway_process(kafka: Any, namespace: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A gateway of its own process on a free port; what it logs is on stdout."""
    env = os.environ | {
        "HOROLOG_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "HOROLOG_KAFKA__NAMESPACE": namespace,
        "HOROLOG_GATEWAY__PORT": "0",
        **variables,
    }
    with subprocess.Popen(  # noqa: S603 - this interpreter and a text from here
        [sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process


def test_sigterm_ends_the_process_cleanly(kafka: Any, namespace: str) -> None:
    create_topics(settings_of(kafka, namespace))
    with gateway_process(kafka, namespace, HOROLOG_LOG__FORMAT="json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "gateway_listening" in line:
                break
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(WAIT_S) == EXIT_OK
    # Log lines are as section `log` of the settings says.
    assert [json.loads(text)["event"] for text in (line, *rest.splitlines())][-1] == "gateway_stopped"


def test_a_bad_tokens_file_is_an_exit_code_and_a_log_line(kafka: Any, namespace: str, tmp_path: Path) -> None:
    with gateway_process(kafka, namespace, HOROLOG_GATEWAY__TOKENS_FILE=str(tmp_path / "none")) as process:
        assert process.stdout is not None
        line = json.loads(process.stdout.read())
        assert (process.wait(WAIT_S), line["event"]) == (EXIT_CANNOT_START, "tokens_file_unusable")


async def test_a_port_that_is_taken_stops_the_start(kafka: Any, namespace: str) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    settings = settings_of(kafka, namespace, port=port)
    create_topics(settings)
    try:
        assert await serve(settings, Auth(None), asyncio.Event()) == EXIT_CANNOT_START
    finally:
        taken.close()
        await taken.wait_closed()


@pytest.mark.parametrize("field", ["id", "strict_queues"])
def test_the_gateways_own_settings_exist(field: str) -> None:
    assert hasattr(Settings().gateway, field)
