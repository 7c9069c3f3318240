"""Taking a partition over on a real Kafka: the order of the questions, open transactions, and what is read."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from schemas.config import Settings, load_settings
from schemas.topics import Topic, topic_name
from streams.core.envelopes import Marker
from streams.core.state import JobState
from streams.core.wire import encode_marker, encode_state
from streams.input_place import NO_OFFSET, InputPlace, encode_places, topic_number
from streams.kafka_dev import wait_until
from streams.ledger_log import KafkaLedgerLog
from streams.owner import input_topics
from streams.store.interface import IndexHeader
from streams.store.memory import MemoryStore
from streams.takeover import Takeover
from streams.topic_admin import create_topics
from streams.transaction import Committed, KafkaCommitter, Outcome, OutRecord, PartitionWrite, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from streams.inbox import Source
    from streams.ledger_log import LedgerRecordIn, LogIdentity
    from streams.store.interface import StoreIdentity
    from streams.takeover import Recovered

WAIT_S = 60.0
PARTITIONS = 2
LONG_MS = 600_000
"""A fence wait that no test outlasts."""


class Kafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture
def settings(kafka: Kafka, namespace: str) -> Settings:
    where = {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace}
    overrides: dict[str, dict[str, Any]] = {
        "kafka": where,
        "topics": {"partitions": PARTITIONS},
        "scheduler": {"group_id": f"g-{namespace}"},
    }
    settings = load_settings(env={}, overrides=overrides)
    create_topics(settings)
    return settings


class Recording:
    """A ledger log that writes down what is asked of it, and may act before it answers."""

    def __init__(self, log: KafkaLedgerLog) -> None:
        self._log = log
        self.calls: list[str] = []
        self.starts: list[dict[int, int]] = []
        self.before: Callable[[str], None] = lambda _: None

    def identity(self) -> LogIdentity:
        self._note("identity")
        return self._log.identity()

    def ledger_ends(self, partitions: Iterable[int], *, stable: bool) -> dict[int, int]:
        self._note("stable end" if stable else "end")
        return self._log.ledger_ends(partitions, stable=stable)

    def input_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        self._note("input ends")
        return self._log.input_ends(partitions)

    def stable_ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        self._note("input ends")
        return self._log.stable_ends(places)

    def stable_committed(self, partitions: Iterable[int]) -> dict[str, dict[int, int]] | None:
        self._note("stable offsets")
        return self._log.stable_committed(partitions)

    def predecessors(self, ends: Mapping[int, int]) -> set[str]:
        self._note("predecessors")
        return self._log.predecessors(ends)

    def fence(self, transactional_id: str) -> None:
        self._note(f"fence {transactional_id}")
        self._log.fence(transactional_id)

    def read_ledger(
        self, start: Mapping[int, int], end: Mapping[int, int], still_current: Callable[[], bool]
    ) -> Iterator[list[LedgerRecordIn]]:
        self._note("read")
        self.starts.append(dict(start))
        return self._log.read_ledger(start, end, still_current)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.before(call)


@pytest.fixture
def log(settings: Settings) -> Iterator[Recording]:
    log = KafkaLedgerLog(settings, settings.kafka.client_config())
    assert wait_until(lambda: has_leaders(log), WAIT_S)
    yield Recording(log)
    log.close()


def has_leaders(log: KafkaLedgerLog) -> bool:
    """Whether the new topics can be asked already; the owner tries again where they cannot."""
    try:
        log.ledger_ends(range(PARTITIONS), stable=True)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("stable", [True, False])
def test_an_end_that_is_no_offset_is_asked_again_and_never_believed(
    log: Recording, monkeypatch: pytest.MonkeyPatch, *, stable: bool
) -> None:
    """While leaders move an answer may say -1001 and no error: as an end it would forget every job of the partition."""

    def invalid(asked: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {partition: Future() for partition in asked}
        for answer in answers.values():
            answer.set_result(SimpleNamespace(offset=-1001))
        return answers

    refreshed: list[str] = []
    admin = SimpleNamespace(list_offsets=invalid, list_topics=lambda topic, **_: refreshed.append(topic))
    monkeypatch.setattr(log._log, "_admin", admin)

    with pytest.raises(KafkaException, match="ledger-0 is not known yet"):
        log.ledger_ends([0], stable=stable)
    with pytest.raises(KafkaException, match="commands-0 is not known yet"):
        log.input_ends([0])
    assert len(refreshed) == 2


def test_after_a_refusal_by_epoch_the_leaders_are_learnt_anew(log: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a broker's restart librdkafka goes on asking with the old epoch: no lease would expire for five minutes."""

    def fenced(asked: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {partition: Future() for partition in asked}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)))
        return answers

    refreshed: list[str] = []

    def unreachable(topic: str, **_: Any) -> None:
        refreshed.append(topic)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(log._log, "_admin", SimpleNamespace(list_offsets=fenced, list_topics=unreachable))
    with pytest.raises(KafkaException, match="FENCED_LEADER_EPOCH"):  # and not the failure of the second question
        log.input_ends([0, 1])
    assert len(refreshed) == 1


def test_who_may_be_asked_is_learnt_anew_before_the_topic_is_described(
    log: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka goes on waiting for the controller that it knows, also where that broker is the one that died."""
    asked: list[str] = []

    def metadata(*_: Any, **__: Any) -> Any:
        asked.append("metadata")
        return SimpleNamespace(cluster_id="c")

    def described(*_: Any, **__: Any) -> dict[str, Future[Any]]:
        asked.append("described")
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(topic_id="t"))
        return dict.fromkeys([log._log._ledger, *log._log._inputs], answer)

    monkeypatch.setattr(log._log, "_admin", SimpleNamespace(list_topics=metadata, describe_topics=described))

    assert log.identity()[:2] == ("c", "t")
    assert asked == ["metadata", "described"]


class Predecessor:
    """An owner that commits jobs, and may be frozen inside a transaction."""

    def __init__(self, settings: Settings, make_group: Any) -> None:
        self.settings = settings
        self.group = make_group(settings)
        self.membership = self.group.membership()
        self.frozen = threading.Event()
        self.thaw = threading.Event()
        self.thaw.set()
        self.committer = KafkaCommitter(
            settings.kafka.client_config(),
            settings.kafka.namespace + "old",
            transaction_timeout_ms=60_000,
            steps=self,
        )

    def before(self, step: str) -> None:
        if step == "commit" and not self.thaw.is_set():
            self.frozen.set()
            assert self.thaw.wait(WAIT_S)

    def commit(
        self,
        *jobs: str,
        deleted: str = "",
        next_seq: int = 2,
        offset: int = 1,
        places: Mapping[Source, InputPlace] | None = None,
    ) -> Committed:
        """Write states, a null for `deleted`, and a marker, to partition 0."""
        partition = 0
        ledger = topic_name(self.settings, Topic.LEDGER)
        records = [state_record(ledger, partition, job) for job in jobs]
        if deleted:
            records += [OutRecord(ledger, partition, prefix + deleted.encode(), None) for prefix in (b"s|", b"d|")]
        own_id = self.committer.transactional_id
        marker = Marker(
            partition=partition, next_seq=next_seq, generation=1, member_id="m", transactional_id=own_id, now_ms=0
        )
        headers: list[tuple[str, str | bytes | None]] = [("x", own_id.encode())]
        if places is not None:
            headers.append(("n", encode_places(places)))
        marker_record = OutRecord(ledger, partition, b"m|", encode_marker(marker), headers)
        offsets = dict.fromkeys(input_topics(self.settings), offset)
        write = PartitionWrite(partition, records, marker_record, offsets)
        return self.committer.commit(Transaction(membership=self.membership, writes=[write]))

    def commit_and_freeze(self, *jobs: str, **fields: Any) -> Future[Committed]:
        """Begin a commit that stops in front of its last step; `thaw` lets it go on."""
        self.thaw.clear()
        end: Future[Committed] = Future()
        threading.Thread(target=lambda: end.set_result(self.commit(*jobs, **fields)), daemon=True).start()
        assert self.frozen.wait(WAIT_S)
        return end

    def close(self) -> None:
        self.thaw.set()
        self.committer.close()
        self.group.consumer.close()


def state_record(ledger: str, partition: int, job_id: str) -> OutRecord:
    header = IndexHeader(deadline_ms=1_000, ready=(), tenant="a")
    state = encode_state(JobState(job_id=job_id, tenant="a", queue="q"))
    return OutRecord(ledger, partition, b"s|" + job_id.encode(), state, [("i", header.encode())])


@pytest.fixture
def predecessor(settings: Settings, make_group: Any) -> Iterator[Predecessor]:
    predecessor = Predecessor(settings, make_group)
    yield predecessor
    predecessor.close()


class Successor:
    """One take-over of partition 0 after the other, with stores that stay."""

    def __init__(self, settings: Settings, log: Recording) -> None:
        self.log = log
        self.settings = settings
        self.stores: dict[int, MemoryStore] = {}
        self.current = True

    def open_store(self, partition: int, identity: StoreIdentity, _log_end: int) -> MemoryStore:
        self.log.calls.append("open store")
        return self.stores.setdefault(partition, MemoryStore(identity))

    def take(self, fence_wait_ms: int = LONG_MS, partitions: tuple[int, ...] = (0,)) -> dict[int, Recovered] | None:
        takeover = Takeover(
            self.log,
            self.open_store,
            input_topics=input_topics(self.settings),
            still_current=lambda: self.current,
            own_id=lambda: "own",
            fence_wait_ms=fence_wait_ms,
        )
        return takeover.run(partitions)

    def take_in_thread(self, fence_wait_ms: int = LONG_MS) -> Future[dict[int, Recovered] | None]:
        found: Future[dict[int, Recovered] | None] = Future()

        def run() -> None:
            try:
                found.set_result(self.take(fence_wait_ms))
            except BaseException as error:  # noqa: BLE001 - it belongs to the test's thread
                found.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return found


@pytest.fixture
def successor(settings: Settings, log: Recording) -> Successor:
    return Successor(settings, log)


def jobs_of(recovered: dict[int, Recovered] | None) -> list[str]:
    assert recovered is not None
    return [job_id for job_id, _ in recovered[0].store.jobs(None, 100)]


def test_a_new_cluster_is_taken_over_from_its_beginning(successor: Successor) -> None:
    recovered = successor.take(partitions=(0, 1))
    assert recovered is not None
    assert recovered.keys() == {0, 1}
    assert recovered[0].floors == {"commands": 0, "definitions": 0}
    assert (recovered[0].next_seq, recovered[0].last_marker_ms) == (1, 0)


def test_the_questions_come_in_the_order_that_is_the_guarantee(predecessor: Predecessor, successor: Successor) -> None:
    predecessor.commit("j")
    successor.take()
    calls = [call for call in successor.log.calls if call != "stable end"]
    assert calls == ["end", "stable offsets", "end", "identity", "open store", "read"]


def test_states_tombstones_and_markers_are_read(predecessor: Predecessor, successor: Successor) -> None:
    predecessor.commit("a", "b", next_seq=3)
    end = predecessor.commit("c", deleted="a", next_seq=9, offset=7)
    recovered = successor.take()
    assert jobs_of(recovered) == ["b", "c"]
    assert recovered is not None
    start = recovered[0]
    assert start.floors == {"commands": 7, "definitions": 7}
    assert (start.next_seq, start.last_marker_ms) == (9, end.receipts[0].log_append_ms)
    assert start.store.header("c") == IndexHeader(deadline_ms=1_000, ready=(), tenant="a")


def test_only_what_the_local_store_lacks_is_read(predecessor: Predecessor, successor: Successor) -> None:
    predecessor.commit("a")
    successor.take()
    offset = successor.stores[0].ledger_offset
    predecessor.commit("b", next_seq=3)
    recovered = successor.take()
    assert successor.log.starts == [{0: 0}, {0: offset}]
    assert jobs_of(recovered) == ["a", "b"]
    assert recovered is not None
    assert recovered[0].next_seq == 3


def test_with_nothing_new_the_numbers_come_from_the_store(predecessor: Predecessor, successor: Successor) -> None:
    end = predecessor.commit("a", next_seq=5)
    successor.take()
    recovered = successor.take()
    assert recovered is not None
    assert (recovered[0].next_seq, recovered[0].last_marker_ms) == (5, end.receipts[0].log_append_ms)


def test_an_open_transaction_is_waited_for_and_what_it_commits_is_read(
    predecessor: Predecessor, successor: Successor
) -> None:
    predecessor.commit("a")
    end = predecessor.commit_and_freeze("late", offset=9)
    asked = threading.Event()
    looks = 0

    def count(call: str) -> None:
        nonlocal looks
        looks += call == "stable end"
        if looks >= 3:
            asked.set()

    successor.log.before = count
    recovered = successor.take_in_thread()
    assert asked.wait(WAIT_S)
    assert not recovered.done()
    predecessor.thaw.set()
    assert end.result(WAIT_S).outcome is Outcome.COMMITTED
    found = recovered.result(WAIT_S)
    assert jobs_of(found) == ["a", "late"]
    assert found is not None
    assert found[0].floors["commands"] == 9
    assert not [call for call in successor.log.calls if call.startswith("fence")]


def test_a_transaction_that_stays_open_is_fenced_and_its_owner_can_commit_nothing_more(
    predecessor: Predecessor, successor: Successor
) -> None:
    predecessor.commit("a")
    own_id = predecessor.committer.transactional_id
    end = predecessor.commit_and_freeze("late", offset=9)
    found = successor.take(fence_wait_ms=200)
    assert [call for call in successor.log.calls if call.startswith("fence")] == [f"fence {own_id}"]
    assert jobs_of(found) == ["a"]
    assert found is not None
    assert found[0].floors["commands"] == 1
    predecessor.thaw.set()
    assert end.result(WAIT_S).outcome is Outcome.UNKNOWN
    assert jobs_of(successor.take()) == ["a"]


def test_stable_offsets_are_withheld_while_a_transaction_with_offsets_is_open(
    predecessor: Predecessor, log: Recording, settings: Settings
) -> None:
    commands = topic_name(settings, Topic.COMMANDS)
    predecessor.commit("a", offset=4)
    before = log.stable_committed([0, 1])
    assert before is not None
    assert before[commands] == {0: 4, 1: NO_OFFSET}
    end = predecessor.commit_and_freeze("b", offset=5)
    assert log.stable_committed([0]) is None
    predecessor.thaw.set()
    end.result(WAIT_S)
    after = log.stable_committed([0])
    while after is None:
        after = log.stable_committed([0])
    assert after[commands] == {0: 5}


def fill(settings: Settings, records: int) -> None:
    """Put so many records into partition 0 of every input topic."""
    producer = Producer(settings.kafka.client_config())
    for topic in input_topics(settings):
        for _ in range(records):
            producer.produce(topic, b"v", b"k", 0)
    assert producer.flush(WAIT_S) == 0


def places_at(log: Recording, settings: Settings, offset: int) -> dict[Source, InputPlace]:
    ids = log.identity().input_ids
    return {source: InputPlace(topic_number(ids[topic]), offset) for topic, source in input_topics(settings).items()}


def test_offsets_that_kafka_forgot_are_those_of_the_last_marker(
    predecessor: Predecessor, successor: Successor, settings: Settings, log: Recording
) -> None:
    """After a week without schedulers `job-definitions` would be read from its start: deleted jobs would be back."""
    fill(settings, 9)
    predecessor.commit("a", offset=7, places=places_at(log, settings, 7))
    predecessor.group.consumer.close()
    admin = AdminClient(settings.kafka.client_config())
    admin.delete_consumer_groups([settings.scheduler.group_id])[settings.scheduler.group_id].result(WAIT_S)

    for _ in ("from the ledger", "from the local store"):
        recovered = successor.take()
        assert recovered is not None
        assert recovered[0].floors == {"commands": 7, "definitions": 7}
    assert [start for start in successor.log.starts if start[0]]  # the second one read nothing of the ledger


def test_a_marker_counts_for_nothing_where_the_topic_is_another_one_or_was_cut(
    predecessor: Predecessor, successor: Successor, settings: Settings, log: Recording
) -> None:
    fill(settings, 9)
    places = places_at(log, settings, 7)
    predecessor.commit(
        "a", offset=7, places={"commands": InputPlace(1, 7), "definitions": InputPlace(places["definitions"].topic, 10)}
    )
    predecessor.group.consumer.close()
    admin = AdminClient(settings.kafka.client_config())
    admin.delete_consumer_groups([settings.scheduler.group_id])[settings.scheduler.group_id].result(WAIT_S)
    recovered = successor.take()
    assert recovered is not None
    assert recovered[0].floors == {"commands": 0, "definitions": 0}


def test_offsets_that_went_back_are_not_believed(
    predecessor: Predecessor, successor: Successor, settings: Settings, log: Recording
) -> None:
    """An unclean election of the offsets' own topic, or a broker's defect: each input is decided once all the same."""
    fill(settings, 9)
    predecessor.commit("a", offset=3, places=places_at(log, settings, 7))
    recovered = successor.take()
    assert recovered is not None
    assert recovered[0].floors == {"commands": 7, "definitions": 7}


def test_an_offset_ahead_of_the_marker_counts(
    predecessor: Predecessor, successor: Successor, settings: Settings, log: Recording
) -> None:
    fill(settings, 9)
    predecessor.commit("a", offset=8, places=places_at(log, settings, 7))
    recovered = successor.take()
    assert recovered is not None
    assert recovered[0].floors == {"commands": 8, "definitions": 8}
    assert "input ends" not in successor.log.calls  # a take-over asks no more than it must


def test_predecessors_are_found_in_markers_also_while_their_transaction_is_open(
    predecessor: Predecessor, log: Recording
) -> None:
    end = predecessor.commit_and_freeze("a")
    ends = log.ledger_ends([0], stable=False)
    assert log.predecessors(ends) == {predecessor.committer.transactional_id}
    predecessor.thaw.set()
    assert end.result(WAIT_S).outcome is Outcome.COMMITTED


@pytest.mark.parametrize("call", ["end", "stable end", "stable offsets", "identity", "read"])
def test_it_is_given_up_when_the_assignment_has_moved_on(
    predecessor: Predecessor, successor: Successor, call: str
) -> None:
    predecessor.commit("a")

    def move_on(asked: str) -> None:
        if asked == call:
            successor.current = False

    successor.log.before = move_on
    assert successor.take() is None
    for store in successor.stores.values():
        with pytest.raises(Exception, match="closed"):
            store.state("a")


def test_an_owner_does_not_fence_itself(predecessor: Predecessor, log: Recording, settings: Settings) -> None:
    end = predecessor.commit_and_freeze("a")
    own_id = predecessor.committer.transactional_id
    looks = 0

    def thaw_after_a_while(call: str) -> None:
        nonlocal looks
        looks += call == "predecessors"
        if looks:
            predecessor.thaw.set()

    log.before = thaw_after_a_while
    takeover = Takeover(
        log,
        lambda _, identity, __: MemoryStore(identity),
        input_topics=input_topics(settings),
        still_current=lambda: True,
        own_id=lambda: own_id,
        fence_wait_ms=50,
    )
    assert jobs_of(takeover.run([0])) == ["a"]
    assert end.result(WAIT_S).outcome is Outcome.COMMITTED
    assert not [call for call in log.calls if call.startswith("fence")]
