"""A scheduler process in which something comes to stand still, when the file DIRECTORY/stall is there.

    python scheduler_with_stalls.py DIRECTORY agent|consumer|producer

agent: the agents of the inputs wait for ever. consumer: nothing is fetched any more. producer: no record of a
transaction is sent. The bounds are a tenth of the real ones. It ends with the process that started it (Linux).
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schemas.config import load_settings
from streams import app, faust_app, stalls
from streams.inbox import Input
from streams.transaction import Committed, KafkaCommitter, Outcome

if TYPE_CHECKING:
    from streams.transaction import Transaction

PR_SET_PDEATHSIG: Final = 1
TENTH: Final = 10


def main(directory: Path, what: str) -> int:
    """Run a scheduler with that weakness."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for bound in ("INPUT_BOUND_MS", "PRODUCER_BOUND_MS"):
        setattr(stalls, bound, getattr(stalls, bound) // TENTH)
    stall = directory / "stall"
    {"agent": _stick_agents, "consumer": _silence_consumer, "producer": _kill_producer}[what](stall)
    return app.run_scheduler(load_settings())


def _stick_agents(stall: Path) -> None:
    make_input = Input

    def stuck(*fields: Any) -> Any:
        # What an agent does that died: its records are taken from the consumer, and none comes to the owner.
        if stall.exists():
            raise asyncio.CancelledError
        return make_input(*fields)

    setattr(faust_app, "Input", stuck)  # noqa: B010 - the seam of this fault


def _silence_consumer(stall: Path) -> None:
    fetch = faust_app._ReadCommittedThread.getmany

    async def getmany(self: Any, *positional: Any, **named: Any) -> Any:
        if stall.exists():  # noqa: ASYNC240 - a test's
            await asyncio.Event().wait()
        return await fetch(self, *positional, **named)

    setattr(faust_app._ReadCommittedThread, "getmany", getmany)  # noqa: B010 - the seam of this fault


def _kill_producer(stall: Path) -> None:
    commit = KafkaCommitter.commit

    def dead(self: KafkaCommitter, transaction: Transaction) -> Committed:
        if stall.exists():
            return Committed(outcome=Outcome.ABORTED, reason="nothing is sent")
        return commit(self, transaction)

    setattr(KafkaCommitter, "commit", dead)  # noqa: B010 - the seam of this fault


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
