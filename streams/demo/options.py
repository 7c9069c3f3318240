"""What the command line says to the demo."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    for_s: float | None = None
    """How long runs are shown; None: until Ctrl-C."""
    free_ports: bool = False
    directory: Path = Path(".horolog/demo")
