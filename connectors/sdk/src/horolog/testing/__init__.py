"""Test kit: run handlers without a server, or a worker against an in-memory gateway. See docs/worker-sdk.md."""

from horolog.testing._gateway import FakeGateway, Gate, RecordedCall
from horolog.testing._handler_test import HandlerResult, RunningHandler, WorkerTest, run_handler
from horolog.testing._manual_clock import ManualClock
from horolog.testing._memory import FakeJob, FakeRun

__all__ = [
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
