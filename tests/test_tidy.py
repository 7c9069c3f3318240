"""Rules of this repository that neither ruff nor import-linter can state, checked on the syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("schemas", "streams", "api", "connectors")
CORE = ROOT / "streams" / "core"
FUNCTION_LINES_MAX = 70
# Whatever reads a clock, the host's settings or a file: the core takes all of these as arguments.
IMPURE_METHODS = frozenset({"now", "utcnow", "today", "fromtimestamp", "astimezone", "uuid1", "uuid4", "getenv"})
IMPURE_BUILTINS = frozenset({"open", "print", "input", "eval", "exec"})


def sources(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if not path.stem.endswith("_generated"))  # nobody reads those


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def imported_modules(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or ""


def impure_calls(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS:
            yield node, node.func.id
        elif isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS:
            given_a_zone = node.func.attr in {"fromtimestamp", "astimezone"} and (len(node.args) + len(node.keywords))
            if not given_a_zone or (node.func.attr == "fromtimestamp" and given_a_zone < 2):
                yield node, node.func.attr


def sleeps(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep":
            gives_way = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if not gives_way:  # sleep(0) lets other tasks run and waits for nothing
                yield node


def long_functions(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node, lines


def test_core_imports_of_ours_only_the_core_and_schemas() -> None:
    wrong = [
        f"{place(path, node)} imports {module}"
        for path in sources("streams/core")
        for node, module in imported_modules(ast.parse(path.read_text()))
        if module.split(".")[0] in {"streams", "api", "connectors", "horolog"}
        and not (module == "streams.core" or module.startswith("streams.core."))
    ]

    assert wrong == []


def test_core_reads_no_clock_no_environment_and_no_file() -> None:
    wrong = [
        f"{place(path, node)} calls {name}"
        for path in sources("streams/core")
        for node, name in impure_calls(ast.parse(path.read_text()))
    ]

    assert wrong == []


def test_no_function_is_longer_than_seventy_lines() -> None:
    wrong = [
        f"{place(path, node)} has {lines} lines"
        for path in sources(*PRODUCT, "tests")
        for node, lines in long_functions(ast.parse(path.read_text()))
    ]

    assert wrong == []


TAKE_TIME = {"tests/chaos/harness/http_load.py", "tests/chaos/harness/proxy.py", "tests/chaos/sdk_worker.py"}
"""They play workers whose work takes time, callers that pause before they repeat, and links that are slow; no test
waits there for anything."""


def test_tests_wait_on_signals_and_never_sleep() -> None:
    found = {
        place(path, node): str(path.relative_to(ROOT))
        for path in sources("tests")
        for node in sleeps(ast.parse(path.read_text()))
    }

    assert [where for where, path in found.items() if path not in TAKE_TIME] == []
    assert set(found.values()) == TAKE_TIME


def test_every_module_begins_by_saying_what_it_is() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources(*PRODUCT)
        if path.name != "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]

    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "datetime.now(UTC)",
        "date.today()",
        "datetime.fromtimestamp(5)",
        "moment.astimezone()",
        "open('x')",
        "os.getenv('TZ')",
    ],
)
def test_the_purity_check_finds_what_it_is_for(code: str) -> None:
    assert len(list(impure_calls(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code", ["datetime.fromtimestamp(5, UTC)", "moment.astimezone(zone)", "context.now_ms", "f(now)"]
)
def test_the_purity_check_leaves_pure_calls_alone(code: str) -> None:
    assert list(impure_calls(ast.parse(code))) == []


@pytest.mark.parametrize(
    ("code", "found"), [("asyncio.sleep(0)", 0), ("asyncio.sleep(0.1)", 1), ("time.sleep(delay)", 1)]
)
def test_the_sleep_check_knows_giving_way_from_waiting(code: str, found: int) -> None:
    assert len(list(sleeps(ast.parse(code)))) == found


def test_the_length_check_counts_to_seventy() -> None:
    fits = ast.parse("def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1))
    too_long = ast.parse("def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX)

    assert list(long_functions(fits)) == []
    assert [lines for _, lines in long_functions(too_long)] == [FUNCTION_LINES_MAX + 1]
