"""Kubernetes CronJobs (batch/v1) to jobs. Pure: documents in, jobs and remarks out.

Kubernetes reads schedules with the Go library robfig/cron (standard parser; its differences are in `cron_text`). That
library knows no rule for clock changes: a time in a skipped hour does not come, one in a repeated hour comes twice.
The whole job template is the payload, so nothing of it is lost; what the scheduler itself has to know becomes fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horolog._cli.documents import Document
from horolog._cli.importers.cron_text import ROBFIG, UTC_NAMES, read_cron
from horolog._cli.importers.remarks import NotTranslatableError, Translation
from horolog._wire import PAYLOAD_BYTES_MAX, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TASK = "kubernetes-job"
NAMESPACE_LABEL = "kubernetes/namespace"
# Bounds of docs/http-api.md; one label is kept free for the owner.
_LABELS_MAX = 15
_LABEL_NAME_MAX = 64
_LABEL_VALUE_MAX = 256
_ATTEMPTS_MAX = 100
_TIMEOUT_SECONDS_MAX = 604_800
_DEADLINE_SECONDS_MAX = 31_536_000
_EVERY_MS_MIN = 1_000
_EVERY_MS_MAX = 366 * 86_400_000
_BACKOFF_LIMIT = 6  # Kubernetes' default
_BACKOFF_SECONDS = 10  # its first wait; it doubles up to six minutes
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*")
_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S*)\s+(.*)", re.DOTALL)
_DURATION = re.compile(r"([0-9]+)(h|ms|m|s)")
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_ALIASES = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_OVERLAPS = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # a copy of the manifest itself
_HISTORY = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_TEMPLATE_ONLY = (
    "parallelism",
    "completions",
    "completionMode",
    "podFailurePolicy",
    "podReplacementPolicy",
    "successPolicy",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
    "suspend",
)


@dataclass(frozen=True)
class KubernetesOptions:
    """How CronJobs are read. `zone` is for those without timeZone; None: nobody named one."""

    zone: str | None = None
    queue: str = "default"
    task: str = TASK


def translate_cronjobs(documents: Iterable[Document], options: KubernetesOptions) -> Translation:
    """Translate the CronJobs of a file; `line` of a remark is where its document begins."""
    result = Translation()
    seen: set[str] = set()
    for document in documents:
        for place, value in _objects(document.value):
            if not isinstance(value, dict):
                result.fail(document.line, f"{place}is no Kubernetes object")
            elif value.get("kind") != "CronJob":
                result.leave_out(document.line, f"{place}{_named(value)}: only CronJobs are translated")
            else:
                _translate(result, seen, Document(document.line, value), place, options)
    if result.jobs:
        _about_the_file(result, options)
    return result


def _translate(result: Translation, seen: set[str], document: Document, place: str, options: KubernetesOptions) -> None:
    named = f"{place}{_named(document.value)}"
    try:
        job, notes = _CronJob(document.value, options).translate()
    except NotTranslatableError as error:
        result.fail(document.line, f"{named}: {error}")
        return
    if job["jobId"] in seen:
        result.fail(document.line, f"{named}: {job['jobId']} comes twice")
        return
    seen.add(job["jobId"])
    result.jobs.append(job)
    for note in notes:
        result.note(document.line, f"{named}: {note}")


def _about_the_file(result: Translation, options: KubernetesOptions) -> None:
    result.note(
        0,
        f"the job template is the payload; a worker with a handler {options.task!r} has to run it (docs/migrating.md)",
    )
    result.note(
        0,
        f"retries: Kubernetes waits {_BACKOFF_SECONDS} s, doubled up to 6 min; here a random time of at least "
        f"{_BACKOFF_SECONDS} s within min(600, 2^attempt) s. Missed starts: the latest one runs (catchUp: latest)",
    )


def _objects(value: Any) -> Iterable[tuple[str, Any]]:
    """Give the objects of a document: itself, or the items of a List; with the words that name their place."""
    if value is None:
        return
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List"):
        if not isinstance(items, list):
            yield "items: must be a list; this ", None
            return
        for index, item in enumerate(items):
            yield f"item {index + 1}: ", _with_kind(item, str(value["kind"]))
        return
    yield "", value


def _with_kind(item: Any, list_kind: str) -> Any:
    """Items of a CronJobList may leave their kind to the list."""
    if list_kind == "CronJobList" and isinstance(item, dict) and "kind" not in item:
        return {**item, "kind": "CronJob"}
    return item


def _named(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name", "without a name"))[:80]
    namespace = metadata.get("namespace")
    return f"{str(value.get('kind', 'object'))[:40]} {f'{namespace}/' if namespace else ''}{name}"


class _CronJob:
    """One CronJob, while it is read."""

    def __init__(self, value: Mapping[str, Any], options: KubernetesOptions) -> None:
        self._options = options
        self._notes: list[str] = []
        self._value = value
        self._metadata = _object(value, "metadata", "")
        self._spec = _object(value, "spec", "")
        self._template = _object(self._spec, "jobTemplate", "spec.")
        self._job = _object(self._template, "spec", "spec.jobTemplate.")

    def translate(self) -> tuple[dict[str, Any], list[str]]:
        """Give the job and its notes. Raises NotTranslatableError."""
        name, namespace = self._name("name"), self._name("namespace")
        if name is None:
            message = "metadata.name is missing (generateName does not do: a job needs the same id each time)"
            raise NotTranslatableError(message)
        version = self._value.get("apiVersion")
        if version not in {"batch/v1", None}:  # a CronJobList says it for its items
            self._notes.append(f"apiVersion {str(version)[:40]!r}: read as batch/v1")
        job: dict[str, Any] = {
            "jobId": name if namespace is None else f"{namespace}.{name}",
            "name": name,
            "queue": self._options.queue,
            "task": self._options.task,
            "schedule": self._schedule(),
            "payload": self._payload(name, namespace),
            "retry": self._retry(),
            "overlap": self._overlap(),
        }
        self._limits(job)
        labels = self._labels(namespace)
        if labels:
            job["labels"] = labels
        suspend = self._spec.get("suspend")
        if suspend is not None and not isinstance(suspend, bool):
            message = "spec.suspend: must be true or false"
            raise NotTranslatableError(message)
        if suspend:
            job["paused"] = True
            self._notes.append(
                "suspend: the job is paused from its first moment on; occurrences of a pause are not missed ones, "
                "where Kubernetes starts the latest on resume unless startingDeadlineSeconds has passed"
            )
        self._not_translated()
        return job, self._notes

    def _name(self, field: str) -> str | None:
        name = self._metadata.get(field)
        if name is None:
            return None
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            message = f"metadata.{field}: {str(name)[:60]!r} is no name of Kubernetes"
            raise NotTranslatableError(message)
        return name

    def _payload(self, name: str, namespace: str | None) -> dict[str, Any]:
        payload = {"cronJob": name, "namespace": namespace, "jobTemplate": self._template}
        size = len(to_json(payload).encode("utf-8", "surrogatepass"))
        if size > PAYLOAD_BYTES_MAX:
            message = (
                f"the job template has {size} bytes, at most {PAYLOAD_BYTES_MAX}; move files and scripts out of it"
            )
            raise NotTranslatableError(message)
        return payload

    # --- when ---

    def _schedule(self) -> dict[str, Any]:
        text = self._spec.get("schedule")
        if not isinstance(text, str) or not text.strip():
            message = 'spec.schedule: must be a text such as "0 3 * * *"'
            raise NotTranslatableError(message)
        text, zone = self._zone(text.strip())
        if text.startswith("@every"):
            return {"every": self._every(text)}
        if text.startswith("@"):
            if text not in _ALIASES:
                message = f"spec.schedule: {text[:40]} is not one of {', '.join(sorted(_ALIASES))}, @every"
                raise NotTranslatableError(message)
            expression, fixed = text, text != "@hourly"
        else:
            cron = read_cron(text.split(), ROBFIG, lambda note: self._notes.append(f"schedule: {note}"))
            if cron.never:
                message = f"spec.schedule: {text}: no such day exists; Kubernetes never runs it either. Remove it"
                raise NotTranslatableError(message)
            expression, fixed = cron.expression, cron.fixed
        if fixed and zone not in UTC_NAMES:
            self._notes.append(
                "schedule: Kubernetes leaves out a time in a skipped hour and runs one in a repeated hour twice; here "
                "it runs once in both (R2); `gap: skip` and `overlapHour: both` in the schedule keep Kubernetes' way"
            )
        return {"cron": expression, "timeZone": zone}

    def _zone(self, text: str) -> tuple[str, str]:
        """Give the schedule without a zone of its own, and the zone."""
        zone = self._spec.get("timeZone")
        prefix = _PREFIX.fullmatch(text)
        if prefix is not None:
            if zone is not None:
                message = "spec.schedule has a zone of its own beside spec.timeZone; keep spec.timeZone"
                raise NotTranslatableError(message)
            self._notes.append(
                f"schedule: {text.partition('=')[0]}= in the schedule is refused by Kubernetes now; it became timeZone"
            )
            zone, text = prefix[1], prefix[2].strip()
        elif zone is None:
            zone = self._options.zone
            taken = "UTC, which most clusters have, is taken; give --zone ZONE" if zone is None else f"{zone} is taken"
            self._notes.append(f"timeZone: none, so kube-controller-manager's zone counts: {taken}")
            zone = zone or "UTC"
        if not isinstance(zone, str) or zone == "Local" or _ZONE.fullmatch(zone) is None:
            message = f"spec.timeZone: {str(zone)[:60]!r} is no IANA time zone"
            raise NotTranslatableError(message)
        return text, zone

    def _every(self, text: str) -> str:
        length = text.removeprefix("@every").strip()
        parts = _DURATION.findall(length)
        if not parts or "".join(number + unit for number, unit in parts) != length or len(length) > 40:
            message = f"spec.schedule: {text[:40]}: write whole hours, minutes and seconds, such as @every 1h30m"
            raise NotTranslatableError(message)
        every_ms = sum(int(number) * _UNIT_MS[unit] for number, unit in parts)
        if not _EVERY_MS_MIN <= every_ms <= _EVERY_MS_MAX:
            message = f"spec.schedule: {text[:40]}: write 1 s to 366 d"
            raise NotTranslatableError(message)
        self._notes.append(
            "schedule: @every counts from the last start in Kubernetes; here from 1970-01-01T00:00Z (set `anchor`)"
        )
        return length

    # --- how ---

    def _overlap(self) -> str:
        policy = self._spec.get("concurrencyPolicy") or "Allow"
        if not isinstance(policy, str) or policy not in _OVERLAPS:
            message = f"spec.concurrencyPolicy: {str(policy)[:40]!r} is not one of {', '.join(_OVERLAPS)}"
            raise NotTranslatableError(message)
        if policy == "Forbid":
            self._notes.append(
                "concurrencyPolicy Forbid: overlap skip records the occurrence as skipped; Kubernetes may still start "
                "it when the running one ends, which `overlap: queue` does"
            )
        if policy == "Replace":
            self._notes.append(
                "concurrencyPolicy Replace: overlap replace asks the old run to stop through its worker's heartbeat; "
                "Kubernetes deletes the old Job with its pods"
            )
        return _OVERLAPS[policy]

    def _retry(self) -> dict[str, Any]:
        limit = _whole(self._job, "backoffLimit", "spec.jobTemplate.spec.", 0)
        attempts = (_BACKOFF_LIMIT if limit is None else limit) + 1
        if attempts > _ATTEMPTS_MAX:
            self._notes.append(f"backoffLimit {limit}: {_ATTEMPTS_MAX} attempts are the most here")
            attempts = _ATTEMPTS_MAX
        return {"maxAttempts": attempts, "baseSeconds": _BACKOFF_SECONDS}

    def _limits(self, job: dict[str, Any]) -> None:
        timeout = _whole(self._job, "activeDeadlineSeconds", "spec.jobTemplate.spec.", 1)
        if timeout is not None:
            job["timeoutSeconds"] = min(timeout, _TIMEOUT_SECONDS_MAX)
            cut = f" (cut to {_TIMEOUT_SECONDS_MAX}, the most here)" if timeout > _TIMEOUT_SECONDS_MAX else ""
            self._notes.append(
                f"activeDeadlineSeconds: timeoutSeconds bounds each attempt{cut}; Kubernetes bounds the Job with all "
                "its retries and then does not retry"
            )
        deadline = _whole(self._spec, "startingDeadlineSeconds", "spec.", 0)
        if deadline is not None:
            job["startDeadlineSeconds"] = min(max(deadline, 1), _DEADLINE_SECONDS_MAX)
            if job["startDeadlineSeconds"] != deadline:
                self._notes.append(
                    f"startingDeadlineSeconds {deadline}: {job['startDeadlineSeconds']} is the nearest that is possible"
                )

    def _labels(self, namespace: str | None) -> dict[str, str]:
        given = _object(self._metadata, "labels", "metadata.", optional=True)
        labels = {} if namespace is None else {NAMESPACE_LABEL: namespace}
        dropped = []
        for name in sorted(given):
            value = given[name]
            fits = isinstance(value, str) and len(name) <= _LABEL_NAME_MAX and len(value) <= _LABEL_VALUE_MAX
            if fits and len(labels) < _LABELS_MAX:
                labels[name] = value
            else:
                dropped.append(str(name)[:80])
        if dropped:
            self._notes.append(
                f"labels not translated: {', '.join(dropped)} (texts; at most {_LABELS_MAX}, with names of "
                f"{_LABEL_NAME_MAX} characters)"
            )
        return labels

    def _not_translated(self) -> None:
        history = [name for name in _HISTORY if name in self._spec]
        if history:
            self._notes.append(f"not translated: {', '.join(history)} (runs stay in topic history by its retention)")
        annotations = _object(self._metadata, "annotations", "metadata.", optional=True)
        names = sorted(str(name)[:80] for name in annotations if name != _APPLIED)
        if names:
            self._notes.append(f"annotations not translated: {', '.join(names)}")
        kept = [name for name in _TEMPLATE_ONLY if name in self._job]
        if kept:
            self._notes.append(f"only in payload.jobTemplate, for the worker to respect: {', '.join(kept)}")
        known = {"schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds", "jobTemplate"}
        unknown = sorted(str(name)[:40] for name in set(self._spec) - known - set(_HISTORY))
        if unknown:
            self._notes.append(f"not translated, not known: spec.{', spec.'.join(unknown)}")


def _object(parent: Mapping[str, Any], name: str, path: str, *, optional: bool = False) -> dict[str, Any]:
    value = parent.get(name)
    if value is None and optional:
        return {}
    if not isinstance(value, dict):
        message = f"{path}{name}: is missing" if value is None else f"{path}{name}: must be an object"
        raise NotTranslatableError(message)
    return value


def _whole(parent: Mapping[str, Any], name: str, path: str, least: int) -> int | None:
    value = parent.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        message = f"{path}{name}: must be a whole number from {least}"
        raise NotTranslatableError(message)
    return value
