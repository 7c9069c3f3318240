"""The scheduler process: builds every part, connects them, runs until told to stop.

Read next: `faust_app` (membership and input), `owner` (the loop), `shard` (what one partition decides).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import secrets
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

import faust
import structlog

from schemas.log_setup import set_up_logging
from streams.config_reader import ConfigHeard, ConfigReader
from streams.core.time import INSTALLED_ZONE_DATA
from streams.data_slot import DataSlot
from streams.demand_reader import DemandReader
from streams.faust_app import connect, make_app
from streams.history_reader import KafkaHistory
from streams.ledger_log import KafkaLedgerLog
from streams.limits_reader import LimitsReader
from streams.membership import FaustMembership, check_layout
from streams.observe import ObservedOwner, SchedulerMetrics
from streams.offer_sender import OfferSender
from streams.overdue import OverdueWatch
from streams.owner import Owner, Runtime
from streams.query import QueryServer
from streams.reply_sender import ReplySender
from streams.stall_facts import SchedulerFacts
from streams.stalls import StallWatch
from streams.stop_bound import StopBound
from streams.store.rocks import open_store
from streams.topic_admin import TopicsWrongError, require_topics
from streams.transaction import KafkaCommitter, NoSteps
from streams.watchdog import Watchdog, end_with_threads
from streams.watchdog_ends import WatchdogEnds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.config import Settings
    from streams.core.envelopes import Demand, OwnerView
    from streams.overdue import Overdue
    from streams.store.interface import Store, StoreIdentity
    from streams.transaction import Steps

STORE_AGE_MAX_MS: Final = 84 * 3_600_000
"""Half of delete.retention (7 days): an older store could bring deleted jobs back (DESIGN section 6, Store)."""

GC_THRESHOLDS: Final = (50_000, 50, 1_000)
"""Decisions free themselves by counting; a full collection over a hundred thousand cached jobs holds the loop for a
second."""

BEATS_PER_TIMEOUT: Final = 10
"""How often a turning loop tells the watchdog so."""

PORTS_TRIED: Final = 64
"""As many as there are data slots."""


def run_scheduler(settings: Settings, steps: Steps | None = None) -> int:
    """Run until SIGTERM or SIGINT.

    Returns the exit code: 0 after a stop, 1 after a failure, 3 where something is
    missing.
    """
    set_up_logging(settings.log)
    end_with_threads()
    check_layout(settings.scheduler.group_id)
    try:
        for finding in require_topics(settings):
            structlog.get_logger("horolog.scheduler").warning("copies_away", finding=finding.sentence)
    except TopicsWrongError as error:
        sys.stderr.write(f"horologd: the scheduler does not start on these topics:\n{error}\n")
        return 1
    slot = DataSlot(settings.scheduler.data_dir)
    try:
        return _Process(settings, slot, steps or NoSteps()).run()
    finally:
        slot.close()


class _Process:
    """Everything that one scheduler process holds, in the order in which it is built."""

    def __init__(self, settings: Settings, slot: DataSlot, steps: Steps) -> None:
        client = settings.kafka.client_config()
        self._settings = settings
        self._slot = slot
        self._logger: structlog.stdlib.BoundLogger = structlog.get_logger("horolog.scheduler")
        self._ends = WatchdogEnds(slot.path)
        end_with_threads(self._ends.end)
        self._metrics = SchedulerMetrics(partitions=settings.topics.partitions, stalls=self._ends.count)
        self._watchdog = Watchdog(settings.scheduler.watchdog_timeout_ms, end=self._ends.end)
        self._stop_bound = StopBound()
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._app = make_app(settings, str(slot.path / "faust"))
        self._log = KafkaLedgerLog(settings, client)
        self._log.warm_up()
        self._committer = KafkaCommitter(
            client,
            f"{settings.kafka.namespace}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            transaction_timeout_ms=settings.scheduler.transaction_timeout_ms,
            steps=steps,
        )
        self._sender = OfferSender(settings, client)
        self._replies = ReplySender(client)
        self._config = ConfigReader(settings, client, INSTALLED_ZONE_DATA, self._heard_config)
        self._events = ObservedOwner(self._metrics, skew_alert_ms=settings.scheduler.clock_skew_alert_ms)
        self._owner = Owner(
            settings,
            INSTALLED_ZONE_DATA,
            Runtime(
                committer=self._committer,
                log=self._log,
                live=FaustMembership(self._app),
                open_store=self._open_store,
                send_offers=self._sender.send,
                send_replies=self._replies.send,
                events=self._events,
                look_at_config=self._config.look,
                steps=steps,
            ),
        )
        self._owner.heard_config(*self._config.read_whole())
        self._overdue = OverdueWatch(
            self._owner,
            monotonic_ms=lambda: time.monotonic() * 1000.0,
            wall_ms=lambda: time.time_ns() // 1_000_000,
        )
        self._reader = DemandReader(settings, client, self._heard)
        self._limits = LimitsReader(settings, client, config=self._heard_limit, owner=self._heard_owner)
        self._queries = QueryServer(
            self._owner,
            self._metrics.registry,
            partitions=settings.topics.partitions,
            history=KafkaHistory(settings, client),
            standing=self._stand,
        )

    def run(self) -> int:
        """Run to the end; return the exit code."""
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        self._loop.run_until_complete(self._serve_queries())
        inputs = connect(self._app, self._settings, lambda: self._owner)
        facts = SchedulerFacts(self._log, inputs, self._events.transactions, self._replies.progress)
        self._stalls = StallWatch(facts, stalled=self._events.stalled, end=self._ends.end)
        self._app.task(self._turn)
        worker = faust.Worker(
            self._app, loop=self._loop, loglevel=self._settings.log.level, override_logging=False, quiet=True
        )
        worker.spinner = None  # it would write its escape sequences between the log lines
        try:
            worker.execute_from_commandline()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
            return 1 if self._owner.failure is not None else code
        except Exception:
            self._logger.exception("scheduler_crashed")
            raise
        finally:
            self._close()
        return 1 if self._owner.failure is not None else 0

    async def _serve_queries(self) -> None:
        scheduler = self._settings.scheduler
        port = await _listen(self._queries, scheduler.admin_host, scheduler.admin_port)
        self._owner.query_url = f"http://{scheduler.admin_host}:{port}"
        self._logger.info(
            "scheduler_started",
            query_url=self._owner.query_url,
            transactional_id=self._committer.transactional_id,
            data=str(self._slot.path),
        )
        if self._ends.count:
            self._logger.warning("ended_by_watchdog_before", times=self._ends.count, reason=self._ends.reason)

    async def _stand(self) -> Mapping[int, Overdue]:
        """Measure how this process stands, for whoever asks."""
        standing = await self._overdue.look()
        self._metrics.show(standing, is_member=self._owner.is_member)
        return standing

    async def _turn(self) -> None:
        """Run the owner's loop inside Faust's life; its failure is the process's end."""
        self._reader.start()
        self._config.start()
        self._limits.start()
        # Before anything is granted: a bound that is not known yet cannot be kept.
        await asyncio.to_thread(self._limits.wait_caught_up)
        self._watchdog.start()
        self._stalls.start()
        beats = asyncio.get_running_loop().create_task(self._beat())
        try:
            await self._owner.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the process below
            self._owner.failure = error
        finally:
            beats.cancel()
            self._watchdog.stop()
            self._stalls.stop()
            self._stop_bound.begin(0 if self._owner.failure is None else 1)
        if self._owner.failure is not None:
            self._logger.error("owner_failed", exc_info=self._owner.failure)
            await self._app.crash(self._owner.failure)

    async def _beat(self) -> None:
        timeout_ms = self._settings.scheduler.watchdog_timeout_ms
        interval_s = timeout_ms / BEATS_PER_TIMEOUT / 1000
        while True:
            if self._owner.stalled_ms() < timeout_ms:
                self._watchdog.beat()
            await asyncio.sleep(interval_s)

    def _heard(self, demand: Demand) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before its reader
            self._loop.call_soon_threadsafe(self._owner.heard_demand, demand)

    def _heard_config(self, heard: ConfigHeard) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before its reader
            self._loop.call_soon_threadsafe(self._owner.heard_config, *heard)

    def _heard_limit(self, key: str, value: bytes | None) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._owner.heard_limit, key, value)

    def _heard_owner(self, partition: int, view: OwnerView | None) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._owner.heard_owner, partition, view)

    def _open_store(self, partition: int, identity: StoreIdentity, log_end: int) -> Store:
        path = self._slot.path / "stores" / str(partition)
        store, discarded = open_store(path, identity, time.time_ns() // 1_000_000, STORE_AGE_MAX_MS, log_end)
        if discarded is not None:
            self._logger.warning("store_discarded", partition=partition, reason=discarded)
        return store

    def _close(self) -> None:
        self._reader.stop()
        self._config.stop()
        self._limits.stop()
        self._sender.close()
        self._replies.close()
        self._committer.close()
        self._log.close()
        self._stop_bound.done()


async def _listen(server: QueryServer, host: str, first_port: int) -> int:
    """Listen on the configured port or, since several schedulers share a host, on one of the next."""
    for port in range(first_port, first_port + PORTS_TRIED):
        try:
            return await server.start(host, port)
        except OSError:
            if first_port == 0:
                raise
    raise OSError(f"scheduler.admin_port: {host}:{first_port} and the {PORTS_TRIED - 1} ports behind it are taken")
