"""Who calls: service tokens, and the tenant that each speaks for.

The tokens file has one line for each token: `tenant token [name]`, or `tenant sha256:<hex> [name]`; blank lines and
lines that begin with `#` do not count. Without a file (development, loopback) every call is tenant `default`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from api.problems import Problem
from streams.core.definition import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TENANT_DEFAULT: Final = "default"
TOKEN_CHARS_MIN: Final = 16
"""Shorter ones can be guessed."""

_HASHED: Final = "sha256:"


class Caller(NamedTuple):
    """The service behind a call."""

    tenant: str
    name: str


class TokensFileError(ValueError):
    """The tokens file cannot be used; names the line, never the token."""


class Auth:
    """Tokens by their hash, so that looking one up takes the same time whatever it begins with."""

    def __init__(self, callers: Mapping[str, Caller] | None) -> None:
        self._callers = callers

    @property
    def open(self) -> bool:
        """Whether calls without a token are accepted."""
        return self._callers is None

    def caller(self, authorization: str | None) -> Caller:
        """Give the caller of an Authorization header. Raises Problem `unauthorized`."""
        if self._callers is None:
            return _ANYBODY
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and token:
            caller = self._callers.get(_hash(token.strip()))
            if caller is not None:
                return caller
        what = "the token is not known" if authorization else "is missing"
        raise Problem(
            "unauthorized",
            f"Authorization: {what}; send Bearer and a service token of this gateway.",
            field="Authorization",
            headers={"WWW-Authenticate": "Bearer"},
        )


_ANYBODY: Final = Caller(TENANT_DEFAULT, "anonymous")


def read_tokens(path: Path) -> Auth:
    """Read a tokens file. Raises TokensFileError, or OSError if it cannot be read."""
    callers: dict[str, Caller] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        tenant, token, name = _words(path, number, words)
        digest = token.removeprefix(_HASHED).lower() if token.startswith(_HASHED) else _hash(token)
        callers[digest] = Caller(tenant, name)
    if not callers:
        raise TokensFileError(f"{path}: holds no token; write lines of: tenant token")
    return Auth(callers)


def _words(path: Path, number: int, words: list[str]) -> tuple[str, str, str]:
    if len(words) not in (2, 3):
        raise TokensFileError(f"{path}, line {number}: write: tenant token [name]")
    tenant, token = words[:2]
    if NAME_PATTERN.fullmatch(tenant) is None:
        raise TokensFileError(f"{path}, line {number}: the first word is not a tenant's name")
    if len(token) < TOKEN_CHARS_MIN:
        raise TokensFileError(f"{path}, line {number}: a token has at least {TOKEN_CHARS_MIN} characters")
    return tenant, token, words[2] if len(words) == 3 else tenant


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()
