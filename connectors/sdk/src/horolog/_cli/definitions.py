"""Job definitions from command-line options and from files, in the words of docs/http-api.md."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horolog._cli.documents import read_document
from horolog._cli.exits import usage
from horolog._cli.instants import read_instant, read_seconds
from horolog._wire import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER_LABEL = "horolog/owner"
"""Label of the jobs that a file owns; `apply --prune` deletes only those."""

_TEXTS = {
    "queue": "queue",
    "task": "task",
    "catch_up": "catchUp",
    "overlap": "overlap",
    "lane": "lane",
    "concurrency_key": "concurrencyKey",
}
_LENGTHS = {"timeout": "timeoutSeconds", "start_deadline": "startDeadlineSeconds", "jitter": "jitterSeconds"}
_TIMES = {"start_at": "startAt", "end_at": "endAt"}
_FORMS = ("cron", "every", "rrule", "at", "at_local", "in_")


def add_schedule_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say when."""
    group = parser.add_argument_group("when (one of --cron, --every, --rrule, --at, --at-local, --in)")
    group.add_argument("--cron", metavar="EXPR", help="five fields, or six with seconds first")
    group.add_argument("--every", metavar="LENGTH", help="for instance 15m or 1h30m")
    group.add_argument("--rrule", metavar="RULE", help="RFC 5545; needs --dtstart")
    group.add_argument("--at", metavar="TIME", help="once, at this instant (no offset: in --zone, else UTC)")
    group.add_argument("--at-local", metavar="TIME", help="once, wall clock of --zone, by the rules of time")
    group.add_argument("--in", dest="in_", metavar="LENGTH", help="once, so long from now")
    group.add_argument("--zone", metavar="ZONE", help="IANA time zone; default UTC")
    group.add_argument("--dtstart", metavar="LOCAL", help="start of --rrule")
    group.add_argument("--anchor", metavar="TIME", help="one instant of --every; default 1970-01-01T00:00:00Z")
    group.add_argument("--gap", choices=["shift", "skip"], help="times that a clock change leaves out")
    group.add_argument("--overlap-hour", choices=["first", "second", "both"], help="times that come twice")
    group.add_argument("--start-at", metavar="TIME", help="no occurrence before")
    group.add_argument("--end-at", metavar="TIME", help="no occurrence after")


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what and how."""
    add_schedule_options(parser)
    group = parser.add_argument_group("what and how")
    group.add_argument("--queue")
    group.add_argument("--task", help="the worker's handler; default: the job's name")
    group.add_argument("--payload", metavar="JSON", help="any JSON, or @FILE")
    group.add_argument("--overlap", choices=["allow", "skip", "queue", "replace"])
    group.add_argument("--catch-up", choices=["latest", "all", "none"])
    group.add_argument("--lane", choices=["high", "normal", "low"])
    group.add_argument("--max-attempts", type=int, metavar="N")
    group.add_argument("--backoff", choices=["exponential", "fixed", "none"], help="none: not tried again")
    group.add_argument("--timeout", metavar="LENGTH", help="bounds one attempt")
    group.add_argument("--start-deadline", metavar="LENGTH", help="older occurrences are skipped")
    group.add_argument("--jitter", metavar="LENGTH")
    group.add_argument("--max-runs", type=int, metavar="N")
    group.add_argument("--concurrency-key", metavar="KEY", help="shares the limit of this key with other jobs")
    group.add_argument("--concurrency-weight", type=int, metavar="N", help="units of the limit that a run takes")
    group.add_argument("--label", action="append", metavar="KEY=VALUE", help="repeatable")
    group.add_argument(
        "--paused", action=argparse.BooleanOptionalAction, help="paused from the first moment on (--no-paused: resumed)"
    )
    group.add_argument(
        "--set", action="append", metavar="FIELD=JSON", help="any other field, for instance retry.baseSeconds=2"
    )


def definition_of(args: argparse.Namespace) -> dict[str, Any]:
    """Give the fields that the options name. Raises CliError."""
    fields = time_form(args)
    fields.update({wire: getattr(args, name) for name, wire in _TEXTS.items() if getattr(args, name) is not None})
    for name, wire in _LENGTHS.items():
        if getattr(args, name) is not None:
            fields[wire] = read_seconds(getattr(args, name), f"--{name.replace('_', '-')}")
    if args.paused is not None:
        fields["paused"] = args.paused
    if args.max_runs is not None:
        fields["maxRuns"] = args.max_runs
    if args.concurrency_weight is not None:
        fields["concurrencyWeight"] = args.concurrency_weight
    retry = {"maxAttempts": args.max_attempts, "backoff": args.backoff}
    if any(value is not None for value in retry.values()):
        fields["retry"] = {name: value for name, value in retry.items() if value is not None}
    if args.payload is not None:
        fields["payload"] = read_json_option(args.payload, "--payload")
    if args.label:
        fields["labels"] = dict(_pair(text, "--label") for text in args.label)
    for text in args.set or ():
        path, value = _pair(text, "--set")
        _put(fields, path.split("."), _json_or_text(value))
    return fields


def time_form(args: argparse.Namespace) -> dict[str, Any]:
    """Give the time form that the options name; empty where they name none. Raises CliError."""
    given = [name for name in _FORMS if getattr(args, name) is not None]
    if len(given) > 1:
        names = " and ".join(f"--{name.strip('_').replace('_', '-')}" for name in given)
        message = f"{names} were given: choose one."
        raise usage(message)
    zone = args.zone or "UTC"
    fields: dict[str, Any] = {
        wire: read_instant(getattr(args, name), zone, f"--{name.replace('_', '-')}")
        for name, wire in _TIMES.items()
        if getattr(args, name) is not None
    }
    if not given:
        stray = [f"--{n}" for n in ("zone", "dtstart", "anchor", "gap") if getattr(args, n) is not None]
        if stray:
            message = f"{stray[0]} says nothing by itself: give --cron, --every, --rrule or --at-local with it."
            raise usage(message)
        return fields
    return fields | _form(args, given[0], zone)


def _form(args: argparse.Namespace, form: str, zone: str) -> dict[str, Any]:
    rules = {
        name: value for name, value in (("gap", args.gap), ("overlapHour", args.overlap_hour)) if value is not None
    }
    if form == "cron":
        return {"schedule": {"cron": args.cron, "timeZone": zone, **rules}}
    if form == "every":
        anchor = {} if args.anchor is None else {"anchor": read_instant(args.anchor, zone, "--anchor")}
        return {"schedule": {"every": args.every, **anchor}}
    if form == "rrule":
        start = {} if args.dtstart is None else {"dtStart": args.dtstart}
        return {"schedule": {"rrule": args.rrule, "timeZone": zone, **start, **rules}}
    if form == "at":
        return {"runAt": read_instant(args.at, zone, "--at")}
    if form == "at_local":
        return {"runAtLocal": args.at_local, "timeZone": zone}
    return {"delaySeconds": read_seconds(args.in_, "--in")}


def read_json_option(text: str, option: str) -> Any:
    """Read JSON from an option, or from the file that `@FILE` names. Raises CliError."""
    try:
        source = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        return json.loads(source)
    except OSError as error:
        message = f"{option}: {text[1:]} cannot be read: {error.strerror}."
        raise usage(message) from None
    except ValueError as error:
        message = f"{option}: this is not JSON ({error}). A text needs its own quotes: '\"like this\"'."
        raise usage(message) from None


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        message = f"{option}: write NAME=VALUE, not {text!r}."
        raise usage(message)
    return name, value


def _put(fields: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = fields.setdefault(name, {})
        if not isinstance(inner, dict):
            message = f"--set: {name} is no object."
            raise usage(message)
        fields = inner
    fields[path[-1]] = value


# --- files --------------------------------------------------------------------------------------------


def read_jobs_file(path: Path, owner: str | None) -> tuple[str | None, dict[str, dict[str, Any]]]:
    """Give the owner and the definitions by job id, in the file's order. Raises CliError."""
    document = read_document(path)
    if isinstance(document, dict) and "jobs" in document:
        unknown = sorted(set(document) - {"owner", "jobs"})
        if unknown:
            message = f"{path}: {unknown[0]} is unknown; beside `jobs` there may be `owner`."
            raise usage(message)
        owner = owner or document.get("owner")
        jobs = document["jobs"]
    else:
        jobs = document if isinstance(document, list) else [document]
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        message = f"{path}: write `jobs:` and below it one definition each (docs/cli.md shows one)."
        raise usage(message)
    if owner is not None and not isinstance(owner, str):
        message = f"{path}: owner must be a text."
        raise usage(message)
    return owner, _by_id(path, jobs, owner)


def _by_id(path: Path, jobs: list[dict[str, Any]], owner: str | None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for number, job in enumerate(jobs, start=1):
        job_id = job.get("jobId")
        if not isinstance(job_id, str) or not job_id:
            message = f"{path}: job {number} has no jobId; a file names its jobs, so that it can be applied again."
            raise usage(message)
        if job_id in found:
            message = f"{path}: jobId {job_id} comes twice; give each job its own."
            raise usage(message)
        if "delaySeconds" in job:
            message = f"{path}: {job_id}: delaySeconds counts anew at each apply; write runAt."
            raise usage(message)
        definition = {name: value for name, value in job.items() if name != "jobId"}
        _check_paused(path, job_id, definition.get("paused"))
        if owner is not None:
            definition["labels"] = {**(definition.get("labels") or {}), OWNER_LABEL: owner}
        found[job_id] = definition
    return found


def _check_paused(path: Path, job_id: str, paused: Any) -> None:
    """Refuse what is no pause state: the gateway never sees this field, `apply` acts on it."""
    if paused is None or isinstance(paused, bool):
        return
    texts = isinstance(paused, dict) and set(paused) <= {"note", "until"}
    if not texts or not all(value is None or isinstance(value, str) for value in paused.values()):
        message = f"{path}: {job_id}: paused is true, false, or an object with `note` and `until` (texts)."
        raise usage(message)
    try:
        parse_time(paused.get("until") or "1970-01-01T00:00:00Z")
    except ValueError:
        message = f"{path}: {job_id}: paused.until: write an instant with its offset, such as 2027-01-02T09:00:00Z."
        raise usage(message) from None


def without(mapping: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Give a mapping without some names."""
    return {name: value for name, value in mapping.items() if name not in names}
