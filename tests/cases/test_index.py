"""docs/cases.md names a test, or a reason, for every case of sections 3B, 3C, 3D and 3F; what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
INDEX = TESTS.parent / "docs" / "cases.md"
ROW = re.compile(r"^\| ([BCDF]\d+[a-d]?) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")


def rows() -> list[tuple[str, str]]:
    return ROW.findall(INDEX.read_text())


def test_each_named_test_exists() -> None:
    missing = [
        f"{case}: {path}::{name}"
        for case, text in rows()
        for path, name in NAMED.findall(text)
        if not (TESTS / path).is_file() or f"def {name}" not in (TESTS / path).read_text() + "def "
    ]

    assert missing == []


def test_each_case_has_a_test_or_says_why_not() -> None:
    bare = [case for case, text in rows() if not NAMED.search(text) and not text.startswith("not yet")]

    assert bare == []
    assert len({case for case, _ in rows()}) == len(rows()) > 70


def test_each_case_test_is_named_in_the_index() -> None:
    index = INDEX.read_text()
    unnamed = [
        f"{path.name}::{name}"
        for path in sorted((TESTS / "cases").glob("test_*.py"))
        for name in re.findall(r"def (test_[bcdf]\d+[a-d]?)_", path.read_text())
        if name not in index
    ]

    assert unnamed == []
