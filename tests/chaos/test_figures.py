"""Several runs add up to one table; a violation in any of them shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.chaos import figures
from tests.chaos.harness.results import FaultFigures, Result, append, read

if TYPE_CHECKING:
    from pathlib import Path


def fault(kind: str, gap_ms: int, *, others_gap_ms: int = 0, silent_ms: int = 0, late_ms: int = 0) -> FaultFigures:
    return FaultFigures(
        kind=kind,
        evidence="seen",
        healed_ms=1,
        partitions=2,
        gap_ms=gap_ms,
        others_gap_ms=others_gap_ms,
        silent_ms=silent_ms,
        late_ms=late_ms,
    )


def result(seed: int, *faults: FaultFigures) -> Result:
    return Result(
        at="2026-11-30T00:00:00Z",
        commit="abc",
        seed=seed,
        seconds=60.0,
        session_ms=6_000,
        schedulers=2,
        versions={"Kafka": "4.1.1"},
        faults=faults,
        worker_faults={"worker_dies": 1},
        counts={"jobs": 1_000, "runs": 10},
        violations={},
        vacuous=(),
        runs_executed=10,
        runs_executed_again=1,
        executions_beyond_first=2,
        jobs_lost=0,
        runs_lost=0,
        early=0,
        calls_given_up=0,
        quarantined=0,
        stale_refused=3,
        hidden=4,
        late_p50_ms=1,
        late_p99_ms=2,
        late_max_ms=1_230,
        notes={"bytes_swallowed": 5},
    )


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "new" / "a.jsonl", tmp_path / "b.jsonl"]
    append(paths[0], result(1, fault("kill", 1_000, others_gap_ms=300), fault("kill", 7_001, silent_ms=40)))
    append(paths[0], result(2, fault("kill", 2_000, late_ms=90)))
    append(paths[1], result(2, fault("net_cut", 500)))
    return paths


def test_rows_are_the_worst_and_the_median_over_all_files(
    paths: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert figures.main(paths) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| kill | 3 | 2 | 2.00 | 7.01 | 0.30 | 0.04 | 0.09 |" in lines
    assert "| net cut | 1 | 1 | 0.50 | 0.50 | - | 0.00 | 0.00 |" in lines
    assert "- runs of the harness: 3, seeds [1, 2], 3 minutes, 4 faults" in lines
    assert "- executed more than once: 3 of 30 runs, by 6 further executions" in lines
    assert "- stale transactions refused: 9" in lines
    assert "- bytes swallowed: 15" in lines
    assert "- violations: 0" in lines
    assert "| owner killed | 3 | 2 |" in lines
    assert "| link cut | 1 | 1 |" in lines
    assert "| graceful stop | 0 | 0 |" in lines  # what never came shows too


def test_a_violation_in_any_run_is_named_and_fails(paths: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    broken = msgspec.structs.replace(read(paths)[0], violations={"I2": 2}, runs_lost=2)
    append(paths[1], broken)
    assert figures.main(paths) == 1
    told = capsys.readouterr().out
    assert "- violations: {'I2': 2}" in told
    assert "runs lost 2" in told


def test_a_fault_that_did_not_heal_is_named_and_fails(paths: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    append(paths[1], msgspec.structs.replace(read(paths)[0], unhealed=("storm: nobody owns anything",)))
    assert figures.main(paths) == 1
    assert "- not bitten or not healed in time: storm: nobody owns anything" in capsys.readouterr().out
