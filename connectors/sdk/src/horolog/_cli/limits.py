"""`set` of queues, tenants and concurrency keys: limits, changed one by one under the version that was read.

With `list` and `show` where no other module has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horolog import _calls
from horolog._cli.exits import OK, usage
from horolog._cli.options import add_watch, leaf

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

TENANT = "default"
_NONE = "none"
_NUMBERS = {"max_running": "maxRunning", "max_lease_rate": "maxLeaseRatePerSecond", "pending_cap": "pendingCap"}


def add_queue(verbs: Any) -> None:
    """Add `set` to the verbs of `queues`."""
    change = leaf(verbs, "set", set_queue, "Create a queue or change its limits; what is not named stays.")
    change.add_argument("queue")
    change.add_argument("--description")
    change.add_argument("--max-running", metavar="N", help="runs that are leased at a time; none lifts it")
    _add_rate(change)


def add(leaves: Leaves) -> None:
    """Add the nouns `tenants` and `concurrency-keys`."""
    _add_keys(leaves)
    verbs = leaves.noun("tenants", "Tenants: the limits of a team.")
    show = leaf(verbs, "show", show_tenant, "Show the limits of your tenant.")
    show.add_argument("tenant", nargs="?", default=TENANT, help=f"default: {TENANT}")
    change = leaf(verbs, "set", set_tenant, "Change the limits of your tenant; what is not named stays.")
    change.add_argument("tenant")
    change.add_argument("--pending-cap", metavar="N", help="runs that may wait; none lifts it")
    _add_rate(change)


def _add_keys(leaves: Leaves) -> None:
    verbs = leaves.noun("concurrency-keys", "Concurrency keys: limits that jobs share, whatever their queues.")
    add_watch(leaf(verbs, "list", list_keys, "List the keys of your tenant that have a limit."))
    show = leaf(verbs, "show", show_key, "Show a key's limit, and what counts against it.")
    show.add_argument("key")
    add_watch(show)
    change = leaf(verbs, "set", set_key, "Set or lift a key's limit; what is not named stays.")
    change.add_argument("key")
    change.add_argument("--description")
    change.add_argument("--max-running", metavar="N", help="units that run at a time; none lifts it")


def _add_rate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-lease-rate", metavar="N", help="runs leased a second, of each gateway; none lifts it")


def set_queue(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    given = _given(args)
    if args.description is not None:
        given["description"] = args.description
    _require(given, "queues")
    now = session.send(_calls.get_queue(args.queue))
    fields = {**now, **given}
    call = _calls.put_queue(
        args.queue,
        max_running=fields.get("maxRunning"),
        max_lease_rate_per_second=fields.get("maxLeaseRatePerSecond"),
        description=fields.get("description"),
        version=now["version"] or None,
    )
    answer = session.send(call)
    return session.tell(answer, f"Saved queue {args.queue}, version {answer['version']}. {_words(answer)}")


def list_keys(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        keys = session.send(_calls.list_concurrency_keys())["concurrencyKeys"]
        if session.as_json:
            session.screen.json(keys)
            return
        rows = [(k["key"], k["maxRunning"], k["unitsRunning"], k["runsWaiting"], k["description"]) for k in keys]
        session.screen.table(("KEY", "LIMIT", "RUNNING", "WAITING", "DESCRIPTION"), rows)

    return session.show(args.watch, picture)


def show_key(session: Session, args: argparse.Namespace) -> int:
    """See the help."""

    def picture() -> None:
        answer = session.send(_calls.get_concurrency_key(args.key))
        if session.as_json:
            session.screen.json(answer)
        else:
            session.screen.fields([(name, _NONE if value is None else value) for name, value in answer.items()])

    return session.show(args.watch, picture)


def set_key(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    given = _given(args)
    if args.description is not None:
        given["description"] = args.description
    _require(given, "concurrency-keys")
    now = session.send(_calls.get_concurrency_key(args.key))
    fields = {**now, **given}
    call = _calls.put_concurrency_key(
        args.key,
        max_running=fields.get("maxRunning"),
        description=fields.get("description"),
        version=now["version"] or None,
    )
    answer = session.send(call)
    return session.tell(answer, f"Saved concurrency key {args.key}, version {answer['version']}. {_words(answer)}")


def show_tenant(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    answer = session.send(_calls.get_tenant(args.tenant))
    if session.as_json:
        session.screen.json(answer)
    else:
        session.screen.fields([(name, _NONE if value is None else value) for name, value in answer.items()])
    return OK


def set_tenant(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    given = _given(args)
    _require(given, "tenants")
    now = session.send(_calls.get_tenant(args.tenant))
    fields = {**now, **given}
    call = _calls.put_tenant(
        args.tenant,
        pending_cap=fields.get("pendingCap"),
        max_lease_rate_per_second=fields.get("maxLeaseRatePerSecond"),
        weight=fields.get("weight"),
        version=now["version"] or None,
    )
    answer = session.send(call)
    return session.tell(answer, f"Saved tenant {args.tenant}, version {answer['version']}. {_words(answer)}")


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Give the limits that the options name. Raises CliError."""
    given: dict[str, Any] = {}
    for name, wire in _NUMBERS.items():
        text = getattr(args, name, None)
        if text is not None:
            given[wire] = _number(text, f"--{name.replace('_', '-')}")
    return given


def _number(text: str, option: str) -> float | None:
    if text == _NONE:
        return None
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        message = f"{option}: {text!r} is no number; write one, or none to lift the limit."
        raise usage(message) from None


def _require(given: dict[str, Any], noun: str) -> None:
    if not given:
        message = f"Nothing to change was named: see `horolog {noun} set --help`."
        raise usage(message)


def _words(answer: dict[str, Any]) -> str:
    limits = [(name, answer[name]) for name in _NUMBERS.values() if name in answer]
    return ", ".join(f"{name}: {_NONE if value is None else value}" for name, value in limits)
