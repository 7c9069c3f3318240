"""What the scheduler shows: the table of metrics is what is exposed, and every event has its line."""

from __future__ import annotations

import re
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest

import streams.core.decide_due
from streams.core.commands import Complete, Pause, Resume
from streams.core.time import IntervalSpec, Occurrence
from streams.membership import Membership
from streams.observe import METRICS, ObservedOwner, SchedulerMetrics
from streams.overdue import Overdue
from streams.takeover import Progress
from streams.transaction import Outcome


def exposed(metrics: SchedulerMetrics) -> dict[str, str]:
    """Metric name to its help, as Prometheus would read them."""
    text = generate_latest(metrics.registry).decode()
    found = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    return {name: words for name, words in found.items() if not name.endswith("_created")}


def sample(metrics: SchedulerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_table_of_metrics_equals_what_is_exposed() -> None:
    metrics = SchedulerMetrics()
    assert exposed(metrics) == {name: row.meaning for name, row in METRICS.items()}
    for family in metrics.registry.collect():
        row = METRICS[family.name + "_total" if family.type == "counter" else family.name]
        assert row.kind == family.type


def test_the_labels_of_the_table_are_those_of_the_samples() -> None:
    metrics = SchedulerMetrics()
    metrics.show({3: Overdue(1, 2)}, is_member=True)
    own = {"le", "quantile"}
    for family in metrics.registry.collect():
        row = METRICS[family.name + "_total" if family.type == "counter" else family.name]
        assert all(set(found.labels) - own == set(row.labels) for found in family.samples)


def test_names_carry_their_units() -> None:
    assert all(
        re.fullmatch(r"horolog_[a-z_]+_(seconds|total|records|partitions|owned|member)", name) for name in METRICS
    )


def test_committed_decisions_are_counted_by_what_they_did(rig: Any, make_job: Any) -> None:
    metrics = SchedulerMetrics()
    observed = ObservedOwner(metrics, skew_alert_ms=1_000)
    at_ms = rig.now_ms + 1_000
    rig.define(make_job("j", at_ms=at_ms))
    request = rig.lease("j", at_ms)
    rig.run()
    rig.send(request)
    rig.run()
    rig.advance(1_030)
    batch = rig.turn()
    observed.committed([batch], 12.0)
    rig.send(Complete(job_id="j", run_id=request.run_id, lease_token=1))
    rig.push("definitions", b"x", b"nonsense")
    observed.committed([rig.turn()], 12.0)
    assert sample(metrics, "horolog_lease_grants_total") == 1
    assert sample(metrics, "horolog_due_lateness_seconds_sum") == pytest.approx(0.03)
    assert sample(metrics, "horolog_runs_opened_total", kind="schedule") == 1
    assert sample(metrics, "horolog_runs_total", outcome="succeeded") == 1
    assert sample(metrics, "horolog_dead_letters_total", code="unreadable") == 1
    assert sample(metrics, "horolog_commit_seconds_count") == 2


def test_skipped_occurrences_are_counted_one_by_one(rig: Any, make_job: Any) -> None:
    metrics = SchedulerMetrics()
    rig.define(make_job("j", catch_up="none"))
    rig.run()
    rig.advance(3 * 3_600_000)
    batch = rig.turn()
    ObservedOwner(metrics, skew_alert_ms=1_000).committed([batch], 1.0)
    assert (sample(metrics, "horolog_runs_skipped_total", reason="catch_up") or 0) >= 2


def test_a_job_that_the_rate_guard_holds_is_counted_and_told(
    rig: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_soon(_definition: object, _context: object, at_ms: int) -> Occurrence:
        return Occurrence(at_ms + 10, at_ms + 10)

    metrics = SchedulerMetrics()
    observed = ObservedOwner(metrics, skew_alert_ms=1_000)
    rig.define(make_job("j", schedule=IntervalSpec(every_ms=1_000, anchor_ms=0), overlap="allow"))
    rig.run()
    monkeypatch.setattr(streams.core.decide_due, "next_after", too_soon)
    rig.advance(3_000)
    batch = rig.turn()
    with structlog.testing.capture_logs() as lines:
        observed.committed([batch], 1.0)
        assert sample(metrics, "horolog_rate_guard_trips_total") == 1
        assert [(line["event"], line["job_id"]) for line in lines] == [("rate_guard_tripped", "j")]
        # An undo pauses in the name of whoever paused before it; that is no trip.
        rig.send(Resume(job_id="j", actor="ann"))
        rig.send(Pause(job_id="j", actor="system:rate_guard"))
        observed.committed([rig.turn()], 1.0)
    assert sample(metrics, "horolog_rate_guard_trips_total") == 1


def test_a_recovery_is_told_in_the_log_every_two_seconds_and_a_quick_one_not() -> None:
    clock = [0.0]
    observed = ObservedOwner(SchedulerMetrics(), skew_alert_ms=1_000, monotonic_s=lambda: clock[0])
    told = []
    with structlog.testing.capture_logs() as lines:
        for now_s, offset in ((0.0, 20), (1.9, 30), (2.0, 40), (3.9, 50), (4.1, 60)):
            clock[0] = now_s
            observed.recovering(Progress(3, 10, offset, 100))
        observed.ready([3], 4_200.0)
        clock[0] = 9.0
        observed.recovering(Progress(3, 100, 110, 120))  # another one, that has just begun
        told = [line for line in lines if line["event"] == "recovery_progress"]
    assert [(line["partition"], line["restored"], line["total"]) for line in told] == [(3, 30, 90), (3, 50, 90)]


def test_partitions_show_how_far_recovery_is() -> None:
    metrics = SchedulerMetrics()
    observed = ObservedOwner(metrics, skew_alert_ms=1_000)
    observed.recovering(Progress(3, 10, 40, 100))
    assert sample(metrics, "horolog_recovery_restored_records", partition="3") == 30
    assert sample(metrics, "horolog_recovery_remaining_records", partition="3") == 60
    observed.ready([3], 5.0)
    assert sample(metrics, "horolog_recovery_remaining_records", partition="3") == 0


def test_a_scrape_shows_what_the_process_acts_for_at_that_moment_and_how_late_it_is() -> None:
    metrics = SchedulerMetrics(partitions=8, stalls=2)
    metrics.show({3: Overdue(1_500, 250), 4: Overdue(0, 0)}, is_member=True)
    assert sample(metrics, "horolog_partition_owned", partition="3") == 1
    assert sample(metrics, "horolog_overdue_slot_seconds", partition="3") == 1.5
    assert sample(metrics, "horolog_oldest_ready_run_seconds", partition="3") == 0.25
    assert sample(metrics, "horolog_overdue_slot_seconds", partition="4") == 0
    assert sample(metrics, "horolog_group_member") == 1
    metrics.show({4: Overdue(0, 0)}, is_member=False)
    assert sample(metrics, "horolog_partition_owned", partition="3") is None
    assert sample(metrics, "horolog_overdue_slot_seconds", partition="3") is None
    assert sample(metrics, "horolog_group_member") == 0
    assert (sample(metrics, "horolog_topic_partitions"), sample(metrics, "horolog_stalls_total")) == (8, 2)


def test_what_an_alert_counts_begins_at_zero_and_not_with_its_first_time() -> None:
    metrics = SchedulerMetrics()
    assert [sample(metrics, "horolog_dead_letters_total", code=code) for code in ("unreadable", "quota")] == [0, 0]


def test_every_event_has_a_line_with_a_stable_name() -> None:
    with structlog.testing.capture_logs() as lines:
        observed = ObservedOwner(SchedulerMetrics(), skew_alert_ms=1_000)
        observed.assigned(Membership("group", 2, "m"), [1, 2], [1])
        observed.ready([2], 3.21)
        observed.failed(Outcome.STALE, "because", [1])
        observed.no_membership("gone")
        observed.quarantined("j", "boom")
        observed.unreachable("take-over", "no answer")
        observed.revoked([1, 2], 0.04)
    assert [line["event"] for line in lines] == [
        "partitions_assigned",
        "partitions_ready",
        "transaction_failed",
        "no_membership",
        "job_quarantined",
        "broker_unreachable",
        "partitions_revoked",
    ]
    assert lines[0]["kept"] == [1]
    assert lines[2]["outcome"] == "stale"


def test_a_clock_that_is_far_from_the_brokers_is_an_alert_once_and_its_return_too() -> None:
    metrics = SchedulerMetrics()
    observed = ObservedOwner(metrics, skew_alert_ms=1_000)
    with structlog.testing.capture_logs() as lines:
        for skew_ms in (3.0, -999.0, -1_001.0, -7_000.0, 12.0):
            observed.skew(skew_ms)
    assert [(line["event"], line["log_level"], line["skew_ms"]) for line in lines] == [
        ("clock_skewed", "error", -1_001),
        ("clock_right_again", "info", 12),
    ]
    assert sample(metrics, "horolog_clock_skew_seconds") == pytest.approx(0.012)
