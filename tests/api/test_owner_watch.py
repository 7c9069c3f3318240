"""A dead owner is 503 at once, not 504 after the time-out: silent and deaf together count, neither alone does."""

from __future__ import annotations

import asyncio
from typing import Any

from api.auth import Auth
from api.gateway import Limits
from api.owner_watch import SILENT_MS, accepts

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

LATER = {"name": "n", "runAt": "2099-01-01T00:00:00Z", "jobId": "j"}


async def _ask(api: Api) -> asyncio.Task[Any]:
    sent = len(api.link.commands)
    call = asyncio.create_task(api("PUT", "/v1/jobs/j", {key: LATER[key] for key in ("name", "runAt")}))
    await api.link.until(lambda: len(api.link.commands) > sent)
    return call


async def test_a_silent_and_deaf_owner_is_taken_for_gone(serve: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("api.owner_watch.SILENT_MS", 0)
    async with serve(Auth(None), Limits(partitions=4), reply_timeout_ms=300) as api:
        api.owner.silent = True
        call = await _ask(api)
        await api.gateway.watch.look()
        assert api.gateway.client.partitions_owned == 4  # it accepts connections: slow, not gone
        api.deaf = True
        await api.gateway.watch.look()
        assert api.gateway.client.partitions_owned == 3
        assert (await api("POST", "/v1/jobs/j/pause", {})).problem() == (503, "no_owner", None)
        assert (await call).problem() == (504, "outcome_unknown", None)
        # The successor's entry, or any answer, ends it.
        api.owner.silent = False
        partition = api.gateway.client.partition_of("j")
        api.link.say_owners({partition: "http://127.0.0.1:7"})
        assert api.gateway.client.partitions_owned == 4
        assert (await api("POST", "/v1/jobs", LATER)).status == 201


async def test_a_deaf_owner_that_answers_is_not_gone(api: Api, monkeypatch: Any) -> None:
    monkeypatch.setattr("api.owner_watch.SILENT_MS", 0)
    api.deaf = True
    assert (await api("POST", "/v1/jobs", LATER)).status == 201
    await api.gateway.watch.look()
    assert api.gateway.client.partitions_owned == 4


async def test_a_late_answer_brings_an_owner_back(api: Api) -> None:
    client = api.gateway.client
    partition = client.partition_of("j")
    api.owner.silent = True
    call = await _ask(api)
    client.mark_gone(partition, client.owners[partition])
    api.owner.silent = False
    for number, batch in list(api.link.sent):
        api.link.on_send(number, batch)
    assert (await call).status == 201
    assert client.partitions_owned == 4


async def test_readiness_asks_every_owner(api: Api) -> None:
    assert (await api("GET", "/readyz")).status == 200
    api.deaf = True
    unready = await api("GET", "/readyz")
    assert unready.status == 503
    assert "0 of 4" in unready.body["checks"][1]["detail"]
    api.deaf = False
    assert (await api("GET", "/readyz")).status == 200


async def test_a_probe_tells_a_listener_from_none() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await accepts(f"http://127.0.0.1:{port}")
    server.close()
    await server.wait_closed()
    assert not await accepts(f"http://127.0.0.1:{port}")
    assert not await accepts("nonsense")
    assert SILENT_MS > 0
