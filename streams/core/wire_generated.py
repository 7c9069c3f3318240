"""Encoders and decoders of every record. Written by streams.wire_generator; do not edit.

`encode_x` takes the struct and returns the Avro body, `decode_x` takes bytes and a position and returns the struct
and the next position. Errors and the rule about the last position: streams.core.wire_primitives. `HEADERS` stand
before the bodies of whole values.
"""

# fmt: off
# ruff: noqa: C901, D103, E501, I001, N802, PLR0912, PLR0915, Q000 - code for a machine, one block per field

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from streams.core.commands import CancelRun, Complete, Define, Delete, Fail, Grant, Heartbeat, LeaseRun, Pause, Release, ReplayRun, Reply, Resume, SkipSlot, StartBackfill, StopBackfill, Trigger, Wake
from streams.core.definition import Definition as JobDefinition, Retry
from streams.core.envelopes import Answer, Cause, CommandBatch, DeadLetter, Demand, HistoryEntry as HistoryRecord, KeyRunning, LeaseView, Marker as LedgerMarker, Offer, Offers, OwnerView, QueueDemand, QueueRunning, ReplyBatch, TenantPending
from streams.core.events import BackfillEnded, BackfillMoved, BackfillStarted, CursorMoved, CursorNoted, DeadRunReplayed, JobCheckpoint, JobDefined, JobDeleted, JobEdited, JobFinished, JobForgotten, JobPaused, JobResumed, KeyUsed, LeaseExpired, LeaseGranted, LeaseReleased, LeaseRenewed, OccurrencesMissed, OccurrencesSkipped, RunCancelRequested, RunCancelled, RunDied, RunFailed, RunOpened, RunRetried, RunSkipped, RunSucceeded, RunUnheld, SlotSkipRequested
from streams.core.state import Backfill, ClosedRun, EndedAttempt, JobState, KeyUse, Lease, OpenRun, Pause as JobPause
from streams.core.time.specs import CalendarIntervalSpec as CalendarIntervalSchedule, CronSpec as CronSchedule, DroppedSlot, IntervalSpec as IntervalSchedule, LocalOneOffSpec as LocalOneOffSchedule, OneOffSpec as OneOffSchedule, RRuleSpec as RRuleSchedule
from streams.core.wire_primitives import BOOLEANS, DURATIONS, INSTANTS, NUMBERS, SMALL, TEXTS, WORDS, array_bytes, read_array, read_length, read_long, read_text, read_texts, texts_bytes


HEADERS: Final[dict[str, bytes]] = {
    'JobDefinition': b'\x00\x00\x00\x00\x01',
    'CommandBatch': b'\x00\x00\x00\x00\x02',
    'JobState': b'\x00\x00\x00\x00\x03',
    'LedgerMarker': b'\x00\x00\x00\x00\x04',
    'HistoryRecord': b'\x00\x00\x00\x00\x05',
    'LeaseView': b'\x00\x00\x00\x00\x06',
    'ReplyBatch': b'\x00\x00\x00\x00\x07',
    'Demand': b'\x00\x00\x00\x00\x08',
    'Offers': b'\x00\x00\x00\x00\t',
    'OwnerView': b'\x00\x00\x00\x00\n',
    'DeadLetter': b'\x00\x00\x00\x00\x0b',
}
_GapPolicy_WRITE: Final[dict[str, bytes]] = {'shift': b'\x02', 'skip': b'\x04'}
_GapPolicy_READ: Final[dict[int, Literal['shift', 'skip']]] = {2: 'shift', 4: 'skip'}
_OverlapHour_WRITE: Final[dict[str, bytes]] = {'first': b'\x02', 'second': b'\x04', 'both': b'\x06'}
_OverlapHour_READ: Final[dict[int, Literal['first', 'second', 'both']]] = {2: 'first', 4: 'second', 6: 'both'}
_CalendarUnit_WRITE: Final[dict[str, bytes]] = {'day': b'\x02', 'week': b'\x04', 'month': b'\x06'}
_CalendarUnit_READ: Final[dict[int, Literal['day', 'week', 'month']]] = {2: 'day', 4: 'week', 6: 'month'}
_Backoff_WRITE: Final[dict[str, bytes]] = {'exponential': b'\x02', 'fixed': b'\x04', 'none': b'\x06'}
_Backoff_READ: Final[dict[int, Literal['exponential', 'fixed', 'none']]] = {2: 'exponential', 4: 'fixed', 6: 'none'}
_CatchUp_WRITE: Final[dict[str, bytes]] = {'latest': b'\x02', 'all': b'\x04', 'none': b'\x06'}
_CatchUp_READ: Final[dict[int, Literal['latest', 'all', 'none']]] = {2: 'latest', 4: 'all', 6: 'none'}
_Overlap_WRITE: Final[dict[str, bytes]] = {'allow': b'\x02', 'skip': b'\x04', 'queue': b'\x06', 'replace': b'\x08'}
_Overlap_READ: Final[dict[int, Literal['allow', 'skip', 'queue', 'replace']]] = {2: 'allow', 4: 'skip', 6: 'queue', 8: 'replace'}
_Lane_WRITE: Final[dict[str, bytes]] = {'high': b'\x02', 'normal': b'\x04', 'low': b'\x06'}
_Lane_READ: Final[dict[int, Literal['high', 'normal', 'low']]] = {2: 'high', 4: 'normal', 6: 'low'}
_JitterKind_WRITE: Final[dict[str, bytes]] = {'none': b'\x02', 'job': b'\x04', 'occurrence': b'\x06'}
_JitterKind_READ: Final[dict[int, Literal['none', 'job', 'occurrence']]] = {2: 'none', 4: 'job', 6: 'occurrence'}
_DefineMode_WRITE: Final[dict[str, bytes]] = {'create': b'\x02', 'edit': b'\x04', 'upsert': b'\x06'}
_DefineMode_READ: Final[dict[int, Literal['create', 'edit', 'upsert']]] = {2: 'create', 4: 'edit', 6: 'upsert'}
_DEFINE_STANDING: Final[dict[str, Literal['', 'active', 'paused']]] = {'': '', 'active': 'active', 'paused': 'paused'}
_JobStatus_WRITE: Final[dict[str, bytes]] = {'active': b'\x02', 'finished': b'\x04', 'deleted': b'\x06'}
_JobStatus_READ: Final[dict[int, Literal['active', 'finished', 'deleted']]] = {2: 'active', 4: 'finished', 6: 'deleted'}
_RunKind_WRITE: Final[dict[str, bytes]] = {'schedule': b'\x02', 'trigger': b'\x04', 'backfill': b'\x06', 'replay': b'\x08'}
_RunKind_READ: Final[dict[int, Literal['schedule', 'trigger', 'backfill', 'replay']]] = {2: 'schedule', 4: 'trigger', 6: 'backfill', 8: 'replay'}
_OPENRUN_ENDED_BY: Final[dict[str, Literal['', 'failing', 'failed', 'expiring', 'expired', 'released']]] = {'': '', 'failing': 'failing', 'failed': 'failed', 'expiring': 'expiring', 'expired': 'expired', 'released': 'released'}
_RunOutcome_WRITE: Final[dict[str, bytes]] = {'succeeded': b'\x02', 'skipped': b'\x04', 'cancelled': b'\x06', 'dead': b'\x08'}
_RunOutcome_READ: Final[dict[int, Literal['succeeded', 'skipped', 'cancelled', 'dead']]] = {2: 'succeeded', 4: 'skipped', 6: 'cancelled', 8: 'dead'}
_DroppedReason_WRITE: Final[dict[str, bytes]] = {'gap': b'\x02', 'calendar': b'\x04'}
_DroppedReason_READ: Final[dict[int, Literal['gap', 'calendar']]] = {2: 'gap', 4: 'calendar'}
_CauseKind_WRITE: Final[dict[str, bytes]] = {'command': b'\x02', 'definition': b'\x04', 'timer': b'\x06', 'parked': b'\x08'}
_CauseKind_READ: Final[dict[int, Literal['command', 'definition', 'timer', 'parked']]] = {2: 'command', 4: 'definition', 6: 'timer', 8: 'parked'}
_SkipReason_WRITE: Final[dict[str, bytes]] = {'overlap': b'\x02', 'start_deadline': b'\x04', 'catch_up': b'\x06', 'paused': b'\x08', 'gap': b'\x0a', 'calendar': b'\x0c', 'quota': b'\x0e', 'superseded': b'\x10', 'requested': b'\x12', 'deleted': b'\x14'}
_SkipReason_READ: Final[dict[int, Literal['overlap', 'start_deadline', 'catch_up', 'paused', 'gap', 'calendar', 'quota', 'superseded', 'requested', 'deleted']]] = {2: 'overlap', 4: 'start_deadline', 6: 'catch_up', 8: 'paused', 10: 'gap', 12: 'calendar', 14: 'quota', 16: 'superseded', 18: 'requested', 20: 'deleted'}
_LeaseClose_WRITE: Final[dict[str, bytes]] = {'succeeded': b'\x02', 'failed': b'\x04', 'released': b'\x06', 'expired': b'\x08', 'cancelled': b'\x0a'}
_LeaseClose_READ: Final[dict[int, Literal['succeeded', 'failed', 'released', 'expired', 'cancelled']]] = {2: 'succeeded', 4: 'failed', 6: 'released', 8: 'expired', 10: 'cancelled'}
_ReplyCode_WRITE: Final[dict[str, bytes]] = {'ok': b'\x02', 'created': b'\x04', 'granted': b'\x06', 'invalid': b'\x08', 'not_found': b'\x0a', 'version_conflict': b'\x0c', 'idempotency_conflict': b'\x0e', 'wrong_tenant': b'\x10', 'lease_lost': b'\x12', 'not_due': b'\x14', 'not_leasable': b'\x16', 'stale_offer': b'\x18', 'paused': b'\x1a', 'blocked': b'\x1c', 'too_many_open_runs': b'\x1e', 'too_many_replays': b'\x20', 'gone': b'\x22', 'quota': b'\x24', 'quarantined': b'\x26', 'behind': b'\x28'}
_ReplyCode_READ: Final[dict[int, Literal['ok', 'created', 'granted', 'invalid', 'not_found', 'version_conflict', 'idempotency_conflict', 'wrong_tenant', 'lease_lost', 'not_due', 'not_leasable', 'stale_offer', 'paused', 'blocked', 'too_many_open_runs', 'too_many_replays', 'gone', 'quota', 'quarantined', 'behind']]] = {2: 'ok', 4: 'created', 6: 'granted', 8: 'invalid', 10: 'not_found', 12: 'version_conflict', 14: 'idempotency_conflict', 16: 'wrong_tenant', 18: 'lease_lost', 20: 'not_due', 22: 'not_leasable', 24: 'stale_offer', 26: 'paused', 28: 'blocked', 30: 'too_many_open_runs', 32: 'too_many_replays', 34: 'gone', 36: 'quota', 38: 'quarantined', 40: 'behind'}
_DeadLetterCode_WRITE: Final[dict[str, bytes]] = {'unreadable': b'\x02', 'invalid': b'\x04', 'wrong_partition': b'\x06', 'wrong_tenant': b'\x08', 'quota': b'\x0a', 'quarantined': b'\x0c', 'too_large': b'\x0e'}
_DeadLetterCode_READ: Final[dict[int, Literal['unreadable', 'invalid', 'wrong_partition', 'wrong_tenant', 'quota', 'quarantined', 'too_large']]] = {2: 'unreadable', 4: 'invalid', 6: 'wrong_partition', 8: 'wrong_tenant', 10: 'quota', 12: 'quarantined', 14: 'too_large'}

def encode_CronSchedule(value: CronSchedule) -> bytes:
    return b"".join(
        (
            TEXTS[value.expression],
            TEXTS[value.time_zone],
            _GapPolicy_WRITE[value.gap],
            _OverlapHour_WRITE[value.overlap_hour],
        )
    )


def decode_CronSchedule(data: bytes, at: int) -> tuple[CronSchedule, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    expression_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    time_zone_ = WORDS[data[at : (at := at + size)]]
    gap_ = _GapPolicy_READ[data[at]]
    at += 1
    overlap_hour_ = _OverlapHour_READ[data[at]]
    at += 1
    return CronSchedule(expression=expression_, time_zone=time_zone_, gap=gap_, overlap_hour=overlap_hour_), at


def encode_IntervalSchedule(value: IntervalSchedule) -> bytes:
    return b"".join(
        (
            NUMBERS[value.every_ms],
            NUMBERS[value.anchor_ms],
        )
    )


def decode_IntervalSchedule(data: bytes, at: int) -> tuple[IntervalSchedule, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    every_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    anchor_ms_ = number
    return IntervalSchedule(every_ms=every_ms_, anchor_ms=anchor_ms_), at


def encode_CalendarIntervalSchedule(value: CalendarIntervalSchedule) -> bytes:
    return b"".join(
        (
            _CalendarUnit_WRITE[value.unit],
            NUMBERS[value.every],
            NUMBERS[len(x1 := value.local_time.encode())],
            x1,
            NUMBERS[len(x2 := value.anchor_date.encode())],
            x2,
            TEXTS[value.time_zone],
            _GapPolicy_WRITE[value.gap],
            _OverlapHour_WRITE[value.overlap_hour],
        )
    )


def decode_CalendarIntervalSchedule(data: bytes, at: int) -> tuple[CalendarIntervalSchedule, int]:
    unit_ = _CalendarUnit_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    every_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    local_time_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    anchor_date_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    time_zone_ = WORDS[data[at : (at := at + size)]]
    gap_ = _GapPolicy_READ[data[at]]
    at += 1
    overlap_hour_ = _OverlapHour_READ[data[at]]
    at += 1
    return CalendarIntervalSchedule(unit=unit_, every=every_, local_time=local_time_, anchor_date=anchor_date_, time_zone=time_zone_, gap=gap_, overlap_hour=overlap_hour_), at


def encode_OneOffSchedule(value: OneOffSchedule) -> bytes:
    return b"".join(
        (
            NUMBERS[value.at_ms],
        )
    )


def decode_OneOffSchedule(data: bytes, at: int) -> tuple[OneOffSchedule, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return OneOffSchedule(at_ms=at_ms_), at


def encode_LocalOneOffSchedule(value: LocalOneOffSchedule) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.local.encode())],
            x1,
            TEXTS[value.time_zone],
            _GapPolicy_WRITE[value.gap],
            _OverlapHour_WRITE[value.overlap_hour],
        )
    )


def decode_LocalOneOffSchedule(data: bytes, at: int) -> tuple[LocalOneOffSchedule, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    local_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    time_zone_ = WORDS[data[at : (at := at + size)]]
    gap_ = _GapPolicy_READ[data[at]]
    at += 1
    overlap_hour_ = _OverlapHour_READ[data[at]]
    at += 1
    return LocalOneOffSchedule(local=local_, time_zone=time_zone_, gap=gap_, overlap_hour=overlap_hour_), at


def encode_RRuleSchedule(value: RRuleSchedule) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.rule.encode())],
            x1,
            NUMBERS[len(x2 := value.dtstart_local.encode())],
            x2,
            TEXTS[value.time_zone],
            _GapPolicy_WRITE[value.gap],
            _OverlapHour_WRITE[value.overlap_hour],
        )
    )


def decode_RRuleSchedule(data: bytes, at: int) -> tuple[RRuleSchedule, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    rule_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    dtstart_local_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    time_zone_ = WORDS[data[at : (at := at + size)]]
    gap_ = _GapPolicy_READ[data[at]]
    at += 1
    overlap_hour_ = _OverlapHour_READ[data[at]]
    at += 1
    return RRuleSchedule(rule=rule_, dtstart_local=dtstart_local_, time_zone=time_zone_, gap=gap_, overlap_hour=overlap_hour_), at


_JOBDEFINITION_SCHEDULE_READ: Final[dict[int, Callable[[bytes, int], tuple[CronSchedule | IntervalSchedule | CalendarIntervalSchedule | OneOffSchedule | LocalOneOffSchedule | RRuleSchedule, int]]]] = {
    0: decode_CronSchedule,
    2: decode_IntervalSchedule,
    4: decode_CalendarIntervalSchedule,
    6: decode_OneOffSchedule,
    8: decode_LocalOneOffSchedule,
    10: decode_RRuleSchedule,
}
_JOBDEFINITION_SCHEDULE_WRITE: Final[dict[type, tuple[bytes, Callable[..., bytes]]]] = {
    CronSchedule: (b'\x00', encode_CronSchedule),
    IntervalSchedule: (b'\x02', encode_IntervalSchedule),
    CalendarIntervalSchedule: (b'\x04', encode_CalendarIntervalSchedule),
    OneOffSchedule: (b'\x06', encode_OneOffSchedule),
    LocalOneOffSchedule: (b'\x08', encode_LocalOneOffSchedule),
    RRuleSchedule: (b'\x0a', encode_RRuleSchedule),
}


def _write_JOBDEFINITION_SCHEDULE(value: CronSchedule | IntervalSchedule | CalendarIntervalSchedule | OneOffSchedule | LocalOneOffSchedule | RRuleSchedule) -> bytes:
    branch, encode = _JOBDEFINITION_SCHEDULE_WRITE[type(value)]
    return branch + encode(value)


def _read_JOBDEFINITION_SCHEDULE(data: bytes, at: int) -> tuple[CronSchedule | IntervalSchedule | CalendarIntervalSchedule | OneOffSchedule | LocalOneOffSchedule | RRuleSchedule, int]:
    return _JOBDEFINITION_SCHEDULE_READ[data[at]](data, at + 1)


def encode_Retry(value: Retry) -> bytes:
    return b"".join(
        (
            NUMBERS[value.max_attempts],
            _Backoff_WRITE[value.backoff],
            NUMBERS[value.delay_ms],
        )
    )


def decode_Retry(data: bytes, at: int) -> tuple[Retry, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    max_attempts_ = number
    backoff_ = _Backoff_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    delay_ms_ = number
    return Retry(max_attempts=max_attempts_, backoff=backoff_, delay_ms=delay_ms_), at


def encode_JobDefinition(value: JobDefinition) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            TEXTS[value.tenant],
            TEXTS[value.queue],
            NUMBERS[len(x2 := value.name.encode())],
            x2,
            TEXTS[value.task],
            _write_JOBDEFINITION_SCHEDULE(value.schedule),
            b"\0" if not (x3 := value.payload) else b"\2" + NUMBERS[len(x4 := x3)] + x4,
            TEXTS[value.content_type],
            encode_Retry(value.retry),
            _CatchUp_WRITE[value.catch_up],
            _Overlap_WRITE[value.overlap],
            NUMBERS[value.concurrent_runs_max],
            _Lane_WRITE[value.lane],
            _JitterKind_WRITE[value.jitter_kind],
            _rest_of_JobDefinition(value)
            if value.timeout_ms or value.start_deadline_ms or value.jitter_ms or value.labels or value.calendars or value.start_at_ms is not None or value.end_at_ms is not None or value.max_runs or value.concurrency_key or value.concurrency_weight
            else b'\0\0\0\0\0\0\0\0\0\0\0',
        )
    )


def _rest_of_JobDefinition(value: JobDefinition) -> bytes:
    return b"".join(
        (
            NUMBERS[value.timeout_ms],
            NUMBERS[value.start_deadline_ms],
            NUMBERS[value.jitter_ms],
            texts_bytes(value.labels),
            array_bytes([TEXTS[item] for item in x5]) if (x5 := value.calendars) else b"\0",
            b"\0" if (x6 := value.start_at_ms) is None else b"\2" + NUMBERS[x6],
            b"\0" if (x7 := value.end_at_ms) is None else b"\2" + NUMBERS[x7],
            NUMBERS[value.max_runs],
            b"\0",
            NUMBERS[len(x8 := value.concurrency_key.encode())],
            x8,
            NUMBERS[value.concurrency_weight],
        )
    )


def decode_JobDefinition(data: bytes, at: int) -> tuple[JobDefinition, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    name_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    task_ = WORDS[data[at : (at := at + size)]]
    schedule_, at = _read_JOBDEFINITION_SCHEDULE(data, at)
    payload_: bytes = b''
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        payload_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    content_type_ = WORDS[data[at : (at := at + size)]]
    retry_, at = decode_Retry(data, at)
    catch_up_ = _CatchUp_READ[data[at]]
    at += 1
    overlap_ = _Overlap_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    concurrent_runs_max_ = number
    lane_ = _Lane_READ[data[at]]
    at += 1
    jitter_kind_ = _JitterKind_READ[data[at]]
    at += 1
    if data[at : at + 11] == b'\0' * 11:
        return JobDefinition(job_id=job_id_, tenant=tenant_, queue=queue_, name=name_, task=task_, schedule=schedule_, payload=payload_, content_type=content_type_, retry=retry_, catch_up=catch_up_, overlap=overlap_, concurrent_runs_max=concurrent_runs_max_, lane=lane_, jitter_kind=jitter_kind_), at + 11
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    timeout_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    start_deadline_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    jitter_ms_ = number
    labels_, at = read_texts(data, at)
    calendars_: tuple[str, ...] = ()
    if data[at]:
        calendars_, at = read_array(data, at, read_text)
    else:
        at += 1
    start_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        start_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    end_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        end_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    max_runs_ = number
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        else:
            number, at = read_long(data, at)
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    concurrency_key_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    concurrency_weight_ = number
    return JobDefinition(job_id=job_id_, tenant=tenant_, queue=queue_, name=name_, task=task_, schedule=schedule_, payload=payload_, content_type=content_type_, retry=retry_, catch_up=catch_up_, overlap=overlap_, concurrent_runs_max=concurrent_runs_max_, lane=lane_, jitter_kind=jitter_kind_, timeout_ms=timeout_ms_, start_deadline_ms=start_deadline_ms_, jitter_ms=jitter_ms_, labels=labels_, calendars=calendars_, start_at_ms=start_at_ms_, end_at_ms=end_at_ms_, max_runs=max_runs_, concurrency_key=concurrency_key_, concurrency_weight=concurrency_weight_), at


def encode_Define(value: Define) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            encode_JobDefinition(value.definition),
            NUMBERS[len(x3 := value.request_hash.encode())],
            x3,
            _DefineMode_WRITE[value.mode],
            NUMBERS[value.expected_version],
            TEXTS[value.actor],
            TEXTS[value.standing],
            NUMBERS[len(x4 := value.key.encode())],
            x4,
            NUMBERS[len(x5 := value.body.encode())],
            x5,
            NUMBERS[len(x6 := value.memo)],
            x6,
            NUMBERS[value.config_offset],
        )
    )


def decode_Define(data: bytes, at: int) -> tuple[Define, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    definition_, at = decode_JobDefinition(data, at)
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_hash_ = data[at : (at := at + size)].decode()
    mode_ = _DefineMode_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    expected_version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    standing_ = _DEFINE_STANDING[WORDS[data[at : (at := at + size)]]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    config_offset_ = number
    return Define(job_id=job_id_, request_id=request_id_, definition=definition_, request_hash=request_hash_, mode=mode_, expected_version=expected_version_, actor=actor_, standing=standing_, key=key_, body=body_, memo=memo_, config_offset=config_offset_), at


def encode_Delete(value: Delete) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            TEXTS[value.tenant],
            NUMBERS[value.expected_version],
            TEXTS[value.actor],
            NUMBERS[len(x3 := value.key.encode())],
            x3,
            NUMBERS[len(x4 := value.body.encode())],
            x4,
            NUMBERS[len(x5 := value.memo)],
            x5,
        )
    )


def decode_Delete(data: bytes, at: int) -> tuple[Delete, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    expected_version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return Delete(job_id=job_id_, request_id=request_id_, tenant=tenant_, expected_version=expected_version_, actor=actor_, key=key_, body=body_, memo=memo_), at


def encode_LeaseRun(value: LeaseRun) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            TEXTS[value.worker_id],
            TEXTS[value.gateway_id],
            NUMBERS[value.job_version],
            NUMBERS[value.visibility_ms],
            NUMBERS[value.valid_until_ms],
        )
    )


def decode_LeaseRun(data: bytes, at: int) -> tuple[LeaseRun, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    worker_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    job_version_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    visibility_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    valid_until_ms_ = number
    return LeaseRun(job_id=job_id_, request_id=request_id_, run_id=run_id_, worker_id=worker_id_, gateway_id=gateway_id_, job_version=job_version_, visibility_ms=visibility_ms_, valid_until_ms=valid_until_ms_), at


def encode_Heartbeat(value: Heartbeat) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            NUMBERS[value.lease_token],
            NUMBERS[value.at_ms],
            NUMBERS[value.visibility_ms],
            NUMBERS[len(x4 := value.progress)],
            x4,
        )
    )


def decode_Heartbeat(data: bytes, at: int) -> tuple[Heartbeat, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    visibility_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    progress_ = data[at : (at := at + size)]
    return Heartbeat(job_id=job_id_, request_id=request_id_, run_id=run_id_, lease_token=lease_token_, at_ms=at_ms_, visibility_ms=visibility_ms_, progress=progress_), at


def encode_Complete(value: Complete) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            NUMBERS[value.lease_token],
            NUMBERS[len(x4 := value.result)],
            x4,
        )
    )


def decode_Complete(data: bytes, at: int) -> tuple[Complete, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    result_ = data[at : (at := at + size)]
    return Complete(job_id=job_id_, request_id=request_id_, run_id=run_id_, lease_token=lease_token_, result=result_), at


def encode_Fail(value: Fail) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            NUMBERS[value.lease_token],
            b"\1" if value.retryable else b"\0",
            NUMBERS[len(x4 := value.error.encode())],
            x4,
        )
    )


def decode_Fail(data: bytes, at: int) -> tuple[Fail, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    retryable_ = BOOLEANS[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    error_ = data[at : (at := at + size)].decode()
    return Fail(job_id=job_id_, request_id=request_id_, run_id=run_id_, lease_token=lease_token_, retryable=retryable_, error=error_), at


def encode_Release(value: Release) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            NUMBERS[value.lease_token],
            TEXTS[value.reason],
        )
    )


def decode_Release(data: bytes, at: int) -> tuple[Release, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    return Release(job_id=job_id_, request_id=request_id_, run_id=run_id_, lease_token=lease_token_, reason=reason_), at


def encode_Pause(value: Pause) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            TEXTS[value.tenant],
            TEXTS[value.actor],
            NUMBERS[len(x3 := value.note.encode())],
            x3,
            NUMBERS[value.until_ms],
            NUMBERS[len(x4 := value.key.encode())],
            x4,
            NUMBERS[len(x5 := value.body.encode())],
            x5,
            NUMBERS[len(x6 := value.memo)],
            x6,
        )
    )


def decode_Pause(data: bytes, at: int) -> tuple[Pause, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    note_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return Pause(job_id=job_id_, request_id=request_id_, tenant=tenant_, actor=actor_, note=note_, until_ms=until_ms_, key=key_, body=body_, memo=memo_), at


def encode_Resume(value: Resume) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            TEXTS[value.tenant],
            TEXTS[value.actor],
            NUMBERS[len(x3 := value.note.encode())],
            x3,
            NUMBERS[len(x4 := value.key.encode())],
            x4,
            NUMBERS[len(x5 := value.body.encode())],
            x5,
            NUMBERS[len(x6 := value.memo)],
            x6,
        )
    )


def decode_Resume(data: bytes, at: int) -> tuple[Resume, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    note_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return Resume(job_id=job_id_, request_id=request_id_, tenant=tenant_, actor=actor_, note=note_, key=key_, body=body_, memo=memo_), at


def encode_Trigger(value: Trigger) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            TEXTS[value.tenant],
            NUMBERS[len(x3 := value.trigger_id.encode())],
            x3,
            b"\1" if value.force else b"\0",
            b"\0" if (x4 := value.payload) is None else b"\2" + NUMBERS[len(x5 := x4)] + x5,
            TEXTS[value.actor],
            NUMBERS[len(x6 := value.key.encode())],
            x6,
            NUMBERS[len(x7 := value.body.encode())],
            x7,
            NUMBERS[len(x8 := value.memo)],
            x8,
        )
    )


def decode_Trigger(data: bytes, at: int) -> tuple[Trigger, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    trigger_id_ = data[at : (at := at + size)].decode()
    force_ = BOOLEANS[data[at]]
    at += 1
    payload_: bytes | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        payload_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return Trigger(job_id=job_id_, request_id=request_id_, tenant=tenant_, trigger_id=trigger_id_, force=force_, payload=payload_, actor=actor_, key=key_, body=body_, memo=memo_), at


def encode_CancelRun(value: CancelRun) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            TEXTS[value.tenant],
            TEXTS[value.actor],
            TEXTS[value.reason],
            NUMBERS[len(x4 := value.key.encode())],
            x4,
            NUMBERS[len(x5 := value.body.encode())],
            x5,
            NUMBERS[len(x6 := value.memo)],
            x6,
        )
    )


def decode_CancelRun(data: bytes, at: int) -> tuple[CancelRun, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return CancelRun(job_id=job_id_, request_id=request_id_, run_id=run_id_, tenant=tenant_, actor=actor_, reason=reason_, key=key_, body=body_, memo=memo_), at


def encode_SkipSlot(value: SkipSlot) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[value.at_ms],
            TEXTS[value.tenant],
            NUMBERS[value.expected_version],
            TEXTS[value.actor],
        )
    )


def decode_SkipSlot(data: bytes, at: int) -> tuple[SkipSlot, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    expected_version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    return SkipSlot(job_id=job_id_, request_id=request_id_, at_ms=at_ms_, tenant=tenant_, expected_version=expected_version_, actor=actor_), at


def encode_ReplayRun(value: ReplayRun) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.run_id.encode())],
            x3,
            NUMBERS[len(x4 := value.replay_id.encode())],
            x4,
            TEXTS[value.tenant],
            TEXTS[value.actor],
            NUMBERS[len(x5 := value.key.encode())],
            x5,
            NUMBERS[len(x6 := value.body.encode())],
            x6,
            NUMBERS[len(x7 := value.memo)],
            x7,
        )
    )


def decode_ReplayRun(data: bytes, at: int) -> tuple[ReplayRun, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    replay_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return ReplayRun(job_id=job_id_, request_id=request_id_, run_id=run_id_, replay_id=replay_id_, tenant=tenant_, actor=actor_, key=key_, body=body_, memo=memo_), at


def encode_StartBackfill(value: StartBackfill) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.backfill_id.encode())],
            x3,
            NUMBERS[value.from_ms],
            NUMBERS[value.until_ms],
            NUMBERS[value.concurrent_runs_max],
            TEXTS[value.tenant],
            TEXTS[value.actor],
            NUMBERS[value.interval_ms],
            NUMBERS[len(x4 := value.key.encode())],
            x4,
            NUMBERS[len(x5 := value.body.encode())],
            x5,
            NUMBERS[len(x6 := value.memo)],
            x6,
        )
    )


def decode_StartBackfill(data: bytes, at: int) -> tuple[StartBackfill, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    backfill_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    from_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    concurrent_runs_max_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    interval_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return StartBackfill(job_id=job_id_, request_id=request_id_, backfill_id=backfill_id_, from_ms=from_ms_, until_ms=until_ms_, concurrent_runs_max=concurrent_runs_max_, tenant=tenant_, actor=actor_, interval_ms=interval_ms_, key=key_, body=body_, memo=memo_), at


def encode_StopBackfill(value: StopBackfill) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            NUMBERS[len(x3 := value.backfill_id.encode())],
            x3,
            TEXTS[value.tenant],
            TEXTS[value.actor],
        )
    )


def decode_StopBackfill(data: bytes, at: int) -> tuple[StopBackfill, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    backfill_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    return StopBackfill(job_id=job_id_, request_id=request_id_, backfill_id=backfill_id_, tenant=tenant_, actor=actor_), at


def encode_Wake(value: Wake) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
        )
    )


def decode_Wake(data: bytes, at: int) -> tuple[Wake, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    return Wake(job_id=job_id_, request_id=request_id_), at


_COMMANDBATCH_COMMANDS_READ: Final[dict[int, Callable[[bytes, int], tuple[Define | Delete | LeaseRun | Heartbeat | Complete | Fail | Release | Pause | Resume | Trigger | CancelRun | SkipSlot | ReplayRun | StartBackfill | StopBackfill | Wake, int]]]] = {
    0: decode_Define,
    2: decode_Delete,
    4: decode_LeaseRun,
    6: decode_Heartbeat,
    8: decode_Complete,
    10: decode_Fail,
    12: decode_Release,
    14: decode_Pause,
    16: decode_Resume,
    18: decode_Trigger,
    20: decode_CancelRun,
    22: decode_SkipSlot,
    24: decode_ReplayRun,
    26: decode_StartBackfill,
    28: decode_StopBackfill,
    30: decode_Wake,
}
_COMMANDBATCH_COMMANDS_WRITE: Final[dict[type, tuple[bytes, Callable[..., bytes]]]] = {
    Define: (b'\x00', encode_Define),
    Delete: (b'\x02', encode_Delete),
    LeaseRun: (b'\x04', encode_LeaseRun),
    Heartbeat: (b'\x06', encode_Heartbeat),
    Complete: (b'\x08', encode_Complete),
    Fail: (b'\x0a', encode_Fail),
    Release: (b'\x0c', encode_Release),
    Pause: (b'\x0e', encode_Pause),
    Resume: (b'\x10', encode_Resume),
    Trigger: (b'\x12', encode_Trigger),
    CancelRun: (b'\x14', encode_CancelRun),
    SkipSlot: (b'\x16', encode_SkipSlot),
    ReplayRun: (b'\x18', encode_ReplayRun),
    StartBackfill: (b'\x1a', encode_StartBackfill),
    StopBackfill: (b'\x1c', encode_StopBackfill),
    Wake: (b'\x1e', encode_Wake),
}


def _write_COMMANDBATCH_COMMANDS(value: Define | Delete | LeaseRun | Heartbeat | Complete | Fail | Release | Pause | Resume | Trigger | CancelRun | SkipSlot | ReplayRun | StartBackfill | StopBackfill | Wake) -> bytes:
    branch, encode = _COMMANDBATCH_COMMANDS_WRITE[type(value)]
    return branch + encode(value)


def _read_COMMANDBATCH_COMMANDS(data: bytes, at: int) -> tuple[Define | Delete | LeaseRun | Heartbeat | Complete | Fail | Release | Pause | Resume | Trigger | CancelRun | SkipSlot | ReplayRun | StartBackfill | StopBackfill | Wake, int]:
    return _COMMANDBATCH_COMMANDS_READ[data[at]](data, at + 1)


def encode_CommandBatch(value: CommandBatch) -> bytes:
    return b"".join(
        (
            TEXTS[value.gateway_id],
            TEXTS[value.incarnation],
            NUMBERS[value.sent_at_ms],
            array_bytes([_write_COMMANDBATCH_COMMANDS(item) for item in x1]) if (x1 := value.commands) else b"\0",
        )
    )


def decode_CommandBatch(data: bytes, at: int) -> tuple[CommandBatch, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    incarnation_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    sent_at_ms_ = number
    commands_: tuple[Define | Delete | LeaseRun | Heartbeat | Complete | Fail | Release | Pause | Resume | Trigger | CancelRun | SkipSlot | ReplayRun | StartBackfill | StopBackfill | Wake, ...] = ()
    if data[at]:
        commands_, at = read_array(data, at, _read_COMMANDBATCH_COMMANDS)
    else:
        at += 1
    return CommandBatch(gateway_id=gateway_id_, incarnation=incarnation_, sent_at_ms=sent_at_ms_, commands=commands_), at


def encode_Lease(value: Lease) -> bytes:
    return b"".join(
        (
            NUMBERS[value.lease_token],
            TEXTS[value.worker_id],
            TEXTS[value.gateway_id],
            NUMBERS[len(x1 := value.request_id.encode())],
            x1,
            NUMBERS[value.granted_at_ms],
            NUMBERS[value.visibility_ms],
            NUMBERS[value.expires_at_ms],
            NUMBERS[value.timeout_at_ms],
        )
    )


def decode_Lease(data: bytes, at: int) -> tuple[Lease, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    worker_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    granted_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    visibility_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    expires_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    timeout_at_ms_ = number
    return Lease(lease_token=lease_token_, worker_id=worker_id_, gateway_id=gateway_id_, request_id=request_id_, granted_at_ms=granted_at_ms_, visibility_ms=visibility_ms_, expires_at_ms=expires_at_ms_, timeout_at_ms=timeout_at_ms_), at


def encode_EndedAttempt(value: EndedAttempt) -> bytes:
    return b"".join(
        (
            NUMBERS[value.attempt],
            NUMBERS[value.lease_token],
            TEXTS[value.worker_id],
            NUMBERS[value.granted_at_ms],
            NUMBERS[value.ended_at_ms],
            NUMBERS[len(x1 := value.end.encode())],
            x1,
            NUMBERS[len(x2 := value.error.encode())],
            x2,
        )
    )


def decode_EndedAttempt(data: bytes, at: int) -> tuple[EndedAttempt, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    worker_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    granted_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    ended_at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    end_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    error_ = data[at : (at := at + size)].decode()
    return EndedAttempt(attempt=attempt_, lease_token=lease_token_, worker_id=worker_id_, granted_at_ms=granted_at_ms_, ended_at_ms=ended_at_ms_, end=end_, error=error_), at


def encode_OpenRun(value: OpenRun) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            _RunKind_WRITE[value.kind],
            NUMBERS[value.scheduled_at_ms],
            NUMBERS[value.due_at_ms],
            NUMBERS[value.opened_at_ms],
            NUMBERS[value.job_version],
            _Lane_WRITE[value.lane],
            NUMBERS[value.attempt],
            b"\0" if (x2 := value.lease) is None else b"\2" + encode_Lease(x2),
            _rest_of_OpenRun(value)
            if value.silent_grants or value.held or value.cancel_requested_at_ms or value.cancel_reason or value.payload is not None or value.replay_of or value.replays or value.error or value.forced or value.ended_token or value.ended_by or value.attempts
            else b'\0\0\0\0\0\0\0\0\0\0\0\0',
        )
    )


def _rest_of_OpenRun(value: OpenRun) -> bytes:
    return b"".join(
        (
            NUMBERS[value.silent_grants],
            b"\1" if value.held else b"\0",
            NUMBERS[value.cancel_requested_at_ms],
            NUMBERS[len(x3 := value.cancel_reason.encode())],
            x3,
            b"\0" if (x4 := value.payload) is None else b"\2" + NUMBERS[len(x5 := x4)] + x5,
            NUMBERS[len(x6 := value.replay_of.encode())],
            x6,
            NUMBERS[value.replays],
            NUMBERS[len(x7 := value.error.encode())],
            x7,
            b"\1" if value.forced else b"\0",
            NUMBERS[value.ended_token],
            TEXTS[value.ended_by],
            array_bytes([encode_EndedAttempt(item) for item in x8]) if (x8 := value.attempts) else b"\0",
        )
    )


def decode_OpenRun(data: bytes, at: int) -> tuple[OpenRun, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    kind_ = _RunKind_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    scheduled_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    due_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    opened_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    job_version_ = number
    lane_ = _Lane_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    lease_: Lease | None = None
    if (byte := data[at]) == 2:
        at += 1
        lease_, at = decode_Lease(data, at)
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if data[at : at + 12] == b'\0' * 12:
        return OpenRun(run_id=run_id_, kind=kind_, scheduled_at_ms=scheduled_at_ms_, due_at_ms=due_at_ms_, opened_at_ms=opened_at_ms_, job_version=job_version_, lane=lane_, attempt=attempt_, lease=lease_), at + 12
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    silent_grants_ = number
    held_ = BOOLEANS[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    cancel_requested_at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    cancel_reason_ = data[at : (at := at + size)].decode()
    payload_: bytes | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        payload_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    replay_of_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    replays_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    error_ = data[at : (at := at + size)].decode()
    forced_ = BOOLEANS[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    ended_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    ended_by_ = _OPENRUN_ENDED_BY[WORDS[data[at : (at := at + size)]]]
    attempts_: tuple[EndedAttempt, ...] = ()
    if data[at]:
        attempts_, at = read_array(data, at, decode_EndedAttempt)
    else:
        at += 1
    return OpenRun(run_id=run_id_, kind=kind_, scheduled_at_ms=scheduled_at_ms_, due_at_ms=due_at_ms_, opened_at_ms=opened_at_ms_, job_version=job_version_, lane=lane_, attempt=attempt_, lease=lease_, silent_grants=silent_grants_, held=held_, cancel_requested_at_ms=cancel_requested_at_ms_, cancel_reason=cancel_reason_, payload=payload_, replay_of=replay_of_, replays=replays_, error=error_, forced=forced_, ended_token=ended_token_, ended_by=ended_by_, attempts=attempts_), at


def encode_ClosedRun(value: ClosedRun) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            _RunKind_WRITE[value.kind],
            NUMBERS[value.scheduled_at_ms],
            _RunOutcome_WRITE[value.outcome],
            NUMBERS[value.closed_at_ms],
            NUMBERS[value.attempt],
            NUMBERS[value.lease_token],
            NUMBERS[len(x2 := value.result)],
            x2,
            _rest_of_ClosedRun(value)
            if value.reason or value.error or value.replays or value.payload is not None or value.payload_dropped or value.result_dropped or value.replay_of or value.attempts
            else b'\0\0\0\0\0\0\0\0',
        )
    )


def _rest_of_ClosedRun(value: ClosedRun) -> bytes:
    return b"".join(
        (
            TEXTS[value.reason],
            NUMBERS[len(x3 := value.error.encode())],
            x3,
            NUMBERS[value.replays],
            b"\0" if (x4 := value.payload) is None else b"\2" + NUMBERS[len(x5 := x4)] + x5,
            b"\1" if value.payload_dropped else b"\0",
            b"\1" if value.result_dropped else b"\0",
            NUMBERS[len(x6 := value.replay_of.encode())],
            x6,
            array_bytes([encode_EndedAttempt(item) for item in x7]) if (x7 := value.attempts) else b"\0",
        )
    )


def decode_ClosedRun(data: bytes, at: int) -> tuple[ClosedRun, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    kind_ = _RunKind_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    scheduled_at_ms_ = number
    outcome_ = _RunOutcome_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    closed_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    result_ = data[at : (at := at + size)]
    if data[at : at + 8] == b'\0' * 8:
        return ClosedRun(run_id=run_id_, kind=kind_, scheduled_at_ms=scheduled_at_ms_, outcome=outcome_, closed_at_ms=closed_at_ms_, attempt=attempt_, lease_token=lease_token_, result=result_), at + 8
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    error_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    replays_ = number
    payload_: bytes | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        payload_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    payload_dropped_ = BOOLEANS[data[at]]
    at += 1
    result_dropped_ = BOOLEANS[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    replay_of_ = data[at : (at := at + size)].decode()
    attempts_: tuple[EndedAttempt, ...] = ()
    if data[at]:
        attempts_, at = read_array(data, at, decode_EndedAttempt)
    else:
        at += 1
    return ClosedRun(run_id=run_id_, kind=kind_, scheduled_at_ms=scheduled_at_ms_, outcome=outcome_, closed_at_ms=closed_at_ms_, attempt=attempt_, lease_token=lease_token_, result=result_, reason=reason_, error=error_, replays=replays_, payload=payload_, payload_dropped=payload_dropped_, result_dropped=result_dropped_, replay_of=replay_of_, attempts=attempts_), at


def encode_DroppedSlot(value: DroppedSlot) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.local.encode())],
            x1,
            b"\0" if (x2 := value.at_ms) is None else b"\2" + NUMBERS[x2],
            _DroppedReason_WRITE[value.reason],
            NUMBERS[value.count],
        )
    )


def decode_DroppedSlot(data: bytes, at: int) -> tuple[DroppedSlot, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    local_ = data[at : (at := at + size)].decode()
    at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    reason_ = _DroppedReason_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    count_ = number
    return DroppedSlot(local=local_, at_ms=at_ms_, reason=reason_, count=count_), at


def encode_JobPause(value: JobPause) -> bytes:
    return b"".join(
        (
            NUMBERS[value.paused_at_ms],
            TEXTS[value.actor],
            NUMBERS[len(x1 := value.note.encode())],
            x1,
            NUMBERS[value.until_ms],
        )
    )


def decode_JobPause(data: bytes, at: int) -> tuple[JobPause, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    paused_at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    note_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    return JobPause(paused_at_ms=paused_at_ms_, actor=actor_, note=note_, until_ms=until_ms_), at


def encode_Backfill(value: Backfill) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.backfill_id.encode())],
            x1,
            NUMBERS[value.cursor_at_ms],
            NUMBERS[value.until_ms],
            NUMBERS[value.opened],
            NUMBERS[value.concurrent_runs_max],
            NUMBERS[value.interval_ms],
            NUMBERS[value.opened_last_at_ms],
            NUMBERS[value.started_at_ms],
            NUMBERS[value.first_at_ms],
            NUMBERS[value.last_at_ms],
            NUMBERS[value.runs_total],
            NUMBERS[value.ended_at_ms],
            NUMBERS[len(x2 := value.ended_by.encode())],
            x2,
        )
    )


def decode_Backfill(data: bytes, at: int) -> tuple[Backfill, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    backfill_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    cursor_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    opened_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    concurrent_runs_max_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    interval_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    opened_last_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    started_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    first_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    last_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    runs_total_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    ended_at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    ended_by_ = data[at : (at := at + size)].decode()
    return Backfill(backfill_id=backfill_id_, cursor_at_ms=cursor_at_ms_, until_ms=until_ms_, opened=opened_, concurrent_runs_max=concurrent_runs_max_, interval_ms=interval_ms_, opened_last_at_ms=opened_last_at_ms_, started_at_ms=started_at_ms_, first_at_ms=first_at_ms_, last_at_ms=last_at_ms_, runs_total=runs_total_, ended_at_ms=ended_at_ms_, ended_by=ended_by_), at


def encode_KeyUse(value: KeyUse) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.key.encode())],
            x1,
            NUMBERS[len(x2 := value.body.encode())],
            x2,
            NUMBERS[value.version],
            NUMBERS[len(x3 := value.memo)],
            x3,
        )
    )


def decode_KeyUse(data: bytes, at: int) -> tuple[KeyUse, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    return KeyUse(key=key_, body=body_, version=version_, memo=memo_), at


def encode_JobState(value: JobState) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            TEXTS[value.tenant],
            TEXTS[value.queue],
            _JobStatus_WRITE[value.status],
            NUMBERS[value.version],
            NUMBERS[len(x2 := value.request_hash.encode())],
            x2,
            NUMBERS[len(x3 := value.create_hash.encode())],
            x3,
            NUMBERS[value.created_version],
            NUMBERS[value.created_at_ms],
            b"\0" if (x4 := value.created_next_at_ms) is None else b"\2" + NUMBERS[x4],
            b"\0" if (x5 := value.next_at_ms) is None else b"\2" + NUMBERS[x5],
            NUMBERS[value.decided_to_ms],
            NUMBERS[value.occurrences_total],
            TEXTS[value.zone_data],
            array_bytes([encode_OpenRun(item) for item in x6]) if (x6 := value.open) else b"\0",
            array_bytes([encode_ClosedRun(item) for item in x7]) if (x7 := value.closed) else b"\0",
            NUMBERS[value.lease_token_last],
            NUMBERS[value.last_lease_at_ms],
            array_bytes([TEXTS[item] for item in x8]) if (x8 := value.next_notes) else b"\0",
            array_bytes([encode_DroppedSlot(item) for item in x9]) if (x9 := value.next_dropped) else b"\0",
            NUMBERS[value.missed_until_ms],
            array_bytes([NUMBERS[item] for item in x10]) if (x10 := value.skip_at_ms) else b"\0",
            _rest_of_JobState(value)
            if value.skips_total or value.pause is not None or value.dead or value.backfills or value.backfills_ended or value.forget_at_ms or value.checkpoint_at_ms or value.updated_at_ms or value.keys or value.calendars or value.concurrency_key or value.concurrency_weight
            else b'\0\0\0\0\0\0\0\0\0\0\0\0',
        )
    )


def _rest_of_JobState(value: JobState) -> bytes:
    return b"".join(
        (
            NUMBERS[value.skips_total],
            b"\0" if (x11 := value.pause) is None else b"\2" + encode_JobPause(x11),
            array_bytes([encode_ClosedRun(item) for item in x12]) if (x12 := value.dead) else b"\0",
            array_bytes([encode_Backfill(item) for item in x13]) if (x13 := value.backfills) else b"\0",
            array_bytes([encode_Backfill(item) for item in x14]) if (x14 := value.backfills_ended) else b"\0",
            NUMBERS[value.forget_at_ms],
            NUMBERS[value.checkpoint_at_ms],
            NUMBERS[value.updated_at_ms],
            array_bytes([encode_KeyUse(item) for item in x15]) if (x15 := value.keys) else b"\0",
            NUMBERS[len(x16 := value.calendars.encode())],
            x16,
            NUMBERS[len(x17 := value.concurrency_key.encode())],
            x17,
            NUMBERS[value.concurrency_weight],
        )
    )


def decode_JobState(data: bytes, at: int) -> tuple[JobState, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    status_ = _JobStatus_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_hash_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    create_hash_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    created_version_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    created_at_ms_ = number
    created_next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        created_next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    decided_to_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    occurrences_total_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    zone_data_ = WORDS[data[at : (at := at + size)]]
    open_: tuple[OpenRun, ...] = ()
    if data[at]:
        open_, at = read_array(data, at, decode_OpenRun)
    else:
        at += 1
    closed_: tuple[ClosedRun, ...] = ()
    if data[at]:
        closed_, at = read_array(data, at, decode_ClosedRun)
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_last_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    last_lease_at_ms_ = number
    next_notes_: tuple[str, ...] = ()
    if data[at]:
        next_notes_, at = read_array(data, at, read_text)
    else:
        at += 1
    next_dropped_: tuple[DroppedSlot, ...] = ()
    if data[at]:
        next_dropped_, at = read_array(data, at, decode_DroppedSlot)
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    missed_until_ms_ = number
    skip_at_ms_: tuple[int, ...] = ()
    if data[at]:
        skip_at_ms_, at = read_array(data, at, read_long)
    else:
        at += 1
    if data[at : at + 12] == b'\0' * 12:
        return JobState(job_id=job_id_, tenant=tenant_, queue=queue_, status=status_, version=version_, request_hash=request_hash_, create_hash=create_hash_, created_version=created_version_, created_at_ms=created_at_ms_, created_next_at_ms=created_next_at_ms_, next_at_ms=next_at_ms_, decided_to_ms=decided_to_ms_, occurrences_total=occurrences_total_, zone_data=zone_data_, open=open_, closed=closed_, lease_token_last=lease_token_last_, last_lease_at_ms=last_lease_at_ms_, next_notes=next_notes_, next_dropped=next_dropped_, missed_until_ms=missed_until_ms_, skip_at_ms=skip_at_ms_), at + 12
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    skips_total_ = number
    pause_: JobPause | None = None
    if (byte := data[at]) == 2:
        at += 1
        pause_, at = decode_JobPause(data, at)
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    dead_: tuple[ClosedRun, ...] = ()
    if data[at]:
        dead_, at = read_array(data, at, decode_ClosedRun)
    else:
        at += 1
    backfills_: tuple[Backfill, ...] = ()
    if data[at]:
        backfills_, at = read_array(data, at, decode_Backfill)
    else:
        at += 1
    backfills_ended_: tuple[Backfill, ...] = ()
    if data[at]:
        backfills_ended_, at = read_array(data, at, decode_Backfill)
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    forget_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    checkpoint_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    updated_at_ms_ = number
    keys_: tuple[KeyUse, ...] = ()
    if data[at]:
        keys_, at = read_array(data, at, decode_KeyUse)
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    calendars_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    concurrency_key_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    concurrency_weight_ = number
    return JobState(job_id=job_id_, tenant=tenant_, queue=queue_, status=status_, version=version_, request_hash=request_hash_, create_hash=create_hash_, created_version=created_version_, created_at_ms=created_at_ms_, created_next_at_ms=created_next_at_ms_, next_at_ms=next_at_ms_, decided_to_ms=decided_to_ms_, occurrences_total=occurrences_total_, zone_data=zone_data_, open=open_, closed=closed_, lease_token_last=lease_token_last_, last_lease_at_ms=last_lease_at_ms_, next_notes=next_notes_, next_dropped=next_dropped_, missed_until_ms=missed_until_ms_, skip_at_ms=skip_at_ms_, skips_total=skips_total_, pause=pause_, dead=dead_, backfills=backfills_, backfills_ended=backfills_ended_, forget_at_ms=forget_at_ms_, checkpoint_at_ms=checkpoint_at_ms_, updated_at_ms=updated_at_ms_, keys=keys_, calendars=calendars_, concurrency_key=concurrency_key_, concurrency_weight=concurrency_weight_), at


def encode_LedgerMarker(value: LedgerMarker) -> bytes:
    return b"".join(
        (
            NUMBERS[value.partition],
            NUMBERS[value.next_seq],
            NUMBERS[value.generation],
            TEXTS[value.member_id],
            TEXTS[value.transactional_id],
            NUMBERS[value.now_ms],
            NUMBERS[value.absent_from_ms],
            NUMBERS[value.absent_to_ms],
            NUMBERS[value.previous_marker_ms],
        )
    )


def decode_LedgerMarker(data: bytes, at: int) -> tuple[LedgerMarker, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    partition_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    next_seq_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    generation_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    member_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    transactional_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    now_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    absent_from_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    absent_to_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    previous_marker_ms_ = number
    return LedgerMarker(partition=partition_, next_seq=next_seq_, generation=generation_, member_id=member_id_, transactional_id=transactional_id_, now_ms=now_ms_, absent_from_ms=absent_from_ms_, absent_to_ms=absent_to_ms_, previous_marker_ms=previous_marker_ms_), at


def encode_Cause(value: Cause) -> bytes:
    return b"".join(
        (
            _CauseKind_WRITE[value.kind],
            NUMBERS[len(x1 := value.name.encode())],
            x1,
            TEXTS[value.topic],
            NUMBERS[value.partition],
            NUMBERS[value.offset],
            NUMBERS[value.index],
            NUMBERS[len(x2 := value.request_id.encode())],
            x2,
            TEXTS[value.gateway_id],
            NUMBERS[value.appended_at_ms],
        )
    )


def decode_Cause(data: bytes, at: int) -> tuple[Cause, int]:
    kind_ = _CauseKind_READ[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    name_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    topic_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    partition_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    offset_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    index_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    appended_at_ms_ = number
    return Cause(kind=kind_, name=name_, topic=topic_, partition=partition_, offset=offset_, index=index_, request_id=request_id_, gateway_id=gateway_id_, appended_at_ms=appended_at_ms_), at


def encode_JobDefined(value: JobDefined) -> bytes:
    return b"".join(
        (
            encode_JobDefinition(value.definition),
            NUMBERS[value.version],
            NUMBERS[len(x1 := value.request_hash.encode())],
            x1,
            NUMBERS[value.at_ms],
            b"\0" if (x2 := value.next_at_ms) is None else b"\2" + NUMBERS[x2],
            TEXTS[value.zone_data],
            NUMBERS[len(x3 := value.calendars.encode())],
            x3,
        )
    )


def decode_JobDefined(data: bytes, at: int) -> tuple[JobDefined, int]:
    definition_, at = decode_JobDefinition(data, at)
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_hash_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    zone_data_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    calendars_ = data[at : (at := at + size)].decode()
    return JobDefined(definition=definition_, version=version_, request_hash=request_hash_, at_ms=at_ms_, next_at_ms=next_at_ms_, zone_data=zone_data_, calendars=calendars_), at


def encode_JobEdited(value: JobEdited) -> bytes:
    return b"".join(
        (
            encode_JobDefinition(value.definition),
            NUMBERS[value.version],
            NUMBERS[len(x1 := value.request_hash.encode())],
            x1,
            NUMBERS[value.at_ms],
            b"\0" if (x2 := value.next_at_ms) is None else b"\2" + NUMBERS[x2],
            b"\0" if (x3 := value.previous_next_at_ms) is None else b"\2" + NUMBERS[x3],
            TEXTS[value.zone_data],
            NUMBERS[len(x4 := value.calendars.encode())],
            x4,
        )
    )


def decode_JobEdited(data: bytes, at: int) -> tuple[JobEdited, int]:
    definition_, at = decode_JobDefinition(data, at)
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_hash_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    previous_next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        previous_next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    zone_data_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    calendars_ = data[at : (at := at + size)].decode()
    return JobEdited(definition=definition_, version=version_, request_hash=request_hash_, at_ms=at_ms_, next_at_ms=next_at_ms_, previous_next_at_ms=previous_next_at_ms_, zone_data=zone_data_, calendars=calendars_), at


def encode_JobDeleted(value: JobDeleted) -> bytes:
    return b"".join(
        (
            NUMBERS[value.version],
            TEXTS[value.actor],
            NUMBERS[value.at_ms],
            NUMBERS[value.forget_at_ms],
        )
    )


def decode_JobDeleted(data: bytes, at: int) -> tuple[JobDeleted, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    forget_at_ms_ = number
    return JobDeleted(version=version_, actor=actor_, at_ms=at_ms_, forget_at_ms=forget_at_ms_), at


def encode_JobFinished(value: JobFinished) -> bytes:
    return b"".join(
        (
            NUMBERS[value.at_ms],
            NUMBERS[value.forget_at_ms],
        )
    )


def decode_JobFinished(data: bytes, at: int) -> tuple[JobFinished, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    forget_at_ms_ = number
    return JobFinished(at_ms=at_ms_, forget_at_ms=forget_at_ms_), at


def encode_JobForgotten(value: JobForgotten) -> bytes:
    return b"".join(
        (
            NUMBERS[value.at_ms],
        )
    )


def decode_JobForgotten(data: bytes, at: int) -> tuple[JobForgotten, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return JobForgotten(at_ms=at_ms_), at


def encode_JobPaused(value: JobPaused) -> bytes:
    return b"".join(
        (
            TEXTS[value.actor],
            NUMBERS[len(x1 := value.note.encode())],
            x1,
            NUMBERS[value.until_ms],
            NUMBERS[value.at_ms],
        )
    )


def decode_JobPaused(data: bytes, at: int) -> tuple[JobPaused, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    note_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return JobPaused(actor=actor_, note=note_, until_ms=until_ms_, at_ms=at_ms_), at


def encode_JobResumed(value: JobResumed) -> bytes:
    return b"".join(
        (
            TEXTS[value.actor],
            NUMBERS[len(x1 := value.note.encode())],
            x1,
            NUMBERS[value.at_ms],
            b"\0" if (x2 := value.next_at_ms) is None else b"\2" + NUMBERS[x2],
        )
    )


def decode_JobResumed(data: bytes, at: int) -> tuple[JobResumed, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    note_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    return JobResumed(actor=actor_, note=note_, at_ms=at_ms_, next_at_ms=next_at_ms_), at


def encode_RunOpened(value: RunOpened) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            _RunKind_WRITE[value.kind],
            NUMBERS[value.scheduled_at_ms],
            NUMBERS[value.due_at_ms],
            NUMBERS[value.at_ms],
            NUMBERS[value.job_version],
            TEXTS[value.lane],
            b"\0" if (x2 := value.next_at_ms) is None else b"\2" + NUMBERS[x2],
            _rest_of_RunOpened(value)
            if value.held or value.payload is not None or value.replay_of or value.replays or value.notes or value.missed or value.forced
            else b'\0\0\0\0\0\0\0',
        )
    )


def _rest_of_RunOpened(value: RunOpened) -> bytes:
    return b"".join(
        (
            b"\1" if value.held else b"\0",
            b"\0" if (x3 := value.payload) is None else b"\2" + NUMBERS[len(x4 := x3)] + x4,
            NUMBERS[len(x5 := value.replay_of.encode())],
            x5,
            NUMBERS[value.replays],
            array_bytes([TEXTS[item] for item in x6]) if (x6 := value.notes) else b"\0",
            b"\1" if value.missed else b"\0",
            b"\1" if value.forced else b"\0",
        )
    )


def decode_RunOpened(data: bytes, at: int) -> tuple[RunOpened, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    kind_ = _RunKind_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    scheduled_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    due_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    job_version_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    lane_ = WORDS[data[at : (at := at + size)]]
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if data[at : at + 7] == b'\0' * 7:
        return RunOpened(run_id=run_id_, kind=kind_, scheduled_at_ms=scheduled_at_ms_, due_at_ms=due_at_ms_, at_ms=at_ms_, job_version=job_version_, lane=lane_, next_at_ms=next_at_ms_), at + 7
    held_ = BOOLEANS[data[at]]
    at += 1
    payload_: bytes | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        payload_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    replay_of_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    replays_ = number
    notes_: tuple[str, ...] = ()
    if data[at]:
        notes_, at = read_array(data, at, read_text)
    else:
        at += 1
    missed_ = BOOLEANS[data[at]]
    at += 1
    forced_ = BOOLEANS[data[at]]
    at += 1
    return RunOpened(run_id=run_id_, kind=kind_, scheduled_at_ms=scheduled_at_ms_, due_at_ms=due_at_ms_, at_ms=at_ms_, job_version=job_version_, lane=lane_, next_at_ms=next_at_ms_, held=held_, payload=payload_, replay_of=replay_of_, replays=replays_, notes=notes_, missed=missed_, forced=forced_), at


def encode_OccurrencesSkipped(value: OccurrencesSkipped) -> bytes:
    return b"".join(
        (
            _SkipReason_WRITE[value.reason],
            NUMBERS[value.first_at_ms],
            NUMBERS[value.last_at_ms],
            NUMBERS[value.count],
            NUMBERS[value.at_ms],
            b"\0" if (x1 := value.next_at_ms) is None else b"\2" + NUMBERS[x1],
            NUMBERS[len(x2 := value.blocked_by.encode())],
            x2,
            NUMBERS[len(x3 := value.local.encode())],
            x3,
            NUMBERS[value.dropped_gap],
            NUMBERS[value.dropped_calendar],
        )
    )


def decode_OccurrencesSkipped(data: bytes, at: int) -> tuple[OccurrencesSkipped, int]:
    reason_ = _SkipReason_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    first_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    last_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    count_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    blocked_by_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    local_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    dropped_gap_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    dropped_calendar_ = number
    return OccurrencesSkipped(reason=reason_, first_at_ms=first_at_ms_, last_at_ms=last_at_ms_, count=count_, at_ms=at_ms_, next_at_ms=next_at_ms_, blocked_by=blocked_by_, local=local_, dropped_gap=dropped_gap_, dropped_calendar=dropped_calendar_), at


def encode_CursorMoved(value: CursorMoved) -> bytes:
    return b"".join(
        (
            b"\0" if (x1 := value.from_at_ms) is None else b"\2" + NUMBERS[x1],
            b"\0" if (x2 := value.to_at_ms) is None else b"\2" + NUMBERS[x2],
            NUMBERS[len(x3 := value.zone_data_from.encode())],
            x3,
            NUMBERS[len(x4 := value.zone_data_to.encode())],
            x4,
            NUMBERS[value.at_ms],
            NUMBERS[len(x5 := value.calendars_from.encode())],
            x5,
            NUMBERS[len(x6 := value.calendars_to.encode())],
            x6,
            NUMBERS[value.decided_to_ms],
        )
    )


def decode_CursorMoved(data: bytes, at: int) -> tuple[CursorMoved, int]:
    from_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        from_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    to_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        to_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    zone_data_from_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    zone_data_to_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    calendars_from_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    calendars_to_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    decided_to_ms_ = number
    return CursorMoved(from_at_ms=from_at_ms_, to_at_ms=to_at_ms_, zone_data_from=zone_data_from_, zone_data_to=zone_data_to_, at_ms=at_ms_, calendars_from=calendars_from_, calendars_to=calendars_to_, decided_to_ms=decided_to_ms_), at


def encode_CursorNoted(value: CursorNoted) -> bytes:
    return b"".join(
        (
            NUMBERS[value.next_at_ms],
            array_bytes([TEXTS[item] for item in x1]) if (x1 := value.notes) else b"\0",
            array_bytes([encode_DroppedSlot(item) for item in x2]) if (x2 := value.dropped) else b"\0",
            NUMBERS[value.at_ms],
        )
    )


def decode_CursorNoted(data: bytes, at: int) -> tuple[CursorNoted, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    next_at_ms_ = number
    notes_: tuple[str, ...] = ()
    if data[at]:
        notes_, at = read_array(data, at, read_text)
    else:
        at += 1
    dropped_: tuple[DroppedSlot, ...] = ()
    if data[at]:
        dropped_, at = read_array(data, at, decode_DroppedSlot)
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return CursorNoted(next_at_ms=next_at_ms_, notes=notes_, dropped=dropped_, at_ms=at_ms_), at


def encode_OccurrencesMissed(value: OccurrencesMissed) -> bytes:
    return b"".join(
        (
            NUMBERS[value.until_ms],
            NUMBERS[value.at_ms],
        )
    )


def decode_OccurrencesMissed(data: bytes, at: int) -> tuple[OccurrencesMissed, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return OccurrencesMissed(until_ms=until_ms_, at_ms=at_ms_), at


def encode_SlotSkipRequested(value: SlotSkipRequested) -> bytes:
    return b"".join(
        (
            NUMBERS[value.slot_at_ms],
            TEXTS[value.actor],
            NUMBERS[value.at_ms],
        )
    )


def decode_SlotSkipRequested(data: bytes, at: int) -> tuple[SlotSkipRequested, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    slot_at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return SlotSkipRequested(slot_at_ms=slot_at_ms_, actor=actor_, at_ms=at_ms_), at


def encode_LeaseGranted(value: LeaseGranted) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.attempt],
            encode_Lease(value.lease),
            NUMBERS[value.at_ms],
        )
    )


def decode_LeaseGranted(data: bytes, at: int) -> tuple[LeaseGranted, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    lease_, at = decode_Lease(data, at)
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return LeaseGranted(run_id=run_id_, attempt=attempt_, lease=lease_, at_ms=at_ms_), at


def encode_LeaseRenewed(value: LeaseRenewed) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.lease_token],
            NUMBERS[value.heartbeat_at_ms],
            NUMBERS[value.expires_at_ms],
            NUMBERS[value.at_ms],
            NUMBERS[value.visibility_ms],
        )
    )


def decode_LeaseRenewed(data: bytes, at: int) -> tuple[LeaseRenewed, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    heartbeat_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    expires_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    visibility_ms_ = number
    return LeaseRenewed(run_id=run_id_, lease_token=lease_token_, heartbeat_at_ms=heartbeat_at_ms_, expires_at_ms=expires_at_ms_, at_ms=at_ms_, visibility_ms=visibility_ms_), at


def encode_LeaseReleased(value: LeaseReleased) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.lease_token],
            TEXTS[value.reason],
            NUMBERS[value.at_ms],
        )
    )


def decode_LeaseReleased(data: bytes, at: int) -> tuple[LeaseReleased, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return LeaseReleased(run_id=run_id_, lease_token=lease_token_, reason=reason_, at_ms=at_ms_), at


def encode_LeaseExpired(value: LeaseExpired) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.lease_token],
            NUMBERS[value.attempt],
            NUMBERS[value.at_ms],
            NUMBERS[value.expires_at_ms],
            NUMBERS[value.heartbeat_at_ms],
            NUMBERS[value.takeover_at_ms],
            NUMBERS[value.consumed_to_ms],
            b"\1" if value.counted else b"\0",
            TEXTS[value.reason],
        )
    )


def decode_LeaseExpired(data: bytes, at: int) -> tuple[LeaseExpired, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    expires_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    heartbeat_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    takeover_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    consumed_to_ms_ = number
    counted_ = BOOLEANS[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    return LeaseExpired(run_id=run_id_, lease_token=lease_token_, attempt=attempt_, at_ms=at_ms_, expires_at_ms=expires_at_ms_, heartbeat_at_ms=heartbeat_at_ms_, takeover_at_ms=takeover_at_ms_, consumed_to_ms=consumed_to_ms_, counted=counted_, reason=reason_), at


def encode_RunSucceeded(value: RunSucceeded) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.lease_token],
            NUMBERS[value.attempt],
            NUMBERS[value.at_ms],
            NUMBERS[len(x2 := value.result)],
            x2,
        )
    )


def decode_RunSucceeded(data: bytes, at: int) -> tuple[RunSucceeded, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    result_ = data[at : (at := at + size)]
    return RunSucceeded(run_id=run_id_, lease_token=lease_token_, attempt=attempt_, at_ms=at_ms_, result=result_), at


def encode_RunFailed(value: RunFailed) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.lease_token],
            NUMBERS[value.attempt],
            NUMBERS[len(x2 := value.error.encode())],
            x2,
            b"\1" if value.retryable else b"\0",
            NUMBERS[value.at_ms],
        )
    )


def decode_RunFailed(data: bytes, at: int) -> tuple[RunFailed, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    error_ = data[at : (at := at + size)].decode()
    retryable_ = BOOLEANS[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return RunFailed(run_id=run_id_, lease_token=lease_token_, attempt=attempt_, error=error_, retryable=retryable_, at_ms=at_ms_), at


def encode_RunRetried(value: RunRetried) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.due_at_ms],
            NUMBERS[value.at_ms],
        )
    )


def decode_RunRetried(data: bytes, at: int) -> tuple[RunRetried, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    due_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return RunRetried(run_id=run_id_, due_at_ms=due_at_ms_, at_ms=at_ms_), at


def encode_RunDied(value: RunDied) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.attempt],
            TEXTS[value.reason],
            NUMBERS[len(x2 := value.error.encode())],
            x2,
            NUMBERS[value.at_ms],
        )
    )


def decode_RunDied(data: bytes, at: int) -> tuple[RunDied, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    error_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return RunDied(run_id=run_id_, attempt=attempt_, reason=reason_, error=error_, at_ms=at_ms_), at


def encode_RunSkipped(value: RunSkipped) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            _SkipReason_WRITE[value.reason],
            NUMBERS[value.at_ms],
            NUMBERS[len(x2 := value.blocked_by.encode())],
            x2,
        )
    )


def decode_RunSkipped(data: bytes, at: int) -> tuple[RunSkipped, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    reason_ = _SkipReason_READ[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    blocked_by_ = data[at : (at := at + size)].decode()
    return RunSkipped(run_id=run_id_, reason=reason_, at_ms=at_ms_, blocked_by=blocked_by_), at


def encode_RunCancelRequested(value: RunCancelRequested) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            TEXTS[value.actor],
            TEXTS[value.reason],
            NUMBERS[value.at_ms],
        )
    )


def decode_RunCancelRequested(data: bytes, at: int) -> tuple[RunCancelRequested, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return RunCancelRequested(run_id=run_id_, actor=actor_, reason=reason_, at_ms=at_ms_), at


def encode_RunCancelled(value: RunCancelled) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.lease_token],
            TEXTS[value.actor],
            TEXTS[value.reason],
            NUMBERS[value.at_ms],
        )
    )


def decode_RunCancelled(data: bytes, at: int) -> tuple[RunCancelled, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return RunCancelled(run_id=run_id_, lease_token=lease_token_, actor=actor_, reason=reason_, at_ms=at_ms_), at


def encode_RunUnheld(value: RunUnheld) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.at_ms],
        )
    )


def decode_RunUnheld(data: bytes, at: int) -> tuple[RunUnheld, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return RunUnheld(run_id=run_id_, at_ms=at_ms_), at


def encode_DeadRunReplayed(value: DeadRunReplayed) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[value.at_ms],
        )
    )


def decode_DeadRunReplayed(data: bytes, at: int) -> tuple[DeadRunReplayed, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return DeadRunReplayed(run_id=run_id_, at_ms=at_ms_), at


def encode_BackfillStarted(value: BackfillStarted) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.backfill_id.encode())],
            x1,
            NUMBERS[value.cursor_at_ms],
            NUMBERS[value.until_ms],
            NUMBERS[value.concurrent_runs_max],
            TEXTS[value.actor],
            NUMBERS[value.at_ms],
            NUMBERS[value.interval_ms],
            NUMBERS[value.last_at_ms],
            NUMBERS[value.runs_total],
        )
    )


def decode_BackfillStarted(data: bytes, at: int) -> tuple[BackfillStarted, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    backfill_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    cursor_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    until_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    concurrent_runs_max_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    actor_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    interval_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    last_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    runs_total_ = number
    return BackfillStarted(backfill_id=backfill_id_, cursor_at_ms=cursor_at_ms_, until_ms=until_ms_, concurrent_runs_max=concurrent_runs_max_, actor=actor_, at_ms=at_ms_, interval_ms=interval_ms_, last_at_ms=last_at_ms_, runs_total=runs_total_), at


def encode_BackfillMoved(value: BackfillMoved) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.backfill_id.encode())],
            x1,
            b"\0" if (x2 := value.cursor_at_ms) is None else b"\2" + NUMBERS[x2],
            NUMBERS[value.at_ms],
        )
    )


def decode_BackfillMoved(data: bytes, at: int) -> tuple[BackfillMoved, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    backfill_id_ = data[at : (at := at + size)].decode()
    cursor_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        cursor_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return BackfillMoved(backfill_id=backfill_id_, cursor_at_ms=cursor_at_ms_, at_ms=at_ms_), at


def encode_BackfillEnded(value: BackfillEnded) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.backfill_id.encode())],
            x1,
            TEXTS[value.reason],
            NUMBERS[value.at_ms],
        )
    )


def decode_BackfillEnded(data: bytes, at: int) -> tuple[BackfillEnded, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    backfill_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return BackfillEnded(backfill_id=backfill_id_, reason=reason_, at_ms=at_ms_), at


def encode_JobCheckpoint(value: JobCheckpoint) -> bytes:
    return b"".join(
        (
            encode_JobState(value.state),
            b"\0" if (x1 := value.definition) is None else b"\2" + encode_JobDefinition(x1),
            NUMBERS[value.at_ms],
        )
    )


def decode_JobCheckpoint(data: bytes, at: int) -> tuple[JobCheckpoint, int]:
    state_, at = decode_JobState(data, at)
    definition_: JobDefinition | None = None
    if (byte := data[at]) == 2:
        at += 1
        definition_, at = decode_JobDefinition(data, at)
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return JobCheckpoint(state=state_, definition=definition_, at_ms=at_ms_), at


def encode_KeyUsed(value: KeyUsed) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.key.encode())],
            x1,
            NUMBERS[len(x2 := value.body.encode())],
            x2,
            NUMBERS[len(x3 := value.memo)],
            x3,
            NUMBERS[value.at_ms],
        )
    )


def decode_KeyUsed(data: bytes, at: int) -> tuple[KeyUsed, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    body_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    memo_ = data[at : (at := at + size)]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return KeyUsed(key=key_, body=body_, memo=memo_, at_ms=at_ms_), at


_HISTORYRECORD_EVENTS_READ: Final[dict[int, Callable[[bytes, int], tuple[JobDefined | JobEdited | JobDeleted | JobFinished | JobForgotten | JobPaused | JobResumed | RunOpened | OccurrencesSkipped | CursorMoved | CursorNoted | OccurrencesMissed | SlotSkipRequested | LeaseGranted | LeaseRenewed | LeaseReleased | LeaseExpired | RunSucceeded | RunFailed | RunRetried | RunDied | RunSkipped | RunCancelRequested | RunCancelled | RunUnheld | DeadRunReplayed | BackfillStarted | BackfillMoved | BackfillEnded | JobCheckpoint | KeyUsed, int]]]] = {
    0: decode_JobDefined,
    2: decode_JobEdited,
    4: decode_JobDeleted,
    6: decode_JobFinished,
    8: decode_JobForgotten,
    10: decode_JobPaused,
    12: decode_JobResumed,
    14: decode_RunOpened,
    16: decode_OccurrencesSkipped,
    18: decode_CursorMoved,
    20: decode_CursorNoted,
    22: decode_OccurrencesMissed,
    24: decode_SlotSkipRequested,
    26: decode_LeaseGranted,
    28: decode_LeaseRenewed,
    30: decode_LeaseReleased,
    32: decode_LeaseExpired,
    34: decode_RunSucceeded,
    36: decode_RunFailed,
    38: decode_RunRetried,
    40: decode_RunDied,
    42: decode_RunSkipped,
    44: decode_RunCancelRequested,
    46: decode_RunCancelled,
    48: decode_RunUnheld,
    50: decode_DeadRunReplayed,
    52: decode_BackfillStarted,
    54: decode_BackfillMoved,
    56: decode_BackfillEnded,
    58: decode_JobCheckpoint,
    60: decode_KeyUsed,
}
_HISTORYRECORD_EVENTS_WRITE: Final[dict[type, tuple[bytes, Callable[..., bytes]]]] = {
    JobDefined: (b'\x00', encode_JobDefined),
    JobEdited: (b'\x02', encode_JobEdited),
    JobDeleted: (b'\x04', encode_JobDeleted),
    JobFinished: (b'\x06', encode_JobFinished),
    JobForgotten: (b'\x08', encode_JobForgotten),
    JobPaused: (b'\x0a', encode_JobPaused),
    JobResumed: (b'\x0c', encode_JobResumed),
    RunOpened: (b'\x0e', encode_RunOpened),
    OccurrencesSkipped: (b'\x10', encode_OccurrencesSkipped),
    CursorMoved: (b'\x12', encode_CursorMoved),
    CursorNoted: (b'\x14', encode_CursorNoted),
    OccurrencesMissed: (b'\x16', encode_OccurrencesMissed),
    SlotSkipRequested: (b'\x18', encode_SlotSkipRequested),
    LeaseGranted: (b'\x1a', encode_LeaseGranted),
    LeaseRenewed: (b'\x1c', encode_LeaseRenewed),
    LeaseReleased: (b'\x1e', encode_LeaseReleased),
    LeaseExpired: (b'\x20', encode_LeaseExpired),
    RunSucceeded: (b'\x22', encode_RunSucceeded),
    RunFailed: (b'\x24', encode_RunFailed),
    RunRetried: (b'\x26', encode_RunRetried),
    RunDied: (b'\x28', encode_RunDied),
    RunSkipped: (b'\x2a', encode_RunSkipped),
    RunCancelRequested: (b'\x2c', encode_RunCancelRequested),
    RunCancelled: (b'\x2e', encode_RunCancelled),
    RunUnheld: (b'\x30', encode_RunUnheld),
    DeadRunReplayed: (b'\x32', encode_DeadRunReplayed),
    BackfillStarted: (b'\x34', encode_BackfillStarted),
    BackfillMoved: (b'\x36', encode_BackfillMoved),
    BackfillEnded: (b'\x38', encode_BackfillEnded),
    JobCheckpoint: (b'\x3a', encode_JobCheckpoint),
    KeyUsed: (b'\x3c', encode_KeyUsed),
}


def _write_HISTORYRECORD_EVENTS(value: JobDefined | JobEdited | JobDeleted | JobFinished | JobForgotten | JobPaused | JobResumed | RunOpened | OccurrencesSkipped | CursorMoved | CursorNoted | OccurrencesMissed | SlotSkipRequested | LeaseGranted | LeaseRenewed | LeaseReleased | LeaseExpired | RunSucceeded | RunFailed | RunRetried | RunDied | RunSkipped | RunCancelRequested | RunCancelled | RunUnheld | DeadRunReplayed | BackfillStarted | BackfillMoved | BackfillEnded | JobCheckpoint | KeyUsed) -> bytes:
    branch, encode = _HISTORYRECORD_EVENTS_WRITE[type(value)]
    return branch + encode(value)


def _read_HISTORYRECORD_EVENTS(data: bytes, at: int) -> tuple[JobDefined | JobEdited | JobDeleted | JobFinished | JobForgotten | JobPaused | JobResumed | RunOpened | OccurrencesSkipped | CursorMoved | CursorNoted | OccurrencesMissed | SlotSkipRequested | LeaseGranted | LeaseRenewed | LeaseReleased | LeaseExpired | RunSucceeded | RunFailed | RunRetried | RunDied | RunSkipped | RunCancelRequested | RunCancelled | RunUnheld | DeadRunReplayed | BackfillStarted | BackfillMoved | BackfillEnded | JobCheckpoint | KeyUsed, int]:
    return _HISTORYRECORD_EVENTS_READ[data[at]](data, at + 1)


def encode_HistoryRecord(value: HistoryRecord) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[value.partition],
            NUMBERS[value.seq],
            NUMBERS[value.generation],
            TEXTS[value.member_id],
            TEXTS[value.transactional_id],
            NUMBERS[value.now_ms],
            encode_Cause(value.cause),
            NUMBERS[value.config_offset],
            TEXTS[value.zone_data],
            array_bytes([_write_HISTORYRECORD_EVENTS(item) for item in x2]) if (x2 := value.events) else b"\0",
        )
    )


def decode_HistoryRecord(data: bytes, at: int) -> tuple[HistoryRecord, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    partition_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    seq_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    generation_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    member_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    transactional_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    now_ms_ = number
    cause_, at = decode_Cause(data, at)
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    config_offset_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    zone_data_ = WORDS[data[at : (at := at + size)]]
    events_: tuple[JobDefined | JobEdited | JobDeleted | JobFinished | JobForgotten | JobPaused | JobResumed | RunOpened | OccurrencesSkipped | CursorMoved | CursorNoted | OccurrencesMissed | SlotSkipRequested | LeaseGranted | LeaseRenewed | LeaseReleased | LeaseExpired | RunSucceeded | RunFailed | RunRetried | RunDied | RunSkipped | RunCancelRequested | RunCancelled | RunUnheld | DeadRunReplayed | BackfillStarted | BackfillMoved | BackfillEnded | JobCheckpoint | KeyUsed, ...] = ()
    if data[at]:
        events_, at = read_array(data, at, _read_HISTORYRECORD_EVENTS)
    else:
        at += 1
    return HistoryRecord(job_id=job_id_, partition=partition_, seq=seq_, generation=generation_, member_id=member_id_, transactional_id=transactional_id_, now_ms=now_ms_, cause=cause_, config_offset=config_offset_, zone_data=zone_data_, events=events_), at


def encode_LeaseView(value: LeaseView) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[len(x2 := value.job_id.encode())],
            x2,
            TEXTS[value.tenant],
            TEXTS[value.queue],
            NUMBERS[value.lease_token],
            NUMBERS[value.attempt],
            TEXTS[value.worker_id],
            TEXTS[value.gateway_id],
            NUMBERS[value.granted_at_ms],
            NUMBERS[value.expires_at_ms],
            _rest_of_LeaseView(value)
            if value.closed is not None or value.closed_at_ms or value.outcome is not None
            else b'\0\0\0',
        )
    )


def _rest_of_LeaseView(value: LeaseView) -> bytes:
    return b"".join(
        (
            b"\0" if (x3 := value.closed) is None else b"\2" + _LeaseClose_WRITE[x3],
            NUMBERS[value.closed_at_ms],
            b"\0" if (x4 := value.outcome) is None else b"\2" + _RunOutcome_WRITE[x4],
        )
    )


def decode_LeaseView(data: bytes, at: int) -> tuple[LeaseView, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    worker_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    granted_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    expires_at_ms_ = number
    if data[at : at + 3] == b'\0' * 3:
        return LeaseView(run_id=run_id_, job_id=job_id_, tenant=tenant_, queue=queue_, lease_token=lease_token_, attempt=attempt_, worker_id=worker_id_, gateway_id=gateway_id_, granted_at_ms=granted_at_ms_, expires_at_ms=expires_at_ms_), at + 3
    closed_: Literal['succeeded', 'failed', 'released', 'expired', 'cancelled'] | None = None
    if (byte := data[at]) == 2:
        at += 1
        closed_ = _LeaseClose_READ[data[at]]
        at += 1
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    closed_at_ms_ = number
    outcome_: Literal['succeeded', 'skipped', 'cancelled', 'dead'] | None = None
    if (byte := data[at]) == 2:
        at += 1
        outcome_ = _RunOutcome_READ[data[at]]
        at += 1
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    return LeaseView(run_id=run_id_, job_id=job_id_, tenant=tenant_, queue=queue_, lease_token=lease_token_, attempt=attempt_, worker_id=worker_id_, gateway_id=gateway_id_, granted_at_ms=granted_at_ms_, expires_at_ms=expires_at_ms_, closed=closed_, closed_at_ms=closed_at_ms_, outcome=outcome_), at


def encode_Reply(value: Reply) -> bytes:
    return b"".join(
        (
            _ReplyCode_WRITE[value.code],
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.run_id.encode())],
            x2,
            NUMBERS[value.version],
            b"\0" if (x3 := value.next_at_ms) is None else b"\2" + NUMBERS[x3],
            NUMBERS[value.attempt],
            NUMBERS[value.lease_token],
            NUMBERS[value.expires_at_ms],
            _rest_of_Reply(value)
            if value.field or value.detail or value.cancel or value.blocked_by or value.outcome or value.replayed or value.count or value.warnings
            else b'\0\0\0\0\0\0\0\0',
        )
    )


def _rest_of_Reply(value: Reply) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x4 := value.field.encode())],
            x4,
            NUMBERS[len(x5 := value.detail.encode())],
            x5,
            b"\1" if value.cancel else b"\0",
            NUMBERS[len(x6 := value.blocked_by.encode())],
            x6,
            NUMBERS[len(x7 := value.outcome.encode())],
            x7,
            b"\1" if value.replayed else b"\0",
            NUMBERS[value.count],
            array_bytes([TEXTS[item] for item in x8]) if (x8 := value.warnings) else b"\0",
        )
    )


def decode_Reply(data: bytes, at: int) -> tuple[Reply, int]:
    code_ = _ReplyCode_READ[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    version_ = number
    next_at_ms_: int | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (number := SMALL[data[at]]) is not None:
            at += 1
        elif (number := INSTANTS[data[at : at + 6]]) is not None:
            at += 6
        else:
            number, at = read_long(data, at)
        next_at_ms_ = number
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    expires_at_ms_ = number
    if data[at : at + 8] == b'\0' * 8:
        return Reply(code=code_, job_id=job_id_, run_id=run_id_, version=version_, next_at_ms=next_at_ms_, attempt=attempt_, lease_token=lease_token_, expires_at_ms=expires_at_ms_), at + 8
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    field_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    detail_ = data[at : (at := at + size)].decode()
    cancel_ = BOOLEANS[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    blocked_by_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    outcome_ = data[at : (at := at + size)].decode()
    replayed_ = BOOLEANS[data[at]]
    at += 1
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    count_ = number
    warnings_: tuple[str, ...] = ()
    if data[at]:
        warnings_, at = read_array(data, at, read_text)
    else:
        at += 1
    return Reply(code=code_, job_id=job_id_, run_id=run_id_, version=version_, next_at_ms=next_at_ms_, attempt=attempt_, lease_token=lease_token_, expires_at_ms=expires_at_ms_, field=field_, detail=detail_, cancel=cancel_, blocked_by=blocked_by_, outcome=outcome_, replayed=replayed_, count=count_, warnings=warnings_), at


def encode_Grant(value: Grant) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.job_id.encode())],
            x1,
            NUMBERS[len(x2 := value.run_id.encode())],
            x2,
            TEXTS[value.task],
            TEXTS[value.tenant],
            TEXTS[value.queue],
            TEXTS[value.lane],
            TEXTS[value.worker_id],
            TEXTS[value.gateway_id],
            NUMBERS[value.attempt],
            NUMBERS[value.lease_token],
            NUMBERS[value.scheduled_at_ms],
            NUMBERS[value.due_at_ms],
            NUMBERS[value.granted_at_ms],
            NUMBERS[value.expires_at_ms],
            NUMBERS[value.visibility_ms],
            NUMBERS[value.timeout_ms],
            NUMBERS[value.max_attempts],
            NUMBERS[len(x3 := value.payload)],
            x3,
            TEXTS[value.content_type],
            NUMBERS[value.job_version],
        )
    )


def decode_Grant(data: bytes, at: int) -> tuple[Grant, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    task_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    lane_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    worker_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    attempt_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    lease_token_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    scheduled_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    due_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    granted_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    expires_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    visibility_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := DURATIONS[data[at : at + 3]]) is not None:
        at += 3
    else:
        number, at = read_long(data, at)
    timeout_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    max_attempts_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    payload_ = data[at : (at := at + size)]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    content_type_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    job_version_ = number
    return Grant(job_id=job_id_, run_id=run_id_, task=task_, tenant=tenant_, queue=queue_, lane=lane_, worker_id=worker_id_, gateway_id=gateway_id_, attempt=attempt_, lease_token=lease_token_, scheduled_at_ms=scheduled_at_ms_, due_at_ms=due_at_ms_, granted_at_ms=granted_at_ms_, expires_at_ms=expires_at_ms_, visibility_ms=visibility_ms_, timeout_ms=timeout_ms_, max_attempts=max_attempts_, payload=payload_, content_type=content_type_, job_version=job_version_), at


_ANSWER_REPLY_READ: Final[dict[int, Callable[[bytes, int], tuple[Reply | Grant, int]]]] = {
    0: decode_Reply,
    2: decode_Grant,
}
_ANSWER_REPLY_WRITE: Final[dict[type, tuple[bytes, Callable[..., bytes]]]] = {
    Reply: (b'\x00', encode_Reply),
    Grant: (b'\x02', encode_Grant),
}


def _write_ANSWER_REPLY(value: Reply | Grant) -> bytes:
    branch, encode = _ANSWER_REPLY_WRITE[type(value)]
    return branch + encode(value)


def _read_ANSWER_REPLY(data: bytes, at: int) -> tuple[Reply | Grant, int]:
    return _ANSWER_REPLY_READ[data[at]](data, at + 1)


def encode_Answer(value: Answer) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.request_id.encode())],
            x1,
            _write_ANSWER_REPLY(value.reply),
        )
    )


def decode_Answer(data: bytes, at: int) -> tuple[Answer, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    request_id_ = data[at : (at := at + size)].decode()
    reply_, at = _read_ANSWER_REPLY(data, at)
    return Answer(request_id=request_id_, reply=reply_), at


def encode_ReplyBatch(value: ReplyBatch) -> bytes:
    return b"".join(
        (
            TEXTS[value.gateway_id],
            array_bytes([encode_Answer(item) for item in x1]) if (x1 := value.answers) else b"\0",
        )
    )


def decode_ReplyBatch(data: bytes, at: int) -> tuple[ReplyBatch, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    answers_: tuple[Answer, ...] = ()
    if data[at]:
        answers_, at = read_array(data, at, decode_Answer)
    else:
        at += 1
    return ReplyBatch(gateway_id=gateway_id_, answers=answers_), at


def encode_QueueDemand(value: QueueDemand) -> bytes:
    return b"".join(
        (
            TEXTS[value.tenant],
            TEXTS[value.queue],
            NUMBERS[value.slots],
            NUMBERS[value.calls],
        )
    )


def decode_QueueDemand(data: bytes, at: int) -> tuple[QueueDemand, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    slots_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    calls_ = number
    return QueueDemand(tenant=tenant_, queue=queue_, slots=slots_, calls=calls_), at


def encode_Demand(value: Demand) -> bytes:
    return b"".join(
        (
            TEXTS[value.gateway_id],
            TEXTS[value.incarnation],
            NUMBERS[value.sent_at_ms],
            array_bytes([encode_QueueDemand(item) for item in x1]) if (x1 := value.queues) else b"\0",
        )
    )


def decode_Demand(data: bytes, at: int) -> tuple[Demand, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    incarnation_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    sent_at_ms_ = number
    queues_: tuple[QueueDemand, ...] = ()
    if data[at]:
        queues_, at = read_array(data, at, decode_QueueDemand)
    else:
        at += 1
    return Demand(gateway_id=gateway_id_, incarnation=incarnation_, sent_at_ms=sent_at_ms_, queues=queues_), at


def encode_Offer(value: Offer) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.run_id.encode())],
            x1,
            NUMBERS[len(x2 := value.job_id.encode())],
            x2,
            TEXTS[value.tenant],
            TEXTS[value.queue],
            TEXTS[value.lane],
            NUMBERS[value.due_at_ms],
            NUMBERS[value.job_version],
        )
    )


def decode_Offer(data: bytes, at: int) -> tuple[Offer, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    run_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    job_id_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    lane_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    due_at_ms_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    job_version_ = number
    return Offer(run_id=run_id_, job_id=job_id_, tenant=tenant_, queue=queue_, lane=lane_, due_at_ms=due_at_ms_, job_version=job_version_), at


def encode_Offers(value: Offers) -> bytes:
    return b"".join(
        (
            TEXTS[value.gateway_id],
            TEXTS[value.incarnation],
            NUMBERS[value.partition],
            array_bytes([encode_Offer(item) for item in x1]) if (x1 := value.offers) else b"\0",
        )
    )


def decode_Offers(data: bytes, at: int) -> tuple[Offers, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    gateway_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    incarnation_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    partition_ = number
    offers_: tuple[Offer, ...] = ()
    if data[at]:
        offers_, at = read_array(data, at, decode_Offer)
    else:
        at += 1
    return Offers(gateway_id=gateway_id_, incarnation=incarnation_, partition=partition_, offers=offers_), at


def encode_TenantPending(value: TenantPending) -> bytes:
    return b"".join(
        (
            TEXTS[value.tenant],
            NUMBERS[value.pending],
        )
    )


def decode_TenantPending(data: bytes, at: int) -> tuple[TenantPending, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    pending_ = number
    return TenantPending(tenant=tenant_, pending=pending_), at


def encode_QueueRunning(value: QueueRunning) -> bytes:
    return b"".join(
        (
            TEXTS[value.tenant],
            TEXTS[value.queue],
            NUMBERS[value.running],
            b"\1" if value.waiting else b"\0",
        )
    )


def decode_QueueRunning(data: bytes, at: int) -> tuple[QueueRunning, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    queue_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    running_ = number
    waiting_ = BOOLEANS[data[at]]
    at += 1
    return QueueRunning(tenant=tenant_, queue=queue_, running=running_, waiting=waiting_), at


def encode_KeyRunning(value: KeyRunning) -> bytes:
    return b"".join(
        (
            TEXTS[value.tenant],
            NUMBERS[len(x1 := value.key.encode())],
            x1,
            NUMBERS[value.units],
            NUMBERS[value.weight],
        )
    )


def decode_KeyRunning(data: bytes, at: int) -> tuple[KeyRunning, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    tenant_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    key_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    units_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    weight_ = number
    return KeyRunning(tenant=tenant_, key=key_, units=units_, weight=weight_), at


def encode_OwnerView(value: OwnerView) -> bytes:
    return b"".join(
        (
            NUMBERS[value.partition],
            NUMBERS[value.generation],
            TEXTS[value.member_id],
            TEXTS[value.transactional_id],
            NUMBERS[len(x1 := value.query_url.encode())],
            x1,
            NUMBERS[value.since_ms],
            array_bytes([encode_TenantPending(item) for item in x2]) if (x2 := value.pending) else b"\0",
            array_bytes([encode_QueueRunning(item) for item in x3]) if (x3 := value.running) else b"\0",
            array_bytes([encode_KeyRunning(item) for item in x4]) if (x4 := value.keys) else b"\0",
        )
    )


def decode_OwnerView(data: bytes, at: int) -> tuple[OwnerView, int]:
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    partition_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    generation_ = number
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    member_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    transactional_id_ = WORDS[data[at : (at := at + size)]]
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    query_url_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    since_ms_ = number
    pending_: tuple[TenantPending, ...] = ()
    if data[at]:
        pending_, at = read_array(data, at, decode_TenantPending)
    else:
        at += 1
    running_: tuple[QueueRunning, ...] = ()
    if data[at]:
        running_, at = read_array(data, at, decode_QueueRunning)
    else:
        at += 1
    keys_: tuple[KeyRunning, ...] = ()
    if data[at]:
        keys_, at = read_array(data, at, decode_KeyRunning)
    else:
        at += 1
    return OwnerView(partition=partition_, generation=generation_, member_id=member_id_, transactional_id=transactional_id_, query_url=query_url_, since_ms=since_ms_, pending=pending_, running=running_, keys=keys_), at


def encode_DeadLetter(value: DeadLetter) -> bytes:
    return b"".join(
        (
            NUMBERS[len(x1 := value.source_topic.encode())],
            x1,
            NUMBERS[value.source_partition],
            NUMBERS[value.source_offset],
            NUMBERS[value.index],
            b"\0" if (x2 := value.key) is None else b"\2" + NUMBERS[len(x3 := x2)] + x3,
            b"\0" if (x4 := value.value) is None else b"\2" + NUMBERS[len(x5 := x4)] + x5,
            _DeadLetterCode_WRITE[value.code],
            NUMBERS[len(x6 := value.field.encode())],
            x6,
            TEXTS[value.reason],
            NUMBERS[value.at_ms],
        )
    )


def decode_DeadLetter(data: bytes, at: int) -> tuple[DeadLetter, int]:
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    source_topic_ = data[at : (at := at + size)].decode()
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    source_partition_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    source_offset_ = number
    if (number := SMALL[data[at]]) is not None:
        at += 1
    else:
        number, at = read_long(data, at)
    index_ = number
    key_: bytes | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        key_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    value_: bytes | None = None
    if (byte := data[at]) == 2:
        at += 1
        if (size := data[at]) & 129:
            size, at = read_length(data, at)
        else:
            size >>= 1
            at += 1
        value_ = data[at : (at := at + size)]
    elif byte:
        raise ValueError("a union has no such branch")
    else:
        at += 1
    code_ = _DeadLetterCode_READ[data[at]]
    at += 1
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    field_ = data[at : (at := at + size)].decode()
    if (size := data[at]) & 129:
        size, at = read_length(data, at)
    else:
        size >>= 1
        at += 1
    reason_ = WORDS[data[at : (at := at + size)]]
    if (number := SMALL[data[at]]) is not None:
        at += 1
    elif (number := INSTANTS[data[at : at + 6]]) is not None:
        at += 6
    else:
        number, at = read_long(data, at)
    at_ms_ = number
    return DeadLetter(source_topic=source_topic_, source_partition=source_partition_, source_offset=source_offset_, index=index_, key=key_, value=value_, code=code_, field=field_, reason=reason_, at_ms=at_ms_), at
