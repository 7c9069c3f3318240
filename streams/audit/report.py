"""The judge's answer as values: violations, how much was judged, how late runs were; and its two printed forms.

A check that looked at nothing proves nothing. So every invariant counts its items, and one that was expected to
find some and found none is `vacuous`, which fails the report like a violation does.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import msgspec

VIOLATIONS_SHOWN: Final = 20
"""Of one invariant in the table; the JSON has all that were kept."""

VIOLATIONS_KEPT: Final = 1_000
"""Of one invariant: a broken run breaks every record of it, and nobody reads a million lines."""


class Place(NamedTuple):
    """What a violation is about, as far as it is known."""

    job_id: str = ""
    run_id: str = ""
    partition: int = -1
    offset: int = -1


NOWHERE: Final = Place()


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One broken promise and the record that shows it."""

    invariant: str
    message: str
    job_id: str = ""
    run_id: str = ""
    partition: int = -1
    offset: int = -1


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What one invariant looked at."""

    invariant: str
    title: str
    items: int
    not_judged: dict[str, int]
    """Items left out, by reason."""
    violations: int
    vacuous: bool
    """Nothing was judged although something should have been there."""


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """First grant minus scheduled instant, by the broker's clock, in milliseconds."""

    runs: int = 0
    p50_ms: int = 0
    p99_ms: int = 0
    max_ms: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole verdict."""

    judged: tuple[Judged, ...]
    violations: tuple[Violation, ...]
    lateness: Lateness
    lateness_by_tenant: dict[str, Lateness]
    counts: dict[str, int]

    @property
    def ok(self) -> bool:
        """True if nothing is broken and no check was vacuous."""
        return not self.violations and not any(row.vacuous for row in self.judged)

    def of(self, invariant: str) -> tuple[Violation, ...]:
        """Give the violations of one invariant."""
        return tuple(v for v in self.violations if v.invariant == invariant)

    def to_json(self) -> bytes:
        """Give the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def to_table(self) -> str:
        """Give the report for people."""
        lines = [f"{'':4}{'invariant':<46}{'judged':>10}{'left out':>10}{'broken':>8}"]
        for row in self.judged:
            left_out = sum(row.not_judged.values())
            note = "  NOTHING JUDGED" if row.vacuous else ""
            lines.append(f"{row.invariant:<4}{row.title:<46}{row.items:>10}{left_out:>10}{row.violations:>8}{note}")
            lines.extend(f"{'':6}left out: {reason}: {n}" for reason, n in sorted(row.not_judged.items()))
        late = self.lateness
        lines.append(f"lateness of {late.runs} runs: p50 {late.p50_ms} ms, p99 {late.p99_ms} ms, max {late.max_ms} ms")
        lines.append("counts: " + ", ".join(f"{name} {n}" for name, n in sorted(self.counts.items())))
        shown: Counter[str] = Counter()
        for violation in self.violations:
            shown[violation.invariant] += 1
            if shown[violation.invariant] <= VIOLATIONS_SHOWN:
                lines.append(_line(violation))
        return "\n".join(lines)


class Findings:
    """What one invariant collects while it looks: items, reasons for leaving out, violations."""

    def __init__(self, invariant: str, title: str) -> None:
        self.invariant = invariant
        self.title = title
        self.items = 0
        self.broken = 0
        self.not_judged: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.expected = True

    def looked(self, items: int = 1) -> None:
        """Count items that were judged."""
        self.items += items

    def left_out(self, reason: str, items: int = 1) -> None:
        """Count items that could not be judged, and why."""
        if items:
            self.not_judged[reason] += items

    def broke(self, message: str, where: Place = NOWHERE) -> None:
        """Record a violation."""
        self.broken += 1
        if len(self.violations) < VIOLATIONS_KEPT:
            self.violations.append(Violation(invariant=self.invariant, message=message, **where._asdict()))

    def summary(self) -> Judged:
        """Close the books."""
        return Judged(
            invariant=self.invariant,
            title=self.title,
            items=self.items,
            not_judged=dict(self.not_judged),
            violations=self.broken,
            vacuous=self.expected and self.items == 0,
        )


def lateness_of(values_ms: list[int]) -> Lateness:
    """Summarise latenesses; nearest-rank percentiles."""
    if not values_ms:
        return Lateness()
    ordered = sorted(values_ms)
    return Lateness(
        runs=len(ordered),
        p50_ms=ordered[(len(ordered) - 1) // 2],
        p99_ms=ordered[(len(ordered) - 1) * 99 // 100],
        max_ms=ordered[-1],
    )


def _line(violation: Violation) -> str:
    where = f" at {violation.partition}/{violation.offset}" if violation.partition >= 0 else ""
    what = violation.run_id or violation.job_id
    return f"{violation.invariant} {what}{where}: {violation.message}"
