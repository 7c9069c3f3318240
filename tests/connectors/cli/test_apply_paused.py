"""`paused` in a file of jobs: shown in the plan, done with the definition, left alone where the file says nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from horolog._cli.plan import CHANGE, CREATE, KEEP, Change, Step, plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from horolog.testing import FakeGateway

    Horolog = Callable[..., Awaitable[Any]]

PAUSED, RESUMED = True, False
EVERY = {"schedule": {"every": "1h"}}


@pytest.fixture
def apply(horolog: Horolog, tmp_path: Path) -> Callable[..., Awaitable[Any]]:
    async def apply(paused: Any = None, *options: str, **fields: Any) -> Any:
        path = tmp_path / "jobs.json"
        job = {"jobId": "a", **EVERY, **fields} | ({} if paused is None else {"paused": paused})
        path.write_text(json.dumps({"jobs": [job]}))
        return await horolog("apply", "-f", str(path), *options)

    return apply


def calls(gateway: FakeGateway) -> list[str]:
    return [f"{call.method} {call.path}" for call in gateway.calls if call.method != "GET"]


async def test_a_job_is_paused_after_its_creation_and_not_twice(
    apply: Callable[..., Awaitable[Any]], gateway: FakeGateway
) -> None:
    dry = await apply(PAUSED, "--dry-run")
    untouched = calls(gateway)
    first = await apply(PAUSED)
    second = await apply(PAUSED)

    assert dry.out.startswith("+ a\n    paused: false -> true\nWould be: 1 created")
    assert untouched == []
    assert first.out == "+ a\n    paused: false -> true\n1 created, 0 changed, 0 deleted, 0 unchanged.\n"
    assert second.out == "= a\n0 created, 0 changed, 0 deleted, 1 unchanged.\n"
    assert calls(gateway) == ["PUT /v1/jobs/a", "POST /v1/jobs/a/pause"]
    assert gateway.jobs["a"].paused is not None


async def test_false_resumes_and_leaves_the_definition(
    apply: Callable[..., Awaitable[Any]], gateway: FakeGateway
) -> None:
    await apply(PAUSED)
    version = gateway.jobs["a"].version
    said = await apply(RESUMED)

    assert said.out == "~ a\n    paused: true -> false\n0 created, 1 changed, 0 deleted, 0 unchanged.\n"
    assert calls(gateway)[2:] == ["POST /v1/jobs/a/resume"]
    assert (gateway.jobs["a"].paused, gateway.jobs["a"].version) == (None, version)


async def test_a_file_that_does_not_name_it_leaves_a_pause_alone(
    horolog: Horolog, apply: Callable[..., Awaitable[Any]], gateway: FakeGateway
) -> None:
    await apply()
    await horolog("jobs", "pause", "a", "--note", "by hand")
    unchanged = await apply()
    changed = await apply(lane="high")

    assert "1 unchanged" in unchanged.out
    assert changed.out.startswith("~ a\n    lane: normal -> high\n0 created")
    assert gateway.jobs["a"].paused is not None


async def test_note_and_end_are_sent_and_compared(apply: Callable[..., Awaitable[Any]], gateway: FakeGateway) -> None:
    await apply({"note": "holidays", "until": "2027-01-02T10:00:00+01:00"})
    same = await apply({"note": "holidays", "until": "2027-01-02T09:00:00Z"})
    any_pause = await apply(PAUSED)
    other = await apply({"note": "longer"}, lane="high")

    paused = gateway.jobs["a"].paused
    assert paused is not None
    assert (paused["note"], paused.get("until")) == ("longer", None)
    assert "1 unchanged" in same.out
    assert "1 unchanged" in any_pause.out
    assert "    lane: normal -> high\n    paused: " in other.out
    assert '"until": "2027-01-02T09:00:00.000Z"} -> {"note": "longer"}' in other.out


async def test_a_pause_that_is_refused_is_told_and_done_by_the_next_apply(
    apply: Callable[..., Awaitable[Any]], gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gateway.control.pause
    monkeypatch.setattr(gateway.control, "pause", lambda job_id, _body: gateway.memory.job(f"no-{job_id}"))
    refused = await apply({"note": "holidays"})
    assert gateway.jobs["a"].paused is not None, "with its definition"
    monkeypatch.setattr(gateway.control, "pause", real)
    repeated = await apply({"note": "holidays"})

    assert refused.code == 4
    assert "+ a  FAILED" in refused.out
    assert repeated.out.startswith("~ a\n    paused: ")
    assert gateway.jobs["a"].paused["note"] == "holidays"


@pytest.mark.parametrize(
    "paused", ["yes", 1, {"reason": "x"}, {"note": 5}, {"until": "tomorrow"}, {"until": "2027-01-02T09:00:00"}]
)
async def test_what_is_no_pause_is_exit_2(
    apply: Callable[..., Awaitable[Any]], gateway: FakeGateway, paused: Any
) -> None:
    said = await apply(paused)

    assert said.code == 2
    assert "a: paused" in said.err
    assert not gateway.calls


PRESENT = {"jobId": "a", "name": "a", "version": 2, "state": "paused", **EVERY}


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        (None, False, (CREATE, None)),
        (None, {"note": "x"}, (CREATE, {"note": "x"})),
        ({"paused": None}, False, (KEEP, None)),
        ({"paused": None}, None, (KEEP, None)),
        ({"paused": {"note": "", "until": None}}, {}, (KEEP, None)),
        ({"paused": {"note": "", "until": None}}, {"note": None}, (KEEP, None)),
        ({"paused": {"note": "x", "until": None}}, {"note": None}, (CHANGE, {"note": None})),
        ({"paused": {"note": "x"}}, False, (CHANGE, False)),
    ],
)
def test_the_plan_of_a_pause(present: Any, wanted: Any, expected: tuple[str, Any]) -> None:
    jobs = {} if present is None else {"a": PRESENT | present}
    (step,) = plan({"a": {**EVERY, "paused": wanted}}, jobs, [])

    assert (step.action, step.pause) == expected
    assert "paused" not in (step.definition or {})


def test_a_step_of_the_pause_state_alone_sends_no_definition() -> None:
    pause = Change("paused", before=False, after=True)

    assert not Step(CHANGE, "a", 1, EVERY, (pause,), {}).defines
    assert Step(CHANGE, "a", 1, EVERY, (pause, Change("lane", "low", "high")), {}).defines
    assert Step(CREATE, "a", 0, EVERY).defines
