"""`horolog jobs ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli import bulk, job_actions
from horolog._cli.definitions import (
    add_job_options,
    add_schedule_options,
    definition_of,
    time_form,
)
from horolog._cli.exits import OK, usage
from horolog._cli.instants import both, local, read_instant, utc, zone_of
from horolog._cli.options import add_label, add_limit, add_watch, labels_of, leaf
from horolog._cli.screen import compact, last_line
from horolog._cli.session import PAGE
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_PREVIEW_COUNT = 10
_PREVIEW_MAX = 1_000


def add(leaves: Leaves) -> None:
    """Add the commands."""
    verbs = leaves.noun("jobs", "Jobs: definitions of what runs when.")
    create = leaf(verbs, "create", create_job, "Create a job.")
    create.add_argument("name")
    create.add_argument("--id", help="default: the gateway makes one up")
    create.add_argument("--key", help="idempotency key: a repeat with it reaches the same job")
    add_job_options(create)
    listing = leaf(verbs, "list", list_jobs, "List jobs.")
    listing.add_argument("--queue")
    listing.add_argument("--state", choices=["active", "paused", "finished", "deleted"])
    listing.add_argument("--prefix", help="only names that begin so")
    listing.add_argument("--text", help="only with this in the name, task or id")
    add_label(listing)
    add_limit(listing)
    add_watch(listing)
    show = leaf(verbs, "show", show_job, "Show a job and its last runs.")
    show.add_argument("job")
    add_watch(show)
    edit = leaf(verbs, "edit", edit_job, "Change the fields that are named; the rest stays.")
    edit.add_argument("job")
    edit.add_argument("--name")
    _add_version(edit)
    add_job_options(edit)
    delete = leaf(verbs, "delete", delete_job, "Delete a job; runs that are leased end through their heartbeat.")
    delete.add_argument("job")
    _add_version(delete)
    preview = leaf(verbs, "preview", preview_job, "Show the next occurrences of a job, or of a schedule (--cron ...).")
    preview.add_argument("job", nargs="?")
    preview.add_argument("--from", dest="start", metavar="TIME", help="default: now")
    preview.add_argument("--count", type=int, default=_PREVIEW_COUNT, help=f"1 to {_PREVIEW_MAX}")
    add_schedule_options(preview)
    job_actions.add(verbs)
    bulk.add(verbs)


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", type=int, metavar="N", help="act only on this version (see `jobs show`)")


# --- commands -----------------------------------------------------------------------------------------


def create_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    body = {"name": args.name, **definition_of(args)}
    if args.id is not None:
        body["jobId"] = args.id
    answer = session.send(_calls.define_job(body, idempotency_key=args.key))
    return _defined(session, answer, "Created", zone_of(body))


def edit_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    changes = definition_of(args)
    if args.name is not None:
        changes["name"] = args.name
    if not changes:
        message = "Nothing to change was named: see `horolog jobs edit --help`."
        raise usage(message)
    answer = session.send(_calls.patch_job(args.job, changes, version=args.version))
    zone = "UTC" if session.as_json else zone_of(session.find(_calls.get_job(args.job)))
    return _defined(session, answer, "Saved", zone)


def _defined(session: Session, answer: dict[str, Any], verb: str, zone: str) -> int:
    screen = session.screen
    if session.as_json:
        screen.json(answer)
        return OK
    screen.line(f"{verb} {answer['jobId']}, version {answer['version']}.")
    screen.line(f"Next run: {both(answer.get('nextRunAt'), zone)}")
    for warning in answer.get("warnings") or ():
        screen.line(f"Warning: {warning}", "yellow")
    screen.line(f"Watch it with: horolog jobs show {answer['jobId']} --watch", "dim")
    return OK


def list_jobs(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    labels = labels_of(args.label)

    def build(cursor: str | None) -> Any:
        limit = min(args.limit or PAGE, PAGE)
        return _calls.list_jobs(
            queue=args.queue,
            state=args.state,
            name_prefix=args.prefix,
            text=args.text,
            labels=labels,
            limit=limit,
            cursor=cursor,
        )

    def picture() -> None:
        jobs = list(session.pages(build, "jobs", args.limit))
        if session.as_json:
            session.screen.json(jobs)
            return
        rows = [
            (
                job["jobId"],
                job.get("queue"),
                job["state"],
                when(job),
                local(job.get("nextRunAt"), zone_of(job)),
                utc(job.get("nextRunAt")),
                job.get("openRuns"),
            )
            for job in sorted(jobs, key=lambda job: str(job["jobId"]))
        ]
        session.screen.table(("JOB", "QUEUE", "STATE", "WHEN", "NEXT RUN, LOCAL", "NEXT RUN, UTC", "OPEN"), rows)
        if not rows:
            session.screen.note("No job matches. Create one with `horolog jobs create`.")

    return session.show(args.watch, picture)


def when(job: dict[str, Any]) -> str:
    """Say in a few words when a job runs."""
    schedule = job.get("schedule") or {}
    if "cron" in schedule:
        return f"{schedule['cron']} ({zone_of(job)})"
    if "every" in schedule:
        every = schedule["every"]
        return f"every {every / 1000:g} s" if isinstance(every, (int, float)) else f"every {every}"
    if "rrule" in schedule:
        return f"{schedule['rrule']} ({zone_of(job)})"
    if "everyCalendar" in schedule:
        calendar = schedule["everyCalendar"]
        return f"every {calendar.get('every', 1)} {calendar['unit']} at {calendar['at']} ({zone_of(job)})"
    if job.get("runAtLocal"):
        return f"once at {job['runAtLocal']} ({zone_of(job)})"
    return f"once at {utc(job['runAt'])}" if job.get("runAt") else "once"


_SHOWN_RUNS = 5
_MAIN_FIELDS = frozenset({"jobId", "version", "state", "schedule", "runAt", "runAtLocal", "timeZone", "nextRunAt"})


def show_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        job = session.send(_calls.get_job(args.job))
        if session.as_json:
            session.screen.json(job)
            return
        zone = zone_of(job)
        screen = session.screen
        screen.fields(
            [
                ("job", f"{job['jobId']} (version {job['version']}, {job['state']})"),
                ("when", when(job)),
                ("next run", both(job.get("nextRunAt"), zone)),
                *[(name, _value(value)) for name, value in job.items() if name not in _MAIN_FIELDS],
            ]
        )
        runs = session.send(_calls.list_job_runs(args.job, limit=_SHOWN_RUNS))["runs"]
        if runs:
            screen.line()
            show_runs(session, runs, zone)

    return session.show(args.watch, picture)


def _value(value: Any) -> Any:
    return None if value in (None, "", [], {}) else compact(value)


def show_runs(session: Session, runs: list[dict[str, Any]], zone: str) -> None:
    """Write a table of runs."""
    rows = [
        (
            run["runId"],
            local(run.get("scheduledFor"), zone),
            utc(run.get("scheduledFor")),
            run.get("outcome") or run["state"],
            f"{run.get('attempt') or 0}/{run.get('maxAttempts') or '?'}",
            run.get("workerId"),
            last_line(run.get("reason") or run.get("error")),
        )
        for run in runs
    ]
    titles = ("RUN", f"SCHEDULED FOR, {zone}", "UTC", "STATE", "ATTEMPT", "WORKER", "WHY")
    session.screen.table(titles, rows)


def delete_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    answer = session.send(_calls.delete_job(args.job, version=args.version))
    if session.as_json:
        session.screen.json(answer)
    else:
        session.screen.line(f"Deleted {answer['jobId']}.")
    return OK


def preview_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    if not 1 <= args.count <= _PREVIEW_MAX:
        message = f"--count: {args.count} is not between 1 and {_PREVIEW_MAX}."
        raise usage(message)
    form = time_form(args)
    if (args.job is None) == (not form):
        message = "Name a job, or give a schedule (--cron, --every, --rrule, --at-local): one of the two."
        raise usage(message)
    if args.job is None:
        zone, job = zone_of(form), None
    else:
        job = session.send(_calls.get_job(args.job))
        zone = zone_of(job)
    start = None if args.start is None else parse_time(read_instant(args.start, zone, "--from"))
    if args.job is None:
        call = _calls.preview_definition(form, start=start, count=args.count)
    else:
        call = _calls.preview_job(args.job, start=start, count=args.count)
    answer = session.send(call)
    if session.as_json:
        session.screen.json(answer)
        return OK
    rows = [(local(o["at"], zone), utc(o["at"]), o.get("note")) for o in answer["occurrences"]]
    session.screen.table((f"LOCAL, {zone}", "UTC", "NOTE"), rows)
    for warning in answer.get("warnings") or ():
        session.screen.line(f"Warning: {warning}", "yellow")
    return OK
