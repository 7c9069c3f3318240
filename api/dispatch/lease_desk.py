"""Where offers meet waiting workers: demand out, lease requests out, grants in, runs to polls (docs/dispatch.md).

Runs in the event loop's thread; every public method takes whole batches, and `settle` hands out what they brought.
Time is injected. Rules that hold whatever comes: a grant is handed out at most once, and never before the run is due by
the broker's clock; a grant that nobody takes is released.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from api.dispatch.demand import DemandBook, QueueKey
from api.dispatch.kept_answers import AnswerKey, KeptAnswers
from api.dispatch.ready_lists import ReadyQueue
from api.dispatch.request_life import RequestLife
from api.dispatch.token_bucket import TokenBucket
from api.dispatch.waiters import PROMPT_MS, Poll, QueueWaiters, Worker
from streams.core.commands import AnyCommand, Grant, LeaseRun, Release, Reply
from streams.core.envelopes import Demand, Offer, QueueDemand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from api.dispatch.alarms import Alarms
    from api.dispatch.clock import BrokerClock, Clock
    from api.dispatch.request_ids import RequestIds
    from streams.core.envelopes import Offers

REQUEST_GRACE_MS: Final = 500
"""How much longer a slot stays reserved than `valid_until_ms`: an owner's last grant is still on its way."""

LEASE_AHEAD_MS: Final = 1_000
"""How early a run is asked for before it is due. Enough for a slow commit; more would hold slots from surprises."""

PATIENT_AHEAD_MS: Final = 250
"""A request so long before its run is due may wait to be packed with others; it is parked at the owner in time."""

KEEP_PLACE_MS: Final = 2_000
"""A poll whose connection closed keeps its place this long for a repeat with the same request id."""

SPREAD_MS: Final = 25
"""Runs that one answer of a worker that is not prompt may hold fall due within this: a commit or two of its owner."""

LINGER_MS: Final = 50
"""How long an answer to such a worker waits for grants on their way. Owners commit some 25 times a second."""

LAST_GRANTS_MS: Final = 500
"""A poll at its end waits this much longer if requests for its worker are in flight, so that they are not wasted."""

WAIT_MS_MIN: Final = 300
"""Even a poll that asks not to wait needs one turn of demand, offer, request and grant."""

SWEEP_MS: Final = 10_000
"""Queues and lists that nobody has used since the last sweep are forgotten."""

HANDED_MAX: Final = 20_000
"""Grants remembered as handed out, against a second delivery of the same record."""

NOBODY_WAITS: Final = "nobody_waits"


class LeasePoll(Poll):
    """A poll with its answer to come."""

    __slots__ = ("answered", "connected", "ends_at_ms", "future", "key", "place", "request_id")

    def __init__(self, key: QueueKey, worker_id: str, max_runs: int, visibility_ms: int, request_id: str) -> None:
        super().__init__(worker_id, max_runs, visibility_ms)
        self.key = key
        self.request_id = request_id
        self.future: asyncio.Future[list[Grant]] = asyncio.get_running_loop().create_future()
        self.answered: list[Grant] | None = None
        self.connected = True
        self.ends_at_ms = 0.0
        """When its wait is over; monotonic."""
        self.place = 0
        """Rises with each caller that takes this poll over; tells alarms of an earlier one to do nothing."""


class _Request(NamedTuple):
    key: QueueKey
    worker_id: str
    run_id: str
    partition: int
    command: LeaseRun
    since_ms: int
    """By the broker's clock: when it was sent, or its run is due if that is later. Answers are late from here."""


class LeaseDesk:
    """All queues of one gateway."""

    def __init__(
        self,
        *,
        gateway_id: str,
        incarnation: str,
        clock: Clock,
        broker: BrokerClock,
        alarms: Alarms,
        ids: RequestIds,
        send: Callable[[int, AnyCommand], None],
        send_patiently: Callable[[int, AnyCommand], None],
        partition_of: Callable[[str], int],
        publish_demand: Callable[[Demand], None],
    ) -> None:
        self._gateway_id, self._incarnation = gateway_id, incarnation
        self._clock, self._broker, self._alarms, self._ids = clock, broker, alarms, ids
        self._send, self._send_patiently = send, send_patiently
        self._partition_of, self._publish = partition_of, publish_demand
        self._waiters: dict[QueueKey, QueueWaiters[LeasePoll]] = {}
        self._ready: dict[QueueKey, ReadyQueue] = {}
        self._buckets: dict[QueueKey, TokenBucket] = {}
        """Of queues, and of whole tenants under (tenant, "")."""
        self._requests: dict[str, _Request] = {}
        self._requested_runs: set[str] = set()
        self._life = RequestLife()
        self._handed: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._calls: dict[AnswerKey, LeasePoll] = {}
        self._unread: dict[AnswerKey, LeasePoll] = {}
        """Calls whose caller went away and may come back."""
        self._kept = KeptAnswers()
        self._demand = DemandBook()
        self._demand_alarm_at_ms = float("inf")
        self._wake_at_ms: dict[QueueKey, int] = {}
        self._touched: dict[QueueKey, dict[str, Worker[LeasePoll]]] = {}
        self._unused: set[QueueKey] = set()
        """Queues without a worker at the last sweep; forgotten at the next, with their workers' habits."""
        self._stopped = False
        self.released_total = 0
        self.refused_total = 0
        self.offers_dropped_total = 0

    # Polls

    def poll(
        self,
        tenant: str,
        queue: str,
        worker_id: str,
        *,
        max_runs: int,
        visibility_ms: int,
        wait_ms: int,
        request_id: str = "",
    ) -> LeasePoll:
        """Let a worker wait. `poll.future` gives its grants, an empty list after `wait_ms`.

        `request_id` names a call that may be repeated: the same id gets the same answer, or takes over the wait.
        """
        key = (tenant, queue)
        call = (tenant, queue, request_id)
        if request_id and (repeat := self._repeat(call, worker_id, max_runs, visibility_ms)) is not None:
            if repeat.answered is None:
                self._wait(repeat, wait_ms)
            return repeat
        poll = LeasePoll(key, worker_id, max_runs, visibility_ms, request_id)
        if self._stopped:
            self._resolve(poll, [])
            return poll
        if request_id:
            self._calls[call] = poll
        waiters = self._waiters.get(key)
        if waiters is None:
            waiters = self._waiters[key] = QueueWaiters()
        worker = waiters.add(poll, self._clock.monotonic_ms())
        if worker.grants:
            self._touch(key, worker)
        self._wait(poll, wait_ms)
        self.settle()
        self._pump(key)
        return poll

    def _wait(self, poll: LeasePoll, wait_ms: int) -> None:
        wait_ms = max(wait_ms, WAIT_MS_MIN)
        poll.ends_at_ms = self._clock.monotonic_ms() + wait_ms
        self._alarms.after(wait_ms, partial(self._last_moment, poll, poll.place))

    def abandon(self, poll: LeasePoll) -> None:
        """The caller is gone: the place, or the answer that was not read, is kept for a repeat for `KEEP_PLACE_MS`."""
        poll.connected = poll.asking = False
        if poll.answered is None:
            self._update_poll(poll)
        if poll.request_id and not self._stopped:
            self._unread[(*poll.key, poll.request_id)] = poll
            self._alarms.after(KEEP_PLACE_MS, partial(self._forget, poll, poll.place))
        else:
            self._forget(poll, poll.place)

    def heard(self, run_ids: Iterable[str]) -> None:
        """Workers spoke of these runs: their lease answers arrived and need not be kept."""
        self._kept.heard(run_ids)

    def stop(self) -> None:
        """Answer every waiting poll with nothing and release what lies ready."""
        self._stopped = True
        for waiters in self._waiters.values():
            for worker in waiters:
                for poll in list(worker.polls):
                    self._answer(poll, [])
                self._release_all(worker)
        self._demand = DemandBook()
        self._publish_demand(())

    # What arrives

    def on_offers(self, batches: Sequence[Offers]) -> None:
        """Take hints. Those for others or for an earlier incarnation do nothing."""
        now_ms = self._broker.now_ms()
        keys = set()
        for batch in batches:
            if batch.gateway_id != self._gateway_id or batch.incarnation != self._incarnation:
                continue
            for offer in batch.offers:
                if offer.run_id in self._requested_runs:
                    continue
                key = (offer.tenant, offer.queue)
                ready = self._ready.get(key)
                if ready is None:
                    ready = self._ready[key] = ReadyQueue()
                if ready.add(offer, batch.partition, now_ms):
                    keys.add(key)
                else:
                    self.offers_dropped_total += 1
        for key in keys:
            self._pump(key)

    def on_answer(self, request_id: str, reply: Reply | Grant, log_append_ms: int) -> None:
        """Take one answer to a lease request; `settle` after the last one of a batch."""
        if (asked := self._requests.get(request_id)) is not None:
            self._life.heard(log_append_ms - asked.since_ms, self._broker.now_ms())
        if isinstance(reply, Grant):
            early_ms = reply.due_at_ms - log_append_ms
            if early_ms > 0:
                # Granted by an owner whose clock runs ahead: the slot stays reserved until the run is due.
                self._alarms.after(early_ms, partial(self._take_late, request_id, reply))
            else:
                self._take(request_id, reply)
            return
        if request_id in self._requests:
            self.refused_total += 1
            self._end_request(request_id)

    def on_new_owner(self, partition: int) -> None:
        """Repeat what is in flight to a partition: requests that its former owner had parked are forgotten with it.

        The same request id gets the same lease, so a repeat of one that was granted after all changes nothing.
        """
        now_ms = self._broker.now_ms()
        for request in [*self._requests.values()]:
            if request.partition == partition and request.command.valid_until_ms > now_ms:
                self._send(partition, request.command)

    def _unanswered(self, request_ids: Sequence[str]) -> None:
        """Give up on those that are left of some requests: their owner is gone, or slower than they were to live."""
        now_ms = self._broker.now_ms()
        for request_id in request_ids:
            if (asked := self._requests.get(request_id)) is not None:
                self._life.heard(now_ms - asked.since_ms, now_ms)
        self.on_not_sent(request_ids)

    def on_not_sent(self, request_ids: Iterable[str]) -> None:
        """Lease requests that never reached the log: their slots are free again."""
        for request_id in request_ids:
            self._end_request(request_id)
        self.settle()

    def settle(self) -> None:
        """Hand out what the last batch brought, release what nobody takes, and ask for more where slots came free."""
        touched, self._touched = self._touched, {}
        for key, workers in touched.items():
            waiters = self._waiters.get(key)
            if waiters is None:
                continue
            for worker in workers.values():
                self._deliver(key, waiters, worker)
            self._pump(key)

    def start(self) -> None:
        """Begin to tell demand, and to forget queues that nobody uses."""
        self.refresh_demand()
        self._alarms.after(SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        now_ms = self._broker.now_ms()
        for key, waiters in list(self._waiters.items()):
            if waiters or key in self._touched:
                self._unused.discard(key)
            elif key in self._unused:
                self._unused.discard(key)
                del self._waiters[key]
            else:
                self._unused.add(key)
        for key, ready in list(self._ready.items()):
            if ready.next_due_ms(now_ms) is None:
                del self._ready[key]
        self._alarms.after(SWEEP_MS, self._sweep)

    def refresh_demand(self) -> None:
        """Publish if it is time, and come back when it is again."""
        now_ms = self._clock.monotonic_ms()
        self._demand_alarm_at_ms = float("inf")
        queues = self._demand.take(now_ms)
        if queues is not None:
            polls = {key: waiters.polls for key, waiters in self._waiters.items()}
            self._publish_demand(
                tuple(msgspec.structs.replace(one, calls=polls.get((one.tenant, one.queue), 0)) for one in queues)
            )
        self._arm_demand(now_ms)

    # What is known

    def set_lease_rate(self, tenant: str, rate_per_s: float | None, *, queue: str = "", share: float = 1.0) -> None:
        """Bound a tenant's leases a second, or those of one queue; None lifts the bound. `share` is this gateway's."""
        now_ms = self._clock.monotonic_ms()
        bucket = self._buckets.get((tenant, queue))
        if bucket is None:
            self._buckets[tenant, queue] = TokenBucket(rate_per_s, now_ms, share)
        else:
            bucket.configure(rate_per_s, share, now_ms)

    def polling(self) -> dict[QueueKey, tuple[int, int]]:
        """Give (waiting calls, free slots) of every queue where somebody waits."""
        return {key: (waiters.polls, waiters.free) for key, waiters in self._waiters.items() if waiters.polls}

    def ready_counts(self) -> dict[QueueKey, int]:
        """Give the number of offers at hand of every queue that has any."""
        return {key: len(ready) for key, ready in self._ready.items() if len(ready)}

    @property
    def requests_in_flight(self) -> int:
        """Lease requests without an answer."""
        return len(self._requests)

    # Inside

    def _repeat(self, call: AnswerKey, worker_id: str, max_runs: int, visibility_ms: int) -> LeasePoll | None:
        unread = self._unread.pop(call, None)
        if unread is not None:
            unread.connected = True
        waiting = self._calls.get(call)
        if waiting is not None:
            old, waiting.future = waiting.future, asyncio.get_running_loop().create_future()
            if not old.done():
                old.set_result([])
            waiting.place += 1
            waiting.connected = waiting.asking = True
            self._update_poll(waiting)
            self._pump(waiting.key)
            return waiting
        kept = self._kept.find(call, self._clock.monotonic_ms())
        if kept is None:
            return None
        poll = LeasePoll(call[:2], worker_id, max_runs, visibility_ms, call[2])
        self._resolve(poll, kept)
        return poll

    def _pump(self, key: QueueKey) -> None:
        """Turn free slots and ready runs of one queue into lease requests."""
        waiters = self._waiters.get(key)
        ready = self._ready.get(key)
        if waiters is not None and ready is not None and waiters.free > 0 and not self._stopped:
            now_ms = self._broker.now_ms()
            allowed, taken = self._allowance(key, waiters.free)
            used = self._request_due(key, waiters, ready, allowed, now_ms)
            used += self._request_ahead(key, waiters, ready, allowed - used, now_ms)
            for bucket, count in taken:
                bucket.give_back(count - used)
            self._wake_for(key, waiters, ready, now_ms)
        if waiters is not None:
            self._say_free(key, waiters)

    def _allowance(self, key: QueueKey, free: int) -> tuple[int, list[tuple[TokenBucket, int]]]:
        """Take from the buckets as many tokens as there are slots; give (how many, what each bucket gave)."""
        taken: list[tuple[TokenBucket, int]] = []
        for bucket in self._buckets_of(key):
            free = bucket.take(free, self._clock.monotonic_ms())
            taken.append((bucket, free))
        return free, taken

    def _request_due(
        self, key: QueueKey, waiters: QueueWaiters[LeasePoll], ready: ReadyQueue, allowed: int, now_ms: int
    ) -> int:
        picks = ready.pop_due(allowed, now_ms)
        remaining = iter(picks)
        for worker, count in waiters.allocate(len(picks)):
            self._send_requests(key, worker, [next(remaining) for _ in range(count)], now_ms)
        return len(picks)

    def _request_ahead(
        self, key: QueueKey, waiters: QueueWaiters[LeasePoll], ready: ReadyQueue, allowed: int, now_ms: int
    ) -> int:
        """Use spare slots for runs that are not due yet; give how many."""
        used = 0
        for worker in waiters.with_free():
            first_ms = ready.next_due_ms(now_ms)
            if used >= allowed or first_ms is None or first_ms > now_ms + LEASE_AHEAD_MS:
                break
            until_ms = now_ms + LEASE_AHEAD_MS
            if not worker.prompt:
                left_ms = max(poll.ends_at_ms for poll in worker.polls) - self._clock.monotonic_ms()
                until_ms = min(until_ms, worker.horizon_ms or first_ms + SPREAD_MS, now_ms + int(left_ms))
            if until_ms < first_ms:
                continue
            picks = ready.pop_ahead(min(worker.free, allowed - used), now_ms, until_ms - now_ms)
            if picks:
                worker.horizon_ms = until_ms
                waiters.reserve(worker, len(picks))
                self._send_requests(key, worker, picks, now_ms)
                used += len(picks)
        return used

    def _buckets_of(self, key: QueueKey) -> list[TokenBucket]:
        if not self._buckets:
            return []
        return [bucket for name in ((key[0], ""), key) if (bucket := self._buckets.get(name)) is not None]

    def _send_requests(
        self, key: QueueKey, worker: Worker[LeasePoll], picks: list[tuple[Offer, int]], now_ms: int
    ) -> None:
        """Ask for these runs on behalf of a worker whose slots are reserved."""
        request_ids = []
        last_valid_ms = now_ms
        visibility_ms = next(poll.visibility_ms for poll in worker.polls if poll.asking)
        life_ms = self._life.ms(now_ms)
        for offer, partition in picks:
            request_id = self._ids.next()
            request_ids.append(request_id)
            self._requested_runs.add(offer.run_id)
            since_ms = max(now_ms, offer.due_at_ms)
            valid_until_ms = since_ms + life_ms
            last_valid_ms = max(last_valid_ms, valid_until_ms)
            command = LeaseRun(
                job_id=offer.job_id,
                request_id=request_id,
                run_id=offer.run_id,
                worker_id=worker.worker_id,
                gateway_id=self._gateway_id,
                job_version=offer.job_version,
                visibility_ms=visibility_ms,
                valid_until_ms=valid_until_ms,
            )
            self._requests[request_id] = _Request(key, worker.worker_id, offer.run_id, partition, command, since_ms)
            send = self._send_patiently if offer.due_at_ms - now_ms >= PATIENT_AHEAD_MS else self._send
            send(partition, command)
        self._alarms.after(last_valid_ms - now_ms + REQUEST_GRACE_MS, partial(self._unanswered, request_ids))

    def _wake_for(self, key: QueueKey, waiters: QueueWaiters[LeasePoll], ready: ReadyQueue, now_ms: int) -> None:
        """Come back when the next run may be asked for, or the tenant's next token is there."""
        due_ms = ready.next_due_ms(now_ms) if waiters.free else None
        if due_ms is None:
            return
        token_ms = max((bucket.wait_ms() for bucket in self._buckets_of(key)), default=0.0)
        if token_ms == float("inf"):
            return
        # What is near and was not asked for yet is beyond its workers' horizon: it is asked for when it is due.
        near_ms = due_ms if due_ms - LEASE_AHEAD_MS <= now_ms else due_ms - LEASE_AHEAD_MS
        wake_ms = max(near_ms, now_ms + int(token_ms) + 1)
        if self._wake_at_ms.get(key, wake_ms + 1) > wake_ms:
            self._wake_at_ms[key] = wake_ms
            self._alarms.after(wake_ms - now_ms, partial(self._wake, key, wake_ms))

    def _wake(self, key: QueueKey, wake_ms: int) -> None:
        if self._wake_at_ms.get(key) == wake_ms:
            del self._wake_at_ms[key]
            self._pump(key)

    def _take_late(self, request_id: str, grant: Grant) -> None:
        self._take(request_id, grant)
        self.settle()

    def _take(self, request_id: str, grant: Grant) -> None:
        """Lay a grant ready for its worker."""
        mark = (grant.run_id, grant.lease_token)
        if mark in self._handed:
            return
        self._handed[mark] = None
        if len(self._handed) > HANDED_MAX:
            self._handed.popitem(last=False)
        key = (grant.tenant, grant.queue)
        request = self._requests.get(request_id)
        if request is not None:
            # The request's queue and worker are what was reserved, whatever the grant says.
            key = request.key
        waiters = self._waiters.get(key)
        if waiters is None:
            waiters = self._waiters[key] = QueueWaiters()
        worker = waiters.worker(request.worker_id if request is not None else grant.worker_id)
        self._end_request(request_id)
        if self._stopped or grant.expires_at_ms <= self._broker.now_ms():
            # Nobody will call here any more; or an owner was frozen between its commit and its reply, and the run may
            # be somebody else's by now.
            self._release(grant)
        else:
            worker.grants.append(grant)
        self._touch(key, worker)  # `settle` brings its free slots up to date.

    def _end_request(self, request_id: str) -> None:
        request = self._requests.pop(request_id, None)
        if request is None:
            return
        self._requested_runs.discard(request.run_id)
        waiters = self._waiters[request.key]
        worker = waiters.worker(request.worker_id)
        worker.in_flight -= 1
        self._touch(request.key, worker)

    def _touch(self, key: QueueKey, worker: Worker[LeasePoll]) -> None:
        workers = self._touched.get(key)
        if workers is None:
            workers = self._touched[key] = {}
        workers[worker.worker_id] = worker

    def _deliver(self, key: QueueKey, waiters: QueueWaiters[LeasePoll], worker: Worker[LeasePoll]) -> None:
        """Hand a worker's grants to its polls; what nobody takes is released."""
        now_ms = self._clock.monotonic_ms()
        if self._should_linger(worker, now_ms):
            if worker.linger_until_ms is None:
                worker.linger_until_ms = now_ms + LINGER_MS
                self._alarms.after(LINGER_MS, partial(self._deliver_later, key, worker.worker_id))
            waiters.update(worker)
            return
        worker.linger_until_ms = None
        while worker.grants and worker.polls:
            poll = next((poll for poll in worker.polls if poll.connected), worker.polls[0])
            grants, worker.grants = worker.grants[: poll.max_runs], worker.grants[poll.max_runs :]
            self._answer(poll, grants)
        if worker.grants:
            if waiters.is_expected(worker, now_ms):
                self._alarms.after(PROMPT_MS, partial(self._deliver_later, key, worker.worker_id))
            else:
                self._release_all(worker)
        waiters.update(worker)

    @staticmethod
    def _should_linger(worker: Worker[LeasePoll], now_ms: float) -> bool:
        if not worker.grants or not worker.polls or worker.prompt or worker.in_flight == 0:
            return False
        if worker.linger_until_ms is not None and now_ms >= worker.linger_until_ms:
            return False
        return len(worker.grants) < worker.polls[0].max_runs

    def _deliver_later(self, key: QueueKey, worker_id: str) -> None:
        waiters = self._waiters.get(key)
        if waiters is not None:
            self._touch(key, waiters.worker(worker_id))
            self.settle()

    def _answer(self, poll: LeasePoll, grants: list[Grant]) -> None:
        waiters = self._waiters[poll.key]
        worker = waiters.remove(poll)
        if poll.connected:
            waiters.answered(poll, len(grants), self._clock.monotonic_ms())
        waiters.update(worker)
        self._resolve(poll, grants)

    def _resolve(self, poll: LeasePoll, grants: list[Grant]) -> None:
        poll.answered = grants
        if poll.request_id:
            call = (*poll.key, poll.request_id)
            self._calls.pop(call, None)
            if grants and self._kept.find(call, self._clock.monotonic_ms()) is None:
                self._kept.keep(call, grants, self._clock.monotonic_ms())
        if not poll.future.done():
            poll.future.set_result(grants)

    def _last_moment(self, poll: LeasePoll, place: int) -> None:
        """The wait is over; requests in flight for this worker get a little longer."""
        if poll.answered is not None or poll.place != place or not poll.connected:
            return
        waiters = self._waiters[poll.key]
        poll.asking = False
        if waiters.worker(poll.worker_id).in_flight:
            self._update_poll(poll)
            self._alarms.after(LAST_GRANTS_MS, partial(self._end_empty, poll, place))
        else:
            self._end_empty(poll, place)

    def _end_empty(self, poll: LeasePoll, place: int) -> None:
        if poll.answered is None and poll.place == place:
            self._answer(poll, [])
            self._pump(poll.key)

    def _forget(self, poll: LeasePoll, place: int) -> None:
        """A caller that went away did not come back: its place is free, its unread runs go back."""
        if poll.connected or poll.place != place:
            return
        self._unread.pop((*poll.key, poll.request_id), None)
        if poll.answered is None:
            self._answer(poll, [])
            self._touch(poll.key, self._waiters[poll.key].worker(poll.worker_id))
            self.settle()
            return
        call = (*poll.key, poll.request_id)
        if poll.request_id and self._kept.find(call, self._clock.monotonic_ms()) is None:
            return  # A run of it was heard from, so the answer did arrive.
        self._kept.drop(call)
        for grant in poll.answered:
            self._release(grant)

    def _update_poll(self, poll: LeasePoll) -> None:
        waiters = self._waiters[poll.key]
        waiters.update(waiters.worker(poll.worker_id))
        self._say_free(poll.key, waiters)

    def _release_all(self, worker: Worker[LeasePoll]) -> None:
        grants, worker.grants = worker.grants, []
        for grant in grants:
            self._release(grant)

    def _release(self, grant: Grant) -> None:
        self.released_total += 1
        command = Release(job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token, reason=NOBODY_WAITS)
        self._send(self._partition_of(grant.job_id), command)

    def _say_free(self, key: QueueKey, waiters: QueueWaiters[LeasePoll]) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._demand.set_free(key, waiters.free, now_ms):
            self._arm_demand(now_ms)

    def _arm_demand(self, now_ms: float) -> None:
        at_ms = now_ms + self._demand.due_in_ms(now_ms)
        if at_ms < self._demand_alarm_at_ms and not self._stopped:
            self._demand_alarm_at_ms = at_ms
            self._alarms.after(at_ms - now_ms, partial(self._demand_alarm, at_ms))

    def _demand_alarm(self, at_ms: float) -> None:
        if at_ms == self._demand_alarm_at_ms:
            self.refresh_demand()

    def _publish_demand(self, queues: tuple[QueueDemand, ...]) -> None:
        demand = Demand(
            gateway_id=self._gateway_id,
            incarnation=self._incarnation,
            sent_at_ms=self._clock.wall_ms(),
            queues=queues,
        )
        self._publish(demand)
