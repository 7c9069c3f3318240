"""`horolog runs ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli import replay
from horolog._cli.exits import OK, usage
from horolog._cli.instants import both, read_instant, zone_of
from horolog._cli.jobs import show_runs
from horolog._cli.options import add_label, add_limit, add_watch, labels_of, leaf
from horolog._cli.screen import last_line
from horolog._cli.session import PAGE
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_TIMES = ("scheduledFor", "grantedAt", "leaseExpiresAt", "nextAttemptAt", "closedAt")


def add(leaves: Leaves) -> None:
    """Add the commands."""
    verbs = leaves.noun("runs", "Runs: occurrences, triggers and backfill slots that were opened.")
    listing = leaf(verbs, "list", list_runs, "List the runs of a job, newest first, or of all jobs that match.")
    listing.add_argument("job", nargs="?")
    listing.add_argument("--state", choices=["ready", "leased", "retrying", "queued", "closed"])
    group = listing.add_argument_group("instead of a job")
    group.add_argument("--queue", help="runs of jobs of this queue")
    group.add_argument("--text", help="runs of jobs with this in the name, task or id")
    add_label(listing)
    group.add_argument("--from", dest="start", metavar="TIME", help="scheduled at or after it (no offset: UTC)")
    group.add_argument("--until", dest="end", metavar="TIME", help="scheduled before it")
    listing.add_argument("--outcome", choices=["ran", "skipped", "cancelled", "dead"])
    add_limit(listing)
    add_watch(listing)
    show = leaf(verbs, "show", show_run, "Show a run with its attempts.")
    show.add_argument("run_id")
    add_watch(show)
    cancel = leaf(verbs, "cancel", cancel_run, "Cancel a run: at once, or through its worker's next heartbeat.")
    cancel.add_argument("run_id")
    cancel.add_argument("--note")
    replay.add(verbs)


def list_runs(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    labels = labels_of(args.label)
    filters = (args.queue, args.text, labels, args.start, args.end)
    if args.job is None and not any((*filters, args.outcome, args.state)):
        message = "Name a job: horolog runs list JOB (`horolog jobs list` shows them); or give --queue, --state, ..."
        raise usage(message)
    if args.job is not None and any(filters):
        message = "--queue, --text, --label, --from and --until choose among the runs of many jobs: leave the job out."
        raise usage(message)
    start, end = (
        None if text is None else parse_time(read_instant(text, "UTC", option))
        for text, option in ((args.start, "--from"), (args.end, "--until"))
    )

    def build(cursor: str | None) -> Any:
        limit = min(args.limit or PAGE, PAGE)
        if args.job is not None:
            return _calls.list_job_runs(args.job, state=args.state, limit=limit, cursor=cursor)
        return _calls.list_runs(
            queue=args.queue,
            state=args.state,
            outcome=args.outcome,
            text=args.text,
            labels=labels,
            start=start,
            end=end,
            limit=limit,
            cursor=cursor,
        )

    def picture() -> None:
        runs = [
            run
            for run in session.pages(build, "runs", args.limit)
            if args.outcome is None or run.get("outcome") == args.outcome
        ]
        if session.as_json:
            session.screen.json(runs)
            return
        zone = "UTC" if args.job is None else zone_of(session.find(_calls.get_job(args.job)))
        show_runs(session, runs, zone)
        if not runs:
            session.screen.note(f"No run matches. `horolog explain {args.job or 'JOB'}` says what comes next, and why.")

    return session.show(args.watch, picture)


def show_run(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        run = session.send(_calls.get_run(args.run_id))
        if session.as_json:
            session.screen.json(run)
            return
        _show(session, run)

    return session.show(args.watch, picture)


def _show(session: Session, run: dict[str, Any]) -> None:
    zone = zone_of(session.find(_calls.get_job(run["jobId"])))
    screen = session.screen
    screen.fields(
        [
            (name, both(value, zone) if name in _TIMES and value else value)
            for name, value in run.items()
            if name != "attempts"
        ]
    )
    if run.get("attempts"):
        screen.line()
        rows = [
            (a["attempt"], a.get("workerId"), both(a.get("grantedAt"), zone), a.get("end"), last_line(a.get("error")))
            for a in run["attempts"]
        ]
        screen.table(("ATTEMPT", "WORKER", "GRANTED", "END", "ERROR"), rows)


def cancel_run(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    run = session.send(_calls.cancel_run(args.run_id, note=args.note))
    if session.as_json:
        session.screen.json(run)
    elif run["state"] == "closed":
        session.screen.line(f"{args.run_id} is cancelled.")
    else:
        session.screen.line(f"Asked: the worker of {args.run_id} learns of it with its next heartbeat.")
    return OK
