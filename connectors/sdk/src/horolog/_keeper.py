"""Keeps leases: heartbeats in batches, and the watch that stops handlers in time.

Every live attempt is heartbeated soon after receipt (a run that ends within the linger needs none: its outcome
is heard from instead), then each `heartbeat_seconds` counted from when the last one was sent, and sooner after
an error. A heartbeat that hangs does not hold up the next. The watch stops a handler at `stop_at` (lease) and
`timeout_at` (the job's time-out), exactly: it wakes at the earliest of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from horolog._attempt import Attempt, Phase
from horolog._errors import LeaseLost, RunCancelled, RunStopped, RunTimedOut, UnreachableError
from horolog._outbox import REPEATABLE, matches
from horolog._retry import backoff_seconds
from horolog._wire import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from horolog._clock import Clock, Timer
    from horolog._events import Emit
    from horolog._transport import Requests

FIRST_LINGER_SECONDS = 0.01  # gathers a batch of leased runs, and lets runs of a few milliseconds skip it
TICK_SECONDS = 0.5  # how late a regular heartbeat may go out; far below heartbeat_seconds
ITEMS_MAX = 500
LOOP_BLOCKED_SECONDS = 2.0  # a tick this late means that a handler blocks the loop, heartbeats included
_BACKOFF_BASE_SECONDS = 0.1
_BACKOFF_MAX_SECONDS = 1.0  # a lease is short: after an outage the first heartbeats decide what survives


class LeaseKeeper:
    """The live attempts of a worker; used on its loop only."""

    def __init__(
        self,
        transport: Requests,
        *,
        clock: Clock,
        emit: Emit,
        stop: Callable[[Attempt, RunStopped], None],
        worker_id: str,
        visibility_seconds: float,
        heartbeat_seconds: float,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._emit = emit
        self._stop = stop
        self._envelope = f'"workerId":{to_json(worker_id)},"visibilitySeconds":{to_json(visibility_seconds)}'
        self._heartbeat_seconds = heartbeat_seconds
        self.live: dict[Attempt, None] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._wakes_at = 0.0
        self._failures = 0
        self._closed = False

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Take leased runs into care; the first heartbeat goes out after a short linger."""
        first_at = self._clock.monotonic() + FIRST_LINGER_SECONDS
        for attempt in attempts:
            attempt.beat = self.beat
            attempt.heartbeat_at = first_at
            self.live[attempt] = None
        self._wake_by(first_at)

    def remove(self, attempt: Attempt) -> None:
        """Forget an attempt whose outcome is settled."""
        self.live.pop(attempt, None)
        _release_waiters(attempt)

    def beat(self, attempt: Attempt) -> asyncio.Future[None]:
        """Heartbeat one attempt now; the future ends when it is confirmed, or the attempt is told to stop."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if attempt not in self.live or attempt.reason is not None:
            done.set_result(None)
            return done
        attempt.waiters.append(done)
        attempt.heartbeat_at = self._clock.monotonic()
        self._wake_by(attempt.heartbeat_at)
        return done

    async def close(self) -> None:
        """Stop all heartbeats and the watch."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for sending in list(self._sending):
            sending.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        for attempt in list(self.live):
            self.remove(attempt)

    # --- the watch ---

    def _wake_by(self, when: float) -> None:
        if self._closed or (self._timer is not None and self._wakes_at <= when):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = when
        self._timer = self._clock.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        if now - self._wakes_at >= LOOP_BLOCKED_SECONDS:
            self._emit("loop_blocked", seconds=round(now - self._wakes_at, 3))
        wake_at = now + TICK_SECONDS
        if self.live:  # armed before anything else: no defect below may end the heartbeats
            self._wake_by(wake_at)
        due: list[Attempt] = []
        for attempt in list(self.live):
            wake_at = min(wake_at, self._mind(attempt, now))
            if attempt.heartbeat_at <= now and not attempt.lease_is_lost and attempt.phase is not Phase.DONE:
                due.append(attempt)
        for start in range(0, len(due), ITEMS_MAX):
            self._send(due[start : start + ITEMS_MAX], now)
        if self.live:
            self._wake_by(wake_at)

    def _mind(self, attempt: Attempt, now: float) -> float:
        """Stop the attempt if it is time; return when to look again."""
        if attempt.phase is not Phase.RUNNING:
            return attempt.heartbeat_at if attempt.heartbeat_at > now else now + TICK_SECONDS
        if attempt.lease_is_lost:
            if not attempt.outlived and now >= attempt.lease_ends_at:
                attempt.outlived = True
                self._emit(
                    "handler_outlived_lease",
                    run_id=attempt.run_id,
                    lease_token=attempt.token,
                    in_thread=not attempt.is_async,
                )
            return now + TICK_SECONDS if attempt.outlived else attempt.lease_ends_at
        if now >= attempt.stop_at:
            self._lose(attempt, "no heartbeat was confirmed in time")
            return now + TICK_SECONDS
        wake_at = attempt.stop_at
        if attempt.reason is None and attempt.timeout_at is not None:
            if now >= attempt.timeout_at:
                seconds = attempt.wire.get("timeoutSeconds")
                self._stop(attempt, RunTimedOut(f"the attempt ran longer than timeoutSeconds={seconds}"))
                _release_waiters(attempt)
            else:
                wake_at = min(wake_at, attempt.timeout_at)
        return min(wake_at, attempt.heartbeat_at) if attempt.heartbeat_at > now else wake_at

    def _lose(self, attempt: Attempt, why: str, **more: Any) -> None:
        self._emit("lease_lost", run_id=attempt.run_id, lease_token=attempt.token, during="run", detail=why, **more)
        self._stop(attempt, LeaseLost(why))
        _release_waiters(attempt)

    # --- heartbeats ---

    def _send(self, attempts: list[Attempt], now: float) -> None:
        for attempt in attempts:
            attempt.heartbeat_at = now + self._heartbeat_seconds
        sending = asyncio.get_running_loop().create_task(self._exchange(attempts, now))
        self._sending.add(sending)
        sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.result()

    async def _exchange(self, attempts: list[Attempt], sent_at: float) -> None:
        progress: dict[Attempt, str] = {}
        parts = []
        for attempt in attempts:
            part = f'{{"runId":{to_json(attempt.run_id)},"leaseToken":{attempt.token}'
            text = attempt.take_progress()
            if text is not None:
                progress[attempt] = text
                part += f',"progress":{text}'
            parts.append(part + "}")
        body = f'{{{self._envelope},"runs":[{",".join(parts)}]}}'
        try:
            answer = await self._transport.request(
                "POST", "/v1/runs:heartbeat", body, timeout_seconds=self._heartbeat_seconds
            )
        except UnreachableError as error:
            self._failed(attempts, progress, str(error))
            return
        results = answer.body.get("runs") if answer.status == 200 else None
        if not matches(results, len(attempts)):
            self._failed(attempts, progress, f"HTTP {answer.status} {answer.body.get('code', '')}".strip())
            return
        again = [
            attempt
            for attempt, result in zip(attempts, results)  # noqa: B905 - equal lengths checked above
            if not self._take(attempt, result, sent_at)
        ]
        if again:
            self._failed(again, progress, "some partitions did not answer")
        else:
            self._failures = 0

    def _take(self, attempt: Attempt, result: Mapping[str, Any], sent_at: float) -> bool:
        """Apply one result; False if the heartbeat is to be repeated soon."""
        if result.get("ok"):
            attempt.renew(
                sent_at=sent_at,
                remaining_ms=result["leaseRemainingMs"],
                expires_text=result.get("leaseExpiresAt"),
            )
            if result.get("cancel") and attempt.reason is None:
                self._cancel(attempt, result.get("cancelReason"))
            _release_waiters(attempt)
            return True
        if result.get("status") in REPEATABLE:
            return False
        # Late news about a run whose outcome is on its way is quiet: the outcome's own answer decides.
        if attempt.phase is Phase.RUNNING and not attempt.lease_is_lost:
            why = str(result.get("detail") or result.get("code"))
            self._lose(attempt, why, code=result.get("code"))
        return True

    def _cancel(self, attempt: Attempt, why: str | None) -> None:
        if why == "timeout":
            self._stop(attempt, RunTimedOut("the attempt ran longer than timeoutSeconds"))
        else:
            self._stop(attempt, RunCancelled(f"the run was cancelled: {why or 'user'}"))

    def _failed(self, attempts: list[Attempt], progress: Mapping[Attempt, str], why: str) -> None:
        self._failures += 1
        wait = min(
            backoff_seconds(self._failures, base=_BACKOFF_BASE_SECONDS, limit=_BACKOFF_MAX_SECONDS),
            self._heartbeat_seconds,
        )
        self._emit("heartbeat_failed", runs=len(attempts), detail=why, repeat_after_seconds=wait)
        again_at = self._clock.monotonic() + wait
        for attempt in attempts:
            attempt.return_progress(progress.get(attempt))
            attempt.heartbeat_at = min(attempt.heartbeat_at, again_at)
        if self.live:
            self._wake_by(again_at)


def _release_waiters(attempt: Attempt) -> None:
    waiters, attempt.waiters = attempt.waiters, []
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
