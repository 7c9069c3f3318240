"""Do people who list jobs make runs late? Windows without and with them, in turn, on one running system.

    python -m benchmarks.bench_queries [--rate 300] [--jobs 20000] [--askers 8] [--windows 3] [--seconds 15]

Starts what `bench_e2e` starts, adds jobs that are due far away, and holds a rate of one-off runs in every window. In
each second window `--askers` clients list jobs through the gateway, page after page, with no pause, and one asks for
queues. Prints lateness and the time between two commits of both kinds of window, and their ratio: the machine's noise
is in both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from benchmarks.bench_e2e import SETTLE_S, System, create, measure
from streams.kafka_dev import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 500
"""The most that the API gives at once."""

FAR_S = 30 * 86_400.0
CALL_TIMEOUT_S = 30.0


class Askers:
    """Clients that list everything again and again, in a thread of their own."""

    def __init__(self, url: str, number: int) -> None:
        self._url, self._number = url, number
        self.pages = self.jobs = self.refused = 0
        self._end = threading.Event()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Ask as long as the context lasts."""
        self._end.clear()
        thread = threading.Thread(target=lambda: asyncio.run(self._ask()), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join(CALL_TIMEOUT_S + 5)

    async def _ask(self) -> None:
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        async with aiohttp.ClientSession(self._url, timeout=timeout) as session, asyncio.TaskGroup() as group:
            for _ in range(self._number):
                group.create_task(self._list(session))
            group.create_task(self._queues(session))

    async def _list(self, session: aiohttp.ClientSession) -> None:
        cursor = ""
        while not self._end.is_set():
            query = {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
            async with session.get("/v1/jobs", params=query) as answer:
                body = await answer.json()
            if answer.status != 200:
                self.refused += 1
                await asyncio.sleep(1)  # as Retry-After says
                continue
            self.pages += 1
            self.jobs += len(body["jobs"])
            cursor = body.get("nextCursor") or ""

    async def _queues(self, session: aiohttp.ClientSession) -> None:
        while not self._end.is_set():
            async with session.get("/v1/queues") as answer:
                await answer.read()


def window(system: System, askers: Askers, *, asked: bool, options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Hold the rate once."""
    with askers.asking() if asked else contextlib.nullcontext():
        result = measure(system, options.rate, options.seconds, name)
    over_ms = (time.time() - SETTLE_S) * 1000
    commits = [at_ms for at_ms in _commits(system) if 0 <= over_ms - at_ms <= options.seconds * 1000]
    waits = sorted(b - a for a, b in itertools.pairwise(commits))
    result["asked"] = asked
    result["between_commits_ms"] = {"p50": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100]}
    return result


def _commits(system: System) -> list[float]:
    lines = (line.split() for line in system.steps_path.read_text(encoding="ascii").splitlines())
    return [float(line[0]) for line in lines if line[1] == "commit"]


def told(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the medians of both kinds of window, and their ratio."""
    table: dict[str, Any] = {}
    for what, of in (
        ("late p50 ms", lambda result: result["lateness_ms"]["p50"]),
        ("late p99 ms", lambda result: result["lateness_ms"]["p99"]),
        ("between commits p99 ms", lambda result: result["between_commits_ms"]["p99"]),
    ):
        without = statistics.median(of(result) for result in results if not result["asked"])
        asked = statistics.median(of(result) for result in results if result["asked"])
        table[what] = {"nobody asks": round(without, 1), "asked": round(asked, 1), "ratio": round(asked / without, 2)}
    return table


def main() -> None:
    """Run the windows in turn, and print and keep what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--askers", type=int, default=8)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--out", type=Path, default=Path(".horolog/bench-queries.json"))
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="horolog-bench-"))
    os.environ["JDK_JAVA_OPTIONS"] = f"-Xlog:gc:file={root / 'broker-gc.log'}:time"
    results: list[dict[str, Any]] = []
    with KafkaCluster(root=root / "kafka", ports="free") as cluster:
        system = System(root, partitions=8, workers=1, slots=500)
        system.pids["broker"] = cluster.nodes[0].status().pid or 0
        askers = Askers(f"http://127.0.0.1:{system.gateway_port}", options.askers)
        try:
            system.start(cluster.bootstrap_servers)
            asyncio.run(create(system.settings(), options.jobs / FAR_S, FAR_S, "far"))
            measure(system, options.rate, options.seconds, "warm")
            for number in range(2 * options.windows):
                name = f"window{number}"
                results.append(window(system, askers, asked=bool(number % 2), options=options, name=name))
        finally:
            system.stop()
    table = told(results)
    print(f"{askers.pages} pages, {askers.jobs} jobs listed, {askers.refused} refused")
    for what, row in table.items():
        print(f"{what:24}" + "".join(f"  {name} {value}" for name, value in row.items()))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = {"options": vars(options), "table": table, "windows": results}
    options.out.write_text(json.dumps(kept, indent=1, default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
