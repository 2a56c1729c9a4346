"""Processor time of the server per page, by what a page has in it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.servers import cpu_seconds
from benchmarks.storing.bare import BareWorker
from benchmarks.storing.worker import ALL_AT_ONCE, Links, SyncWorker
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Operation
from scrapy_redis_state.store.seen import SeenSet


@dataclass(frozen=True, slots=True)
class Mix:
    """What the end of a page brings with it."""

    name: str
    new: int
    """Links to pages that were not seen."""
    old: int = 0
    """Links to pages that were."""

    @property
    def operations(self) -> int:
        """What is sent for one page."""
        return self.new + self.old + 1


NO_LINKS = Mix("no links", 0)
TEN_NEW = Mix("10 links, all new", 10)
ONE_NEW = Mix("14 links, 1 new", 1, 13)
OTHERS_KNOWN = Mix("14 links, 1 new, 13 known to the worker", 1)
"""Those that a worker knows to be seen are not sent."""

MIXES = (NO_LINKS, TEN_NEW, ONE_NEW, OTHERS_KNOWN)
BATCHES = (1, 4, 16, 32, 128)
"""Pages that end in one exchange, as far as its operations are not too many."""
USUAL_BATCH = 16
HELD = 1000
"""Requests that other workers hold meanwhile, as in any fleet worth measuring."""
BARE = "bare commands"
"""In place of a kind of seen set: a set, and no promises, see :mod:`.bare`."""
BUSY_BATCH = 32
"""Of a worker with 32 concurrent requests that is as busy as can be."""


@dataclass(frozen=True, slots=True)
class MixRow:
    """One mix on one server."""

    server: str
    mix: str
    seen: str
    pages_per_exchange: int
    cpu_us_page: float
    """Processor time of the server, user and system; the median of all rounds."""
    rounds: tuple[float, ...]

    @property
    def pages_per_second(self) -> float:
        """What one core of a server can do."""
        return 1e6 / self.cpu_us_page


def seen_sets(pages: int) -> dict[str, SeenSet]:
    """One of each kind, large enough for so many pages with ten new links each."""
    capacity = pages * 12
    return {
        "exact": SeenSet(),
        "packed": SeenSet("packed", capacity),
        "bloom": SeenSet("bloom", capacity),
    }


def measure(client: Any, server: str, pages: int, rounds: int) -> Iterator[MixRow]:
    """Every mix with every batch size, and with every kind of seen set.

    :param pages: that end in each measurement
    """
    kinds = seen_sets(pages)
    plan = [
        (mix, "exact", batch)
        for mix in MIXES
        for batch in BATCHES
        if batch * mix.operations <= ALL_AT_ONCE
    ]
    plan += [
        (mix, kind, USUAL_BATCH)
        for mix in (TEN_NEW, ONE_NEW)
        for kind in kinds
        if kind != "exact"
    ]
    plan += [(mix, BARE, BUSY_BATCH) for mix in (NO_LINKS, TEN_NEW, ONE_NEW)]
    # Round by round, so that all share the machine's moods.
    found: dict[tuple[Mix, str, int], list[float]] = {key: [] for key in plan}
    for _ in range(rounds):
        for mix, kind, batch in plan:
            if kind == BARE:
                cost = bare_cost_of(client, mix, batch, pages)
            else:
                cost = cost_of(client, kinds[kind], mix, batch, pages)
            found[mix, kind, batch].append(cost)
    for (mix, kind, batch), costs in found.items():
        middle = statistics.median(costs)
        yield MixRow(server, mix.name, kind, batch, middle, tuple(costs))


def cost_of(client: Any, seen: SeenSet, mix: Mix, batch: int, pages: int) -> float:
    """Processor time of the server per page, in µs, on an empty server."""
    client.flushall()
    keys = CrawlKeys("shop:offers", "", seen)
    worker, links = SyncWorker(client, keys), Links()
    for _ in range(0, HELD + pages + batch, ALL_AT_ONCE):
        worker.exchange(links.new(ALL_AT_ONCE))
    SyncWorker(client, keys, "another").exchange([], HELD)
    popped = worker.exchange([], batch)
    before, done = cpu_seconds(client), 0
    while done < pages:
        operations: list[Operation] = []
        for ack in worker.talk.acks(popped):
            operations += links.new(mix.new)
            operations += links.old(mix.old, done)
            operations.append(ack)
            done += 1
        popped = worker.exchange(operations, batch)
        assert len(popped) == batch
    return (cpu_seconds(client) - before) * 1e6 / done


def bare_cost_of(client: Any, mix: Mix, batch: int, pages: int) -> float:
    """The same of the commands alone."""
    client.flushall()
    worker = BareWorker(client)
    for _ in range(0, HELD + pages + batch, ALL_AT_ONCE):
        worker.exchange(worker.new(ALL_AT_ONCE), [], 0)
    worker.exchange([], [], HELD)
    popped = worker.exchange([], [], batch)
    before, done = cpu_seconds(client), 0
    while done < pages:
        links: list[bytes] = []
        for _ in popped:
            links += worker.new(mix.new) + worker.old(mix.old, done)
            done += 1
        popped = worker.exchange(links, popped, batch)
        assert len(popped) == batch
    return (cpu_seconds(client) - before) * 1e6 / done
