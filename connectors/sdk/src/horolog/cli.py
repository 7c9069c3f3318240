"""`horolog`: jobs, runs, queues and workers from the command line, over the gateway's HTTP API.

Noun then verb; docs/cli.md is the guide. Results go to standard output (`--output json`: one JSON document and
nothing else), notes and errors to standard error. Exit codes: 0 ok, 1 failure, 2 wrong command line, file or
definition, 3 gateway not reachable, 4 not found, 5 conflict.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from horolog._cli import (
    apply,
    bulk,
    calendars,
    explain,
    export,
    import_jobs,
    job_actions,
    jobs,
    limits,
    queues,
    runs,
    worker,
)
from horolog._cli.exits import EPILOG, FAILED, USAGE, CliError
from horolog._cli.options import Leaves, Parser, common_options
from horolog._cli.screen import Screen
from horolog._cli.session import Session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

URL = "http://127.0.0.1:8080"
INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """Give the whole command line."""
    parser: argparse.ArgumentParser = Parser(
        prog="horolog",
        description="Jobs, runs, queues and workers of Horolog, over its HTTP API.",
        epilog=EPILOG,
        parents=[common_options(suppress=False)],
        allow_abbrev=False,
    )
    leaves = Leaves(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    jobs.add(leaves)
    job_actions.add_backfills(leaves)
    bulk.add_undo(leaves)
    for module in (runs, queues, limits, calendars, apply, export, import_jobs, explain, worker):
        module.add(leaves)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with one of the documented codes."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Run one command line and give its exit code."""
    environment = os.environ if environment is None else environment
    try:
        args = build_parser().parse_args(arguments)
    except SystemExit as end:  # argparse has said what is wrong
        return end.code if isinstance(end.code, int) else USAGE
    screen = Screen(sys.stdout, sys.stderr, environment)
    session = Session(
        screen=screen,
        url=args.url or environment.get("HOROLOG_URL") or URL,
        token=args.token or environment.get("HOROLOG_TOKEN"),
        as_json=args.output == "json",
        pause=pause,
    )
    try:
        code: int = args.run(session, args)
    except CliError as error:
        screen.note(str(error))
        return error.code
    except ValueError as error:  # a URL that is none, a label that cannot be sent: the client names it
        screen.note(f"{error}")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `horolog ... | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115,PTH123 - so that the interpreter's last flush has somewhere to go
        return FAILED
    finally:
        session.close()
    return code
