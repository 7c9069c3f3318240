"""What several commands share of their command lines."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from horolog._cli.exits import EPILOG, USAGE, usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from horolog._cli.session import Session

WATCH_SECONDS = 2.0
WATCH_SECONDS_MIN = 0.2
LIMIT = 100


def common_options(*, suppress: bool, output: bool = True) -> argparse.ArgumentParser:
    """Give the options of every command. They may stand before the noun or behind the verb.

    Without `output` the form of output is left out: the command has a `-o FILE` of its own.
    """
    default: Any = argparse.SUPPRESS if suppress else None
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("gateway and output")
    group.add_argument("--url", default=default, help="the gateway; default HOROLOG_URL, else http://127.0.0.1:8080")
    group.add_argument("--token", default=default, help="service token; default HOROLOG_TOKEN")
    if not output:
        return parser
    group.add_argument(
        "--output",
        "-o",
        choices=["table", "json"],
        default=argparse.SUPPRESS if suppress else "table",
        help="table for people, json for programs",
    )
    return parser


class Parser(argparse.ArgumentParser):
    """Says where to read on when a command line is wrong."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}. See `{self.prog} --help`.\n")


class Leaves:
    """Where nouns and verbs are added."""

    def __init__(self, nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        self.nouns = nouns

    def noun(self, name: str, text: str) -> argparse._SubParsersAction[argparse.ArgumentParser]:
        """Add a noun; give where its verbs go."""
        parser = self.nouns.add_parser(name, help=text, description=text, epilog=EPILOG)
        return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def leaf(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[Session, argparse.Namespace], int],
    text: str,
    *,
    output: bool = True,
) -> argparse.ArgumentParser:
    """Add a command that runs something."""
    parents = [common_options(suppress=True, output=output)]
    parser = verbs.add_parser(name, help=text, description=text, epilog=EPILOG, parents=parents, allow_abbrev=False)
    parser.set_defaults(run=run)
    return parser


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add `--watch [SECONDS]`."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=WATCH_SECONDS,
        metavar="SECONDS",
        help=f"show it again every {WATCH_SECONDS:g} (or so many) seconds, until Ctrl-C",
    )


def _seconds(text: str) -> float:
    value = float(text)
    if value < WATCH_SECONDS_MIN:
        message = f"at least {WATCH_SECONDS_MIN} s"
        raise argparse.ArgumentTypeError(message)
    return value


def add_limit(parser: argparse.ArgumentParser, default: int | None = LIMIT) -> None:
    """Add `--limit`; None stands for all."""
    told = "all" if default is None else default
    parser.add_argument("--limit", type=_limit, default=default, metavar="N", help=f"at most so many; default {told}")


def _limit(text: str) -> int:
    value = int(text)
    if value < 1:
        message = "a whole number from 1"
        raise argparse.ArgumentTypeError(message)
    return value


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`, without which a dangerous command only says what it would do."""
    parser.add_argument("--yes", action="store_true", help="do it; without it nothing is changed")


def add_label(parser: argparse.ArgumentParser) -> None:
    """Add `--label KEY=VALUE`, as a filter."""
    parser.add_argument("--label", action="append", metavar="KEY=VALUE", help="only with this label; repeatable")


def labels_of(texts: list[str] | None) -> dict[str, str]:
    """Give the labels of a filter. Raises CliError."""
    labels = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            message = f"--label: write KEY=VALUE, not {text!r}."
            raise usage(message)
        labels[name] = value
    return labels
