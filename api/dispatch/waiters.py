"""Who waits for runs: the polls and workers of one queue, and how many of their slots are free.

Pure: no clock, no futures. A worker's free slots are what its asking polls want, minus the requests in flight
for it and the grants that lie ready for it: a slot with a request in flight is reserved. Requests belong
to the worker, not to one poll of it, so a worker that was answered and polls again gets what is still on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.core.commands import Grant


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

    __slots__ = ("answered_at_ms", "free", "grants", "in_flight", "polls", "worker_id")

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.polls: list[P] = []
        self.in_flight = 0
        self.grants: list[Grant] = []
        """Granted and not yet given to a poll."""
        self.free = 0
        self.answered_at_ms = float("-inf")
        """When its last poll was answered (monotonic): it is expected back at once."""

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
        self.free = 0
        self.polls = 0

    def __iter__(self) -> Iterator[Worker[P]]:
        return iter(list(self._workers.values()))

    def __bool__(self) -> bool:
        return bool(self._workers)

    def worker(self, worker_id: str) -> Worker[P]:
        """Give what is known of a worker; a new one is made and forgotten in the next `update` that finds it idle."""
        worker = self._workers.get(worker_id)
        if worker is None:
            worker = self._workers[worker_id] = Worker(worker_id)
        return worker

    def add(self, poll: P) -> Worker[P]:
        """Let a poll wait."""
        worker = self.worker(poll.worker_id)
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
            worker.in_flight += taken
            left -= taken
            del self._with_free[worker.worker_id]
            self.update(worker)
            allocated.append((worker, taken))
        return allocated

    def update(self, worker: Worker[P]) -> None:
        """Recompute after a change of the worker's polls, grants or requests."""
        asked = sum(poll.max_runs for poll in worker.polls if poll.asking)
        free = max(asked - worker.in_flight - len(worker.grants), 0)
        self.free += free - worker.free
        worker.free = free
        if free:
            self._with_free.setdefault(worker.worker_id, worker)
        else:
            self._with_free.pop(worker.worker_id, None)
            if worker.idle:
                self._workers.pop(worker.worker_id, None)
