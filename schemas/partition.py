"""Where everything about a job lives: `partition_for(job_id, partitions)`.

murmur2 (the 32-bit hash of Kafka's Java client, librdkafka's `murmur2_random` and aiokafka) of the key's UTF-8
bytes, without its sign bit, modulo the number of partitions, which never changes (DESIGN section 4). Our producers
pass the partition themselves; tests/schemas/murmur2_vectors.json holds what other clients compute.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF

_CACHED: Final = 65_536
"""Job ids seen lately: 256 partitions' worth of traffic for a second, about 10 MB."""


def murmur2(key: bytes) -> int:
    """Return the unsigned 32-bit murmur2 of a key, with Kafka's seed."""
    size = len(key)
    words = size >> 2
    hashed = _SEED ^ size
    for word in struct.unpack_from(f"<{words}I", key):
        mixed = word * _M & _WORD
        mixed = (mixed ^ mixed >> 24) * _M & _WORD
        hashed = hashed * _M & _WORD ^ mixed
    tail = key[words << 2 :]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _M & _WORD
    hashed = (hashed ^ hashed >> 13) * _M & _WORD
    return hashed ^ hashed >> 15


@lru_cache(maxsize=_CACHED)
def _positive_hash(key: str) -> int:
    return murmur2(key.encode()) & _POSITIVE


def partition_for(job_id: str, partitions: int) -> int:
    """Return the partition (from 0) of a job among `partitions`. Raises ValueError for fewer than 1."""
    if partitions < 1:
        raise ValueError(f"{partitions} partitions; at least 1 is needed")
    return _positive_hash(job_id) % partitions
