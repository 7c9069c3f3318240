"""`horolog jobs bulk pause|resume|delete` and `horolog undo`: many jobs by filter, and taking that back.

What would be done is shown first; `--yes` does it. Undo tokens are too long for a command line, so they go to a file,
which is opened before anything is changed.
"""

from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.documents import read_text
from horolog._cli.exits import CliError, code_of_items, usage
from horolog._cli.instants import read_instant
from horolog._cli.options import add_label, add_limit, add_yes, labels_of, leaf
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_PAGE = 1_000  # docs/http-api.md section 2: of one call
_DONE = {"pause": "paused", "resume": "resumed", "delete": "deleted", "undo": "brought back"}


def add(verbs: Any) -> None:
    """Add `bulk` to the verbs of `jobs`."""
    text = "Pause, resume or delete all jobs that match; shows them first, --yes does it."
    parser = verbs.add_parser("bulk", help=text, description=text)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for action, words in (
        ("pause", "Pause all jobs that match."),
        ("resume", "Resume all paused jobs that match."),
        ("delete", "Delete all jobs that match."),
    ):
        change = leaf(actions, action, change_jobs, f"{words} Without --yes it only shows them.")
        change.set_defaults(action=action)
        change.add_argument("job", nargs="*", help="only these")
        change.add_argument("--queue")
        change.add_argument("--prefix", help="only names that begin so")
        change.add_argument("--text", help="only with this in the name, task or id")
        add_label(change)
        change.add_argument("--note", help="why; kept with the jobs and in history")
        change.add_argument("--actor", help="who; default: the token's name")
        if action == "pause":
            change.add_argument("--until", metavar="TIME", help="resume then (no offset: UTC)")
        add_limit(change, default=None)
        change.add_argument("--undo-file", type=Path, metavar="FILE", help="default: horolog-undo-ID.json")
        add_yes(change)


def add_undo(leaves: Leaves) -> None:
    """Add the command `undo`."""
    text = "Take a bulk change back, where nobody changed the jobs since."
    undo = leaf(leaves.nouns, "undo", undo_change, text)
    undo.add_argument("file", type=Path, metavar="FILE", help="what `jobs bulk` has written; - is standard input")


def change_jobs(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    fields = _fields(args)
    tokens = _Tokens(session, args, fields["idempotency_key"])
    items, more = _carry_out(session, args, fields, tokens)
    tokens.close()
    document = {"action": args.action, "dryRun": not args.yes, "jobs": items, "more": more}
    if args.yes:
        document["undoTokens"] = tokens.tokens
    _show(session, args.action, document)
    if not session.as_json and more:
        session.screen.note(f"There are more than {args.limit}: give a larger --limit.")
    if not session.as_json and tokens.tokens:
        session.screen.line(f"Take it back with: horolog undo {tokens.path}", "dim")
    return code_of_items(items)


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    """Give what the options say, in the client's words. Raises CliError."""
    labels = labels_of(args.label)
    if not (args.job or args.queue or args.prefix or args.text or labels):
        message = "Say which jobs: name them, or give --queue, --label, --prefix or --text."
        raise usage(message)
    until: str | None = getattr(args, "until", None)
    return {
        "queue": args.queue,
        "labels": labels or None,
        "text": args.text,
        "name_prefix": args.prefix,
        "job_ids": args.job or None,
        "dry_run": not args.yes,
        "note": args.note,
        "actor": args.actor,
        "until": None if until is None else parse_time(read_instant(until, "UTC", "--until")),
        "idempotency_key": uuid.uuid4().hex,  # of all pages: they have one correlation id
    }


def _carry_out(
    session: Session, args: argparse.Namespace, fields: dict[str, Any], tokens: _Tokens
) -> tuple[list[dict[str, Any]], bool]:
    """Do it page by page; give what became of each job, and whether there are more. Raises CliError."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    limit = args.limit or math.inf
    while len(items) < limit:
        page = int(min(limit - len(items), _PAGE))
        try:
            answer = session.send(_calls.change_jobs(args.action, limit=page, cursor=cursor, **fields))
        except CliError as error:
            told = f"\n{len(items)} jobs were changed before; take them back with: horolog undo {tokens.path}"
            raise CliError(error.code, f"{error}{told if tokens.tokens and tokens.path else ''}") from error
        items += answer["jobs"]
        if args.yes:
            tokens.add(answer.get("undoToken"))
        cursor = answer.get("nextCursor")
        if cursor is None:
            break
    return items, cursor is not None


class _Tokens:
    """The undo tokens of a change, in a file from the first page on."""

    def __init__(self, session: Session, args: argparse.Namespace, key: str) -> None:
        self.tokens: list[str] = []
        wanted: Path | None = args.undo_file if args.yes else None
        if args.yes and wanted is None and not session.as_json:
            wanted = Path(f"horolog-undo-{key[:12]}.json")
        self.path = wanted
        if wanted is not None:
            try:
                wanted.touch(exist_ok=False)
            except OSError as error:
                message = f"--undo-file: {wanted} cannot be made ({error.strerror}); nothing was changed. Name another."
                raise usage(message) from None

    def close(self) -> None:
        """Leave no file where there is nothing to take back."""
        if self.path is not None and not self.tokens:
            self.path.unlink(missing_ok=True)

    def add(self, token: str | None) -> None:
        """Keep the token of a page."""
        if token is not None:
            self.tokens.append(token)
        if self.path is not None:
            self.path.write_text(json.dumps({"undoTokens": self.tokens}) + "\n", encoding="utf-8")


def undo_change(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    try:
        tokens = json.loads(read_text(args.file))["undoTokens"]
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError  # noqa: TRY301 - told below, with the others
    except (ValueError, KeyError, TypeError):
        message = f"{args.file} holds no undo tokens; give the file that `horolog jobs bulk ... --yes` has written."
        raise usage(message) from None
    items: list[dict[str, Any]] = []
    for token in reversed(tokens):
        items += session.send(_calls.undo_change(token))["jobs"]
    _show(session, "undo", {"action": "undo", "dryRun": False, "jobs": items, "more": False})
    return code_of_items(items)


def _show(session: Session, action: str, document: dict[str, Any]) -> None:
    if session.as_json:
        session.screen.json(document)
        return
    items, dry_run = document["jobs"], document["dryRun"]
    rows = [(item["jobId"], _what(item, action), item.get("detail")) for item in items]
    session.screen.table(("JOB", "OUTCOME", "WHY"), rows)
    done = sum(item["ok"] is True for item in items)
    if not items:
        session.screen.line("No job matches, or all are so already.")
    elif dry_run:
        session.screen.line(f"{len(items)} jobs would be {_DONE[action]}. Nothing was done: add --yes to do it.")
    else:
        session.screen.line(f"{done} of {len(items)} jobs {_DONE[action]}.")


def _what(item: dict[str, Any], action: str) -> str:
    if item["ok"] is None:
        return f"would be {_DONE[action]}"
    return _DONE[action] if item["ok"] else str(item.get("code") or "failed")
