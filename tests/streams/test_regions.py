"""When an acknowledged write is in both regions, judged on paper; tests/chaos/test_regions.py does it on brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.cli import EXIT_USAGE, run
from streams.kafka_dev import KafkaCluster, KafkaDevError
from streams.regions import may_miss

if TYPE_CHECKING:
    from pathlib import Path

REGIONS = ("east", "west")


@pytest.mark.parametrize(
    ("replicas", "required", "missed"),
    [
        (("east", "west"), 2, []),
        (("east", "west"), 1, ["east", "west"]),
        (("east", "west", "witness"), 2, ["east", "west"]),  # one region and the witness are enough to acknowledge
        (("east", "west", "witness"), 3, []),
        (("east", "east", "west", "west"), 3, []),
        (("east", "east", "west", "west"), 2, ["east", "west"]),
        (("east", "east", "east", "west"), 3, ["west"]),
        (("east", "east"), 2, ["west"]),
    ],
)
def test_a_write_is_in_a_region_if_more_copies_are_required_than_lie_outside_it(
    replicas: tuple[str, ...], required: int, missed: list[str]
) -> None:
    assert may_miss(replicas, required, REGIONS) == missed


def test_the_witness_of_a_region_pair_votes_and_holds_no_data(tmp_path: Path) -> None:
    cluster = KafkaCluster.region_pair(tmp_path, REGIONS, ports=30_000)
    east, west, witness = [node.server_properties() for node in cluster.nodes]

    assert [node.is_witness for node in cluster.nodes] == [False, False, True]
    assert (east["broker.rack"], west["broker.rack"]) == REGIONS
    assert witness["process.roles"] == "controller"
    assert "advertised.listeners" not in witness
    assert cluster.bootstrap_servers == "127.0.0.1:30000,127.0.0.1:30003"
    assert witness["controller.quorum.voters"] == east["controller.quorum.voters"]
    kept = ("min.insync.replicas", "transaction.state.log.min.isr", "offsets.topic.replication.factor")
    assert {properties[name] for properties in (east, west, witness) for name in kept} == {"2"}


def test_a_cluster_of_witnesses_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaDevError, match="at least one must be a broker"):
        KafkaCluster(tmp_path, nodes=2, witnesses=2)


@pytest.mark.parametrize("names", ["east", "east,", "east,east", "east,west,north"])
def test_a_region_pair_has_two_different_names(names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kafka", "start", "--root", str(tmp_path / "k"), "--regions", names]) == EXIT_USAGE
    assert "east,west" in capsys.readouterr().err
