from __future__ import annotations

import functools
from typing import Any

import pytest

import horolog


@pytest.fixture
def worker() -> horolog.Worker:
    return horolog.Worker("http://localhost:8080", queue="billing")


async def async_handler(run: horolog.Run) -> None:
    del run


def plain_handler(run: horolog.Run) -> str:
    return run.run_id


def test_the_decorator_returns_the_function_unchanged(worker: horolog.Worker) -> None:
    assert worker.handler("a")(async_handler) is async_handler
    assert worker.handler("b")(plain_handler) is plain_handler
    assert worker.tasks == ("a", "b")


def test_async_and_plain_functions_are_told_apart(worker: horolog.Worker) -> None:
    class Callable:
        async def __call__(self, run: horolog.Run) -> None: ...

    class Service:
        async def method(self, run: horolog.Run) -> None: ...

    async def with_more(extra: int, run: horolog.Run) -> None: ...

    worker.handler("async")(async_handler)
    worker.handler("plain")(plain_handler)
    worker.handler("callable")(Callable())
    worker.handler("method")(Service().method)
    worker.handler("partial")(functools.partial(with_more, 1))
    kinds = {task: worker.handlers.get(task).is_async for task in worker.tasks}  # type: ignore[union-attr]  # just added
    assert kinds == {"async": True, "plain": False, "callable": True, "method": True, "partial": True}


def no_argument() -> None: ...


def two_arguments(run: horolog.Run, more: int) -> None: ...


def default_argument(run: horolog.Run, more: int = 1) -> None: ...


def keyword_only(*, run: horolog.Run) -> None: ...


def star(*runs: horolog.Run) -> None: ...


@pytest.mark.parametrize("function", [no_argument, two_arguments, default_argument, keyword_only, star])
def test_a_handler_that_does_not_take_exactly_the_run_is_refused_where_it_is_written(
    worker: horolog.Worker, function: Any
) -> None:
    with pytest.raises(TypeError, match="exactly one argument"):
        worker.handler("task")(function)


def test_generators_and_things_that_are_not_functions_are_refused(worker: horolog.Worker) -> None:
    def generator(run: horolog.Run) -> Any:
        yield run

    async def async_generator(run: horolog.Run) -> Any:
        yield run

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="generator"):
            worker.handler("task")(function)
    with pytest.raises(TypeError, match="not a function"):
        worker.handler("task")("text")  # type: ignore[type-var]  # the mistake under test


def test_a_second_handler_for_a_task_is_refused(worker: horolog.Worker) -> None:
    worker.handler("task")(plain_handler)
    with pytest.raises(ValueError, match="already has a handler"):
        worker.handler("task")(async_handler)


def test_a_decorator_without_a_task_name_says_how_to_write_it(worker: horolog.Worker) -> None:
    with pytest.raises(TypeError, match=r"@worker\.handler\("):
        worker.handler(plain_handler)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize("task", ["", "x" * 129])
def test_task_names_are_bounded(worker: horolog.Worker, task: str) -> None:
    with pytest.raises(ValueError, match="1 to 128"):
        worker.handler(task)(plain_handler)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"queue": ()}, "queue"),
        ({"queue": ("a", "a")}, "queue"),
        ({"queue": "a/b"}, "queue"),
        ({"slots": 0}, "slots"),
        ({"slots": 10_001}, "slots"),
        ({"queue": ("a", "b"), "slots": 1}, "slots"),
        ({"visibility_seconds": 14.9}, "visibility_seconds"),
        ({"visibility_seconds": float("nan")}, "visibility_seconds"),
        ({"heartbeat_seconds": 10.1}, "heartbeat_seconds"),
        ({"lease_poll_seconds": 20.1}, "lease_poll_seconds"),
        ({"drain_seconds": -1}, "drain_seconds"),
        ({"worker_id": "x" * 129}, "worker_id"),
    ],
)
def test_arguments_out_of_bounds_are_refused_by_name(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}"):
        horolog.Worker("http://localhost:8080", **{"queue": "billing", **arguments})


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://", "http://host?x=1"])
def test_an_address_that_is_not_a_gateway_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url"):
        horolog.Worker(url, queue="billing")


def test_the_poll_leaves_time_for_a_heartbeat_and_the_stop_margin() -> None:
    worker = horolog.Worker("http://localhost:8080", queue="billing", visibility_seconds=15, heartbeat_seconds=5)
    assert worker._settings.lease_poll_seconds == 5
