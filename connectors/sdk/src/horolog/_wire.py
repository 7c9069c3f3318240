"""JSON and time as they travel: compact JSON, RFC 3339 instants, bounded texts. Pure functions.

Bounds are those of docs/http-api.md, section 1; the gateway checks them too.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

UTC = dt.timezone.utc

PAYLOAD_BYTES_MAX = 65_536  # docs/http-api.md: a payload must fit a Kafka batch many times over
RESULT_BYTES_MAX = 65_536
PROGRESS_BYTES_MAX = 4_096  # travels in every heartbeat, so it stays small
ERROR_CHARACTERS_MAX = 4_096
BATCH_ITEMS_MAX = 1_000
BATCH_BYTES_MAX = 3 * 1024 * 1024  # under the gateway's 4 MiB, with room for the envelope

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def to_json(value: Any) -> str:
    """Return compact JSON. Raises TypeError or ValueError for what JSON cannot hold (also NaN and infinities)."""
    return _encode(value)


def format_time(instant: dt.datetime) -> str:
    """Return an aware datetime as RFC 3339 in UTC with milliseconds. Raises ValueError for a naive one."""
    if instant.tzinfo is None:
        message = "a datetime needs a time zone, for instance datetime.now(tz=timezone.utc)"
        raise ValueError(message)
    utc = instant.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> dt.datetime:
    """Return an RFC 3339 instant as an aware datetime in UTC. Raises ValueError."""
    normal = text[:-1] + "+00:00" if text[-1:] in {"Z", "z"} else text
    parsed = dt.datetime.fromisoformat(normal)
    if parsed.tzinfo is None:
        message = f"{text!r} has no offset"
        raise ValueError(message)
    return parsed.astimezone(UTC)


def bounded(text: str, limit: int = ERROR_CHARACTERS_MAX) -> str:
    """Cut a text to `limit` characters, keeping its beginning and its end (a traceback's last line matters most)."""
    if len(text) <= limit:
        return text
    gap = " ... "
    head = limit // 4
    return text[:head] + gap + text[-(limit - head - len(gap)) :]
