"""Some of many workers: ``python -m benchmarks.scaling.load FILE``.

Each talks to the server as a worker does, ends so many pages a second, and parses
nothing. FILE is JSON, see :class:`Task`; the result is written to ``result``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.storing.worker import PAYLOAD, Conversation, first_join
from scrapy_redis_state.store import runner, scripts
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Ack, Operation, Store
from scrapy_redis_state.worker.known import KnownPages

GO = "go"
"""A list from which each process takes the word to start."""
START_PATIENCE_SECONDS = 120
OLD_LINKS = 1000
FOR_EVER = math.inf


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is to do. Times in seconds."""

    url: str
    crawl: str
    number: int
    """Of the process."""
    workers: int
    pages_per_second: float
    """Of each worker."""
    every: float
    """Between two exchanges of a worker."""
    seconds: float
    """How long things are noted, from the word to start."""
    lease_secs: float
    new: int
    old: int
    """Links per page, to new pages and to seen ones. A worker asks for each once, as it
    remembers which pages it knows to be seen."""
    silent: int
    """How many workers then fall silent, with what they hold; the others go on."""
    result: str


@dataclass(slots=True)
class Log:
    """What the workers of a process noted."""

    exchanges: list[tuple[float, float]] = field(default_factory=list)
    """When each began (the system's monotonic clock), and how long it took."""
    pages: list[float] = field(default_factory=list)
    """When each ended."""

    def write(self, file: str) -> None:
        """Write what there is so far, for who started this process."""
        noted = {"exchanges": self.exchanges, "pages": self.pages}
        Path(file).write_text(json.dumps(noted))


class LightWorker:
    """One worker: holds pages, and ends them at its rate."""

    def __init__(self, task: Task, number: int, log: Log) -> None:
        self._task, self._log = task, log
        self._keys = CrawlKeys(task.crawl)
        self._client = async_client(task.url, timeout=60)
        self._name = worker_name(task.number, number)
        self._numbers = itertools.count(((task.number << 20) + number) << 40)
        self._held: deque[Ack] = deque()
        self._known = KnownPages()
        self._talk: Conversation
        self._is_silent_later = number < task.silent

    async def join(self) -> None:
        """Become a worker of the crawl."""
        request = first_join(self._name, self._keys, self._task.lease_secs)
        reply = await runner.run_async(self._client, scripts.join(self._keys, request))
        self._talk = Conversation(self._name, reply)

    async def run(self, old: list[Store]) -> None:
        """Work, for ever or until it is time to fall silent."""
        task = self._task
        begin = time.monotonic()
        end = begin + (task.seconds if self._is_silent_later else FOR_EVER)
        due = begin + random.uniform(0, task.every)  # noqa: S311 - not all in step
        owed = 0.0
        while time.monotonic() < end:
            await asyncio.sleep(max(0, due - time.monotonic()))
            owed += task.pages_per_second * task.every
            count = min(int(owed), len(self._held))
            # What could not be done for want of pages is not made up for.
            owed = min(owed - count, 2.0)
            await self._exchange(self._ended(count, old))
            due = max(due + task.every, time.monotonic())
        await self._client.aclose()

    def _ended(self, count: int, old: list[Store]) -> list[Operation]:
        operations: list[Operation] = []
        for _ in range(count):
            first = random.randrange(len(old) - self._task.old)  # noqa: S311
            operations += self._unknown(old[first : first + self._task.old])
            for _ in range(self._task.new):
                page = next(self._numbers).to_bytes(20, "big")
                operations.append(Store(PAYLOAD, 0, page))
            operations.append(self._held.popleft())
        self._log.pages += [time.monotonic()] * count
        return operations

    def _unknown(self, links: list[Store]) -> Iterator[Store]:
        for link in links:
            if link.fingerprint not in self._known:
                self._known.add(link.fingerprint)
                yield link

    async def _exchange(self, operations: list[Operation]) -> None:
        task = self._task
        # Twice what ends between two exchanges, as workers fetch ahead.
        enough = 2 * max(1, round(task.pages_per_second * task.every))
        want = max(0, enough - len(self._held))
        request = self._talk.request(operations, want, busy=True)
        began = time.monotonic()
        call = scripts.exchange(self._keys, request)
        popped = self._talk.heard(await runner.run_async(self._client, call))
        self._log.exchanges.append((began, time.monotonic() - began))
        self._held += self._talk.acks(popped)


def worker_name(process: int, number: int) -> str:
    """Identity of a worker."""
    return f"worker-{process}-{number:04d}"


def old_links() -> list[Store]:
    """Requests for pages that were seen, the same in all processes."""
    return [
        Store(PAYLOAD, 0, number.to_bytes(20, "big")) for number in range(OLD_LINKS)
    ]


async def main(task: Task) -> None:
    """Join, wait for the word to start, work, and write what was noted meanwhile."""
    log = Log()
    workers = [LightWorker(task, number, log) for number in range(task.workers)]
    for worker in workers:
        await worker.join()
    print("ready", flush=True)
    waiting = async_client(task.url, timeout=START_PATIENCE_SECONDS)
    await waiting.blpop([GO], START_PATIENCE_SECONDS)
    await waiting.aclose()
    old = old_links()
    running = asyncio.gather(*(worker.run(old) for worker in workers))
    await asyncio.sleep(task.seconds)
    log.write(task.result)
    print("noted", flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(main(Task(**json.loads(Path(sys.argv[1]).read_text()))))
