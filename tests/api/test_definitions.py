from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.bodies import JobBody, decode, decoder
from api.definitions import body_hash, check, define, definition_view, job_id_of_key, patch, trigger_id_of_key
from api.problems import Problem

NOW = 1_800_000_000_000
BODY = decoder(JobBody)


def body(**fields: Any) -> JobBody:
    return decode(BODY, msgspec.json.encode(fields))


SCHEDULES = st.sampled_from(
    [
        {"schedule": {"cron": "0 9 * * *"}},
        {"schedule": {"every": 60_000}},
        {"schedule": {"everyCalendar": {"unit": "week", "at": "09:00", "startDate": "2026-12-31"}}},
        {"schedule": {"rrule": "FREQ=DAILY", "dtStart": "2026-12-01T09:00"}},
        {"runAt": "2099-01-01T00:00:00.000Z"},
        {"runAtLocal": "2099-01-01T00:00:00", "timeZone": "Europe/Berlin"},
    ]
)
OPTIONAL = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["billing", "a.b-c"]),
        "task": st.sampled_from(["t", "Täsk"]),
        "payload": st.recursive(
            st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5), st.lists, max_leaves=4
        ),
        "retry": st.fixed_dictionaries(
            {"maxAttempts": st.integers(1, 9), "backoff": st.sampled_from(["fixed", "exponential", "none"])}
        ),
        "catchUp": st.sampled_from(["latest", "all", "none"]),
        "overlap": st.sampled_from(["allow", "skip", "queue", "replace"]),
        "timeoutSeconds": st.none() | st.integers(1, 600),
        "startDeadlineSeconds": st.none() | st.integers(1, 600),
        "lane": st.sampled_from(["high", "normal", "low"]),
        "labels": st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3),
        "maxRuns": st.none() | st.integers(1, 99),
        "startAt": st.just("2026-01-01T00:00:00.000Z"),
        "concurrencyKey": st.sampled_from(["k", "customer:42"]),
    },
)


@given(SCHEDULES, OPTIONAL)
def test_what_is_shown_of_a_job_makes_the_same_job_again(form: dict[str, Any], rest: dict[str, Any]) -> None:
    first = define(body(name="n", **form, **rest), job_id="j", tenant="t", now_ms=NOW)
    shown = msgspec.json.decode(msgspec.json.encode(definition_view(first, with_payload=True)))
    del shown["jobId"], shown["tenant"]
    again = define(body(**shown), job_id="j", tenant="t", now_ms=NOW)
    assert again == first


@given(SCHEDULES, OPTIONAL)
def test_a_patch_with_nothing_in_it_changes_nothing(form: dict[str, Any], rest: dict[str, Any]) -> None:
    first = define(body(name="n", **form, **rest), job_id="j", tenant="t", now_ms=NOW)
    assert patch(first, body(), now_ms=NOW) == first


@given(SCHEDULES, OPTIONAL, OPTIONAL)
def test_a_patch_is_the_same_as_a_whole_definition_with_its_fields(
    form: dict[str, Any], rest: dict[str, Any], change: dict[str, Any]
) -> None:
    first = define(body(name="n", **form, **rest), job_id="j", tenant="t", now_ms=NOW)
    whole = define(body(name="n", **form, **rest | change), job_id="j", tenant="t", now_ms=NOW)
    change.pop("retry", None)  # merged, not replaced
    whole = msgspec.structs.replace(whole, retry=first.retry)
    assert patch(first, body(**change), now_ms=NOW) == whole


def test_null_sets_the_default_again() -> None:
    first = define(
        body(name="n", lane="high", labels={"a": "b"}, timeoutSeconds=5, delaySeconds=1),
        job_id="j",
        tenant="t",
        now_ms=NOW,
    )
    second = patch(first, body(lane=None, labels=None, timeoutSeconds=None, payload=None), now_ms=NOW)
    assert (second.lane, second.labels, second.timeout_ms, second.payload) == ("normal", {}, 0, b"")


def test_a_name_cannot_be_taken_away_nor_an_id_changed() -> None:
    first = define(body(name="n", delaySeconds=1), job_id="j", tenant="t", now_ms=NOW)
    for change in ({"name": None}, {"jobId": "other"}):
        with pytest.raises(Problem) as raised:
            patch(first, body(**change), now_ms=NOW)
        assert raised.value.code == "invalid_field"


def test_a_delay_counts_from_the_brokers_time() -> None:
    definition = define(body(name="n", delaySeconds=1.5), job_id="j", tenant="t", now_ms=NOW)
    assert definition.schedule == type(definition.schedule)(at_ms=NOW + 1500)  # type: ignore[call-arg]  # OneOffSpec
    assert check(definition, now_ms=NOW) == []


def test_overlap_allow_has_no_bound_of_its_own() -> None:
    definition = define(body(name="n", delaySeconds=1, overlap="allow"), job_id="j", tenant="t", now_ms=NOW)
    assert definition.concurrent_runs_max == 0


def test_hashes_do_not_depend_on_order_or_white_space() -> None:
    assert body_hash(b'{"a":1,"b":{"c":2,"d":3}}') == body_hash(b'{ "b": {"d": 3, "c": 2}, "a": 1 }')
    assert body_hash(b'{"a":1}') != body_hash(b'{"a":2}')


def test_derived_ids_are_stable_and_belong_to_one_tenant_and_job() -> None:
    assert job_id_of_key("a", "k") == job_id_of_key("a", "k")
    ids = {job_id_of_key("a", "k"), job_id_of_key("b", "k"), job_id_of_key("a", "l"), job_id_of_key("ab", "k")}
    assert len(ids) == 4
    assert trigger_id_of_key("a", "j", "k") != trigger_id_of_key("a", "jk", "")
