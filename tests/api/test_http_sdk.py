"""The SDK's client against the real gateway: the newer routes, so that both sides mean the same by each field."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import horolog

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any


async def test_the_client_and_the_gateway_agree(api: Api) -> None:
    async with horolog.AsyncClient(api.base) as client:
        job = await client.create_job("nightly", job_id="j", cron="0 * * * *", queue="q", labels={"team": "x"})
        listed = await client.list_jobs(text="NIGHT", labels={"team": "x"}, consistency=job.consistency_token)
        assert [one.job_id for one in listed.items] == ["j"]
        next_at = listed.items[0].next_run_at
        assert next_at is not None
        skipped = await client.skip_occurrence("j", at=next_at)
        assert skipped.next_run_at == next_at + dt.timedelta(hours=1)
        start, end = next_at - dt.timedelta(hours=5), next_at - dt.timedelta(hours=1)
        started = await client.backfill_job("j", start=start, end=end, max_concurrent=1)
        assert (started.runs, started.first_at) == (4, start)
        assert started.backfill_id is not None
        (progress,) = await client.list_backfills("j")
        assert (progress.opened, progress.remaining, progress.to) == (1, 3, end)
        assert (await client.stop_backfill("j", started.backfill_id)).state == "ended"
        runs = await client.list_runs(text="night", end=end)
        assert [run.origin for run in runs.items] == ["backfill"]
        paused = await client.change_jobs("pause", labels={"team": "x"}, dry_run=False)
        assert (paused.changed, [item.ok for item in paused.jobs]) == (1, [True])
        assert paused.undo_token is not None
        assert (await client.undo_change(paused.undo_token)).changed == 1
        assert (await client.get_job("j")).state == "active"
        assert (await client.put_tenant("default", max_lease_rate_per_second=9)).max_lease_rate_per_second == 9
        assert (await client.replay_runs(queue="q")).matched == 0


async def test_the_clients_read_what_is_no_json_or_no_shape_of_ours(api: Api) -> None:
    async with horolog.AsyncClient(api.base) as client:
        assert (await client.live()).status == "ok"
        assert "horolog_" in await client.metrics()
        assert (await client.openapi())["openapi"].startswith("3.1")
        with horolog.Client(api.base) as blocking:
            assert "horolog_" in await asyncio.to_thread(blocking.metrics)
