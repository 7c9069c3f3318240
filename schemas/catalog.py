"""The registered schemas: every version of every record that was ever written, with its fixed id.

`ids.json` gives each version its id, its file and a fingerprint; a version is never edited, a change is a new version
(docs/schemas.md). The catalog is read once from the package; nothing is fetched. Next: `codec`, `registry`.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
from typing import Any

import msgspec

NAMESPACE = "horolog"


class RegisteredSchema(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one record's schema."""

    name: str
    """Of the record, without the namespace: `JobState`."""
    version: int
    """From 1, dense."""
    id: int
    """In the wire format; unique over all records, never used again."""
    schema: dict[str, Any]
    """As JSON. Self-contained: it refers to no other file."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of everything but the `doc` texts, which may be improved at any time."""
        return fingerprint_of(self.schema)


class Catalog(msgspec.Struct, frozen=True):
    """All registered versions. `of` and `by_id` raise KeyError for what is not registered."""

    schemas: tuple[RegisteredSchema, ...]

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the version with this id."""
        for schema in self.schemas:
            if schema.id == schema_id:
                return schema
        raise KeyError(schema_id)

    def of(self, name: str) -> tuple[RegisteredSchema, ...]:
        """Return all versions of a record, oldest first."""
        found = tuple(sorted((s for s in self.schemas if s.name == name), key=lambda registered: registered.version))
        if not found:
            raise KeyError(name)
        return found

    def latest(self, name: str) -> RegisteredSchema:
        """Return the version that is written today."""
        return self.of(name)[-1]

    def names(self) -> tuple[str, ...]:
        """Return the names of all records, in the order of ids.json."""
        return tuple(dict.fromkeys(schema.name for schema in self.schemas))


def without_docs(schema: Any) -> Any:
    """Return the schema without its `doc` texts: what two versions are compared by."""
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "doc"}
    if isinstance(schema, list):
        return [without_docs(item) for item in schema]
    return schema


def fingerprint_of(schema: Any) -> str:
    """Return the SHA-256 (hex) of a schema without its `doc` texts."""
    canonical = json.dumps(without_docs(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def load_catalog() -> Catalog:
    """Read ids.json and the files that it names from the package."""
    root = importlib.resources.files("schemas")
    ids = json.loads(root.joinpath("ids.json").read_text("utf-8"))
    return Catalog(
        tuple(
            RegisteredSchema(
                name=name,
                version=entry["version"],
                id=entry["id"],
                schema=json.loads(root.joinpath(entry["file"]).read_text("utf-8")),
            )
            for name, entries in ids["records"].items()
            for entry in entries
        )
    )


CATALOG = load_catalog()
