"""Calendars change while owners come and go: every occurrence has one outcome, by the checker's own reading."""

from __future__ import annotations

import os

import pytest

from streams.audit.stories import tell
from streams.core.events import CursorMoved, OccurrencesSkipped, RunOpened
from tests.simulation.harness.calendars import NAME, CalendarFleet
from tests.simulation.harness.scenario import Plan, live_through

SEEDS = int(os.environ.get("HOROLOG_SIM_SEEDS", "4"))
FIRST = int(os.environ.get("HOROLOG_SIM_FROM", "0"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_every_promise_holds_while_calendars_change(seed: int) -> None:
    result = live_through(CalendarFleet(Plan(seed=seed, hours=0.15, policies=seed % 2 == 0)))

    assert result.ok, result.story()
    events = [
        happening.event
        for story in tell(result.view)
        for happening in story.happenings
        if story.definition is not None and story.definition.calendars == (NAME,)
    ]
    assert any(isinstance(event, RunOpened) for event in events)
    assert any(isinstance(event, OccurrencesSkipped) and event.reason == "calendar" for event in events)
    moved = [event for event in events if isinstance(event, CursorMoved) and event.from_at_ms != event.to_at_ms]
    assert moved
    assert all(event.zone_data_from == event.zone_data_to for event in moved)
