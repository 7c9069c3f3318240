"""`horolog jobs pause|resume|trigger|skip|backfill` and `horolog backfills ...`: what people do to one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.definitions import read_json_option
from horolog._cli.exits import usage
from horolog._cli.instants import both, read_instant, zone_of
from horolog._cli.options import add_watch, add_yes, leaf
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse
    import datetime as dt

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session


def add(verbs: Any) -> None:
    """Add the verbs of `jobs`."""
    pause = leaf(verbs, "pause", pause_job, "Pause a job: nothing is opened or leased until it is resumed.")
    pause.add_argument("job")
    _add_note(pause)
    pause.add_argument("--until", metavar="TIME", help="resume then")
    resume = leaf(verbs, "resume", resume_job, "Resume a paused job.")
    resume.add_argument("job")
    _add_note(resume)
    trigger = leaf(verbs, "trigger", trigger_job, "Open a run now.")
    trigger.add_argument("job")
    trigger.add_argument("--payload", metavar="JSON", help="instead of the job's; any JSON, or @FILE")
    trigger.add_argument("--note")
    trigger.add_argument("--force", action="store_true", help="although the job is paused, or another run is open")
    trigger.add_argument("--key", help="idempotency key: a repeat with it opens no second run")
    skip = leaf(verbs, "skip", skip_occurrence, "Leave out one occurrence that is still to come.")
    skip.add_argument("job")
    skip.add_argument("--at", metavar="TIME", help="its instant (no offset: in the job's zone); default: the next one")
    skip.add_argument("--version", type=int, metavar="N", help="act only on this version (see `jobs show`)")
    backfill = leaf(
        verbs, "backfill", backfill_job, "Open the past occurrences of a range; says how many without --yes."
    )
    backfill.add_argument("job")
    backfill.add_argument("--from", dest="start", metavar="TIME", required=True, help="first instant")
    backfill.add_argument("--to", dest="end", metavar="TIME", help="first instant that does not belong; default: now")
    backfill.add_argument("--max-concurrent", type=int, metavar="N", help="open at a time; default 1")
    backfill.add_argument("--rate", type=float, metavar="N", help="opened a second at most; default: as runs end")
    backfill.add_argument("--key", help="idempotency key: a repeat with it begins no second backfill")
    add_yes(backfill)


def add_backfills(leaves: Leaves) -> None:
    """Add the noun `backfills`."""
    verbs = leaves.noun("backfills", "Backfills: ranges of past occurrences that are being opened.")
    listing = leaf(verbs, "list", list_backfills, "Show how far the backfills of a job are.")
    listing.add_argument("job")
    add_watch(listing)
    stop = leaf(verbs, "stop", stop_backfill, "End a backfill; the runs that it opened stay.")
    stop.add_argument("job")
    stop.add_argument("backfill")


def _add_note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", help="why; kept with the job and in history")
    parser.add_argument("--actor", help="who; default: the token's name")


def _in_zone_of(session: Session, job_id: str, text: str, option: str) -> dt.datetime:
    return parse_time(read_instant(text, zone_of(session.send(_calls.get_job(job_id))), option))


def pause_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    until = None if args.until is None else _in_zone_of(session, args.job, args.until, "--until")
    job = session.send(_calls.pause_job(args.job, note=args.note, actor=args.actor, until=until))
    return session.tell(job, f"Paused {args.job}. Resume it with: horolog jobs resume {args.job}")


def resume_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    job = session.send(_calls.resume_job(args.job, note=args.note, actor=args.actor))
    return session.tell(job, f"Resumed {args.job}. Next run: {both(job.get('nextRunAt'), zone_of(job))}")


def trigger_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    payload = {} if args.payload is None else {"payload": read_json_option(args.payload, "--payload")}
    call = _calls.trigger_job(args.job, note=args.note, force=args.force, idempotency_key=args.key, **payload)
    answer = session.send(call)
    return session.tell(answer, f"Opened {answer['runId']}. See it with: horolog runs show {answer['runId']}")


def skip_occurrence(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    job = session.send(_calls.get_job(args.job))
    at = job.get("nextRunAt") if args.at is None else read_instant(args.at, zone_of(job), "--at")
    version = args.version
    if at is None:
        message = f"{args.job} has no occurrence to come; see `horolog jobs show {args.job}`."
        raise usage(message)
    if args.at is None and version is None:
        version = job["version"]  # what was next when we looked must still be it
    answer = session.send(_calls.skip_occurrence(args.job, at=parse_time(at), version=version))
    zone = zone_of(job)
    return session.tell(
        answer, f"{both(answer['at'], zone)} will not run. Next run: {both(answer.get('nextRunAt'), zone)}"
    )


def backfill_job(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    zone = zone_of(session.send(_calls.get_job(args.job)))
    start = parse_time(read_instant(args.start, zone, "--from"))
    end = session.now() if args.end is None else parse_time(read_instant(args.end, zone, "--to"))
    answer = session.send(
        _calls.backfill_job(
            args.job,
            start=start,
            end=end,
            max_concurrent=args.max_concurrent,
            rate_per_second=args.rate,
            dry_run=not args.yes,
            idempotency_key=args.key,
        )
    )
    what = f"{answer['runs']} runs, from {both(answer.get('firstAt'), zone)} to {both(answer.get('lastAt'), zone)}"
    if not args.yes:
        return session.tell(answer, f"Would open {what}.\nNothing was done: add --yes to do it.")
    names = f"{args.job} {answer['backfillId']}"
    return session.tell(
        answer,
        f"Backfill {answer['backfillId']} opens {what}.\n"
        f"Watch it with: horolog backfills list {args.job} --watch; end it with: horolog backfills stop {names}",
    )


def list_backfills(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        backfills = session.send(_calls.list_backfills(args.job))["backfills"]
        if session.as_json:
            session.screen.json(backfills)
            return
        zone = zone_of(session.send(_calls.get_job(args.job)))
        rows = [
            (
                one["backfillId"],
                one.get("endedBy") or one["state"],
                one.get("opened"),
                one.get("open"),
                one.get("remaining"),
                both(one.get("nextAt"), zone),
                one.get("maxConcurrent"),
                one.get("ratePerSecond"),
            )
            for one in backfills
        ]
        session.screen.table(
            ("BACKFILL", "STATE", "OPENED", "OPEN", "REMAINING", "NEXT SLOT", "AT A TIME", "RATE"), rows
        )
        if not rows:
            session.screen.note(f"No backfill. Begin one with `horolog jobs backfill {args.job} --from TIME`.")

    return session.show(args.watch, picture)


def stop_backfill(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    answer = session.send(_calls.stop_backfill(args.job, args.backfill))
    return session.tell(
        answer, f"{args.backfill} opens nothing more; what it opened stays (horolog runs list {args.job})."
    )
