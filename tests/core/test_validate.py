from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streams.core.definition import PAYLOAD_BYTES_MAX, Retry
from streams.core.time import INSTALLED_ZONE_DATA, CalendarSpec, CronSpec, IntervalSpec, OneOffSpec
from streams.core.validate import InvalidDefinition, validate_definition

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

T = 1_798_761_600_000
CALENDARS = {"xmas": CalendarSpec("xmas", dates=("2027-12-25",))}


def warnings_of(owner: ManualOwner, **fields: Any) -> list[str]:
    definition = owner.definition(**fields)
    return validate_definition(definition, now_ms=T, zone_data=INSTALLED_ZONE_DATA, calendars=CALENDARS)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("job_id", {"job_id": "-x"}),
    ("job_id", {"job_id": "x" * 129}),
    ("tenant", {"tenant": ""}),
    ("queue", {"queue": "a/b"}),
    ("queue", {"queue": "x" * 101}),
    ("name", {"name": ""}),
    ("name", {"name": "x" * 129}),
    ("task", {"task": "a\nb"}),
    ("payload", {"payload": b"x" * (PAYLOAD_BYTES_MAX + 1)}),
    ("content_type", {"content_type": "x" * 129}),
    ("labels", {"labels": {str(number): "" for number in range(33)}}),
    ("labels", {"labels": {"": "x"}}),
    ("labels", {"labels": {"x" * 65: "x"}}),
    ("labels", {"labels": {"x": "x" * 257}}),
    ("retry.max_attempts", {"retry": Retry(max_attempts=0)}),
    ("retry.max_attempts", {"retry": Retry(max_attempts=101)}),
    ("retry.delay_ms", {"retry": Retry(delay_ms=-1)}),
    ("retry.delay_ms", {"retry": Retry(delay_ms=86_400_001)}),
    ("retry.backoff", {"retry": Retry(backoff="linear")}),  # type: ignore[arg-type] # what a producer may send
    ("catch_up", {"catch_up": "some"}),
    ("overlap", {"overlap": "forbid"}),
    ("lane", {"lane": "fast"}),
    ("concurrent_runs_max", {"concurrent_runs_max": -1}),
    ("concurrent_runs_max", {"concurrent_runs_max": 65}),
    ("timeout_ms", {"timeout_ms": 999}),
    ("timeout_ms", {"timeout_ms": 604_800_001}),
    ("start_deadline_ms", {"start_deadline_ms": -1}),
    ("start_deadline_ms", {"start_deadline_ms": 31_536_000_001}),
    ("jitter_ms", {"jitter_ms": 86_400_001, "jitter_kind": "job"}),
    ("jitter_ms", {"jitter_ms": 5}),
    ("jitter_ms", {"jitter_kind": "job"}),
    ("jitter_kind", {"jitter_kind": "wild"}),
    ("max_runs", {"max_runs": -1}),
    ("concurrency_key", {"concurrency_key": "."}),
    ("concurrency_key", {"concurrency_key": "k" * 129}),
    ("concurrency_key", {"concurrency_key": "a|b"}),
    ("concurrency_weight", {"concurrency_key": "k", "concurrency_weight": -1}),
    ("concurrency_weight", {"concurrency_key": "k", "concurrency_weight": 101}),
    ("concurrency_weight", {"concurrency_weight": 2}),
    ("calendars", {"calendars": ("none",)}),
    ("calendars", {"calendars": ("xmas", "xmas")}),
    ("calendars", {"calendars": tuple(str(number) for number in range(9))}),
    ("start_at_ms", {"start_at_ms": -1}),
    ("end_at_ms", {"start_at_ms": T + 2, "end_at_ms": T + 1}),
    ("end_at_ms", {"end_at_ms": 253_402_300_800_000}),
    ("schedule.at_ms", {"schedule": OneOffSpec(253_402_300_800_000)}),
    ("schedule.at_ms", {"schedule": OneOffSpec(-1)}),
]


@pytest.mark.parametrize(("field", "fields"), REFUSED)
def test_a_field_out_of_its_bounds_is_refused_by_name(owner: ManualOwner, field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        warnings_of(owner, **fields)

    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert len(caught.value.reason) > 10


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"job_id": "x" * 128},
    {"queue": "x" * 100},
    {"name": "x" * 128},
    {"payload": b"x" * PAYLOAD_BYTES_MAX},
    {"labels": {"x" * 64 if number == 0 else str(number): "x" * 256 for number in range(32)}},
    {"retry": Retry(max_attempts=1)},
    {"retry": Retry(max_attempts=100, delay_ms=86_400_000)},
    {"concurrent_runs_max": 64},
    {"timeout_ms": 1_000},
    {"timeout_ms": 604_800_000},
    {"start_deadline_ms": 31_536_000_000},
    {"max_runs": 2**31},
    {"concurrency_key": "customer:42"},
    {"concurrency_key": "k" * 128, "concurrency_weight": 100},
    {"calendars": ("xmas",)},
    {"end_at_ms": 253_402_300_799_999},
    {"schedule": OneOffSpec(T + 5)},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_a_field_at_its_bound_is_accepted(owner: ManualOwner, fields: dict[str, Any]) -> None:
    assert warnings_of(owner, **fields) == []


def test_a_cron_expression_out_of_range_is_refused_with_the_text_and_a_fix(owner: ManualOwner) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        warnings_of(owner, schedule=CronSpec(expression="61 * * * *"))

    assert caught.value.field.startswith("schedule")
    assert "61" in caught.value.reason


def test_an_unknown_zone_is_refused(owner: ManualOwner) -> None:
    with pytest.raises(InvalidDefinition):
        warnings_of(owner, schedule=CronSpec(expression="0 9 * * *", time_zone="Mars/Olympus"))


def test_a_schedule_that_never_fires_is_refused(owner: ManualOwner) -> None:
    with pytest.raises(InvalidDefinition):
        warnings_of(owner, schedule=CronSpec(expression="0 0 31 2 *"))
    with pytest.raises(InvalidDefinition):
        warnings_of(owner, schedule=IntervalSpec(every_ms=3_600_000, anchor_ms=0), end_at_ms=T - 1)


def test_both_day_fields_warn(owner: ManualOwner) -> None:
    assert len(warnings_of(owner, schedule=CronSpec(expression="0 9 1 * MON"))) >= 1


def test_allow_with_one_run_at_a_time_warns(owner: ManualOwner) -> None:
    assert any("allow" in warning for warning in warnings_of(owner, overlap="allow", concurrent_runs_max=1))
    assert warnings_of(owner, overlap="allow", concurrent_runs_max=0) == []


def test_catch_up_all_with_replace_warns(owner: ManualOwner) -> None:
    assert any("catch_up" in warning for warning in warnings_of(owner, catch_up="all", overlap="replace"))
