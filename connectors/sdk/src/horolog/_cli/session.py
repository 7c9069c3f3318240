"""What every command gets: the gateway, the screen, the form of output; and how `--watch` repeats it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horolog._cli.exits import told
from horolog._client import Client
from horolog._errors import HorologError, NotFoundError, UnavailableError
from horolog._retry import backoff_seconds
from horolog._wire import UTC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horolog._calls import Call
    from horolog._cli.screen import Screen

PATIENCE_SECONDS = 20.0  # covers the take-over of a partition, at most 15 s (DESIGN section 1)
_REPEATED = frozenset({503, 504})
_BACKOFF_BASE_SECONDS = 0.2
_BACKOFF_MAX_SECONDS = 2.0
PAGE = 1_000


@dataclass
class Session:
    """One command's surroundings. `pause` waits between the pictures of `--watch`; it may raise KeyboardInterrupt."""

    screen: Screen
    url: str
    token: str | None = None
    as_json: bool = False
    pause: Callable[[float], None] = time.sleep
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(tz=UTC)
    _client: Client | None = field(default=None, init=False)

    def send(self, call: Call[Any]) -> Any:
        """Send a call; give the JSON body as it came. Raises CliError."""
        try:
            return self.try_send(call)
        except HorologError as error:
            raise told(error, self.url) from error

    def find(self, call: Call[Any]) -> Any | None:
        """Send a call that may find nothing: None for 404. Raises CliError."""
        try:
            return self.try_send(call)
        except NotFoundError as error:
            if error.code == "unknown_route":
                raise told(error, self.url) from error
            return None
        except HorologError as error:
            raise told(error, self.url) from error

    def try_send(self, call: Call[Any]) -> Any:
        """Send a call, repeated while the gateway says that it cannot answer just now. Raises HorologError."""
        raw: Call[Any] = dataclasses.replace(call, read=lambda answer: answer.body)
        if self._client is None:
            self._client = Client(self.url, token=self.token, retry_seconds=0.0)
        until = time.monotonic() + PATIENCE_SECONDS
        failures = 0
        while True:
            try:
                return self._client.send(raw)
            except UnavailableError as error:
                failures += 1
                delay = backoff_seconds(
                    failures,
                    base=_BACKOFF_BASE_SECONDS,
                    limit=_BACKOFF_MAX_SECONDS,
                    floor=error.retry_after_seconds or 0.0,
                )
                if error.status not in _REPEATED or time.monotonic() + delay > until:
                    raise
            time.sleep(delay)

    def tell(self, answer: dict[str, Any], text: str) -> int:
        """Write the answer of an action: as JSON, or as a text for people. Gives the exit code."""
        if self.as_json:
            self.screen.json(answer)
        else:
            self.screen.line(text)
        return 0

    def pages(self, build: Callable[[str | None], Call[Any]], member: str, limit: int | None) -> Iterator[Any]:
        """Give the items of a list over all its pages, at most `limit`."""
        cursor: str | None = None
        left = limit
        while True:
            body = self.send(build(cursor))
            for item in body[member]:
                if left is not None:
                    if left <= 0:
                        return
                    left -= 1
                yield item
            cursor = body.get("nextCursor")
            if cursor is None or left == 0:
                return

    def show(self, watch: float | None, picture: Callable[[], None]) -> int:
        """Show a picture once, or again and again until Ctrl-C. Gives the exit code."""
        picture()
        if watch is None:
            return 0
        try:
            while True:
                self.screen.flush()
                self.pause(watch)
                self.screen.clear()
                picture()
        except KeyboardInterrupt:
            return 0

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
