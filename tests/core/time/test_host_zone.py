"""A32, A44, R1: the host's zone never matters. The whole of 3A runs again under five host zones, in fresh processes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HOST_ZONES = ["UTC", "Australia/Sydney", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati"]


@pytest.mark.parametrize("host_zone", HOST_ZONES)
def test_a32_section_3a_holds_under_host_zone(host_zone: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_cases_fire_time.py")]
    done = subprocess.run(  # noqa: S603 - our own interpreter and file
        command, cwd=ROOT, env={**os.environ, "TZ": host_zone}, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout[-2_000:]
    assert " passed" in done.stdout


def test_a32_every_hour_in_utc_has_no_hole_where_sydney_changes(ask: Any) -> None:
    assert ask.next("0 0 * * * *", "UTC", "2025-10-05T02:00Z") == ["2025-10-05T03:00Z"]


@pytest.mark.parametrize("offset", range(-14, 13))
def test_a45_zones_west_and_east_of_greenwich_always_move_on(ask: Any, ms: Any, offset: int) -> None:
    """A44, A45: one run a slot in Etc/GMT-14 to Etc/GMT+12; POSIX signs, so +12 is west."""
    zone = f"Etc/GMT{offset:+d}" if offset else "Etc/GMT"
    found = ask.occurrences("0 9 * * *", zone, "2026-01-01T00:00Z", 400)

    instants = [occurrence.at_ms for occurrence in found]
    assert {late - early for early, late in itertools.pairwise(instants)} == {86_400_000}
    assert 0 < instants[0] - ms("2026-01-01T00:00Z") <= 86_400_000
    assert instants[0] // 3_600_000 % 24 == (9 + offset) % 24
