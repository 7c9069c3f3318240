"""What the benchmark says about late runs, from journals written by hand."""

from __future__ import annotations

import pytest

from benchmarks.bursts import broker_pauses, bursts, intervals


def commits(*flush_ms: float, began_ms: float = 1_000.0) -> list[str]:
    """Write the steps of commits that follow each other: 2 ms each but for the flush, and 4 ms from one to the next."""
    lines, at_ms = [], began_ms
    for flush in flush_ms:
        for step, took_ms in (("begin", 2), ("flush", flush), ("offsets", 2), ("commit", 2), ("apply", 4)):
            lines.append(f"{at_ms:.3f} {step}\n")
            at_ms += took_ms
    return lines


def runs(*lateness_ms: float, from_ms: float = 1_000.0, every_ms: float = 10.0) -> list[tuple[float, float]]:
    dues = [from_ms + number * every_ms for number in range(len(lateness_ms))]
    return [(due, due + late) for due, late in zip(dues, lateness_ms, strict=True)]


def test_a_long_step_explains_the_runs_that_waited_for_it() -> None:
    slow = intervals(commits(10, 10, 10, 100, 10, 10))
    (burst,) = bursts(runs(20, 20, 20, 20, 20, 20, 110, 100, 90, 80, 70, 20), slow)

    assert (burst.runs, burst.worst_ms, burst.explained) == (5, 110.0, True)
    assert [(cause.what, cause.took_ms, cause.usual_ms) for cause in burst.causes] == [("flush", 100.0, 10.0)]


def test_a_burst_in_which_nothing_was_slow_is_not_explained() -> None:
    (burst,) = bursts(runs(20, 20, 20, 100, 20), intervals(commits(10, 10, 10, 10, 10, 10)))

    assert (list(burst.causes), burst.explained) == ([], False)


def test_what_was_slow_at_another_time_explains_nothing() -> None:
    (burst,) = bursts(runs(20, 20, 20, 100, 20), intervals(commits(10, 10, 10, 100, 10, began_ms=9_000.0)))

    assert not burst.causes


def test_a_little_of_the_time_is_not_an_explanation() -> None:
    (burst,) = bursts(runs(20, 20, 20, 200, 20), intervals(commits(10, 10, 25, 10, 10)))

    assert [cause.what for cause in burst.causes] == ["flush"]
    assert not burst.explained


def test_bursts_apart_are_told_apart() -> None:
    late = runs(100, 100) + runs(100, from_ms=3_000.0) + runs(*[20] * 20, from_ms=5_000.0)

    assert [burst.runs for burst in bursts(late, [])] == [2, 1]


def test_no_runs_have_no_bursts() -> None:
    assert bursts([], []) == []


def test_pauses_of_both_collectors_count() -> None:
    log = (
        "[2026-11-30T12:00:01.500+0000] Using Serial\n"
        "[2026-11-30T12:00:02.250+0000] GC(3) Pause Young (Allocation Failure) 139M->11M(494M) 50.500ms\n"
    )
    (broker,) = broker_pauses(log)
    (scheduler,) = intervals(["1000.000 gc 12.500\n"])

    assert broker.began_ms == pytest.approx(1796040002199.5)
    assert broker.took_ms == 50.5
    assert (scheduler.what, scheduler.took_ms) == ("scheduler gc", 12.5)
