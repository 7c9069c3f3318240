"""Another zone database moves each open cursor that it touches once, at once, and says so (issue 5, item 5; A60)."""

from __future__ import annotations

from typing import Any

import msgspec

from streams.core.commands import Pause
from streams.core.events import CursorMoved
from streams.core.time import INSTALLED_ZONE_DATA, CronSpec, IntervalSpec, ZoneData
from streams.zone_sweep import META_KEY, PAGE

OLD = ZoneData("2000a")
"""Only the name differs: what a version changes is the business of tests/core/time."""

HOUR_MS = 3_600_000


def cron(make_job: Any, job_id: str) -> Any:
    spec = CronSpec(expression="0 9 * * *", time_zone="Africa/Cairo")
    return msgspec.structs.replace(make_job(job_id), schedule=spec)


def interval(make_job: Any, job_id: str) -> Any:
    return msgspec.structs.replace(make_job(job_id), schedule=IntervalSpec(every_ms=24 * HOUR_MS, anchor_ms=1))


def moved(rig: Any) -> list[tuple[str, CursorMoved]]:
    return [(e.job_id, event) for e in rig.history for event in e.events if isinstance(event, CursorMoved)]


def test_each_job_that_reads_zone_data_is_recomputed_once_after_an_upgrade(make_rig: Any, make_job: Any) -> None:
    old = make_rig(zone_data=OLD)
    for number in range(PAGE + 5):
        old.define(cron(make_job, f"cron-{number}"))
    old.define(interval(make_job, "interval"))
    old.run()

    new = make_rig(store=old.store)
    new.run()

    assert sorted(job_id for job_id, _ in moved(new)) == sorted(f"cron-{number}" for number in range(PAGE + 5))
    assert {event.zone_data_from for _, event in moved(new)} == {OLD.version}
    assert {event.zone_data_to for _, event in moved(new)} == {INSTALLED_ZONE_DATA.version}
    assert new.shard.job("cron-0").state.zone_data == INSTALLED_ZONE_DATA.version

    new.advance(10_000)
    new.run()
    assert META_KEY in new.store.meta
    again = make_rig(store=new.store)
    again.run()
    assert moved(again) == []


def test_a_store_that_was_swept_under_this_version_is_not_swept_again(make_rig: Any, make_job: Any) -> None:
    rig = make_rig()
    rig.define(cron(make_job, "j"))
    rig.run()
    rig.advance(10_000)
    rig.run()

    again = make_rig(store=rig.store)

    assert not again.shard.has_work()


def test_a_paused_job_whose_slot_has_passed_is_looked_at_once_after_an_upgrade(make_rig: Any, make_job: Any) -> None:
    """Found by seed 7 of the long simulation: such jobs were looked at ten times a second until their pause ended."""
    old = make_rig(zone_data=OLD)
    old.define(cron(make_job, "paused"))
    old.send(Pause(job_id="paused", actor="ann", until_ms=old.now_ms + 48 * HOUR_MS))
    old.run()

    new = make_rig(store=old.store, begin=False)
    new.now_ms += 12 * HOUR_MS
    new.commit(new.shard.first_batch())
    new.run()
    new.advance(10)
    new.run()

    assert new.shard.next_collect_ms() > new.now_ms + 5_000
