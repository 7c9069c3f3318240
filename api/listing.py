"""Walks over the jobs of all partitions, page by page, for lists and for bulk calls.

A walk asks at most PAGES_MAX questions; one that finds little ends early and goes on from its cursor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from api.cursors import Place, read_token
from api.http_call import bad_header
from api.problems import Problem
from api.routes.route import Param
from streams.core.job_filter import JobFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from api.gateway import Gateway
    from api.http_call import HttpCall
    from api.queries import SeenJob
    from streams.core.job_filter import JobStanding

LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1_000
OWNER_PAGE: Final = 200
PAGES_MAX: Final = 64
TOKENS_MAX: Final = 16

TEXT_CHARS_MAX: Final = 256
"""Of a filter: the longest name has 128."""

LABELS_MAX: Final = 16

JOB_STATES: Final = ("active", "paused", "finished", "deleted")

PAGING: Final = (
    Param("limit", f"Rows of a page; default {LIST_DEFAULT}.", "integer", 1, LIST_MAX),
    Param("cursor", "`nextCursor` of the page before."),
)
CONSISTENCY: Final = Param(
    "consistency", "`consistencyToken` of an earlier answer, which the list must show.", many=True
)
JOB_FILTERS: Final = (
    Param("queue", "Jobs of this queue."),
    Param("label", "`key:value`; all that are given must match.", many=True),
    Param("text", "Part of the name, task or job id, in any case of letters."),
)


class Walk:
    """Jobs that match, in the order of partitions and ids. `place` is where the next walk goes on."""

    def __init__(self, gateway: Gateway, wanted: JobFilter, place: Place, *, page: int = OWNER_PAGE) -> None:
        self._gateway, self._wanted = gateway, wanted
        self._page = min(page, OWNER_PAGE)
        self.place = place

    @property
    def ended(self) -> bool:
        """Whether there is nothing behind `place`."""
        return self.place.partition >= self._gateway.limits.partitions

    async def jobs(self) -> AsyncIterator[SeenJob]:
        """Give one job after the other; each moves `place` behind it before it is given. Raises Problem `no_owner`."""
        for _ in range(PAGES_MAX):
            if self.ended:
                return
            partition, after = self.place.partition, self.place.after
            page = await self._gateway.queries.page(partition, after, self._page, self._wanted)
            for job in page.jobs:
                self.place = Place(partition, job.state.job_id)
                yield job
            self.place = Place(partition + 1) if page.next_after is None else Place(partition, page.next_after)


def read_filter(call: HttpCall, *, standing: bool = True) -> JobFilter:
    """Read the filters of a list from its query. `standing`: its `state` is that of jobs. Raises Problem."""
    query = call.request.query
    labels: dict[str, str] = {}
    for label in query.getall("label", []):
        key, colon, value = label.partition(":")
        if not colon or len(labels) >= LABELS_MAX:
            raise bad_header("label", f"key:value, at most {LABELS_MAX} times")
        labels[key] = value
    for name in ("text", "namePrefix"):
        if len(query.get(name, "")) > TEXT_CHARS_MAX:
            raise bad_header(name, f"at most {TEXT_CHARS_MAX} characters")
    return JobFilter(
        tenant=call.caller.tenant,
        queue=query.get("queue", ""),
        standing=cast("JobStanding", call.choice("state", JOB_STATES) or "") if standing else "",
        name_prefix=query.get("namePrefix", ""),
        text=query.get("text", ""),
        labels=labels,
        calendar=query.get("calendar", ""),
        next_from_ms=call.instant("nextFrom"),
        next_until_ms=call.instant("nextUntil"),
    )


async def wait_until_shown(call: HttpCall) -> None:
    """Wait until stores show what the call's consistency tokens name. Raises Problem `not_caught_up` after 2 s."""
    tokens = call.request.query.getall("consistency", [])
    if len(tokens) > TOKENS_MAX:
        raise bad_header("consistency", f"at most {TOKENS_MAX} times")
    shown = await asyncio.gather(*(call.gateway.shows(read_token(token)) for token in tokens))
    if not all(shown):
        detail = "consistency: the scheduler does not show that change yet; repeat the call in a second."
        raise Problem("not_caught_up", detail, field="consistency")
