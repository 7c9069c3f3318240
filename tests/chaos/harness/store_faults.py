"""Faults of the local stores: damaged, cut, missing and old files, a directory for two, a full disk.

A store is a cache of the ledger: whatever is done to it costs a replay and nothing else (DESIGN section 6, "Store").
The harness is the supervisor too: a process that ends by itself, and says why, is started again.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from streams.kafka_dev import wait_until
from tests.chaos.harness.cluster import READY_TIMEOUT_S, now_ms
from tests.chaos.harness.damage import harm, offset_of, stores_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.harness.campaign import Campaign
    from tests.chaos.harness.cluster import Scheduler
    from tests.chaos.harness.damage import How

FROZEN_S: Final = 0.3
"""A freeze before the kill stops the process in the middle of whatever it writes."""

DISK_BYTES_MAX: Final = 24 * 1024
"""Of one file on the full disk: RocksDB's log passes it within seconds; what a process says before it ends does not."""

ENDS_MAX: Final = 4
"""How often a process may end by itself over a damaged store: it finds one damage at a time, in one partition each."""

ENDED_TIMEOUT_S: Final = 90.0
OLD_AFTER_S: Final = 3.0
"""What the copy of a store misses, at least."""

FULL: Final = ("File too large", "No space left")


class StoreFaults:
    """Does them to the schedulers of a campaign."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._cluster = campaign.cluster
        self._rng = campaign.rng
        self._scratch = campaign.cluster.root / "scratch"
        self._twin: Scheduler | None = None
        self.kinds: dict[str, Callable[[], None]] = {
            "store_bits_flipped": lambda: self._damage("store_bits_flipped", "bits"),
            "store_truncated": lambda: self._damage("store_truncated", "truncated"),
            "store_deleted": lambda: self._damage("store_deleted", "deleted"),
            "store_old_copy": self.old_copy,
            "store_copied_live": self.copied_live,
            "store_shared_directory": self.shared_directory,
            "disk_full": self.disk_full,
        }

    def _damage(self, kind: str, how: How) -> None:
        """Kill an owner, or freeze and kill it; damage a file of each of its stores; start it again."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        self._end(victim)
        told = [harm(store, how, self._rng, self._scratch) for store in stores_in(victim.data_dir)]
        bitten = [text for text in told if text is not None]
        assert bitten, f"nothing to be seen of {how} in {victim.data_dir}"
        self._bring_back(kind, victim, at_ms, owned, f"{len(bitten)} stores damaged: {', '.join(bitten[:2])}")

    def old_copy(self) -> None:
        """Put the copy of a while ago in place of all stores of an owner."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        self._end(victim)
        copy = self._scratch / "old"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(victim.data_dir, copy)
        victim.start()
        self._cluster.wait_whole(victim)
        self._campaign.pause(OLD_AFTER_S)
        self._restore("store_old_copy", victim, copy, at_ms, owned)

    def copied_live(self) -> None:
        """The same with a copy that was made while the owner wrote: its files are of different moments."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        copy = self._scratch / "live"
        shutil.rmtree(copy, ignore_errors=True)
        with suppress(shutil.Error):  # files that were there when it began, and no longer
            shutil.copytree(victim.data_dir, copy)
        self._campaign.pause(OLD_AFTER_S)
        self._restore("store_copied_live", victim, copy, at_ms, owned)

    def _restore(self, kind: str, victim: Scheduler, copy: Path, at_ms: int, owned: frozenset[int]) -> None:
        self._end(victim)
        new = self._offsets(victim.data_dir)
        shutil.rmtree(victim.data_dir)
        shutil.copytree(copy, victim.data_dir)
        old = self._offsets(victim.data_dir)
        behind = {name: (old[name], at) for name, at in new.items() if name in old and old[name] != at}
        assert behind, f"the copy of {victim.data_dir} is not older: {old} and {new}"
        self._bring_back(kind, victim, at_ms, owned, f"{len(behind)} stores went back: {behind}")

    def _offsets(self, data_dir: Path) -> dict[str, int | None]:
        return {store.name: offset_of(store, self._scratch / "asked") for store in stores_in(data_dir)}

    def shared_directory(self) -> None:
        """Let a second process use the data directory of one that runs; then one of both dies and comes back."""
        host = self._campaign.an_owner()
        before, at_ms = self._cluster.owners(), now_ms()
        if self._twin is None:
            self._twin = self._cluster.add(data_dir=self._cluster.schedulers[0].data_dir)
            host = self._cluster.schedulers[0]
        else:
            host = self._cluster.schedulers[0]
            self._twin.start()
        twin = self._twin
        if not host.alive:
            host.start()
        self._cluster.wait_whole(twin, host)
        used = {self._slot(host), self._slot(twin)}
        assert len(used) == 2, f"{host.name} and {twin.name} both use {used}"
        dies = self._rng.choice((host, twin))
        dies.kill()
        dies.start()
        self._cluster.wait_whole(twin, host)
        twin.stop()
        self._cluster.wait_whole()
        moved = frozenset(p for p, owner in self._cluster.owners().items() if before.get(p) is not owner)
        self._campaign.note("store_shared_directory", at_ms, host.name, moved, f"two slots in use: {sorted(used)}")

    @staticmethod
    def _slot(scheduler: Scheduler) -> str:
        started = [line for line in scheduler.log() if line.get("event") == "scheduler_started"]
        return str(started[-1]["data"]).rpartition("/")[2]

    def disk_full(self) -> None:
        """Let no file of a running owner grow any more; it must end and say why, also when started again."""
        victim = self._campaign.an_owner()
        owned, at_ms = victim.owned(), now_ms()
        victim.set_log_aside()
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (DISK_BYTES_MAX, resource.RLIM_INFINITY))
        reasons = [self._ended_full(victim)]
        victim.set_log_aside()
        victim.start(CHAOS_FILE_BYTES_MAX=str(DISK_BYTES_MAX))
        reasons.append(self._ended_full(victim))
        self._bring_back("disk_full", victim, at_ms, owned, f"ended twice: {reasons[0]}")

    def _ended_full(self, victim: Scheduler) -> str:
        """Wait until it ends by itself; return the line of its log that says that the disk is full."""
        try:
            victim.wait_gone(ENDED_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{victim.name} goes on although it cannot write: {victim.log()[-5:]}") from None
        said = [word for line in victim.log()[-50:] for word in FULL if word in str(line)]
        assert victim.exit_code == 1, f"{victim.name} ended with {victim.exit_code}: {victim.log()[-5:]}"
        assert said, f"{victim.name} did not say that the disk is full: {victim.log()[-5:]}"
        return said[-1]

    # --- parts ---

    def _end(self, victim: Scheduler) -> None:
        if self._rng.random() < 0.5:
            victim.freeze()
            self._campaign.pause(FROZEN_S)
        victim.kill()

    def _bring_back(self, kind: str, victim: Scheduler, at_ms: int, owned: frozenset[int], evidence: str) -> None:
        """Start it, and again whenever it ends by itself, until it owns partitions."""
        before = len(victim.log())
        victim.start()
        ends = 0
        while not self._settled(victim):
            ends += 1
            assert ends <= ENDS_MAX, f"{victim.name} ends again and again: {victim.log()[-5:]}"
            assert victim.exit_code == 1, f"{victim.name} ended with {victim.exit_code}: {victim.log()[-5:]}"
            victim.start()
        reasons = [line["reason"] for line in victim.log()[before:] if line.get("event") == "store_discarded"]
        told = f"{evidence}; discarded at opening: {len(reasons)}; ended by itself: {ends}"
        self._campaign.note(kind, at_ms, victim.name, owned, told)

    def _settled(self, victim: Scheduler) -> bool:
        """Wait until all is whole with it (True), or it has ended (False)."""
        assert wait_until(lambda: not victim.alive or self._cluster.whole([victim]), READY_TIMEOUT_S), (
            f"{victim.name} owns nothing: {victim.log()[-5:]}"
        )
        return victim.alive
