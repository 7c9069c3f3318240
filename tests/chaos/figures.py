"""Adds up runs: prints the tables of docs/reliability.md from the results that `tests.chaos.run` wrote.

python -m tests.chaos.figures FILE...

Exit code 1 if any run has a violation.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.harness.families import FAMILIES, family_of
from tests.chaos.harness.results import read
from tests.chaos.harness.verdict import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.harness.results import FaultFigures, Result


def table(results: Sequence[Result]) -> str:
    """Give one row for each kind of fault, over all runs, in Markdown. Seconds; the worst of all, and the median."""
    lines = [
        "| fault | times | seeds | without commit, median | worst | other partitions | nothing handed out | late |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_kind: dict[str, list[FaultFigures]] = {}
    seeds: dict[str, set[int]] = {}
    for result in results:
        for fault in result.faults:
            by_kind.setdefault(fault.kind, []).append(fault)
            seeds.setdefault(fault.kind, set()).add(result.seed)
    for kind, faults in sorted(by_kind.items()):
        gaps = sorted(fault.gap_ms for fault in faults)
        others = max(fault.others_gap_ms for fault in faults)
        cells = (
            kind.replace("_", " "),
            str(len(faults)),
            str(len(seeds[kind])),
            f"{seconds(gaps[len(gaps) // 2]):.2f}",
            f"{seconds(gaps[-1]):.2f}",
            f"{seconds(others):.2f}" if others else "-",
            f"{seconds(max(fault.silent_ms for fault in faults)):.2f}",
            f"{seconds(max(fault.late_ms for fault in faults)):.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def families(results: Sequence[Result]) -> str:
    """Give one row for each family of faults, over all runs, in Markdown: how often, by how many seeds."""
    times: Counter[str] = Counter()
    seeds: dict[str, set[int]] = {}
    for result in results:
        for fault in result.faults:
            family = family_of(fault.kind)
            times[family] += 1
            seeds.setdefault(family, set()).add(result.seed)
    lines = ["| family | faults | seeds |", "|---|---|---|"]
    lines += [f"| {family} | {times[family]} | {len(seeds.get(family, ()))} |" for family in FAMILIES]
    return "\n".join(lines)


def totals(results: Sequence[Result]) -> str:
    """Give the sums over all runs, one a line."""
    counts: Counter[str] = Counter()
    violations: Counter[str] = Counter()
    workers: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
        violations.update(result.violations)
        workers.update(result.worker_faults)
        notes.update(result.notes)
    faults = sum(len(result.faults) for result in results)
    minutes = sum(result.seconds for result in results) / 60
    again = sum(result.runs_executed_again for result in results)
    rows = {
        "runs of the harness": f"{len(results)}, seeds {sorted({result.seed for result in results})}, "
        f"{minutes:.0f} minutes, {faults} faults",
        "commits": ", ".join(sorted({result.commit for result in results})),
        "versions": "; ".join(sorted({str(result.versions) for result in results})),
        "judged": ", ".join(
            f"{counts[name]:,} {name}" for name in ("jobs", "runs", "executions", "decisions", "leases", "calls")
        ),
        "violations": str(dict(sorted(violations.items())) or 0),
        "nothing judged": str(sorted({name for result in results for name in result.vacuous}) or "-"),
        "lost and early": f"jobs lost {sum(r.jobs_lost for r in results)}, runs lost "
        f"{sum(r.runs_lost for r in results)}, early {sum(r.early for r in results)}",
        "calls given up": str(sum(result.calls_given_up for result in results)),
        "not bitten or not healed in time": "; ".join(line for r in results for line in r.unhealed) or "0",
        "jobs quarantined": str(sum(result.quarantined for result in results)),
        "stale transactions refused": str(sum(result.stale_refused for result in results)),
        "records that stayed hidden": str(sum(result.hidden for result in results)),
        "executed more than once": f"{again:,} of {sum(result.runs_executed for result in results):,} runs, by "
        f"{sum(result.executions_beyond_first for result in results):,} further executions",
        "faults of workers": str(dict(sorted(workers.items()))),
        "latest first grant": f"{seconds(max((r.late_max_ms for r in results), default=0)):.2f} s",
    }
    rows |= {name.replace("_", " "): f"{number:,}" for name, number in sorted(notes.items())}
    return "\n".join(f"- {name}: {value}" for name, value in rows.items())


def main(paths: Sequence[Path]) -> int:
    """Print all three."""
    results = read(paths)
    print(f"{totals(results)}\n\n{families(results)}\n\n{table(results)}")  # noqa: T201 - a program's output
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tests.chaos.figures FILE...")
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
