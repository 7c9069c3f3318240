"""Crontabs, of users and of the system, to jobs. Pure: text in, jobs and remarks out.

The source of cron's own rules is the code and the manual of cronie (crontab(5)), which took them from vixie cron:

- environment lines hold for the lines below them; `%` ends the command and begins its standard input; comments stand
  on lines of their own;
- `CRON_TZ` is the zone of the lines below it; `TZ` reaches the command only;
- a fixed time in a skipped hour runs right after it, one in a repeated hour runs once: our R2. With `CRON_TZ` cron
  does neither.

cron runs a command again while it still runs, tries once and forgets what it missed, which `overlap: allow`,
`maxAttempts: 1` and `catchUp: none` say.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from horolog._cli.importers.cron_text import UTC_NAMES, VIXIE, CronText, read_cron
from horolog._cli.importers.remarks import NotTranslatableError, Translation
from horolog._wire import PAYLOAD_BYTES_MAX, to_json

TASK = "crontab-command"
JITTER_SECONDS_MAX = 86_400  # docs/http-api.md
_BLANKS = " \t"
_ALIASES = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_FIXED_ALIASES = _ALIASES - {"@hourly"}
_MINUTELY = "@every_minute"  # FreeBSD
_ENVIRONMENT = re.compile(r"""[ \t]*("[^"]*"|'[^']*'|[^ \t='"]+)[ \t]*=[ \t]*(.*)""")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*")
_MAIL = frozenset({"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
_NOT_FOR_US = frozenset({"MLS_LEVEL", "XDG_SESSION_CLASS", "START_HOURS_RANGE"})
_SLUG_CHARACTERS = 40
_HASH_CHARACTERS = 8
_FIELDS = 5


@dataclass(frozen=True)
class CrontabOptions:
    """How a crontab is read. `zone` is None where nobody named one; `prefix` begins every job id."""

    user_column: bool = False
    zone: str | None = None
    queue: str = "default"
    task: str = TASK
    prefix: str = "crontab"


@dataclass
class _State:
    """What the lines above say to the next one."""

    zone: str
    environment: dict[str, str] = field(default_factory=dict)
    cron_zone: bool = False
    jitter_seconds: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    first_words: set[str] = field(default_factory=set)


def translate_crontab(text: str, options: CrontabOptions) -> Translation:
    """Translate a crontab; whatever the text is, the result names the line of each difference and error."""
    result = Translation()
    state = _State(options.zone or "UTC")
    returns = False
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r")
        returns = returns or line != raw
        line = line.strip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        if "\0" in line:
            result.fail(number, "a NUL; this is no crontab")
            continue
        assignment = _ENVIRONMENT.fullmatch(line)
        try:
            if assignment is not None:
                _environment(result, state, number, assignment)
            else:
                _entry(result, state, number, line, options)
        except NotTranslatableError as error:
            result.fail(number, str(error))
    if returns:
        result.note(0, "lines end in CR LF; the CR, which cron would hand to the command, is removed")
    _about_the_file(result, state, options)
    return result


def _about_the_file(result: Translation, state: _State, options: CrontabOptions) -> None:
    if not result.jobs:
        return
    if options.zone is None and any(job["schedule"]["timeZone"] == "UTC" for job in result.jobs):
        result.note(0, "cron takes the host's zone, which the file does not say: UTC is taken; give --zone ZONE")
    result.note(
        0,
        "as in cron, a run starts while the last one still runs (overlap: allow), is tried once (maxAttempts: 1: a "
        "worker that dies ends it), and missed runs are forgotten (catchUp: none); change these where you want more",
    )
    result.note(
        0,
        "the command, its environment and its input are the payload, which whoever may read jobs can read; a worker "
        f"with a handler {options.task!r} has to run it, with its own account, HOME, LOGNAME and PATH "
        "(docs/migrating.md shows one)",
    )
    if not options.user_column and state.first_words == {"root"}:
        result.note(0, "every command begins with root: if this is a system crontab, give --user-column")


# --- environment --------------------------------------------------------------------------------------


def _environment(result: Translation, state: _State, number: int, match: re.Match[str]) -> None:
    name, value = _unquoted(match[1]), _unquoted(match[2])
    if name == "CRON_TZ":
        state.zone, state.cron_zone = _zone(value), True
        return
    if name == "RANDOM_DELAY":
        _random_delay(result, state, number, value)
        return
    if name in _MAIL:
        if name == "MAILTO" and not value:
            return  # no mail was wanted, and none is sent
        result.note(number, f"{name}: output is not mailed; a worker keeps it as the run's result or error")
        return
    if name in _NOT_FOR_US:
        result.note(number, f"{name}: has no meaning here and is dropped")
        return
    if name == "TZ":
        result.note(number, "TZ: reaches the command and does not move the schedule, as in cron; CRON_TZ or --zone do")
    if "$" in value:
        result.note(number, f"{name}: cron does not expand $ in a value, and neither may the worker")
    state.environment[name] = value


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text


def _zone(value: str) -> str:
    name = value.removeprefix(":")
    if _ZONE.fullmatch(name) is None:
        message = f"CRON_TZ: {value[:60]!r} is no IANA time zone; write one such as Europe/Berlin"
        raise NotTranslatableError(message)
    return name


def _random_delay(result: Translation, state: _State, number: int, value: str) -> None:
    if re.fullmatch(r"[0-9]{1,5}", value) is None:
        message = f"RANDOM_DELAY: {value[:40]!r} is no number of minutes"
        raise NotTranslatableError(message)
    state.jitter_seconds = min(int(value) * 60, JITTER_SECONDS_MAX)
    if state.jitter_seconds:
        result.note(
            number,
            f"RANDOM_DELAY: jitterSeconds {state.jitter_seconds}; cron draws one delay when it starts, here each "
            "occurrence has its own, known beforehand",
        )


# --- entries ------------------------------------------------------------------------------------------


def _entry(result: Translation, state: _State, number: int, line: str, options: CrontabOptions) -> None:
    notes: list[str] = []
    if line.startswith("-"):
        line = line[1:].lstrip(_BLANKS)
        notes.append("the leading - (do not log) has no meaning here and is dropped")
    columns = 1 if line.startswith("@") else _FIELDS
    parts = re.split(r"[ \t]+", line, maxsplit=columns + options.user_column)
    if len(parts) <= columns + options.user_column:
        wanted = "a user and a command" if options.user_column else "a command"
        message = f"{len(parts)} words; write {'an @name' if columns == 1 else 'five fields'}, then {wanted}"
        raise NotTranslatableError(message)
    user = parts[columns] if options.user_column else None
    written = parts[-1]
    state.first_words.add(re.split(r"[ \t]", written, maxsplit=1)[0])
    if columns == 1 and parts[0].lower() == "@reboot":
        result.leave_out(
            number, "@reboot: runs when cron starts; Horolog starts nothing with a host: use its service manager"
        )
        return
    cron = _alias(parts[0]) if columns == 1 else read_cron(parts[:_FIELDS], VIXIE, notes.append)
    if cron.never:
        result.leave_out(
            number, f"{cron.expression}: no such day exists; cron never runs it, and neither would Horolog"
        )
        return
    _clock_change_notes(cron, state, notes)
    payload = _payload(state, user, written, notes)
    job = _job(state, options, cron, _job_id(state, options.prefix, user, written), payload)
    for note in notes:
        result.note(number, note)
    result.jobs.append(job)


def _alias(text: str) -> CronText:
    name = text.lower()
    if name == _MINUTELY:
        return CronText("* * * * *", fixed=False, crowded=False, never=False)
    if name not in _ALIASES:
        message = f"{text[:40]} is not one of @reboot, {', '.join(sorted(_ALIASES))}"
        raise NotTranslatableError(message)
    return CronText(name, fixed=name in _FIXED_ALIASES, crowded=False, never=False)


def _clock_change_notes(cron: CronText, state: _State, notes: list[str]) -> None:
    """Say where a night of a clock change goes another way. Without CRON_TZ cron and R2, R3 agree but for R6."""
    if not cron.fixed or state.zone in UTC_NAMES:
        return
    if state.cron_zone:
        notes.append(
            "with CRON_TZ cron leaves out a time in a skipped hour and runs one in a repeated hour twice; here it runs "
            "once in both (R2); `gap: skip` and `overlapHour: both` in the schedule keep cron's way"
        )
    elif cron.crowded:
        notes.append(
            "when a skipped hour moves two of its times to one instant, cron runs both, here that is one run (R6)"
        )


def _payload(state: _State, user: str | None, written: str, notes: list[str]) -> dict[str, Any]:
    command, stdin = split_percent(written)
    if stdin is not None:
        notes.append("text behind % is the command's standard input: it is payload.stdin")
    if not command.strip(_BLANKS):
        message = "no command stands before the first %"
        raise NotTranslatableError(message)
    payload: dict[str, Any] = {"command": command}
    if stdin is not None:
        payload["stdin"] = stdin
    if user is not None:
        payload["user"] = user
    if state.environment:
        payload["environment"] = dict(state.environment)
    size = len(to_json(payload).encode("utf-8", "surrogatepass"))
    if size > PAYLOAD_BYTES_MAX:
        message = f"command and environment are {size} bytes, at most {PAYLOAD_BYTES_MAX}; put them into a script"
        raise NotTranslatableError(message)
    return payload


def _job(
    state: _State, options: CrontabOptions, cron: CronText, job_id: str, payload: dict[str, Any]
) -> dict[str, Any]:
    job: dict[str, Any] = {
        "jobId": job_id,
        "name": job_id,
        "queue": options.queue,
        "task": options.task,
        "schedule": {"cron": cron.expression, "timeZone": state.zone},
        "payload": payload,
        "retry": {"maxAttempts": 1},
        "catchUp": "none",
        "overlap": "allow",
    }
    if state.jitter_seconds:
        job["jitterSeconds"] = state.jitter_seconds
    return job


def _job_id(state: _State, prefix: str, user: str | None, written: str) -> str:
    """Make an id from user and command, so that a line keeps it when its schedule or its place changes."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", written.lower())[:_SLUG_CHARACTERS].strip("-")
    content = f"{user or ''}\0{written}".encode("utf-8", "surrogatepass")
    job_id = "-".join(part for part in (prefix, slug, hashlib.sha256(content).hexdigest()[:_HASH_CHARACTERS]) if part)
    count = state.seen[job_id] = state.seen.get(job_id, 0) + 1
    return job_id if count == 1 else f"{job_id}-{count}"


_ESCAPED = re.compile(r"\\.|%", re.DOTALL)


def split_percent(written: str) -> tuple[str, str | None]:
    r"""Split a command at its first bare `%`; `\%` is a percent sign, further bare ones are newlines (crontab(5)).

    A backslash before anything else stays, and takes that character with it: in `\\%` the percent sign is bare.
    """
    bare = next((match.start() for match in _ESCAPED.finditer(written) if match[0] == "%"), None)
    command = _ESCAPED.sub(lambda match: "%" if match[0] == "\\%" else match[0], written[:bare])
    if bare is None:
        return command, None
    stdin = re.sub(r"(?<!\\)%", "\n", written[bare + 1 :]).replace("\\%", "%")
    return command, stdin if stdin.endswith("\n") else stdin + "\n"
