"""One run of one system, and what came of it."""

from __future__ import annotations

import json
import statistics
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks.crawling.systems import COMMON, System
from benchmarks.crawling.usage import usage
from tests.processes import REPOSITORY, Program, Programs
from tests.servers import Server

DELAY = REPOSITORY / "benchmarks" / "crawling" / "delay.py"
PATIENCE_SECONDS = 600
CALLS = 20
"""By which a distance is measured."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run. ``_page`` is per page of it."""

    system: str
    links: int
    round_trip_ms: float
    pages: int
    pages_per_second: float
    """From the opening of the spider until its last page was done."""
    cpu_us_page: float
    """Processor time of the crawling process."""
    startup_seconds: float
    """From the start of the process to its first response."""
    closing_seconds: float | None
    """From the end of the last page until the spider was closed; None: broken off."""
    peak_mib: float
    """Most resident memory of the process."""
    redis_cpu_us_page: float
    """Processor time of the server, user and system."""
    round_trips_page: float
    commands_page: float
    """Executed by the server, those of scripts included."""


class Trials:
    """Runs systems on one site and one server.

    :param site: its URL without a slash at the end
    """

    def __init__(self, programs: Programs, server: Server, site: str) -> None:
        self._programs = programs
        self._server = server
        self._client = server.client()
        self._site = site
        self._doors: dict[float, int] = {0: server.port}

    def run(
        self,
        system: System,
        links: int,
        round_trip_ms: float = 0,
        *,
        most_pages: int = 0,
        folder: str = "site",
    ) -> Row:
        """Run one system on an empty server, to the end or for so many pages.

        :param links: of each page, for the report
        :param folder: the site's name
        """
        self._client.flushall()
        self.empty()
        before = usage(self._client)
        (figures,) = self.crawl(
            system, round_trip_ms, most_pages=most_pages, folder=folder
        )
        used = usage(self._client).since(before)
        pages, times = figures["pages"], figures["times"]
        is_whole = "closed" in times
        return Row(
            system.name,
            links,
            round_trip_ms,
            pages,
            pages / (times["last"] - times["opened"]),
            figures["cpu_seconds"] * 1e6 / pages,
            times["first"],
            times["closed"] - times["last"] if is_whole else None,
            figures["peak_mib"],
            used.cpu_seconds * 1e6 / pages,
            used.round_trips / pages,
            used.commands / pages,
        )

    def empty(self) -> None:
        """Have the server forget all."""
        self._client.flushall()

    def crawl(
        self,
        system: System,
        round_trip_ms: float = 0,
        *,
        most_pages: int = 0,
        folder: str = "site",
        workers: int = 1,
        laps: int = 1,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> list[dict[str, Any]]:
        """What each of so many workers noted.

        :param laps: how often the whole site is crawled
        :param patience_seconds: how long they may take
        """
        path = f"/{folder}/0.html"
        settings = {**COMMON, **system.settings}
        if system.url_setting:
            port = self._door(round_trip_ms)
            settings[system.url_setting] = f"redis://127.0.0.1:{port}/0"
        task = {
            "settings": settings,
            "url": self._site + ("/cookies" if system.cookies else "") + path,
            "most_pages": most_pages,
            "laps": laps,
        }
        started = [self._start(system, task) for _ in range(workers)]
        found = []
        for program, result in started:
            assert program.wait(patience_seconds) == 0, str(program)
            found.append(json.loads(result.read_text()))
        return found

    def _start(self, system: System, task: dict[str, Any]) -> tuple[Program, Path]:
        number = len(self._programs.started)
        file = self._programs.directory / f"task-{number}.json"
        result = file.with_name(f"result-{number}.json")
        more = {"began": time.monotonic(), "result": str(result)}
        file.write_text(json.dumps(task | more))
        module = "benchmarks.crawling.worker"
        return self._programs.run(system.python, "-m", module, file), result

    def _door(self, round_trip_ms: float) -> int:
        """The port where the server is so far away."""
        if round_trip_ms not in self._doors:
            arguments = (DELAY, str(self._server.port), str(round_trip_ms / 1000))
            proxy = self._programs.python(*arguments, name="delay")
            proxy.wait_for_output("\n")
            self._doors[round_trip_ms] = int(proxy.output)
        return self._doors[round_trip_ms]

    def distance_ms(self, round_trip_ms: float) -> float:
        """How far the server is in fact: the median of some calls."""
        door = self._door(round_trip_ms)
        times = []
        with closing(redis.Redis("127.0.0.1", door, socket_timeout=10)) as client:
            for _ in range(CALLS + 1):
                start = time.perf_counter()
                client.ping()
                times.append(time.perf_counter() - start)
        # Without the first, which connects.
        return statistics.median(times[1:]) * 1000
