"""A scheduler process that ends or freezes itself at a named step of the commit order, when told to.

    python scheduler_with_faults.py DIRECTORY

It is configured by HOROLOG_* like every scheduler. `DIRECTORY/order.json` holds the present order:

    {"id": 3, "step": "commit", "action": "kill", "skip": 2, "inputs": "any", "writes": 1}

`action` is kill (SIGKILL) or stop (SIGSTOP) of the own process, before the step (begin, produce, flush, offsets,
commit, apply) of a transaction, after letting `skip` passes go by. `inputs` waits for a transaction that consumes some
input, or none, or takes any; `writes` for one that writes for so many partitions. What happened goes to
`DIRECTORY/journal.jsonl`: "hit" before the signal; "refused" for every transaction that certainly did not commit, with
the places of its ledger markers. `CHAOS_WITHOUT` names guards of the commit order to leave out (generation, offsets,
flush), so that tests can show what each is for.

`CHAOS_FILE_BYTES_MAX` lets no file grow beyond so many bytes, as a full disk would: writing then fails with EFBIG.
`CHAOS_SCHEMA=newer` makes it write the next version of every record (tests/chaos/newer_schema.py).
Its wall clock can be set from outside (tests/chaos/harness/clock.py); the journal keeps the machine's.

SIGUSR1 makes it write all its stacks to its log, which is Faust's own doing. It ends when the process that started it
ends, however that happens (Linux).
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, Producer, TopicPartition

from schemas.config import load_settings
from streams import app, membership, transaction
from streams.transaction import FLUSH_TIMEOUT_S, OFFSETS_TIMEOUT_S, KafkaCommitter, Outcome, _StepError
from tests.chaos import newer_schema
from tests.chaos.control import Control, end_with_parent
from tests.chaos.harness import clock

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from streams.transaction import Committed, Receipt, Transaction

LINGER_MS: Final = 3_000
REFUSED: Final = (Outcome.STALE, Outcome.ABORTED, Outcome.POISONED)


class JournallingCommitter(KafkaCommitter):
    """Tells the control what a transaction consumes, and writes down what was refused. Guards can be left out."""

    def __init__(self, *positional: Any, **named: Any) -> None:
        self._control: Control = named["steps"]
        self._without = frozenset(os.environ.get("CHAOS_WITHOUT", "").split(","))
        self._last: dict[tuple[str, int], int] = {}
        self._receipts: dict[int, Receipt] = {}
        super().__init__(*positional, **named)

    def commit(self, transaction: Transaction) -> Committed:
        offsets = {
            (topic, write.partition): offset for write in transaction.writes for topic, offset in write.offsets.items()
        }
        self._control.writes = len(transaction.writes)
        self._control.consumes = any(self._last.get(place, offset) != offset for place, offset in offsets.items())
        end = super().commit(transaction)
        if end.outcome is Outcome.COMMITTED:
            self._last.update(offsets)
        elif end.outcome in REFUSED or "FENCED" in end.reason:
            markers = [(partition, receipt.offset) for partition, receipt in self._receipts.items()]
            self._control.write(
                "refused",
                outcome=end.outcome.value,
                reason=end.reason,
                markers=markers,
                generation=transaction.membership.generation,
            )
        return end

    def _produce(self, transaction: Transaction, receipts: dict[int, Receipt], refused: list[KafkaError]) -> None:
        self._receipts = receipts
        super()._produce(transaction, receipts, refused)

    def _flush(self, transaction: Transaction, receipts: dict[int, Receipt], refused: list[KafkaError]) -> None:
        if "flush" in self._without:
            self._steps.before("flush")
            return
        super()._flush(transaction, receipts, refused)

    def _send_offsets(self, transaction: Transaction) -> None:
        if not self._without & {"generation", "offsets"}:
            super()._send_offsets(transaction)
            return
        self._steps.before("offsets")
        offsets = [
            TopicPartition(topic, write.partition, offset)
            for write in transaction.writes
            for topic, offset in write.offsets.items()
            if "offsets" not in self._without or self._last.get((topic, write.partition), offset) != offset
        ]
        if not offsets:
            return
        metadata = membership.group_metadata(transaction.membership)
        if "generation" in self._without:
            layout = membership._Layout(transaction.membership.group_id.encode(), -1, b"")
            metadata = membership._serialise(layout)
        try:
            self._producer.send_offsets_to_transaction(offsets, metadata, OFFSETS_TIMEOUT_S)
        except KafkaException as error:
            raise _StepError(error.args[0]) from error

    def _commit(self) -> None:
        super()._commit()
        if "flush" in self._without:
            self._producer.flush(FLUSH_TIMEOUT_S)  # calls back with the receipts that _flush would have waited for


def _lingering(config: dict[str, Any]) -> Producer:
    return Producer(config | {"linger.ms": LINGER_MS})


def main(directory: Path) -> int:
    """Run a scheduler under control."""
    end_with_parent()
    clock.patched()
    file_bytes_max = int(os.environ.get("CHAOS_FILE_BYTES_MAX", "0"))
    if file_bytes_max:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    newer_schema.know()
    if os.environ.get("CHAOS_SCHEMA") == "newer":
        newer_schema.write()
    control = Control(directory)
    if "flush" in os.environ.get("CHAOS_WITHOUT", ""):
        # Without linger the records mostly leave by themselves before the offsets do; the guard is against "mostly".
        setattr(transaction, "Producer", _lingering)  # noqa: B010 - see below
    setattr(app, "KafkaCommitter", JournallingCommitter)  # noqa: B010 - the one seam that a fault test needs
    return app.run_scheduler(load_settings(), control)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
