"""Cursors and consistency tokens: opaque texts for clients, places in the partitions for us. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from api.http_call import bad_header
from streams.core.definition import JOB_ID_PATTERN

CHARS_MAX: Final = 512

_CURSOR_ALLOWED: Final = "the nextCursor of the page before, unchanged"
_SHOWN_ALLOWED: Final = "the consistencyToken of an earlier answer, unchanged"


class Place(NamedTuple):
    """Where a list goes on: behind job `after` of a partition."""

    partition: int = 0
    after: str | None = None
    job_id: str = ""
    """Lists of runs: the job whose runs were given in part ..."""
    at_ms: int = 0
    run_id: str = ""
    """... up to this one, newest first."""


def _encode(*parts: object) -> str:
    return base64.urlsafe_b64encode("|".join(map(str, parts)).encode()).decode().rstrip("=")


def _decode(text: str, count: int) -> list[str]:
    """Give the parts. Raises ValueError."""
    if len(text) > CHARS_MAX or not text.isascii():
        raise ValueError(text)
    try:
        parts = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode().split("|")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(text) from error
    if len(parts) != count:
        raise ValueError(text)
    return parts


def _number(text: str) -> int:
    if not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > 16:
        raise ValueError(text)
    return int(text)


def write_place(place: Place) -> str:
    """Write a cursor."""
    return _encode(place.partition, place.after or "", place.job_id, place.at_ms, place.run_id)


def read_place(cursor: str | None, partitions: int) -> Place:
    """Read a cursor; None begins. Raises Problem."""
    if cursor is None:
        return Place()
    try:
        partition, after, job_id, at_ms, run_id = _decode(cursor, 5)
        place = Place(_number(partition), after or None, job_id, _number(at_ms), run_id)
    except ValueError:
        raise bad_header("cursor", _CURSOR_ALLOWED) from None
    if not 0 <= place.partition < partitions:
        raise bad_header("cursor", _CURSOR_ALLOWED)
    return place


def write_run_place(at_ms: int, run_id: str) -> str:
    """Write a cursor into the runs of one job."""
    return _encode(at_ms, run_id)


def read_run_place(cursor: str) -> tuple[int, str]:
    """Read it. Raises Problem."""
    try:
        at_ms, run_id = _decode(cursor, 2)
        return _number(at_ms), run_id
    except ValueError:
        raise bad_header("cursor", _CURSOR_ALLOWED) from None


def write_name(name: str) -> str:
    """Write a cursor into a list of names."""
    return _encode(name, "")


def read_name(cursor: str | None) -> str:
    """Read it: the name before the page; empty begins. Raises Problem."""
    if cursor is None:
        return ""
    try:
        name, _ = _decode(cursor, 2)
    except ValueError:
        raise bad_header("cursor", _CURSOR_ALLOWED) from None
    return name


class Shown(NamedTuple):
    """What a consistency token names: a job's version that was committed."""

    job_id: str
    version: int


def write_token(shown: Shown) -> str:
    """Write a consistency token."""
    return _encode(*shown)


def read_token(token: str) -> Shown:
    """Read it. Raises Problem."""
    try:
        job_id, version = _decode(token, 2)
        shown = Shown(job_id, _number(version))
    except ValueError:
        raise bad_header("consistency", _SHOWN_ALLOWED) from None
    if JOB_ID_PATTERN.fullmatch(job_id) is None:
        raise bad_header("consistency", _SHOWN_ALLOWED)
    return shown
