"""Virtual time: processes with event loops of their own, which one world steps in the order of their next event.

A process is an asyncio loop whose clock is the world's. It can be frozen (SIGSTOP: nothing of it runs, time
goes on), thawed and killed (nothing of it ever runs again). Blocking calls that a program hands to an executor
run in a thread, but never beside anything else: a thread has the baton until it sleeps or ends, so a freeze or
a kill hits it exactly between two steps.

Nothing here knows Kafka. Times are float milliseconds since the world began; `epoch_ms` is what clocks on the
wall show.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

STEP_MS: Final = 0.05
"""What one turn of a loop costs: a program that spins must not stop the world's clock."""

DRIFT_MAX: Final = 500e-6
"""A monotonic clock is slewed by at most this (kernels allow no more)."""


class Killed(BaseException):
    """Unwinds what a killed process was doing; never seen by anything that lives."""


class World:
    """The clock, the agenda and all processes."""

    def __init__(self, seed: int, start_ms: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.start_ms = start_ms
        self.t_ms = 0.0
        self.processes: list[Process] = []
        self.active: BlockingCall | None = None
        self.running: Process | None = None
        self.trace: deque[str] = deque(maxlen=4_000)
        self.threads: list[_Thread] = []
        """Idle ones, for the next blocking call."""
        self._until_ms = 0.0
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    @property
    def epoch_ms(self) -> int:
        """What the broker's clock shows."""
        return self.start_ms + int(self.t_ms)

    def at(self, delay_ms: float, call: Callable[[], object]) -> None:
        """Do something later, outside of all processes."""
        heapq.heappush(self._agenda, (self.t_ms + max(delay_ms, 0.0), next(self._order), call))

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.t_ms / 1000:12.3f} {text}")

    def pass_time(self, delay_ms: float) -> None:
        """Block the thread that has the baton; outside of one it costs no time."""
        if self.active is None:
            return
        if self._nothing_before(self.t_ms + delay_ms):
            self.t_ms += delay_ms
        else:
            self.active.wait(delay_ms)

    def _nothing_before(self, at_ms: float) -> bool:
        """Whether nobody would act until then, so that the baton need not change hands to let the time pass."""
        if at_ms > self._until_ms or (self._agenda and self._agenda[0][0] <= at_ms):
            return False
        return all(process.next_ms() > at_ms for process in self.processes)

    def end(self) -> None:
        """Kill everything, so that no thread and no loop is left."""
        for process in [*self.processes]:
            process.kill()
        for thread in self.threads:
            thread.end()
        self.threads.clear()

    def run(self, until_ms: float) -> None:
        """Let the world go on until a time."""
        self._until_ms = until_ms
        while True:
            at_ms = self._agenda[0][0] if self._agenda else float("inf")
            chosen: Process | None = None
            for process in self.processes:
                next_ms = process.next_ms()
                if next_ms < at_ms:
                    at_ms, chosen = next_ms, process
            if at_ms > until_ms:
                self.t_ms = until_ms
                return
            self.t_ms = max(self.t_ms, at_ms)
            if chosen is None:
                heapq.heappop(self._agenda)[2]()
            else:
                chosen.step()


class Process:
    """One program: an event loop, its blocking calls, and its own wrong clocks."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.on_change: list[Callable[[], object]] = []
        """Told when the process was frozen, thawed or killed."""
        self._frozen = False
        self.monotonic_offset_ms = world.rng.uniform(1e3, 1e7)
        self.monotonic_rate = 1.0 + world.rng.uniform(-DRIFT_MAX, DRIFT_MAX)
        self.wall_skew_ms = world.rng.choice((0, 0, 0, -3_600_000, 3_600_000, 700))
        self.loop = _VirtualLoop(self)
        self._busy_until_ms = 0.0
        self._lines: dict[int, deque[BlockingCall]] = {}
        world.processes.append(self)

    @property
    def frozen(self) -> bool:
        """Whether it is stopped for now (SIGSTOP)."""
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._frozen = frozen
        self._changed()

    def monotonic_ms(self) -> float:
        """What this process's monotonic clock shows; it drifts."""
        return self.world.t_ms * self.monotonic_rate + self.monotonic_offset_ms

    def wall_ms(self) -> int:
        """What this process's wall clock shows; nothing that matters may depend on it."""
        return self.world.epoch_ms + int(self.wall_skew_ms)

    def next_ms(self) -> float:
        """When the process wants to run next."""
        if self.dead or self.frozen:
            return float("inf")
        return max(self.loop.next_ms(), self._busy_until_ms)

    def step(self) -> None:
        """Run everything that is ready in its loop."""
        self._busy_until_ms = self.world.t_ms + STEP_MS
        self.world.running = self
        try:
            self.loop.step()
        finally:
            self.world.running = None

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Deliver something from outside; a dead process does not hear it, a frozen one hears it later."""
        if not self.dead:
            self.loop.call_soon(function, *arguments)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of the program."""
        return self.loop.create_task(coroutine)

    def check(self) -> None:
        """Raise where the process is gone: called by everything that would reach outside."""
        if self.dead:
            raise Killed

    def failures(self) -> list[str]:
        """What its loop complained about while it lived: exceptions that nobody took."""
        return [f"{context.get('message')}: {context.get('exception')!r}" for context in self.loop.failures]

    def kill(self) -> None:
        """End it now: SIGKILL."""
        if self.dead:
            return
        self.dead = True
        self.world.processes.remove(self)
        self.world.note(f"{self.name} is dead")
        for line in self._lines.values():
            while line:
                line.popleft().abandon()
        self.loop.bury()
        self._changed()

    def _changed(self) -> None:
        for told in [*self.on_change]:
            told()

    def submit(self, executor: object, function: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Run a blocking call as its executor would: one after the other in each."""
        call = BlockingCall(self, function, arguments, self._lines.setdefault(id(executor), deque()))
        call.line.append(call)
        if len(call.line) == 1:
            self.loop.call_soon(call.resume)
        return call.future


class BlockingCall:
    """A call in a thread that runs only while it has the baton."""

    def __init__(
        self,
        process: Process,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        line: deque[BlockingCall],
    ) -> None:
        self.process = process
        self.line = line
        self.future: asyncio.Future[Any] = process.loop.create_future()
        self._function = function
        self._arguments = arguments
        self._thread: _Thread | None = None
        self._sleep_ms = 0.0
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def resume(self) -> None:
        """Give the baton to the thread and wait for it."""
        if self.process.dead:
            return
        self._hand_over()
        if not self._done:
            self.process.loop.call_later(self._sleep_ms / 1000.0, self.resume)
            return
        self.line.popleft()
        if self.line:
            self.process.loop.call_soon(self.line[0].resume)
        if self.future.cancelled():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)

    def wait(self, delay_ms: float) -> None:
        """Called in the thread: give the baton back until the time has come."""
        if self._thread is None:
            raise RuntimeError("only a call that runs can wait")
        self._sleep_ms = delay_ms
        self._thread.give_back()
        self.process.check()

    def abandon(self) -> None:
        """Unwind the thread of a killed process."""
        if self._thread is not None and not self._done and self.process.world.active is not self:
            self._hand_over()

    def main(self) -> None:
        """What its thread does; what goes wrong belongs to the caller's future."""
        try:
            self.process.check()
            self._result = self._function(*self._arguments)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller's future
            self._error = error
        self._done = True

    def _hand_over(self) -> None:
        world = self.process.world
        if self._thread is None:
            self._thread = world.threads.pop() if world.threads else _Thread()
            self._thread.call = self
        before, world.active = world.active, self
        self._thread.hand_over()
        world.active = before
        if self._done:
            world.threads.append(self._thread)


class _Thread:
    """A thread for one blocking call after the other; to start one for each costs more than most of them do."""

    def __init__(self) -> None:
        self.call: BlockingCall | None = None
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        threading.Thread(target=self._main, daemon=True).start()

    def hand_over(self) -> None:
        """Let it run, and wait until it has given the baton back."""
        self._go.release()
        self._back.acquire()

    def give_back(self) -> None:
        """Called in the thread: let the world go on, and wait for the baton."""
        self._back.release()
        self._go.acquire()

    def end(self) -> None:
        """Let the thread end. It must be idle."""
        self.call = None
        self._go.release()

    def _main(self) -> None:
        while True:
            self._go.acquire()
            if self.call is None:
                return
            self.call.main()
            self._back.release()


class _Instant:
    """A selector that never waits: the world decides when time passes."""

    def select(self, _timeout: float | None) -> list[Any]:
        return []


class _VirtualLoop(asyncio.BaseEventLoop):
    """Asyncio's own loop without sockets and without waiting; knows private parts of BaseEventLoop (3.11 to 3.13)."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int
    _run_once: Callable[[], None]

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self._selector = _Instant()
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        return self._process.world.t_ms / 1000.0

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # typeshed's has type variables of its own
        return self._process.submit(executor, func, args)

    def next_ms(self) -> float:
        if self._ready:
            return self._process.world.t_ms
        while self._scheduled and self._scheduled[0]._cancelled:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]  # the base does the same
            self._timer_cancelled_count -= 1
        return float(self._scheduled[0].when() * 1000.0) if self._scheduled else float("inf")

    def step(self) -> None:
        asyncio._set_running_loop(self)
        try:
            self._run_once()
        finally:
            asyncio._set_running_loop(None)

    def bury(self) -> None:
        """Unwind all tasks. What they do on the way out reaches nobody: the process is dead."""
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            for task in asyncio.all_tasks(self):
                if task is not self._current():
                    task.cancel()
            for _ in range(20):
                if running is not self:
                    self.step()
        finally:
            asyncio._set_running_loop(running)
            self.close()

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._process.dead:
            self.failures.append(context)

    def _current(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task(self)

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
