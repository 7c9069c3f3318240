"""What stands still although it should move ends the process, within its bound and with the reason."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException

from streams.faust_app import InputPlace
from streams.observe import ObservedOwner, SchedulerMetrics
from streams.reply_sender import RECENT_MS, ReplySender
from streams.stall_facts import SchedulerFacts
from streams.stalls import (
    FROZEN_LOOKS,
    INPUT_BOUND_MS,
    LOOK_MS,
    PRODUCER_BOUND_MS,
    Reading,
    Stalls,
    StallWatch,
    input_readings,
)
from streams.transaction import Outcome
from streams.watchdog import end_with_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BOUND_MS = 4 * LOOK_MS
AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))


class Machine:
    """A watch with a clock, and facts that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.ended: list[str] = []
        self.told: list[str] = []
        self.found: Iterable[Reading] | KafkaException = []
        self.watch = StallWatch(self, stalled=self.told.append, end=self.ended.append, monotonic_ms=lambda: self.now_ms)

    def readings(self) -> Iterable[Reading]:
        if isinstance(self.found, KafkaException):
            raise self.found
        return self.found

    def looks(self, found: Iterable[Reading] | KafkaException, times: int) -> bool:
        self.found, alive = found, True
        for _ in range(times):
            self.now_ms += LOOK_MS
            alive = alive and self.watch.look()
        return alive


def reading(done: int, wanted: int, name: str = "the agent of x") -> list[Reading]:
    return [Reading(name, done, wanted, BOUND_MS)]


def test_what_does_not_move_although_it_should_ends_the_process_within_its_bound() -> None:
    machine = Machine()
    assert machine.looks(reading(5, 9), 5)
    assert not machine.looks(reading(5, 9), 1)
    assert machine.told == [f"the agent of x has stood at 5 of 9 for {5 * LOOK_MS} ms (bound {BOUND_MS} ms)"]
    assert "ending the process so that its partitions move" in machine.ended[0]


def test_what_moves_or_need_not_move_lives() -> None:
    machine = Machine()
    assert all(machine.looks(reading(done, 1_000), 4) for done in range(10))
    assert machine.looks(reading(7, 7), 50)
    assert machine.looks(reading(8, 9), 4)
    assert machine.looks([], 50)
    assert machine.looks(reading(8, 9), 4), "a reading that was away begins anew"
    assert machine.ended == []


def test_while_the_broker_does_not_answer_nothing_is_judged() -> None:
    machine = Machine()
    assert machine.looks(reading(5, 9), 4)
    assert machine.looks(AWAY, 50)
    assert machine.looks(reading(5, 9), 5)
    assert not machine.looks(reading(5, 9), 1)


def test_a_process_that_was_frozen_begins_anew() -> None:
    machine = Machine()
    assert machine.looks(reading(5, 9), 4)
    machine.now_ms += FROZEN_LOOKS * LOOK_MS
    assert machine.looks(reading(5, 9), 5)
    assert not machine.looks(reading(5, 9), 1)


def test_the_first_look_after_a_pause_does_not_count_it() -> None:
    stalls = Stalls()
    assert stalls.look(0.0, reading(1, 2)) is None
    assert stalls.look(100.0 * BOUND_MS, reading(1, 2)) is None


def test_the_thread_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.stalls.LOOK_MS", 1)
    ended = threading.Event()
    facts = SimpleNamespace(readings=lambda: [Reading("x", 0, 1, 0)])
    watch = StallWatch(facts, stalled=lambda _: None, end=lambda _: ended.set())
    watch.start()
    assert ended.wait(20.0)
    watch.stop()


# --- what is looked at ---


class FakeInputs:
    generation = 3

    def __init__(self, *places: InputPlace) -> None:
        self.found = places

    def places(self) -> list[InputPlace]:
        return [*self.found]


def named(inputs: FakeInputs, *, writes: bool = True) -> dict[str, tuple[int, int, int]]:
    log = SimpleNamespace(
        stable_ends=lambda places: dict.fromkeys(places, 20),
        takes_writes=lambda: writes,
    )
    facts = SchedulerFacts(log, inputs, lambda: (4, 5), lambda: (6, 7))  # type: ignore[arg-type] # fakes
    return {name: (done, wanted, bound) for name, done, wanted, bound in facts.readings()}


def test_an_input_is_followed_from_the_broker_to_the_consumer_and_from_there_to_the_owner() -> None:
    found = named(FakeInputs(InputPlace("commands", 1, position=18, read=17, delivered=15)))
    assert found["the consumer of commands-1 (generation 3)"] == (18, 20, INPUT_BOUND_MS)
    assert found["the agent of commands-1 (generation 3)"] == (15, 17, INPUT_BOUND_MS)


def test_an_input_of_which_nothing_was_read_has_no_agent_to_judge() -> None:
    found = named(FakeInputs(InputPlace("commands", 1, position=None, read=None, delivered=None)))
    assert found["the consumer of commands-1 (generation 3)"] == (0, 20, INPUT_BOUND_MS)
    assert not any(name.startswith("the agent") for name in found)


def test_an_agent_that_never_delivered_anything_is_judged() -> None:
    (_, agent) = input_readings("x-0", end=1, position=1, read=0, delivered=None, generation=1)
    assert (agent.done, agent.wanted) == (-1, 0)


@pytest.mark.parametrize("writes", [True, False])
def test_producers_are_judged_unless_the_broker_may_refuse_every_write(*, writes: bool) -> None:
    found = named(FakeInputs(), writes=writes)
    expected = {
        "the producer of transactions": (4, 5, PRODUCER_BOUND_MS),
        "the producer of replies": (6, 7, PRODUCER_BOUND_MS),
    }
    assert found == (expected if writes else {})


def test_transactions_should_move_from_a_failure_until_the_next_commit_or_assignment() -> None:
    observed = ObservedOwner(SchedulerMetrics(), skew_alert_ms=1_000)
    seen = [observed.transactions()]
    steps: list[Callable[[], None]] = [
        lambda: observed.failed(Outcome.ABORTED, "why", [0]),
        lambda: observed.committed([], 1.0),
        lambda: observed.failed(Outcome.STALE, "why", [0]),
        lambda: observed.revoked([0], 1.0),
    ]
    for step in steps:
        step()
        seen.append(observed.transactions())
    assert seen == [(0, 0), (0, 1), (1, 1), (1, 2), (1, 1)]


def test_a_stall_has_its_log_line_and_its_metric() -> None:
    metrics = SchedulerMetrics()
    with structlog.testing.capture_logs() as lines:
        ObservedOwner(metrics, skew_alert_ms=1_000).stalled("the agent of x has stood")
    assert [(line["event"], line["reason"]) for line in lines] == [("stalled", "the agent of x has stood")]
    assert metrics.registry.get_sample_value("horolog_stalls_total") == 1


def test_replies_should_move_while_they_are_sent_and_none_is_taken() -> None:
    now_ms = [0.0]
    sender = ReplySender({"bootstrap.servers": "127.0.0.1:1"}, monotonic_ms=lambda: now_ms[0])
    callbacks: list[Any] = []

    def produce(*_: object, on_delivery: Any) -> None:
        callbacks.append(on_delivery)

    sender._producer = SimpleNamespace(produce=produce, poll=lambda _: 0)  # type: ignore[assignment] # a fake
    record = SimpleNamespace(topic="replies", partition=0, key=b"g", value=b"v")
    assert sender.progress() == (0, 0)
    sender.send([record])  # type: ignore[list-item] # a fake
    assert sender.progress() == (0, 1)
    callbacks[0](KafkaError(KafkaError._MSG_TIMED_OUT), None)
    assert sender.progress() == (0, 1)
    now_ms[0] = RECENT_MS
    assert sender.progress() == (0, 0), "nothing was sent of late: it tells nothing"
    sender.send([record])  # type: ignore[list-item] # a fake
    callbacks[1](None, None)
    assert sender.progress() == (1, 1)


# --- threads ---


@pytest.mark.parametrize(("name", "ends"), [("horolog-demand", 1), ("somebody-else", 0)])
def test_a_thread_of_ours_that_dies_ends_the_process(
    name: str, ends: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    ended: list[str] = []
    end_with_threads(ended.append)

    def die() -> None:
        raise ValueError("on purpose")

    thread = threading.Thread(target=die, name=name)
    thread.start()
    thread.join()
    assert [f"the thread {name} died (ValueError: on purpose)" in reason for reason in ended] == [True] * ends
    assert "on purpose" in capsys.readouterr().err
