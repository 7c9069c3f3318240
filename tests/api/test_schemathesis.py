"""Schemathesis attacks every documented route: whatever it sends, the answer is documented, and never a 500.

Right and wrong data, derandomized, against a gateway over HTTP whose owner decides in memory. Ids in paths are those of
jobs, runs and queues that exist, half of the time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import ROUTES
from api.auth import Auth
from api.gateway import Limits
from api.openapi import document_of
from streams.core.wire import decode_state, encode_state

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = int(os.environ.get("HOROLOG_SCHEMATHESIS_EXAMPLES", "8"))
"""Of each kind of data for each route: some 15 s of CPU in all."""

CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    not_a_server_error,
]
UNAVAILABLE = {503, 504}
"""Server errors that are no defect: documented, and asked for by nothing here; the test counts them."""

IDS: dict[str, tuple[str, ...]] = {
    "job_id": ("cron", "once", "dead", "gone", "paused"),
    "run_id": ("run_once_x", "run_cron_t", "run_dead_x"),
    "queue": ("default", "other"),
    "tenant": ("default", "other"),
    "backfill_id": ("b-1",),
    "calendar": ("holidays", "none"),
    "key": ("limited", "customer:42"),
}


def _strict(document: dict[str, Any]) -> dict[str, Any]:
    """Answers may hold what is documented only."""
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("Answer") and name != "ProblemAnswer" and "properties" in schema:
            schema["additionalProperties"] = False
    return document


SCHEMA = schemathesis.openapi.from_dict(_strict(document_of(ROUTES)))
OPERATIONS: dict[str, Any] = {
    f"{route.method} {route.path}": SCHEMA[route.path][route.method] for route in ROUTES if not route.hidden
}


class Service:
    """A gateway in a thread of its own."""

    def __init__(self, serving: Any) -> None:
        self._serving = serving
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.base = ""
        self.api: Any = None

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        limits = Limits(partitions=4, lease_wait_ms_max=300)
        async with self._serving(Auth(None), limits, reply_timeout_ms=3_000) as api:
            self.api = api
            await _fill(api)
            self.base = api.base
            self._started.set()
            await self._stop.wait()

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(30)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()


async def _fill(api: Any) -> None:
    assert (await api("PUT", "/v1/calendars/holidays", {"dates": ["2027-12-25"]})).status == 201
    daily = {"schedule": {"cron": "0 9 * * *"}, "delaySeconds": None}
    await api.create(jobId="cron", **daily, labels={"team": "a"})
    await api.create(jobId="paused", **daily)
    await api.create(jobId="gone", **daily)
    await api.create(jobId="dead", **daily, retry={"maxAttempts": 1}, queue="other")
    await api.create(jobId="once", delaySeconds=86_400)
    assert (await api("POST", "/v1/jobs/paused/pause", {})).status == 200
    assert (await api("DELETE", "/v1/jobs/gone")).status == 200
    assert (await api("POST", "/v1/jobs/dead/trigger", {})).status == 201
    (run,) = await api.lease("other", waitSeconds=0.3)
    failed = {"leaseToken": run["leaseToken"], "error": "no", "retryable": False}
    assert (await api("POST", f"/v1/runs/{run['runId']}/fail", failed)).body["outcome"] == "dead"
    IDS["run_id"] = (*IDS["run_id"][:2], run["runId"])


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    service = Service(request.getfixturevalue("serve_once"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


CASES = [
    pytest.param(label, mode, id=f"{label} {name}")
    for label, operation in OPERATIONS.items()
    for mode, name in ((GenerationMode.POSITIVE, "right"), (GenerationMode.NEGATIVE, "wrong"))
    if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.headers
]
"""Where nothing is taken, nothing can be wrong."""


@pytest.mark.parametrize(("label", "mode"), CASES)
def test_every_answer_is_documented(
    service: Service, session: requests.Session, label: str, mode: GenerationMode
) -> None:
    operation = OPERATIONS[label]
    answered: list[int] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans(), pick=st.integers(0, 100))
    def attack(case: Any, known: bool, pick: int) -> None:  # noqa: FBT001 - drawn
        if known:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = IDS[name][pick % len(IDS[name])]
        response = case.call(base_url=service.base, session=session)
        answered.append(response.status_code)
        case.validate_response(response, checks=CHECKS)

    attack()
    assert answered
    assert not UNAVAILABLE & set(answered) or label == "GET /readyz"


def test_what_was_accepted_can_be_stored(service: Service) -> None:
    jobs = service.api.owner.jobs
    assert jobs
    for job in jobs.values():
        assert decode_state(encode_state(job.state)) == job.state
