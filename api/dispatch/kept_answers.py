"""Lease answers kept for a repeat of the same call after a lost connection (docs/http-api.md, "A lost answer").

Pure. Kept until one of its runs is heard from, at most `KEEP_MS`, within `KEPT_BYTES_MAX` of payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streams.core.commands import Grant

KEEP_MS: Final = 10_000
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Payloads may have 64 KB; the oldest answers go first, and a repeat of such a call is a new request."""

_GRANT_BYTES: Final = 1_000

AnswerKey = tuple[str, str, str]
"""(tenant, queue, request id of the call)."""


class _Kept:
    __slots__ = ("bytes", "grants", "until_ms")

    def __init__(self, grants: Sequence[Grant], until_ms: float) -> None:
        self.grants = list(grants)
        self.until_ms = until_ms
        self.bytes = sum(_GRANT_BYTES + len(grant.payload) for grant in grants)


class KeptAnswers:
    """Answers by call, oldest first."""

    def __init__(self) -> None:
        self._answers: dict[AnswerKey, _Kept] = {}
        self._by_run: dict[str, AnswerKey] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def keep(self, key: AnswerKey, grants: Sequence[Grant], now_ms: float) -> None:
        """Remember an answer with at least one run."""
        self.drop(key)
        self._expire(now_ms)
        kept = self._answers[key] = _Kept(grants, now_ms + KEEP_MS)
        self._bytes += kept.bytes
        for grant in grants:
            self._by_run[grant.run_id] = key
        while self._bytes > KEPT_BYTES_MAX and len(self._answers) > 1:
            self.drop(next(iter(self._answers)))

    def find(self, key: AnswerKey, now_ms: float) -> list[Grant] | None:
        """Give the runs of an earlier answer to the same call."""
        kept = self._answers.get(key)
        return kept.grants if kept is not None and kept.until_ms > now_ms else None

    def drop(self, key: AnswerKey) -> None:
        """Forget one answer."""
        kept = self._answers.pop(key, None)
        if kept is None:
            return
        self._bytes -= kept.bytes
        for grant in kept.grants:
            if self._by_run.get(grant.run_id) == key:
                del self._by_run[grant.run_id]

    def heard(self, run_ids: Iterable[str]) -> None:
        """A worker spoke of these runs, so it has their answer."""
        if not self._by_run:
            return
        for run_id in run_ids:
            key = self._by_run.get(run_id)
            if key is not None:
                self.drop(key)

    def _expire(self, now_ms: float) -> None:
        while self._answers:
            key = next(iter(self._answers))
            if self._answers[key].until_ms > now_ms:
                return
            self.drop(key)
