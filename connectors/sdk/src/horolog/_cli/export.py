"""`horolog export`: jobs as a file that `horolog apply` takes back with no change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.definitions import OWNER_LABEL
from horolog._cli.documents import add_file_options, write_document
from horolog._cli.exits import OK
from horolog._cli.options import add_label, labels_of, leaf
from horolog._cli.plan import BASE_SECONDS, DEFAULTS, PAUSED, RETRY_DEFAULTS
from horolog._cli.session import PAGE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_EPOCH = "1970-01-01T00:00:00.000Z"
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_TIME_FORMS = ("schedule", "runAt", "runAtLocal", "timeZone")


def add(leaves: Leaves) -> None:
    """Add the command."""
    text = "Write jobs as a file that `horolog apply` takes back."
    export = leaf(leaves.nouns, "export", export_jobs, text, output=False)
    export.add_argument("--queue")
    add_label(export)
    export.add_argument("--all", action="store_true", help="finished jobs too: applied elsewhere, they run again")
    add_file_options(export)


def export_jobs(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    labels = labels_of(args.label)

    def build(cursor: str | None) -> Any:
        return _calls.list_jobs(queue=args.queue, labels=labels, limit=PAGE, cursor=cursor)

    # Lists come without payloads, so every job is asked for by itself.
    ids = sorted(str(job["jobId"]) for job in session.pages(build, "jobs", None))
    found = [session.find(_calls.get_job(job_id)) for job_id in ids]
    jobs = [job for job in found if job is not None and job.get("state") != "deleted"]
    finished = [job for job in jobs if job["state"] == "finished" and not args.all]
    binary = [job for job in jobs if job.get("payloadBase64") is not None and job not in finished]
    chosen = [job for job in jobs if job not in finished and job not in binary]
    write_document(session, args, file_of(chosen))
    note = session.screen.note
    note(f"{len(chosen)} jobs.")
    if finished:
        note(f"Left out: {len(finished)} finished jobs (--all takes them in; applied elsewhere, they run again).")
    for job in binary:
        note(f"Left out: {job['jobId']}: its payload is not JSON; a Kafka producer wrote it and has to send it again.")
    return OK


def file_of(jobs: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the document: `owner` at its top where all jobs have the same one, then the jobs."""
    owners = {(job.get("labels") or {}).get(OWNER_LABEL) for job in jobs}
    owner = owners.pop() if len(owners) == 1 else None
    definitions = [definition_of_job(job) for job in jobs]
    if not owner:  # none, several, or an empty one, which the file could not say
        return {"jobs": definitions}
    for definition in definitions:
        del definition["labels"][OWNER_LABEL]
        if not definition["labels"]:
            del definition["labels"]
    return {"owner": owner, "jobs": definitions}


def definition_of_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Give a job object's definition, without what is a default, and its pause state if it is paused."""
    definition: dict[str, Any] = {"jobId": job["jobId"], "name": job["name"], "queue": job.get("queue") or "default"}
    if job.get("task") not in (None, job["name"]):
        definition["task"] = job["task"]
    for name in _TIME_FORMS:
        if job.get(name) is not None:
            definition[name] = _schedule(job[name]) if name == "schedule" else job[name]
    if job.get("payload") is not None:
        definition["payload"] = job["payload"]
    retry = _retry(job.get("retry") or {})
    if retry:
        definition["retry"] = retry
    for name, default in DEFAULTS.items():
        value = job.get(name)
        if name not in {"queue", "payload"} and value is not None and value != default:
            definition[name] = dict(value) if isinstance(value, dict) else _short(value)
    if job.get(PAUSED):
        pause = {name: value for name in ("note", "until") if (value := job[PAUSED].get(name))}
        definition[PAUSED] = pause or True
    return definition


def _short(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _retry(retry: Mapping[str, Any]) -> dict[str, Any]:
    backoff = retry.get("backoff") or RETRY_DEFAULTS["backoff"]
    defaults = {**RETRY_DEFAULTS, "baseSeconds": BASE_SECONDS.get(backoff, 0)}
    return {name: _short(value) for name, value in retry.items() if value is not None and value != defaults.get(name)}


def _schedule(schedule: Mapping[str, Any]) -> dict[str, Any]:
    usual = {"gap": "shift", "overlapHour": "first", "anchor": _EPOCH}
    form = {name: value for name, value in schedule.items() if value is not None and value != usual.get(name)}
    if isinstance(form.get("everyCalendar"), dict):
        form["everyCalendar"] = dict(form["everyCalendar"])
    if isinstance(form.get("every"), int):
        form["every"] = _length(form["every"])
    return form


def _length(every_ms: int) -> str:
    """Write milliseconds as `1h30m`."""
    parts = []
    for unit, unit_ms in _UNITS_MS:
        count, every_ms = divmod(every_ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
