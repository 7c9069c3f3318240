"""How runs get from offers to workers; the owner's side is played by hand, time is virtual."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from api.dispatch.lease_desk import (
    KEEP_PLACE_MS,
    LAST_GRANTS_MS,
    LEASE_AHEAD_MS,
    LINGER_MS,
    PATIENT_AHEAD_MS,
    REQUEST_GRACE_MS,
    SPREAD_MS,
    SWEEP_MS,
    WAIT_MS_MIN,
)
from api.dispatch.request_life import LIFE_MS_MAX, LIFE_MS_MIN
from api.dispatch.waiters import PATIENCE_MS, PROMPT_MS
from streams.core.commands import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.commands import Grant

    # The bench is a fixture of conftest.py, which tests cannot import by name.
    Bench = Any


def poll(bench: Bench, worker: str = "w", **fields: Any) -> asyncio.Task[list[Grant]]:
    return asyncio.create_task(bench.client.lease("t", fields.pop("queue", "q"), worker, **fields))


async def sent_requests(bench: Bench) -> list[Any]:
    await bench.advance(60)
    requests: list[Any] = bench.requests()
    return requests


async def test_a_waiting_worker_becomes_demand(bench: Bench) -> None:
    task = poll(bench, max_runs=7)
    await bench.advance(20)
    demand = bench.link.demands[-1]
    assert (demand.gateway_id, demand.incarnation) == ("gw", bench.client.incarnation)
    assert [(queue.tenant, queue.queue, queue.slots) for queue in demand.queues] == [("t", "q", 7)]
    task.cancel()


async def test_an_offer_becomes_a_lease_request_and_its_grant_reaches_the_worker(bench: Bench) -> None:
    task = poll(bench, max_runs=2, visibility_ms=45_000)
    await bench.settle()
    bench.offers(bench.offer(1), partition=3)
    (request,) = await sent_requests(bench)
    assert (request.run_id, request.worker_id, request.gateway_id, request.visibility_ms, request.job_version) == (
        "run_job1_x", "w", "gw", 45_000, 1,
    )  # fmt: skip
    assert bench.link.sent[-1][0] == 3
    bench.grant([request])
    assert [grant.run_id for grant in await task] == ["run_job1_x"]


async def test_a_request_is_valid_for_two_seconds_past_due_or_now(bench: Bench) -> None:
    poll(bench, max_runs=2)
    await bench.settle()
    now_ms = bench.clock.wall_ms()
    bench.offers(bench.offer(1, due_in_ms=-5000), bench.offer(2, due_in_ms=600))
    first, second = await sent_requests(bench)
    assert first.valid_until_ms == now_ms + LIFE_MS_MIN
    assert second.valid_until_ms == now_ms + 600 + LIFE_MS_MIN


@pytest.mark.parametrize("answer", ["stale_offer", "grant", "none"])
async def test_requests_live_longer_where_owners_are_slow(bench: Bench, answer: str) -> None:
    """Else an owner that needs 3 s would refuse every request for being late, and grant nothing for ever."""
    task = poll(bench, max_runs=5, wait_ms=120_000)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    await bench.advance(1_940)
    if answer == "grant":
        bench.grant([request])
    elif answer == "stale_offer":
        bench.reply([(request, Reply(code="stale_offer", job_id=request.job_id, run_id=request.run_id))])
    await bench.advance(600)
    bench.offers(bench.offer(2))
    if answer == "grant":
        assert [grant.run_id for grant in await task] == ["run_job1_x"]
        task = poll(bench, max_runs=5, wait_ms=120_000)
    second = (await sent_requests(bench))[-1]
    life_ms = second.valid_until_ms - bench.clock.wall_ms()
    assert 5_000 < life_ms < LIFE_MS_MAX

    bench.grant([second])  # at once: what was slow is over, and is forgotten by and by
    await bench.advance(60_000)
    assert [grant.run_id for grant in await task] == ["run_job2_x"]
    task = poll(bench, max_runs=5)
    await bench.settle()
    bench.offers(bench.offer(3))
    third = (await sent_requests(bench))[-1]
    assert third.job_id == "job3"
    assert third.valid_until_ms - bench.clock.wall_ms() <= LIFE_MS_MIN
    task.cancel()


async def test_nothing_is_requested_where_nobody_waits(bench: Bench) -> None:
    task = poll(bench, queue="other")
    await bench.settle()
    bench.offers(bench.offer(1))
    assert await sent_requests(bench) == []
    task.cancel()


async def test_no_more_is_requested_than_there_are_free_slots(bench: Bench) -> None:
    poll(bench, max_runs=3)
    await bench.settle()
    bench.offers(*(bench.offer(number) for number in range(10)))
    assert len(await sent_requests(bench)) == 3


async def test_due_runs_take_slots_before_runs_ahead(bench: Bench) -> None:
    poll(bench, max_runs=3)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=300), bench.offer(2, due_in_ms=200), bench.offer(3), bench.offer(4))
    assert [request.job_id for request in await sent_requests(bench)] == ["job3", "job4", "job2"]


@pytest.mark.parametrize(("due_in_ms", "left"), [(0, True), (PATIENT_AHEAD_MS - 1, True), (PATIENT_AHEAD_MS, False)])
async def test_only_a_request_well_ahead_waits_for_company(bench: Bench, due_in_ms: int, *, left: bool) -> None:
    poll(bench, max_runs=5)
    await bench.settle()
    await bench.find_company()
    bench.offers(bench.offer(1, due_in_ms=due_in_ms))
    await bench.advance(20)
    assert ([request.job_id for request in bench.requests()] == ["job1"]) is left


async def test_a_run_far_ahead_is_requested_when_it_comes_near(bench: Bench) -> None:
    poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=LEASE_AHEAD_MS + 500))
    await bench.advance(490)
    assert bench.requests() == []
    await bench.advance(30)
    assert [request.job_id for request in bench.requests()] == ["job1"]


async def test_offers_for_others_and_for_an_earlier_start_do_nothing(bench: Bench) -> None:
    poll(bench, max_runs=5)
    await bench.settle()
    bench.offers(bench.offer(1), incarnation="before")
    assert await sent_requests(bench) == []


async def test_a_repeated_offer_of_a_requested_run_asks_once(bench: Bench) -> None:
    poll(bench, max_runs=5)
    await bench.settle()
    for _ in range(3):
        bench.offers(bench.offer(1))
        await bench.settle()
    assert len(await sent_requests(bench)) == 1


async def test_a_grant_committed_before_the_due_time_is_held_until_due(bench: Bench) -> None:
    task = poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=500))
    (request,) = await sent_requests(bench)
    due_at_ms = bench.clock.wall_ms() + 100
    bench.grant([request], due_at_ms=due_at_ms)
    await bench.advance(99)
    assert not task.done()
    await bench.advance(1)
    assert [grant.due_at_ms for grant in await task] == [due_at_ms]
    assert bench.clock.wall_ms() >= due_at_ms


async def test_a_held_grant_keeps_its_slot_reserved(bench: Bench) -> None:
    poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=500))
    (request,) = await sent_requests(bench)
    bench.grant([request], due_at_ms=bench.clock.wall_ms() + 300)
    bench.offers(bench.offer(2))
    assert len(await sent_requests(bench)) == 1


async def test_a_refused_request_frees_its_slot_for_the_next_run(bench: Bench) -> None:
    poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1), bench.offer(2))
    (request,) = await sent_requests(bench)
    bench.reply([(request, Reply(code="not_leasable", job_id=request.job_id, run_id=request.run_id))])
    assert [r.job_id for r in await sent_requests(bench)] == ["job1", "job2"]


async def test_a_request_without_an_answer_frees_its_slot_after_its_validity(bench: Bench) -> None:
    poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1))
    await sent_requests(bench)
    await bench.advance(LIFE_MS_MIN + REQUEST_GRACE_MS)
    bench.offers(bench.offer(2))
    assert [r.job_id for r in await sent_requests(bench)] == ["job1", "job2"]


async def test_a_grant_that_comes_after_its_request_was_forgotten_still_reaches_its_worker(bench: Bench) -> None:
    task = poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    await bench.advance(LIFE_MS_MIN + REQUEST_GRACE_MS)
    bench.grant([request])
    assert [grant.run_id for grant in await task] == [request.run_id]


async def test_a_grant_with_nobody_waiting_is_released_at_once(bench: Bench) -> None:
    task = poll(bench, max_runs=1, wait_ms=1000)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    await bench.advance(1000 + LAST_GRANTS_MS)
    assert await task == []
    await bench.advance(PATIENCE_MS)
    bench.grant([request], token=9)
    await bench.advance(60)
    assert bench.releases() == [request.run_id]
    (release,) = [command for command in bench.link.commands if type(command).__name__ == "Release"]
    assert (release.lease_token, release.job_id) == (9, "job1")


async def test_a_grant_that_comes_after_the_end_of_its_lease_is_given_to_nobody(bench: Bench) -> None:
    task = poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    bench.grant([request], due_at_ms=bench.clock.wall_ms() - request.visibility_ms, token=9)
    await bench.advance(60)
    assert not task.done()
    assert bench.releases() == [request.run_id]
    bench.offers(bench.offer(2))
    *_, other = await sent_requests(bench)
    bench.grant([other])
    assert [grant.run_id for grant in await task] == [other.run_id]


async def test_a_grant_of_an_unknown_request_is_released(bench: Bench) -> None:
    task = poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    task.cancel()
    await bench.settle()
    bench.grant([request])
    await bench.advance(60)
    assert bench.releases() == [request.run_id]


async def test_the_same_grant_twice_is_handed_out_once(bench: Bench) -> None:
    first = poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    bench.grant([request])
    await first
    second = poll(bench, max_runs=1)
    await bench.settle()
    bench.grant([request])
    await bench.advance(200)
    assert not second.done()
    assert bench.releases() == []


async def test_runs_granted_after_the_answer_wait_for_the_same_workers_next_poll(bench: Bench) -> None:
    first = poll(bench, max_runs=5)
    await bench.settle()
    bench.offers(bench.offer(1), bench.offer(2))
    one, two = await sent_requests(bench)
    bench.grant([one])
    await bench.advance(LINGER_MS)
    assert len(await first) == 1
    bench.grant([two])
    await bench.advance(PROMPT_MS / 2)
    second = poll(bench, max_runs=4)
    assert [grant.run_id for grant in await second] == [two.run_id]
    await bench.advance(1000)
    assert bench.releases() == []


async def test_a_grant_is_never_given_to_another_worker(bench: Bench) -> None:
    mine = poll(bench, "mine", max_runs=1, wait_ms=1000)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    other = poll(bench, "other", max_runs=1)
    await bench.advance(1000 + LAST_GRANTS_MS + PROMPT_MS)
    assert await mine == []
    bench.grant([request])
    await bench.advance(60)
    assert not other.done()
    assert bench.releases() == [request.run_id]


async def test_runs_are_spread_over_waiting_workers(bench: Bench) -> None:
    for worker in ("a", "b", "c"):
        poll(bench, worker, max_runs=10)
    await bench.settle()
    bench.offers(*(bench.offer(number) for number in range(6)))
    workers = [request.worker_id for request in await sent_requests(bench)]
    assert sorted(workers) == ["a", "a", "b", "b", "c", "c"]


async def test_all_grants_of_one_commit_come_in_one_answer(bench: Bench) -> None:
    task = poll(bench, max_runs=50)
    await bench.settle()
    bench.offers(*(bench.offer(number) for number in range(50)))
    bench.grant(await sent_requests(bench))
    assert len(await task) == 50


async def test_an_answer_waits_a_moment_for_grants_on_their_way(bench: Bench) -> None:
    task = poll(bench, max_runs=5)
    await bench.settle()
    bench.offers(*(bench.offer(number) for number in range(3)))
    one, two, three = await sent_requests(bench)
    bench.grant([one])
    await bench.advance(LINGER_MS - 1)
    assert not task.done()
    bench.grant([two, three])
    await bench.settle()
    assert len(await task) == 3


async def test_an_answer_does_not_wait_for_a_lost_request(bench: Bench) -> None:
    task = poll(bench, max_runs=5)
    await bench.settle()
    bench.offers(bench.offer(1), bench.offer(2))
    one, _ = await sent_requests(bench)
    bench.grant([one])
    await bench.advance(LINGER_MS)
    assert [grant.run_id for grant in await task] == [one.run_id]


async def test_a_single_run_is_handed_out_at_once(bench: Bench) -> None:
    task = poll(bench, max_runs=50)
    await bench.settle()
    bench.offers(bench.offer(1))
    bench.grant(await sent_requests(bench))
    await bench.settle()
    assert task.done()


async def make_prompt(bench: Bench, worker: str = "w") -> None:
    """Let a worker come back at once after an answer that left it slots."""
    first = poll(bench, worker, max_runs=2)
    await bench.settle()
    bench.offers(bench.offer(900))
    bench.grant(await sent_requests(bench))
    await bench.settle()
    await first


async def test_a_worker_that_works_first_is_asked_only_for_runs_that_fall_due_together(bench: Bench) -> None:
    poll(bench, max_runs=10)
    await bench.settle()
    bench.offers(
        bench.offer(1, due_in_ms=300),
        bench.offer(2, due_in_ms=300 + SPREAD_MS),
        bench.offer(3, due_in_ms=301 + SPREAD_MS),
        bench.offer(4, due_in_ms=800),
    )
    assert [request.job_id for request in await sent_requests(bench)] == ["job1", "job2"]
    await bench.advance(200)
    assert len(bench.requests()) == 2


async def test_a_prompt_worker_is_asked_for_everything_within_the_look_ahead(bench: Bench) -> None:
    await make_prompt(bench)
    poll(bench, max_runs=10)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=300), bench.offer(2, due_in_ms=800))
    assert [request.job_id for request in await sent_requests(bench)][1:] == ["job1", "job2"]


async def test_a_worker_that_stays_away_is_prompt_no_more(bench: Bench) -> None:
    await make_prompt(bench)
    await bench.advance(PROMPT_MS + 1)
    poll(bench, max_runs=10)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=300), bench.offer(2, due_in_ms=800))
    assert [request.job_id for request in await sent_requests(bench)][1:] == ["job1"]


async def test_a_late_grant_waits_longer_for_its_worker_only_while_nobody_else_has_a_slot(bench: Bench) -> None:
    first = poll(bench, max_runs=5)
    await bench.settle()
    bench.offers(bench.offer(1), bench.offer(2))
    one, two = await sent_requests(bench)
    bench.grant([one])
    await bench.advance(LINGER_MS)
    await first
    await bench.advance(PROMPT_MS)
    bench.grant([two])
    await bench.advance(PROMPT_MS)
    assert bench.releases() == []
    poll(bench, "other", max_runs=1)
    await bench.advance(2 * PROMPT_MS)
    assert bench.releases() == [two.run_id]


async def test_a_run_due_after_the_end_of_a_poll_is_not_asked_for(bench: Bench) -> None:
    task = poll(bench, max_runs=1, wait_ms=500)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=600))
    assert await sent_requests(bench) == []
    await bench.advance(500)
    assert await task == []


async def test_a_worker_that_was_answered_empty_may_be_back_for_a_late_grant(bench: Bench) -> None:
    await make_prompt(bench)
    task = poll(bench, max_runs=1, wait_ms=1000)
    await bench.advance(400)
    bench.offers(bench.offer(1, due_in_ms=1200))
    await bench.advance(600 + LAST_GRANTS_MS)
    assert await task == []
    request = bench.requests()[-1]
    bench.grant([request])
    again = poll(bench, max_runs=1)
    await bench.settle()
    assert [grant.run_id for grant in await again] == [request.run_id]
    assert bench.releases() == []


async def test_a_worker_that_was_filled_is_not_judged(bench: Bench) -> None:
    await make_prompt(bench)
    full = poll(bench, max_runs=1)
    await bench.settle()
    bench.offers(bench.offer(5))
    bench.grant((await sent_requests(bench))[1:])
    await bench.settle()
    await full
    await bench.advance(5_000)
    poll(bench, max_runs=10)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=300), bench.offer(2, due_in_ms=800))
    assert [request.job_id for request in await sent_requests(bench)][2:] == ["job1", "job2"]


async def test_a_defect_in_one_alarm_does_not_stop_the_others(bench: Bench) -> None:
    def broken() -> None:
        raise RuntimeError("defect")

    task = poll(bench, wait_ms=1000)
    await bench.settle()
    bench.client._alarms.after(500, broken)
    with pytest.raises(RuntimeError, match="defect"):
        bench.clock.advance(500)
    await bench.advance(500)
    assert await task == []


async def test_a_poll_ends_empty_after_its_wait(bench: Bench) -> None:
    task = poll(bench, wait_ms=20_000)
    await bench.advance(19_999)
    assert not task.done()
    await bench.advance(1)
    assert await task == []


async def test_a_poll_that_asks_not_to_wait_gets_one_turn_of_the_protocol(bench: Bench) -> None:
    task = poll(bench, wait_ms=0)
    await bench.advance(WAIT_MS_MIN - 1)
    assert not task.done()
    await bench.advance(1)
    assert await task == []


async def test_a_poll_at_its_end_waits_a_little_for_requests_in_flight_and_asks_for_no_more(bench: Bench) -> None:
    task = poll(bench, max_runs=2, wait_ms=1000)
    await bench.advance(930)
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    await bench.advance(100)
    bench.offers(bench.offer(2))
    assert len(await sent_requests(bench)) == 1
    assert not task.done()
    bench.grant([request])
    assert len(await task) == 1


async def test_a_repeat_with_the_same_request_id_takes_over_the_wait(bench: Bench) -> None:
    first = poll(bench, max_runs=1, request_id="r1")
    await bench.settle()
    second = poll(bench, max_runs=1, request_id="r1")
    await bench.settle()
    assert await first == []
    bench.offers(bench.offer(1), bench.offer(2))
    requests = await sent_requests(bench)
    assert len(requests) == 1
    bench.grant(requests)
    assert len(await second) == 1


async def test_a_lost_answer_is_given_again_with_the_same_tokens(bench: Bench) -> None:
    first = poll(bench, max_runs=1, request_id="r1")
    await bench.settle()
    bench.offers(bench.offer(1))
    bench.grant(await sent_requests(bench), token=4)
    granted = await first
    await bench.advance(9_000)
    assert await poll(bench, max_runs=1, request_id="r1") == granted
    assert granted[0].lease_token == 4


async def test_an_answer_is_not_kept_once_its_run_was_heard_from(bench: Bench) -> None:
    first = poll(bench, max_runs=1, request_id="r1")
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    bench.grant([request])
    await first
    beat = asyncio.create_task(bench.client.heartbeat([(request.run_id, 1)]))
    await bench.settle()
    again = poll(bench, max_runs=1, request_id="r1", wait_ms=1000)
    await bench.advance(1000)
    assert await again == []
    beat.cancel()


async def test_a_closed_connection_keeps_its_place_for_two_seconds(bench: Bench) -> None:
    first = poll(bench, max_runs=1, request_id="r1")
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    first.cancel()
    await bench.advance(100)
    bench.grant([request])
    await bench.advance(KEEP_PLACE_MS - 200)
    assert [grant.run_id for grant in await poll(bench, max_runs=1, request_id="r1")] == [request.run_id]
    await bench.advance(10_000)
    assert bench.releases() == []


async def test_runs_of_a_closed_connection_that_nobody_fetches_are_released(bench: Bench) -> None:
    first = poll(bench, max_runs=1, request_id="r1")
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    first.cancel()
    await bench.advance(100)
    bench.grant([request])
    await bench.advance(KEEP_PLACE_MS)
    assert bench.releases() == [request.run_id]


async def test_a_closed_connection_asks_for_nothing_new(bench: Bench) -> None:
    first = poll(bench, max_runs=5, request_id="r1")
    await bench.settle()
    first.cancel()
    await bench.settle()
    bench.offers(bench.offer(1))
    assert await sent_requests(bench) == []


async def test_a_tenants_rate_bounds_its_requests(bench: Bench) -> None:
    bench.client.desk.set_lease_rate("t", 2)
    poll(bench, max_runs=10)
    await bench.settle()
    bench.offers(*(bench.offer(number) for number in range(10)))
    assert len(await sent_requests(bench)) == 2
    await bench.advance(1000)
    assert len(bench.requests()) == 4


async def test_requests_that_were_not_written_free_their_slots(bench: Bench) -> None:
    poll(bench, max_runs=1)
    await bench.settle()
    bench.link.failure = "not_written"
    bench.offers(bench.offer(1))
    await bench.advance(60)
    bench.link.failure = None
    bench.offers(bench.offer(1))
    assert [request.job_id for request in await sent_requests(bench)] == ["job1"]


async def test_stopping_answers_waiting_polls_empty_and_releases_ready_grants(bench: Bench) -> None:
    first = poll(bench, "w", max_runs=5)
    waiting = poll(bench, "idle", queue="other")
    await bench.settle()
    bench.offers(bench.offer(1), bench.offer(2))
    one, two = await sent_requests(bench)
    bench.grant([one])
    await bench.advance(LINGER_MS)
    await first
    bench.grant([two])
    await bench.client.stop()
    assert await waiting == []
    assert bench.releases() == [two.run_id]
    assert bench.link.demands[-1].queues == ()


@pytest.mark.parametrize("late", ["before the last step", "in the same moment"])
async def test_a_grant_that_comes_while_it_stops_is_handed_back(bench: Bench, late: str) -> None:
    """Or its run would wait for a whole lease: what the packer holds at the end is sent."""
    poll(bench, "w", max_runs=5)
    await bench.settle()
    bench.offers(bench.offer(1))
    (one,) = await sent_requests(bench)
    bench.client.begin_stop()
    if late == "before the last step":
        await bench.advance(1)
    bench.grant([one])
    await bench.client.stop()
    assert bench.releases() == [one.run_id]


async def test_thousands_of_workers_wait_without_a_task_or_timer_each(bench: Bench) -> None:
    desk = bench.client.desk
    polls = [
        desk.poll("t", f"q{number % 50}", f"w{number}", max_runs=1, visibility_ms=30_000, wait_ms=20_000)
        for number in range(5_000)
    ]
    assert sum(waiting for waiting, _ in desk.polling().values()) == 5_000
    await bench.advance(20_000)
    assert all(item.future.done() for item in polls)
    assert desk.polling() == {}


@pytest.mark.parametrize("answer", [lambda r: Reply(code="ok", job_id=r.job_id), None])
async def test_nothing_of_a_finished_poll_stays_behind(bench: Bench, answer: Callable[[Any], Reply] | None) -> None:
    task = poll(bench, max_runs=1, wait_ms=1000)
    await bench.settle()
    bench.offers(bench.offer(1))
    (request,) = await sent_requests(bench)
    if answer is not None:
        bench.reply([(request, answer(request))])
    await bench.advance(3 * SWEEP_MS)
    await task
    assert bench.client.desk._waiters == {}
    assert bench.client.desk.requests_in_flight == 0


async def test_requests_in_flight_are_repeated_to_a_new_owner_of_their_partition(bench: Bench) -> None:
    bench.link.say_owners({3: "http://127.0.0.1:1", 4: "http://127.0.0.1:1"})
    task = poll(bench, max_runs=2)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=500), partition=3)
    bench.offers(bench.offer(2, due_in_ms=500), partition=4)
    asked = await sent_requests(bench)
    assert len(asked) == 2
    bench.link.say_owners({3: "http://127.0.0.1:2"})
    repeated = (await sent_requests(bench))[2:]
    assert [(request.run_id, request.request_id) for request in repeated] == [("run_job1_x", asked[0].request_id)]
    task.cancel()


async def test_an_owner_that_says_its_name_again_is_no_new_owner(bench: Bench) -> None:
    bench.link.say_owners({3: "http://127.0.0.1:1"})
    task = poll(bench)
    await bench.settle()
    bench.offers(bench.offer(1, due_in_ms=500), partition=3)
    assert len(await sent_requests(bench)) == 1
    bench.link.say_owners({3: "http://127.0.0.1:1"})
    assert len(await sent_requests(bench)) == 1
    task.cancel()
