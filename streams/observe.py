"""Logs and metrics of the scheduler, made by wrapping: the owner tells its events here and knows neither.

Every log line has a stable `event` name with structured fields; every metric is in METRICS. Both tables are tested.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streams.core.commands import Pause
from streams.core.envelopes import DeadLetterCode
from streams.core.events import (
    JobPaused,
    LeaseExpired,
    LeaseGranted,
    OccurrencesSkipped,
    RunCancelled,
    RunDied,
    RunOpened,
    RunSkipped,
    RunSucceeded,
)
from streams.core.rate_guard import RATE_GUARD_ACTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streams.batch import Batch
    from streams.core.envelopes import HistoryEntry
    from streams.membership import Membership
    from streams.overdue import Overdue
    from streams.takeover import Progress
    from streams.transaction import Outcome

_LATENESS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600)
_COMMIT_BUCKETS: Final = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.5, 1, 4, 10)

PROGRESS_EVERY_S: Final = 2.0
"""Between two lines about one recovery; one that is quicker has none but its end."""


class Row(NamedTuple):
    """One metric."""

    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str


METRICS: Final[Mapping[str, Row]] = {
    "horolog_due_lateness_seconds": Row("histogram", (), "Scheduled instant to grant, first attempts only."),
    "horolog_overdue_slot_seconds": Row(
        "gauge", ("partition",), "Age of the oldest deadline that passed without its decision; grows if the loop hangs."
    ),
    "horolog_oldest_ready_run_seconds": Row(
        "gauge", ("partition",), "How long the oldest run that is due and open has waited for a worker."
    ),
    "horolog_runs_total": Row("counter", ("outcome",), "Runs that ended, by outcome."),
    "horolog_runs_skipped_total": Row("counter", ("reason",), "Occurrences that ended without a run, by reason."),
    "horolog_runs_opened_total": Row(
        "counter", ("kind",), "Occurrences, triggers and slots that became runs, by kind."
    ),
    "horolog_lease_grants_total": Row("counter", (), "Leases granted."),
    "horolog_lease_expirations_total": Row("counter", (), "Leases that ended without a word."),
    "horolog_commit_seconds": Row("histogram", (), "Begin of a transaction to its commit."),
    "horolog_decisions_total": Row("counter", (), "Commands and timers decided and committed."),
    "horolog_transactions_failed_total": Row("counter", ("outcome",), "Transactions that did not commit, by outcome."),
    "horolog_topic_partitions": Row("gauge", (), "Partitions of the topics: each must have one owner."),
    "horolog_partition_owned": Row("gauge", ("partition",), "1 for each partition that this process acts for."),
    "horolog_group_member": Row("gauge", (), "1 while this process has its place in the consumer group."),
    "horolog_recovery_remaining_records": Row(
        "gauge", ("partition",), "Ledger records still to be read, by partition."
    ),
    "horolog_recovery_restored_records": Row(
        "gauge", ("partition",), "Ledger records that the take-over has read so far, by partition."
    ),
    "horolog_quarantined_jobs_total": Row(
        "counter", (), "Jobs set aside because deciding about them failed; again each minute while it fails."
    ),
    "horolog_rate_guard_trips_total": Row(
        "counter", (), "Jobs paused because they opened runs faster than a schedule can explain."
    ),
    "horolog_dead_letters_total": Row("counter", ("code",), "Inputs that could not be read or accepted, by code."),
    "horolog_stalls_total": Row(
        "counter", (), "Times that a watchdog ended a process of this data directory; kept over restarts."
    ),
    "horolog_clock_skew_seconds": Row(
        "gauge", (), "This machine's wall clock minus the broker's, the largest over the partitions."
    ),
}


class SchedulerMetrics:
    """The Prometheus side of METRICS, in a registry of its own."""

    def __init__(self, *, partitions: int = 0, stalls: int = 0) -> None:
        """`partitions`: of the topics. `stalls`: what earlier processes of this data directory have counted."""
        self.registry = CollectorRegistry()
        self.lateness = self._histogram("horolog_due_lateness_seconds", _LATENESS_BUCKETS)
        self.overdue_slot = self._gauge("horolog_overdue_slot_seconds")
        self.oldest_ready = self._gauge("horolog_oldest_ready_run_seconds")
        self.runs = self._counter("horolog_runs_total")
        self.skipped = self._counter("horolog_runs_skipped_total")
        self.opened = self._counter("horolog_runs_opened_total")
        self.grants = self._counter("horolog_lease_grants_total")
        self.expirations = self._counter("horolog_lease_expirations_total")
        self.commit = self._histogram("horolog_commit_seconds", _COMMIT_BUCKETS)
        self.decisions = self._counter("horolog_decisions_total")
        self.failed = self._counter("horolog_transactions_failed_total")
        self.partitions = self._gauge("horolog_topic_partitions")
        self.partitions.set(partitions)
        self.owned = self._gauge("horolog_partition_owned")
        self.member = self._gauge("horolog_group_member")
        self.remaining = self._gauge("horolog_recovery_remaining_records")
        self.restored = self._gauge("horolog_recovery_restored_records")
        self.quarantined = self._counter("horolog_quarantined_jobs_total")
        self.rate_guard_trips = self._counter("horolog_rate_guard_trips_total")
        self.dead_letters = self._counter("horolog_dead_letters_total")
        for code in get_args(DeadLetterCode):  # a rate cannot see the first of a series that begins with it
            self.dead_letters.labels(code)
        self.stalls = self._counter("horolog_stalls_total")
        self.stalls.inc(stalls)
        self.skew = self._gauge("horolog_clock_skew_seconds")

    def show(self, standing: Mapping[int, Overdue], *, is_member: bool) -> None:
        """Take over how this process stands at the moment of a scrape: what it acts for, and how late it is."""
        self.member.set(int(is_member))
        for gauge in (self.owned, self.overdue_slot, self.oldest_ready):
            gauge.clear()
        for partition, overdue in standing.items():
            self.owned.labels(str(partition)).set(1)
            self.overdue_slot.labels(str(partition)).set(overdue.slot_ms / 1000)
            self.oldest_ready.labels(str(partition)).set(overdue.ready_ms / 1000)

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, METRICS[name].meaning, buckets=buckets, registry=self.registry)

    def _counter(self, name: str) -> Counter:
        return Counter(name, METRICS[name].meaning, METRICS[name].labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        return Gauge(name, METRICS[name].meaning, METRICS[name].labels, registry=self.registry)


class ObservedOwner:
    """The owner's events as log lines and metrics."""

    def __init__(
        self,
        metrics: SchedulerMetrics,
        *,
        skew_alert_ms: int,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`skew_alert_ms`: scheduler.clock_skew_alert_ms."""
        self._monotonic_s = monotonic_s
        self._told_s: dict[int, float] = {}
        """When each partition's recovery was last told in the log."""
        self._skew_alert_ms = skew_alert_ms
        self._skewed = False
        self._commits = 0
        self._failing = False
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("horolog.scheduler")
        self._metrics = metrics

    def assigned(self, membership: Membership, partitions: Sequence[int], kept: Sequence[int]) -> None:
        """The group has given this process partitions."""
        self._failing = False
        self._log.info(
            "partitions_assigned",
            generation=membership.generation,
            member_id=membership.member_id,
            partitions=[*partitions],
            kept=[*kept],
        )

    def revoked(self, partitions: Sequence[int], waited_ms: float) -> None:
        """The group is about to move on."""
        self._failing = False
        self._log.info("partitions_revoked", partitions=[*partitions], waited_ms=round(waited_ms, 1))

    def recovering(self, progress: Progress) -> None:
        """A take-over has read a part of the ledger."""
        partition, restored, total = progress.partition, progress.restored, progress.total
        self._metrics.restored.labels(str(partition)).set(restored)
        self._metrics.remaining.labels(str(partition)).set(max(0, total - restored))
        now_s = self._monotonic_s()
        if now_s - self._told_s.setdefault(partition, now_s) >= PROGRESS_EVERY_S:
            self._told_s[partition] = now_s
            self._log.info("recovery_progress", partition=partition, restored=restored, total=total)

    def ready(self, partitions: Sequence[int], took_ms: float) -> None:
        """Partitions were taken over and may act after their first commit."""
        for partition in partitions:
            self._told_s.pop(partition, None)
            self._metrics.remaining.labels(str(partition)).set(0)
        self._log.info("partitions_ready", partitions=[*partitions], took_ms=round(took_ms, 1))

    def committed(self, batches: Sequence[Batch], took_ms: float) -> None:
        """A transaction is on the log."""
        self._commits += 1
        self._failing = False
        self._metrics.commit.observe(took_ms / 1000)
        for batch in batches:
            self._metrics.decisions.inc(batch.decisions)
            for letter in batch.dead_letters:
                self._metrics.dead_letters.labels(letter.code).inc()
                self._log.warning(
                    "dead_letter",
                    source=f"{letter.source_topic}-{letter.source_partition}@{letter.source_offset}",
                    code=letter.code,
                    field=letter.field,
                    reason=letter.reason,
                )
            for entry in batch.history:
                self._count(entry)

    def failed(self, outcome: Outcome, reason: str, partitions: Sequence[int]) -> None:
        """A transaction did not commit."""
        self._failing = True
        self._metrics.failed.labels(outcome.value).inc()
        self._log.warning("transaction_failed", outcome=outcome.value, reason=reason, partitions=[*partitions])

    def no_membership(self, reason: str) -> None:
        """An assignment came without a membership that the broker would check."""
        self._log.warning("no_membership", reason=reason)

    def quarantined(self, job_id: str, reason: str) -> None:
        """A job was set aside; its partition goes on."""
        self._metrics.quarantined.inc()
        self._log.error("job_quarantined", job_id=job_id, reason=reason)

    def unreachable(self, what: str, reason: str) -> None:
        """The broker did not answer a question; it is asked again."""
        self._log.warning("broker_unreachable", what=what, reason=reason)

    def skew(self, skew_ms: float) -> None:
        """Tell of a clock that went wrong, and of one that is right again, once each."""
        self._metrics.skew.set(skew_ms / 1000)
        skewed = abs(skew_ms) > self._skew_alert_ms
        if skewed and not self._skewed:
            self._log.error("clock_skewed", skew_ms=round(skew_ms), bound_ms=self._skew_alert_ms)
        elif self._skewed and not skewed:
            self._log.info("clock_right_again", skew_ms=round(skew_ms))
        self._skewed = skewed

    def transactions(self) -> tuple[int, int]:
        """Return how many committed, and one more while the last ones of this assignment failed."""
        return self._commits, self._commits + self._failing

    def stalled(self, reason: str) -> None:
        """Something stands still; the process is about to be ended."""
        self._metrics.stalls.inc()
        self._log.error("stalled", reason=reason)

    def _count(self, entry: HistoryEntry) -> None:
        metrics = self._metrics
        due_at_ms = {event.run_id: event.due_at_ms for event in entry.events if isinstance(event, RunOpened)}
        for event in entry.events:
            if isinstance(event, LeaseGranted):
                metrics.grants.inc()
                if event.run_id in due_at_ms:
                    metrics.lateness.observe(max(0, event.at_ms - due_at_ms[event.run_id]) / 1000)
            elif isinstance(event, RunOpened):
                metrics.opened.labels(event.kind).inc()
            elif (
                isinstance(event, JobPaused) and event.actor == RATE_GUARD_ACTOR and entry.cause.name != Pause.__name__
            ):
                metrics.rate_guard_trips.inc()  # a person may name any actor, and an undo names the one that was
                self._log.error("rate_guard_tripped", job_id=entry.job_id)
            elif isinstance(event, LeaseExpired):
                metrics.expirations.inc()
            elif isinstance(event, RunSkipped):
                metrics.skipped.labels(event.reason).inc()
            elif isinstance(event, OccurrencesSkipped):
                metrics.skipped.labels(event.reason).inc(event.count)
            elif type(event) in _OUTCOMES:
                metrics.runs.labels(_OUTCOMES[type(event)]).inc()


_OUTCOMES: Final[dict[type, str]] = {RunSucceeded: "succeeded", RunDied: "dead", RunCancelled: "cancelled"}


def _is_trip(event: JobPaused, entry: HistoryEntry) -> bool:
    """Tell a trip of the rate guard from a pause in its name: people may name any actor, and an undo names the last."""
    return event.actor == RATE_GUARD_ACTOR and entry.cause.name != Pause.__name__
