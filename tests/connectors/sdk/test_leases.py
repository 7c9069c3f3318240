"""Lease arithmetic (DESIGN section 10), on a manual clock: no real waiting."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import horolog
from horolog._attempt import STOP_MARGIN_SECONDS, Attempt, Phase
from horolog._calls import Answer
from horolog._keeper import LeaseKeeper
from horolog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping


def wire(number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "runId": f"run_job-{number}_20261201T090000000Z",
        "jobId": f"job-{number}",
        "queue": "q",
        "task": "t",
        "attempt": 1,
        "leaseToken": 1,
        "leaseRemainingMs": 30_000,
        "leaseExpiresAt": "2026-12-01T09:00:30.000Z",
        "scheduledFor": "2026-12-01T09:00:00.000Z",
        **more,
    }


class Line:
    """A transport whose answers the test decides; `asked` holds the batches."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self.item: dict[str, Any] = {"ok": True, "cancel": False, "leaseRemainingMs": 30_000}
        self.down = False
        self.hold: asyncio.Event | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float,
    ) -> Answer:
        assert (method, path, headers) == ("POST", "/v1/runs:heartbeat", None)
        assert timeout_seconds > 0
        runs = json.loads(body or "")["runs"]
        self.asked.append(runs)
        if self.hold is not None:
            await self.hold.wait()
        if self.down:
            raise horolog.UnreachableError("down")
        return Answer(200, {}, {"runs": [{"runId": run["runId"], **self.item} for run in runs]})


class Watch:
    """A keeper, its clock, and whom it told to stop."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.line = Line()
        self.events: list[str] = []
        self.stopped: list[tuple[float, horolog.RunStopped]] = []
        self.keeper = LeaseKeeper(
            self.line,
            clock=self.clock,
            emit=lambda event, /, **_: self.events.append(event),
            stop=self._stop,
            worker_id="w",
            visibility_seconds=30,
            heartbeat_seconds=10,
        )
        self.begin = self.clock.monotonic()

    def _stop(self, attempt: Attempt, reason: horolog.RunStopped) -> None:
        if attempt.stop(reason):
            self.stopped.append((self.clock.monotonic() - self.begin, reason))

    def lease(self, number: int = 1, *, sent_before: float = 0.0, **more: Any) -> Attempt:
        now = self.clock.monotonic()
        attempt = Attempt(wire(number, **more), sent_at=now - sent_before, now=now)
        self.keeper.add([attempt])
        return attempt


@pytest.fixture
async def watch() -> Any:
    it = Watch()
    yield it
    await it.keeper.close()


@given(
    sent=st.lists(st.floats(0, 1000), min_size=1, max_size=8),
    delays=st.lists(st.floats(0, 60), min_size=8, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_a_lease_is_never_trusted_beyond_the_last_confirmed_sending_whatever_order_answers_come_in(
    sent: list[float], delays: list[float], order: Any
) -> None:
    attempt = Attempt(wire(), sent_at=0.0, now=0.0)
    answers = [(at, max(0.0, 30.0 - delay)) for at, delay in zip(sent, delays, strict=False)]
    order.shuffle(answers)
    for sent_at, left in answers:
        attempt.renew(sent_at=sent_at, remaining_ms=left * 1000, expires_text=None)
    latest = max([0.0, *[at for at, _ in answers]])
    assert attempt.lease_ends_at <= latest + 30.0
    assert attempt.lease_ends_at >= 30.0
    assert attempt.stop_at == attempt.lease_ends_at - STOP_MARGIN_SECONDS


async def test_the_first_heartbeat_goes_out_on_receipt_and_the_next_every_ten_seconds(watch: Watch) -> None:
    watch.lease()
    await watch.clock.advance(0.02)
    assert len(watch.line.asked) == 1
    await watch.clock.advance(9.9)
    assert len(watch.line.asked) == 1
    await watch.clock.advance(0.7)
    assert len(watch.line.asked) == 2
    await watch.clock.advance(40)
    assert len(watch.line.asked) == 6
    assert watch.stopped == []


async def test_heartbeats_are_batched_over_runs_and_carry_the_token(watch: Watch) -> None:
    for number in range(7):
        watch.lease(number, leaseToken=40 + number)
    await watch.clock.advance(0.02)
    assert [[item["leaseToken"] for item in batch] for batch in watch.line.asked] == [[40, 41, 42, 43, 44, 45, 46]]


async def test_more_runs_than_a_batch_may_hold_are_split(watch: Watch) -> None:
    for number in range(501):
        watch.lease(number)
    await watch.clock.advance(0.02)
    assert sorted(len(batch) for batch in watch.line.asked) == [1, 500]


async def test_without_a_confirmed_heartbeat_the_handler_stops_25_s_after_the_lease_request_was_sent(
    watch: Watch,
) -> None:
    watch.line.down = True
    watch.lease(sent_before=3.0)
    await watch.clock.advance(21.9)
    assert watch.stopped == []
    await watch.clock.advance(0.2)
    (at, reason), *more = watch.stopped
    assert at == pytest.approx(22.0)
    assert isinstance(reason, horolog.LeaseLost)
    assert more == []


async def test_a_confirmed_heartbeat_counts_from_its_sending_not_from_its_answer(watch: Watch) -> None:
    watch.line.hold = asyncio.Event()
    watch.lease()
    await watch.clock.advance(0.02)
    await watch.clock.advance(8)
    watch.line.hold.set()
    await watch.clock.advance(0.1)
    watch.line.hold, watch.line.down = None, True
    await watch.clock.advance(30)
    (at, _), *_ = watch.stopped
    assert at == pytest.approx(25.01, abs=0.001)


async def test_a_heartbeat_that_hangs_does_not_hold_up_the_next(watch: Watch) -> None:
    watch.line.hold = asyncio.Event()
    watch.lease()
    await watch.clock.advance(0.02)
    assert len(watch.line.asked) == 1
    await watch.clock.advance(11)
    assert len(watch.line.asked) == 2


async def test_after_an_error_the_heartbeat_is_repeated_within_about_a_second(watch: Watch) -> None:
    watch.line.down = True
    watch.lease()
    await watch.clock.advance(0.02)
    await watch.clock.advance(5)
    assert len(watch.line.asked) >= 5
    watch.line.down = False
    await watch.clock.advance(1.6)
    confirmed = len(watch.line.asked)
    await watch.clock.advance(8)
    assert len(watch.line.asked) == confirmed
    assert watch.stopped == []


async def test_a_lost_lease_in_an_answer_stops_the_handler_at_once(watch: Watch) -> None:
    watch.line.item = {"ok": False, "status": 409, "code": "lease_lost", "detail": "attempt 2 holds it"}
    watch.lease()
    await watch.clock.advance(0.02)
    assert [type(reason) for _, reason in watch.stopped] == [horolog.LeaseLost]
    assert "lease_lost" in watch.events
    asked = len(watch.line.asked)
    await watch.clock.advance(60)
    assert len(watch.line.asked) == asked


async def test_late_news_about_a_run_that_has_ended_is_quiet(watch: Watch) -> None:
    watch.line.hold = asyncio.Event()
    watch.line.item = {"ok": False, "status": 409, "code": "lease_lost", "outcome": "ran"}
    attempt = watch.lease()
    await watch.clock.advance(0.02)
    attempt.phase = Phase.DELIVERING
    watch.line.hold.set()
    await watch.clock.advance(1)
    assert watch.stopped == []
    assert watch.events == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("user", horolog.RunCancelled), ("replaced", horolog.RunCancelled), ("timeout", horolog.RunTimedOut)],
)
async def test_cancel_in_an_answer_reaches_the_handler_and_the_lease_is_still_kept(
    watch: Watch, reason: str, expected: type[horolog.RunStopped]
) -> None:
    watch.line.item |= {"cancel": True, "cancelReason": reason}
    watch.lease()
    await watch.clock.advance(0.02)
    assert [type(stopped) for _, stopped in watch.stopped] == [expected]
    await watch.clock.advance(10.6)
    assert len(watch.line.asked) == 2


async def test_the_attempt_time_out_fires_exactly_however_faithfully_it_heartbeats(watch: Watch) -> None:
    watch.lease(timeoutSeconds=61.25)
    await watch.clock.advance(61.2)
    assert watch.stopped == []
    await watch.clock.advance(0.1)
    (at, reason), *_ = watch.stopped
    assert at == pytest.approx(61.25)
    assert isinstance(reason, horolog.RunTimedOut)


async def test_a_handler_that_outlives_its_lease_is_reported_once(watch: Watch) -> None:
    watch.line.down = True
    watch.lease()
    await watch.clock.advance(29.9)
    assert "handler_outlived_lease" not in watch.events
    await watch.clock.advance(20)
    assert watch.events.count("handler_outlived_lease") == 1


async def test_a_run_that_ended_within_the_linger_needs_no_heartbeat(watch: Watch) -> None:
    attempt = watch.lease()
    attempt.phase = Phase.DONE
    watch.keeper.remove(attempt)
    await watch.clock.advance(30)
    assert watch.line.asked == []


async def test_progress_is_sent_with_the_next_heartbeat_and_again_only_if_that_failed(watch: Watch) -> None:
    attempt = watch.lease()
    await watch.clock.advance(0.02)
    run = horolog.Run(attempt)
    run.progress({"done": 1})
    run.progress({"done": 2})
    watch.line.down = True
    await watch.clock.advance(10.1)
    watch.line.down = False
    await watch.clock.advance(1)
    await watch.clock.advance(10)
    sent = [batch[0].get("progress") for batch in watch.line.asked]
    assert sent[0] is None
    assert sent[1] == {"done": 2}
    assert sent[-2] == {"done": 2}
    assert sent[-1] is None


async def test_a_blocked_loop_is_reported(watch: Watch) -> None:
    watch.lease()
    await watch.clock.advance(0.02)
    watch.clock._now += 4.0  # time passes while no timer fires, as when a handler blocks the loop
    await watch.clock.advance(0.1)
    assert "loop_blocked" in watch.events


@pytest.mark.parametrize("first", [horolog.RunCancelled("c"), horolog.RunTimedOut("t"), horolog.WorkerStopping("w")])
def test_a_lost_lease_overrides_every_other_reason_and_nothing_overrides_it(first: horolog.RunStopped) -> None:
    attempt = Attempt(wire(), sent_at=0, now=0)
    lost = horolog.LeaseLost("gone")
    assert attempt.stop(first)
    assert not attempt.stop(horolog.RunCancelled("again"))
    assert attempt.reason is first
    assert attempt.stop(lost)
    assert not attempt.stop(horolog.LeaseLost("again"))
    assert attempt.reason is lost


def test_the_cancelled_event_is_set_whenever_it_is_first_looked_at() -> None:
    early, late = Attempt(wire(), sent_at=0, now=0), Attempt(wire(), sent_at=0, now=0)
    event = horolog.Run(early).cancelled
    assert not event.is_set()
    for attempt in (early, late):
        attempt.stop(horolog.RunCancelled("c"))
    assert event.is_set()
    assert horolog.Run(late).cancelled.is_set()
    with pytest.raises(horolog.RunCancelled):
        horolog.Run(late).raise_if_cancelled()
