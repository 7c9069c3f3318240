"""How fast the rules of time are, as ratios to plain croniter 5 and to cronsim in the same run.

Run: ``python benchmarks/bench_time.py [--output json] [--steps N] [--rounds N]``. Nothing is asserted.

- *next*: a cached ``next_after`` against ``croniter.get_next`` on naive time (its fastest mode) and ``next(CronSim)``
  on aware time.
- *compile*: from text to a first occurrence, without caches, as for a new job with ``H``.
- *jump*: ten years forward on a one-second job, and the count of what was skipped.
- *catch-up*: the latest of 10 million missed slots and how many there were (policies ``latest`` and ``none``).

Each number is the best of the rounds, so that other load on the machine disturbs it least.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from streams.core.time import INSTALLED_ZONE_DATA, CronSpec, IntervalSpec, Schedule, compile_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

START_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
START = datetime(2026, 1, 1, tzinfo=UTC)
TEN_YEARS_MS = 3_652 * 86_400_000
MISSED = 10_000_000
COMMON = ("* * * * *", "*/5 * * * *", "0 * * * *", "0 9 * * 1-5", "30 2 * * *", "*/15 9-17 * * 1-5", "0 0 1 * *")
ZONES = ("UTC", "America/New_York")


def best(rounds: int, steps: int, make: Callable[[], Callable[[], object]]) -> float:
    """Return microseconds a step in the fastest of ``rounds``."""
    fastest = float("inf")
    for _ in range(rounds):
        step = make()
        began = time.perf_counter()
        for _ in range(steps):
            step()
        fastest = min(fastest, time.perf_counter() - began)
    return fastest / steps * 1e6


def ours(schedule: Schedule) -> Callable[[], object]:
    """Return a step to the next occurrence."""
    at_ms = START_MS

    def step() -> None:
        nonlocal at_ms
        found = schedule.next_after(at_ms)
        at_ms = START_MS if found is None else found.at_ms

    return step


def by_croniter(expression: str) -> Callable[[], object]:
    """Return a step of plain croniter on naive time."""
    iterator = croniter(expression, START.replace(tzinfo=None))
    return lambda: iterator.get_next(float)


def by_cronsim(expression: str, zone: str) -> Callable[[], object]:
    """Return a step of cronsim on aware time."""
    iterator = CronSim(expression, START.astimezone(ZoneInfo(zone)))
    return lambda: next(iterator)


def bench_next(expression: str, zone: str, rounds: int, steps: int) -> dict[str, Any]:
    """Compare one step of the three."""
    schedule = compile_schedule(CronSpec(expression, zone), job_id="bench")
    few = max(steps // 10, 1)
    us = best(rounds, steps, lambda: ours(schedule))
    croniter_us = best(rounds, few, lambda: by_croniter(expression))
    cronsim_us = best(rounds, few, lambda: by_cronsim(expression, zone))
    return {
        "expression": expression,
        "zone": zone,
        "next_us": us,
        "croniter_us": croniter_us,
        "cronsim_us": cronsim_us,
        "times_croniter": croniter_us / us,
        "times_cronsim": cronsim_us / us,
    }


def bench_compile(rounds: int, steps: int) -> dict[str, Any]:
    """Compile jobs that share nothing but the text: H differs by job id."""
    number = 0

    def compile_one() -> None:
        nonlocal number
        number += 1
        compile_schedule(CronSpec("H H * * *", "Europe/Berlin"), job_id=f"job-{number}").next_after(START_MS)

    us = best(rounds, max(steps // 20, 1), lambda: compile_one)
    croniter_us = best(rounds, max(steps // 20, 1), lambda: lambda: croniter("17 3 * * *", START_MS / 1000).get_next())
    return {"compile_us": us, "croniter_us": croniter_us, "times_croniter": croniter_us / us}


def bench_jump(rounds: int) -> list[dict[str, Any]]:
    """Ten years forward, then a second: the cost of both should be the same."""
    rows = []
    for name, schedule in (
        ("cron * * * * * *", compile_schedule(CronSpec("* * * * * *", "Europe/Berlin"), job_id="bench")),
        ("every 1 s", compile_schedule(IntervalSpec(1_000, START_MS), job_id="bench")),
    ):
        second_us = best(rounds, 1_000, lambda s=schedule: lambda: s.next_after(START_MS))  # type: ignore[misc]  # bound now
        jump_us = best(rounds, 1_000, lambda s=schedule: lambda: s.next_after(START_MS + TEN_YEARS_MS))  # type: ignore[misc]  # bound now
        skipped = schedule.count_between(START_MS, START_MS + TEN_YEARS_MS)
        count_us = best(rounds, 100, lambda s=schedule: lambda: s.count_between(START_MS, START_MS + TEN_YEARS_MS))  # type: ignore[misc]  # bound now
        rows.append(
            {
                "schedule": name,
                "second_us": second_us,
                "ten_years_us": jump_us,
                "skipped": skipped,
                "count_us": count_us,
            }
        )
    return rows


def bench_catch_up(rounds: int) -> list[dict[str, Any]]:
    """Settle 10 million missed slots: the latest, and the number of the others."""
    rows = []
    for name, spec, slot_ms in (
        ("cron * * * * * *", CronSpec("* * * * * *", "America/New_York"), 1_000),
        ("cron */5 * * * * *", CronSpec("*/5 * * * * *", "Australia/Lord_Howe"), 5_000),
        ("cron 0-59 * * * *", CronSpec("0-59 * * * *", "Europe/Berlin"), 60_000),
        ("every 1 s", IntervalSpec(1_000, START_MS), 1_000),
    ):
        schedule, end_ms = compile_schedule(spec, job_id="bench"), START_MS + MISSED * slot_ms

        def settle(schedule: Schedule = schedule, end_ms: int = end_ms) -> tuple[object, int]:
            return schedule.latest_in(START_MS, end_ms), schedule.count_between(START_MS, end_ms)

        us = best(rounds, 20, lambda settle=settle: settle)  # type: ignore[misc]  # bound now
        rows.append({"schedule": name, "missed": settle()[1], "settle_us": us})
    return rows


def run(rounds: int, steps: int) -> dict[str, Any]:
    """Measure everything."""
    return {
        "settings": {"rounds": rounds, "steps": steps, "start": START.isoformat()},
        "versions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "croniter": version("croniter"),
            "cronsim": version("cronsim"),
            "zone_data": INSTALLED_ZONE_DATA.version,
        },
        "next": [bench_next(expression, zone, rounds, steps) for zone in ZONES for expression in COMMON],
        "compile": bench_compile(rounds, steps),
        "jump": bench_jump(rounds),
        "catch_up": bench_catch_up(rounds),
    }


def report(result: dict[str, Any]) -> str:
    """Return the numbers as text."""
    lines = [f"{name}: {value}" for part in ("versions", "settings") for name, value in result[part].items()]
    lines.append(f"\n{'next, microseconds':42}{'ours':>8}{'croniter':>10}{'cronsim':>9}   ratios")
    for row in result["next"]:
        label = f"{row['expression']}  {row['zone']}"
        times = f"{row['times_croniter']:6.1f}x {row['times_cronsim']:6.1f}x"
        lines.append(f"{label:42}{row['next_us']:8.2f}{row['croniter_us']:10.2f}{row['cronsim_us']:9.2f}   {times}")
    compiled = result["compile"]
    ratio = compiled["times_croniter"]
    lines.append(f"\ncompile and first next of a new H job: {compiled['compile_us']:.0f} us ({ratio:.1f}x croniter)")
    lines += [
        f"jump, {row['schedule']}: next second {row['second_us']:.2f} us, ten years {row['ten_years_us']:.2f} us, "
        f"counting {row['skipped']:,} skipped slots {row['count_us']:.0f} us"
        for row in result["jump"]
    ]
    lines += [
        f"catch-up, {row['schedule']}: {row['missed']:,} missed slots settled in {row['settle_us']:.0f} us"
        for row in result["catch_up"]
    ]
    return "\n".join(lines)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    result = run(options.rounds, options.steps)
    sys.stdout.write((json.dumps(result, indent=2) if options.output == "json" else report(result)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
