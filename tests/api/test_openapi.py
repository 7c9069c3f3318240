"""The OpenAPI document says what the routes do: all of them, with every status and code that they may answer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from api.app import ROUTES
from api.openapi import codes_of, document_of
from api.problems import CODE_OF_REPLY, STATUS

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

DOCUMENT = document_of(ROUTES)
SHOWN = [route for route in ROUTES if not route.hidden]
NOT_OF_A_ROUTE = {
    "unknown_route",
    "bad_request",
    "method_not_allowed",
    "rate_limited",
    "not_paused",
    "unknown_tenant",
}
"""Codes that no documented operation answers with: paths and methods that are none, and words kept for later."""


def test_the_document_keeps_the_specification() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    assert DOCUMENT["openapi"].startswith("3.1")


async def test_the_gateway_serves_it_without_a_token(api: Api) -> None:
    answered = await api("GET", "/openapi.json")
    assert answered.status == 200
    assert answered.body == DOCUMENT


def test_every_route_is_in_it_once() -> None:
    operations = [(method.upper(), path) for path, of_path in DOCUMENT["paths"].items() for method in of_path]
    assert sorted(operations) == sorted((route.method, route.path) for route in SHOWN)
    ids = [operation["operationId"] for of_path in DOCUMENT["paths"].values() for operation in of_path.values()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("route", SHOWN, ids=lambda route: f"{route.method} {route.path}")
def test_every_code_of_a_route_stands_at_its_status(route: Any) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    told: dict[str, int] = {}
    for status, response in operation["responses"].items():
        schema = response["content"].get("application/problem+json", {}).get("schema")
        if schema is not None:
            told |= dict.fromkeys(schema["allOf"][1]["properties"]["code"]["enum"], int(status))
    assert told == {code: STATUS[code][0] for code in codes_of(route)}
    assert re.fullmatch(r"[A-Z].*", operation["summary"])


def test_every_code_is_told_of_some_route() -> None:
    told = {code for route in SHOWN for code in codes_of(route)}
    assert set(STATUS) - told - NOT_OF_A_ROUTE - {"slot_decided"} == set()
    assert set(CODE_OF_REPLY.values()) <= set(STATUS)
    assert set(DOCUMENT["components"]["schemas"]["ProblemCode"]["enum"]) == set(STATUS)
