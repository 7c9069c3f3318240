"""Which runs of one partition may be offered, and to whom each was offered last (DESIGN section 7, points 2 and 4).

The book holds a bounded head of every line (tenant, queue, lane): runs that are due and unleased, and runs that will be
within the look-ahead, opened or not. A candidate is offered to one gateway at a time; an offer that nobody took within
OFFER_TTL_MS goes elsewhere. Only hints are made here: a lost, late or doubled offer costs time and never a run, since
the owner grants on the state that is true when the lease request arrives.

Of a queue with a limit no more runs are offered than may start: each request too many would cost a commit, and be made
again at once. A run whose concurrency key is full waits aside (streams.key_waits), so that the runs behind it are
offered. It still counts for its line's head: of a line whose LINE_HEAD_MAX oldest runs all wait for keys, the others
wait too.

Pure: two clocks come in as arguments, broker time for due times and monotonic time for how long ago something was
offered.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from streams.core.envelopes import Offer, Offers
from streams.key_waits import MOVED_PER_PASS_MAX, KeyWaits, Unbounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streams.core.definition import Lane
    from streams.demand import DemandTable
    from streams.key_waits import Rooms

OFFER_TTL_MS: Final = 2_000
"""DESIGN section 7: an offer not taken within two seconds goes elsewhere."""

LINE_HEAD_MAX: Final = 20_000
"""Runs of one line in memory; the ready index of the store holds the rest, and refills the head when it runs low."""

OUTSTANDING_PER_SLOT: Final = 2
"""A worker that finishes takes its next run from the gateway's list without waiting for another offer."""

OUTSTANDING_BASE: Final = 16
"""So that a single waiting worker still finds a short list."""

OFFERS_PER_PASS_MAX: Final = 4_000
"""Bound of one pass, so that a flood of ready runs cannot hold the loop."""

KEYS_LOOK_MS: Final = 25
"""How soon after a pass a full key is looked at again, if nothing else makes a pass: its room may come with time."""

RELUCTANT_MS: Final = 10_000
"""How long a line that let an offer of a concurrency key lapse comes behind the others of the key. Each trial keeps
the key's room for OFFER_TTL_MS, so that others have it for five sixths of the time."""

_UNBOUNDED: Final = Unbounded()

_LONG_AGO: Final = -1e18
"""Of a gateway that let no offer lapse."""

_Counts = Literal["", "due", "ahead"]
"""Whether an offer takes a place of a bounded queue from others that are due, from others that are not, or none."""

_T = TypeVar("_T")
Line = tuple[str, str, "Lane"]
LANES: Final[tuple[Lane, ...]] = ("high", "normal", "low")


class Candidate(NamedTuple):
    """A run that may be offered; ordered by due time."""

    due_at_ms: int
    run_id: str
    job_id: str
    job_version: int
    key: str = ""
    """The concurrency key; empty: none."""
    weight: int = 0
    """What the run takes of the limit of its key."""


class _Outstanding(NamedTuple):
    offered_at_ms: float
    run_id: str
    gateway_id: str
    line: Line
    key: str
    units: int
    """Of its key's limit, that nobody else is offered meanwhile; 0 for a run that is not due yet."""
    counts: _Counts
    """Under the limit of its queue."""


class _Moment(NamedTuple):
    """What one pass goes by."""

    now_ms: int
    until_due_ms: int
    monotonic_ms: float
    rooms: Rooms


class OfferBook:
    """Candidates by line, and outstanding offers by gateway."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._candidates: dict[str, tuple[Line, Candidate]] = {}
        self._of_job: dict[str, tuple[str, ...]] = {}
        self._heads: dict[Line, list[Candidate]] = {}
        self._outstanding: dict[str, _Outstanding] = {}
        self._by_age: deque[_Outstanding] = deque()
        self._counts: dict[tuple[str, Line], int] = {}
        self._turn = 0
        self._without_room: set[Line] = set()
        """Lines that had more to offer in the last pass than their gateways had room for."""
        self._lapsed: dict[str, float] = {}
        """Gateway to the monotonic time at which it last let an offer lapse."""
        self._waits = KeyWaits()
        self._let_go: dict[str, int] = {}
        """Runs in the heads that need not queue up for their key again, with the pass that let them go."""
        self._reserved: dict[tuple[str, str], int] = {}
        """(tenant, key) to units that runs which were let go in this pass, and are not offered yet, are to have."""
        self._reluctant: dict[tuple[Line, str], float] = {}
        """(line, key) to the monotonic time at which it last let an offer of that key lapse; in that order."""
        self._units: dict[tuple[str, str], int] = {}
        """(tenant, key) to units of outstanding offers."""
        self._of_queue: dict[tuple[str, str, _Counts], int] = {}
        """(tenant, queue) to outstanding offers that count under its limit."""
        self._full: set[tuple[str, str]] = set()
        """Queues with waiting workers that had more to offer in the last pass than may start."""
        self._aside_left = 0
        """How many more runs this pass may set aside."""
        self._look_at_keys_ms = 0
        """When full keys are looked at again, by broker time."""
        self.truncated: set[Line] = set()
        """Lines whose head was cut: the store holds more than the book."""

    def __len__(self) -> int:
        return len(self._candidates)

    def replace(self, job_id: str, candidates: Sequence[tuple[Line, Candidate]]) -> None:
        """Follow a job after a commit: these of its runs may be offered, and no others."""
        run_ids = tuple(candidate.run_id for _, candidate in candidates)
        for run_id in self._of_job.get(job_id, ()):
            if run_id not in run_ids:
                self._remove(run_id)
        if run_ids:
            self._of_job[job_id] = run_ids
        else:
            self._of_job.pop(job_id, None)
        for line, candidate in candidates:
            self._put(line, candidate)

    def load(self, line: Line, candidate: Candidate) -> None:
        """Add a run that the store knows to be ready, beside what the book holds of its job."""
        if candidate.run_id not in self._candidates:
            known = self._of_job.get(candidate.job_id, ())
            if candidate.run_id not in known:
                self._of_job[candidate.job_id] = (*known, candidate.run_id)
            self._put(line, candidate)

    def _put(self, line: Line, candidate: Candidate) -> None:
        known = self._candidates.get(candidate.run_id)
        if known is not None and known[1] == candidate:
            return
        head = self._heads.setdefault(line, [])
        if known is None and self.length(line) >= LINE_HEAD_MAX:
            self.truncated.add(line)
            return
        if known is not None and known[1].job_version not in (0, candidate.job_version):
            self._forget_offer(candidate.run_id)  # of a version that nobody can lease any more
        self._waits.remove(candidate.run_id)  # of a version, a line or a key that it no longer has
        self._let_go.pop(candidate.run_id, None)
        self._candidates[candidate.run_id] = (line, candidate)
        if candidate.run_id not in self._outstanding:
            heapq.heappush(head, candidate)

    def refused(self, run_id: str, job_id: str) -> None:
        """Forget a run whose lease request was refused: the book was wrong about it."""
        self._remove(run_id)
        left = tuple(known for known in self._of_job.get(job_id, ()) if known != run_id)
        if left:
            self._of_job[job_id] = left
        else:
            self._of_job.pop(job_id, None)

    def _remove(self, run_id: str) -> None:
        """Forget a candidate and its offer: should it come back (released, retried), it is offered at once."""
        self._candidates.pop(run_id, None)
        self._waits.remove(run_id)
        self._let_go.pop(run_id, None)
        self._forget_offer(run_id)

    def _forget_offer(self, run_id: str) -> None:
        outstanding = self._outstanding.pop(run_id, None)
        if outstanding is not None and outstanding.gateway_id:
            self._release_place(outstanding)

    def answered(self, run_id: str) -> None:
        """A lease request for this run arrived: the gateway's place is free again, the run is not offered anew."""
        self._answered(run_id)

    def length(self, line: Line) -> int:
        """Return how many candidates (some perhaps stale) the head of a line holds, with those that wait for a key."""
        return len(self._heads.get(line, ())) + self._waits.of_line(line)

    def units_offered(self, tenant: str, key: str) -> int:
        """Return how many units of a concurrency key's limit stand in offers that nobody answered yet."""
        return self._units.get((tenant, key), 0)

    def runs_offered(self, tenant: str, queue: str, *, ahead: bool) -> int:
        """Return how many runs of a bounded queue stand in offers that nobody answered yet."""
        return self._of_queue.get((tenant, queue, "ahead" if ahead else "due"), 0)

    def next_due_ms(self, demand: DemandTable, lookahead_ms: int) -> int | None:
        """Return the earliest broker time at which a line with demand has something to offer.

        A line whose gateways have no room waits for an answer, for new demand or for an offer to lapse, not for a time.
        """
        wanted = demand.queues()
        times = [
            self._heads[line][0].due_at_ms - lookahead_ms
            for line in self._heads
            if (line[0], line[1]) in wanted
            and self._heads[line]
            and line not in self._without_room
            and (line[0], line[1]) not in self._full
        ]
        if self._full or self._waits.any_of(wanted):
            times.append(self._look_at_keys_ms)
        return min(times, default=None)

    def offers(
        self,
        demand: DemandTable,
        *,
        now_ms: int,
        lookahead_ms: int,
        now_monotonic_ms: float,
        rooms: Rooms = _UNBOUNDED,
    ) -> Sequence[Offers]:
        """Return new offers of runs due within the look-ahead: oldest first, lane by lane, rotating over gateways."""
        self._expire(now_monotonic_ms, rooms)
        self._without_room.clear()
        made: dict[str, list[Offer]] = {}
        left = OFFERS_PER_PASS_MAX
        self._turn += 1
        wanted = demand.queues()
        self._full = {queue for queue in wanted if _is_full(rooms, queue)} if self._heads or len(self._waits) else set()
        for full in self._full:
            del wanted[full]
        self._release_keys(rooms, wanted, now_ms)
        moment = _Moment(now_ms, now_ms + lookahead_ms, now_monotonic_ms, rooms)
        for queue in _rotated(sorted(wanted.items()), self._turn):
            left = self._offer_queue(queue, moment, made, left)
        return [
            Offers(
                gateway_id=gateway_id,
                incarnation=demand.incarnation(gateway_id) or "",
                partition=self._partition,
                offers=tuple(offers),
            )
            for gateway_id, offers in made.items()
        ]

    def _release_keys(self, rooms: Rooms, wanted: Mapping[tuple[str, str], object], now_ms: int) -> None:
        """Put runs whose key has room now back into their lines."""
        self._look_at_keys_ms = now_ms + KEYS_LOOK_MS
        self._aside_left = MOVED_PER_PASS_MAX
        self._reserved.clear()
        for line, candidate in self._waits.let_go(rooms, wanted, self._reluctant):
            self._let_go[candidate.run_id] = self._turn
            if candidate.due_at_ms <= now_ms:
                name = (line[0], candidate.key)
                self._reserved[name] = self._reserved.get(name, 0) + candidate.weight
            heapq.heappush(self._heads.setdefault(line, []), candidate)

    def _offer_queue(
        self,
        queue: tuple[tuple[str, str], list[tuple[str, int]]],
        moment: _Moment,
        made: dict[str, list[Offer]],
        left: int,
    ) -> int:
        now_monotonic_ms, until_due_ms = moment.monotonic_ms, moment.until_due_ms
        (tenant, name), gateways = queue
        gateways = _rotated(gateways, self._turn)
        is_bounded = moment.rooms.queue_room(tenant, name) is not None
        if self._lapsed:
            gateways.sort(key=lambda known: now_monotonic_ms - self._lapsed.get(known[0], _LONG_AGO) < OFFER_TTL_MS)
        for lane in LANES:
            line = (tenant, name, lane)
            head = self._heads.get(line)
            if not head:
                continue
            for gateway_id, slots in gateways:
                room = OUTSTANDING_PER_SLOT * slots + OUTSTANDING_BASE
                room = min(room - self._counts.get((gateway_id, line), 0), left)
                for candidate in self._pop(line, head, moment, room, is_bounded=is_bounded):
                    self._note(gateway_id, line, candidate, moment, is_bounded=is_bounded)
                    made.setdefault(gateway_id, []).append(_offer(line, candidate))
                    left -= 1
            if left and head and head[0].due_at_ms <= until_due_ms and (tenant, name) not in self._full:
                self._without_room.add(line)
        return left

    def _pop(
        self, line: Line, head: list[Candidate], moment: _Moment, room: int, *, is_bounded: bool
    ) -> Iterable[Candidate]:
        """Take the oldest offerable candidates; entries that were removed or replaced since are dropped here."""
        while room > 0 and head and head[0].due_at_ms <= moment.until_due_ms and self._aside_left:
            candidate = head[0]
            run_id = candidate.run_id
            if is_bounded and _is_full(moment.rooms, line[:2], ahead=candidate.due_at_ms > moment.now_ms):
                self._full.add((line[0], line[1]))
                return
            heapq.heappop(head)
            current = self._candidates.get(run_id)
            if current != (line, candidate) or run_id in self._outstanding:
                continue
            if candidate.key and (run_id in self._waits or self._must_wait(line, candidate, moment)):
                continue
            room -= 1
            yield candidate

    def _must_wait(self, line: Line, candidate: Candidate, moment: _Moment) -> bool:
        """Put a run aside whose key has no room, or behind others of its key that wait."""
        tenant, key = name = line[0], candidate.key
        let_go_in = self._let_go.pop(candidate.run_id, None)
        bound = moment.rooms.key_bound(tenant, key)
        if bound is None:
            return False
        room = moment.rooms.key_room(tenant, key)
        if let_go_in is None:
            room -= self._reserved.get(name, 0)
        elif let_go_in == self._turn and candidate.due_at_ms <= moment.now_ms:
            self._reserved[name] -= candidate.weight  # whether it goes or not
        if candidate.weight <= room and (let_go_in is not None or not self._waits.queue_up(tenant, key)):
            return False
        self._waits.add(line, candidate, bound)
        self._aside_left -= 1
        return True

    def _note(self, gateway_id: str, line: Line, candidate: Candidate, moment: _Moment, *, is_bounded: bool) -> None:
        run_id, key = candidate.run_id, candidate.key
        # A run that is not due yet takes nothing from one that is.
        units = candidate.weight if key and candidate.due_at_ms <= moment.now_ms else 0
        if units:
            self._units[line[0], key] = self._units.get((line[0], key), 0) + units
            moment.rooms.offered(line[0], key, units)
        counts: _Counts = ""
        if is_bounded:
            ahead = candidate.due_at_ms > moment.now_ms
            counts = "ahead" if ahead else "due"
            self._of_queue[line[0], line[1], counts] = self._of_queue.get((line[0], line[1], counts), 0) + 1
            moment.rooms.queue_offered(line[0], line[1], ahead=ahead)
        outstanding = _Outstanding(moment.monotonic_ms, run_id, gateway_id, line, key, units, counts)
        self._outstanding[run_id] = outstanding
        self._by_age.append(outstanding)
        self._counts[gateway_id, line] = self._counts.get((gateway_id, line), 0) + 1

    def _answered(self, run_id: str) -> None:
        outstanding = self._outstanding.get(run_id)
        if outstanding is None or not outstanding.gateway_id:
            return
        self._release_place(outstanding)
        self._reluctant.pop((outstanding.line, outstanding.key), None)
        # Kept without a gateway until its age is up: the run is about to be granted, or will be offered again.
        self._outstanding[run_id] = outstanding._replace(gateway_id="")

    def _release_place(self, outstanding: _Outstanding) -> None:
        place = (outstanding.gateway_id, outstanding.line)
        self._without_room.discard(outstanding.line)
        if outstanding.units:
            name = (outstanding.line[0], outstanding.key)
            left = self._units[name] - outstanding.units
            if left:
                self._units[name] = left
            else:
                del self._units[name]
        if outstanding.counts:
            of_queue = (*outstanding.line[:2], outstanding.counts)
            left = self._of_queue[of_queue] - 1
            if left:
                self._of_queue[of_queue] = left
            else:
                del self._of_queue[of_queue]
        count = self._counts.get(place, 0)
        if count <= 1:
            self._counts.pop(place, None)
        else:
            self._counts[place] = count - 1

    def _expire(self, now_monotonic_ms: float, rooms: Rooms) -> None:
        """Put runs whose offer was not taken back into their line, and their gateway behind the others for a while.

        Those of a bounded key go to the others that wait for it, where the oldest has its turn first.
        """
        for gateway_id in [name for name, at_ms in self._lapsed.items() if now_monotonic_ms - at_ms >= OFFER_TTL_MS]:
            del self._lapsed[gateway_id]
        while self._reluctant and now_monotonic_ms - next(iter(self._reluctant.values())) >= RELUCTANT_MS:
            del self._reluctant[next(iter(self._reluctant))]
        while self._by_age and now_monotonic_ms - self._by_age[0].offered_at_ms >= OFFER_TTL_MS:
            aged = self._by_age.popleft()
            current = self._outstanding.get(aged.run_id)
            if current is None or current.offered_at_ms != aged.offered_at_ms:
                continue
            del self._outstanding[aged.run_id]
            if current.gateway_id:
                self._release_place(current)
                self._lapsed[current.gateway_id] = now_monotonic_ms
                if current.units:
                    self._reluctant.pop((current.line, current.key), None)
                    self._reluctant[current.line, current.key] = now_monotonic_ms
            known = self._candidates.get(aged.run_id)
            if known is None or aged.run_id in self._waits:
                continue
            line, candidate = known
            bound = rooms.key_bound(line[0], candidate.key) if candidate.key else None
            if bound is None:
                heapq.heappush(self._heads.setdefault(line, []), candidate)
            else:
                self._waits.add(line, candidate, bound)


def _is_full(rooms: Rooms, queue: tuple[str, str], *, ahead: bool = False) -> bool:
    room = rooms.queue_room(*queue, ahead=ahead)
    return room is not None and room <= 0


def _rotated(items: list[_T], turn: int) -> list[_T]:
    if not items:
        return items
    start = turn % len(items)
    return items[start:] + items[:start]


def _offer(line: Line, candidate: Candidate) -> Offer:
    tenant, queue, lane = line
    return Offer(
        run_id=candidate.run_id,
        job_id=candidate.job_id,
        tenant=tenant,
        queue=queue,
        lane=lane,
        due_at_ms=candidate.due_at_ms,
        job_version=candidate.job_version,
    )
