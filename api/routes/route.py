"""What a route is: how it is served, and what it takes and answers. openapi.py writes the second part down."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp import web

    from api.http_call import HttpCall

HeaderName = Literal["Idempotency-Key", "If-Match", "If-None-Match"]

_NO_ANSWERS: Final[Mapping[int, Any]] = MappingProxyType({})


class Param(NamedTuple):
    """A query parameter. Whole numbers have bounds; `choices` are all its values; `many`: it may be repeated."""

    name: str
    meaning: str
    kind: Literal["text", "instant", "integer", "boolean"] = "text"
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    many: bool = False


class Route(NamedTuple):
    """One method of one path. `path` is an aiohttp pattern; it also is the route's name in metrics."""

    method: str
    path: str
    handler: Callable[[HttpCall], Awaitable[web.StreamResponse]]
    public: bool = False
    """Without a token."""
    batch: bool = False
    """Whether the larger body bound holds."""
    body: Any = None
    """The type of the body; None: it takes none."""
    query: tuple[Param, ...] = ()
    headers: tuple[HeaderName, ...] = ()
    answers: Mapping[int, Any] = _NO_ANSWERS
    """Status to the type of the answer; None: no JSON."""
    problems: tuple[str, ...] = ()
    """Codes beyond those that follow from the rest (openapi.py)."""
    writes: bool = False
    """Sends commands to owners."""
    reads: bool = False
    """Asks owners."""
    hidden: bool = False
    """Speaks another protocol than this API; not in the OpenAPI document."""
    summary: str = ""
    """Empty: the first line of the handler's docstring, without the route's name."""
