"""A definition that says whether the job is to be paused: one decision, no moment in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streams.core.commands import Define, Pause, Reply
from streams.core.time import OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def define(owner: ManualOwner, standing: Any, *, actor: str = "ann", **fields: Any) -> Reply:
    definition = owner.definition(**fields)
    return owner.reply(
        Define(job_id="job", definition=definition, request_hash=repr(definition), standing=standing, actor=actor)
    )


def test_a_due_job_that_is_created_paused_opens_nothing(owner: ManualOwner) -> None:
    define(owner, "paused", schedule=OneOffSpec(owner.now_ms - 1))
    assert owner.names() == ["JobDefined", "JobPaused"]
    owner.run_until(owner.now_ms + HOUR)
    assert owner.state.open == ()
    assert owner.state.pause is not None
    assert (owner.state.pause.actor, owner.state.pause.until_ms) == ("ann", 0)


def test_an_edit_pauses_before_anything_of_it_is_opened(owner: ManualOwner) -> None:
    owner.define()
    define(owner, "paused", schedule=OneOffSpec(owner.now_ms))
    assert owner.names()[-2:] == ["JobEdited", "JobPaused"]
    assert owner.state.open == ()


def test_the_same_definition_paused_is_a_pause_without_a_new_version(owner: ManualOwner) -> None:
    owner.define()
    reply = define(owner, "paused")
    assert (reply.code, reply.version, reply.replayed) == ("ok", 1, False)
    assert owner.names()[-1] == "JobPaused"
    assert define(owner, "paused").replayed


def test_what_is_due_is_opened_before_a_pause_that_changes_nothing_else(owner: ManualOwner) -> None:
    owner.define()
    owner.now_ms = AT
    define(owner, "paused")
    assert owner.names()[-2:] == ["RunOpened", "JobPaused"]


def test_active_resumes_and_records_what_fell_due_meanwhile(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    owner.now_ms = AT + HOUR
    define(owner, "active", lane="high")
    assert owner.names()[-3:] == ["OccurrencesSkipped", "JobResumed", "JobEdited"]
    assert owner.state.pause is None


def test_nothing_said_leaves_the_pause(owner: ManualOwner) -> None:
    define(owner, "paused")
    define(owner, "", lane="high")
    assert owner.state.pause is not None


def test_a_finished_job_cannot_be_paused_by_its_own_definition(owner: ManualOwner) -> None:
    define(owner, "", schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.complete(owner.grant())
    assert define(owner, "paused", schedule=OneOffSpec(AT)).code == "gone"
