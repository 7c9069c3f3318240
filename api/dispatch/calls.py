"""Commands whose callers wait: one future for each call, however many commands it has.

A command's answer is found by its request id, which is unique to this incarnation. What has no answer in time
becomes a `Failure`; nobody waits for ever.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from api.dispatch.alarms import Alarms
    from streams.core.commands import Reply

FailureCode = Literal["no_owner", "starting", "stopping", "overloaded", "outcome_unknown"]

RETRY_AFTER_S: Final = 1
"""A take-over after a crash takes some 7 s (facts A4), a hand-over well under one; a try each second hurts nobody."""

_DETAILS: Final[dict[FailureCode, str]] = {
    "no_owner": "No scheduler owns this job's partition now; nothing was written. Repeat the call in a second.",
    "starting": "This gateway does not know the schedulers yet; nothing was written. Repeat the call in a second.",
    "stopping": "This gateway is shutting down; nothing was written. Repeat the call, it will reach another one.",
    "overloaded": "Too many calls wait at this gateway; nothing was written. Repeat the call after a short wait.",
    "outcome_unknown": "It was written, and its answer did not come in time. Repeat the same call with the same key.",
}


class Failure(msgspec.Struct, frozen=True):
    """A command without an owner's answer. Only `outcome_unknown` may have had an effect."""

    code: FailureCode

    @property
    def detail(self) -> str:
        """A sentence for people."""
        return _DETAILS[self.code]


class DispatchError(Exception):
    """Raised where one answer was asked for and there is none."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class _Call:
    __slots__ = ("future", "missing", "results")

    def __init__(self, count: int, future: asyncio.Future[list[Reply | Failure]]) -> None:
        self.results: list[Reply | Failure | None] = [None] * count
        self.missing = count
        self.future = future

    def set(self, index: int, result: Reply | Failure) -> None:
        """Take one answer; the last one wakes the caller."""
        self.results[index] = result
        self.missing -= 1
        if self.missing == 0 and not self.future.done():
            self.future.set_result([result for result in self.results if result is not None])


class PendingCalls:
    """All calls that wait, by the request ids of their commands."""

    def __init__(self, alarms: Alarms, timeout_ms: int) -> None:
        self._alarms = alarms
        self._timeout_ms = timeout_ms
        self._waiting: dict[str, tuple[_Call, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, request_ids: list[str]) -> asyncio.Future[list[Reply | Failure]]:
        """Wait for one answer to each id, in that order; at least one id. The future never fails and always ends."""
        future: asyncio.Future[list[Reply | Failure]] = asyncio.get_running_loop().create_future()
        call = _Call(len(request_ids), future)
        for index, request_id in enumerate(request_ids):
            self._waiting[request_id] = (call, index)
        self._alarms.after(self._timeout_ms, partial(self._time_out, request_ids))
        return future

    def resolve(self, request_id: str, result: Reply | Failure) -> bool:
        """Hand an answer over. False: nobody waits under this id."""
        waiting = self._waiting.pop(request_id, None)
        if waiting is None:
            return False
        waiting[0].set(waiting[1], result)
        return True

    def fail(self, request_ids: Iterable[str], code: FailureCode) -> None:
        """End the wait for these ids, where there is one."""
        failure = Failure(code)
        for request_id in request_ids:
            self.resolve(request_id, failure)

    def fail_all(self, code: FailureCode) -> None:
        """End every wait."""
        self.fail(list(self._waiting), code)

    def _time_out(self, request_ids: list[str]) -> None:
        self.fail(request_ids, "outcome_unknown")
