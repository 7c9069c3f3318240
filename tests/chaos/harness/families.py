"""Kinds of faults put together as issue 7 lists them, and a deck that draws each family equally often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Collection

FAMILIES: Final = {
    "owner killed": ("kill",),
    "owner frozen": ("freeze",),
    "graceful stop": ("graceful_stop",),
    "join": ("join",),
    "start after a kill or stop": ("rejoin",),
    "rolling restart": ("rolling_restart",),
    "rebalance storm": ("storm",),
    "two processes, one directory": ("store_shared_directory",),
    "broker killed": ("broker_kill",),
    "broker restarted": ("broker_stop",),
    "all brokers gone": ("broker_gone",),
    "slow link": ("net_slow",),
    "link cut": ("net_cut", "net_cut_all", "net_gateway_cut"),
    "one-way link": ("net_cut_up", "net_cut_down"),
    "lost acknowledgements": ("net_lost_answers", "net_gateway_lost_answers"),
    "worker killed": ("worker_kill",),
    "worker stuck": ("worker_freeze",),
    "gateway killed": ("gateway_kill",),
    "gateway frozen or restarted": ("gateway_freeze", "gateway_restart"),
    "poison input": ("poison_definitions", "poison_commands"),
    "store: bits flipped": ("store_bits_flipped",),
    "store: file cut": ("store_truncated",),
    "store: file deleted": ("store_deleted",),
    "store: old copy": ("store_old_copy", "store_copied_live"),
    "disk full": ("disk_full",),
    "clock stepped": ("clock_forward", "clock_back", "clocks_forward", "clocks_back"),
    "clock drifting": ("clock_drift",),
    "compaction": ("compaction",),
    "retention": ("retention",),
    "open transaction": ("open_transaction",),
    "two schema versions": ("schema_versions",),
}
"""Each with its kinds; a kind that has steps (`kill_before_commit`) belongs to what it begins with. `rejoin` is not
drawn: it follows others."""


def family_of(kind: str) -> str:
    """Return the family that a kind belongs to; `ValueError` where none does."""
    stem = kind.partition("_before_")[0]
    for family, kinds in FAMILIES.items():
        if stem in kinds:
            return family
    raise ValueError(f"{kind} belongs to no family; add it to FAMILIES")


class Deck:
    """Draws kinds: every family once, in random order, before any comes again; within one, by chance."""

    def __init__(self, kinds: Collection[str], rng: random.Random) -> None:
        self._rng = rng
        self._of: dict[str, list[str]] = {}
        for kind in kinds:
            self._of.setdefault(family_of(kind), []).append(kind)
        self._left: list[str] = []

    def draw(self) -> str:
        """Return the next kind."""
        if not self._left:
            self._left = list(self._of)
            self._rng.shuffle(self._left)
        return self._rng.choice(self._of[self._left.pop()])
