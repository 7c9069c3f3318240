"""The OpenAPI 3.1 document, made from the route table and the types of bodies and answers. Pure.

What follows from a route's shape is not said again by each route: a route with a body may answer `bad_json`, one that
writes may answer `no_owner`, and so on (`codes_of`). Every problem is documented with its codes: clients branch on
those.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from api.answers import ProblemAnswer
from api.problems import STATUS
from streams.core.definition import CONCURRENCY_KEY_PATTERN, JOB_ID_PATTERN, NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from api.routes.route import Param, Route

OPENAPI_VERSION: Final = "3.1.0"
API_VERSION: Final = "1"

_REF: Final = "#/components/schemas/{name}"
_BODY_CODES: Final = (
    "bad_json",
    "bad_content_type",
    "body_timeout",
    "body_too_large",
    "missing_field",
    "unknown_field",
    "invalid_field",
)
_WRITE_CODES: Final = ("no_owner", "starting", "stopping", "overloaded", "outcome_unknown")

_PATH_PARAMS: Final[dict[str, tuple[str, str | None, str]]] = {
    "job_id": ("Id of a job.", JOB_ID_PATTERN.pattern, "job_not_found"),
    "run_id": ("Id of a run, `run_<jobId>_<suffix>`.", None, "run_not_found"),
    "queue": ("Name of a queue.", NAME_PATTERN.pattern, "bad_path"),
    "key": ("A concurrency key.", CONCURRENCY_KEY_PATTERN.pattern, "bad_path"),
    "calendar": ("Name of a calendar.", NAME_PATTERN.pattern, "bad_path"),
    "tenant": ("Name of a tenant.", NAME_PATTERN.pattern, "bad_path"),
    "backfill_id": ("Id of a backfill.", None, "unknown_backfill"),
}
"""Name in the path: meaning, pattern, and the code for what is none or is not known."""

_HEADERS: Final = {
    "Idempotency-Key": (
        "Chosen by the client; a repeat with the same key and body has one effect and the same answer.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"},
    ),
    "If-Match": ('Act only on this version, for instance `"3"`.', {"type": "string"}),
    "If-None-Match": ("`*`: create only.", {"type": "string", "enum": ["*"]}),
}


def codes_of(route: Route) -> list[str]:
    """Give every code that a route may answer with, sorted."""
    codes = {"internal", *route.problems}
    if not route.public:
        codes |= {"unauthorized", "bad_header"}
        codes.update(_PATH_PARAMS[name][2] for name in _names_in(route.path))
        if {"job_id", "run_id"} & set(_names_in(route.path)):
            codes.add("forbidden")
    if route.body is not None:
        codes.update(_BODY_CODES)
    if route.writes:
        codes.update(_WRITE_CODES)
    if route.reads:
        codes |= {"no_owner", "overloaded"}
    return sorted(codes)


def document_of(routes: Sequence[Route]) -> dict[str, Any]:
    """Write the document of all routes that are not hidden."""
    shown = [route for route in routes if not route.hidden]
    types = [route.body for route in shown if route.body is not None]
    types += [kind for route in shown for kind in route.answers.values() if kind is not None]
    _, components = msgspec.json.schema_components([*_unique(types), ProblemAnswer], ref_template=_REF)
    components["ProblemAnswer"]["properties"]["code"] = {"$ref": _REF.format(name="ProblemCode")}
    components["ProblemCode"] = {
        "type": "string",
        "enum": sorted(STATUS),
        "description": "\n".join(f"`{code}`: {status}. {title}." for code, (status, title) in sorted(STATUS.items())),
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Horolog",
            "version": API_VERSION,
            "description": "A scheduler whose only durable store is a Kafka log. Contract in words: docs/http-api.md.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _unique(types: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for kind in types:
        if kind not in found:
            found.append(kind)
    return found


def _names_in(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary or _summary(route),
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.public:
        operation["security"] = []
    if route.body is not None:
        (schema,), _ = msgspec.json.schema_components([route.body], ref_template=_REF)
        required = bool(msgspec.structs.fields(route.body)) and any(
            f.required for f in msgspec.structs.fields(route.body)
        )
        operation["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z]+", route.path.removeprefix("/v1"))
    return "_".join([route.method.lower(), *(word.lower() for word in words)])


def _summary(route: Route) -> str:
    first = (route.handler.__doc__ or "").strip().splitlines()[0]
    text = re.sub(r"^`[^`]*`[:.]?\s*", "", first).strip()
    return (text[:1].upper() + text[1:]) or f"{route.method} {route.path}"


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in _names_in(route.path):
        meaning, pattern, _ = _PATH_PARAMS[name]
        schema = {"type": "string", "minLength": 1} | ({"pattern": f"^{pattern}$"} if pattern else {})
        found.append({"name": name, "in": "path", "required": True, "description": meaning, "schema": schema})
    found += [_query_parameter(param) for param in route.query]
    for header in route.headers:
        about, header_schema = _HEADERS[header]
        found.append({"name": header, "in": "header", "required": False, "description": about, "schema": header_schema})
    return found


def _query_parameter(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    match param.kind:
        case "integer":
            schema = {"type": "integer", "minimum": param.low, "maximum": param.high}
        case "boolean":
            schema = {"type": "boolean"}
        case "instant":
            schema = {"type": "string", "format": "date-time"}
        case "text":
            if param.choices:
                schema["enum"] = list(param.choices)
    if param.many:
        schema = {"type": "array", "items": schema}
    return {"name": param.name, "in": "query", "required": False, "description": param.meaning, "schema": schema}


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in route.answers.items():
        response: dict[str, Any] = {"description": _first_line(kind)}
        if kind is None:
            response["content"] = {"text/plain": {"schema": {"type": "string"}}}
        else:
            (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
            response["content"] = {"application/json": {"schema": schema}}
        responses[str(status)] = response
    by_status: dict[int, list[str]] = {}
    for code in codes_of(route):
        by_status.setdefault(STATUS[code][0], []).append(code)
    for status, codes in sorted(by_status.items()):
        response = responses.setdefault(str(status), {"description": "", "content": {}})
        response["description"] = f"{response['description']} {_told(codes)}".strip()
        response["content"]["application/problem+json"] = {"schema": _problem_schema(codes)}
        if status in (429, 503):
            response["headers"] = {"Retry-After": {"schema": {"type": "string"}, "description": "Whole seconds."}}
    return responses


def _first_line(kind: Any) -> str:
    return (getattr(kind, "__doc__", None) or "The answer.").strip().splitlines()[0] if kind is not None else "Text."


def _told(codes: list[str]) -> str:
    return " ".join(f"`{code}`: {STATUS[code][1]}." for code in codes)


def _problem_schema(codes: list[str]) -> dict[str, Any]:
    return {
        "allOf": [
            {"$ref": _REF.format(name="ProblemAnswer")},
            {"type": "object", "properties": {"code": {"enum": codes}}},
        ]
    }
