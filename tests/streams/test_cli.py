"""`horologd`: documented exit codes, plain and JSON output, and messages that say what to do next."""

from __future__ import annotations

import json
import sys
import types
from typing import TYPE_CHECKING, Protocol

import pytest

from streams import cli
from streams.kafka_dev import KafkaCluster, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schemas.config import Settings


class Kafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture(autouse=True)
def plain_empty_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HOROLOG_CONFIG", "HOROLOG_KAFKA__BOOTSTRAP_SERVERS", "HOROLOG_KAFKA__NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def on_kafka(kafka: Kafka, namespace: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOROLOG_KAFKA__BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    monkeypatch.setenv("HOROLOG_KAFKA__NAMESPACE", namespace)
    return namespace


@pytest.fixture
def stopped_afterwards(tmp_path: Path) -> Iterator[None]:
    yield
    cluster = KafkaCluster.saved(tmp_path / cli.KAFKA_ROOT)
    if cluster is not None:
        cluster.stop()


@pytest.mark.parametrize(
    "arguments",
    [["kafka", "stauts"], ["kafka", "start", "--nodes", "x"], ["kafka", "start", "--nodes", "0"], ["nonsense"], []],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == cli.EXIT_USAGE
    assert "Usage: horologd" in "".join(capsys.readouterr())


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == cli.EXIT_OK
    assert "Exit codes: 0 ok" in capsys.readouterr().out


def test_config_show_prints_one_json_document_with_secrets_masked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOROLOG_KAFKA__CLIENT", '{"sasl.oauthbearer.client.secret": "hunter2"}')

    assert cli.run(["config", "show", "--output", "json"]) == cli.EXIT_OK
    out = capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["topics.partitions"]["value"] == "8"
    assert rows["kafka.client"]["source"] == "env HOROLOG_KAFKA__CLIENT"
    assert "hunter2" not in out


def test_config_show_is_a_plain_table_when_not_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "show"]) == cli.EXIT_OK
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["name", "value", "source", "description"]
    assert out.isascii()


def test_a_valid_configuration_is_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "check"]) == cli.EXIT_OK
    assert "valid" in capsys.readouterr().out


def test_a_wrong_configuration_exits_with_2_and_names_every_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("[topics]\npartition = 3\nreplication_factor = 0\n")

    assert cli.run(["config", "check", "--config", str(config)]) == cli.EXIT_USAGE
    err = capsys.readouterr().err
    assert "Did you mean topics.partitions?" in err
    assert "topics.replication_factor = 0" in err
    assert cli.run(["config", "check", "--config", str(config), "--output", "json"]) == cli.EXIT_USAGE
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


def test_topics_are_created_then_pass_the_check(on_kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = cli.run(["topics", "check"])
    missing = capsys.readouterr().out
    created = cli.run(["topics", "create"])
    made = capsys.readouterr().out
    after = cli.run(["topics", "check"])

    assert (before, created, after) == (cli.EXIT_FAILED, cli.EXIT_OK, cli.EXIT_OK)
    assert f"Topic {on_kafka}ledger" in missing
    assert "horologd topics create" in missing
    assert "Created 11, 0 existed" in made
    assert "Every topic is as required" in capsys.readouterr().out


def test_topics_list_and_check_speak_json(on_kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topics", "list", "-o", "json"]) == cli.EXIT_OK
    rows = json.loads(capsys.readouterr().out)
    assert cli.run(["topics", "check", "-o", "json"]) == cli.EXIT_FAILED
    findings = json.loads(capsys.readouterr().out)

    assert {row["state"] for row in rows} == {"missing"}
    assert f"{on_kafka}ledger" in {row["name"] for row in rows}
    assert len(findings) == len(rows)
    assert all(finding["topic"] in finding["sentence"] for finding in findings)


def test_repair_ends_with_a_failure_when_topics_are_missing(on_kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topics", "repair"]) == cli.EXIT_FAILED
    assert f"Topic {on_kafka}ledger" in capsys.readouterr().err


def test_an_unreachable_kafka_exits_with_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOROLOG_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr("streams.topic_admin.REQUEST_TIMEOUT_S", 0.5)

    assert cli.run(["topics", "check"]) == cli.EXIT_MISSING
    assert "horologd kafka start" in capsys.readouterr().err


def test_a_gateway_without_kafka_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOROLOG_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr("streams.topic_admin.REQUEST_TIMEOUT_S", 0.5)

    assert cli.run(["gateway"]) == cli.EXIT_MISSING
    (line,) = capfd.readouterr().err.splitlines()
    assert "horologd kafka start" in line


def test_a_gateway_without_topics_names_them(on_kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["gateway"]) == cli.EXIT_FAILED
    said = capsys.readouterr().err
    assert f"Topic {on_kafka}config" in said
    assert "horologd topics create" in said


def test_missing_java_exits_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    assert cli.run(["kafka", "start", "--port", str(free_ports(1)[0].broker)]) == cli.EXIT_MISSING
    assert "Install a Java runtime" in capsys.readouterr().err


def test_status_and_stop_without_a_cluster_say_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["kafka", "status"]) == cli.EXIT_FAILED
    assert "horologd kafka start" in capsys.readouterr().err
    assert cli.run(["kafka", "stop", "--output", "json"]) == cli.EXIT_OK
    assert json.loads(capsys.readouterr().out) == []
    assert cli.run(["kafka", "stop"]) == cli.EXIT_OK
    assert "nothing to stop" in capsys.readouterr().out


@pytest.mark.usefixtures("stopped_afterwards")
def test_kafka_is_started_shown_and_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_ports(1)[0].broker
    started = cli.run(["kafka", "start", "--port", str(port), "--heap-mb", "256"])
    said = capsys.readouterr().out
    shown = cli.run(["kafka", "status", "-o", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    stopped = cli.run(["kafka", "stop", "--delete-data"])

    assert (started, shown, stopped) == (cli.EXIT_OK, cli.EXIT_OK, cli.EXIT_OK)
    assert f"export HOROLOG_KAFKA__BOOTSTRAP_SERVERS=127.0.0.1:{port}" in said
    assert (row["state"], row["address"]) == ("running", f"127.0.0.1:{port}")
    assert "Stopped 1 node(s)." in capsys.readouterr().out
    assert not (tmp_path / cli.KAFKA_ROOT / "node-1").exists()


@pytest.mark.parametrize(
    ("command", "module", "function"),
    [("scheduler", "streams.app", "run_scheduler"), ("gateway", "api.server", "run_gateway")],
)
def test_a_service_gets_the_settings_and_its_result_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, command: str, module: str, function: str
) -> None:
    seen: list[Settings] = []

    def serve(settings: Settings) -> int:
        seen.append(settings)
        return 1

    stand_in = types.ModuleType(module)
    setattr(stand_in, function, serve)
    monkeypatch.setattr(cli, "require_topics_exist", lambda _: None)
    monkeypatch.setitem(sys.modules, module, stand_in)
    monkeypatch.setenv("HOROLOG_KAFKA__NAMESPACE", "mine.")

    assert cli.run([command]) == cli.EXIT_FAILED
    assert [settings.kafka.namespace for settings in seen] == ["mine."]
