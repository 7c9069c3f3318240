"""Who this process is in the group, and the bytes that prove it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer

import streams.membership
from streams.membership import FaustMembership, Membership, NoMembershipError, check_layout, group_metadata


def app(generation: int, member_id: str, app_generation: int | None = None) -> Any:
    coordinator = SimpleNamespace(generation=generation, member_id=member_id)
    consumer = SimpleNamespace(_thread=SimpleNamespace(_consumer=SimpleNamespace(_coordinator=coordinator)))
    known = generation if app_generation is None else app_generation
    return SimpleNamespace(conf=SimpleNamespace(id="group"), consumer=consumer, consumer_generation_id=known)


@pytest.mark.parametrize(("generation", "member_id"), [(0, "m"), (-1, ""), (-1, "m"), (3, "")])
def test_what_the_broker_would_not_check_is_refused(generation: int, member_id: str) -> None:
    with pytest.raises(NoMembershipError, match="prove nothing"):
        Membership("group", generation, member_id)
    with pytest.raises(NoMembershipError):
        FaustMembership(app(generation, member_id)).snapshot()


def test_a_snapshot_is_one_pair_of_generation_and_member() -> None:
    assert FaustMembership(app(4, "m")).snapshot() == Membership("group", 4, "m")


def test_a_snapshot_that_differs_from_the_app_s_own_generation_is_refused() -> None:
    with pytest.raises(NoMembershipError, match="generation 4, the app in 3"):
        FaustMembership(app(4, "m", 3)).snapshot()


def test_a_generation_that_changes_while_it_is_read_is_refused() -> None:
    class Restless:
        member_id = "m"
        reads = 0

        @property
        def generation(self) -> int:
            self.reads += 1
            return self.reads

    moving = app(1, "m")
    moving.consumer._thread._consumer._coordinator = Restless()
    with pytest.raises(NoMembershipError, match="at every look"):
        FaustMembership(moving).snapshot()


def test_a_consumer_that_has_not_started_is_no_member() -> None:
    with pytest.raises(NoMembershipError, match="has not started"):
        FaustMembership(SimpleNamespace(conf=SimpleNamespace(id="group"), consumer=None)).snapshot()  # type: ignore[arg-type] # a part of an app


def test_state_is_kept_only_by_the_same_member_in_the_very_next_generation() -> None:
    first = Membership("group", 4, "m")
    assert Membership("group", 5, "m").succeeds(first)
    assert not Membership("group", 6, "m").succeeds(first)
    assert not Membership("group", 4, "m").succeeds(first)
    assert not Membership("group", 5, "other").succeeds(first)


def test_the_metadata_begins_as_librdkafka_writes_it_and_carries_the_membership() -> None:
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "group", "log_level": 0})
    theirs: Any = consumer.consumer_group_metadata()
    consumer.close()
    ours = group_metadata(Membership("group", 1, "m"))
    assert ours.replace(b"\x01\0\0\0", b"\xff\xff\xff\xff", 1).replace(b"m\0\x01", b"\0\x01") == theirs


def test_the_layout_of_the_installed_librdkafka_is_the_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    check_layout("group")
    monkeypatch.setattr(streams.membership, "_MAGIC", b"CGMDv9:")
    with pytest.raises(RuntimeError, match="fencing would not work"):
        check_layout("group")
