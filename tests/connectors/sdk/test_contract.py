"""docs/http-api.md and the code say the same."""

from __future__ import annotations

import inspect
import logging
import pathlib
import re

import horolog
from horolog import _wire, _worker
from horolog._errors import error_from_problem
from horolog._events import EVENTS

ROOT = pathlib.Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "http-api.md").read_text()
SDK = ROOT / "connectors" / "sdk" / "src" / "horolog"


def documented_codes() -> dict[str, set[int]]:
    codes: dict[str, set[int]] = {}
    for status, cell in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", DOCUMENT, re.MULTILINE):
        for code in re.findall(r"`([a-z_]+)`", cell):
            codes.setdefault(code, set()).add(int(status))
    return codes


def test_every_code_that_the_fake_answers_is_documented_with_its_status() -> None:
    codes = documented_codes()
    found = re.findall(r'ProblemError\(\s*(\d{3}|status),\s*"([a-z_]+)"', (SDK / "testing/_memory.py").read_text())
    found += re.findall(r'ProblemError\(\s*(\d{3}|status),\s*"([a-z_]+)"', (SDK / "testing/_gateway.py").read_text())
    assert len(found) > 15
    for status, code in found:
        assert code in codes
        if status != "status":
            assert int(status) in codes[code], code


def test_every_documented_code_becomes_an_error_of_its_status() -> None:
    codes = documented_codes()
    assert len(codes) > 30
    for code, statuses in codes.items():
        for status in statuses:
            error = error_from_problem(status, {"code": code, "detail": "d"})
            assert type(error).__name__ != "ApiError", (status, code)
            assert (error.status, error.code) == (status, code)


def test_bounds_are_those_of_the_document() -> None:
    assert "`payload` and `result` 65,536 bytes" in DOCUMENT
    assert (_wire.PAYLOAD_BYTES_MAX, _wire.RESULT_BYTES_MAX) == (65_536, 65_536)
    assert "`error` text 4,096 characters" in DOCUMENT
    assert _wire.ERROR_CHARACTERS_MAX == 4_096
    assert "`progress` 4,096 bytes" in DOCUMENT
    assert _wire.PROGRESS_BYTES_MAX == 4_096
    assert "batch forms 1,000 items" in DOCUMENT
    assert _wire.BATCH_ITEMS_MAX == 1_000
    assert "of a batch form 4 MiB" in DOCUMENT
    assert _wire.BATCH_BYTES_MAX < 4 * 1024 * 1024
    assert "5 to 3,600: the lease's length" in DOCUMENT
    assert _worker.VISIBILITY_SECONDS_MAX == 3_600


def test_the_guide_lists_every_event_with_its_level() -> None:
    guide = (ROOT / "docs" / "worker-sdk.md").read_text()
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| (debug|info|warning|error) \|", guide, re.MULTILINE)
    listed = {name: level for names, level in rows for name in re.findall(r"`([a-z_]+)`", names)}
    assert listed == {name: logging.getLevelName(level).lower() for name, level in EVENTS.items()}


def test_the_guide_names_every_argument_of_a_worker_with_its_default() -> None:
    guide = (ROOT / "docs" / "worker-sdk.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]*) \|", guide, re.MULTILINE))
    for name, parameter in inspect.signature(horolog.Worker).parameters.items():
        if name in {"url", "clock"}:
            continue
        assert name in rows, name
        if isinstance(parameter.default, (int, float)):
            assert float(rows[name]) == parameter.default, name
