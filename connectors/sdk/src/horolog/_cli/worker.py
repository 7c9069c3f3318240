"""`horolog worker run MODULE[:attr]`: run the worker that a module defines."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from horolog._cli.exits import OK, told, usage
from horolog._cli.options import leaf
from horolog._errors import HorologError
from horolog._worker import Worker

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_ATTRIBUTE = "worker"
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def add(leaves: Leaves) -> None:
    """Add the command."""
    verbs = leaves.noun("worker", "Workers: processes that execute runs.")
    run = leaf(verbs, "run", run_worker, "Run the worker of a module until SIGTERM or Ctrl-C, then drain.")
    run.add_argument("module", metavar="MODULE[:ATTR]", help="package.module or path/to/file.py; ATTR default: worker")
    run.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])


def run_worker(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    # A module that reads HOROLOG_URL and HOROLOG_TOKEN hears of --url and --token.
    os.environ["HOROLOG_URL"] = session.url
    if session.token is not None:
        os.environ["HOROLOG_TOKEN"] = session.token
    logging.basicConfig(level=args.log_level, format=_FORMAT, stream=sys.stderr)
    worker = find_worker(args.module)
    queues = ", ".join(worker.queues)
    session.screen.note(f"Worker {worker.worker_id}: queue {queues}, tasks {', '.join(worker.tasks)}. Ctrl-C drains.")
    try:
        worker.run()
    except HorologError as error:
        raise told(error, session.url) from error
    return OK


def find_worker(name: str) -> Worker:
    """Give the worker that MODULE[:ATTR] names. Raises CliError."""
    path, colon, attribute = name.rpartition(":")
    if not colon:
        path, attribute = name, ""
    module = _load(path)
    if attribute:
        worker = getattr(module, attribute, None)
        if not isinstance(worker, Worker):
            message = f"{path} has no Worker named {attribute}; write {attribute} = horolog.Worker(...) in it."
            raise usage(message)
        return worker
    found = {key: value for key, value in vars(module).items() if isinstance(value, Worker)}
    if _ATTRIBUTE in found:
        return found[_ATTRIBUTE]
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(sorted(found)) or "none"
    message = f"{path} has these workers: {names}. Name one with {path}:ATTR."
    raise usage(message)


def _load(path: str) -> ModuleType:
    if path.endswith(".py"):
        return _load_file(Path(path))
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not (path == error.name or path.startswith(f"{error.name}.")):
            raise
        message = f"There is no module {path} here ({Path.cwd()}) or installed. A file is named with its .py."
        raise usage(message) from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        message = f"There is no file {path}."
        raise usage(message)
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        message = f"{path} cannot be loaded as Python."
        raise usage(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as an import would: annotations and pickles look it up there
    spec.loader.exec_module(module)
    return module
