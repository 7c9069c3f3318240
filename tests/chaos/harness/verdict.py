"""After a run: read all topics, judge them with the journals, and measure how long nothing was dispatched.

`judge` ends the traffic, stops the schedulers in good order, reads and checks. A `Verdict` has the report, and the gaps
between commits of each partition, from the ledger's markers by the broker's clock.
"""

from __future__ import annotations

import itertools
import math
import threading
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from streams.audit.checker import check
from streams.audit.journals import Faults, Limits
from streams.audit.kafka_reader import read_run
from streams.audit.log_view import TOPICS, LogRecord, LogView
from streams.core import events as ev
from streams.core.time import OneOffSpec
from tests.chaos.harness.cluster import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.audit.journals import Fault, Journals
    from streams.audit.report import Report
    from tests.chaos.harness.archive import Archive
    from tests.chaos.harness.cluster import Cluster

KEPT: Final = "run.msgpack"
"""What was judged, in the cluster's directory; `python -m tests.chaos.judge_again FILE` judges and explains it."""

CLOCK_ERROR_MS: Final = 50
"""Driver and broker share the machine's clock; librdkafka and the broker round to whole milliseconds."""

HEAL_S: Final = 8.0
"""What the workers need for the backlog of a storm, and the pauses of 2 s that people set meanwhile."""

LIMITS: Final = Limits(ended_or_leased_within_ms=45_000)
"""A storm (20 s without an owner on a busy machine), a lost lease (3 s), a retry, a pause, healing and stopping."""


class Traffic(Protocol):
    """What asked and worked during a run, and what it saw."""

    @property
    def journals(self) -> Journals:
        """Give what was seen."""

    @property
    def faults(self) -> list[Fault]:
        """Give what workers did wrong on purpose."""

    @property
    def gave_up(self) -> list[str]:
        """Give the calls that never got an answer."""

    def drain(self) -> None:
        """End in good order."""


class Verdict(msgspec.Struct, kw_only=True):
    """What one run was worth."""

    report: Report
    view: LogView
    stale_refused: int
    hidden: int
    """Records of owners that only a read_uncommitted consumer sees: those of refused and aborted transactions."""

    def markers(self) -> dict[int, list[int]]:
        """Give the broker's times of every commit, by partition."""
        found: dict[int, list[int]] = {}
        for item in self.view.markers:
            found.setdefault(item.record.partition, []).append(item.record.timestamp_ms)
        return found

    def gaps(self, from_ms: int, to_ms: int, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Give the longest time between two commits that touches [from_ms, to_ms], by partition, in milliseconds."""
        wanted = None if partitions is None else set(partitions)
        return {
            partition: max((b - a for a, b in itertools.pairwise(stamps) if b >= from_ms and a <= to_ms), default=0)
            for partition, stamps in self.markers().items()
            if wanted is None or partition in wanted
        }

    def lateness_ms(self, from_ms: int, to_ms: int) -> list[int]:
        """Give how late the one-off jobs that fell due in [from_ms, to_ms] were granted first, sorted.

        Counted from the scheduled instant, or from the definition's record where that came later. Runs of other jobs
        are left out: they may rightly wait for an earlier run or the end of a pause.
        """
        due: dict[str, int] = {}
        late: dict[str, int] = {}
        for item in self.view.history:
            stamp_ms, job_id = item.record.timestamp_ms, item.entry.job_id
            for event in item.entry.events:
                if isinstance(event, ev.JobDefined) and isinstance(event.definition.schedule, OneOffSpec):
                    due[job_id] = max(stamp_ms, event.definition.schedule.at_ms)
                elif isinstance(event, ev.LeaseGranted) and job_id in due:
                    late.setdefault(job_id, stamp_ms - due[job_id])
        return sorted(late[job_id] for job_id, at_ms in due.items() if job_id in late and from_ms <= at_ms <= to_ms)


def judge(cluster: Cluster, driver: Traffic, *, heal_s: float = HEAL_S, archive: Archive | None = None) -> Verdict:
    """Let workers catch up for `heal_s`, end everything and judge it. `archive`: what the log may have lost by now."""
    threading.Event().wait(heal_s)
    driver.drain()
    for scheduler in cluster.schedulers:
        scheduler.stop()
    reading = read_run(cluster.settings, end_at_ms=now_ms())
    refused = frozenset(
        ("ledger", partition, offset) for line in cluster.refused() for partition, offset in line["markers"]
    )
    archived = {} if archive is None else archive.end()
    view = LogView(
        _whole(_records(reading.view), [record for records in archived.values() for record in records]),
        committed=reading.view.committed,
        end_at_ms=reading.view.end_at_ms,
        refused=refused,
    )
    faults = Faults(faults=(*cluster.faults, *driver.faults), clock_error_ms=CLOCK_ERROR_MS)
    report = check(view, driver.journals, faults, LIMITS)
    kept = (_records(view), dict(view.committed), view.end_at_ms, sorted(view.refused), driver.journals, faults)
    (cluster.root / KEPT).write_bytes(msgspec.msgpack.encode(kept))
    return Verdict(report=report, view=view, stale_refused=cluster.stale_refused(), hidden=sum(reading.hidden.values()))


def _whole(present: list[LogRecord], archived: list[LogRecord]) -> list[LogRecord]:
    there = {(record.topic, record.partition, record.offset) for record in present}
    return [*present, *(record for record in archived if (record.topic, record.partition, record.offset) not in there)]


def _records(view: LogView) -> list[LogRecord]:
    return [record for topic in TOPICS for record in view.records(topic)]


def seconds(gap_ms: float) -> float:
    """Round up to hundredths of a second, for tables."""
    return math.ceil(gap_ms / 10) / 100
