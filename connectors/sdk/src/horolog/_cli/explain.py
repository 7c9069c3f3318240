"""`horolog explain`: why a run did, will or did not happen: conditions in their order, then one sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.exits import OK
from horolog._cli.instants import both, read_instant, zone_of
from horolog._cli.options import add_watch, leaf
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_RUN = re.compile(r"run_(?P<job>.+)_(?P<at>\d{8}T\d{9}Z)")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z")

_NEXT: Mapping[str, str] = {
    "no_worker_polling": "Start a worker for its queue: horolog worker run MODULE",
    "paused": "Resume it: horolog jobs resume {job}",
    "skipped_overlap": "Let runs overlap, or wait for each other: horolog jobs edit {job} --overlap allow (or queue)",
    "waiting_for_retry": "See the error: horolog runs show {run}",
    "waiting_for_concurrency_key": "See the key's limit in the conditions, and raise it: horolog concurrency-keys set",
    "waiting_for_queue_limit": "See the queue's limits in the conditions, and raise them: horolog queues set",
    "waiting_for_slot": "Give the worker more slots, or start another one.",
    "will_run_at": "See later ones: horolog jobs preview {job}",
    "not_scheduled": "See what is: horolog jobs preview {job}",
    "running": "Follow it: horolog runs show {run} --watch",
    "dead": "See its attempts: horolog runs show {run}",
}


def add(leaves: Leaves) -> None:
    """Add the command."""
    explain = leaf(leaves.nouns, "explain", explain_job, "Say why a run did, will or did not happen.")
    explain.add_argument("job", metavar="JOB", help="a job, or a run id")
    explain.add_argument(
        "--at",
        metavar="TIME",
        help="the occurrence's instant (no offset: in the job's zone); default: open or next run",
    )
    add_watch(explain)


def explain_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    run = _RUN.fullmatch(args.job)
    job_id = run["job"] if run else args.job
    at_text = args.at
    if run and at_text is None:
        day, time = run["at"][:8], run["at"][9:18]
        at_text = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:6]}.{time[6:]}Z"
    elif at_text is None and args.job.startswith("run_"):  # of a trigger, replay or backfill: its id names no instant
        found = session.find(_calls.get_run(args.job))
        if found is not None:
            job_id, at_text = found["jobId"], found["scheduledFor"]

    def picture() -> None:
        zone = zone_of(session.find(_calls.get_job(job_id)))
        at = None if at_text is None else parse_time(read_instant(at_text, zone, "--at"))
        answer = session.send(_calls.explain_job(job_id, at=at))
        if job_id != args.job and answer.get("runId") not in (None, args.job):
            session.screen.note(f"This is about {answer['runId']}, the latest run of the same instant.")
        if session.as_json:
            session.screen.json(answer)
        else:
            _show(session, answer, zone)

    session.show(args.watch, picture)
    return OK


def _show(session: Session, answer: dict[str, Any], zone: str) -> None:
    screen = session.screen
    screen.line(f"{answer['jobId']}, occurrence {both(answer.get('at'), zone)}", "bold")
    conditions = answer.get("conditions") or []
    width = max((len(condition["name"]) for condition in conditions), default=0)
    for number, condition in enumerate(conditions, start=1):
        holds = condition["holds"]
        mark = screen.styled("yes" if holds else "no ", "green" if holds else "red")
        name = condition["name"].replace("_", " ").ljust(width)
        screen.line(f"  {number}. {mark}  {name}  {_readable(condition['detail'], zone)}{_place(condition)}")
    screen.line(f"{answer['situation'].replace('_', ' ')}: {_readable(answer['summary'], zone)}", "bold")
    hint = _NEXT.get(answer["situation"])
    if hint:
        screen.line(hint.format(job=answer["jobId"], run=answer.get("runId") or "RUN"), "dim")


def _readable(text: str, zone: str) -> str:
    """Write the instants of a sentence in both forms."""
    return _STAMP.sub(lambda found: both(found[0], zone), text)


def _place(condition: dict[str, Any]) -> str:
    evidence = condition.get("evidence")
    if not evidence:
        return ""
    return f" ({evidence.get('topic')} {evidence.get('partition')}/{evidence.get('offset')})"
