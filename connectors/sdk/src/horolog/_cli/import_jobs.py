"""`horolog import crontab|kubernetes`: a file of jobs for `horolog apply`, and every difference on standard error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horolog._cli.documents import add_file_options, parse_documents, read_text, write_document
from horolog._cli.exits import OK, usage
from horolog._cli.importers import crontab, kubernetes
from horolog._cli.importers.crontab import CrontabOptions, translate_crontab
from horolog._cli.importers.kubernetes import KubernetesOptions, translate_cronjobs
from horolog._cli.importers.remarks import ERROR, LEFT_OUT, NOTE, Translation
from horolog._cli.options import leaf

if TYPE_CHECKING:
    import argparse

    from horolog._cli.options import Leaves
    from horolog._cli.session import Session

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")  # leaves room for the rest of a job id


def add(leaves: Leaves) -> None:
    """Add the commands."""
    verbs = leaves.noun("import", "Translate crontabs and Kubernetes CronJobs into a file of jobs; nothing is sent.")
    tab = leaf(verbs, "crontab", import_crontab, "Translate a crontab (- is standard input).", output=False)
    tab.add_argument("file", type=Path, metavar="FILE")
    tab.add_argument("--user-column", action="store_true", help="a user stands before each command, as in /etc/crontab")
    tab.add_argument("--prefix", default="crontab", help="begins every job id, for instance the host; default crontab")
    _add_common(tab, "of the host that the crontab is from; CRON_TZ lines go before it", crontab.TASK)
    cluster = leaf(verbs, "kubernetes", import_kubernetes, "Translate CronJob manifests, YAML or JSON.", output=False)
    cluster.add_argument("files", type=Path, nargs="+", metavar="FILE")
    _add_common(cluster, "of CronJobs without timeZone: that of the cluster's controller manager", kubernetes.TASK)


def _add_common(parser: argparse.ArgumentParser, zone: str, task: str) -> None:
    parser.add_argument("--zone", metavar="ZONE", help=f"IANA time zone {zone}; default UTC")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--task", default=task, help=f"the worker's handler; default {task}")
    parser.add_argument("--owner", help="`owner` of the file, for `apply --prune`")
    add_file_options(parser)


def import_crontab(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    if _PREFIX.fullmatch(args.prefix) is None:
        message = "--prefix: write 1 to 40 letters, digits, '.', '_', ':' and '-', first a letter or digit."
        raise usage(message)
    options = CrontabOptions(
        user_column=args.user_column, zone=args.zone, queue=args.queue, task=args.task, prefix=args.prefix
    )
    return _finish(session, args, [(args.file, translate_crontab(read_text(args.file), options))])


def import_kubernetes(session: Session, args: argparse.Namespace) -> int:
    """See the help."""
    options = KubernetesOptions(zone=args.zone, queue=args.queue, task=args.task)
    done = [(path, translate_cronjobs(parse_documents(path, read_text(path)), options)) for path in args.files]
    return _finish(session, args, done)


def _finish(session: Session, args: argparse.Namespace, done: list[tuple[Path, Translation]]) -> int:
    """Tell the remarks; write the jobs if everything could be read. Raises CliError."""
    general: set[str] = set()
    for path, translation in done:
        for line, kind, text in translation.remarks:
            if line == 0 and text in general:
                continue  # what holds for all files is told once
            general.add(text)
            session.screen.note(f"{path}:{f'{line}:' if line else ''} {kind}: {text}")
    jobs: list[dict[str, Any]] = [job for _, translation in done for job in translation.jobs]
    counts = {kind: sum(translation.count(kind) for _, translation in done) for kind in (NOTE, LEFT_OUT, ERROR)}
    if counts[ERROR]:
        message = f"{counts[ERROR]} errors: nothing was written. Correct or remove what they name."
        raise usage(message)
    _refuse_twins(jobs)
    document: dict[str, Any] = {"jobs": jobs} if args.owner is None else {"owner": args.owner, "jobs": jobs}
    write_document(session, args, document)
    session.screen.note(f"{len(jobs)} jobs, {counts[LEFT_OUT]} left out, {counts[NOTE]} notes.")
    return OK


def _refuse_twins(jobs: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for job in jobs:
        if job["jobId"] in seen:
            message = f"{job['jobId']} comes in two files; give each CronJob a namespace or a name of its own."
            raise usage(message)
        seen.add(job["jobId"])
