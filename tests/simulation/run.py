"""Simulate for a number of hours, judge every seed whole, and say what came out.

    python -m tests.simulation.run --hours 10000 --seed 1 [--jobs 2] [--form long] [--results FILE]

Forms: `long` (default) is days of sparse loads, `dense` minutes full of faults in shipped settings, `policies` the core
alone with people who use every command. Seeds count up from --seed until the hours are full. Prints a line for each
seed and the sums at the end; writes the sums as one line of JSON to --results. A failed seed is printed with its
story and the command that repeats it. Exit code 1 on any violation.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tests.simulation.harness.long_haul import haul, long_plan
from tests.simulation.harness.policy_world import PolicyPlan, live
from tests.simulation.harness.scenario import Plan, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.audit.report import Report

DENSE_HOURS: Final = 0.5
LONG_HOURS: Final = 200.0
POLICY_HOURS: Final = 48.0


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of one seed."""

    seed: int
    hours: float
    took_s: float
    counts: dict[str, int]
    faults: dict[str, int]
    judged: dict[str, int]
    stale_refused: int
    violations: int
    story: str
    """Empty unless something was wrong."""


class Sums(msgspec.Struct, kw_only=True):
    """What came out of all seeds."""

    form: str
    seed: int
    runs: int = 0
    hours: float = 0.0
    violations: int = 0
    failed_seeds: list[int] = msgspec.field(default_factory=list)
    stale_refused: int = 0
    took_s: float = 0.0
    """Of one core, together."""
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    judged: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, one: SeedResult) -> None:
        """Take a seed in."""
        self.runs += 1
        self.hours += one.hours
        self.violations += one.violations
        self.stale_refused += one.stale_refused
        self.took_s = round(self.took_s + one.took_s, 1)
        if one.story:
            self.failed_seeds.append(one.seed)
        for mine, more in ((self.counts, one.counts), (self.faults, one.faults), (self.judged, one.judged)):
            mine.update(Counter(mine) + Counter(more))


class Lived(NamedTuple):
    """A run as its form gives it."""

    report: Report
    faults: dict[str, int]
    stale_refused: int
    story: str


def run_long(seed: int, hours: float) -> Lived:
    """Days of sparse loads."""
    result = haul(long_plan(seed, hours))
    return Lived(result.report, result.faults, result.stale_refused, "" if result.ok else result.story())


def run_dense(seed: int, hours: float) -> Lived:
    """Minutes full of faults."""
    result = simulate(Plan(seed=seed, hours=hours, policies=seed % 2 == 0))
    return Lived(result.report, result.faults, result.stale_refused, "" if result.ok else result.story())


def run_policies(seed: int, hours: float) -> Lived:
    """The core alone."""
    result = live(PolicyPlan(seed=seed, hours=hours))
    return Lived(result.report, {}, 0, "" if result.ok else result.story())


FORMS: Final[dict[str, tuple[Callable[[int, float], Lived], float]]] = {
    "long": (run_long, LONG_HOURS),
    "dense": (run_dense, DENSE_HOURS),
    "policies": (run_policies, POLICY_HOURS),
}


def simulate_hours(
    form: str, hours: float, seed: int, jobs: int, told: Callable[[SeedResult, Sums], None] = lambda _one, _sums: None
) -> Sums:
    """Run seed after seed until the hours are full; with one job in this process, else in as many as asked for."""
    run, each = FORMS[form]
    parts = [(run, seed + number, part_hours) for number, part_hours in enumerate(_parts(hours, each))]
    sums = Sums(form=form, seed=seed)
    if jobs == 1:
        for part in parts:
            one = _one(part)
            sums.add(one)
            told(one, sums)
            gc.collect()  # a world is full of cycles, and a hundred megabytes
        return sums
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=5) as pool:
        for one in pool.imap_unordered(_one, parts):
            sums.add(one)
            told(one, sums)
    return sums


def _parts(hours: float, each: float) -> Iterator[float]:
    while hours > 0:
        yield min(hours, each)
        hours -= each


def _one(part: tuple[Callable[[int, float], Lived], int, float]) -> SeedResult:
    run, seed, hours = part
    started_s = time.process_time()
    report, faults, stale_refused, story = run(seed, hours)
    return SeedResult(
        seed=seed,
        hours=hours,
        took_s=round(time.process_time() - started_s, 1),
        counts=report.counts,
        faults=faults,
        judged={row.invariant: row.items for row in report.judged},
        stale_refused=stale_refused,
        violations=max(len(report.violations), int(bool(story))),  # an alarm is one too
        story=story,
    )


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description="Simulate and judge.")
    parser.add_argument("--hours", type=float, default=1_000.0)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--form", choices=[*FORMS], default="long")
    parser.add_argument("--results", type=Path, help="append the sums to this file, as a line of JSON")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # else a seed would not be the same run twice
        os.execve(  # noqa: S606 - ourselves
            sys.executable,
            [sys.executable, "-m", "tests.simulation.run", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sums = simulate_hours(given.form, given.hours, given.seed, given.jobs, _tell)
    sys.stdout.write(_table(sums))
    if given.results is not None:
        with given.results.open("ab") as file:
            file.write(msgspec.json.encode(sums) + b"\n")
    return 1 if sums.violations else 0


def _tell(one: SeedResult, sums: Sums) -> None:
    faults = sum(one.faults.values())
    sys.stdout.write(
        f"seed {one.seed}: {one.hours:g} h in {one.took_s} s, {one.counts['runs']} runs, {faults} faults,"
        f" {one.violations} violations; together {sums.hours:g} h, {sums.violations} violations\n"
    )
    if one.story:
        repeat = f"python -m tests.simulation.run --form {sums.form} --hours {one.hours:g} --seed {one.seed}"
        sys.stdout.write(f"{one.story}\nrepeat with: {repeat}\n")
    sys.stdout.flush()


def _table(sums: Sums) -> str:
    rows = [f"\n{sums.hours:g} simulated hours in {sums.runs} runs from seed {sums.seed}, {sums.took_s} s of one core"]
    for title, numbers in (("counts", sums.counts), ("faults", sums.faults), ("judged", sums.judged)):
        rows.append(f"{title}: " + ", ".join(f"{name} {numbers[name]}" for name in sorted(numbers)))
    rows.append(f"commits of stale owners refused: {sums.stale_refused}")
    rows.append(f"violations: {sums.violations}" + (f" in seeds {sums.failed_seeds}" if sums.failed_seeds else ""))
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main())
