"""The demo's processes: how each is started, asked, killed and stopped. Only what was started here is signalled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streams.kafka_dev import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STOP_TIMEOUT_S: Final = 40.0
"""A worker drains for up to 27 s (docs/worker-sdk.md, Stopping); then it is killed."""

READY_TIMEOUT_S: Final = 120.0
"""A few seconds on an idle machine; the rest is for busy ones."""

ASK_TIMEOUT_S: Final = 2.0
LOG_TAIL_LINES: Final = 15


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


class Child:
    """One process and its log file."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        """`command`: program and arguments. Standard output goes to `<name>.out`, errors to `<name>.log`."""
        self.name = name
        self.out_path = directory / f"{name}.out"
        self.log_path = directory / f"{name}.log"
        with self.out_path.open("ab") as out, self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, "-m", "streams.demo.tether", *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,  # Ctrl-C on the terminal is for the demo alone, which stops them in order
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye. Returns when it is gone."""
        self._process.kill()
        self._process.wait()

    def begin_stop(self) -> None:
        """Ask it to end."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask it to end, and wait; kill it if it does not."""
        self.begin_stop()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def require_alive(self) -> None:
        """Raise DemoError with the end of its log if it has ended."""
        if not self.alive:
            raise DemoError(f"{self.name} ended with code {self._process.returncode}.\n{self.tail()}")

    def tail(self) -> str:
        """Give the end of its log."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"The end of {self.log_path}:", *(f"  {line[:300]}" for line in lines)])


def script(name: str) -> str:
    """Give the path of a program that was installed beside this Python. Raises DemoError."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise DemoError(f"{path} is not there: install both distributions into one environment with `make setup`.")
    return str(path)


def ask(url: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """Call a URL; give status and decoded JSON (None where it is none). Raises OSError where nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S) as answer:  # noqa: S310 - loopback
            return answer.status, _json(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _json(error.read())


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


class SchedulerProcess:
    """One scheduler and what it owns."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.port = port

    def owned(self) -> frozenset[int]:
        """Ask which partitions it acts for; none where it does not answer."""
        if not self.child.alive:
            return frozenset()
        try:
            _, body = ask(f"http://127.0.0.1:{self.port}/readyz")
        except OSError:
            return frozenset()
        return frozenset(body["owned"]) if isinstance(body, dict) else frozenset()


def wait_owned(schedulers: Sequence[SchedulerProcess], partitions: int, *, each: bool = True) -> None:
    """Wait until every partition has an owner, and (`each`) every scheduler some. Raises DemoError."""

    def settled() -> bool:
        for scheduler in schedulers:
            scheduler.child.require_alive()
        owned = [scheduler.owned() for scheduler in schedulers]
        return sum(map(len, owned)) == partitions and (all(owned) or not each)

    if not wait_until(settled, READY_TIMEOUT_S):
        tails = "\n".join(scheduler.child.tail() for scheduler in schedulers)
        raise DemoError(f"The schedulers did not share the partitions within {READY_TIMEOUT_S:.0f} s.\n{tails}")


def wait_ready(child: Child, url: str) -> None:
    """Wait until a process says 200. Raises DemoError."""

    def ready() -> bool:
        child.require_alive()
        try:
            return ask(url)[0] == 200
        except OSError:
            return False

    if not wait_until(ready, READY_TIMEOUT_S):
        raise DemoError(f"{child.name} was not ready within {READY_TIMEOUT_S:.0f} s.\n{child.tail()}")


def now_ms() -> int:
    """Wall time in epoch milliseconds, the clock of all journals."""
    return time.time_ns() // 1_000_000
