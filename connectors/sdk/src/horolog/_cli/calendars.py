"""`horolog calendars ...`: exclusion calendars, which jobs name so as not to run on their days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.documents import read_document
from horolog._cli.exits import OK, usage
from horolog._cli.options import add_limit, leaf
from horolog._cli.session import PAGE

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

FIELDS = ("timeZone", "dates", "rules", "description")
SHOWN_MAX = 3
"""Dates or rules in one row of a table; the rest is a number."""


def add(leaves: Leaves) -> None:
    """Add the commands."""
    verbs = leaves.noun("calendars", "Exclusion calendars: when jobs that name them do not run.")
    put = leaf(
        verbs, "put", put_calendar, "Create a calendar, or replace it whole: from a file, from options, or both."
    )
    put.add_argument("name")
    put.add_argument("-f", "--file", type=Path, metavar="FILE", help=f"JSON or YAML with {', '.join(FIELDS)}")
    put.add_argument("--date", action="append", metavar="YYYY-MM-DD", help="a day without runs; repeatable")
    put.add_argument(
        "--rule", action="append", help="five cron fields (their minutes) or FREQ=... (its days); repeatable"
    )
    put.add_argument("--zone", help="IANA zone of dates and rules; default UTC")
    put.add_argument("--description", help="for people")
    put.add_argument("--version", type=int, metavar="N", help="only if it is at this version")
    leaf(verbs, "show", show_calendar, "Show a calendar.").add_argument("name")
    add_limit(leaf(verbs, "list", list_calendars, "List the calendars of your tenant."))
    delete = leaf(verbs, "delete", delete_calendar, "Delete a calendar that no job names.")
    delete.add_argument("name")
    delete.add_argument("--force", action="store_true", help="though jobs name it: they run as if it excluded nothing")
    delete.add_argument("--version", type=int, metavar="N", help="only if it is at this version")


def put_calendar(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    body = _from_file(args.file) if args.file is not None else {}
    dates = [*body.get("dates", ()), *(args.date or ())]
    rules = [*body.get("rules", ()), *(args.rule or ())]
    calendar = session.send(
        _calls.put_calendar(
            args.name,
            dates=dates,
            rules=rules,
            time_zone=args.zone or body.get("timeZone", "UTC"),
            description=args.description if args.description is not None else body.get("description", ""),
            version=args.version,
        )
    )
    if session.as_json:
        session.screen.json(calendar)
    else:
        session.screen.line(f"Calendar {calendar['name']} is at version {calendar['version']}.")
    return OK


def _from_file(path: Path) -> dict[str, Any]:
    """Read what a file says of a calendar. Raises CliError."""
    document = read_document(path)
    if not isinstance(document, dict):
        message = f"{path}: must hold one object with {', '.join(FIELDS)}."
        raise usage(message)
    for name in document:
        if name not in FIELDS:
            message = f"{path}: {name}: is not a field of a calendar; known are {', '.join(FIELDS)}."
            raise usage(message)
    for name in ("dates", "rules"):
        if not isinstance(document.get(name, []), list):
            message = f"{path}: {name}: must be a list."
            raise usage(message)
    return document


def show_calendar(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    calendar = session.send(_calls.get_calendar(args.name))
    if session.as_json:
        session.screen.json(calendar)
    else:
        session.screen.fields([(name, _joined(value)) for name, value in calendar.items()])
    return OK


def _joined(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def list_calendars(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def build(cursor: str | None) -> Any:
        return _calls.list_calendars(limit=min(args.limit, PAGE), cursor=cursor)

    calendars = list(session.pages(build, "calendars", args.limit))
    if session.as_json:
        session.screen.json(calendars)
        return OK
    rows = [
        (c["name"], c["version"], c["timeZone"], _some(c["dates"]), _some(c["rules"]), c["description"])
        for c in calendars
    ]
    session.screen.table(("NAME", "VERSION", "ZONE", "DATES", "RULES", "DESCRIPTION"), rows)
    return OK


def _some(values: list[str]) -> str:
    more = f" and {len(values) - SHOWN_MAX} more" if len(values) > SHOWN_MAX else ""
    return ", ".join(values[:SHOWN_MAX]) + more


def delete_calendar(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    answer = session.send(_calls.delete_calendar(args.name, force=args.force, version=args.version))
    if session.as_json:
        session.screen.json(answer)
    else:
        session.screen.line(f"Calendar {answer['name']} is deleted.")
    return OK
