"""`horolog runs replay`: open dead runs again, one by name or many by filter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.exits import code_of_items, usage
from horolog._cli.instants import read_instant
from horolog._cli.options import add_label, add_limit, add_yes, labels_of, leaf
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse

    from horolog._cli.session import Session

_RATE = 100.0  # runs a second; the gateway's default
_RATE_MAX = 1_000.0
_PAGE = 1_000
_CALL_SECONDS = 10  # docs/http-api.md section 5: one call replays at the rate for at most so long


def add(verbs: Any) -> None:
    """Add the verb to those of `runs`."""
    text = "Open a dead run again as a new run; or all that match, which it only shows without --yes."
    replay = leaf(verbs, "replay", replay_runs, text)
    replay.add_argument("run_id", nargs="?", help="one run; it is replayed at once")
    replay.add_argument("--note")
    group = replay.add_argument_group("many runs")
    group.add_argument("--job", help="dead runs of this job")
    group.add_argument("--queue", help="dead runs of jobs of this queue")
    group.add_argument("--text", help="dead runs of jobs with this in the name, task or id")
    add_label(replay)
    group.add_argument("--dead-from", metavar="TIME", help="died at or after it (no offset: UTC)")
    group.add_argument("--dead-until", metavar="TIME", help="died before it")
    group.add_argument("--rate", type=float, default=_RATE, metavar="N", help="runs a second, 1 to 1000; default 100")
    add_limit(replay, default=None)
    add_yes(replay)


def replay_runs(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    filters = (args.job, args.queue, args.text, args.label, args.dead_from, args.dead_until)
    if args.run_id is not None:
        if any(filters) or args.yes:
            message = "Name one run, or give a filter (--job, --queue, ...) with --yes: not both."
            raise usage(message)
        run = session.send(_calls.replay_run(args.run_id, note=args.note))
        return session.tell(run, f"Opened {run['runId']} for it. See it with: horolog runs show {run['runId']}")
    if not any(filters):
        message = "Name a run, or say which dead runs: --job, --queue, --label, --text, --dead-from, --dead-until."
        raise usage(message)
    if not 1 <= args.rate <= _RATE_MAX:
        message = f"--rate: {args.rate:g} is not between 1 and {_RATE_MAX:g}."
        raise usage(message)
    return _replay_many(session, args)


def _replay_many(session: Session, args: argparse.Namespace) -> int:
    start, end = (
        None if text is None else parse_time(read_instant(text, "UTC", option))
        for text, option in ((args.dead_from, "--dead-from"), (args.dead_until, "--dead-until"))
    )
    rate = args.rate if args.yes else _RATE_MAX  # a dry run sends nothing
    page = min(_PAGE, int(rate * _CALL_SECONDS))
    limit = args.limit or math.inf
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        call = _calls.replay_runs(
            queue=args.queue,
            job_id=args.job,
            text=args.text,
            labels=labels_of(args.label) or None,
            dead_from=start,
            dead_until=end,
            dry_run=not args.yes,
            rate_per_second=rate,
            limit=int(min(page, limit - len(items))),
            cursor=cursor,
        )
        answer = session.send(call)
        items += answer["items"]
        cursor = answer.get("nextCursor")
        if cursor is None or len(items) >= limit or not answer["items"]:
            break
    _show(session, args, items, more=cursor is not None)
    return code_of_items(items)


def _show(session: Session, args: argparse.Namespace, items: list[dict[str, Any]], *, more: bool) -> None:
    if session.as_json:
        session.screen.json({"dryRun": not args.yes, "runs": items, "more": more})
        return
    rows = [(item["runId"], item.get("newRunId") or item.get("code") or "", item.get("detail")) for item in items]
    session.screen.table(("DEAD RUN", "NEW RUN", "WHY NOT"), rows)
    if not items:
        session.screen.line("No dead run matches.")
    elif not args.yes:
        session.screen.line(f"{len(items)} runs would be replayed. Nothing was done: add --yes to do it.")
    else:
        session.screen.line(f"Replayed {sum(item['ok'] is True for item in items)} of {len(items)} runs.")
    if more:
        session.screen.note(f"There are more than {args.limit}: give a larger --limit.")
