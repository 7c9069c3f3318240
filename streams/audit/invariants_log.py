"""Invariants about the log itself: readable, one owner, each input decided once, replayable (I0, I6, I7, I11)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from streams.audit.log_view import short_topic
from streams.audit.report import Place
from streams.audit.unsaid import Unsaid
from streams.core import events as ev
from streams.core.apply import IllegalEvent, apply
from streams.core.commands import LeaseRun

if TYPE_CHECKING:
    import msgspec

    from streams.audit.case import Case
    from streams.audit.log_view import HistoryItem, MarkerItem
    from streams.audit.report import Findings
    from streams.core.state import Job

_ACKED: Final = frozenset({"ok", "created", "granted"})


def readable(case: Case, found: Findings) -> None:
    """I0: every record of our own topics decodes, and nothing of a refused transaction can be read."""
    view = case.view
    found.looked(len(view.history) + len(view.markers) + len(view.replies) + len(view.leases))
    found.looked(len(view.states) + len(view.definitions))
    for record, error in view.unreadable:
        found.broke(f"{record.topic}: {error}", Place(partition=record.partition, offset=record.offset))
    for topic in ("ledger", "history", "leases", "replies"):
        for record in view.records(topic):
            if (topic, record.partition, record.offset) in view.refused:
                found.broke(
                    f"{topic}: a record of a refused transaction is visible",
                    Place(partition=record.partition, offset=record.offset),
                )


def one_owner(case: Case, found: Findings) -> None:
    """I6: sequence numbers are dense, generations never go back, and each generation has one member."""
    by_partition: dict[int, list[HistoryItem]] = defaultdict(list)
    for item in case.view.history:
        by_partition[item.record.partition].append(item)
    markers: dict[int, list[MarkerItem]] = defaultdict(list)
    for marker in case.view.markers:
        markers[marker.record.partition].append(marker)
    for partition in sorted(by_partition.keys() | markers.keys()):
        _history_of_owners(partition, by_partition[partition], found)
        _markers_of_owners(markers[partition], found)
        _markers_agree(case, partition, by_partition[partition], markers[partition], found)


def _history_of_owners(partition: int, items: list[HistoryItem], found: Findings) -> None:
    members: dict[int, str] = {}
    ids_left: set[tuple[int, str]] = set()
    before: HistoryItem | None = None
    for item in items:
        entry, offset = item.entry, item.record.offset
        found.looked()
        if entry.partition != partition:
            found.broke(
                f"entry of partition {entry.partition} in {partition}", Place(partition=partition, offset=offset)
            )
        member = members.setdefault(entry.generation, entry.member_id)
        if member != entry.member_id:
            found.broke(
                f"generation {entry.generation} has members {member} and {entry.member_id}",
                Place(partition=partition, offset=offset),
            )
        if entry.generation < 1 or not entry.member_id:
            found.broke("an entry without generation or member", Place(partition=partition, offset=offset))
        if before is not None:
            _follows(before, item, ids_left, found)
        before = item


def _follows(before: HistoryItem, item: HistoryItem, ids_left: set[tuple[int, str]], found: Findings) -> None:
    entry, earlier = item.entry, before.entry
    where = Place(partition=item.record.partition, offset=item.record.offset)
    if entry.seq != earlier.seq + 1:
        found.broke(f"sequence {earlier.seq} is followed by {entry.seq}", where)
    if entry.generation < earlier.generation:
        found.broke(f"generation went back from {earlier.generation} to {entry.generation}", where)
    if entry.transactional_id != earlier.transactional_id:
        ids_left.add((earlier.generation, earlier.transactional_id))
        if (entry.generation, entry.transactional_id) in ids_left:
            found.broke(f"producer {entry.transactional_id} came back after it was given up", where)


def _markers_of_owners(markers: list[MarkerItem], found: Findings) -> None:
    for before, item in itertools.pairwise(markers):
        found.looked()
        where = Place(partition=item.record.partition, offset=item.record.offset)
        if item.marker.generation < before.marker.generation:
            found.broke(
                f"marker's generation went back from {before.marker.generation} to {item.marker.generation}", where
            )
        if item.marker.next_seq < before.marker.next_seq:
            found.broke(f"marker's sequence went back from {before.marker.next_seq} to {item.marker.next_seq}", where)


def _markers_agree(
    case: Case, partition: int, items: list[HistoryItem], markers: list[MarkerItem], found: Findings
) -> None:
    """Compare ledger and history: the entries between two markers belong to the owner of the second."""
    if not markers:
        if items:
            found.broke("history without any ledger marker", Place(partition=partition))
        return
    last = markers[-1]
    if items and items[-1].entry.seq + 1 != last.marker.next_seq:
        found.broke(
            f"ledger expects sequence {last.marker.next_seq}, history ended with {items[-1].entry.seq}",
            Place(partition=partition, offset=last.record.offset),
        )
    if not case.view.whole:
        found.left_out("markers compacted: entries not matched to transactions", len(items))
        return
    at = iter(items)
    item = next(at, None)
    for marker in markers:
        while item is not None and item.entry.seq < marker.marker.next_seq:
            found.looked()
            if (item.entry.generation, item.entry.member_id, item.entry.transactional_id) != (
                marker.marker.generation,
                marker.marker.member_id,
                marker.marker.transactional_id,
            ):
                found.broke(
                    f"entry of generation {item.entry.generation} under marker of {marker.marker.generation}",
                    Place(partition=partition, offset=item.record.offset),
                )
            item = next(at, None)


def decided_once(case: Case, found: Findings) -> None:
    """I7: each input has its effect exactly once; every acknowledged call shows in the log."""
    _causes_unique(case, found)
    _commands_answered(case, found)
    _calls_kept(case, found)


def _causes_unique(case: Case, found: Findings) -> None:
    seen: dict[tuple[str, int, int, int], HistoryItem] = {}
    for item in case.view.history:
        cause = item.entry.cause
        if cause.offset < 0:
            continue
        found.looked()
        key = (short_topic(cause.topic), cause.partition, cause.offset, cause.index)
        where = Place(
            job_id=item.entry.job_id,
            partition=item.record.partition,
            offset=item.record.offset,
        )
        if key in seen and not _parked_meanwhile(seen[key], item):
            found.broke(f"{cause.name} {key} had an effect before, at offset {seen[key].record.offset}", where)
        seen[key] = item
        if cause.partition != item.record.partition:
            found.broke(f"{cause.name} {key} was decided in partition {item.record.partition}", where)
        committed = case.view.committed.get(cause.partition)
        if key[0] == "commands" and committed is not None and cause.offset >= committed:
            found.broke(f"{cause.name} {key} had an effect, but the offset stands at {committed}", where)


def _parked_meanwhile(first: HistoryItem, second: HistoryItem) -> bool:
    """Tell whether a lease request woke its job (a pause was over), was parked, and had its own effect later.

    One that was parked already may find that a calendar has changed, and is parked again.
    """
    if second.entry.cause.kind != "parked":
        return False
    if first.entry.cause.kind == "parked":
        return all(_follows_calendars(event) for event in first.entry.events)
    return first.entry.cause.kind == "command" and not any(isinstance(e, ev.LeaseGranted) for e in first.entry.events)


def _follows_calendars(event: ev.Event) -> bool:
    if isinstance(event, ev.OccurrencesSkipped):
        return event.reason in ("gap", "calendar")
    return isinstance(event, ev.CursorMoved | ev.CursorNoted)


def _commands_answered(case: Case, found: Findings) -> None:
    """Every consumed command that somebody waits for has one answer.

    A lease request may be forgotten, and an owner that ended right after it decided may have left an answer unsaid.
    """
    unsaid = Unsaid(case.view)
    asked: Counter[tuple[str, str]] = Counter()
    may_be_silent: set[tuple[str, str]] = set()
    where: dict[tuple[str, str], tuple[str, str, int, int]] = {}
    for item in case.view.commands:
        committed = case.view.committed.get(item.record.partition, 0)
        for command in item.batch.commands:
            if not command.request_id:
                continue
            key = (item.batch.gateway_id, command.request_id)
            if item.record.offset >= committed or unsaid.possible(item.record.partition, item.record.offset):
                may_be_silent.add(key)
            asked[key] += 1
            where[key] = (type(command).__name__, command.job_id, item.record.partition, item.record.offset)
            if isinstance(command, LeaseRun):
                may_be_silent.add(key)
    answered = Counter(
        (item.batch.gateway_id, answer.request_id) for item in case.view.replies for answer in item.batch.answers
    )
    for key, times in asked.items():
        name, job_id, partition, offset = where[key]
        found.looked()
        if answered[key] > times or (answered[key] < times and key not in may_be_silent):
            found.broke(
                f"{name} {key[1]} was asked {times} and answered {answered[key]} times",
                Place(job_id=job_id, partition=partition, offset=offset),
            )


def _calls_kept(case: Case, found: Findings) -> None:
    jobs = {story.job_id for story in case.stories}
    by_key: dict[tuple[str, str], str] = {}
    for call in case.journals.calls:
        if call.code in _ACKED:
            found.looked()
            if call.job_id not in jobs:
                found.broke(f"{call.name} was acknowledged, but no such job is in the log", Place(job_id=call.job_id))
        if call.code == "created" and call.idempotency_key:
            first = by_key.setdefault((call.tenant, call.idempotency_key), call.job_id)
            if first != call.job_id:
                found.broke(f"key {call.idempotency_key} made {first} and {call.job_id}", Place(job_id=call.job_id))


def replayable(case: Case, found: Findings) -> None:
    """I11: a fresh replay of history gives the state and definition that the ledger holds."""
    jobs: dict[str, Job | None] = {}
    begun_late: set[str] = set()
    for item in case.view.history:
        job_id = item.entry.job_id
        for event in item.entry.events:
            if job_id in begun_late:
                continue
            try:
                jobs[job_id] = apply(jobs.get(job_id), event)
            except IllegalEvent as error:
                if job_id not in jobs and not case.view.whole:
                    begun_late.add(job_id)
                    continue
                found.broke(
                    f"replay stops at {type(event).__name__}: {error!r}",
                    Place(job_id=job_id, partition=item.record.partition, offset=item.record.offset),
                )
                begun_late.add(job_id)
    found.left_out("history begins inside the job's life", len(begun_late))
    ledger = case.view.states.keys() | case.view.definitions.keys()
    for job_id in sorted((jobs.keys() | ledger) - begun_late):
        if job_id not in jobs and not case.view.whole:
            found.left_out("no history of the job is left")
            continue
        found.looked()
        _compare(case, job_id, jobs.get(job_id), found)


def _compare(case: Case, job_id: str, job: Job | None, found: Findings) -> None:
    record, state = case.view.states.get(job_id, (None, None))
    _, definition = case.view.definitions.get(job_id, (None, None))
    where = Place(job_id, "", record.partition, record.offset) if record else Place(job_id)
    replayed = None if job is None else job.state
    if state != replayed:
        found.broke(f"state differs: {_difference(state, replayed)}", where)
    if definition != (None if job is None else job.definition):
        found.broke(f"definition differs: {_difference(definition, job and job.definition)}", where)


def _difference(ledger: msgspec.Struct | None, replayed: msgspec.Struct | None) -> str:
    if ledger is None or replayed is None:
        return f"ledger has {'none' if ledger is None else 'one'}, replay {'none' if replayed is None else 'one'}"
    for name in ledger.__struct_fields__:
        left, right = getattr(ledger, name), getattr(replayed, name)
        if left != right:
            return f"{name}: ledger {left!r:.300}, replay {right!r:.300}"
    return "types"
