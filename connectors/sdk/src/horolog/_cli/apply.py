"""`horolog apply -f FILE`: make the jobs what a file says; a second time nothing changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.definitions import OWNER_LABEL, read_jobs_file
from horolog._cli.exits import OK, CliError, told, usage
from horolog._cli.options import leaf
from horolog._cli.plan import CHANGE, CREATE, DELETE, KEEP, Step, plan
from horolog._cli.screen import compact
from horolog._cli.session import PAGE
from horolog._errors import HorologError
from horolog._wire import parse_time

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_STYLES = {CREATE: "green", CHANGE: "yellow", DELETE: "red", KEEP: "dim"}
_WORDS = {CREATE: "created", CHANGE: "changed", DELETE: "deleted", KEEP: "unchanged"}


def add(leaves: Leaves) -> None:
    """Add the command."""
    text = "Make the jobs what a file says (JSON; YAML with horolog[yaml])."
    apply = leaf(leaves.nouns, "apply", apply_file, text)
    apply.add_argument("-f", "--file", required=True, type=Path, metavar="FILE")
    apply.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
    apply.add_argument("--prune", action="store_true", help="delete jobs of the same owner that the file does not have")
    apply.add_argument("--owner", help=f"value of the label {OWNER_LABEL}; default: `owner` of the file")


def apply_file(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    owner, wanted = read_jobs_file(args.file, args.owner)
    if args.prune and owner is None:
        message = "--prune needs an owner, which tells this file's jobs from others: write `owner:` in it, or --owner."
        raise usage(message)
    present = {job_id: job for job_id in wanted if (job := session.find(_calls.get_job(job_id))) is not None}
    steps = plan(wanted, present, _owned(session, owner) if args.prune and owner else [])
    if args.dry_run:
        return _tell(session, [(step, step.action, None) for step in steps], dry=True)
    return _tell(session, [_carry_out(session, step) for step in steps], dry=False)


def _owned(session: Session, owner: str) -> list[dict[str, Any]]:
    def build(cursor: str | None) -> Any:
        return _calls.list_jobs(labels={OWNER_LABEL: owner}, limit=PAGE, cursor=cursor)

    return list(session.pages(build, "jobs", None))


Done = tuple[Step, str, "CliError | None"]


def _carry_out(session: Session, step: Step) -> Done:
    """Do one step; its neighbours are done whether or not it fails."""
    if step.action == KEEP:
        return step, KEEP, None
    try:
        if step.action == DELETE:
            session.try_send(_calls.delete_job(step.job_id, version=step.version))
            return step, DELETE, None
        action = _define(session, step)
        if step.pause is not None:
            _pause(session, step)
            action = CREATE if action == CREATE else CHANGE
    except HorologError as error:
        return step, step.action, told(error, session.url)
    return step, action, None


def _define(session: Session, step: Step) -> str:
    if not step.defines:
        return KEEP
    body = dict(step.definition or {})
    if isinstance(step.pause, dict):
        body["paused"] = True  # with the definition, so that nothing runs in between; who and why comes after it
    if step.action == CREATE:
        session.try_send(_calls.put_job(step.job_id, body, create_only=True))
        return CREATE
    answer = session.try_send(_calls.put_job(step.job_id, body, version=step.version))
    # The gateway has the last word on what a change is.
    return KEEP if answer["version"] == step.version else CHANGE


def _pause(session: Session, step: Step) -> None:
    if not isinstance(step.pause, dict):
        session.try_send(_calls.resume_job(step.job_id))
        return
    until = step.pause.get("until")
    at = parse_time(until) if until else None
    session.try_send(_calls.pause_job(step.job_id, note=step.pause.get("note"), until=at))


def _tell(session: Session, done: list[Done], *, dry: bool) -> int:
    errors = [(step, error) for step, _, error in done if error is not None]
    if session.as_json:
        session.screen.json({"dryRun": dry, "steps": [_document(*row) for row in done]})
    else:
        for step, action, error in done:
            _line(session, step, action, failed=error is not None)
        counts = Counter(action for _, action, error in done if error is None)
        words = ", ".join(f"{counts[action]} {word}" for action, word in _WORDS.items())
        failed = f", {len(errors)} failed" if errors else ""
        session.screen.line(f"{'Would be: ' if dry else ''}{words}{failed}.")
        if dry and set(counts) - {KEEP}:
            session.screen.line("Nothing was done: leave --dry-run out to do it.", "dim")
    if errors:
        message = "\n".join(f"{step.job_id}: {error}" for step, error in errors)
        raise CliError(errors[0][1].code, message)
    return OK


def _line(session: Session, step: Step, action: str, *, failed: bool) -> None:
    screen = session.screen
    screen.line(f"{action} {step.job_id}{'  FAILED' if failed else ''}", _STYLES[action])
    if action == KEEP:
        return
    for change in step.changes:
        screen.line(f"    {change.field}: {compact(change.before)} -> {compact(change.after)}")


def _document(step: Step, action: str, error: CliError | None) -> dict[str, Any]:
    return {
        "jobId": step.job_id,
        "action": _WORDS[action],
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in step.changes],
        "error": None if error is None else str(error),
    }
