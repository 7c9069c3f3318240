"""When a job writes its checkpoint: every 7 days, spread by its id, so that jobs of one minute write in many.

Any 30 days of history then hold each living job whole at least four times, and can be audited from their own start
(DESIGN section 4). A checkpoint changes nothing but the time of the next one.
"""

from __future__ import annotations

import zlib
from typing import Final

CHECKPOINT_EVERY_MS: Final = 7 * 24 * 3_600_000
"""DESIGN section 4."""


def first_checkpoint_ms(job_id: str, at_ms: int) -> int:
    """Return the first checkpoint of a job that began to live at `at_ms`: within 7 days, at its id's fraction."""
    return at_ms + 1 + ((zlib.crc32(job_id.encode()) * CHECKPOINT_EVERY_MS) >> 32)


def next_checkpoint_ms(planned_ms: int, at_ms: int) -> int:
    """Return the first of the job's checkpoint times after `at_ms`; one that came late does not shift the others."""
    return planned_ms + ((at_ms - planned_ms) // CHECKPOINT_EVERY_MS + 1) * CHECKPOINT_EVERY_MS
