"""Microseconds to encode and decode the hot records: `python benchmarks/bench_codec.py`.

Three ways: fastavro through plain records, as schemas.codec does it (`fastavro`, without and with the conversion of
structs), and streams.core.wire. Every round takes new instants, ids and tokens, as live traffic does, so the tables of
wire_primitives are not flattered: an instant repeats inside a decision, not across rounds.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from schemas import codec
from streams.core import wire
from streams.core import wire_primitives as primitives
from streams.core.commands import Complete, Grant, LeaseRun, Reply
from streams.core.envelopes import Answer, Cause, CommandBatch, HistoryEntry, LeaseView, ReplyBatch
from streams.core.events import LeaseGranted, RunOpened
from streams.core.state import ClosedRun, JobState, Lease, OpenRun
from streams.core.wire_records import from_record, record_name, to_record

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 25
VALUES = 400
START_MS = 1_796_000_000_000


def _ids(n: int) -> tuple[str, str, int]:
    return f"job-{n * 7919:08d}", f"run_job-{n * 7919:08d}_20261201T090000000Z", START_MS + n // 4


def _lease(n: int) -> Lease:
    _, _, now = _ids(n)
    return Lease(
        lease_token=3,
        worker_id=f"worker-{n % 50}",
        gateway_id="gw-1",
        request_id=f"gw-1-{n}",
        granted_at_ms=now,
        visibility_ms=30_000,
        expires_at_ms=now + 30_000,
    )


def state(n: int) -> JobState:
    """Make a state with one open, leased run."""
    job_id, run_id, now = _ids(n)
    return JobState(
        job_id=job_id,
        tenant="payments",
        queue="nightly",
        request_hash="0" * 64,
        create_hash="0" * 64,
        created_at_ms=START_MS - n * 1000,
        created_next_at_ms=START_MS - n * 1000 + 60_000,
        next_at_ms=START_MS + 3_600_000,
        decided_to_ms=START_MS,
        occurrences_total=900,
        zone_data="2026a",
        open=(
            OpenRun(
                run_id=run_id,
                kind="schedule",
                scheduled_at_ms=START_MS,
                due_at_ms=START_MS,
                opened_at_ms=now,
                job_version=1,
                lane="normal",
                attempt=1,
                lease=_lease(n),
            ),
        ),
        lease_token_last=3,
        last_lease_at_ms=now,
    )


def state_recurring(n: int) -> JobState:
    """Make the same with the 16 closed runs that a recurring job remembers."""
    job_id, _, now = _ids(n)
    closed = tuple(
        ClosedRun(
            run_id=f"run_{job_id}_20261130T{hour:02d}0000000Z",
            kind="schedule",
            scheduled_at_ms=START_MS - hour * 3_600_000,
            outcome="succeeded",
            closed_at_ms=now - hour * 3_600_000 + n % 997,
            attempt=1,
            lease_token=hour,
        )
        for hour in range(16)
    )
    return msgspec.structs.replace(state(n), closed=closed)


def history(n: int) -> HistoryEntry:
    """Make a run opened and granted in one decision."""
    job_id, run_id, now = _ids(n)
    return HistoryEntry(
        job_id=job_id,
        partition=3,
        seq=100_000 + n,
        generation=12,
        member_id="scheduler-1-6a1f5e0c",
        transactional_id="horolog-scheduler-1-77",
        now_ms=now,
        cause=Cause(
            kind="command",
            name="LeaseRun",
            topic="horolog.commands",
            partition=3,
            offset=5_000_000 + n,
            index=n % 40,
            request_id=f"gw-1-{n}",
            gateway_id="gw-1",
            appended_at_ms=now,
        ),
        config_offset=17,
        zone_data="2026a",
        events=(
            RunOpened(
                run_id=run_id,
                kind="schedule",
                scheduled_at_ms=START_MS,
                due_at_ms=START_MS,
                at_ms=now,
                job_version=1,
                lane="normal",
                next_at_ms=START_MS + 3_600_000,
            ),
            LeaseGranted(run_id=run_id, attempt=1, lease=_lease(n), at_ms=now),
        ),
    )


def commands(n: int) -> CommandBatch:
    """Make ten lease requests and ten completions."""
    ids = [_ids(n * 20 + k) for k in range(20)]
    asks = [
        LeaseRun(
            job_id=job_id,
            request_id=f"gw-1-{n}-{k}",
            run_id=run_id,
            worker_id=f"worker-{n % 50}",
            gateway_id="gw-1",
            job_version=1,
            valid_until_ms=START_MS + n + 2_000,
        )
        for k, (job_id, run_id, _) in enumerate(ids[:10])
    ]
    ends = [
        Complete(job_id=job_id, request_id=f"gw-1-{n}-{k}", run_id=run_id, lease_token=3)
        for k, (job_id, run_id, _) in enumerate(ids[10:])
    ]
    return CommandBatch(gateway_id="gw-1", incarnation="5f0c", sent_at_ms=START_MS + n, commands=(*asks, *ends))


def _grant(n: int) -> Grant:
    job_id, run_id, now = _ids(n)
    return Grant(
        job_id=job_id,
        run_id=run_id,
        task="close-day",
        tenant="payments",
        queue="nightly",
        lane="normal",
        worker_id=f"worker-{n % 50}",
        gateway_id="gw-1",
        attempt=1,
        lease_token=3,
        scheduled_at_ms=START_MS,
        due_at_ms=START_MS,
        granted_at_ms=now,
        expires_at_ms=now + 30_000,
        visibility_ms=30_000,
        timeout_ms=0,
        max_attempts=5,
        payload=b'{"account": 17}',
        content_type="application/json",
        job_version=1,
    )


def replies(n: int) -> ReplyBatch:
    """Make ten grants and ten answers to completions."""
    grants = [Answer(request_id=f"gw-1-{n}-{k}", reply=_grant(n * 20 + k)) for k in range(10)]
    acks = [
        Answer(
            request_id=f"gw-1-{n}-{k}",
            reply=Reply(code="ok", job_id=_ids(n + k)[0], run_id=_ids(n + k)[1], attempt=1, lease_token=3),
        )
        for k in range(10, 20)
    ]
    return ReplyBatch(gateway_id="gw-1", answers=(*grants, *acks))


def lease_view(n: int) -> LeaseView:
    """Make a lease that was just granted."""
    job_id, run_id, now = _ids(n)
    return LeaseView(
        run_id=run_id,
        job_id=job_id,
        tenant="payments",
        queue="nightly",
        lease_token=3,
        attempt=1,
        worker_id=f"worker-{n % 50}",
        gateway_id="gw-1",
        granted_at_ms=now,
        expires_at_ms=now + 30_000,
    )


CASES: tuple[tuple[str, Callable[[int], Any], Any, Any, int], ...] = (
    ("JobState, one leased run", state, wire.encode_state, wire.decode_state, 1),
    ("JobState, and 16 closed", state_recurring, wire.encode_state, wire.decode_state, 1),
    ("HistoryRecord, open + grant", history, wire.encode_history, wire.decode_history, 1),
    ("LeaseView", lease_view, wire.encode_lease_view, wire.decode_lease_view, 1),
    ("CommandBatch of 20, per command", commands, wire.encode_commands, wire.decode_commands, 20),
    ("ReplyBatch of 20, per answer", replies, wire.encode_replies, wire.decode_replies, 20),
)


def _per_value_us(work: Callable[[Any], Any], values: list[Any]) -> float:
    """Return the best round's microseconds a value; each round begins with empty tables."""
    best = float("inf")
    for _ in range(ROUNDS):
        for table in (primitives.NUMBERS, primitives.TEXTS, primitives.WORDS, primitives.INSTANTS):
            table.clear()
        begin = time.thread_time()
        for value in values:
            work(value)
        best = min(best, time.thread_time() - begin)
    return best / len(values) * 1e6


def _encode_plainly(name: str, value: msgspec.Struct) -> bytes:
    return codec.encode(name, to_record(value))


def _decode_plainly(kind: type[msgspec.Struct], data: bytes) -> msgspec.Struct:
    return from_record(kind, codec.decode(data).record)


def main() -> None:
    """Print one line a record; processor time, so that a busy machine disturbs less."""
    out = sys.stdout.write
    out(f"{'microseconds':34} {'bytes':>6} | {'encode: fastavro':>16} {'+struct':>8} {'wire':>6} ")
    out(f"| {'decode: fastavro':>16} {'+struct':>8} {'wire':>6}\n")
    for label, make, encode, decode, share in CASES:
        structs = [make(n) for n in range(VALUES // share)]
        name = record_name(type(structs[0]))
        records = [to_record(value) for value in structs]
        encoded = [encode(value) for value in structs]
        if any(codec.encode(name, record) != data for record, data in zip(records, encoded, strict=True)):
            raise AssertionError(f"{name}: the two encoders differ")
        kind = type(structs[0])
        figures = [
            _per_value_us(partial(codec.encode, name), records),
            _per_value_us(partial(_encode_plainly, name), structs),
            _per_value_us(encode, structs),
            _per_value_us(codec.decode, encoded),
            _per_value_us(partial(_decode_plainly, kind), encoded),
            _per_value_us(decode, encoded),
        ]
        a, b, c, d, e, f = (figure / share for figure in figures)
        size = len(encoded[0]) // share
        out(f"{label:34} {size:6} | {a:16.1f} {b:8.1f} {c:6.1f} | {d:16.1f} {e:8.1f} {f:6.1f}\n")


if __name__ == "__main__":
    main()
