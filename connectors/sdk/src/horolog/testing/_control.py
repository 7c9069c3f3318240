"""What people do to the fake's jobs and runs: pause, trigger, skip, backfill, replay, bulk changes and undo.

Answers and refusals are those of docs/http-api.md; tests/api/test_sdk_contract.py asks the real gateway the same.
Backfills and skips know intervals and single instants only, as previews do.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horolog._wire import parse_time, to_json
from horolog.testing._memory import FakeJob, FakeRun, Memory, ProblemError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LIVE = ("schedule", "trigger")  # what overlap is judged on
_BACKFILL_SLOTS_MAX = 10_000  # of one range; the fake lists them
_BULK_MAX = 1_000
_REPLAYS_SHOWN = 100


@dataclass
class FakeBackfill:
    """A range that is being opened; `slots` are the instants that are left."""

    backfill_id: str
    job_id: str
    slots: list[str]
    start: str
    to: str
    max_concurrent: int
    rate_per_second: float | None
    answer: dict[str, Any]
    started_at: str
    opened: int = 0
    ended_by: str | None = None
    ended_at: str | None = None
    runs: list[str] = field(default_factory=list)


class Control:
    """Commands on a `Memory`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._numbers = itertools.count(1)
        self.backfills: dict[str, FakeBackfill] = {}

    def tick(self) -> None:
        """End pauses that are over, open what backfills have room for."""
        now = self._memory.wall()
        for job in self._memory.jobs.values():
            until = (job.paused or {}).get("until")
            if until is not None and until <= now:
                job.paused = None
        for backfill in self.backfills.values():
            self._open_slots(backfill)

    # --- one job ---

    def job(self, job_id: str) -> FakeJob:
        """Return a job that may be acted on; raises ProblemError."""
        job = self._memory.known_job(job_id)
        if job.state == "deleted":
            raise ProblemError(409, "job_finished", "jobId: the job was deleted", field="jobId")
        return job

    def pause(self, job_id: str, body: Mapping[str, Any]) -> FakeJob:
        """Pause a job."""
        job = self.job(job_id)
        until = body.get("until")
        if until is not None and parse_time(until) <= parse_time(self._memory.wall()):
            raise ProblemError(422, "invalid_field", "until: lies in the past; name a later instant", field="until")
        asked = {"actor": body.get("actor") or "anonymous", "note": body.get("note", ""), "until": until}
        if job.paused is None or asked != {name: job.paused[name] for name in asked}:
            job.paused = {"since": self._memory.wall(), **asked}
        return job

    def resume(self, job_id: str) -> FakeJob:
        """Resume a job."""
        job = self.job(job_id)
        job.paused = None
        return job

    def trigger(self, job_id: str, body: Mapping[str, Any], key: str | None) -> FakeRun:
        """Open a run now, by pause and overlap unless forced; the same key finds the same run."""
        job, runs = self.job(job_id), self._memory.runs
        run_id = f"run_{job_id}_t-{_digest(job_id, key) if key else next(self._numbers)}"
        if run_id in runs:
            return runs[run_id]
        force = bool(body.get("force"))
        if job.paused and not force:
            raise ProblemError(409, "job_paused", "the job is paused; resume it or use force", field="jobId")
        live = [run for run in self._open_runs(job_id) if run.origin in _LIVE]
        if live and not force and job.definition["overlap"] == "skip":
            detail = f"run {live[0].run_id} is open; wait for it, or use force"
            raise ProblemError(409, "overlap", detail, blockedBy=live[0].run_id)
        run = self._memory.open_run(job, run_id, origin="trigger", scheduled_for=self._memory.wall())
        if "payload" in body:
            run.payload = body["payload"]
        return run

    def skip(self, job_id: str, body: Mapping[str, Any], version: int | None) -> dict[str, Any]:
        """Leave out one occurrence that is still to come."""
        job = self.job(job_id)
        if version is not None and version != job.version:
            raise self._memory.version_mismatch(job)
        at = _instant(body.get("at"), "at")
        run_id = f"run_{job_id}_{_stamp(at)}"
        run = self._memory.runs.get(run_id)
        if run is not None and run.state != "closed":
            raise ProblemError(409, "overlap", "the run is open already; cancel it instead", blockedBy=run_id)
        if at <= self._memory.wall():
            detail = "at: the instant lies behind the next occurrence"
            raise ProblemError(409, "slot_decided", detail, field="at", outcome=run.outcome if run else None)
        if at not in self._occurrences(job, at, 1):
            raise ProblemError(422, "invalid_field", "at: the schedule has no occurrence at this instant", field="at")
        job.skipped.add(at)
        return {"jobId": job_id, "runId": run_id, "at": at, "nextRunAt": self._memory.next_run_at(job)}

    # --- backfills ---

    def backfill(self, job_id: str, body: Mapping[str, Any], key: str | None) -> tuple[dict[str, Any], int]:
        """Begin a backfill, or count what it would open; give the answer and its status."""
        job = self.job(job_id)
        start, end = _instant(body.get("from"), "from"), _instant(body.get("to"), "to")
        if end <= start or end > self._memory.wall():
            raise ProblemError(422, "invalid_field", "to: must lie behind from and not in the future", field="to")
        slots = [at for at in self._occurrences(job, start, _BACKFILL_SLOTS_MAX) if at < end]
        if not slots:
            detail = "from: the schedule has no occurrence in this range"
            raise ProblemError(422, "invalid_field", detail, field="from")
        answer = {"jobId": job_id, "runs": len(slots), "firstAt": slots[0], "lastAt": slots[-1]}
        if body.get("dryRun"):
            return {"backfillId": None, **answer}, 200
        backfill_id = f"b-{_digest(job_id, key) if key else next(self._numbers)}"
        if backfill_id not in self.backfills:
            self.backfills[backfill_id] = FakeBackfill(
                backfill_id,
                job_id,
                slots,
                start=start,
                to=end,
                max_concurrent=int(body.get("maxConcurrent") or 1),
                rate_per_second=body.get("ratePerSecond"),
                answer=answer,
                started_at=self._memory.wall(),
            )
            self.tick()
        return {"backfillId": backfill_id, **self.backfills[backfill_id].answer}, 201

    def list_backfills(self, job_id: str) -> dict[str, Any]:
        """Return the backfills of a job, those that are going first."""
        self._memory.known_job(job_id)
        of_job = [backfill for backfill in self.backfills.values() if backfill.job_id == job_id]
        ordered = sorted(of_job, key=lambda backfill: backfill.ended_by is not None)
        return {"jobId": job_id, "backfills": [self._backfill_object(backfill) for backfill in ordered]}

    def stop_backfill(self, job_id: str, backfill_id: str) -> dict[str, Any]:
        """End a backfill; what it opened stays."""
        self.job(job_id)
        backfill = self.backfills.get(backfill_id)
        if backfill is None or backfill.job_id != job_id:
            detail = f"backfillId: there is no backfill {backfill_id!r} of this job"
            raise ProblemError(404, "unknown_backfill", detail, field="backfillId")
        self._end(backfill, "stopped")
        return {"backfillId": backfill_id, "jobId": job_id, "state": "ended"}

    def _end(self, backfill: FakeBackfill, why: str) -> None:
        if backfill.ended_by is None:
            backfill.ended_by, backfill.ended_at = why, self._memory.wall()

    def _going(self, backfill: FakeBackfill) -> int:
        return sum(self._memory.runs[run_id].state != "closed" for run_id in backfill.runs)

    def _open_slots(self, backfill: FakeBackfill) -> None:
        job = self._memory.jobs[backfill.job_id]
        if job.state == "deleted":
            self._end(backfill, "deleted")
        while backfill.ended_by is None and backfill.slots and job.paused is None:
            if self._going(backfill) >= backfill.max_concurrent:
                break
            at = backfill.slots.pop(0)
            run_id = f"run_{job.job_id}_{backfill.backfill_id}.{backfill.opened}"
            self._memory.open_run(job, run_id, origin="backfill", scheduled_for=at).lane = "low"
            backfill.runs.append(run_id)
            backfill.opened += 1
        if not backfill.slots:
            self._end(backfill, "completed")

    def _backfill_object(self, backfill: FakeBackfill) -> dict[str, Any]:
        ended = backfill.ended_by is not None
        return {
            "backfillId": backfill.backfill_id,
            "state": "ended" if ended else "running",
            "endedBy": backfill.ended_by,
            "runs": backfill.answer["runs"],
            "opened": backfill.opened,
            "open": self._going(backfill),
            "remaining": len(backfill.slots),
            "nextAt": None if ended else backfill.slots[0],
            "from": backfill.start,
            "to": backfill.to,
            "maxConcurrent": backfill.max_concurrent,
            "ratePerSecond": backfill.rate_per_second,
            "startedAt": backfill.started_at,
            "endedAt": backfill.ended_at,
        }

    # --- dead runs ---

    def replay(self, run_id: str) -> FakeRun:
        """Open a new run for a dead one; a repeat finds it."""
        old = self._memory.run(run_id)
        new_id = f"run_{old.job_id}_r-{_digest('replay', run_id)}"
        if new_id in self._memory.runs:
            return self._memory.runs[new_id]
        if old.outcome != "dead":
            detail = "runId: the run is not dead; only dead runs can be replayed, once each"
            raise ProblemError(409, "run_closed", detail, field="runId", outcome=old.outcome)
        old.replayed = True
        return self._memory.copy_run(old, new_id)

    def replay_many(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replay the dead runs that match, or tell which would be."""
        if not any(body.get(name) for name in ("queue", "jobId", "labels", "text", "deadFrom", "deadUntil")):
            raise ProblemError(422, "missing_field", "queue: name at least one condition", field="queue")
        limit, dry_run = int(body.get("limit") or _REPLAYS_SHOWN), bool(body.get("dryRun", True))
        dead = [run for run in self._memory.runs.values() if run.outcome == "dead" and not run.replayed]
        chosen = [run for run in dead if self._run_matches(run, body)]
        items: list[dict[str, Any]] = [{"runId": run.run_id, "ok": None} for run in chosen[:limit]]
        if not dry_run:
            items = [{"runId": run.run_id, "ok": True, "newRunId": self.replay(run.run_id).run_id} for run in chosen]
        return {
            "matched": len(items),
            "replayed": sum(item["ok"] is True for item in items),
            "dryRun": dry_run,
            "runs": [item["runId"] for item in items[:_REPLAYS_SHOWN]],
            "items": items,
            "nextCursor": None,
        }

    def _run_matches(self, run: FakeRun, body: Mapping[str, Any]) -> bool:
        job = self._memory.jobs.get(run.job_id)
        closed_at = run.closed_at or ""
        return (
            body.get("queue", run.queue) == run.queue
            and body.get("jobId", run.job_id) == run.job_id
            and (body.get("labels") or {}).items() <= run.labels.items()
            and (not body.get("text") or (job is not None and has_text(job, body["text"])))
            and closed_at >= body.get("deadFrom", "")
            and ("deadUntil" not in body or closed_at < body["deadUntil"])
        )

    # --- bulk changes ---

    def change(self, action: str, body: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """Pause, resume or delete the jobs that a filter names."""
        wanted = {name: value for name, value in (body.get("filter") or {}).items() if value}
        if not wanted:
            raise ProblemError(422, "missing_field", "filter: name at least one condition", field="filter")
        if "until" in body and action != "pause":
            raise ProblemError(422, "unknown_field", "until: belongs to a pause; remove it", field="until")
        correlation = f"c-{_digest(action, key) if key else next(self._numbers)}"
        start, limit = int(body.get("cursor") or 0), int(body.get("limit") or _BULK_MAX)
        fitting = [job for job in self._memory.jobs.values() if _fits(job, action) and _matches(job, wanted)]
        chosen = fitting[start : start + limit]
        note = f"{body.get('note', '')} [bulk {correlation}]".strip()
        before = [{"jobId": job.job_id, "paused": job.paused} for job in chosen]
        dry_run = bool(body.get("dryRun", True))
        if not dry_run:
            for job in chosen:
                self._do(action, job.job_id, {**body, "note": note})
        # What was changed no longer fits, so that the next page begins where this one began.
        after = start + (limit if dry_run else 0)
        return {
            "correlationId": correlation,
            "action": action,
            "dryRun": dry_run,
            "matched": len(chosen),
            "changed": 0 if dry_run else len(chosen),
            "jobs": [{"jobId": job.job_id, "ok": None if dry_run else True} for job in chosen],
            "nextCursor": str(after) if len(fitting) > start + limit else None,
            "undoToken": _token({"action": action, "id": correlation, "jobs": before}) if chosen else None,
        }

    def _do(self, action: str, job_id: str, body: Mapping[str, Any]) -> None:
        actions: Mapping[str, Callable[[], object]] = {
            "pause": lambda: self.pause(job_id, body),
            "resume": lambda: self.resume(job_id),
            "delete": lambda: self._memory.delete_job(job_id, version=None),
        }
        actions[action]()

    def undo(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take a bulk change back, where nobody changed the job since."""
        note = _read_token(str(body.get("undoToken", "")))
        items = [self._undo_one(note, before) for before in note["jobs"]]
        return {
            "correlationId": note["id"],
            "action": "undo",
            "dryRun": False,
            "matched": len(items),
            "changed": sum(item["ok"] for item in items),
            "jobs": items,
            "nextCursor": None,
            "undoToken": None,
        }

    def _undo_one(self, note: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        job = self._memory.jobs[before["jobId"]]
        standing = _standing(job)
        if note["action"] == "pause" and standing == "paused" and note["id"] in (job.paused or {}).get("note", ""):
            job.paused = None
        elif note["action"] == "resume" and standing == "active":
            job.paused = before["paused"]
        elif note["action"] == "delete" and standing == "deleted":
            self._memory.define_again(job)
            job.paused = before["paused"]
        elif standing == {"pause": "paused", "resume": "active", "delete": "deleted"}[note["action"]]:
            detail = "changed since; left as it is"
            return {"jobId": job.job_id, "ok": False, "code": "version_mismatch", "detail": detail}
        return {"jobId": job.job_id, "ok": True}

    # --- what is there ---

    def _open_runs(self, job_id: str) -> Iterator[FakeRun]:
        return (run for run in self._memory.runs.values() if run.job_id == job_id and run.state != "closed")

    def _occurrences(self, job: FakeJob, start: str, count: int) -> list[str]:
        return [one["at"] for one in self._memory.preview(job.definition, start, count)["occurrences"]]


def has_text(job: FakeJob, text: str) -> bool:
    """Tell whether a text is part of a job's name, task or id, in any case of letters."""
    names = (job.definition["name"], job.definition["task"], job.job_id)
    return any(text.lower() in name.lower() for name in names)


def _standing(job: FakeJob) -> str:
    return "paused" if job.paused and job.state == "active" else job.state


def _fits(job: FakeJob, action: str) -> bool:
    standing = _standing(job)
    return {"pause": standing == "active", "resume": standing == "paused", "delete": standing != "deleted"}[action]


def _matches(job: FakeJob, wanted: Mapping[str, Any]) -> bool:
    return (
        wanted.get("queue", job.definition["queue"]) == job.definition["queue"]
        and wanted.get("labels", {}).items() <= job.definition["labels"].items()
        and job.definition["name"].startswith(wanted.get("namePrefix", ""))
        and job.job_id in wanted.get("jobIds", [job.job_id])
        and ("text" not in wanted or has_text(job, wanted["text"]))
    )


def _instant(text: Any, name: str) -> str:
    """Read an instant; give it in the form in which instants can be compared."""
    if text is None:
        raise ProblemError(422, "missing_field", f"{name}: is required; send it", field=name)
    try:
        at = parse_time(str(text))
    except ValueError:
        raise ProblemError(422, "invalid_field", f"{name}: write an instant with its offset", field=name) from None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stamp(at: str) -> str:
    return "".join(letter for letter in at if letter.isdigit() or letter in "TZ")


def _digest(*parts: str | None) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def _token(note: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(to_json(note).encode()).decode()


def _read_token(text: str) -> dict[str, Any]:
    try:
        note: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text))
    except (binascii.Error, ValueError):
        detail = "undoToken: cannot be read; send the undoToken of a bulk answer, unchanged"
        raise ProblemError(422, "invalid_field", detail, field="undoToken") from None
    return note
