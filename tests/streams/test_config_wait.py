"""An owner decides on calendars that it has read, waits for those that it has not, and never for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streams.config_wait import WAIT_MS_MAX
from streams.core.calendars import Calendar, Calendars
from streams.core.commands import Define
from streams.core.events import CursorMoved, JobDefined, RunOpened
from streams.core.time import CalendarSpec, CronSpec
from streams.owner_config import OwnerConfig
from streams.zone_sweep import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 86_400_000
CLOSED = ("2027-01-01",)
"""The rig's first day."""


def calendars(offset: int, *dates: str, name: str = "closed") -> Calendars:
    """The calendar of tenant `a` as one record of `config` has it."""
    return Calendars({("a", name): Calendar(CalendarSpec(name, dates=dates), offset)}, offset + 1)


class Reader:
    """Stands for the reader's thread: notes what it is asked, and reads when told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.config = OwnerConfig(self.asked.append)

    def read(self, known: Calendars | None = None, *, looked: bool = True) -> None:
        known = known or self.config.calendars
        self.config.heard(known, known.next_offset, self.asked[-1] if looked and self.asked else 0)


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def ready(reader: Reader, make_rig: Any) -> Any:
    """A shard whose take-over has read the topic, which is empty."""
    rig = make_rig(config=reader.config)
    reader.read()
    rig.run()
    return rig


@pytest.fixture
def on_calendar(make_job: Any) -> Callable[..., Any]:
    def make(job_id: str = "j", **fields: Any) -> Any:
        spec = CronSpec(expression="0 12 * * *")
        job = msgspec.structs.replace(make_job(job_id), schedule=spec, calendars=("closed",))
        return msgspec.structs.replace(job, **fields)

    return make


def define(rig: Any, definition: Any, config_offset: int) -> str:
    request_id: str = rig.request()
    rig.send(
        Define(
            job_id=definition.job_id,
            request_id=request_id,
            definition=definition,
            request_hash=repr(definition),
            config_offset=config_offset,
        )
    )
    return request_id


def events(rig: Any, kind: type[Any]) -> list[Any]:
    return [event for entry in rig.history for event in entry.events if isinstance(event, kind)]


def test_nothing_is_decided_before_the_take_over_has_read_the_topic(
    reader: Reader, make_rig: Any, on_calendar: Any
) -> None:
    rig = make_rig(config=reader.config)
    request = define(rig, on_calendar(), 0)
    assert rig.turn() is None
    assert not rig.shard.has_work()

    reader.read(calendars(0))
    assert rig.shard.has_work()
    rig.run()
    assert rig.reply(request).code == "created"


def test_a_take_over_goes_on_without_the_topic_after_a_while(reader: Reader, make_rig: Any, make_job: Any) -> None:
    rig = make_rig(config=reader.config)
    request = rig.define(make_job("j"))
    assert rig.turn() is None
    assert rig.shard.next_collect_ms() <= rig.now_ms + WAIT_MS_MAX

    rig.advance(WAIT_MS_MAX)
    rig.run()
    assert rig.reply(request).code == "created"


def test_a_definition_waits_for_the_calendar_that_its_gateway_knew(
    reader: Reader, ready: Any, on_calendar: Any, make_job: Any
) -> None:
    before = ready.define(make_job("before"))
    request = define(ready, on_calendar(), 6)
    after = ready.define(make_job("after"))
    ready.turn()
    assert ready.reply(before).code == "created"
    assert request not in ready.answers
    assert after not in ready.answers  # the order of the log is kept
    assert not ready.shard.has_work()
    assert ready.turn() is None

    reader.read(calendars(5, *CLOSED), looked=False)
    ready.run()
    assert ready.reply(request).code == "created"
    assert ready.reply(after).code == "created"
    (defined,) = [event for event in events(ready, JobDefined) if event.definition.job_id == "j"]
    assert defined.next_at_ms - ready.now_ms > 12 * 3_600_000  # the first day is excluded
    assert defined.calendars == "closed@5"
    assert ready.history[-1].config_offset == 6


def test_timers_go_on_while_inputs_wait(ready: Any, on_calendar: Any, make_job: Any) -> None:
    ready.define(make_job("hourly"))
    ready.run()
    define(ready, on_calendar(), 6)
    due_ms = ready.shard.job("hourly").state.next_at_ms
    ready.advance(due_ms - ready.now_ms - 100)
    ready.turn()
    ready.advance(100)
    ready.turn()

    assert [event.scheduled_at_ms for event in events(ready, RunOpened)] == [due_ms]


def test_a_definition_is_refused_when_the_reader_does_not_come_so_far(
    reader: Reader, ready: Any, on_calendar: Any
) -> None:
    first = define(ready, on_calendar("first"), 6)
    second = define(ready, on_calendar("second"), 6)
    ready.turn()
    ready.advance(WAIT_MS_MAX)
    ready.run()
    assert [ready.reply(request).code for request in (first, second)] == ["behind", "behind"]
    assert not ready.dead_letters

    third = define(ready, on_calendar("third"), 6)
    ready.run()
    assert ready.reply(third).code == "behind"  # no second wait for a reader that has not moved

    reader.read(calendars(3), looked=False)
    fourth = define(ready, on_calendar("fourth"), 6)
    ready.turn()
    assert fourth not in ready.answers  # it has moved: worth another wait


def test_a_kafka_definition_waits_for_everything_that_was_written_before_it(
    reader: Reader, ready: Any, on_calendar: Any
) -> None:
    ready.publish(on_calendar("one"))
    ready.publish(on_calendar("two"))
    ready.turn()
    assert ready.history == []

    reader.read(calendars(5, *CLOSED))
    ready.run()
    assert [event.definition.job_id for event in events(ready, JobDefined)] == ["one", "two"]
    assert not ready.dead_letters


def test_a_kafka_definition_with_an_unknown_calendar_is_a_dead_letter(
    reader: Reader, ready: Any, on_calendar: Any
) -> None:
    ready.publish(on_calendar("one"))
    ready.publish(on_calendar("two"))
    ready.turn()
    looks = len(reader.asked)
    reader.read(calendars(5, name="other"))
    ready.run()

    assert [(letter.code, letter.field) for letter in ready.dead_letters] == [("invalid", "calendars")] * 2
    assert "known are: other" in ready.dead_letters[0].reason
    assert len(reader.asked) == looks  # one look was enough for both


def test_an_unknown_calendar_of_a_kafka_definition_holds_the_inputs_for_a_while_only(
    ready: Any, on_calendar: Any
) -> None:
    ready.publish(on_calendar())
    ready.turn()
    ready.advance(WAIT_MS_MAX)
    ready.run()

    assert [letter.field for letter in ready.dead_letters] == ["calendars"]


def test_an_aborted_batch_decides_a_held_definition_once(reader: Reader, ready: Any, on_calendar: Any) -> None:
    request = define(ready, on_calendar(), 6)
    ready.turn()
    reader.read(calendars(5), looked=False)
    batch = ready.collect()
    ready.shard.rolled_back(batch)
    ready.run()

    assert ready.reply(request).code == "created"
    assert len(events(ready, JobDefined)) == 1


def test_a_change_of_a_calendar_moves_each_job_that_names_it_once(
    reader: Reader, ready: Any, on_calendar: Any, make_job: Any
) -> None:
    reader.read(calendars(0), looked=False)
    for number in range(PAGE + 5):
        define(ready, on_calendar(f"on-{number}"), 1)
    ready.define(make_job("off"))
    ready.run()
    reader.read(calendars(7, *CLOSED), looked=False)
    assert ready.shard.has_work()
    ready.run()

    moved = [(entry.job_id, e) for entry in ready.history for e in entry.events if isinstance(e, CursorMoved)]
    assert sorted(job_id for job_id, _ in moved) == sorted(f"on-{number}" for number in range(PAGE + 5))
    (way,) = {(e.from_at_ms, e.to_at_ms, e.calendars_from, e.calendars_to) for _, e in moved}
    assert way == (way[0], (way[0] or 0) + DAY_MS, "closed@0", "closed@7")
    assert {entry.config_offset for entry in ready.history if entry.job_id == moved[0][0]} == {1, 8}
    ready.run()
    assert len(events(ready, CursorMoved)) == PAGE + 5


def test_a_take_over_sweeps_for_what_changed_in_between_and_only_for_that(
    reader: Reader, ready: Any, on_calendar: Any, make_rig: Any
) -> None:
    reader.read(calendars(0), looked=False)
    define(ready, on_calendar(), 1)
    ready.run()
    ready.advance(10_000)
    ready.run()

    same = make_rig(store=ready.store, config=reader.config)
    reader.read()
    same.run()
    assert events(same, CursorMoved) == []

    reader.read(calendars(4, *CLOSED))
    other = make_rig(store=ready.store, config=reader.config)
    reader.read()
    other.run()
    other.advance(20)
    other.run()
    assert [event.calendars_to for event in events(other, CursorMoved)] == ["closed@4"]


def test_a_sweep_is_not_taken_for_done_before_its_jobs_were_looked_at(
    reader: Reader, ready: Any, on_calendar: Any, make_job: Any, make_rig: Any
) -> None:
    reader.read(calendars(0), looked=False)
    define(ready, on_calendar(), 1)
    ready.run()
    reader.read(calendars(4, *CLOSED), looked=False)
    ready.define(make_job("other"))  # a commit in the same turn as the sweep's last page
    batch = ready.collect()
    assert batch is not None
    ready.commit(batch)
    assert not events(ready, CursorMoved)  # its look comes with the next turn, which this owner does not live to see

    successor = make_rig(store=ready.store, config=reader.config)
    reader.read()
    successor.run()
    successor.advance(20)
    successor.run()
    assert len(events(successor, CursorMoved)) == 1
