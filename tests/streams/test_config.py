"""Configuration: environment over TOML over defaults, secrets, and errors that name the way out."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from schemas.config import ConfigError, Settings, describe, env_name, load_settings, setting_names

WORD = re.compile(r"[a-z_]+")
LOGIN = {
    "HOROLOG_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "HOROLOG_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
    "HOROLOG_KAFKA__SASL_USERNAME": "scheduler",
}


@pytest.fixture(autouse=True)
def empty_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def toml(text: str, name: str = "horolog.toml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def problems(env: dict[str, str] | None = None, config: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(config, env=env or {})
    return "\n".join(caught.value.problems)


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings(env={})

    assert settings == Settings()
    assert settings.kafka.bootstrap_servers == "127.0.0.1:29092"
    assert (settings.topics.partitions, settings.scheduler.admin_port, settings.gateway.port) == (8, 6066, 8080)


def test_overrides_win_over_environment_over_file_over_default() -> None:
    config = toml("[topics]\npartitions = 2\nlease_partitions = 3\nreply_partitions = 4\n")
    env = {"HOROLOG_TOPICS__LEASE_PARTITIONS": "5", "HOROLOG_TOPICS__REPLY_PARTITIONS": "6"}
    settings = load_settings(config, env=env, overrides={"topics": {"reply_partitions": 7}})

    assert settings.topics.replication_factor == 1
    assert settings.topics.partitions == 2
    assert settings.topics.lease_partitions == 5
    assert settings.topics.reply_partitions == 7


def test_describe_says_where_each_value_came_from() -> None:
    config = toml("[topics]\npartitions = 2\n")
    settings = load_settings(config, {"HOROLOG_LOG__LEVEL": "debug"}, {"kafka": {"namespace": "x."}})
    sources = {row.name: row.source for row in describe(settings)}

    assert sources["topics.partitions"] == "horolog.toml"
    assert sources["log.level"] == "env HOROLOG_LOG__LEVEL"
    assert sources["kafka.namespace"] == "command line"
    assert sources["gateway.port"] == "default"


def test_the_file_is_found_by_variable_then_in_the_working_directory() -> None:
    toml("[topics]\npartitions = 2\n")
    other = toml("[topics]\npartitions = 3\n", "other.toml")

    assert load_settings(env={}).topics.partitions == 2
    assert load_settings(env={"HOROLOG_CONFIG": str(other)}).topics.partitions == 3
    assert load_settings(Path("horolog.toml"), env={"HOROLOG_CONFIG": str(other)}).topics.partitions == 2


def test_a_missing_or_broken_file_is_named() -> None:
    assert "nowhere.toml cannot be read" in problems(config=Path("nowhere.toml"))
    assert "broken.toml is not valid TOML" in problems(config=toml("[topics", "broken.toml"))


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("HOROLOG_KAFKA__NAMESPAC", "Did you mean kafka.namespace?"),
        ("HOROLOG_KAFKA__PARTITIONS", "Did you mean topics.partitions?"),
        ("HOROLOG_KAFKA_NAMESPACE", "did you mean HOROLOG_KAFKA__NAMESPACE?"),
        ("HOROLOG_KAFKA__ZZZZZZ", "config show"),
        ("HOROLOG_ZZZ__ZZZZZZ", "The sections are kafka, topics, scheduler, gateway, log"),
    ],
)
def test_an_unknown_variable_is_an_error_with_the_nearest_valid_one(variable: str, hint: str) -> None:
    text = problems({variable: "1"})

    assert variable in text
    assert hint in text


def test_an_unknown_key_in_the_file_is_an_error_with_the_nearest_valid_one() -> None:
    text = problems(config=toml("[scheduler]\ngroup = 'x'\n[topic]\npartitions = 1\n"))

    assert "scheduler.group (horolog.toml) is not a setting. Did you mean scheduler.group_id?" in text
    assert "topic.partitions (horolog.toml) is not a setting. Did you mean topics.partitions?" in text


def test_a_value_where_a_section_belongs_is_an_error() -> None:
    assert "kafka (horolog.toml) must be a section" in problems(config=toml("kafka = 1\n"))


def test_variables_of_other_tools_are_left_alone() -> None:
    env = {"HOROLOG_URL": "http://127.0.0.1:8080", "HOROLOG_CONFIG": "", "PATH": "/bin", "KAFKA__X": "1"}

    assert load_settings(env=env) == Settings()


def test_every_problem_is_told_at_once_with_value_and_place() -> None:
    text = problems({"HOROLOG_TOPICS__PARTITIONS": "abc", "HOROLOG_GATEWAY__PORT": "70000", "HOROLOG_LOG__LVL": "x"})

    assert "topics.partitions = 'abc' (env HOROLOG_TOPICS__PARTITIONS)" in text
    assert "gateway.port = '70000' (env HOROLOG_GATEWAY__PORT)" in text
    assert "log.lvl" in text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HOROLOG_TOPICS__PARTITIONS", "0"),
        ("HOROLOG_TOPICS__PARTITIONS", "4097"),
        ("HOROLOG_SCHEDULER__OPEN_RUNS_MAX", "0"),
        ("HOROLOG_SCHEDULER__STATE_BYTES_MAX", "921601"),
        ("HOROLOG_SCHEDULER__GROUP_ID", "has space"),
        ("HOROLOG_GATEWAY__PORT", "-1"),
        ("HOROLOG_KAFKA__BOOTSTRAP_SERVERS", "localhost"),
        ("HOROLOG_KAFKA__BOOTSTRAP_SERVERS", "localhost:0"),
        ("HOROLOG_KAFKA__NAMESPACE", "has/slash"),
        ("HOROLOG_LOG__FORMAT", "xml"),
    ],
)
def test_values_out_of_bounds_are_refused(variable: str, value: str) -> None:
    assert variable in problems({variable: value})


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"HOROLOG_TOPICS__MIN_INSYNC_REPLICAS": "2"}, "can never be met with replication_factor=1"),
        ({"HOROLOG_SCHEDULER__HEARTBEAT_INTERVAL_MS": "2001"}, "at most a third of session_timeout_ms"),
        ({"HOROLOG_SCHEDULER__WATCHDOG_TIMEOUT_MS": "6000"}, "below rebalance_timeout_ms"),
        ({"HOROLOG_SCHEDULER__IDLE_MARKER_MS": "30001"}, "at most half of missed_gap_ms"),
        ({"HOROLOG_GATEWAY__BATCH_IDLE_MS": "51"}, "at most batch_busy_ms"),
        ({"HOROLOG_KAFKA__SECURITY_PROTOCOL": "SASL_SSL"}, "needs sasl_mechanism, sasl_username"),
        ({"HOROLOG_KAFKA__SASL_USERNAME": "x"}, "security_protocol is PLAINTEXT"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(env: dict[str, str], words: str) -> None:
    assert words in problems(env)


def test_values_just_inside_the_joint_bounds_are_taken() -> None:
    env = {"HOROLOG_SCHEDULER__HEARTBEAT_INTERVAL_MS": "2000", "HOROLOG_SCHEDULER__IDLE_MARKER_MS": "30000"}
    settings = load_settings(env=env)

    assert (settings.scheduler.heartbeat_interval_ms, settings.scheduler.idle_marker_ms) == (2000, 30_000)


def test_settings_cannot_be_changed_and_survive_pickling() -> None:
    settings = load_settings(env={"HOROLOG_KAFKA__CLIENT": '{"socket.keepalive.enable": true}'})

    with pytest.raises(ValidationError):
        settings.topics.partitions = 3
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes


def test_passed_through_properties_reach_the_client_as_text() -> None:
    config = toml('[kafka.client]\n"socket.keepalive.enable" = true\n"metadata.max.age.ms" = 5000\n')
    client = load_settings(config, env={}).kafka.client_config()

    assert client["socket.keepalive.enable"] == "true"
    assert client["metadata.max.age.ms"] == "5000"
    assert client["bootstrap.servers"] == "127.0.0.1:29092"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"acks": "1"}', "acks is set by Horolog"),
        ('{"transactional.id": "x"}', "transactional.id is set by Horolog"),
        ('{"sasl.password": "hunter2"}', "belongs in kafka.sasl_password"),
        ("[1]", "must be a JSON object"),
        ("nonsense", "must be a JSON object"),
    ],
)
def test_properties_that_horolog_depends_on_cannot_be_passed_through(value: str, words: str) -> None:
    text = problems({"HOROLOG_KAFKA__CLIENT": value})

    assert words in text
    assert "hunter2" not in text


def test_a_secret_is_masked_everywhere_but_for_the_client() -> None:
    settings = load_settings(env={**LOGIN, "HOROLOG_KAFKA__SASL_PASSWORD": "hunter2"})
    shown = {row.name: row.value for row in describe(settings)}

    assert settings.kafka.client_config()["sasl.password"] == "hunter2"
    assert set(shown["kafka.sasl_password"]) == {"*"}
    assert "hunter2" not in repr(settings) + str(settings) + str(describe(settings))


def test_passed_through_properties_with_secret_names_are_masked() -> None:
    settings = load_settings(env={"HOROLOG_KAFKA__CLIENT": '{"sasl.oauthbearer.client.secret": "hunter2"}'})

    assert "hunter2" not in str(describe(settings))


def test_a_secret_never_shows_in_an_error() -> None:
    text = problems({"HOROLOG_KAFKA__SASL_PASSWORD": "hunter2", "HOROLOG_TOPICS__PARTITIONS": "0"})

    assert "hunter2" not in text


def test_a_secret_can_come_from_a_file_in_either_layer() -> None:
    Path("password").write_text("hunter2\n")
    by_env = load_settings(env={**LOGIN, "HOROLOG_KAFKA__SASL_PASSWORD_FILE": "password"})
    by_toml = load_settings(toml("[kafka]\nsasl_password_file = 'password'\n"), env=LOGIN)

    assert by_env.kafka.client_config()["sasl.password"] == "hunter2"
    assert by_toml.kafka.client_config()["sasl.password"] == "hunter2"
    assert by_env.sources["kafka.sasl_password"].startswith("env HOROLOG_KAFKA__SASL_PASSWORD_FILE")


def test_a_secret_of_the_environment_wins_over_a_secret_file_of_the_toml() -> None:
    Path("password").write_text("old")
    config = toml("[kafka]\nsasl_password_file = 'password'\n")
    settings = load_settings(config, env={**LOGIN, "HOROLOG_KAFKA__SASL_PASSWORD": "new"})

    assert settings.kafka.client_config()["sasl.password"] == "new"


def test_secret_files_that_cannot_serve_are_errors() -> None:
    Path("empty").write_text("\n")
    variable = "HOROLOG_KAFKA__SASL_PASSWORD_FILE"

    assert "secret in nowhere cannot be read" in problems({**LOGIN, variable: "nowhere"})
    assert "the file empty is empty" in problems({**LOGIN, variable: "empty"})
    both = {**LOGIN, variable: "empty", "HOROLOG_KAFKA__SASL_PASSWORD": "x"}
    assert "are both set; remove one" in problems(both)


def test_only_secrets_have_a_file_form() -> None:
    assert "kafka.namespace_file" in problems({"HOROLOG_KAFKA__NAMESPACE_FILE": "x"})


def test_every_setting_has_a_description_and_an_environment_name() -> None:
    rows = describe(Settings())

    assert [row.name for row in rows] == list(setting_names())
    assert [row.name for row in rows if not row.description.endswith(".")] == []
    assert env_name("kafka.namespace") == "HOROLOG_KAFKA__NAMESPACE"


def test_times_and_sizes_carry_their_unit_in_the_name_and_in_the_words() -> None:
    rows = {row.name: row.description for row in describe(Settings())}

    assert [name for name, words in rows.items() if name.endswith("_ms") and "ms" not in words] == []
    assert [name for name, words in rows.items() if name.endswith("_bytes_max") and "yte" not in words] == []


def test_the_documentation_lists_every_setting_with_its_default() -> None:
    document = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text()
    missing = [
        row.name
        for row in describe(Settings())
        if f"| `{row.name.partition('.')[2]}` | `{row.value}` | {row.description} |" not in document
    ]

    assert missing == []


def test_every_setting_is_read_by_some_program() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = [path for folder in ("streams", "api", "schemas") for path in (root / folder).rglob("*.py")]
    words = {word for path in sources if path.name != "config.py" for word in WORD.findall(path.read_text("utf-8"))}
    # What the Kafka clients need is handed on by config.py itself (client_config).
    unread = [name for name in setting_names() if name.partition(".")[2] not in words]

    assert [name for name in unread if not name.startswith("kafka.")] == []
