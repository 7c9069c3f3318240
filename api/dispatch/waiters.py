"""Who waits for runs: the polls and workers of one queue, and how many of their slots are free.

Pure: time comes in as monotonic milliseconds. A worker's free slots are what its asking polls want, minus the requests
in flight for it and the grants that lie ready for it: a slot with a request in flight is reserved. Requests belong to
the worker, not to one poll of it, so a worker that was answered and polls again gets what is still on its way.

A worker is *prompt* if it polled again soon after an answer that left it slots. Only for prompt workers are runs asked
for that fall due at different times ahead: another one gets its first run, works on it, and could not take the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.core.commands import Grant

PROMPT_MS: Final = 100
"""A worker that polls from a loop of its own is back within milliseconds; one that works first is not."""

PATIENCE_MS: Final = 1_000
"""While no other worker has a free slot, a late grant waits this long for its own: to release it would gain nothing."""

HABITS_MAX: Final = 10_000
"""Workers of one queue whose habit is remembered."""


class Poll:
    """One lease call that waits. The lease desk extends it with what it needs to answer."""

    __slots__ = ("asking", "max_runs", "visibility_ms", "worker_id")

    def __init__(self, worker_id: str, max_runs: int, visibility_ms: int) -> None:
        self.worker_id = worker_id
        self.max_runs = max_runs
        self.visibility_ms = visibility_ms
        self.asking = True
        """False: takes what comes, asks for nothing new (about to end, or its connection is gone)."""


P = TypeVar("P", bound=Poll)


class Worker(Generic[P]):
    """One worker id in one queue."""

    __slots__ = ("free", "grants", "horizon_ms", "in_flight", "linger_until_ms", "polls", "prompt", "worker_id")

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.polls: list[P] = []
        self.in_flight = 0
        self.grants: list[Grant] = []
        """Granted and not yet given to a poll."""
        self.free = 0
        self.prompt = False
        self.horizon_ms: int | None = None
        """Of a worker that is not prompt: no run that falls due after this (broker time) is asked for."""
        self.linger_until_ms: float | None = None
        """While grants lie ready and more are on their way, the answer waits until then (monotonic)."""

    @property
    def idle(self) -> bool:
        """Whether nothing is known of it any more."""
        return not self.polls and not self.grants and self.in_flight == 0


class QueueWaiters(Generic[P]):
    """The workers of one (tenant, queue)."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker[P]] = {}
        self._with_free: dict[str, Worker[P]] = {}
        """In the order in which they are served next."""
        self._partly_answered: OrderedDict[str, float] = OrderedDict()
        """When a worker was last given some runs, but fewer than it asked for: tells its habit."""
        self._answered: OrderedDict[str, float] = OrderedDict()
        """When a worker was last given fewer runs than it asked for, or none: it may be back at once."""
        self._prompt: OrderedDict[str, None] = OrderedDict()
        self.free = 0
        self.polls = 0

    def __iter__(self) -> Iterator[Worker[P]]:
        return iter(list(self._workers.values()))

    def __bool__(self) -> bool:
        return bool(self._workers)

    def worker(self, worker_id: str) -> Worker[P]:
        """Give what is known of a worker; a new one is forgotten in the next `update` that finds it idle."""
        worker = self._workers.get(worker_id)
        if worker is None:
            worker = self._workers[worker_id] = Worker(worker_id)
            worker.prompt = worker_id in self._prompt
        return worker

    def add(self, poll: P, now_ms: float) -> Worker[P]:
        """Let a poll wait."""
        worker = self.worker(poll.worker_id)
        answered_at_ms = self._partly_answered.pop(poll.worker_id, None)
        if answered_at_ms is not None:
            worker.prompt = now_ms - answered_at_ms <= PROMPT_MS
            if worker.prompt:
                self._prompt[poll.worker_id] = None
                if len(self._prompt) > HABITS_MAX:
                    self._prompt.popitem(last=False)
            else:
                self._prompt.pop(poll.worker_id, None)
        worker.polls.append(poll)
        self.polls += 1
        self.update(worker)
        return worker

    def remove(self, poll: P) -> Worker[P]:
        """End a poll's wait. The caller updates the worker once it is done with it."""
        worker = self._workers[poll.worker_id]
        worker.polls.remove(poll)
        self.polls -= 1
        return worker

    def answered(self, poll: P, runs: int, now_ms: float) -> None:
        """Note an answer, to learn from when the worker is back."""
        if runs < poll.max_runs:
            _note(self._answered, poll.worker_id, now_ms)
            if runs:
                _note(self._partly_answered, poll.worker_id, now_ms)

    def is_expected(self, worker: Worker[P], now_ms: float) -> bool:
        """Tell whether to wait for a worker without a poll: answered just now, or nobody else could take a run."""
        answered_at_ms = self._answered.get(worker.worker_id)
        patience_ms = PROMPT_MS if self.free else PATIENCE_MS
        return answered_at_ms is not None and now_ms - answered_at_ms < patience_ms

    def with_free(self) -> list[Worker[P]]:
        """Give the workers with free slots, the one to be served next first."""
        return list(self._with_free.values())

    def reserve(self, worker: Worker[P], count: int) -> None:
        """Reserve free slots of a worker; it goes to the end of the turn."""
        worker.in_flight += count
        self._with_free.pop(worker.worker_id, None)
        self.update(worker)

    def allocate(self, count: int) -> list[tuple[Worker[P], int]]:
        """Reserve up to `count` free slots, spread over workers in turn: (worker, slots) in serving order."""
        waiting = len(self._with_free)
        if waiting == 0 or count <= 0:
            return []
        share = -(-min(count, self.free) // waiting)
        allocated: list[tuple[Worker[P], int]] = []
        left = count
        while left > 0 and self._with_free:
            worker = next(iter(self._with_free.values()))
            taken = min(share, worker.free, left)
            left -= taken
            self.reserve(worker, taken)
            allocated.append((worker, taken))
        return allocated

    def update(self, worker: Worker[P]) -> None:
        """Recompute after a change of the worker's polls, grants or requests. A forgotten worker is left alone."""
        if self._workers.get(worker.worker_id) is not worker:
            return
        asked = sum(poll.max_runs for poll in worker.polls if poll.asking)
        free = max(asked - worker.in_flight - len(worker.grants), 0)
        if worker.linger_until_ms is not None:
            free = 0
        self.free += free - worker.free
        worker.free = free
        if worker.in_flight == 0 and not worker.grants:
            worker.horizon_ms = None
        if free:
            self._with_free.setdefault(worker.worker_id, worker)
        else:
            self._with_free.pop(worker.worker_id, None)
            if worker.idle:
                self._workers.pop(worker.worker_id, None)


def _note(times: OrderedDict[str, float], worker_id: str, now_ms: float) -> None:
    times[worker_id] = now_ms
    times.move_to_end(worker_id)
    if len(times) > HABITS_MAX:
        times.popitem(last=False)
