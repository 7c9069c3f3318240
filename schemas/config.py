"""The configuration: one frozen, validated `Settings` that the scheduler, the gateway and the tools share.

Each value comes from the first of these that has it: overrides by the caller (command line), environment
`HOROLOG_SECTION__KEY`, the TOML file (`--config`, else `HOROLOG_CONFIG`, else `horolog.toml` in the working
directory if it exists), the default. A secret may also come from a file: the same key with `_file` behind it.
An unknown key is an error that names the nearest valid one. Nothing is read from the environment except by
`load_settings`, so `Settings()` is always the defaults. It lives here since `api` may not import `streams`.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic.fields import FieldInfo

ENV_PREFIX = "HOROLOG_"
ENV_DELIMITER = "__"
CONFIG_VARIABLE = "HOROLOG_CONFIG"
CONFIG_FILE = "horolog.toml"
SECRET_FILE_SUFFIX = "_file"  # noqa: S105 - the ending of a key, not a secret
SECRET_FILE_BYTES_MAX = 64 * 1024  # a mistaken path to a large file is not read into memory
MASK = "**********"

PARTITIONS_MAX = 4096  # 16 owners' worth of the 256 that production uses; more is a slip of the finger
TOPIC_NAME_MAX = 249  # Kafka's own limit; the longest of our names has 15 characters
PORT_MAX = 65535
DAY_MS = 86_400_000

# What the exactly-once commit rests on (DESIGN section 6), so not for a passthrough to change.
RESERVED_CLIENT_KEYS = frozenset(
    {
        "acks",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "partitioner",
        "request.required.acks",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
# Set through the fields of [kafka], where secrets are masked and both client libraries get them.
FIELD_CLIENT_KEYS = MappingProxyType(
    {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.mechanisms": "sasl_mechanism",
        "sasl.username": "sasl_username",
        "sasl.password": "sasl_password",
        "ssl.ca.location": "ssl_ca_path",
        "ssl.certificate.location": "ssl_certificate_path",
        "ssl.key.location": "ssl_key_path",
        "ssl.key.password": "ssl_key_password",
    }
)


class ConfigError(Exception):
    """The configuration cannot be used; `problems` has one sentence for each thing to change."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _json_object(text: str) -> Mapping[str, object]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise ValueError('it must be a JSON object, for example {"socket.keepalive.enable": "true"}') from None


def _property_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Section(BaseModel):
    """What all sections share: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


Port = Annotated[int, Field(ge=0, le=PORT_MAX)]


class KafkaSettings(Section):
    """How to reach Kafka. Both client libraries (librdkafka and aiokafka) are configured from this."""

    bootstrap_servers: str = Field(
        default="127.0.0.1:29092",
        min_length=1,
        description="Brokers to ask first, as host:port, comma separated.",
    )
    namespace: str = Field(
        default="horolog.",
        pattern=r"^[a-zA-Z0-9._-]*$",
        max_length=TOPIC_NAME_MAX - 15,
        description="Prefix of every topic name and transactional id. One namespace is one Horolog.",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Encryption and authentication of the connection to the brokers."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How to log in; needed with SASL_PLAINTEXT and SASL_SSL."
    )
    sasl_username: str | None = Field(default=None, description="User name for SASL.")
    sasl_password: SecretStr | None = Field(default=None, description="Password for SASL.")
    ssl_ca_path: Path | None = Field(default=None, description="PEM file of the authority that signed the brokers.")
    ssl_certificate_path: Path | None = Field(default=None, description="PEM file of the client's certificate.")
    ssl_key_path: Path | None = Field(default=None, description="PEM file of the client's private key.")
    ssl_key_password: SecretStr | None = Field(default=None, description="Password of the client's private key.")
    client: tuple[tuple[str, str], ...] = Field(
        default=(),
        description="Further librdkafka properties by their own names (TOML table; JSON in the environment).",
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _is_host_and_port(cls, value: str) -> str:
        for address in value.split(","):
            host, _, port = address.strip().rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
                raise ValueError(f"{address.strip()!r} is not host:port")
        return value

    @field_validator("client", mode="before")
    @classmethod
    def _is_a_table(cls, value: object) -> object:
        if isinstance(value, str):
            value = _json_object(value)
        if isinstance(value, Mapping):
            return tuple((str(key), _property_text(item)) for key, item in sorted(value.items()))
        return value

    @field_validator("client")
    @classmethod
    def _leaves_our_keys_alone(cls, value: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for key, _ in value:
            if key in RESERVED_CLIENT_KEYS:
                raise ValueError(f"{key} is set by Horolog, which depends on it; remove it")
            if key in FIELD_CLIENT_KEYS:
                raise ValueError(f"{key} belongs in kafka.{FIELD_CLIENT_KEYS[key]}; move it there")
        return value

    @model_validator(mode="after")
    def _login_is_complete(self) -> Self:
        wants_login = self.security_protocol.startswith("SASL_")
        given = (self.sasl_mechanism, self.sasl_username, self.sasl_password)
        if wants_login and None in given:
            raise ValueError(f"{self.security_protocol} needs sasl_mechanism, sasl_username and sasl_password")
        if not wants_login and any(value is not None for value in given):
            raise ValueError(f"sasl_* is set but security_protocol is {self.security_protocol}; use SASL_SSL")
        return self

    def client_config(self) -> dict[str, str | int | float | bool]:
        """Return the librdkafka properties that every client starts from. Secrets in it are plain text."""
        config: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
        }
        optional = {
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.sasl_username,
            "sasl.password": self.sasl_password.get_secret_value() if self.sasl_password else None,
            "ssl.ca.location": self.ssl_ca_path,
            "ssl.certificate.location": self.ssl_certificate_path,
            "ssl.key.location": self.ssl_key_path,
            "ssl.key.password": self.ssl_key_password.get_secret_value() if self.ssl_key_password else None,
        }
        config.update({key: str(value) for key, value in optional.items() if value is not None})
        config.update(self.client)
        return config


class TopicSettings(Section):
    """Shape of the topics (DESIGN section 4). Partition counts are fixed for ever when topics are created."""

    partitions: int = Field(
        default=8,
        ge=1,
        le=PARTITIONS_MAX,
        description="Partitions (P) of everything keyed by job; production 256.",
    )
    lease_partitions: int = Field(
        default=1, ge=1, le=PARTITIONS_MAX, description="Partitions (L) of the leases topic; production 16."
    )
    reply_partitions: int = Field(
        default=1, ge=1, le=PARTITIONS_MAX, description="Partitions (R) of replies and offers; production 16."
    )
    replication_factor: int = Field(
        default=1, ge=1, le=15, description="Copies of every partition; production 3 or more."
    )
    min_insync_replicas: int = Field(
        default=1,
        ge=1,
        le=15,
        description="Copies that must have a write before it is acknowledged; production 2.",
    )

    @model_validator(mode="after")
    def _enough_copies(self) -> Self:
        if self.min_insync_replicas > self.replication_factor:
            raise ValueError(
                f"min_insync_replicas={self.min_insync_replicas} can never be met with "
                f"replication_factor={self.replication_factor}; lower the first or raise the second"
            )
        return self


class SchedulerSettings(Section):
    """The owner of partitions: membership, pace, bounds."""

    group_id: str = Field(
        default="horolog-scheduler",
        pattern=r"^[a-zA-Z0-9._-]{1,200}$",
        description="Consumer group of all schedulers of one namespace.",
    )
    data_dir: Path = Field(
        default=Path(".horolog/data"),
        description="Local cache of the ledger; one directory a process, safe to lose.",
    )
    admin_host: str = Field(default="127.0.0.1", min_length=1, description="Address of the admin and query HTTP.")
    admin_port: Port = Field(
        default=6066, description="Port of the admin and query HTTP; 0 lets the system choose one."
    )
    session_timeout_ms: int = Field(
        default=6000,
        ge=1000,
        le=300_000,
        description="Silence (ms) after which a member's partitions go to others.",
    )
    heartbeat_interval_ms: int = Field(
        default=300, ge=50, le=100_000, description="Time (ms) between heartbeats to the group coordinator."
    )
    rebalance_timeout_ms: int = Field(
        default=6000, ge=1000, le=300_000, description="Time (ms) that members have to rejoin in a rebalance."
    )
    transaction_timeout_ms: int = Field(
        default=10_000,
        ge=1000,
        le=900_000,
        description="Age (ms) at which the broker aborts an open transaction.",
    )
    commit_interval_busy_ms: int = Field(
        default=40,
        ge=0,
        le=1000,
        description="Time (ms) between commits under full load; idle commits are immediate.",
    )
    tick_commands_max: int = Field(
        default=2000, ge=1, le=100_000, description="Commands and timers that one transaction may decide."
    )
    tick_bytes_max: int = Field(
        default=8 * 1024 * 1024,
        ge=1024 * 1024,
        le=256 * 1024 * 1024,
        description="Bytes one transaction may write.",
    )
    inbox_records_max: int = Field(
        default=20_000,
        ge=100,
        le=1_000_000,
        description="Records held per partition before its consumer is paused.",
    )
    inbox_bytes_max: int = Field(
        default=32 * 1024 * 1024,
        ge=1024 * 1024,
        le=1024**3,
        description="Bytes held per partition before pausing.",
    )
    watchdog_timeout_ms: int = Field(
        default=3000,
        ge=500,
        le=60_000,
        description="Time (ms) without progress of the loop that ends the process.",
    )
    missed_gap_ms: int = Field(
        default=60_000,
        ge=1000,
        le=DAY_MS,
        description="Time (ms) without an owner after which occurrences are missed.",
    )
    idle_marker_ms: int = Field(
        default=10_000,
        ge=100,
        le=600_000,
        description="Time (ms) between the markers of a partition with no traffic.",
    )
    fence_wait_ms: int = Field(
        default=1000,
        ge=0,
        le=60_000,
        description="Time (ms) a blocked ledger is waited for before its writer is fenced.",
    )
    wheel_horizon_ms: int = Field(
        default=30_000, ge=1000, le=600_000, description="How far ahead (ms) deadlines are held in memory."
    )
    offer_lookahead_ms: int = Field(
        default=2000, ge=0, le=60_000, description="How long before its due time (ms) a run may be offered."
    )
    open_runs_max: int = Field(default=64, ge=1, le=1000, description="Open runs of one job; more stay implied.")
    state_bytes_max: int = Field(
        default=262_144,
        ge=16_384,
        le=921_600,
        description="Encoded state of one job in bytes; fits one Kafka record.",
    )
    clock_skew_alert_ms: int = Field(
        default=1000,
        ge=10,
        le=600_000,
        description="Distance (ms) from the broker's clock that raises an alert.",
    )

    @model_validator(mode="after")
    def _times_fit_together(self) -> Self:
        problems = []
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            problems.append("heartbeat_interval_ms must be at most a third of session_timeout_ms")
        if self.watchdog_timeout_ms >= self.rebalance_timeout_ms:
            problems.append("watchdog_timeout_ms must be below rebalance_timeout_ms")
        if self.idle_marker_ms * 2 > self.missed_gap_ms:
            problems.append("idle_marker_ms must be at most half of missed_gap_ms")
        if self.offer_lookahead_ms > self.wheel_horizon_ms:
            problems.append("offer_lookahead_ms must be at most wheel_horizon_ms")
        if self.watchdog_timeout_ms >= self.transaction_timeout_ms:
            problems.append("watchdog_timeout_ms must be below transaction_timeout_ms")
        if problems:
            raise ValueError("; ".join(problems))
        return self


class GatewaySettings(Section):
    """The HTTP side."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: Port = Field(default=8080, description="Port to listen on; 0 lets the system choose one.")
    id: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,100}$",
        description="Name of this gateway, unique among running ones; empty: random at each start.",
    )
    tokens_file: Path | None = Field(default=None, description="File with the service tokens that the gateway accepts.")
    strict_queues: bool = Field(
        default=False,
        description="Refuse queues that were not created with PUT /v1/queues/{queue}; else the first use creates one.",
    )
    lease_poll_max_ms: int = Field(
        default=20_000, ge=0, le=60_000, description="Longest wait (ms) of a worker's lease request."
    )
    lease_ttl_ms: int = Field(
        default=30_000,
        ge=1000,
        le=DAY_MS,
        description="Length (ms) of a lease for which the worker names none.",
    )
    lease_batch_max: int = Field(default=1000, ge=1, le=10_000, description="Runs that one lease request may ask for.")
    body_bytes_max: int = Field(
        default=4 * 1024 * 1024, ge=65_536, le=64 * 1024 * 1024, description="HTTP request body in bytes."
    )
    batch_idle_ms: int = Field(
        default=5, ge=0, le=1000, description="Time (ms) that commands are gathered into a record when idle."
    )
    batch_busy_ms: int = Field(default=50, ge=0, le=1000, description="The same (ms) under load.")
    reply_timeout_ms: int = Field(
        default=10_000,
        ge=100,
        le=120_000,
        description="Time (ms) that a request waits for the owner's reply.",
    )
    pending_requests_max: int = Field(
        default=50_000,
        ge=1,
        le=1_000_000,
        description="Requests that wait for replies; above it the answer is 503.",
    )

    @model_validator(mode="after")
    def _times_fit_together(self) -> Self:
        if self.batch_idle_ms > self.batch_busy_ms:
            raise ValueError("batch_idle_ms must be at most batch_busy_ms")
        return self


class LogSettings(Section):
    """Log lines on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level written.")
    format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="JSON lines, or for people; auto is console on a terminal and JSON otherwise.",
    )


class Settings(BaseModel):
    """The whole configuration. Build it with `load_settings`; `Settings()` has every default."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    gateway: GatewaySettings = GatewaySettings()
    log: LogSettings = LogSettings()

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Note where the values came from, which `load_settings` passes as the validation's context."""
        self._sources = dict(context or {})

    @property
    def sources(self) -> Mapping[str, str]:
        """Return where each value that is not a default came from, by its dotted name."""
        return MappingProxyType(dict(self._sources))


SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        "kafka": KafkaSettings,
        "topics": TopicSettings,
        "scheduler": SchedulerSettings,
        "gateway": GatewaySettings,
        "log": LogSettings,
    }
)


@dataclass(frozen=True)
class SettingRow:
    """One line of `config show`. `value` is masked where it is a secret."""

    name: str
    value: str
    source: str
    description: str


@dataclass(frozen=True)
class _Layer:
    """Known keys from one place, by dotted name. `origin` says in words where each was found."""

    values: dict[str, Any]
    origin: dict[str, str]


def load_settings(
    config_path: Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Return the validated settings, or raise ConfigError with one sentence for each problem.

    `config_path` must exist if given. `env` defaults to the process's environment. `overrides` has the shape
    of the TOML file: `{"kafka": {"namespace": "test."}}`.
    """
    env = os.environ if env is None else env
    path = _find_config(config_path, env)
    problems: list[str] = []
    layers = [
        _layer_of(_read_toml(path), lambda _: str(path), problems),
        _layer_of(_read_env(env, problems), lambda name: f"env {env_name(name)}", problems),
        _layer_of(overrides or {}, lambda _: "command line", problems),
    ]
    merged: dict[str, dict[str, Any]] = {}
    origin: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.values.items():
            section, _, key = name.partition(".")
            merged.setdefault(section, {})[key] = value
        origin |= layer.origin
    try:
        settings = Settings.model_validate(merged, context=origin)
    except ValidationError as error:
        # Not chained: pydantic's own text would show secrets.
        raise ConfigError(problems + _sentences(error, origin)) from None
    if problems:
        raise ConfigError(problems)
    return settings


def describe(settings: Settings) -> list[SettingRow]:
    """Return every setting with its value (secrets masked), where that came from, and what it means."""
    rows = []
    for name in setting_names():
        section_name, _, key = name.partition(".")
        value = getattr(getattr(settings, section_name), key)
        source = settings.sources.get(name, "default")
        rows.append(SettingRow(name, _shown(value), source, _field(name).description or ""))
    return rows


def setting_names() -> Iterator[str]:
    """Yield the dotted name of every setting, in the order of the documentation."""
    for section_name, section in SECTIONS.items():
        for key in section.model_fields:
            yield f"{section_name}.{key}"


def env_name(name: str) -> str:
    """Return the environment variable of a setting: `kafka.namespace` gives `HOROLOG_KAFKA__NAMESPACE`."""
    return ENV_PREFIX + name.replace(".", ENV_DELIMITER).upper()


def _field(name: str) -> FieldInfo:
    section, _, key = name.partition(".")
    return SECTIONS[section].model_fields[key]


def _is_secret(name: str) -> bool:
    return SecretStr in get_args(_field(name).annotation)


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"{key}={_masked_by_name(key, item)}" for key, item in value)
    return str(value)  # a SecretStr prints as stars


def _masked_by_name(key: str, value: str) -> str:
    # A property passed through may be secret although we do not know its name.
    words = ("password", "secret", "token", "jaas", ".pem", "oauth")
    return MASK if any(word in key.lower() for word in words) else value


def _find_config(config_path: Path | None, env: Mapping[str, str]) -> Path | None:
    if config_path is not None:
        return config_path
    if env.get(CONFIG_VARIABLE):
        return Path(env[CONFIG_VARIABLE])
    default = Path(CONFIG_FILE)
    return default if default.is_file() else None


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"Configuration file {path} cannot be read: {error.strerror}."]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"Configuration file {path} is not valid TOML: {error}."]) from error


def _read_env(env: Mapping[str, str], problems: list[str]) -> dict[str, dict[str, Any]]:
    """Return the variables `HOROLOG_SECTION__KEY` as a document of the TOML file's shape.

    Variables without `__` belong to other tools (the SDK's, `HOROLOG_CONFIG`), unless one is a setting with a
    slip in its underscores.
    """
    slips = {env_name(name).replace(ENV_DELIMITER, "_"): env_name(name) for name in setting_names()}
    document: dict[str, dict[str, Any]] = {}
    for variable in sorted(env):
        if not variable.startswith(ENV_PREFIX):
            continue
        section, delimiter, key = variable.removeprefix(ENV_PREFIX).lower().partition(ENV_DELIMITER)
        if delimiter:
            document.setdefault(section, {})[key] = env[variable]
        elif variable in slips:
            problems.append(f"{variable} is not a setting; did you mean {slips[variable]}?")
    return document


def _layer_of(document: Mapping[str, Any], origin: Callable[[str], str], problems: list[str]) -> _Layer:
    """Sort out unknown keys (each becomes a problem) and read the secrets that are given as files."""
    layer = _Layer({}, {})
    for section, values in document.items():
        if not isinstance(values, Mapping):
            problems.append(f"{section} ({origin(section)}) must be a section with keys.{_nearest(section)}")
            continue
        for key, value in values.items():
            name = f"{section}.{key}"
            base = name.removesuffix(SECRET_FILE_SUFFIX)
            if name in set(setting_names()):
                layer.values[name], layer.origin[name] = value, origin(name)
            elif base != name and base in set(setting_names()) and _is_secret(base):
                if base.partition(".")[2] in values:
                    problems.append(f"{base} and {name} ({origin(name)}) are both set; remove one.")
                secret = _read_secret(name, str(value), problems)
                layer.values[base], layer.origin[base] = secret, f"{origin(name)}: {value}"
            else:
                problems.append(f"{name} ({origin(name)}) is not a setting.{_nearest(name)}")
    return layer


def _read_secret(name: str, path: str, problems: list[str]) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            secret = file.read(SECRET_FILE_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{name}: the secret in {path} cannot be read: {getattr(error, 'strerror', error)}.")
        return ""
    if not secret:
        problems.append(f"{name}: the file {path} is empty; write the secret into it.")
    return secret


def _nearest(name: str) -> str:
    """Return a hint with the valid name that is most like a wrong one, preferring the same key."""
    names = list(setting_names())
    same_key = [valid for valid in names if valid.partition(".")[2] == name.partition(".")[2]]
    found = same_key or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if found:
        return f" Did you mean {found[0]}?"
    if name.partition(".")[0] in SECTIONS:
        return " `horologd config show` lists every setting."
    return f" The sections are {', '.join(SECTIONS)}."


def _sentences(error: ValidationError, origin: Mapping[str, str]) -> list[str]:
    sentences = []
    for item in error.errors(include_url=False, include_context=False):
        name = ".".join(str(part) for part in item["loc"][:2])
        message = item["msg"].removeprefix("Value error, ").rstrip(".")
        found = ""
        if "." in name and not _is_secret(name) and name != "kafka.client":  # which may hold secrets
            found = f" = {item['input']!r}" if isinstance(item["input"], str | int | float) else ""
        place = f" ({origin[name]})" if name in origin else ""
        sentences.append(f"{name}{found}{place}: {message}.")
    return sentences
