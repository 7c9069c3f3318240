"""The calls of a schema registry that stock serializers make, answered from the catalog. Pure: no server in here.

The gateway passes method, path and body to `Registry.respond` and returns status and JSON. Subjects of all three
usual naming strategies are known: `<topic>-value`, `horolog.<Record>` and `<topic>-horolog.<Record>`. The catalog is
fixed, so to register means to be told the id of a schema that is already there; anything else is refused.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from schemas.catalog import CATALOG, NAMESPACE, Catalog, RegisteredSchema, fingerprint_of
from schemas.compatibility import reasons

RECORD_OF_TOPIC: Final = {
    "job-definitions": "JobDefinition",
    "commands": "CommandBatch",
    "history": "HistoryRecord",
    "leases": "LeaseView",
    "replies": "ReplyBatch",
    "demand": "Demand",
    "offers": "Offers",
    "owners": "OwnerView",
    "dead-letter": "DeadLetter",
}
"""Topics that hold one kind of record; `ledger` and `config` hold several, under subjects by record name."""

COMPATIBILITY: Final = "FULL_TRANSITIVE"

SCHEMA_CHARS_MAX: Final = 256 * 1024
"""Of a schema in a request; our largest has a fifth of that."""

SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
INVALID_SCHEMA: Final = 42201
INVALID_VERSION: Final = 42202
NOT_PERMITTED: Final = 42205
INCOMPATIBLE: Final = 409


class Response(msgspec.Struct, frozen=True):
    """An HTTP status and a JSON-able body."""

    status: int
    body: Any


class RegistryError(Exception):
    """A refusal, with the code that registry clients know; the status is the code's first three digits."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Registry:
    """Answers for one catalog. `topic_namespace` stands before the topic names, as in `horolog.job-definitions`."""

    def __init__(self, catalog: Catalog = CATALOG, *, topic_namespace: str = "horolog.") -> None:
        self._catalog = catalog
        self._texts = {schema.id: json.dumps(schema.schema) for schema in catalog.schemas}
        self._subjects: dict[str, str] = {f"{NAMESPACE}.{name}": name for name in catalog.names()}
        for topic, name in RECORD_OF_TOPIC.items():
            self._subjects[f"{topic_namespace}{topic}-value"] = name
            self._subjects[f"{topic_namespace}{topic}-{NAMESPACE}.{name}"] = name

    def respond(self, method: str, path: str, body: Any = None) -> Response:
        """Answer a request. `path` is decoded and without the registry's own prefix; `body` is the parsed JSON."""
        parts = [part for part in path.split("/") if part]
        try:
            answer = self._read(parts) if method in {"GET", "HEAD"} else self._ask(method, parts, body)
        except RegistryError as error:
            return Response(int(str(error.code)[:3]), {"error_code": error.code, "message": error.message})
        return Response(200, answer)

    def _read(self, parts: list[str]) -> Any:
        match parts:
            case ["schemas", "types"]:
                return ["AVRO"]
            case ["schemas", "ids", text]:
                return self.schema_by_id(text)
            case ["schemas", "ids", text, "subjects"]:
                return [pair["subject"] for pair in self.versions_of_id(text)]
            case ["schemas", "ids", text, "versions"]:
                return self.versions_of_id(text)
            case _:
                return self._read_subject(parts)

    def _read_subject(self, parts: list[str]) -> Any:
        match parts:
            case ["subjects"]:
                return sorted(self._subjects)
            case ["subjects", subject, "versions"]:
                return self.versions(subject)
            case ["subjects", subject, "versions", version]:
                return self.version(subject, version)
            case ["subjects", subject, "versions", version, "schema"]:
                return json.loads(self.version(subject, version)["schema"])
            case ["config", *_]:
                return {"compatibilityLevel": COMPATIBILITY}
            case ["mode", *_]:
                return {"mode": "READONLY"}
            case _:
                raise RegistryError(404, f"there is no /{'/'.join(parts)}")

    def _ask(self, method: str, parts: list[str], body: Any) -> Any:
        match [method, *parts]:
            case ["POST", "subjects", subject]:
                return self.lookup(subject, body)
            case ["POST", "subjects", subject, "versions"]:
                return {"id": self.register(subject, body)}
            case ["POST", "compatibility", "subjects", subject, "versions"]:
                return self.compatibility(subject, "", body)
            case ["POST", "compatibility", "subjects", subject, "versions", version]:
                return self.compatibility(subject, version, body)
            case _:
                raise RegistryError(NOT_PERMITTED, "this registry is read-only: its schemas come with the release")

    def schema_by_id(self, text: str) -> dict[str, Any]:
        """Return the schema of an id."""
        return {"schema": self._texts[self._by_id(text).id]}

    def versions_of_id(self, text: str) -> list[dict[str, Any]]:
        """Return the subjects and versions under which an id stands."""
        schema = self._by_id(text)
        return [
            {"subject": subject, "version": schema.version}
            for subject, name in sorted(self._subjects.items())
            if name == schema.name
        ]

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject."""
        return [schema.version for schema in self._of(subject)]

    def version(self, subject: str, version: str) -> dict[str, Any]:
        """Return one version of a subject, by number or `latest`."""
        return self._described(subject, self._pick(subject, version))

    def lookup(self, subject: str, body: Any) -> dict[str, Any]:
        """Return the version that equals the schema in the request, docs aside."""
        wanted = fingerprint_of(_schema_in(body))
        for schema in self._of(subject):
            if schema.fingerprint == wanted:
                return self._described(subject, schema)
        raise RegistryError(SCHEMA_NOT_FOUND, f"no version of {subject} equals this schema")

    def register(self, subject: str, body: Any) -> int:
        """Return the id of a schema that is already there; refuse every other."""
        try:
            found = self.lookup(subject, body)
        except RegistryError as error:
            if error.code != SCHEMA_NOT_FOUND:
                raise
            latest = self._of(subject)[-1]
            raise RegistryError(
                INCOMPATIBLE,
                f"{subject} takes the schemas of this release only, and this is none of them: "
                f"use version {latest.version} (id {latest.id}), for instance with use.latest.version",
            ) from error
        schema_id: int = found["id"]
        return schema_id

    def compatibility(self, subject: str, version: str, body: Any) -> dict[str, Any]:
        """Tell whether a schema is compatible, both ways, with one version, or with all where `version` is empty."""
        schema = _schema_in(body)
        against = (self._pick(subject, version),) if version else self._of(subject)
        messages = [
            f"version {known.version}: {reason}"
            for known in against
            for reason in (*reasons(known.schema, schema), *reasons(schema, known.schema))
        ]
        return {"is_compatible": not messages, "messages": messages}

    def _of(self, subject: str) -> tuple[RegisteredSchema, ...]:
        name = self._subjects.get(subject)
        if name is None:
            raise RegistryError(SUBJECT_NOT_FOUND, f"there is no subject {subject}")
        return self._catalog.of(name)

    def _pick(self, subject: str, version: str) -> RegisteredSchema:
        versions = self._of(subject)
        if version in {"latest", "-1"}:
            return versions[-1]
        number = _number(version, INVALID_VERSION, "a version is a number from 1, or latest")
        for schema in versions:
            if schema.version == number:
                return schema
        raise RegistryError(VERSION_NOT_FOUND, f"{subject} has no version {version}")

    def _by_id(self, text: str) -> RegisteredSchema:
        schema_id = _number(text, SCHEMA_NOT_FOUND, "a schema id is a number")
        try:
            return self._catalog.by_id(schema_id)
        except KeyError as error:
            raise RegistryError(SCHEMA_NOT_FOUND, f"there is no schema with id {schema_id}") from error

    def _described(self, subject: str, schema: RegisteredSchema) -> dict[str, Any]:
        return {
            "subject": subject,
            "version": schema.version,
            "id": schema.id,
            "schemaType": "AVRO",
            "schema": self._texts[schema.id],
        }


_DIGITS_MAX: Final = 10
"""Of an id or a version in a path: as many as 32 bits have."""


def _number(text: str, code: int, message: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
        raise RegistryError(code, f"{message}, not {text[:_DIGITS_MAX]!r}")
    return int(text)


def _schema_in(body: Any) -> Any:
    """Return the schema of a request body `{"schema": "<JSON>", "schemaType": "AVRO"}`."""
    if not isinstance(body, dict) or not isinstance(text := body.get("schema"), str):
        raise RegistryError(INVALID_SCHEMA, 'the body is {"schema": "<schema as JSON text>"}')
    if body.get("schemaType", "AVRO") != "AVRO":
        raise RegistryError(INVALID_SCHEMA, "only schemas of the type AVRO are known")
    if len(text) > SCHEMA_CHARS_MAX:
        raise RegistryError(INVALID_SCHEMA, f"{len(text)} characters; allowed are {SCHEMA_CHARS_MAX}")
    try:
        schema = json.loads(text)
        fits = _is_schema(schema)
    except (ValueError, RecursionError) as error:
        raise RegistryError(INVALID_SCHEMA, f"the schema is not JSON, or too deep: {error}") from error
    if not fits:
        raise RegistryError(INVALID_SCHEMA, "this is not an Avro schema")
    return schema


_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_NEVER_ALONE: Final = frozenset({"record", "enum", "array", "map", "fixed", "union"})

_DEPTH_MAX: Final = 64
"""Of types inside types; ours have 8."""


def _is_schema(schema: Any, depth: int = 0) -> bool:
    """Tell whether a value has the form of an Avro schema, as far as compatibility looks into it."""
    if isinstance(schema, list):
        return depth < _DEPTH_MAX and all(_is_schema(branch, depth + 1) for branch in schema)
    if isinstance(schema, dict):
        return depth < _DEPTH_MAX and _is_complex(schema, depth + 1)
    return isinstance(schema, str) and schema not in _NEVER_ALONE


def _is_complex(schema: dict[str, Any], depth: int) -> bool:
    named = isinstance(schema.get("name"), str)
    match schema:
        case {"type": "record", "fields": list(fields)}:
            return named and all(_is_field(field, depth) for field in fields)
        case {"type": "enum", "symbols": list(symbols)}:
            return named and all(isinstance(symbol, str) for symbol in symbols)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return _is_schema(inner, depth)
        case {"type": "fixed", "size": int()}:
            return named
        case {"type": dict() | list() as inner}:
            return _is_schema(inner, depth)
    return schema.get("type") in _PRIMITIVES


def _is_field(field: Any, depth: int) -> bool:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str):
        return False
    aliases = field.get("aliases", [])
    return isinstance(aliases, list) and "type" in field and _is_schema(field["type"], depth)
