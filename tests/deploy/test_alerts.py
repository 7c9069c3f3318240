"""The alert rules name metrics that exist, with labels that they have, and each says what to do next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from api.metrics import TABLE
from streams.observe import METRICS
from tests.deploy.promql import PromqlError, duration_s, parse

ROOT: Final = Path(__file__).parents[2]
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/alerts/horolog.rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
DOCUMENT: Final = (ROOT / "docs/alerts.md").read_text()

OF_THE_TARGET: Final = frozenset({"instance", "job"})
"""Labels that Prometheus itself puts on what it scrapes."""


class Sample(NamedTuple):
    """One series name as it is exposed."""

    kind: str
    labels: frozenset[str]


def samples() -> dict[str, Sample]:
    """Every series name of both processes, from the tables that their own tests hold to what is exposed."""
    found: dict[str, Sample] = {}
    for name, (kind, own_labels, _) in [*METRICS.items(), *TABLE.items()]:
        labels = frozenset(own_labels) | OF_THE_TARGET
        if kind == "histogram":
            found[f"{name}_bucket"] = Sample("counter", labels | {"le"})
            found |= {f"{name}_{part}": Sample("counter", labels) for part in ("sum", "count")}
        else:
            found[name] = Sample(kind, labels)
    return found


SAMPLES: Final = samples()
EACH: Final = pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])


def test_what_the_design_and_the_cases_ask_for_is_there() -> None:
    assert sorted(rule["alert"] for rule in RULES) == [
        "HorologClockSkew",
        "HorologDeadLetters",
        "HorologJobQuarantined",
        "HorologLatenessP99",
        "HorologLeaseExpiries",
        "HorologOldestReadyRun",
        "HorologOutOfGroup",
        "HorologOverdueSlot",
        "HorologPartitionWithoutOwner",
        "HorologRateGuard",
        "HorologWatchdogEnd",
    ]


@EACH
def test_a_rule_names_metrics_that_exist_with_labels_that_they_have(rule: dict[str, Any]) -> None:
    expression = parse(rule["expr"])
    assert expression.selectors
    for selector in expression.selectors:
        assert selector.metric in SAMPLES
        assert selector.matched <= SAMPLES[selector.metric].labels
        # A counter is read through its increase, and a gauge has none.
        assert selector.is_range == (SAMPLES[selector.metric].kind == "counter")
    for labels, grouped in expression.grouped:
        assert all(labels <= SAMPLES[selector.metric].labels for selector in grouped)


@EACH
def test_a_rule_has_what_prometheus_and_people_need(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    if "for" in rule:
        assert 0 < duration_s(rule["for"]) <= 300
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert set(rule["annotations"]) == {"summary", "runbook"}
    anchor, _, advice = rule["annotations"]["runbook"].partition(": ")
    assert anchor == f"docs/alerts.md#{rule['alert'].lower()}"
    assert advice
    assert f"\n## {rule['alert']}\n" in DOCUMENT


@EACH
def test_a_sentence_uses_only_labels_that_its_result_has(rule: dict[str, Any]) -> None:
    expression = parse(rule["expr"])
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    kept = set[str]().union(*(SAMPLES[selector.metric].labels for selector in expression.selectors))
    if expression.grouped:
        kept = set(expression.grouped[-1][0])
    assert used <= kept


def test_the_numbers_of_the_design_stand_in_the_rules() -> None:
    by_name = {rule["alert"]: rule for rule in RULES}
    late = by_name["HorologLatenessP99"]
    assert late["expr"].startswith("histogram_quantile(0.99,")
    assert (late["expr"].endswith("> 5"), late["for"]) == (True, "5m")
    assert by_name["HorologOldestReadyRun"]["expr"].endswith("> 30")
    assert "> 0.0001 *" in by_name["HorologLeaseExpiries"]["expr"]
    assert by_name["HorologPartitionWithoutOwner"]["for"] == "30s"


def test_an_owner_that_does_nothing_is_told_within_half_a_minute() -> None:
    """B02: the age, a scrape, an evaluation, and `for` all together."""
    text = (ROOT / "deploy/alerts/horolog.rules.yml").read_text()
    [group] = yaml.safe_load(text)["groups"]
    rule = next(rule for rule in RULES if rule["alert"] == "HorologOverdueSlot")
    age_s = float(rule["expr"].rpartition(">")[2])
    scrape_s = 5
    assert f"every {scrape_s} s" in text
    assert age_s >= 15  # the death of an owner is promised to cost no more, and wakes nobody
    assert age_s + scrape_s + duration_s(group["interval"]) + duration_s(rule["for"]) <= 30


@pytest.mark.parametrize(
    "text",
    [
        "",
        "max(",
        "max(horolog_x) >",
        "predict_linear(horolog_x[5m], 3)",
        "rate(horolog_x)",
        "horolog_x[5m]",
        "abs(horolog_x[5m])",
        "sum by code (horolog_x)",
        'horolog_x{code~"a"}',
        "horolog_x > 5 5",
        "rate(horolog_x[5 minutes])",
        "horolog_x > 5s",
        "1 or or 2",
    ],
)
def test_the_reader_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(PromqlError):
        parse(text)


def test_the_reader_finds_metrics_labels_and_groups() -> None:
    found = parse('sum by (a, b) (rate(horolog_x{c="d", e=~"f"}[5m])) / 2 > 0.5 or absent(horolog_y)')
    assert [(s.metric, sorted(s.matched), s.is_range) for s in found.selectors] == [
        ("horolog_x", ["c", "e"], True),
        ("horolog_y", [], False),
    ]
    assert found.grouped == ((frozenset({"a", "b"}), (found.selectors[0],)),)


@pytest.mark.parametrize("text", ["0s", "5", "5 m", "m", "1.5h", "-1s"])
def test_a_duration_that_prometheus_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(PromqlError):
        duration_s(text)
