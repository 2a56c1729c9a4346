"""A shared crawl of a test: workers as real processes, what they did, and its state."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import msgpack

from scrapy_redis_state.codec import describe_payload
from scrapy_redis_state.store import CrawlState
from tests.processes import Program, Programs, wait_until
from tests.servers import Server
from tests.site import Site

PROJECT = {"SCRAPY_SETTINGS_MODULE": "tests.crawl.project.settings"}


class Crawls:
    """Starts workers on one server, with a bot name that no other test has.

    The crawl id is therefore ``<bot>:<spider>``, the default, unless a test gives one.
    """

    project: ClassVar[dict[str, str]] = PROJECT

    def __init__(self, programs: Programs, server: Server, bot: str) -> None:
        self.programs = programs
        self.server = server
        self.bot = bot
        self.records = programs.directory / "records"
        self.records.mkdir(exist_ok=True)
        self.client = server.client()

    def start(
        self,
        spider: str,
        *options: str | Path,
        settings: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        **arguments: object,
    ) -> Program:
        """Start a worker. ``arguments`` are the spider's."""
        defaults = {
            "REDIS_STATE_URL": self.server.url,
            "BOT_NAME": self.bot,
            "RECORDS": self.records,
        }
        return self.programs.crawl(
            spider,
            *options,
            settings=defaults | dict(settings or {}),
            arguments=arguments,
            env=self.project | dict(env or {}),
            name=Path(spider).stem,
        )

    def start_together(
        self, count: int, spider: str, site: Site, **options: Any
    ) -> list[Program]:
        """Start workers; the site answers when all have joined, and not before.

        One that comes after the end would begin the crawl anew. ``options`` are those
        of :meth:`start`.
        """
        with site.held():
            workers = [
                self.start(spider, site=site.url, **options) for _ in range(count)
            ]
            wait_until_joined(*workers)
        return workers

    def state(self, crawl: str, prefix: str = "") -> CrawlState:
        """The crawl of a spider, or of a crawl id (which has a colon)."""
        id = crawl if ":" in crawl else f"{self.bot}:{crawl}"
        return CrawlState.connect(self.server.url, crawl=id, prefix=prefix)

    def items(self, *workers: Program) -> list[dict[str, Any]]:
        """Recorded items, of some workers or of all."""
        names = {f"{worker.pid}.jsonl" for worker in workers}
        return [
            json.loads(line)
            for file in sorted(self.records.iterdir())
            if not workers or file.name in names
            for line in file.read_text().splitlines()
        ]

    def values(self, field: str, *workers: Program) -> Counter[Any]:
        """How often each value of a field was recorded."""
        return Counter(i[field] for i in self.items(*workers) if field in i)

    def leases_of(self, worker: Program, spider: str) -> int:
        """How many requests a paused worker holds, once the server is done with it."""
        crawl = f"{self.bot}:{spider}"

        def count() -> int:
            info: Any = self.client.hgetall(f"replies:{{{crawl}}}")
            ids = {
                name.removesuffix(b":info")
                for name, value in info.items()
                if name.endswith(b":info") and json.loads(value)["pid"] == worker.pid
            }
            leases: Any = self.client.hvals(f"leases:{{{crawl}}}")
            return sum(lease.rpartition(b":")[0] in ids for lease in leases)

        seen = [count() for _ in range(5)]
        while len(set(seen[-5:])) > 1:
            seen.append(count())
        return seen[-1]

    def problems(self) -> list[str]:
        """What does not fit together in any crawl of the server."""
        found = []
        for key in self.client.scan_iter("*crawl:{*}"):
            prefix, _, id = key.decode().removesuffix("}").partition("crawl:{")
            with CrawlState.connect(self.server.url, crawl=id, prefix=prefix) as state:
                found += [f"{id}: {problem}" for problem in state.fsck()]
        return found

    def dead(self, crawl: str, prefix: str = "") -> dict[str, DeadLetter]:
        """Dead letters of a crawl, by the path of their URL."""
        id = crawl if ":" in crawl else f"{self.bot}:{crawl}"
        found = {}
        for value in self.client.hvals(f"{prefix}deadinfo:{{{id}}}"):
            info = msgpack.unpackb(value, raw=True)
            url = describe_payload(info[b"payload"])["url"]
            reason = info[b"reason"].decode()
            found[urlsplit(url).path] = DeadLetter(reason, info[b"deliveries"])
        return found


class DeadLetter(NamedTuple):
    reason: str
    deliveries: int


def close_reason(worker: Program) -> str:
    """Why a worker closed its spider; empty if it did not."""
    found = re.findall(r"Spider closed \((\w+)\)", worker.output)
    return str(found[0]) if found else ""


def stats(worker: Program) -> Counter[str]:
    """The counters that a worker dumped at its end."""
    dumped = worker.output.rpartition("Dumping Scrapy stats:")[2]
    return Counter(
        {name: int(number) for name, number in re.findall(r"'(\S+)': (\d+)", dumped)}
    )


def total(name: str, workers: Iterable[Program]) -> int:
    """Sum of one counter over workers."""
    return sum(stats(worker)[name] for worker in workers)


def finish(*workers: Program, timeout: float = 60) -> None:
    """Wait until all have closed ``finished`` with exit status 0."""
    for worker in workers:
        worker.wait_for_success(timeout)
        assert close_reason(worker) == "finished", str(worker)


def wait_for_items(crawls: Crawls, count: int, timeout: float = 40) -> None:
    """Wait until that many items are recorded; fail at once if no worker is left."""

    def recorded() -> bool:
        running = any(program.running for program in crawls.programs)
        if len(crawls.items()) >= count:
            return True
        assert running, "no worker is left"
        return False

    wait_until(recorded, timeout, lambda: f"{count} items recorded")


def wait_until_joined(*workers: Program) -> None:
    """Wait until all are workers of their crawl."""
    for worker in workers:
        worker.wait_for_output(", worker ")
