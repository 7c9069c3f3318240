"""The worker's handlers by task name, checked when they are defined.

A handler is `async def` or a plain function that takes exactly one argument, the run. What is wrong with one is
said where it is written: TypeError for its shape, ValueError for its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from horolog._run import Run

TASK_CHARACTERS_MAX = 128  # docs/http-api.md section 1
Function = Callable[[Run], Any]


@dataclass(frozen=True)
class Handler:
    """One task's function; `is_async` says whether it runs on the loop or in a thread."""

    task: str
    function: Function
    is_async: bool


def check_handler(task: str, function: Callable[..., Any]) -> Handler:
    """Return the handler, or raise TypeError or ValueError that says what to change."""
    if not isinstance(task, str):
        message = 'write @worker.handler("task-name"): the task name comes first'
        raise TypeError(message)
    if not 1 <= len(task) <= TASK_CHARACTERS_MAX:
        message = f"task name {task[:20]!r}: 1 to {TASK_CHARACTERS_MAX} characters"
        raise ValueError(message)
    if not callable(function):
        message = f"handler of {task!r} is not a function: {function!r}"
        raise TypeError(message)
    call = getattr(function, "__call__", function)  # noqa: B004 - callable objects: their __call__ says async or not
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = f"handler of {task!r} is a generator; return a value instead of yielding"
        raise TypeError(message)
    parameters = list(inspect.signature(function).parameters.values())
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if len(parameters) != 1 or parameters[0].kind not in positional:
        message = f"handler of {task!r} must take exactly one argument, the run; write def f(run: horolog.Run)"
        raise TypeError(message)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return Handler(task, function, is_async)


class Handlers:
    """A registry that refuses a second handler for a task."""

    def __init__(self) -> None:
        self._by_task: dict[str, Handler] = {}

    def add(self, task: str, function: Callable[..., Any]) -> None:
        """Register a handler; raises as `check_handler`, and ValueError for a duplicate."""
        handler = check_handler(task, function)
        if task in self._by_task:
            message = f"task {task!r} already has a handler: {self._by_task[task].function!r}"
            raise ValueError(message)
        self._by_task[task] = handler

    def get(self, task: str) -> Handler | None:
        """Return the handler of a task."""
        return self._by_task.get(task)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The known task names, in order of definition."""
        return tuple(self._by_task)
