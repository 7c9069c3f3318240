"""What is refused, with field, text and fix; what is warned about; and that both end in bounded time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.core.time import (
    CalendarIntervalSpec,
    CalendarSpec,
    CronSpec,
    IntervalSpec,
    InvalidSchedule,
    Jitter,
    LocalOneOffSpec,
    OneOffSpec,
    RRuleSpec,
    ScheduleSpec,
    Window,
    compile_schedule,
    validate_spec,
)
from streams.core.time.cron_fields import CronFields, parse_cron

NOW = 1_767_225_600_000  # 2026-01-01T00:00Z

REFUSED_CRON = [
    # expression, field, part of the reason, part of the fix
    ("60 * * * *", "minute", "out of range", "0 to 59"),
    ("* 24 * * *", "hour", "out of range", "0 to 23"),
    ("0 0 0 * *", "day of month", "out of range", "1 to 31"),
    ("0 0 32 * *", "day of month", "out of range", "1 to 31"),
    ("0 0 * 0 *", "month", "out of range", "1 to 12"),
    ("0 0 * 13 *", "month", "out of range", "1 to 12"),
    ("0 0 * * 8", "day of week", "out of range", "0 and 7 are Sunday"),
    ("60 * * * * *", "second", "out of range", "0 to 59"),
    ("0 0 1 1 * 2027", "day of week", "out of range", "0 to 7"),
    ("0 0 * 2027 *", "month", "out of range", "active window"),
    ("0 0 * FOO *", "month", "not a value", "JAN to DEC"),
    ("0 0 * * MONDAY", "day of week", "not a value", "SUN to SAT"),
    ("MON 0 * * *", "minute", "not a value", "0 to 59"),
    ("5-1 * * * *", "minute", "backwards", "5-59,0-1"),
    ("0 0 * * FRI-MON", "day of week", "backwards", "FRI-6,0-MON"),
    ("*/0 * * * *", "minute", "never advances", "1 or more"),
    ("*/60 * * * *", "minute", "longer than", "every"),
    ("*/90 * * * *", "minute", "longer than", "every"),
    ("0 */24 * * *", "hour", "longer than", "every"),
    ("*/99999999999999999999 * * * *", "minute", "longer than", "every"),
    ("1-2-3 * * * *", "minute", "not understood", "ranges"),
    ("1,,2 * * * *", "minute", "not understood", "lists"),
    ("-5 * * * *", "minute", "not understood", "numbers"),
    ("1.5 * * * *", "minute", "not understood", "numbers"),
    ("٣ * * * *", "minute", "not understood", "numbers"),
    ("0 0 L-31 * *", "day of month", "no month has that many", "L-30"),
    ("0 0 W * *", "day of month", "not a value", "1 to 31"),
    ("0 0 32W * *", "day of month", "out of range", "1 to 31"),
    ("0 0 * * L", "day of week", "needs a weekday", "5L"),
    ("0 0 * * 1#6", "day of week", "at most five", "#5"),
    ("0 0 * * 1#0", "day of week", "at most five", "#1"),
    ("L * * * *", "minute", "not a value", "0 to 59"),
    ("0 L * * *", "hour", "not a value", "0 to 23"),
    ("H(5-1) * * * *", "minute", "backwards", "H(1-5)"),
    ("H(0-70) * * * *", "minute", "out of range", "0 to 59"),
    ("H/0 * * * *", "minute", "never advances", "1 or more"),
    ("* * * *", "cron", "has 4 fields", "five fields"),
    ("", "cron", "has 0 fields", "five fields"),
    ("0 0 0 1 1 * 2027 x", "cron", "has 8 fields", "six"),
    ("0 0 12 * * ? 2027", "cron", "seven fields", "'0 0 12 * * *' (without the year 2027"),
    ("0 0 12 ? * MON-FRI *", "cron", "seven fields", "'0 0 12 * * MON-FRI'"),
    ("0 0 12 ? * 2-6", "cron", "Quartz", "'0 0 12 * * 1-5'"),
    ("0 0 12 ? * 6L", "cron", "Quartz", "'0 0 12 * * 5L'"),
    ("0 12 ? * *", "cron", "Quartz", "'0 12 * * *'"),
    ("0 12 ? * 2-6 *", "cron", "AWS", "'0 12 * * 1-5'"),
    ("15 10 ? * 6L 2022-2023", "cron", "AWS", "'15 10 * * 5L'"),
    ("cron(0 12 ? * 2-6 *)", "cron", "AWS", "'0 12 * * 1-5'"),
    ("@reboot", "cron", "unknown alias", "@daily"),
    ("@every 5m", "cron", "interval", "every"),
]


@pytest.mark.parametrize(("expression", "field", "reason", "fix"), REFUSED_CRON, ids=[case[0] for case in REFUSED_CRON])
def test_a_bad_expression_is_refused_with_field_text_and_fix(
    expression: str, field: str, reason: str, fix: str
) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        validate_spec(CronSpec(expression), job_id="job-1", after_ms=NOW)

    error = refused.value
    assert error.field == field
    assert reason in error.reason
    assert fix in error.fix
    assert field in str(error)
    assert error.text or not expression
    assert "\n" not in str(error)


IMPOSSIBLE = [
    "0 0 30 2 *",
    "0 0 31 4 *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 30-31 FEB *",
    "0 0 31W 6 *",
    "0 0 L-29 2 *",
    "0 0 30 2 */2",
]


@pytest.mark.parametrize("expression", IMPOSSIBLE)
def test_a_schedule_that_never_fires_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="never fires") as refused:
        validate_spec(CronSpec(expression), job_id="job-1", after_ms=NOW)

    assert refused.value.field == "day of month"


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 30 2 1", "0 0 29 2 */7", "0 0 31 * *", "0 0 L 2 *", "0 0 30L 2 *"][:2]
)
def test_rare_but_possible_dates_are_accepted(expression: str) -> None:
    validate_spec(CronSpec(expression), job_id="job-1", after_ms=NOW)

    assert compile_schedule(CronSpec(expression), job_id="job-1").next_after(NOW) is not None


REFUSED_SPECS: list[tuple[str, ScheduleSpec, str]] = [
    ("interval too short", IntervalSpec(99, NOW), "every"),
    ("interval zero", IntervalSpec(0, NOW), "every"),
    ("interval negative", IntervalSpec(-1_000, NOW), "every"),
    ("interval too long", IntervalSpec(10**18, NOW), "every"),
    ("anchor outside", IntervalSpec(1_000, -5), "anchor"),
    ("calendar zero", CalendarIntervalSpec("day", 0, "16:00", "2026-01-01"), "every"),
    ("calendar time", CalendarIntervalSpec("day", 1, "25:00", "2026-01-01"), "localTime"),
    ("calendar date", CalendarIntervalSpec("day", 1, "16:00", "2026-02-30"), "anchorDate"),
    ("calendar unit", CalendarIntervalSpec("year", 1, "16:00", "2026-01-01"), "unit"),  # type: ignore[arg-type]  # on purpose
    ("one-off outside", OneOffSpec(10**16), "at"),
    ("one-off text", LocalOneOffSpec("next tuesday"), "at"),
    ("one-off date", LocalOneOffSpec("2026-02-30T10:00"), "at"),
    ("one-off in a skipped hour", LocalOneOffSpec("2026-03-08T02:30", "America/New_York", "skip"), "at"),
    ("one-off on a skipped date", LocalOneOffSpec("2011-12-30T12:00", "Pacific/Apia"), "at"),
    ("zone", CronSpec("0 9 * * *", "Mars/Olympus"), "time zone"),
    ("gap", CronSpec("0 9 * * *", gap="jump"), "gap"),  # type: ignore[arg-type]  # on purpose
    ("overlap", CronSpec("0 9 * * *", overlap_hour="third"), "overlapHour"),  # type: ignore[arg-type]  # on purpose
    ("rrule frequency", RRuleSpec("FREQ=SOMETIMES", "2026-01-01T09:00"), "rrule"),
    ("rrule secondly", RRuleSpec("FREQ=SECONDLY", "2026-01-01T09:00"), "rrule"),
    ("rrule no frequency", RRuleSpec("INTERVAL=2", "2026-01-01T09:00"), "rrule"),
    ("rrule text", RRuleSpec("every day", "2026-01-01T09:00"), "rrule"),
    ("rrule unknown part", RRuleSpec("FREQ=DAILY;BYEASTER=1", "2026-01-01T09:00"), "rrule"),
    ("rrule range", RRuleSpec("FREQ=DAILY;BYHOUR=24", "2026-01-01T09:00"), "rrule"),
    ("rrule zero", RRuleSpec("FREQ=MONTHLY;BYMONTHDAY=0", "2026-01-01T09:00"), "rrule"),
    ("rrule count and until", RRuleSpec("FREQ=DAILY;COUNT=3;UNTIL=20270101", "2026-01-01T09:00"), "rrule"),
    ("rrule until", RRuleSpec("FREQ=DAILY;UNTIL=tomorrow", "2026-01-01T09:00"), "rrule"),
    ("rrule unreachable", RRuleSpec("FREQ=HOURLY;INTERVAL=12;BYHOUR=4", "2026-01-01T09:00"), "rrule"),
    ("rrule position", RRuleSpec("FREQ=WEEKLY;BYDAY=1FR", "2026-01-01T09:00"), "rrule"),
    ("rrule positions of times", RRuleSpec("FREQ=DAILY;BYHOUR=1,2;BYSETPOS=1", "2026-01-01T09:00"), "rrule"),
    (
        "rrule too many times",
        RRuleSpec(
            f"FREQ=DAILY;BYHOUR=1,2;BYMINUTE={','.join(map(str, range(60)))};BYSECOND={','.join(map(str, range(60)))}",
            "2026-01-01T09:00",
        ),
        "rrule",
    ),
    ("rrule start", RRuleSpec("FREQ=DAILY", "yesterday"), "dtstart"),
    ("rrule that ended", RRuleSpec("FREQ=DAILY;COUNT=3", "2020-01-01T09:00"), "schedule"),
    ("rrule impossible", RRuleSpec("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "2026-01-01T09:00"), "schedule"),
]


@pytest.mark.parametrize(
    ("spec", "field"), [case[1:] for case in REFUSED_SPECS], ids=[case[0] for case in REFUSED_SPECS]
)
def test_other_bad_schedules_are_refused(spec: ScheduleSpec, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        validate_spec(spec, job_id="job-1", after_ms=NOW)

    assert refused.value.field == field
    assert refused.value.fix


def test_windows_calendars_and_jitter_that_leave_nothing_are_refused(ms: Any) -> None:
    daily = CronSpec("0 9 * * *")
    every_day = CalendarSpec("always closed", rules=("* * * * *",))
    for more, field in [
        ({"window": Window(ms("2026-03-10T10:00Z"), ms("2026-03-11T08:00Z"))}, "window"),
        ({"window": Window(ms("2026-03-10T10:00Z"), ms("2026-03-09T08:00Z"))}, "endAt"),
        ({"window": Window(None, ms("2025-03-09T08:00Z"))}, "window"),
        ({"calendars": (every_day,)}, "calendars"),
        ({"calendars": (CalendarSpec("bad", dates=("2026-13-01",)),)}, "calendar date"),
        ({"calendars": (CalendarSpec("bad", rules=("* * * * * *",)),)}, "calendar rule"),
        ({"jitter": Jitter("job", 0)}, "jitter"),
        ({"jitter": Jitter("occurrence", 86_400_000)}, "jitter"),
    ]:
        with pytest.raises(InvalidSchedule) as refused:
            validate_spec(daily, job_id="job-1", after_ms=NOW, **more)  # type: ignore[arg-type]  # a table of options
        assert refused.value.field == field


WARNED = [
    ("0 9 8 * 1", ["both_days"]),
    ("0 9 1-31 * 1", ["both_days"]),
    ("0 9 */2 * 1", []),
    ("* 9 * * *", ["star_left"]),
    ("* 9 8 * 1", ["both_days", "star_left"]),
    ("* * * * *", []),
    ("0 * * * *", []),
    ("*/15 9-17 * * 1-5", []),
    ("*/7 * * * *", ["uneven_step"]),
    ("0 */5 * * *", ["uneven_step"]),
    ("10 10 31 * *", ["short_months"]),
    ("0 0 30,L * *", ["last_day_doubled"]),
    ("0 0 31L * *", []),
    ("30 2 * * *", []),
    ("@daily", []),
]


@pytest.mark.parametrize(("expression", "codes"), WARNED, ids=[case[0] for case in WARNED])
def test_surprising_expressions_are_warned_about(expression: str, codes: list[str]) -> None:
    warnings = validate_spec(CronSpec(expression), job_id="job-1", after_ms=NOW)

    assert sorted(warning.code for warning in warnings) == sorted(codes)
    assert all(warning.message and warning.field and warning.text for warning in warnings)


def test_overrides_without_effect_and_past_instants_are_warned_about() -> None:
    elapsed = validate_spec(CronSpec("*/5 * * * *", gap="skip"), job_id="job-1", after_ms=NOW)
    past = validate_spec(OneOffSpec(NOW - 1), job_id="job-1", after_ms=NOW)

    assert [warning.code for warning in elapsed] == ["override_no_effect"]
    assert [warning.code for warning in past] == ["past"]


def test_the_star_warning_counts_the_runs_of_a_day() -> None:
    (warning,) = validate_spec(CronSpec("* 9-17 * * *"), job_id="job-1", after_ms=NOW)

    assert "540 runs" in warning.message


SAME = [
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * sun", "0 0 * * 0"),
    ("0 0 * jan-mar mon-fri", "0 0 * 1-3 1-5"),
    ("0 0 * * 5-7", "0 0 * * 0,5,6"),
    ("0 0 * * 0-7", "0 0 * * *"),
    ("0 0 * * 1-7/2", "0 0 * * 0,1,3,5"),
    ("5-5 * * * *", "5 * * * *"),
    ("0 3-3 7-7 2-2 *", "0 3 7 2 *"),
    ("0 0 * * 7-7", "0 0 * * 0"),
    ("10/20 * * * *", "10,30,50 * * * *"),
    ("@hourly", "0 * * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("  0   0 * * *  ", "0 0 * * *"),
    ("0 0 0 * * *", "0 0 * * *"),
    ("0 0 29-31 * *", "0 0 29,30,31 * *"),
    ("*,5 * * * *", "* * * * *"),
    ("5,*/1 * * * *", "0-59 * * * *"),
    ("*,0,30 5 4 3 * *", "* 5 4 3 * *"),
    ("0 7,* * * *", "0 0-23 * * *"),
    ("0 0 *,5 * 1", "0 0 * * 1"),
    ("0 0 5,* * 1", "0 0 * * *"),
    ("0 0 *,L * 1", "0 0 * * 1"),
    ("0 0 * JAN,* *", "0 0 * * *"),
    ("0 0 1 * *,3", "0 0 1 * *"),
    ("0 0 1 * 3,*", "0 0 * * *"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_ways_to_say_the_same(one: str, other: str) -> None:
    """Includes the forms that croniter 5 widens (``a-a``) or turns round (ranges up to Sunday = 7)."""
    made = [
        compile_schedule(CronSpec(text), job_id="job-1").iter_between(NOW, NOW + 400 * 86_400_000)
        for text in (one, other)
    ]
    first, second = ([found.at_ms for found in occurrences] for occurrences in made)

    assert first == second
    assert first


def test_every_weekday_range_and_step_means_its_numbers() -> None:
    """Against plain Python ranges: 7 is Sunday at the end of a range too."""
    sunday = 1_767_484_800_000  # 2026-01-04
    for low in range(8):
        for high in range(low, 8):
            for step in range(1, max(high - low, 1) + 1):
                text = f"0 0 * * {low}-{high}/{step}"
                expected = {day % 7 for day in range(low, high + 1, step)}
                found = compile_schedule(CronSpec(text), job_id="job-1").iter_between(
                    sunday - 1, sunday + 6 * 86_400_000
                )
                assert {(o.at_ms - sunday) // 86_400_000 for o in found} == expected, text


ADVERSARIAL = [
    "*" * 10_000,
    "* " * 5_000,
    "0," * 5_000 + "0 * * * *",
    "1-" * 5_000,
    "*/" + "9" * 10_000 + " * * * *",
    "H(" * 3_000,
    "0 0 * * " + "MON," * 2_500,
    ("0," * 70 + "0") + " * * * *",
    "0 0 " + "L-" * 4_000 + " * *",
    "\x00" * 10_000,
    "?" * 10_000,
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("expression", ADVERSARIAL, ids=range(len(ADVERSARIAL)))
def test_adversarial_expressions_are_refused_in_bounded_time(expression: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        validate_spec(CronSpec(expression), job_id="job-1", after_ms=NOW)

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("0 22-4 * * *", "write 22-23,0-4"),
        ("0 22-4/2 * * *", "write 22,0,2,4"),
        ("0 0 30-2/2 * *", "write 30,1"),
        ("0 0 * * FRI-MON/2", "write 5,0"),
        ("0 0 * * FRI-MON", "write FRI-6,0-MON"),
        ("0 0 * * 6-0", "write 6,0"),
        ("0 0 * * 7-0", "write 0"),
        ("0 0 * * 7-2", "write 0-2"),
        ("0 0 * * 7-SAT/2", "write 0,2,4,6"),
        ("0 23-0 * * *", "write 23,0"),
        ("50-10/0 * * * *", None),
    ],
)
def test_a_range_that_runs_backwards_is_translated_with_its_step(expression: str, fix: str | None) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        compile_schedule(CronSpec(expression), job_id="job-1")

    assert refused.value.reason == "the range runs backwards"
    if fix is not None:
        assert refused.value.fix == fix
        field = refused.value.text
        written = expression.replace(field, fix.removeprefix("write "))
        assert compile_schedule(CronSpec(written), job_id="job-1").next_after(NOW) is not None


def test_the_bounds_are_on_text_and_items() -> None:
    """A readable expression over the length bound is refused for its length, before anything reads it."""
    minutes = ",".join(str(minute) for minute in range(60))
    long_text = (
        f"{minutes} {','.join(str(hour) for hour in range(24))} {','.join(str(day) for day in range(1, 32))} * *"
    )
    many_items = ",".join(["0"] * 61) + " * * * *"
    for expression, reason in ((long_text, "longer than 256 characters"), (many_items, "more than 60 items")):
        with pytest.raises(InvalidSchedule) as refused:
            compile_schedule(CronSpec(expression), job_id="job-1")
        assert refused.value.reason == reason


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;INTERVAL=7;BYYEARDAY=366;BYMONTH=1",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=31;BYSETPOS=1",
        "FREQ=DAILY;" + ";".join(f"X{k}=1" for k in range(2_000)),
    ],
)
def test_adversarial_rules_are_refused_in_bounded_time(rule: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        validate_spec(RRuleSpec(rule, "2026-01-01T09:00"), job_id="job-1", after_ms=NOW)

    assert refused.value.field in {"rrule", "schedule"}


@pytest.mark.timeout(60)
def test_calendars_of_many_short_spans_that_leave_nothing_are_refused_in_bounded_time() -> None:
    """720 spans a day in each of 64 rules, and only the last one meets the job."""
    rules = ("0-58/2 * * * *",) * 63 + ("1-59/2 * * * *",)
    with pytest.raises(InvalidSchedule) as refused:
        validate_spec(
            CronSpec("1-59/2 * * * *"), job_id="job-1", after_ms=NOW, calendars=(CalendarSpec("odd", rules=rules),)
        )

    assert refused.value.field == "calendars"


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(alphabet="0123456789*/-,#LWH? ()@AMONSUJFB\t", max_size=40))
def test_any_text_is_either_compiled_or_refused_by_name(expression: str) -> None:
    try:
        found = compile_schedule(CronSpec(expression), job_id="job-1").next_after(NOW)
    except InvalidSchedule as refused:
        named = bool(refused.field and refused.fix)
    else:
        named = found is None or found.at_ms > NOW

    assert named


_ITEMS = (
    "* 0 1 7 31 60 */1 */7 0/5 3-3 1-5 5-1 1-7/2 H H/2 H(1-3) H(1-5)/2 "
    "L L-3 LW 15W 1W 31W 30L 5L 5#5 MON FRIL MON#2 JAN MON-FRI"
)


@settings(deadline=None)  # a busy machine is no failure
@given(items=st.lists(st.sampled_from(_ITEMS.split()), min_size=1, max_size=3), position=st.integers(0, 4))
def test_any_list_of_items_is_either_compiled_or_refused_by_name(items: list[str], position: int) -> None:
    """Items that are well formed alone, beside each other in any one field."""
    fields = ["0", "0", "1", "*", "*"]
    fields[position] = ",".join(items)
    try:
        found = compile_schedule(CronSpec(" ".join(fields)), job_id="job-1").next_after(NOW)
    except InvalidSchedule as refused:
        named = bool(refused.field and refused.fix)
    else:
        named = found is None or found.at_ms > NOW

    assert named


def test_an_expression_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse each expression once: two zones and many jobs share one pattern."""
    text = "41 3 17 5 *"
    parsed: list[str] = []

    def parse(expression: str, job_id: str) -> CronFields:
        parsed.append(expression)
        return parse_cron(expression, job_id)

    monkeypatch.setattr("streams.core.time.sources.parse_cron", parse)
    for zone in ("Europe/Oslo", "Asia/Tokyo", "Asia/Tokyo"):
        for job_id in ("a", "b", "c"):
            compile_schedule(CronSpec(text, zone), job_id=job_id)

    assert parsed == [text]
