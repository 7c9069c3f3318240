"""What the tests of the core share: an owner of one job, whose clock stands at 2027-01-01T00:00:00Z."""

from __future__ import annotations

import pytest

from streams.core.manual import ManualOwner

NEW_YEAR_MS = 1_798_761_600_000


@pytest.fixture
def owner() -> ManualOwner:
    """An owner without a job yet, at midnight UTC: the default hourly job is due at one o'clock."""
    return ManualOwner(now_ms=NEW_YEAR_MS + 1)
