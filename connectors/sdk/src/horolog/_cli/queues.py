"""`horolog queues ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli import limits
from horolog._cli.options import add_watch, leaf

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session


def add(leaves: Leaves) -> None:
    """Add the commands."""
    verbs = leaves.noun("queues", "Queues: lines of runs, and the workers that wait for them.")
    add_watch(leaf(verbs, "list", list_queues, "List the queues of your tenant."))
    show = leaf(verbs, "show", show_queue, "Show a queue: what waits, and who polls.")
    show.add_argument("queue")
    add_watch(show)
    limits.add_queue(verbs)


def _waiting(queue: dict[str, Any]) -> int | None:
    ready = queue.get("ready")
    return None if ready is None else sum(ready.values())


def list_queues(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        queues = session.send(_calls.list_queues())["queues"]
        if session.as_json:
            session.screen.json(queues)
            return
        rows = [
            (q["queue"], _waiting(q), q.get("leased"), q.get("workersPolling"), q.get("slotsPolling")) for q in queues
        ]
        session.screen.table(("QUEUE", "READY", "LEASED", "POLLING CALLS", "FREE SLOTS"), rows)

    return session.show(args.watch, picture)


def show_queue(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        queue = session.send(_calls.get_queue(args.queue))
        if session.as_json:
            session.screen.json(queue)
            return
        session.screen.fields(list(queue.items()))
        if queue.get("workersPolling") == 0 and _waiting(queue):
            session.screen.note("Runs wait and no worker polls here: start one with `horolog worker run MODULE`.")

    return session.show(args.watch, picture)
