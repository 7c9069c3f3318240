"""A loop that no longer turns ends its process; a process that was frozen as a whole gets another chance."""

from __future__ import annotations

import subprocess
import sys
import threading

from streams.watchdog import EXIT_CODE, Watchdog

TIMEOUT_MS = 3_000


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def watched() -> tuple[Watchdog, Clock, list[str]]:
    clock, ended = Clock(), list[str]()
    return Watchdog(TIMEOUT_MS, end=ended.append, monotonic_ms=clock), clock, ended


def looks(dog: Watchdog, clock: Clock, until_ms: int, step_ms: int = 500) -> bool:
    alive = True
    while clock.now_ms < until_ms:
        clock.now_ms += step_ms
        alive = dog.look()
    return alive


def test_a_loop_that_turns_lives() -> None:
    dog, clock, ended = watched()
    for _ in range(20):
        assert looks(dog, clock, int(clock.now_ms) + 2_500)
        dog.beat()
    assert ended == []


def test_a_loop_that_hangs_longer_than_the_bound_ends_the_process_with_a_reason() -> None:
    dog, clock, ended = watched()
    assert looks(dog, clock, TIMEOUT_MS)
    assert not looks(dog, clock, TIMEOUT_MS + 500)
    assert "has not turned for 3500 ms (bound 3000 ms)" in ended[0]
    assert "blocking call" in ended[0]


def test_a_process_that_was_frozen_gets_one_time_out_to_turn_again() -> None:
    dog, clock, ended = watched()
    clock.now_ms += 60_000
    assert dog.look()
    assert looks(dog, clock, 60_000 + TIMEOUT_MS)
    assert ended == []
    assert not looks(dog, clock, 60_000 + TIMEOUT_MS + 500)


def test_the_thread_looks_by_itself_and_stops() -> None:
    ended = threading.Event()
    dog = Watchdog(60, end=lambda _: ended.set())
    dog.start()
    assert ended.wait(20)
    dog.stop()


def test_the_end_of_the_process_is_an_exit_code_and_a_sentence() -> None:
    program = (
        "import threading\nfrom streams.watchdog import Watchdog\nWatchdog(60).start()\nthreading.Event().wait(20)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)  # noqa: S603 - our own
    assert done.returncode == EXIT_CODE
    assert "the scheduler's loop has not turned" in done.stderr
