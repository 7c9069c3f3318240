"""From a batch to records: which, with what keys and headers, and what is refused before anything is produced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streams.batch import Batch, Known
from streams.core.commands import Grant, Reply
from streams.core.envelopes import OwnerView
from streams.core.wire import decode_history, decode_marker, decode_owner_view, decode_replies, decode_state
from streams.input_place import PLACES_HEADER
from streams.sealing import (
    INDEX_HEADER,
    MARKER_KEY,
    RECORD_BYTES_MAX,
    REPLY_ANSWERS_MAX,
    TRANSACTIONAL_ID_HEADER,
    UnsealableError,
)
from streams.store.interface import UNCHANGED, IndexHeader, StoreIdentity
from streams.store.rocks import open_store

if TYPE_CHECKING:
    from pathlib import Path


def by_key(batch: Batch) -> dict[bytes, Any]:
    assert batch.write is not None
    return {record.key: record for record in batch.write.records if record.topic.endswith("ledger")}


def grant(payload: bytes = b"", worker_id: str = "w") -> Grant:
    return Grant(
        job_id="j",
        run_id="run_j_20270101T000000000Z",
        task="t",
        tenant="a",
        queue="q",
        lane="normal",
        worker_id=worker_id,
        gateway_id="g",
        attempt=1,
        lease_token=1,
        scheduled_at_ms=1,
        due_at_ms=1,
        granted_at_ms=1,
        expires_at_ms=1,
        visibility_ms=1,
        timeout_ms=0,
        max_attempts=5,
        payload=payload,
        content_type="application/json",
        job_version=1,
    )


def test_a_new_job_leaves_state_definition_history_and_a_marker(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    batch = rig.collect()
    ledger = by_key(batch)
    assert set(ledger) == {b"s|j", b"d|j"}
    assert decode_state(ledger[b"s|j"].value) == batch.after["j"].state
    (history,) = [record for record in batch.write.records if record.topic.endswith("history")]
    assert (history.key, decode_history(history.value)) == (b"j", batch.history[0])
    marker = decode_marker(batch.write.marker.value)
    assert (batch.write.marker.key, marker.next_seq, marker.generation) == (MARKER_KEY, 2, 1)
    assert batch.write.marker.headers == [(TRANSACTIONAL_ID_HEADER, b"tx-1"), (PLACES_HEADER, b"1 1 2 0")]


def test_the_header_of_a_state_is_what_the_indexes_hold(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    batch = rig.collect()
    ((name, value),) = by_key(batch)[b"s|j"].headers
    rig.commit(batch)
    assert name == INDEX_HEADER
    assert IndexHeader.decode(value) == rig.store.header("j")
    assert rig.store.header("j").tenant == "a"


def test_the_store_counts_a_new_job_as_new(rig: Any, make_job: Any, tmp_path: Path) -> None:
    store, _ = open_store(tmp_path / "0", StoreIdentity(cluster_id="c", topic_id="t", partition=0), 0, 1)
    rig.define(make_job("j"))
    batch = rig.collect()
    store.apply(batch.changes, ledger_offset=1, now_ms=0)
    assert store.counts.jobs == 1
    store.verify()
    store.close()


def test_an_unchanged_definition_is_not_written_again(rig: Any, make_job: Any) -> None:
    at_ms = rig.now_ms - 1
    rig.define(make_job("j", at_ms=at_ms, payload=b"p" * 60_000))
    rig.run()
    rig.send(rig.lease("j", at_ms))
    batch = rig.collect()
    assert set(by_key(batch)) == {b"s|j"}
    assert batch.changes[0].definition is UNCHANGED


def test_a_forgotten_job_leaves_two_nulls(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    rig.run()
    rig.push("definitions", b"j", None)
    rig.run()
    rig.advance(24 * 3_600_000 + 1)
    batch = rig.collect()
    assert {key: record.value for key, record in by_key(batch).items()} == {b"s|j": None, b"d|j": None}
    rig.commit(batch)
    assert rig.store.counts.jobs == 0


def test_a_job_that_came_and_went_within_one_batch_leaves_nothing(rig: Any) -> None:
    batch = Batch(partition=0, now_ms=0, before={"j": None}, after={"j": None})
    rig.sealer.seal(batch, {}, 1)
    assert batch.write is not None
    assert (batch.write.records, batch.changes) == ([], [])


def test_a_state_over_the_bound_is_refused_with_its_job_and_the_setting(make_rig: Any, make_job: Any) -> None:
    rig = make_rig(state_bytes_max=16_384)
    rig.define(make_job("j"))
    batch = rig.collect()
    job = batch.after["j"]
    batch.after["j"] = type(job)(msgspec.structs.replace(job.state, request_hash="h" * 17_000), None)
    with pytest.raises(UnsealableError, match=r"j: .*scheduler\.state_bytes_max") as caught:
        rig.sealer.seal(batch, {}, 1)
    assert caught.value.job_id == "j"


def test_a_history_record_over_the_bound_is_refused_with_its_job(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    batch = rig.collect()
    batch.history[0] = msgspec.structs.replace(batch.history[0], member_id="m" * RECORD_BYTES_MAX)
    with pytest.raises(UnsealableError, match="HistoryEntry"):
        rig.sealer.seal(batch, {}, 1)


def test_answers_of_all_partitions_for_one_gateway_share_a_record(rig: Any) -> None:
    batches = [Batch(partition=0, now_ms=0), Batch(partition=1, now_ms=0)]
    for number, batch in enumerate(batches):
        batch.answer("g", f"r{number}", Reply(code="ok", job_id="j"))
    batches[0].answer("h", "r2", Reply(code="ok", job_id="j"))
    records = rig.sealer.reply_records(batches)
    found = {record.key: [answer.request_id for answer in decode_replies(record.value).answers] for record in records}
    assert found == {b"g": ["r0", "r1"], b"h": ["r2"]}


def test_nobody_gets_an_answer_who_did_not_ask_for_one(rig: Any) -> None:
    batch = Batch(partition=0, now_ms=0)
    batch.answer("", "r", Reply(code="ok", job_id="j"))
    batch.answer("g", "", Reply(code="ok", job_id="j"))
    batch.answer("g", "r", None)
    assert rig.sealer.reply_records([batch]) == []
    assert not batch.visible


@pytest.mark.parametrize(("count", "payload"), [(REPLY_ANSWERS_MAX * 2 + 1, 0), (40, 64 * 1024)])
def test_many_answers_are_cut_into_records_that_the_broker_takes(rig: Any, count: int, payload: int) -> None:
    batch = Batch(partition=0, now_ms=0)
    for number in range(count):
        batch.answer("g", f"r{number}", grant(bytes(payload)))
    records = rig.sealer.reply_records([batch])
    assert max(len(record.value) for record in records) <= RECORD_BYTES_MAX
    answers = [answer.request_id for record in records for answer in decode_replies(record.value).answers]
    assert answers == [f"r{number}" for number in range(count)]
    assert len(records) < 10


def test_answers_with_long_texts_are_halved_until_they_fit_and_one_that_never_fits_is_left_out(rig: Any) -> None:
    batch = Batch(partition=0, now_ms=0)
    for number in range(8):
        batch.answer("g", f"r{number}", grant(worker_id="w" * 400_000))
    batch.answer("g", "never", grant(worker_id="w" * 2_000_000))
    records = rig.sealer.reply_records([batch])
    answers = [answer.request_id for record in records for answer in decode_replies(record.value).answers]
    assert answers == [f"r{number}" for number in range(8)]


def test_the_owner_record_is_keyed_by_the_partition(rig: Any) -> None:
    view = OwnerView(
        partition=7, generation=2, member_id="m", transactional_id="x", query_url="http://localhost", since_ms=5
    )
    record = rig.sealer.owner_record(view)
    assert (record.topic, record.partition, record.key) == ("horolog.owners", 0, b"7")
    assert decode_owner_view(record.value) == view


def test_a_batch_knows_jobs_as_committed_and_as_they_will_be(rig: Any, make_job: Any) -> None:
    rig.define(make_job("j"))
    rig.run()
    rig.publish(make_job("j", task="other"))
    batch = rig.collect()
    known = batch.before["j"]
    assert isinstance(known, Known)
    assert (known.job.state.version, batch.after["j"].state.version) == (1, 2)
    assert batch.changes[0].previous == known.header
