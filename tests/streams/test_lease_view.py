"""The public view of leases: at every offset, who holds what, and how it ended."""

from __future__ import annotations

from typing import Any

from streams.core.commands import CancelRun, Complete, Fail, Heartbeat, Release
from streams.core.decide_lease import RENEWAL_LOGGED_EVERY_MS
from streams.core.definition import Retry

VISIBILITY_MS = 30_000


def leased(rig: Any, make_job: Any, **fields: Any) -> Any:
    """A job with a leased run; returns the grant."""
    at_ms = rig.now_ms - 1
    rig.define(make_job("j", at_ms=at_ms, **fields))
    request = rig.lease("j", at_ms)
    rig.send(request)
    rig.run()
    return rig.grant(request.request_id)


def test_a_grant_says_who_holds_the_run_and_until_when(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    (view,) = rig.leases
    assert (view.run_id, view.job_id, view.tenant, view.queue) == (grant.run_id, "j", "a", "q")
    assert (view.worker_id, view.gateway_id, view.lease_token, view.attempt) == ("w", "g", 1, 1)
    assert (view.expires_at_ms, view.closed, view.outcome) == (grant.expires_at_ms, None, None)


def test_a_completion_closes_the_lease_with_its_outcome(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    rig.send(Complete(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    view = rig.leases[-1]
    assert (view.closed, view.outcome, view.closed_at_ms) == ("succeeded", "succeeded", rig.now_ms)


def test_a_failure_that_is_retried_has_no_outcome(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    rig.send(Fail(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    assert (rig.leases[-1].closed, rig.leases[-1].outcome) == ("failed", None)


def test_the_last_failure_says_that_the_run_is_dead(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job, retry=Retry(max_attempts=1))
    rig.send(Fail(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    assert (rig.leases[-1].closed, rig.leases[-1].outcome) == ("failed", "dead")


def test_a_release_and_a_cancel_close_the_lease(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    rig.send(Release(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    assert (rig.leases[-1].closed, rig.leases[-1].outcome) == ("released", None)
    request = rig.lease("j", rig.now_ms - 1)
    rig.send(request)
    rig.run()
    rig.send(CancelRun(job_id="j", run_id=grant.run_id))
    rig.send(Fail(job_id="j", run_id=grant.run_id, lease_token=2))
    rig.run()
    assert (rig.leases[-1].lease_token, rig.leases[-1].closed, rig.leases[-1].outcome) == (2, "cancelled", "cancelled")


def test_an_expiry_closes_the_lease(rig: Any, make_job: Any) -> None:
    leased(rig, make_job)
    rig.advance(VISIBILITY_MS + 1)
    rig.shard.commands_end(rig.now_ms, rig.shard.inbox.consumed["commands"])
    rig.run()
    assert (rig.leases[-1].closed, rig.leases[-1].outcome) == ("expired", None)


def test_a_live_lease_is_told_again_with_each_logged_renewal(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    for _ in range(3 * RENEWAL_LOGGED_EVERY_MS // 20_000):
        rig.advance(20_000)
        rig.send(Heartbeat(job_id="j", run_id=grant.run_id, lease_token=1))
        rig.run()
    renewed = rig.leases[1:]
    assert len(renewed) == 3
    assert {(view.run_id, view.lease_token, view.attempt, view.closed) for view in renewed} == {
        (grant.run_id, 1, 1, None)
    }
    assert [view.expires_at_ms for view in renewed] == sorted({view.expires_at_ms for view in renewed})
    assert renewed[-1].expires_at_ms == rig.now_ms + VISIBILITY_MS


def test_a_refused_completion_changes_nothing_in_the_view(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    rig.send(Complete(job_id="j", request_id="c", run_id=grant.run_id, lease_token=9))
    rig.run()
    assert rig.reply("c").code == "lease_lost"
    assert len(rig.leases) == 1
