"""The public names of the SDK; a change here is a change for users."""

from __future__ import annotations

import ast
import inspect
import pathlib
import sys

import horolog
import horolog.testing
from horolog._client import _Api

EXPORTS = [
    "ApiError",
    "AsyncClient",
    "AttemptRecord",
    "Backfill",
    "Skipped",
    "BulkItem",
    "Calendar",
    "BulkChange",
    "BackfillProgress",
    "Client",
    "ConcurrencyKey",
    "Condition",
    "ConflictError",
    "Explanation",
    "ForbiddenError",
    "HorologError",
    "InvalidRequestError",
    "ItemResult",
    "Job",
    "JobRef",
    "LeaseLost",
    "LeasedRun",
    "NotFoundError",
    "Occurrence",
    "Page",
    "Pause",
    "PermanentFailure",
    "Preview",
    "Queue",
    "RateLimitedError",
    "Readiness",
    "Replayed",
    "Run",
    "RunCancelled",
    "RunRecord",
    "RunStopped",
    "RunTimedOut",
    "StaleLeaseError",
    "Tenant",
    "Triggered",
    "UnauthorizedError",
    "UnavailableError",
    "UnreachableError",
    "VersionMismatchError",
    "Worker",
    "WorkerStopping",
    "current_run",
]
TESTING = [
    "FakeGateway",
    "FakeJob",
    "FakeRun",
    "Gate",
    "HandlerResult",
    "ManualClock",
    "RecordedCall",
    "RunningHandler",
    "WorkerTest",
    "run_handler",
]
METHODS = sorted(name for name in vars(_Api) if not name.startswith("_"))  # test_operations.py says which
ALLOWED_IMPORTS = {"aiohttp", "yarl", "horolog", "typing_extensions"}  # yarl: aiohttp's own; the last for types only


def test_the_package_exports_exactly_the_documented_names() -> None:
    assert sorted(horolog.__all__) == sorted(EXPORTS)
    assert sorted(horolog.testing.__all__) == sorted(TESTING)
    assert all(hasattr(horolog, name) for name in horolog.__all__)


def test_every_client_method_has_a_docstring_and_keyword_only_options() -> None:
    client = horolog.Client("http://localhost:1")
    for name in METHODS:
        method = getattr(client, name)
        assert method.__doc__, name
        kinds = [p.kind for p in inspect.signature(method).parameters.values() if p.default is not p.empty]
        assert all(kind is inspect.Parameter.KEYWORD_ONLY for kind in kinds), name


def test_the_sdk_needs_aiohttp_and_the_standard_library_only() -> None:
    root = pathlib.Path(horolog.__file__).parent
    for path in [*root.glob("_*.py"), *root.glob("testing/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                assert top in ALLOWED_IMPORTS or top in sys.stdlib_module_names, (path.name, name)


def test_no_module_of_the_sdk_prints() -> None:
    root = pathlib.Path(horolog.__file__).parent
    for path in [*root.glob("_*.py"), *root.glob("testing/*.py")]:
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert "print" not in [func.id for func in calls if isinstance(func, ast.Name)], path.name
