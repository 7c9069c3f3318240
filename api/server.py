"""The gateway's process: Kafka link, dispatch client and HTTP server, from start to a clean stop.

`run_gateway` blocks until SIGTERM or SIGINT. On a stop, waiting lease calls end with an empty list, calls in flight get
their answers, new ones hear 503 `stopping`; then what was accepted is flushed. Nothing is kept here that the log does
not have.
"""

from __future__ import annotations

import asyncio
import gc
import secrets
import signal
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from confluent_kafka import KafkaException

from api.app import build_app
from api.auth import Auth, TokensFileError, read_tokens
from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.kafka_link import KafkaLink, KafkaLinkConfig
from api.gateway import Gateway, Limits
from api.queries import HttpQueries
from api.runner import GatewayRunner
from schemas.log_setup import set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.config import Settings

EXIT_OK: Final = 0
EXIT_CANNOT_START: Final = 1

DRAIN_S: Final = 10.0
"""How long calls in flight may take during a stop: as long as they may wait for a reply."""

GATEWAY_ID_BYTES: Final = 6

GC_THRESHOLD: Final = 50_000
"""Allocations between collections of the youngest generation: batches are large and free themselves by counting."""

_log = structlog.get_logger("horolog.gateway")


def run_gateway(settings: Settings) -> int:
    """Serve until a signal. Returns the exit code: 0 after a clean stop, 1 if it could not start (the log says why)."""
    set_up_logging(settings.log)
    try:
        auth = Auth(None) if settings.gateway.tokens_file is None else read_tokens(settings.gateway.tokens_file)
    except (TokensFileError, OSError) as error:
        _log.error("tokens_file_unusable", detail=str(error))
        return EXIT_CANNOT_START
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    return asyncio.run(_run(settings, auth))


async def _run(settings: Settings, auth: Auth) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await serve(settings, auth, stop)


async def serve(
    settings: Settings, auth: Auth, stop: asyncio.Event, *, on_listening: Callable[[str], None] | None = None
) -> int:
    """Serve until `stop` is set; `on_listening` hears the URL. Returns the exit code."""
    gateway_id = settings.gateway.id or f"gw-{secrets.token_hex(GATEWAY_ID_BYTES)}"
    link = KafkaLink(KafkaLinkConfig.from_settings(settings, gateway_id), gateway_id)
    client = DispatchClient(link, dispatch_config(settings, gateway_id))
    try:
        await client.start()
    except KafkaException as error:
        _log.error("kafka_unusable", bootstrap_servers=settings.kafka.bootstrap_servers, detail=str(error))
        return EXIT_CANNOT_START
    gateway = Gateway(client, HttpQueries(client), auth, limits_of(settings))
    gateway.watch.start()
    app = build_app(gateway)
    runner = GatewayRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN_S)
    try:
        url = await _listen(runner, settings.gateway.host, settings.gateway.port)
    except OSError as error:
        _log.error("cannot_listen", host=settings.gateway.host, port=settings.gateway.port, detail=str(error))
        await _close(runner, gateway)
        return EXIT_CANNOT_START
    _log.info("gateway_listening", url=url, gateway_id=gateway_id, tokens=not auth.open)
    if on_listening is not None:
        on_listening(url)
    await stop.wait()
    _log.info("gateway_stopping", pending=client.pending)
    client.begin_stop()
    await _close(runner, gateway)
    _log.info("gateway_stopped", gateway_id=gateway_id)
    return EXIT_OK


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    address: tuple[str, int] = runner.addresses[0][:2]
    return f"http://{address[0]}:{address[1]}"


async def _close(runner: web.AppRunner, gateway: Gateway) -> None:
    await runner.cleanup()
    await gateway.watch.stop()
    await gateway.client.stop()
    await gateway.queries.close()


def dispatch_config(settings: Settings, gateway_id: str) -> DispatchConfig:
    """Give the dispatch client's part of the settings."""
    gateway = settings.gateway
    return DispatchConfig(
        partitions=settings.topics.partitions,
        gateway_id=gateway_id,
        reply_timeout_ms=gateway.reply_timeout_ms,
        pending_max=gateway.pending_requests_max,
        linger_ms_idle=gateway.batch_idle_ms,
        linger_ms_busy=gateway.batch_busy_ms,
    )


def limits_of(settings: Settings) -> Limits:
    """Give the HTTP side's part of the settings."""
    gateway = settings.gateway
    return Limits(
        partitions=settings.topics.partitions,
        body_bytes_batch_max=gateway.body_bytes_max,
        lease_wait_ms_max=gateway.lease_poll_max_ms,
        lease_visibility_ms=gateway.lease_ttl_ms,
        lease_runs_max=gateway.lease_batch_max,
        strict_queues=gateway.strict_queues,
        topic_namespace=settings.kafka.namespace,
    )
