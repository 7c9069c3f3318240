"""A wall clock that can be set, for one process; its monotonic clock stays.

A `SettableClock` is a file of three integers that the process reads at every look at its clock. A C compiler makes the
shim that shifts everything in the process, native libraries and a Java VM included (clock_shim.c, by LD_PRELOAD).
Without a compiler a scheduler shifts what its Python code reads (`patched`), and a broker keeps its clock.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_VARIABLE: Final = "CHAOS_CLOCK"
PATCH_VARIABLE: Final = "CHAOS_CLOCK_PATCHED"
CHECKOUT: Final = Path(__file__).resolve().parents[3]
SOURCE: Final = CHECKOUT / "tests" / "chaos" / "clock_shim.c"
BROKER_OFF_VARIABLE: Final = "CHAOS_BROKER_OFF_S"
"""How far the broker's clock is from the machine's in this run, for the harness and the programs that it starts."""

LAYOUT: Final = struct.Struct("=qqq")
COMPILE_TIMEOUT_S: Final = 120.0


class SettableClock:
    """The file, and what stands in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._write(0, 0)

    def step(self, offset_s: float) -> None:
        """Set it so many seconds away from the machine's; 0 sets it right."""
        self._write(round(offset_s * 1e9), 0)

    def drift(self, rate: float) -> None:
        """Let it part from where it is by so many seconds in each second."""
        offset_ns, _, _ = LAYOUT.unpack(self.path.read_bytes())
        self._write(offset_ns, round(rate * 1e9))

    def environment(self, shim: Path | None) -> dict[str, str]:
        """What a process needs to follow this clock; without shim only our scheduler does, see `patched`."""
        if shim is None:
            return {FILE_VARIABLE: str(self.path), PATCH_VARIABLE: "1"}
        return {FILE_VARIABLE: str(self.path), "LD_PRELOAD": str(shim)}

    def _write(self, offset_ns: int, rate_ppb: int) -> None:
        # In place: the reader has mapped the file. It may see a new offset with an old rate for a moment.
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.write(LAYOUT.pack(offset_ns, rate_ppb, time.monotonic_ns()))


class Clocks:
    """The clocks of a cluster's schedulers, made as they are asked for."""

    def __init__(self, directory: Path, shim: Path | None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._clocks: dict[str, SettableClock] = {}
        self.shim = shim

    def of(self, name: str) -> SettableClock:
        """Give the clock of a process."""
        if name not in self._clocks:
            self._clocks[name] = SettableClock(self._directory / f"{name}.clock")
        return self._clocks[name]

    def environment(self, name: str) -> dict[str, str]:
        """Give what the process needs to follow its clock."""
        return self.of(name).environment(self.shim)


def build_shim(directory: Path) -> Path | None:
    """Compile the shim; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    shim = directory / "clock_shim.so"
    subprocess.run(  # noqa: S603 - found above, our own source
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(shim), str(SOURCE)], check=True, timeout=COMPILE_TIMEOUT_S
    )
    return shim


def offset_ns(environ: Mapping[str, str] = os.environ) -> int:
    """Give how far the clock of this very process is from the machine's; 0 where it cannot be set."""
    name = environ.get(FILE_VARIABLE)
    if not name:
        return 0
    at_ns, rate_ppb, since_ns = LAYOUT.unpack(Path(name).read_bytes())
    shift_ns: int = at_ns + (time.monotonic_ns() - since_ns) * rate_ppb // 1_000_000_000
    return shift_ns


def judged_ms(environ: Mapping[str, str] = os.environ) -> int:
    """Give the time of all journals: the broker's, which stamps the log that they are judged with.

    That is the machine's, but in a run whose broker is apart; and never what a clock of this process was set to.
    """
    off_ns = round(float(environ.get(BROKER_OFF_VARIABLE, "0")) * 1e9)
    return (time.time_ns() - offset_ns(environ) + off_ns) // 1_000_000


def patched(environ: Mapping[str, str] = os.environ) -> bool:
    """Let `time.time` and `time.time_ns` of this process follow the clock, if it was told so; tell whether it was."""
    if environ.get(PATCH_VARIABLE) != "1":
        return False
    machine_ns = time.time_ns

    def time_ns() -> int:
        return machine_ns() + offset_ns(environ)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9
    return True
