"""What a JSON body may not hold though it is JSON: the same key twice, numbers and texts that others cannot read.

`inspect` names the field, so that nobody searches a 64 KB payload for one letter. Bodies that are no JSON at all pass:
the decoder of the body's type says so in its own words.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from api.problems import Problem

NESTING_MAX: Final = 64
"""Levels of arrays and objects: far above what people write, and far below where decoders of any language give up."""

INTEGER_DIGITS_MAX: Final = 300
"""Below the largest double (309 digits), so that every reader has a number for it."""

FIELD_CHARS_MAX: Final = 200
"""Of a path in an answer; keys may be as long as a body."""

NUL_ALLOWED: Final = frozenset({"payload", "result", "progress", "error"})
"""Kept as they are and used for nothing. All other texts are names, notes and settings."""

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_NUL: Final = re.compile(rb"\\u0000")


class _Twice:
    """Stands for the value of a key that came more than once."""


class _TooLarge:
    """Stands for a number that is out of range."""


def has_surrogates(data: bytes) -> bool:
    """Tell quickly whether `inspect` is worth its time for texts that must survive an encoding."""
    return _SURROGATE.search(data) is not None


def inspect(data: bytes, prefix: str = "") -> None:
    """Refuse what a reader behind us could misread. Raises Problem `bad_json` or `invalid_field`.

    `prefix` is put before the field's path, for items of a batch.
    """
    suspicious = data.count(b"[") + data.count(b"{") > NESTING_MAX

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal suspicious
        made = dict(items)
        if len(made) != len(items):
            suspicious = True
            keys = [key for key, _ in items]
            made |= {key: _Twice() for key in made if keys.count(key) > 1}
        return made

    def real(text: str) -> float | _TooLarge:
        nonlocal suspicious
        number = float(text)
        if math.isfinite(number):
            return number
        suspicious = True
        return _TooLarge()

    def whole(text: str) -> int | _TooLarge:
        nonlocal suspicious
        if len(text) <= INTEGER_DIGITS_MAX:
            return int(text)
        suspicious = True
        return _TooLarge()

    try:
        value = json.loads(data, object_pairs_hook=pairs, parse_float=real, parse_int=whole)
    except RecursionError:
        raise _too_deep("") from None
    except ValueError:
        return
    has_nul = _NUL.search(data) is not None
    if suspicious or has_nul or has_surrogates(data):
        _walk(value, prefix)


def _walk(value: Any, prefix: str) -> None:
    """Find the first offence, level by level."""
    waiting: list[tuple[str, Any, int]] = [(prefix, value, 0)]
    while waiting:
        path, found, depth = waiting.pop()
        match found:
            case dict():
                _check_depth(path, depth)
                for key, inner in found.items():
                    _check_text(path, key, prefix)
                    waiting.append((f"{path}.{key}" if path else key, inner, depth + 1))
            case list():
                _check_depth(path, depth)
                waiting += [(f"{path}[{index}]", inner, depth + 1) for index, inner in enumerate(found)]
            case str():
                _check_text(path, found, prefix)
            case _Twice():
                raise _invalid(path, "is given twice; send it once")
            case _TooLarge():
                raise _invalid(path, "is a number out of range; send it as a text if it must be exact")


def _check_depth(path: str, depth: int) -> None:
    if depth > NESTING_MAX:
        raise _too_deep(path)


def _check_text(path: str, text: str, prefix: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(path, "holds half of a surrogate pair, which is no character; send both halves") from None
    top = re.split(r"[.\[]", path.removeprefix(prefix).lstrip("."), maxsplit=1)[0]
    if "\0" in text and top not in NUL_ALLOWED:
        raise _invalid(path, "holds the character NUL; remove it")


def _too_deep(path: str) -> Problem:
    field = _shown(path) or None
    detail = f"{field or 'The body'}: is nested too deeply, more than {NESTING_MAX} levels; flatten it."
    return Problem("bad_json", detail, field=field, limit=NESTING_MAX)


def _invalid(path: str, what: str) -> Problem:
    field = _shown(path) or None
    return Problem("invalid_field", f"{field or 'The body'}: {what}.", field=field)


def _shown(path: str) -> str:
    return path.encode("ascii", "backslashreplace").decode()[:FIELD_CHARS_MAX]
