"""Undo tokens of bulk changes: what a change was, and of which jobs, so that it can be taken back. Pure.

The token holds everything; nothing is kept at the gateway. It gives no right: whoever sends it back may do only what
the same caller could do job by job. Compressed JSON in base64.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final, Literal

import msgspec

from api.problems import Problem
from streams.core.definition import Definition  # noqa: TC001 - msgspec reads the annotations at run time
from streams.core.state import KEY_MEMO_BYTES_MAX, Pause

UNDO_BYTES_MAX: Final = 2 * 1024 * 1024
"""Before compression: definitions of deleted jobs are in it. Its text fits into the 4 MiB of a batch call."""

JOBS_MAX: Final = 1_000

BulkAction = Literal["pause", "resume", "delete"]


class UndoJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job as it was before."""

    job_id: str
    pause: Pause | None = None
    definition: Definition | None = None


class UndoNote(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk change that can be taken back."""

    action: BulkAction
    correlation_id: str
    jobs: list[UndoJob]


_NOTE: Final = msgspec.json.Decoder(UndoNote)
_JOB: Final = msgspec.json.Decoder(UndoJob)


def size_of(job: UndoJob) -> int:
    """Give what a job adds to a token, before compression."""
    return len(msgspec.json.encode(job)) + 1


def write_undo(note: UndoNote) -> str:
    """Make the token."""
    return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(note))).decode()


def write_memo(job: UndoJob) -> bytes:
    """Write what the job itself remembers of a change under a key, for its repeat; empty where it is too large."""
    packed = zlib.compress(msgspec.json.encode(job))
    return packed if len(packed) <= KEY_MEMO_BYTES_MAX else b""


def read_memo(job_id: str, memo: bytes) -> UndoJob:
    """Read it; of one that was not kept nothing is known but the job."""
    if not memo:
        return UndoJob(job_id=job_id)
    return _JOB.decode(zlib.decompress(memo))


def read_undo(token: str) -> UndoNote:
    """Read a token. Raises Problem."""
    try:
        packed = base64.b64decode(token, altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        note = _NOTE.decode(unpacker.decompress(packed, UNDO_BYTES_MAX + 1024 * JOBS_MAX))
    except (binascii.Error, ValueError, zlib.error, msgspec.MsgspecError, RecursionError):
        detail = "undoToken: cannot be read; send the undoToken of a bulk answer, unchanged."
        raise Problem("invalid_field", detail, field="undoToken") from None
    if len(note.jobs) > JOBS_MAX:
        raise Problem("invalid_field", "undoToken: names too many jobs.", field="undoToken", limit=JOBS_MAX)
    return note
