"""Faust's part: process life cycle, group membership, assignment callbacks, and two agents that only fill inboxes.

Faust commits nothing for the input topics (`acks=False`): offsets travel in the owner's transactions alone, and a
restart
resumes at them. Its tables are not used; docs/guarantees.md says why, with the evidence. Faust gets two things that
it does not offer:
the inputs are read read_committed (a producer may write definitions in transactions), and no leader topic is made.
One thing is mended: its seek back to the committed offsets also works where that offset is 0.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import faust
from faust.transport.drivers import aiokafka as driver

from schemas.topics import Topic, topic_name
from streams.inbox import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faust.types import TP

    from schemas.config import KafkaSettings, Settings
    from streams.inbox import Source
    from streams.owner import Owner

STREAM_BUFFER_MAX: Final = 16_384
"""Events between the consumer and an agent; agents do nothing but move them on."""


FETCH_WAIT_MS: Final = 20
"""How long the broker may hold a fetch that finds nothing. aiokafka has one fetch in flight per broker, and a partition
whose records were just taken is not in it: until that fetch comes back, new records of the partition stay unread. With
Faust's 1,500 ms a system whose partitions fall quiet together stood still for most of a second again and again."""


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):
    """Faust reads committed records only under its own exactly_once, which must not be used (facts B3)."""

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - read when the consumer starts; no public way
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001 - likewise
        return consumer

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Go back to the committed offsets, also where nothing was committed yet, or 0.

        Faust drops what it has fetched while the group moves on, and seeks back. aiokafka passes over offsets of 0 and
        none, so the first records of such a partition would be skipped, and lost with the next commit behind them.
        """
        offsets: Mapping[TP, int] = await self.call_thread(self._seek_to_committed)
        return offsets

    async def _seek_to_committed(self) -> Mapping[TP, int]:
        consumer = self._ensure_consumer()
        offsets: Mapping[TP, int] = await consumer.seek_to_committed()
        for partition, offset in offsets.items():
            if not offset:
                consumer.seek(partition, 0)
        return offsets


class InputPlace(NamedTuple):
    """How far the records of one input partition are on their way; offsets, None where there was none yet."""

    topic: str
    partition: int
    position: int | None
    """The consumer's next fetch."""
    read: int | None
    """The last one that Faust handed to the agent."""
    delivered: int | None
    """The last one that the agent handed to the owner."""


class InputProgress:
    """What the agents have delivered, and where Faust and its consumer are; looked at from another thread."""

    def __init__(self, app: faust.App) -> None:
        self._app = app
        self.read: dict[tuple[str, int], int] = {}
        self.delivered: dict[tuple[str, int], int] = {}
        self.waiting: set[str] = set()
        """Topics whose agent waits for room in a full inbox: it stands still on purpose."""

    @property
    def generation(self) -> int:
        """Of the group, as the app knows it."""
        return int(self._app.consumer_generation_id)

    def forget(self) -> None:
        """The group moves on: what was read and not delivered is dropped, and read again."""
        self.read.clear()

    def places(self) -> list[InputPlace]:
        """Return the input partitions that are assigned and whose agent is not waiting; none before the start."""
        try:
            # Not `app.consumer`, which would make one.
            consumer = self._app._consumer  # noqa: SLF001 - no public way
            subscription = consumer._thread._consumer._subscription.subscription  # type: ignore[union-attr]  # noqa: SLF001 - no public way
            assignment = subscription.assignment
        except AttributeError:
            return []
        if assignment is None or not assignment.active:
            return []
        found = []
        for tp in assignment.tps:
            if tp.topic in self.waiting:
                continue
            state = assignment.state_value(tp)
            position = state.position if state is not None and state.has_valid_position else None
            key = (tp.topic, tp.partition)
            found.append(InputPlace(tp.topic, tp.partition, position, self.read.get(key), self.delivered.get(key)))
        return found


class _Consumer(driver.Consumer):
    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        hand_to_agent, progress = self.callback, self.transport.progress  # type: ignore[attr-defined]  # ours

        async def noted(message: Any) -> None:
            progress.read[message.topic, message.partition] = message.offset
            await hand_to_agent(message)

        self.callback = noted

    def _new_consumer_thread(self) -> _ReadCommittedThread:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)


class _Transport(driver.Transport):
    Consumer = _Consumer
    progress: InputProgress


def make_app(settings: Settings, data_dir: str) -> faust.App:
    """Return the app; it connects to nothing before it is started."""
    scheduler = settings.scheduler
    app = faust.App(
        scheduler.group_id,
        broker=f"kafka://{settings.kafka.bootstrap_servers.replace(',', ';')}",
        broker_credentials=_credentials(settings.kafka),
        store="memory://",
        datadir=data_dir,
        topic_partitions=settings.topics.partitions,
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        worker_redirect_stdouts=False,
        broker_session_timeout=scheduler.session_timeout_ms / 1000,
        broker_rebalance_timeout=scheduler.rebalance_timeout_ms / 1000,
        broker_heartbeat_interval=scheduler.heartbeat_interval_ms / 1000,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        stream_buffer_maxsize=STREAM_BUFFER_MAX,
    )
    transport = _Transport(app.conf.broker, app, loop=app.loop)
    transport.progress = InputProgress(app)
    app.transport = transport
    return app


def connect(app: faust.App, settings: Settings, owner: Callable[[], Owner]) -> InputProgress:
    """Let the app fill the owner's inboxes and tell it of assignments. `owner()` is asked at each call."""
    progress: InputProgress = app.transport.progress  # type: ignore[attr-defined]  # ours
    _add_agent(app, settings, Topic.COMMANDS, "commands", owner, progress)
    _add_agent(app, settings, Topic.JOB_DEFINITIONS, "definitions", owner, progress)
    commands = topic_name(settings, Topic.COMMANDS)

    async def assigned(_sender: Any, /, *told: Any, **_: Any) -> None:
        progress.forget()
        await owner().assigned([tp.partition for tp in told[0] if tp.topic == commands])

    async def revoked(_sender: Any, /, *_: Any, **__: Any) -> None:
        progress.forget()
        await owner().revoked()

    async def stopping(_sender: Any, /, *_: Any, **__: Any) -> None:
        await owner().stop()

    # Faust holds its receivers weakly; the app keeps these alive.
    app._horolog_receivers = (assigned, revoked, stopping)  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    app.on_partitions_assigned.connect(assigned)
    app.on_partitions_revoked.connect(revoked)
    # A graceful stop sends no revocation (facts A3).
    app.on_before_shutdown.connect(stopping)
    return progress


def _add_agent(  # noqa: PLR0917 - all of it is the agent's
    app: faust.App,
    settings: Settings,
    topic: Topic,
    source: Source,
    owner: Callable[[], Owner],
    progress: InputProgress,
) -> None:
    name = topic_name(settings, topic)
    channel = app.topic(
        name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=settings.topics.partitions,
        acks=False,
        internal=False,
        allow_empty=True,
    )

    async def fill(stream: faust.StreamT[bytes]) -> None:
        async for event in stream.events():
            message = event.message
            partition = message.partition
            owner().deliver(
                partition,
                Input(source, message.offset, round(message.timestamp * 1000), message.key, message.value),
            )
            progress.delivered[name, partition] = message.offset
            progress.waiting.add(name)
            try:
                await owner().room(partition)
            finally:
                progress.waiting.discard(name)

    app.agent(channel, name=f"fill-{source}", concurrency=1)(fill)


def _credentials(kafka: KafkaSettings) -> faust.types.auth.CredentialsT | None:
    context = _ssl_context(kafka) if kafka.security_protocol.endswith("SSL") else None
    if kafka.security_protocol.startswith("SASL_") and kafka.sasl_password is not None:
        return faust.SASLCredentials(
            username=kafka.sasl_username,
            password=kafka.sasl_password.get_secret_value(),
            mechanism=kafka.sasl_mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None


def _ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(kafka.ssl_ca_path) if kafka.ssl_ca_path else None)
    if kafka.ssl_certificate_path is not None:
        password = kafka.ssl_key_password.get_secret_value() if kafka.ssl_key_password else None
        context.load_cert_chain(kafka.ssl_certificate_path, kafka.ssl_key_path, password)
    return context
