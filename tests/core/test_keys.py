"""Idempotency keys: what a key led to is remembered with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streams.core.apply import apply
from streams.core.commands import CancelRun, Define, Delete, Pause, ReplayRun, Resume, StartBackfill, Trigger
from streams.core.events import KeyUsed
from streams.core.illegal import IllegalEvent
from streams.core.state import KEY_MEMO_BYTES_MAX, KEYS_MAX
from streams.core.wire import decode_state, encode_state

if TYPE_CHECKING:
    from streams.core.commands import AnyCommand
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def trigger(number: int = 1, *, body: str = "b", memo: bytes = b"", key: str | None = None) -> Trigger:
    return Trigger(
        job_id="job", trigger_id=f"t{number}", key=f"k{number}" if key is None else key, body=body, memo=memo
    )


def test_a_key_is_remembered_with_the_change_and_in_the_same_decision(owner: ManualOwner) -> None:
    owner.define(overlap="allow")
    decision = owner.do(trigger(memo=b"m"))
    assert [type(event).__name__ for event in decision.events] == ["RunOpened", "KeyUsed"]
    (use,) = owner.state.keys
    assert (use.key, use.body, use.version, use.memo) == ("k1", "b", 1, b"m")
    assert decode_state(encode_state(owner.state)) == owner.state


def test_a_command_without_a_key_leaves_no_trace(owner: ManualOwner) -> None:
    owner.define(overlap="allow")
    owner.do(trigger(key=""))
    assert owner.state.keys == ()


@pytest.mark.parametrize(
    "command",
    [
        Pause(job_id="job", key="k1", body="other"),
        Resume(job_id="job", key="k1", body="other"),
        Delete(job_id="job", key="k1", body="other"),
        Trigger(job_id="job", trigger_id="new", key="k1", body="other"),
        CancelRun(job_id="job", run_id="run_job_t1", key="k1", body="other"),
        ReplayRun(job_id="job", run_id="run_job_t1", replay_id="r", key="k1", body="other"),
        StartBackfill(job_id="job", backfill_id="b", from_ms=AT - 5 * HOUR, until_ms=AT - HOUR, key="k1", body="other"),
    ],
)
def test_another_body_under_a_key_is_a_conflict_and_changes_nothing(owner: ManualOwner, command: AnyCommand) -> None:
    owner.define(overlap="allow")
    owner.do(trigger())
    decision = owner.do(command)
    assert (decision.events, owner.reply(command).code) == ((), "idempotency_conflict")


def test_a_repeat_is_decided_by_its_rule_and_remembered_once(owner: ManualOwner) -> None:
    owner.define(overlap="allow")
    first = owner.reply(trigger())
    repeat = owner.reply(trigger())
    assert (repeat.run_id, repeat.next_at_ms, repeat.replayed) == (first.run_id, first.next_at_ms, True)
    assert owner.names().count("KeyUsed") == 1


def test_what_changes_nothing_remembers_its_key_too(owner: ManualOwner) -> None:
    owner.define()
    definition = owner.must().definition
    assert definition is not None
    same = Define(job_id="job", definition=definition, request_hash="h", key="k", body="b")
    assert owner.reply(same).replayed
    assert [use.key for use in owner.state.keys] == ["k"]


def test_a_refused_command_does_not_use_its_key_up(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    assert owner.reply(trigger()).code == "paused"
    assert owner.state.keys == ()


@pytest.mark.parametrize("what", ["edit", "delete"])
def test_a_repeated_edit_or_delete_does_not_touch_what_came_since(owner: ManualOwner, what: str) -> None:
    owner.define()
    keyed: dict[str, Any] = {"job_id": "job", "key": "k", "body": "b"}
    command: Delete | Define = Delete(**keyed)
    if what == "edit":
        command = Define(definition=owner.definition(lane="high"), request_hash="h", **keyed)
    first = owner.reply(command)
    owner.define(lane="low", task="since")
    repeat = owner.reply(command)
    assert (repeat.code, repeat.version, repeat.replayed) == ("ok", first.version, True)
    assert owner.state.version == first.version + 1
    assert owner.state.status == "active"


def test_the_oldest_keys_are_forgotten(owner: ManualOwner) -> None:
    owner.define(overlap="allow")
    for number in range(KEYS_MAX + 1):
        owner.do(trigger(number))
    assert [use.key for use in owner.state.keys] == [f"k{number}" for number in range(1, KEYS_MAX + 1)]


def test_memos_are_bounded_all_together_and_the_oldest_go(owner: ManualOwner) -> None:
    owner.define(overlap="allow")
    half = b"x" * (KEY_MEMO_BYTES_MAX // 2)
    for number in range(3):
        owner.do(trigger(number, memo=half))
    assert [len(use.memo) for use in owner.state.keys] == [0, len(half), len(half)]
    owner.do(trigger(9, memo=b"x" * (KEY_MEMO_BYTES_MAX + 1)))
    assert {len(use.memo) for use in owner.state.keys} == {0}


def test_a_key_cannot_be_used_twice_in_the_log(owner: ManualOwner) -> None:
    owner.define(overlap="allow")
    owner.do(trigger())
    with pytest.raises(IllegalEvent):
        apply(owner.job, KeyUsed(key="k1", body="b", memo=b"", at_ms=AT))
