"""The time parts of sections 3B, 3C, 3E and 3F of the real-world cases, and F01's hash."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from streams.core.time import (
    CalendarIntervalSpec,
    CalendarSpec,
    CronSpec,
    IntervalSpec,
    Jitter,
    LocalOneOffSpec,
    Occurrence,
    OneOffSpec,
    RRuleSpec,
    ScheduleSpec,
    Window,
    compile_schedule,
    utc_text,
)
from streams.core.time.cron_pattern import CronPattern

TEN_YEARS_MS = 3_652 * 86_400_000


def test_b11_recomputing_between_slots_never_moves_the_next(ask: Any) -> None:
    """B11: ten restarts between two slots; the next occurrence stays."""
    found = {ask.next("0 19 * * *", "Europe/Paris", f"2017-06-19T1{k}:21Z")[0] for k in range(7)}

    assert found == {"2017-06-19T17:00Z"}


def test_b16_a_weekly_interval_survives_daily_restarts(ms: Any) -> None:
    """B16: the phase is in the spec, so asking anew each day gives the same instant."""
    anchor = ms("2026-01-05T10:00Z")
    spec = IntervalSpec(7 * 86_400_000, anchor)
    asked = [compile_schedule(spec, job_id="job-1").next_after(anchor + day * 86_400_000) for day in range(7)]

    assert {found.at_ms for found in asked if found} == {anchor + 7 * 86_400_000}


def test_b19b_a_take_over_evaluates_with_the_zone_of_the_job(ask: Any) -> None:
    """B19b: nothing at 09:21Z after the leader change; 17:00Z on both days."""
    assert ask.next("0 19 * * *", "Europe/Paris", "2017-06-19T00:00Z", 2) == ["2017-06-19T17:00Z", "2017-06-20T17:00Z"]
    assert ask.next("0 19 * * *", "Europe/Paris", "2017-06-20T09:21Z") == ["2017-06-20T17:00Z"]


def test_b22_a_local_time_runs_once_a_day(ask: Any) -> None:
    assert ask.between("1 12 * * *", "Europe/Berlin", "2021-07-01T00:00Z", "2021-07-02T00:00Z") == ["2021-07-01T10:01Z"]


@pytest.mark.parametrize(
    "jitter", [Jitter(), Jitter("job", 40_000), Jitter("occurrence", 40_000)], ids=["plain", "job", "occurrence"]
)
def test_b28_never_before_the_slot_and_never_at_or_before_now(ms: Any, jitter: Jitter) -> None:
    """B28 (R7): an occurrence lies after the instant asked for, and jitter only delays."""
    schedule = compile_schedule(CronSpec("16 * * * * *"), job_id="job-1", jitter=jitter)
    start = ms("2026-01-01T09:00:00Z")
    for after in range(start, start + 180_000, 777):
        found = schedule.next_after(after)
        assert found is not None
        assert found.at_ms > after
        assert 0 <= found.at_ms - found.slot_ms <= 40_000


def test_b34_f03_the_phase_of_an_interval_is_stored(ms: Any) -> None:
    """B34, F03: "every 4 h" keeps its phase whenever it is compiled, and survives its JSON form."""
    spec = IntervalSpec(4 * 3_600_000, ms("2026-01-01T01:23:45Z"))
    again = msgspec.json.decode(msgspec.json.encode(spec), type=ScheduleSpec)

    assert again == spec
    found = compile_schedule(again, job_id="job-1").next_after(ms("2026-06-01T00:00:00Z"))
    assert found is not None
    assert utc_text(found.at_ms) == "2026-06-01T01:23:45Z"


@pytest.fixture
def look_ups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every question to a cron pattern from here on; what a walk would need millions of."""
    asked: list[str] = []
    for name in ("next_local", "previous_local", "count_local"):
        real = getattr(CronPattern, name)

        def spy(self: CronPattern, *arguments: int, name: str = name, real: Any = real) -> Any:
            asked.append(name)
            return real(self, *arguments)

        monkeypatch.setattr(CronPattern, name, spy)
    return asked


def test_c05_two_years_of_seconds_are_skipped_at_once(ms: Any, look_ups: list[str]) -> None:
    """C05: un-pausing after two years at one a second needs a count and the latest, not a walk."""
    schedule = compile_schedule(CronSpec("* * * * * *", "America/New_York"), job_id="job-1")
    start = ms("2024-01-01T00:00Z")
    end = start + 731 * 86_400_000

    latest = schedule.latest_in(start, end)
    assert (schedule.count_between(start, end), latest and latest.at_ms) == (731 * 86_400, end)
    assert len(look_ups) < 20


def test_c09_dates_and_rules_are_excluded_by_named_calendar(ms: Any) -> None:
    """C09: 31 December by date; a calendar can also say it by rule."""
    by_date = CalendarSpec("holidays", "Europe/Berlin", dates=("2026-12-31", "2027-01-01"))
    by_rule = CalendarSpec("new year's eve", "Europe/Berlin", rules=("* * 31 12 *",))
    daily = CronSpec("0 9 * * *", "Europe/Berlin")

    one = compile_schedule(daily, job_id="job-1", calendars=(by_date,)).next_after(ms("2026-12-30T12:00Z"))
    two = compile_schedule(daily, job_id="job-1", calendars=(by_rule,)).next_after(ms("2026-12-30T12:00Z"))
    assert one is not None
    assert two is not None
    assert [utc_text(one.at_ms), utc_text(two.at_ms)] == ["2027-01-02T08:00:00Z", "2027-01-01T08:00:00Z"]
    assert [(drop.at_ms, drop.reason) for drop in one.dropped] == [
        (ms("2026-12-31T08:00Z"), "calendar"),
        (ms("2027-01-01T08:00Z"), "calendar"),
    ]


def test_c15_identical_expressions_are_separate_jobs(ask: Any) -> None:
    """C15: identity is not the text; two jobs with one line both fire, and H keeps them apart."""
    plain = {ask.next("0 9 * * *", "UTC", "2026-01-01T00:00Z", job_id=job)[0] for job in ("a", "b")}
    hashed = {ask.next("H H * * *", "UTC", "2026-01-01T00:00Z", job_id=job)[0] for job in ("a", "b")}

    assert (len(plain), len(hashed)) == (1, 2)


def test_c23_an_active_window_has_a_start_and_an_end(ms: Any) -> None:
    window = Window(ms("2026-03-10T09:00Z"), ms("2026-03-12T09:00Z"))
    schedule = compile_schedule(CronSpec("0 9 * * *"), job_id="job-1", window=window)
    found = [utc_text(o.at_ms)[:10] for o in schedule.iter_between(0, ms("2030-01-01T00:00Z"))]

    assert found == ["2026-03-10", "2026-03-11", "2026-03-12"]
    assert schedule.count_between(0, ms("2030-01-01T00:00Z")) == 3
    assert schedule.next_after(ms("2026-03-12T09:00Z")) is None
    assert schedule.previous_before(ms("2026-03-10T09:00Z")) is None


def test_e03_a_past_one_off_is_due_at_once_live_and_on_replay(ms: Any) -> None:
    schedule = compile_schedule(OneOffSpec(ms("2026-01-01T00:00Z")), job_id="job-1")
    asked = [schedule.first_occurrence(created) for created in (0, ms("2026-01-01T00:00Z"), ms("2027-01-01T00:00Z"))]

    assert {found.at_ms for found in asked if found} == {ms("2026-01-01T00:00Z")}
    assert len(asked) == 3


def test_e17_sub_second_intervals_and_instants_survive(ms: Any) -> None:
    """E17: 1.5 s stays 1.5 s, 250 ms stay 250 ms, through JSON too."""
    start = ms("2026-01-01T00:00:00.250Z")
    spec = msgspec.json.decode(msgspec.json.encode(IntervalSpec(1_500, start)), type=ScheduleSpec)
    found = [o.at_ms - start for o in compile_schedule(spec, job_id="job-1").iter_between(start, start + 6_000)]

    assert found == [1_500, 3_000, 4_500, 6_000]
    one_off = compile_schedule(LocalOneOffSpec("2026-01-01T01:00:00.250", "Europe/Berlin"), job_id="job-1")
    local = one_off.next_after(0)
    assert local is not None
    assert utc_text(local.at_ms) == "2026-01-01T00:00:00.250Z"


HASHED = [
    # expression, number of phases, what identifies the phase of an occurrence
    ("H * * * *", 60, lambda at: at // 60_000 % 60),
    ("H/15 * * * *", 15, lambda at: at // 60_000 % 15),
    ("H(0-29)/10 * * * *", 10, lambda at: at // 60_000 % 10),
    ("H H * * *", 1440, lambda at: at // 60_000 % 1440),
]
#: Chi-square quantile at 1 - 1e-6, by the Wilson-Hilferty approximation (z = 4.75).
Z = 4.75


@pytest.mark.parametrize(("expression", "phases", "phase"), HASHED, ids=[case[0] for case in HASHED])
def test_f01_hashed_phases_of_10000_jobs_are_spread_evenly(ms: Any, expression: str, phases: int, phase: Any) -> None:
    start = ms("2026-01-01T00:00Z") - 1
    seen: Counter[int] = Counter()
    for number in range(10_000):
        found = compile_schedule(CronSpec(expression), job_id=f"team-a:report-{number}").next_after(start)
        assert found is not None
        seen[phase(found.at_ms)] += 1

    expected = 10_000 / phases
    chi_square = sum((seen[k] - expected) ** 2 / expected for k in range(phases))
    freedom = phases - 1
    assert chi_square < freedom * (1 - 2 / (9 * freedom) + Z * (2 / (9 * freedom)) ** 0.5) ** 3


def test_f01_the_hash_is_the_same_for_ever(ask: Any) -> None:
    """F01: golden values; a change here would move every hashed job of every user."""
    golden = {
        "H * * * *": ["2026-01-01T00:23Z", "2026-01-01T01:23Z"],
        "H/15 * * * *": ["2026-01-01T00:08Z", "2026-01-01T00:23Z"],
        "H(0-29)/10 * * * *": ["2026-01-01T00:03Z", "2026-01-01T00:13Z"],
        "H H * * *": ["2026-01-01T01:23Z", "2026-01-02T01:23Z"],
    }
    found = {text: ask.next(text, "UTC", "2026-01-01T00:00Z", 2, job_id="nightly-report") for text in golden}

    assert found == golden


def test_f01_h_with_a_step_is_elapsed_and_a_bare_h_is_fixed(ask: Any) -> None:
    """R2: ``H/15`` and ``H(0-29)/10`` count as beginning with a star."""
    elapsed = {
        text: ask.schedule(text).elapsed for text in ("H/15 1 * * *", "H(0-29)/10 1 * * *", "H 1 * * *", "H H * * *")
    }

    assert list(elapsed.values()) == [True, True, False, False]


@pytest.mark.parametrize("kind", ["job", "occurrence"])
def test_f02_jitter_is_fixed_and_visible(ms: Any, kind: Any) -> None:
    """F02: the delay is known beforehand, the same in every process, and noted."""
    start = ms("2026-01-01T00:00Z")
    made = [
        list(
            compile_schedule(CronSpec("0 * * * *"), job_id="job-7", jitter=Jitter(kind, 600_000)).iter_between(
                start, start + 86_400_000
            )
        )
        for _ in range(2)
    ]
    delays = [found.at_ms - found.slot_ms for found in made[0]]

    assert made[0] == made[1]
    assert len(set(delays)) == (1 if kind == "job" else len(delays))
    assert all(found.notes == (f"jitter {(found.at_ms - found.slot_ms) / 1000} s",) for found in made[0])


def test_f02_jitter_differs_between_jobs(ms: Any) -> None:
    delays = set()
    for number in range(50):
        found = compile_schedule(
            CronSpec("0 0 * * *"), job_id=f"job-{number}", jitter=Jitter("job", 3_600_000)
        ).next_after(ms("2026-01-01T12:00Z"))
        assert found is not None
        delays.add(found.at_ms - found.slot_ms)

    assert len(delays) > 45


def test_f13_a_jump_of_ten_years_is_one_question(ms: Any, look_ups: list[str]) -> None:
    """F13: a forward jump on a one-second job; the number of look-ups does not grow with the jump."""
    start = ms("2026-01-01T00:00:00Z")
    for spec in (CronSpec("* * * * * *", "Europe/Berlin"), IntervalSpec(1_000, start)):
        schedule = compile_schedule(spec, job_id="job-1")
        look_ups.clear()
        found = schedule.next_after(start + TEN_YEARS_MS)
        assert found is not None
        assert found.at_ms == start + TEN_YEARS_MS + 1_000
        assert len(look_ups) <= 1
        assert schedule.count_between(start, start + TEN_YEARS_MS) == TEN_YEARS_MS // 1_000
        assert len(look_ups) < 50


SPECS: list[ScheduleSpec] = [
    CronSpec("30 2 * * *", "America/New_York", "skip", "both"),
    IntervalSpec(1_500, 7),
    CalendarIntervalSpec("month", 2, "16:00", "2026-01-31", "Europe/Brussels"),
    OneOffSpec(1_772_953_200_123),
    LocalOneOffSpec("2026-03-08T02:30", "America/New_York"),
    RRuleSpec("FREQ=MONTHLY;BYDAY=-1FR", "2026-01-01T09:00", "Europe/Berlin"),
]


@pytest.mark.parametrize("spec", SPECS, ids=[type(spec).__name__ for spec in SPECS])
def test_b33_specs_survive_json_and_compile_to_the_same_occurrences(spec: ScheduleSpec) -> None:
    """B33: preview and execution share one function; the spec that travels through the log gives the same instants."""
    again = msgspec.json.decode(msgspec.json.encode(spec), type=ScheduleSpec)

    assert again == spec
    end = 1_767_225_600_000 + 86_400_000 * 100
    first = list(compile_schedule(spec, job_id="job-1").iter_between(end - 40_000_000, end))
    second = list(compile_schedule(again, job_id="job-1").iter_between(end - 40_000_000, end))
    assert first == second
    assert all(isinstance(found, Occurrence) for found in first)
