from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from streams.core.apply import apply
from streams.core.commands import CancelRun, Delete, Pause, ReplayRun, Resume, StartBackfill, Trigger
from streams.core.manual import ManualOwner
from streams.core.time import OneOffSpec
from streams.core.transitions import JOB_EDGES, NONE, RUN_EDGES, Edge, job_state, run_state

if TYPE_CHECKING:
    from streams.core.state import Job

DIAGRAM = Path(__file__).resolve().parents[2] / "docs" / "state-diagram.md"
T = 1_798_761_600_001
AT = 1_798_765_200_000
HOUR = 3_600_000


def drawn(heading: str) -> set[Edge]:
    section = DIAGRAM.read_text().split(f"## {heading}\n", 1)[1].split("```")[1]
    edges = set()
    for before, after, event in re.findall(r"^\s+(\S+) --> (\S+): (\w+)$", section, re.MULTILINE):
        edges.add(Edge(before.replace("[*]", NONE), event, after.replace("[*]", NONE)))
    return edges


def test_the_diagram_of_a_run_has_exactly_the_edges_of_the_table() -> None:
    assert drawn("A run") == RUN_EDGES


def test_the_diagram_of_a_job_has_exactly_the_edges_of_the_table() -> None:
    assert drawn("A job") == JOB_EDGES


def walked(owner: ManualOwner) -> tuple[set[Edge], set[Edge]]:
    """Fold the owner's log again and note each edge that it takes."""
    runs: set[Edge] = set()
    jobs: set[Edge] = set()
    job: Job | None = None
    for event in owner.log:
        name = type(event).__name__
        run_id = getattr(event, "run_id", "")
        before, run_before = job_state(job), run_state(job, run_id)
        job = apply(job, event)
        if run_id:
            runs.add(Edge(run_before, name, run_state(job, run_id)))
        after = job_state(job)
        if after != before or name.startswith("Job"):
            jobs.add(Edge(before, name, after))
    return runs, jobs


def owner_with(**fields: object) -> ManualOwner:
    owner = ManualOwner(now_ms=T)
    owner.define(**fields)
    return owner


def a_life_with_retries_and_death() -> ManualOwner:
    owner = owner_with(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.release(owner.grant())
    grant = owner.grant()
    owner.now_ms += 300_000
    owner.heartbeat(grant)
    owner.fail(grant)
    owner.now_ms += HOUR
    owner.grant()
    owner.now_ms += HOUR
    owner.wake()
    owner.fail(owner.grant(), retryable=False)
    owner.do(ReplayRun(job_id="job", run_id=owner.state.dead[0].run_id, replay_id="again"))
    owner.complete(owner.grant())
    owner.define(schedule=OneOffSpec(owner.now_ms + HOUR))
    owner.run_until(owner.now_ms + HOUR)
    owner.complete(owner.grant())
    owner.do(StartBackfill(job_id="job", backfill_id="b", from_ms=owner.now_ms - 5 * HOUR, until_ms=owner.now_ms))
    owner.complete(owner.grant())
    owner.run_until(owner.now_ms + 25 * HOUR)
    assert owner.job is None
    return owner


def a_life_with_cancels() -> ManualOwner:
    owner = owner_with(overlap="queue", start_deadline_ms=2 * HOUR)
    owner.run_until(AT + 2 * HOUR)
    for run in owner.state.open[:2]:
        owner.do(CancelRun(job_id="job", run_id=run.run_id))
    owner.run_until(AT + 5 * HOUR)
    owner.do(CancelRun(job_id="job", run_id=owner.state.open[-1].run_id))
    for number in range(3):
        owner.do(Trigger(job_id="job", trigger_id=f"t{number}", force=True))
        grant = owner.grant(f"run_job_t{number}", visibility_ms=3_600_000)
        owner.do(CancelRun(job_id="job", run_id=grant.run_id))
        owner.now_ms += 300_000
        owner.heartbeat(grant)
        if number == 0:
            owner.fail(grant)
        elif number == 1:
            owner.complete(grant)
        else:
            owner.wake()
    owner.do(Delete(job_id="job"))
    owner.define(payload=b"again")
    return owner


def a_life_with_pauses() -> ManualOwner:
    owner = owner_with()
    owner.do(Pause(job_id="job"))
    owner.do(Pause(job_id="job", until_ms=AT))
    owner.define(payload=b"x")
    owner.do(Resume(job_id="job"))
    owner.do(Pause(job_id="job"))
    owner.define(end_at_ms=T)
    owner.do(Trigger(job_id="job", trigger_id="t", force=True))
    owner.do(Delete(job_id="job"))
    owner.run_until(T + 25 * HOUR)
    return owner


def a_finished_life_that_is_triggered_and_deleted() -> ManualOwner:
    owner = owner_with(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.do(Pause(job_id="job"))
    owner.do(CancelRun(job_id="job", run_id=owner.state.open[0].run_id))
    owner.do(Trigger(job_id="job", trigger_id="t"))
    owner.complete(owner.grant())
    owner.do(Delete(job_id="job"))
    owner.define(schedule=OneOffSpec(AT + HOUR))
    owner.do(Pause(job_id="job"))
    owner.do(Delete(job_id="job"))
    return owner


def a_life_that_misses_start_deadlines() -> ManualOwner:
    owner = owner_with(overlap="queue", start_deadline_ms=30 * 60_000)
    owner.run_until(AT)
    owner.heartbeats[owner.grant().run_id] = AT + 3 * HOUR
    owner.run_until(AT + HOUR + 30 * 60_000)
    owner.define(overlap="queue")
    owner.do(Delete(job_id="job"))
    return owner


LIVES = (
    a_life_with_retries_and_death,
    a_life_with_cancels,
    a_life_with_pauses,
    a_finished_life_that_is_triggered_and_deleted,
    a_life_that_misses_start_deadlines,
)


def test_lives_take_every_edge_of_the_table_and_no_other() -> None:
    runs: set[Edge] = set()
    jobs: set[Edge] = set()
    for life in LIVES:
        of_runs, of_jobs = walked(life())
        runs |= of_runs
        jobs |= of_jobs

    assert runs == RUN_EDGES
    assert jobs == JOB_EDGES
