"""Many simulated workers in a few processes, and what they and the server saw."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.intervals import quantile
from benchmarks.producer import Producer
from benchmarks.sample import batches
from benchmarks.scaling.load import GO, Task, old_links, worker_name
from benchmarks.scaling.pace import Pages, seconds_between_exchanges
from benchmarks.servers import PATIENCE_SECONDS, cpu_seconds
from benchmarks.storing.lengths import fill
from scrapy_redis_state.store.keys import CrawlKeys
from tests.processes import Programs, wait_until
from tests.servers import Server

CRAWL = "shop:offers"
NEW, OLD = 1, 13
"""Links per page, to new pages and to seen ones."""
QUEUED = 100_000
PROCESSES = 2
WARM_UP_SECONDS = 2.0
LEASE_SECONDS = 5.0
RECOVERY_PATIENCE_SECONDS = 60.0
SILENT_SHARE = 0.05
PACE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class FleetRow:
    """So many workers on one server."""

    workers: int
    asked_pages_per_second: float
    pages_per_second: float
    """What was done; less than what was asked if the workers' machine is too slow."""
    exchanges_per_second: float
    busy: float
    """Share of one core that the server used."""
    p50_ms: float
    p99_ms: float
    """Of exchanges, as the workers see them: with their own processes' waits."""
    silent: int
    """Workers that fell silent in the end."""
    lease_seconds: float
    recovery_seconds: float
    """From then until others could have all that those held."""
    load: float
    """Processes that were ready to run, per core of the machine, after it."""


class Fleet:
    """Runs fleets on one server.

    :param rate: pages a second of each worker
    :param seconds: how long each fleet is watched
    """

    def __init__(
        self, server: Server, programs: Programs, rate: float, seconds: float
    ) -> None:
        self._server, self._programs = server, programs
        self._client = server.client(socket_timeout=PATIENCE_SECONDS)
        self._rate, self._seconds = rate, seconds
        self._keys = CrawlKeys(CRAWL)

    async def pace(self) -> float:
        """Seconds between two exchanges of a worker of the package."""
        self._fill()
        return await seconds_between_exchanges(
            self._server.url, self._keys, Pages(self._rate, NEW, OLD), PACE_SECONDS
        )

    def run(self, workers: int, every: float) -> FleetRow:
        """Watch a fleet, and then how the work of some that fall silent comes back."""
        self._fill()
        tasks = self._tasks(workers, every)
        started = [self._start(task) for task in tasks]
        for program in started:
            program.wait_for_output("ready")
        self._client.rpush(GO, *range(len(tasks)))
        time.sleep(WARM_UP_SECONDS)
        cpu, begin = cpu_seconds(self._client), time.monotonic()
        time.sleep(self._seconds)
        cpu, end = cpu_seconds(self._client) - cpu, time.monotonic()
        for program in started:
            program.wait_for_output("noted")
        recovery = self._recovery(tasks)
        for program in started:
            program.kill()
        notes = [json.loads(Path(task.result).read_text()) for task in tasks]
        took = [
            seconds
            for note in notes
            for at, seconds in note["exchanges"]
            if begin <= at < end
        ]
        pages = sum(begin <= at < end for note in notes for at in note["pages"])
        return FleetRow(
            workers,
            workers * self._rate,
            pages / (end - begin),
            len(took) / (end - begin),
            cpu / (end - begin),
            quantile(took, 0.5) * 1000,
            quantile(took, 0.99) * 1000,
            sum(task.silent for task in tasks),
            LEASE_SECONDS,
            recovery,
            os.getloadavg()[0] / (os.cpu_count() or 1),
        )

    def _fill(self) -> None:
        self._client.flushall()
        producer = Producer(self._client, CRAWL)
        for some in batches(old_links()):
            producer.push(some)
        fill(self._client, self._keys, QUEUED)

    def _tasks(self, workers: int, every: float) -> list[Task]:
        share = workers // PROCESSES
        # With a moment to spare, so that all of the watch is noted.
        seconds = WARM_UP_SECONDS + self._seconds + 1
        return [
            Task(
                url=self._server.url,
                crawl=CRAWL,
                number=number,
                workers=share + (number < workers % PROCESSES),
                pages_per_second=self._rate,
                every=every,
                seconds=seconds,
                lease_secs=LEASE_SECONDS,
                new=NEW,
                old=OLD,
                silent=max(1, round(share * SILENT_SHARE)),
                result=str(self._programs.directory / f"load-{number}.json"),
            )
            for number in range(PROCESSES)
        ]

    def _start(self, task: Task) -> Any:
        file = self._programs.directory / f"task-{task.number}.json"
        file.write_text(json.dumps(asdict(task)))
        module = "benchmarks.scaling.load"
        return self._programs.python("-m", module, file, name="load")

    def _recovery(self, tasks: list[Task]) -> float:
        """Seconds from the silence of some workers until nothing is theirs any more."""
        silence = time.monotonic()
        silent = {
            worker_name(task.number, number).encode()
            for task in tasks
            for number in range(task.silent)
        }
        assert self._held_by(silent), "workers hold nothing when they fall silent"
        back = "what they held is back"
        wait_until(lambda: not self._held_by(silent), RECOVERY_PATIENCE_SECONDS, back)
        return time.monotonic() - silence

    def _held_by(self, workers: set[bytes]) -> int:
        leases: Any = self._client.hvals(self._keys.named("leases"))
        return sum(lease.rpartition(b":")[0] in workers for lease in leases)
