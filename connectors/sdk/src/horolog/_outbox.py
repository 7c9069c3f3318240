"""Sends outcomes in batches until each is confirmed or its lease could have ended.

Guarantees:
1. An outcome is repeated on every error that says nothing about it: no answer, 408, 429, 500, 503, 504, with backoff.
2. It is never repeated after an answer about it: 200 (also a replayed one), 409, 404, 413, 422.
3. Its lease goes on being renewed until then (the keeper sees the attempt until `done`).
4. It is given up, and reported, once its lease could have ended: the server would refuse it.

Completes, fails and releases travel apart, each in batches of at most `ITEMS_MAX` after a linger of
`LINGER_SECONDS`, a few in flight at a time. An attempt's outcome is one line of JSON from the start.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeGuard

from horolog._attempt import Attempt, Phase
from horolog._clock import Clock, sleep
from horolog._errors import UnreachableError, error_from_problem
from horolog._retry import backoff_seconds
from horolog._transport import Requests, retry_after
from horolog._wire import BATCH_BYTES_MAX, RESULT_BYTES_MAX, bounded, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from horolog._events import Emit

LINGER_SECONDS = 0.003  # one batch per few milliseconds: idle latency stays small, busy batches are full
ITEMS_MAX = 500  # half of the gateway's bound; larger batches gain nothing measurable
IN_FLIGHT_MAX = 4  # while one batch waits for its commit, the next are already on their way
_BACKOFF_BASE_SECONDS = 0.05
_BACKOFF_MAX_SECONDS = 2.0
REPEATABLE = frozenset({408, 429, 500, 503, 504})

_Item = tuple[Attempt, str]


class Outbox:
    """The outcomes on their way; used on the worker's loop only."""

    def __init__(
        self,
        transport: Requests,
        *,
        clock: Clock,
        emit: Emit,
        on_done: Callable[[Attempt], None],
        timeout_seconds: float,
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._on_done = on_done
        self.trace = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.waiting = 0
        self.undelivered = 0
        self._lanes = {kind: _Lane(kind, self, transport, timeout_seconds) for kind in ("complete", "fail", "release")}

    def complete(self, attempt: Attempt, result: Any) -> None:
        """Queue a completion. A result that is not JSON, or too large, becomes a failure that is not retried."""
        if result is None:
            self._add("complete", attempt, _item(attempt))
            return
        try:
            text = to_json(result)
            size = len(text) if text.isascii() else len(text.encode())
        except (TypeError, ValueError, RecursionError) as error:
            message = f"the handler's result is not JSON: {error}"
            self.fail(attempt, error=message, error_type="ResultNotJson", retryable=False)
            return
        if size > RESULT_BYTES_MAX:
            message = f"the handler's result has {size} bytes of JSON; the limit is {RESULT_BYTES_MAX}"
            self.fail(attempt, error=message, error_type="ResultTooLarge", retryable=False)
            return
        self._add("complete", attempt, f'{_item(attempt)[:-1]},"result":{text}}}')

    def fail(self, attempt: Attempt, *, error: str, error_type: str, retryable: bool) -> None:
        """Queue a failure."""
        # An error text may hold lone surrogates (undecodable file names); they cannot be sent as UTF-8.
        clean = bounded(error).encode("utf-8", "replace").decode()
        body = {
            "runId": attempt.run_id,
            "leaseToken": attempt.token,
            "error": clean,
            "errorType": bounded(error_type, 128),
            "retryable": retryable,
        }
        self._emit("run_failed", run_id=attempt.run_id, error_type=error_type, retryable=retryable, error=clean)
        self._add("fail", attempt, to_json(body))

    def release(self, attempt: Attempt, reason: str) -> None:
        """Queue the return of a run that was not started."""
        body = {"runId": attempt.run_id, "leaseToken": attempt.token, "reason": reason}
        self._add("release", attempt, to_json(body))

    def refuse(self, attempt: Attempt) -> None:
        """Report that a handler ended too late, and drop its outcome."""
        detail = str(attempt.reason) if attempt.reason else "the lease could have ended"
        self._emit("outcome_refused", run_id=attempt.run_id, lease_token=attempt.token, detail=detail)
        attempt.phase = Phase.DONE
        self._on_done(attempt)

    async def flush(self) -> None:
        """Wait until nothing is waiting or in flight."""
        await self._idle.wait()

    async def close(self) -> None:
        """Stop sending; what is left is given up and reported."""
        for lane in self._lanes.values():
            await lane.close()

    def _add(self, kind: str, attempt: Attempt, text: str) -> None:
        attempt.phase = Phase.DELIVERING
        self.waiting += 1
        self._idle.clear()
        self._lanes[kind].add((attempt, text))

    def confirmed(self, kind: str, attempt: Attempt) -> None:
        """Take note of an outcome that the gateway has committed."""
        if self.trace:
            self._emit(
                "run_finished",
                run_id=attempt.run_id,
                task=attempt.wire["task"],
                attempt=attempt.wire["attempt"],
                outcome=kind,
            )
        self._settle(attempt)

    def rejected(self, kind: str, attempt: Attempt, answer: Mapping[str, Any]) -> None:
        """Take note of an outcome that the gateway will never accept."""
        stale = answer.get("status") in {404, 409}
        event = "lease_lost" if stale else "outcome_rejected"
        self._emit(
            event,
            run_id=attempt.run_id,
            lease_token=attempt.token,
            during=kind,
            code=answer.get("code"),
            detail=answer.get("detail"),
        )
        self._settle(attempt)

    def given_up(self, kind: str, attempt: Attempt, why: str) -> None:
        """Take note of an outcome that could not be sent in time."""
        self.undelivered += 1
        self._emit("outcome_undelivered", run_id=attempt.run_id, lease_token=attempt.token, during=kind, detail=why)
        self._settle(attempt)

    def delivery_failed(self, kind: str, items: int, error: str, wait_seconds: float) -> None:
        """Take note of a batch that will be repeated."""
        self._emit("delivery_failed", during=kind, items=items, detail=error, repeat_after_seconds=wait_seconds)

    @property
    def clock(self) -> Clock:
        """The worker's clock."""
        return self._clock

    def _settle(self, attempt: Attempt) -> None:
        attempt.phase = Phase.DONE
        self._on_done(attempt)
        self.waiting -= 1
        if self.waiting == 0:
            self._idle.set()


def _item(attempt: Attempt) -> str:
    return f'{{"runId":{to_json(attempt.run_id)},"leaseToken":{attempt.token}}}'


def matches(results: Any, count: int) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a batch form's answer has the promised shape: one object per item."""
    return isinstance(results, list) and len(results) == count and all(isinstance(it, dict) for it in results)


class _Lane:
    """One kind of outcome: its queue and its batches in flight."""

    def __init__(self, kind: str, outbox: Outbox, transport: Requests, timeout_seconds: float) -> None:
        self._kind = kind
        self._path = f"/v1/runs:{kind}"
        self._outbox = outbox
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._queue: deque[_Item] = deque()
        self._sending: set[asyncio.Task[None]] = set()
        self._armed = False
        self._delayed: set[_Item] = set()
        self._failures = 0
        self._partial_failures = 0
        self._closed = False

    def add(self, item: _Item) -> None:
        self._queue.append(item)
        if not self._armed:
            self._armed = True
            clock = self._outbox.clock
            clock.call_at(clock.monotonic() + LINGER_SECONDS, self._linger_over)

    def _linger_over(self) -> None:
        self._armed = False
        self._pump()

    def _pump(self) -> None:
        limit = IN_FLIGHT_MAX if self._failures == 0 else 1
        while self._queue and len(self._sending) < limit and not self._closed:
            batch = self._take()
            if not batch:
                continue
            sending = asyncio.get_running_loop().create_task(self._send(batch))
            self._sending.add(sending)
            sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.result()
        self._pump()

    def _take(self) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        now = self._outbox.clock.monotonic()
        while self._queue and len(batch) < ITEMS_MAX:
            attempt, text = self._queue[0]
            if now >= attempt.lease_ends_at:
                self._queue.popleft()
                self._outbox.given_up(self._kind, attempt, "the lease could have ended")
                continue
            size += len(text) * (1 if text.isascii() else 4)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _send(self, batch: list[_Item]) -> None:
        body = '{"runs":[' + ",".join([text for _, text in batch]) + "]}"
        try:
            answer = await self._transport.request("POST", self._path, body, timeout_seconds=self._timeout_seconds)
        except UnreachableError as error:
            await self._back_off(batch, str(error), 0.0)
            return
        except asyncio.CancelledError:
            self._queue.extendleft(reversed(batch))
            raise
        if answer.status == 200:
            self._failures = 0
            self._settle(batch, answer.body.get("runs"))
        elif answer.status in REPEATABLE or answer.status in {401, 403}:
            # A token may be rotated within the lease; an outcome is worth trying until then.
            why = str(error_from_problem(answer.status, answer.body))
            await self._back_off(batch, why, retry_after(answer.headers) or 0.0)
        else:
            for attempt, _ in batch:
                self._outbox.rejected(self._kind, attempt, {"status": answer.status, **answer.body})

    async def _back_off(self, batch: list[_Item], why: str, floor: float) -> None:
        """Put a whole batch back and hold the lane: nothing else would get through either."""
        self._failures += 1
        wait = backoff_seconds(self._failures, base=_BACKOFF_BASE_SECONDS, limit=_BACKOFF_MAX_SECONDS, floor=floor)
        self._queue.extendleft(reversed(batch))
        self._outbox.delivery_failed(self._kind, len(batch), why, wait)
        await sleep(self._outbox.clock, wait)

    def _settle(self, batch: list[_Item], results: Any) -> None:
        if not matches(results, len(batch)):
            self._later(batch, "the answer does not match the batch", 0.0)
            return
        again: list[_Item] = []
        why, floor = "", 0.0
        for item, result in zip(batch, results):  # noqa: B905 - equal lengths checked above; strict= costs per item
            if result.get("ok"):
                self._outbox.confirmed(self._kind, item[0])
            elif result.get("status") in REPEATABLE:
                again.append(item)
                why = f"{result.get('status')} {result.get('code')}"
                floor = max(floor, float(result.get("retryAfterSeconds") or 0))
            else:
                self._outbox.rejected(self._kind, item[0], result)
        if again:
            self._later(again, why, floor)
        else:
            self._partial_failures = 0

    def _later(self, items: list[_Item], why: str, floor: float) -> None:
        """Repeat some items later and let others pass: one partition without an owner holds up nobody else."""
        self._partial_failures += 1
        wait = backoff_seconds(
            self._partial_failures, base=_BACKOFF_BASE_SECONDS, limit=_BACKOFF_MAX_SECONDS, floor=floor
        )
        self._outbox.delivery_failed(self._kind, len(items), why, wait)
        self._delayed.update(items)
        clock = self._outbox.clock
        clock.call_at(clock.monotonic() + wait, lambda: self._return(items))

    def _return(self, items: list[_Item]) -> None:
        for item in items:
            if item in self._delayed:
                self._delayed.discard(item)
                self._queue.append(item)
        self._pump()

    async def close(self) -> None:
        self._closed = True
        for sending in list(self._sending):
            sending.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._queue.extend(self._delayed)
        self._delayed.clear()
        while self._queue:
            attempt, _ = self._queue.popleft()
            self._outbox.given_up(self._kind, attempt, "the worker stopped")
