"""What a route is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from api.http_call import HttpCall


class Route(NamedTuple):
    """One method of one path. `path` is an aiohttp pattern; it also is the route's name in metrics."""

    method: str
    path: str
    handler: Callable[[HttpCall], Awaitable[web.StreamResponse]]
    public: bool = False
    """Without a token."""
    batch: bool = False
    """Whether the larger body bound holds."""
