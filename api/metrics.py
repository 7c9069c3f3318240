"""Metrics of the gateway (Prometheus). `TABLE` has every name with kind, labels and meaning; a test holds code to it.

Labels are routes, statuses, tenants, queues, outcomes and kinds: never an id of a job, run, worker or request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from api.dispatch.client import DispatchClient

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)
"""From a quick answer to the end of a long poll."""

LATENESS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600)
"""Around the promises: 25 ms idle, 1 s, 5 s, 15 s after a crash."""


class Row(NamedTuple):
    """One metric."""

    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str


TABLE: Final[Mapping[str, Row]] = {
    "horolog_gateway_http_requests_total": Row("counter", ("route", "status"), "Calls answered."),
    "horolog_gateway_http_request_seconds": Row(
        "histogram", ("route",), "Time to the answer, waiting of a lease included."
    ),
    "horolog_gateway_lateness_seconds": Row("histogram", (), "From a run's due time to its grant's arrival here."),
    "horolog_gateway_runs_leased_total": Row("counter", (), "Runs handed to workers."),
    "horolog_gateway_runs_reported_total": Row(
        "counter", ("kind", "code"), "Heartbeats, completions, failures and releases, by answer."
    ),
    "horolog_gateway_polling_calls": Row("gauge", ("tenant", "queue"), "Lease calls that wait."),
    "horolog_gateway_free_slots": Row("gauge", ("tenant", "queue"), "Free slots of waiting calls."),
    "horolog_gateway_ready_offers": Row("gauge", ("tenant", "queue"), "Offers at hand."),
    "horolog_gateway_lease_requests_in_flight": Row("gauge", (), "Lease requests without an answer."),
    "horolog_gateway_lease_requests_refused_total": Row("counter", (), "Lease requests that owners refused."),
    "horolog_gateway_grants_released_total": Row("counter", (), "Grants that nobody took."),
    "horolog_gateway_offers_dropped_total": Row("counter", (), "Offers dropped because a list was full."),
    "horolog_gateway_commands_total": Row("counter", ("command",), "Commands written."),
    "horolog_gateway_commands_pending": Row("gauge", (), "Commands without an answer."),
    "horolog_gateway_command_failures_total": Row("counter", ("kind",), "Command records that were not written."),
    "horolog_gateway_partitions_owned": Row("gauge", (), "Partitions that have an owner."),
    "horolog_gateway_ready": Row("gauge", (), "1 if this gateway takes calls."),
}


class Metrics:
    """The metrics of one gateway, in a registry of its own."""

    def __init__(self, client: DispatchClient) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("horolog_gateway_http_requests_total")
        self._seconds = self._histogram("horolog_gateway_http_request_seconds", SECONDS_BUCKETS)
        self._lateness = self._histogram("horolog_gateway_lateness_seconds", LATENESS_BUCKETS)
        self._leased = self._counter("horolog_gateway_runs_leased_total")
        self._reported = self._counter("horolog_gateway_runs_reported_total")
        self.registry.register(_ClientCollector(client))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a call."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def leased(self, lateness_ms: list[int]) -> None:
        """Count runs handed to a worker, by how late each is (milliseconds)."""
        self._leased.inc(len(lateness_ms))
        observe = self._lateness.observe
        for late_ms in lateness_ms:
            observe(max(late_ms, 0) / 1000)

    def reported(self, kind: str, codes: Mapping[str, int]) -> None:
        """Count what workers said, by the code of the answer."""
        for code, count in codes.items():
            self._reported.labels(kind, code).inc(count)

    def text(self) -> bytes:
        """Give the exposition."""
        return generate_latest(self.registry)

    def _counter(self, name: str) -> Counter:
        row = TABLE[name]
        return Counter(name, row.meaning, row.labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        row = TABLE[name]
        return Histogram(name, row.meaning, row.labels, registry=self.registry, buckets=buckets)


class _ClientCollector(Collector):
    """Reads the dispatch client when it is asked, so that the hot path counts nothing twice."""

    def __init__(self, client: DispatchClient) -> None:
        self._client = client

    def collect(self) -> Iterator[Metric]:
        client, desk = self._client, self._client.desk
        polling = desk.polling()
        calls = {key: count for key, (count, _) in polling.items()}
        free = {key: slots for key, (_, slots) in polling.items()}
        yield _family("horolog_gateway_polling_calls", calls)
        yield _family("horolog_gateway_free_slots", free)
        yield _family("horolog_gateway_ready_offers", desk.ready_counts())
        yield _family("horolog_gateway_lease_requests_in_flight", {(): desk.requests_in_flight})
        yield _family("horolog_gateway_lease_requests_refused_total", {(): desk.refused_total})
        yield _family("horolog_gateway_grants_released_total", {(): desk.released_total})
        yield _family("horolog_gateway_offers_dropped_total", {(): desk.offers_dropped_total})
        yield _family("horolog_gateway_commands_total", {(name,): n for name, n in client.commands_total.items()})
        yield _family("horolog_gateway_commands_pending", {(): client.pending})
        failures = {(kind,): count for kind, count in client.send_failures_total.items()}
        yield _family("horolog_gateway_command_failures_total", failures)
        yield _family("horolog_gateway_partitions_owned", {(): client.partitions_owned})
        yield _family("horolog_gateway_ready", {(): int(client.ready)})


def _family(name: str, values: Mapping[Any, float]) -> Metric:
    row = TABLE[name]
    family = (
        CounterMetricFamily(name, row.meaning, labels=row.labels)
        if row.kind == "counter"
        else GaugeMetricFamily(name, row.meaning, labels=row.labels)
    )
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
