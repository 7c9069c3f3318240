"""Foreign cron text and its translation fire at the same times: against a model of each dialect, minute by minute.

The models are written after the dialects' own code (cronie's entry.c and cron.c, robfig/cron's parser.go and spec.go)
and know nothing of our grammar; the translation runs through the core's own `compile_schedule`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horolog._cli.importers.cron_text import ROBFIG, VIXIE, CronText, read_cron
from horolog._cli.importers.remarks import NotTranslatableError
from streams.core.time import CronSpec, compile_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

START = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
DAYS = 430  # a year and a bit: every day of the year beside several weekdays
COMPARED = 300
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
BOTH_DAYS = "both days must match"


def translated(text: str, dialect: str) -> tuple[CronText, list[str]]:
    notes: list[str] = []
    return read_cron(text.split(), dialect, notes.append), notes


# --- the models ---------------------------------------------------------------------------------------


def model_item(item: str, low: int, high: int, dialect: str) -> tuple[set[int], bool]:
    """Values of an item, and whether it is a star to robfig's rule of the days."""
    body, _, step_text = item.partition("/")
    step = int(step_text or 1)
    if body in {"*", "?"}:
        return set(range(low, high + 1, step)), step == 1
    first, _, last = body.partition("-")
    begin = int(first)
    end = int(last) if last else (high if step_text and dialect == ROBFIG else begin)
    return set(range(begin, end + 1, step)), False


def model(text: str, dialect: str) -> Callable[[dt.datetime], bool]:
    values, stars = [], []
    for field, (low, high) in zip(text.split(), BOUNDS, strict=True):
        top = 6 if dialect == ROBFIG and high == 7 else high
        items = [model_item(item, low, top, dialect) for item in field.split(",")]
        values.append(set[int]().union(*(item[0] for item in items)))
        stars.append(any(item[1] for item in items) if dialect == ROBFIG else field.startswith("*"))
    weekdays = {value % 7 for value in values[4]}

    def matches(at: dt.datetime) -> bool:
        if at.minute not in values[0] or at.hour not in values[1] or at.month not in values[3]:
            return False
        day, weekday = at.day in values[2], at.isoweekday() % 7 in weekdays
        return day and weekday if stars[2] or stars[4] else day or weekday

    return matches


def model_times(text: str, dialect: str) -> list[dt.datetime]:
    matches = model(text, dialect)
    minutes = model_values(text, 0, dialect)
    hours = model_values(text, 1, dialect)
    found: list[dt.datetime] = []
    for number in range(DAYS):
        day = START + dt.timedelta(days=number)
        times = [day.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
        found += [at for at in times if matches(at)]
        if len(found) >= COMPARED:
            break
    return found[:COMPARED]


def model_values(text: str, place: int, dialect: str) -> list[int]:
    low, high = BOUNDS[place]
    items = text.split()[place].split(",")
    return sorted(set[int]().union(*(model_item(item, low, high, dialect)[0] for item in items)))


def our_times(cron: CronText) -> list[dt.datetime]:
    schedule = compile_schedule(CronSpec(expression=cron.expression, time_zone="UTC"), job_id="job")
    first_ms = int(START.timestamp() * 1000) - 1
    found: list[dt.datetime] = []
    for occurrence in schedule.iter_between(first_ms, first_ms + DAYS * 86_400_000):
        found.append(dt.datetime.fromtimestamp(occurrence.at_ms / 1000, tz=dt.UTC))
        if len(found) == COMPARED:
            break
    return found


# --- random expressions -------------------------------------------------------------------------------


@st.composite
def items(draw: st.DrawFn, place: int, dialect: str) -> str:
    low, high = BOUNDS[place]
    high = 6 if dialect == ROBFIG and high == 7 else high
    begin = draw(st.integers(low, high))
    end = draw(st.integers(begin, high))
    step = f"/{draw(st.integers(1, 99))}" if draw(st.booleans()) else ""
    star = draw(st.sampled_from(["*", "?"])) if dialect == ROBFIG else "*"
    single = f"{begin}{step}" if dialect == ROBFIG else str(begin)
    return draw(st.sampled_from([f"{star}{step}", single, f"{begin}-{end}{step}"]))


@st.composite
def expressions(draw: st.DrawFn, dialect: str) -> str:
    fields = [",".join(draw(st.lists(items(place, dialect), min_size=1, max_size=3))) for place in range(5)]
    wide = draw(st.sampled_from(["*", fields[3]]))  # else most expressions have few months, and little to compare
    return " ".join([*fields[:3], wide, fields[4]])


def outcome(text: str) -> list[dt.datetime] | str:
    try:
        return our_times(translated(text, VIXIE)[0])
    except NotTranslatableError as error:
        return str(error)


@settings(deadline=None)
@given(expressions(VIXIE))
def test_a_crontab_s_times_stay_its_times(text: str) -> None:
    got = outcome(text)

    assert BOTH_DAYS in got if isinstance(got, str) else got == model_times(text, VIXIE)


@settings(deadline=None)
@given(expressions(ROBFIG))
def test_a_cronjob_s_times_stay_its_times(text: str) -> None:
    cron, _ = translated(text, ROBFIG)

    assert our_times(cron) == model_times(text, ROBFIG)


# --- named cases --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "dialect", "ours", "words"),
    [
        ("0 0 */2 * 1", VIXIE, "0 0 */2 * 1", ["both must match"]),
        ("0 0 */2 * 1", ROBFIG, "0 0 1-31/2 * 1", ["is written 1-31/2", "runs when either matches"]),
        ("0 0 1 * */2", ROBFIG, "0 0 1 * 0-6/2", ["is written 0-6/2", "either matches"]),
        ("0 0 1,15 * 5", VIXIE, "0 0 1,15 * 5", ["either matches (R5)"]),
        ("0 0 1,* * 5", ROBFIG, "0 0 * * 5", []),
        ("0 0 * * fri-sun", VIXIE, "0 0 * * 5-7", ["the week ends on Sunday"]),
        ("*/90 * * * *", VIXIE, "0 * * * *", ["only 0 matches", "no longer a star"]),
        ("5/15 * ? * ?", ROBFIG, "5/15 * * * *", []),
        ("0 3 * * */7", VIXIE, "0 3 * * 0", ["only 0 matches"]),
        ("~ 3~5 * * *", VIXIE, "H(0-59) H(3-5) * * *", ["minute ~: cron draws", "hour 3~5: cron draws"]),
        ("0 0 * jan-MAR mon,Wed", VIXIE, "0 0 * JAN-MAR MON,WED", []),
        ("0 0,,12 * * *", ROBFIG, "0 0,12 * * *", ["empty item"]),
    ],
)
def test_the_translation_and_its_notes(text: str, dialect: str, ours: str, words: list[str]) -> None:
    cron, notes = translated(text, dialect)

    assert cron.expression == ours
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True)), notes


@pytest.mark.parametrize(
    ("text", "dialect", "words"),
    [
        ("0 0 * *", VIXIE, "4 fields"),
        ("5/15 * * * *", VIXIE, "cron refuses a step behind a single number; write 5-59/15"),
        ("0 22-2 * * *", VIXIE, "runs backwards and matches nothing; write 22-23,0-2"),
        ("0 22-2 * * *", ROBFIG, "runs backwards"),
        ("0 0 * * 7", ROBFIG, "Sunday is 0 in Kubernetes"),
        ("0 0 ? * *", VIXIE, "day of month '?' is not understood"),
        ("0 0 L * *", VIXIE, "day of month 'L' is not understood"),
        ("0 0 * * MONDAY", VIXIE, "day of week 'MONDAY' is not understood"),
        ("60 0 * * *", VIXIE, "60 is out of range 0-59"),
        ("*/0 0 * * *", VIXIE, "a step of 0"),
        ("0 0 */40 * 1", VIXIE, BOTH_DAYS),
        ("0 0 9~3 * *", VIXIE, "runs backwards; write 3~9"),
        ("*-5 0 * * *", ROBFIG, "minute '*-5' is not understood"),
        ("\u0663 0 * * *", VIXIE, "is not understood"),
        (f"{','.join(['1'] * 61)} 0 * * *", VIXIE, "61 items, at most 60"),
        (f"{','.join(['10-50/10'] * 40)} 0 * * *", VIXIE, "characters, at most 256"),
    ],
)
def test_what_cannot_be_said_names_its_field_and_the_way_out(text: str, dialect: str, words: str) -> None:
    with pytest.raises(NotTranslatableError) as caught:
        translated(text, dialect)

    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["0 0 31 2 *", "0 0 30-31 feb *", "0 0 31 4,6,9,11 */2"])
def test_a_day_that_no_month_has_is_seen(text: str) -> None:
    assert translated(text, VIXIE)[0].never
    assert our_times(translated(text, VIXIE)[0]) == []


@pytest.mark.parametrize(
    ("text", "fixed", "crowded"),
    [
        ("30 2 * * *", True, False),
        ("0,30 2 * * *", True, True),
        ("0 2,3 * * *", True, True),
        ("0 2,5 * * *", True, False),
        ("0,30 12 * * *", True, False),
        ("*/30 2 * * *", False, False),
        ("0 */2 * * *", False, False),
    ],
)
def test_fixed_times_that_may_meet_in_a_skipped_hour_are_seen(text: str, *, fixed: bool, crowded: bool) -> None:
    cron, _ = translated(text, VIXIE)

    assert (cron.fixed, cron.crowded) == (fixed, crowded)


def test_the_way_of_kubernetes_in_nights_of_clock_changes_can_be_kept() -> None:
    spec = CronSpec(expression="30 2 * * *", time_zone="Europe/Berlin", gap="skip", overlap_hour="both")
    schedule = compile_schedule(spec, job_id="job")

    def runs(day: str) -> int:
        first = int(dt.datetime.fromisoformat(f"{day}T00:00+00:00").timestamp() * 1000)
        return schedule.count_between(first - 1, first + 86_399_999)

    assert [runs("2027-03-28"), runs("2027-06-01"), runs("2027-10-31")] == [0, 1, 2]
