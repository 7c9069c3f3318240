"""Which job a run id names, remembered: each run is asked about some four times within seconds."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from streams.core import identity

CACHED: Final = 65_536
"""Runs of some ten seconds at the rate that one gateway bears; about 15 MB."""

job_id_of = lru_cache(CACHED)(identity.job_id_of)
