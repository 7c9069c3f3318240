"""The judge: one function for each invariant of DESIGN section 15, over one finished run.

`check` reads a `LogView` and what was journalled outside, and gives a `Report`. It never stops at the first
violation and never guesses: what it cannot judge it counts as left out. docs/invariants.md says each invariant
in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.audit import invariants_log, invariants_policies, invariants_runs, invariants_schedule
from streams.audit.case import Case
from streams.audit.journals import Faults, Journals, Limits
from streams.audit.report import Findings, Lateness, Report
from streams.core import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.audit.log_view import LogView


def _rules_and_policies(case: Case, found: Findings) -> None:
    """I13 has two halves: what must not overlap in time, and each policy by its own words."""
    invariants_schedule.rules_hold(case, found)
    invariants_policies.policies_hold(case, found)


INVARIANTS: Final[tuple[tuple[str, str, Callable[[Case, Findings], None]], ...]] = (
    ("I0", "own records readable, refused ones invisible", invariants_log.readable),
    ("I1", "never early", invariants_runs.never_early),
    ("I2", "complete: expected = recorded, once", invariants_schedule.complete),
    ("I3", "at most one live lease", invariants_runs.one_lease),
    ("I4", "tokens rise, attempts never fall", invariants_runs.tokens_rise),
    ("I5", "one completion, under the live token", invariants_runs.one_completion),
    ("I6", "one owner: dense, no stale generation", invariants_log.one_owner),
    ("I7", "each input decided once, acks kept", invariants_log.decided_once),
    ("I8", "catch-up exact", invariants_schedule.caught_up),
    ("I9", "due runs leased or ended in time", invariants_runs.ends_in_time),
    ("I10", "duplicates explained by faults", invariants_runs.duplicates_explained),
    ("I11", "live state = replay of history", invariants_log.replayable),
    ("I12", "fair under a flood", invariants_runs.fair),
    ("I13", "pause, overlap, edits and all policies hold", _rules_and_policies),
)


def check(
    view: LogView,
    journals: Journals | None = None,
    faults: Faults | None = None,
    limits: Limits | None = None,
) -> Report:
    """Judge one run. An invariant that found nothing to judge although its kind of item exists is `vacuous`."""
    case = Case(view, journals or Journals(), faults or Faults(), limits or Limits())
    rows = []
    for name, title, judge in INVARIANTS:
        found = Findings(name, title)
        found.expected = _expected(case, name)
        judge(case, found)
        rows.append(found)
    late = invariants_runs.lateness_by_tenant(case)
    return Report(
        judged=tuple(row.summary() for row in rows),
        violations=tuple(violation for row in rows for violation in row.violations),
        lateness=late.pop("", Lateness()),
        lateness_by_tenant=late,
        counts=_counts(case),
    )


def _expected(case: Case, name: str) -> bool:
    """Tell whether this invariant must find items in such a run.

    I12 decides for itself. An absence may fall between all occurrences, so I8 need not find any.
    """
    match name:
        case "I10":
            return bool(case.journals.executions)
        case "I5":
            return any(call.name == "Complete" for call in case.journals.calls)
        case "I8" | "I12":
            return False
        case _:
            return True


def _counts(case: Case) -> dict[str, int]:
    events = [happening.event for story in case.stories for happening in story.happenings]
    return {
        "jobs": len(case.stories),
        "runs": len(case.runs),
        "decisions": len(case.view.history),
        "events": len(events),
        "leases": sum(isinstance(event, ev.LeaseGranted) for event in events),
        "expired": sum(isinstance(event, ev.LeaseExpired) for event in events),
        "retried": sum(isinstance(event, ev.RunRetried) for event in events),
        "succeeded": sum(isinstance(event, ev.RunSucceeded) for event in events),
        "dead": sum(isinstance(event, ev.RunDied) for event in events),
        "skipped": sum(e.count for e in events if isinstance(e, ev.OccurrencesSkipped))
        + sum(isinstance(event, ev.RunSkipped) for event in events),
        "executions": len(case.journals.executions),
        "calls": len(case.journals.calls),
        "generations": len({item.entry.generation for item in case.view.history}),
    }
