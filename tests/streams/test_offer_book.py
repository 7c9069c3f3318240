"""Which run is offered to whom, and when again."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

import streams.key_waits
import streams.offer_book
from streams.core.envelopes import Demand, QueueDemand
from streams.demand import DemandTable
from streams.key_waits import STALE_MIN, KeyWaits
from streams.offer_book import (
    KEYS_LOOK_MS,
    LANES,
    OFFER_TTL_MS,
    OUTSTANDING_BASE,
    OUTSTANDING_PER_SLOT,
    RELUCTANT_MS,
    Candidate,
    Line,
    OfferBook,
)

if TYPE_CHECKING:
    from streams.core.envelopes import Offers

LINE: Line = ("a", "q", "normal")
ROOM = OUTSTANDING_PER_SLOT + OUTSTANDING_BASE
"""Of a gateway with one slot."""


class Rooms:
    """The limits of keys as a test sets them."""

    def __init__(self, book: OfferBook) -> None:
        self.bounds: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.queues: dict[str, int] = {}
        """What may start of each queue that has a limit."""
        self._book = book
        self.asked = 0

    def queue_room(self, tenant: str, queue: str, *, ahead: bool = False) -> int | None:
        room = self.queues.get(queue)
        if room is None:
            return None
        room -= self._book.runs_offered(tenant, queue, ahead=False)
        return room - self._book.runs_offered(tenant, queue, ahead=True) if ahead else room

    def queue_offered(self, _tenant: str, _queue: str, *, ahead: bool) -> None:
        """The book says it by runs_offered."""

    def key_bound(self, _tenant: str, key: str) -> int | None:
        self.asked += 1
        return self.bounds.get(key)

    def key_room(self, tenant: str, key: str) -> int:
        return self.bounds[key] - self.used.get(key, 0) - self._book.units_offered(tenant, key)

    def offered(self, _tenant: str, _key: str, _units: int) -> None:
        """The book says it by units_offered."""


class Market:
    """A book, its gateways, and a clock."""

    def __init__(self) -> None:
        self.book = OfferBook(3)
        self.demand = DemandTable()
        self.now_ms = 0.0
        self.until_due_ms = 10_000
        self.broker_ms = 5_000
        self.rooms = Rooms(self.book)

    def wants(self, gateway_id: str, slots: int = 1, queue: str = "q") -> None:
        wanted = (QueueDemand(tenant="a", queue=queue, slots=slots),)
        self.demand.update(Demand(gateway_id=gateway_id, incarnation="i", sent_at_ms=0, queues=wanted), self.now_ms)

    def candidate(self, name: str, due_at_ms: int = 0, version: int = 1, line: Line = LINE, **bounds: Any) -> None:
        bound = (bounds["key"], bounds.get("weight", 1)) if bounds else ("", 0)
        self.book.replace(name, [(line, Candidate(due_at_ms, f"run_{name}", name, version, *bound))])

    def granted(self, name: str, key: str, weight: int = 1) -> None:
        """The request for a run came, and it was granted."""
        self.book.answered(f"run_{name}")
        self.book.replace(name, ())
        self.rooms.used[key] = self.rooms.used.get(key, 0) + weight

    def made(self) -> list[Offers]:
        now_ms = self.broker_ms
        ahead_ms = self.until_due_ms - now_ms
        return list(
            self.book.offers(
                self.demand, now_ms=now_ms, lookahead_ms=ahead_ms, now_monotonic_ms=self.now_ms, rooms=self.rooms
            )
        )

    def offered(self) -> dict[str, list[str]]:
        """Gateway to the jobs offered by one pass."""
        return {offers.gateway_id: [offer.job_id for offer in offers.offers] for offers in self.made()}


@pytest.fixture
def market() -> Market:
    return Market()


def test_an_offer_says_all_that_a_lease_request_needs(market: Market) -> None:
    market.wants("g")
    market.candidate("j", 77, version=4)
    (offers,) = market.made()
    (offer,) = offers.offers
    assert (offers.gateway_id, offers.incarnation, offers.partition) == ("g", "i", 3)
    assert (offer.run_id, offer.job_id, offer.tenant, offer.queue, offer.lane) == ("run_j", "j", "a", "q", "normal")
    assert (offer.due_at_ms, offer.job_version) == (77, 4)


def test_nothing_is_offered_without_demand_for_its_queue(market: Market) -> None:
    market.candidate("j")
    assert market.offered() == {}
    market.wants("g", queue="other")
    assert market.offered() == {}


def test_the_oldest_is_offered_first(market: Market) -> None:
    market.wants("g")
    for name, due_at_ms in (("c", 30), ("a", 10), ("b", 20)):
        market.candidate(name, due_at_ms)
    assert market.offered() == {"g": ["a", "b", "c"]}


def test_what_is_due_later_than_the_look_ahead_waits(market: Market) -> None:
    market.wants("g")
    market.candidate("j", 10_001)
    assert market.offered() == {}
    assert market.book.next_due_ms(market.demand, 2_000) == 8_001
    market.until_due_ms = 10_001
    assert market.offered() == {"g": ["j"]}


def test_high_lanes_come_before_low_ones(market: Market) -> None:
    market.wants("g")
    market.candidate("low", line=("a", "q", "low"))
    market.candidate("high", line=("a", "q", "high"))
    market.candidate("normal")
    assert market.offered() == {"g": ["high", "normal", "low"]}


def test_gateways_take_turns(market: Market) -> None:
    market.wants("g")
    market.wants("h")
    first = []
    for number in range(6):
        market.candidate(f"j{number}")
        first += [*market.offered()]
    assert first.count("g") == first.count("h") == 3


def test_outstanding_offers_of_a_gateway_are_bounded_and_a_full_line_is_no_reason_to_wake(market: Market) -> None:
    market.wants("g")
    for number in range(ROOM + 5):
        market.candidate(f"j{number:03}", number)
    assert len(market.offered()["g"]) == ROOM
    assert market.offered() == {}
    assert market.book.next_due_ms(market.demand, 0) is None
    market.book.answered("run_j000")
    assert market.book.next_due_ms(market.demand, 0) is not None
    assert market.offered() == {"g": [f"j{ROOM:03}"]}


def test_an_offer_that_nobody_took_goes_elsewhere_after_two_seconds(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    assert market.offered() == {"g": ["j"]}
    market.wants("h")
    market.now_ms = OFFER_TTL_MS - 1
    assert market.offered() == {}
    market.now_ms = OFFER_TTL_MS
    assert market.offered() == {"h": ["j"]}


def test_an_offer_that_lapsed_goes_elsewhere_whoever_has_the_turn(market: Market) -> None:
    market.wants("g")
    market.wants("h")
    market.candidate("j")
    holder = [*market.offered()]
    for passes_between in (0, 1, 0, 1, 2, 3):
        for _ in range(passes_between):
            assert market.offered() == {}
        market.now_ms += OFFER_TTL_MS
        before, holder = holder, [*market.offered()]
        assert holder != before
        assert len(holder) == 1


def test_with_one_gateway_only_a_lapsed_offer_comes_to_it_again(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    market.offered()
    market.now_ms = OFFER_TTL_MS
    assert market.offered() == {"g": ["j"]}


def test_an_answered_run_frees_its_place_and_is_not_offered_anew_at_once(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    market.offered()
    market.book.answered("run_j")
    assert market.offered() == {}
    market.now_ms = OFFER_TTL_MS
    assert market.offered() == {"g": ["j"]}


def test_a_refused_run_is_forgotten(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    market.offered()
    market.book.refused("run_j", "j")
    market.now_ms = OFFER_TTL_MS
    assert market.offered() == {}
    assert len(market.book) == 0


def test_a_released_run_is_offered_at_once(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    market.offered()
    market.book.replace("j", ())
    assert market.offered() == {}
    market.candidate("j")
    assert market.offered() == {"g": ["j"]}


def test_an_edited_job_is_offered_anew_under_its_new_version(market: Market) -> None:
    market.wants("g")
    market.candidate("j", version=1)
    market.offered()
    market.candidate("j", version=2)
    (offers,) = market.made()
    assert [offer.job_version for offer in offers.offers] == [2]
    assert market.offered() == {}


def test_the_same_candidate_again_is_not_offered_twice(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    market.offered()
    market.candidate("j")
    assert market.offered() == {}


def test_a_run_moved_to_another_queue_is_offered_there_only(market: Market) -> None:
    market.candidate("j")
    market.candidate("j", version=2, line=("a", "other", "normal"))
    market.wants("g")
    assert market.offered() == {}
    market.wants("g", queue="other")
    assert market.offered() == {"g": ["j"]}


def test_a_line_beyond_its_head_is_marked_and_refilled_from_the_store(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.offer_book, "LINE_HEAD_MAX", 3)
    for number in range(5):
        market.candidate(f"j{number}", number)
    assert market.book.truncated == {LINE}
    market.wants("g")
    assert market.offered() == {"g": ["j0", "j1", "j2"]}
    for number in range(5):
        market.book.load(LINE, Candidate(number, f"run_j{number}", f"j{number}", 0))
    assert market.offered() == {"g": ["j3", "j4"]}


def test_one_pass_is_bounded(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.offer_book, "OFFERS_PER_PASS_MAX", 4)
    market.wants("g")
    for number in range(10):
        market.candidate(f"j{number}", number)
    assert market.offered() == {"g": ["j0", "j1", "j2", "j3"]}
    assert market.book.next_due_ms(market.demand, 0) == 4
    assert market.offered() == {"g": ["j4", "j5", "j6", "j7"]}


def test_a_gateway_that_fell_silent_gets_nothing(market: Market) -> None:
    market.wants("g")
    market.candidate("j")
    market.demand.forget_silent(60_000)
    assert market.offered() == {}


# --- concurrency keys ---


def test_a_full_key_steps_aside_and_is_offered_in_order_when_there_is_room(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["k"] = 2
    for number in range(4):
        market.candidate(f"k{number}", number, key="k")
    market.candidate("plain", 9)
    assert market.offered() == {"g": ["k0", "k1", "plain"]}
    assert market.book.next_due_ms(market.demand, 0) == market.broker_ms + KEYS_LOOK_MS
    assert market.offered() == {}
    market.granted("k0", "k")
    assert market.offered() == {}
    market.rooms.used["k"] = 0
    assert market.offered() == {"g": ["k2"]}, "k1 is offered still"
    market.book.replace("plain", ())
    market.now_ms += OFFER_TTL_MS
    assert market.offered() == {"g": ["k1", "k2"]}, "an offer that lapsed gives its units back, and keeps its place"


def test_a_light_run_does_not_pass_a_heavy_one_of_its_key(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["k"], market.rooms.used["k"] = 3, 1
    market.candidate("heavy", 1, key="k", weight=3)
    market.candidate("light", 2, key="k")
    market.candidate("other", 3, key="l")
    assert market.offered() == {"g": ["other"]}
    market.candidate("lighter", 0, key="k")
    assert market.offered() == {}, "nor one that came later, though it is older: that one is looked at in its turn"
    assert market.offered() == {"g": ["lighter"]}
    market.granted("lighter", "k")
    market.rooms.used["k"] = 0
    assert market.offered() == {"g": ["heavy"]}


def test_a_run_heavier_than_the_limit_holds_up_nobody_and_starts_when_the_limit_is_raised(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["k"] = 4
    market.candidate("heavy", 1, key="k", weight=5)
    market.candidate("heaviest", 2, key="k", weight=20)
    market.candidate("light", 3, key="k")
    assert market.offered() == {"g": ["light"]}
    market.rooms.bounds["k"] = 3
    market.candidate("four", 0, key="k", weight=4)
    assert market.offered() == {}
    market.rooms.bounds["k"] = 19
    assert market.offered() == {"g": ["four", "heavy"]}
    del market.rooms.bounds["k"]
    assert market.offered() == {"g": ["heaviest"]}


def test_a_limit_that_was_lowered_lets_lighter_runs_pass(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["k"], market.rooms.used["k"] = 5, 5
    market.candidate("heavy", 1, key="k", weight=5)
    market.candidate("light", 2, key="k")
    assert market.offered() == {}
    market.rooms.bounds["k"], market.rooms.used["k"] = 2, 0
    assert market.offered() == {"g": ["light"]}


def test_a_higher_lane_goes_first_and_a_queue_that_nobody_waits_for_holds_up_no_other(market: Market) -> None:
    market.wants("g")
    market.wants("h", queue="r")
    market.rooms.bounds["k"], market.rooms.used["k"] = 1, 1
    market.candidate("low", 1, line=("a", "q", "low"), key="k")
    market.candidate("high", 3, line=("a", "q", "high"), key="k")
    market.candidate("asleep", 0, line=("a", "r", "high"), key="k")
    assert market.offered() == {}
    market.demand.update(Demand(gateway_id="h", incarnation="i", sent_at_ms=0, queues=()), market.now_ms)
    market.rooms.used["k"] = 0
    assert market.offered() == {"g": ["high"]}


def test_a_run_that_is_not_due_yet_takes_no_units_from_one_that_is(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["k"] = 1
    market.candidate("coming", market.broker_ms + 1, key="k")
    assert market.offered() == {"g": ["coming"]}
    market.candidate("due", market.broker_ms, key="k")
    assert market.offered() == {"g": ["due"]}
    assert market.book.units_offered("a", "k") == 1


def test_a_run_that_waits_and_is_changed_or_deleted_leaves_nothing_behind(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["k"] = 0
    for version in range(500):
        market.candidate("j", 1, version, key="k")
        assert market.offered() == {}
    assert market.book.length(LINE) == 1
    market.candidate("j", 1, 501, key="l")
    assert market.offered() == {"g": ["j"]}
    market.book.replace("j", ())
    assert (market.book.length(LINE), market.book.units_offered("a", "l")) == (0, 0)
    assert market.book.next_due_ms(market.demand, 0) is None


def test_what_changes_while_it_waits_leaves_no_trail_in_memory(market: Market) -> None:
    market.wants("g")
    market.rooms.bounds["l"] = market.rooms.used["l"] = 1
    market.candidate("stays", 0, key="l")
    for version in range(500):
        market.candidate("j", 1, version, key="l")
        assert market.offered() == {}
    assert len(market.book._waits._keys["a", "l"].lines[LINE].items) < 2 * STALE_MIN


def test_a_run_that_goes_between_its_turn_and_its_offer_leaves_no_trail_either(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.offer_book, "OUTSTANDING_BASE", 0)
    market.wants("g")
    market.rooms.bounds["k"] = market.rooms.used["k"] = 1
    market.candidate("keyed", 0, key="k")
    for number in range(2):
        market.candidate(f"j{number}", 1)
    assert market.offered() == {"g": ["j0", "j1"]}
    market.rooms.used["k"] = 0
    assert market.offered() == {}, "the gateway has no room"
    assert [*market.book._let_go] == ["run_keyed"]
    market.book.replace("keyed", ())
    assert market.book._let_go == {}


def test_a_run_too_heavy_for_an_earlier_limit_is_seen_after_another_was_too_heavy_for_a_later_one() -> None:
    waits, book = KeyWaits(), OfferBook(0)
    rooms = Rooms(book)
    for weight, limit in ((15, 10), (30, 20)):
        waits.add(LINE, Candidate(0, f"run_{weight}", f"{weight}", 1, "k", weight), limit)
    rooms.bounds["k"] = 20
    assert [candidate.weight for _, candidate in waits.let_go(rooms, {("a", "q"): []})] == [15]


def test_runs_that_wait_for_keys_count_for_the_head_of_their_line(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound of the look-ahead, and of the memory."""
    monkeypatch.setattr(streams.offer_book, "LINE_HEAD_MAX", 3)
    market.rooms.bounds["k"] = 0
    market.wants("g")
    for number in range(3):
        market.candidate(f"k{number}", number, key="k")
    assert market.offered() == {}
    market.candidate("beyond", 9)
    assert market.offered() == {}
    assert (market.book.length(LINE), market.book.truncated) == (3, {LINE})


def test_a_pass_moves_so_many_runs_and_the_next_one_goes_on(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.key_waits, "MOVED_PER_PASS_MAX", 2)
    monkeypatch.setattr(streams.offer_book, "MOVED_PER_PASS_MAX", 2)
    market.wants("g")
    market.rooms.bounds["k"] = 0
    for number in range(5):
        market.candidate(f"k{number}", number, key="k")
    market.candidate("behind", 9)
    assert market.offered() == {}
    assert market.book.next_due_ms(market.demand, 0) == market.broker_ms + KEYS_LOOK_MS
    assert market.offered() == {}
    assert market.offered() == {"g": ["behind"]}
    market.rooms.bounds["l"] = 0
    market.candidate("l0", 9, key="l")
    assert market.offered() == {}
    market.rooms.bounds.clear()
    passes = [market.offered() for _ in range(4)]
    assert passes == [{"g": ["k0", "k1"]}, {"g": ["k2", "l0"]}, {"g": ["k3", "k4"]}, {}]


def test_a_pass_looks_at_some_full_keys_and_the_next_one_at_others(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.key_waits, "KEYS_PER_PASS_MAX", 2)
    market.wants("g")
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        market.rooms.bounds[key] = 0
        market.candidate(f"j{key}", key=key)
    assert market.offered() == {}
    market.rooms.asked = 0
    assert market.offered() == {}
    assert market.rooms.asked == 2
    market.rooms.bounds = dict.fromkeys(keys, 1)
    assert market.offered() == {"g": ["jk2", "jk3"]}
    assert market.offered() == {"g": ["jk0", "jk4"]}
    assert market.offered() == {"g": ["jk1"]}


@pytest.mark.parametrize("seed", range(8))
def test_no_more_runs_of_a_queue_are_offered_than_may_start(seed: int) -> None:
    """Whatever gateways, lanes and keys: a request too many is a commit for nothing, and is made again at once."""
    rng, market = random.Random(seed), Market()  # noqa: S311 - no secret
    bound, running = 4, 0
    waiting: dict[str, Line] = {}
    started = 0
    for step in range(300):
        for _ in range(rng.randrange(3)):
            name, line = f"j{step}-{_}", ("a", "q", rng.choice(LANES))
            waiting[name] = line
            market.candidate(name, int(market.broker_ms) + rng.randrange(-500, 2_000), line=line)
        for gateway_id in "gh":
            market.wants(gateway_id, slots=50)
        market.rooms.queues["q"] = bound - running
        market.until_due_ms = market.broker_ms + 2_000
        made = [offer.job_id for offers in market.made() for offer in offers.offers]
        due = market.book.runs_offered("a", "q", ahead=False)
        ahead = market.book.runs_offered("a", "q", ahead=True)
        assert (due <= bound, ahead <= bound) == (True, True)
        for name in made:
            if rng.random() < 0.8 and running < bound:
                market.book.answered(f"run_{name}")
                market.book.replace(name, ())
                del waiting[name]
                running, started = running + 1, started + 1
        running -= rng.randrange(running + 1)
        market.now_ms += 100
        market.broker_ms += 100
    assert started > 100
    for name in waiting:
        market.book.replace(name, ())
    assert market.book._of_queue == {}


def test_runs_that_are_not_due_take_no_room_from_those_that_are(market: Market) -> None:
    market.wants("g", slots=9)
    market.rooms.queues["q"] = 2
    for number in range(4):
        market.candidate(f"ahead{number}", market.broker_ms + 100 + number)
    assert market.offered() == {"g": ["ahead0", "ahead1"]}
    for number in range(4):
        market.candidate(f"due{number}", number)
    assert market.offered() == {"g": ["due0", "due1"]}
    assert market.offered() == {}


def test_a_full_queue_is_looked_at_again_soon_and_not_at_once(market: Market) -> None:
    """A loop that turns for it as fast as it can is a burden on all others."""
    market.wants("g", slots=9)
    market.rooms.queues["q"] = 1
    market.candidate("a", 0)
    market.candidate("b", 1)
    assert market.offered() == {"g": ["a"]}, "it became full in this pass"
    assert market.book.next_due_ms(market.demand, 0) == market.broker_ms + KEYS_LOOK_MS
    assert market.offered() == {}, "it was full before"
    assert market.book.next_due_ms(market.demand, 0) == market.broker_ms + KEYS_LOOK_MS
    market.rooms.queues["q"] = 2
    assert market.offered() == {"g": ["b"]}
    market.candidate("c", 2)
    del market.rooms.queues["q"]
    assert market.offered() == {"g": ["c"]}, "the limit is lifted"
    assert market.book.next_due_ms(market.demand, 0) is None


def test_a_full_queue_keeps_no_key_from_others(market: Market) -> None:
    market.rooms.bounds["k"] = market.rooms.used["k"] = 1
    market.candidate("x", 0, line=("a", "x", "normal"), key="k")
    market.candidate("y", 1, line=("a", "y", "normal"), key="k")
    for queue in "xy":
        market.wants(f"g{queue}", queue=queue)
    assert market.offered() == {}
    market.rooms.used.clear()
    market.rooms.queues["x"] = 0
    assert market.offered() == {"gy": ["y"]}


LAZY = ("x", "y")
"""Queues whose gateways take nothing, though workers wait: their lease rate is used up, or 0."""


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_who_does_not_take_what_is_offered_does_not_keep_a_key_from_the_others(seed: int, limit: int) -> None:
    rng, market = random.Random(seed), Market()  # noqa: S311 - no secret
    market.rooms.bounds["k"] = limit
    waiting = {f"{queue}{number}" for queue in (*LAZY, "z") for number in range(6)}
    for name in rng.sample(sorted(waiting), len(waiting)):
        lane = rng.choice(LANES)
        line: Line = ("a", name[0], "high" if name[0] in LAZY else lane)
        market.candidate(name, rng.randrange(100), line=line, key="k", weight=rng.choice((1, limit)))
    weights = {name: market.book._candidates[f"run_{name}"][1].weight for name in waiting}
    for _ in range(6 * 2):
        for queue in (*LAZY, "z"):
            market.wants(f"g{queue}", queue=queue, slots=3)
        for offers in market.made():
            for name in [offer.job_id for offer in offers.offers]:
                if name[0] not in LAZY:
                    waiting.remove(name)
                    market.granted(name, "k", weights[name])
        market.rooms.used.clear()  # they are done at once
        market.now_ms += OFFER_TTL_MS
    assert [name for name in waiting if name[0] not in LAZY] == []


def test_who_did_not_take_what_was_offered_gets_its_turn_again(market: Market) -> None:
    """Also where the others never cease: it may only have been a moment's want."""
    market.rooms.bounds["k"] = 1
    market.candidate("x", 0, line=("a", "x", "normal"), key="k")
    turns = []
    for number in range(30):
        market.candidate(f"y{number}", 1 + number, line=("a", "y", "normal"), key="k")
        for queue in "xy":
            market.wants(f"g{queue}", queue=queue)
        made = [name for names in market.offered().values() for name in names]
        turns += [(market.now_ms, name) for name in made if name == "x"]
        for name in made:
            if name != "x":
                market.granted(name, "k")
                market.rooms.used.clear()
        market.now_ms += 1_000
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(turns)]
    assert gaps
    assert max(gaps) <= RELUCTANT_MS + OFFER_TTL_MS + 1_000


def test_a_run_whose_turn_it_is_has_the_room_before_a_younger_one_that_is_met_first(market: Market) -> None:
    """Whatever queue a pass begins with."""
    market.rooms.bounds["k"] = 1
    for first, second in (("x", "y"), ("y", "x")) * 3:
        market.rooms.used["k"] = 1
        market.candidate("old", 0, line=("a", first, "normal"), key="k")
        for queue in "xy":
            market.wants(f"g{queue}", queue=queue)
        assert market.offered() == {}
        market.rooms.used.clear()
        market.candidate("young", 1, line=("a", second, "normal"), key="k")
        assert market.offered() == {f"g{first}": ["old"]}
        for name in ("old", "young"):
            market.book.replace(name, ())


class Scramble:
    """Random runs of some keys, queues and lanes; random limits; workers that take what is offered, or let it lapse."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        self.market = Market()
        self.waiting: dict[str, tuple[str, int]] = {}
        """Name to key and weight."""
        self.running: list[tuple[str, int]] = []
        self.made = self.started = 0

    def step(self) -> None:
        rng, market = self.rng, self.market
        match rng.choice(("run", "run", "run", "delete", "change", "end", "end", "limit", "lapse")):
            case "run":
                self.made += 1
                self.put(f"j{self.made}")
            case "change" if self.waiting:
                self.put(rng.choice([*self.waiting]), version=self.made)
            case "delete" if self.waiting:
                name = rng.choice([*self.waiting])
                del self.waiting[name]
                market.book.replace(name, ())
            case "end" if self.running:
                key, weight = self.running.pop(rng.randrange(len(self.running)))
                market.rooms.used[key] -= weight
            case "limit":
                market.rooms.bounds[rng.choice("kl")] = rng.choice((0, 1, 3, 5))
            case "lapse":
                market.now_ms += OFFER_TTL_MS
        self.offer(take=0.7)

    def put(self, name: str, version: int = 1) -> None:
        key, weight = self.rng.choice([("", 0), ("k", 1), ("k", 3), ("l", 1), ("l", 2)])
        line: Line = ("a", self.rng.choice("qr"), self.rng.choice(("high", "normal", "low")))
        due_at_ms = self.market.broker_ms + self.rng.randrange(-1_000, 1_000)
        candidate = Candidate(due_at_ms, f"run_{name}", name, version, key, weight)
        self.market.book.replace(name, [(line, candidate)])
        self.waiting[name] = (key, weight)

    def offer(self, take: float) -> int:
        """One pass; workers take some of what it offers, each if its key has room when the request comes."""
        rooms, book = self.market.rooms, self.market.book
        before = {key: book.units_offered("a", key) for key in "kl"}
        offered = [offer.job_id for offers in self.market.made() for offer in offers.offers]
        for key, bound in rooms.bounds.items():
            taken = rooms.used.get(key, 0) + book.units_offered("a", key)
            assert taken <= max(bound, rooms.used.get(key, 0) + before[key]), "more is offered than may start"
        for name in offered:
            key, weight = self.waiting[name]
            if self.rng.random() >= take:
                continue
            book.answered(f"run_{name}")
            if key in rooms.bounds and rooms.used.get(key, 0) + weight > rooms.bounds[key]:
                self.refused(name)
                continue
            book.replace(name, ())
            del self.waiting[name]
            if key:
                self.started += 1
                self.running.append((key, weight))
                rooms.used[key] = rooms.used.get(key, 0) + weight
        return len(offered)

    def refused(self, name: str) -> None:
        """As a shard does it: the run is forgotten, and put in again as it stands."""
        line, candidate = self.market.book._candidates[f"run_{name}"]
        self.market.book.refused(f"run_{name}", name)
        self.market.book.replace(name, [(line, candidate)])

    def work_off(self) -> None:
        """Let all start that may."""
        self.market.rooms.bounds = {"k": 3, "l": 2}
        for _ in range(20 * len(self.waiting) + 20):
            if not self.waiting:
                return
            self.running.clear()
            self.market.rooms.used.clear()
            self.market.now_ms += OFFER_TTL_MS
            self.market.broker_ms += OFFER_TTL_MS
            self.market.until_due_ms = self.market.broker_ms + 2_000
            for gateway_id in ("g", "h"):
                self.market.wants(gateway_id, slots=3, queue="q" if gateway_id == "g" else "r")
            self.offer(take=1.0)


@pytest.mark.parametrize("seed", range(20))
def test_no_more_of_a_key_is_offered_than_may_start_and_everything_is_in_the_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.offer_book, "OUTSTANDING_BASE", 0)
    work = Scramble(seed)
    work.market.wants("g", slots=1)
    work.market.wants("h", slots=1, queue="r")
    for _ in range(400):
        work.step()
    assert work.started > 20, "something was to be seen"
    work.work_off()
    assert work.waiting == {}
    book = work.market.book
    lines: list[Line] = [("a", queue, lane) for queue in "qr" for lane in LANES]
    assert [book._waits.of_line(line) for line in lines] == [0] * 6
    assert [book.units_offered("a", key) for key in "kl"] == [0, 0]
    assert (book._let_go, book._waits._where) == ({}, {})
