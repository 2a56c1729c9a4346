"""The crawls of servers as metrics of Prometheus, asked for at each scrape.

Names, labels and meanings are told in ``docs/reference/metrics.rst``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scrapy_redis_state.commands.advice import growth
from scrapy_redis_state.commands.discovery import MOST, Discovery, Known
from scrapy_redis_state.commands.figures import (
    oldest_lease_secs,
    orphans,
    workers_at_work,
)
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.memory_use import memory_by_key, server_memory
from scrapy_redis_state.store.messages import CrawlStatus, Seeding
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from redis import Redis

    from scrapy_redis_state.store.status import StatusReply

logger = logging.getLogger(__name__)

Connect = Callable[[str], AbstractContextManager["Redis"]]

PREFIX = "scrapy_redis_state_"
_CRAWL = ("server", "prefix", "crawl")


class _Figure(NamedTuple):
    """A metric that each crawl has once."""

    name: str
    help: str
    of: Callable[[StatusReply], float | None]
    """None: not told."""
    is_counter: bool = False


def queue_depth(status: StatusReply) -> int:
    """Requests that workers could be at; what to scale their number by.

    At least 1 while anything is left, since only a worker brings back what is delayed,
    and runs ``start()``; 0 when workers would do nothing.
    """
    summary = status.summary
    if summary.status is not CrawlStatus.RUNNING:
        return 0
    ready = summary.pending + summary.in_flight + summary.suspects
    is_something_left = status.left > 0 or summary.seeding is Seeding.OPEN
    return max(ready, int(is_something_left))


_FIGURES = (
    _Figure("queue_depth", "Requests that workers could be at now", queue_depth),
    _Figure("workers", "Live workers", workers_at_work),
    _Figure(
        "pages_done",
        "Pages done in this generation",
        lambda one: one.summary.done,
        is_counter=True,
    ),
    _Figure("pages_seen", "Pages that count as seen", lambda one: one.summary.seen),
    _Figure(
        "generation",
        "Raised when the crawl starts over",
        lambda one: one.generation,
    ),
    _Figure("orphaned_requests", "In flight without a live worker", orphans),
    _Figure(
        "oldest_lease_seconds",
        "For how long the slowest page is out",
        lambda one: oldest_lease_secs(one) or 0,
    ),
    _Figure(
        "last_exchange_timestamp_seconds",
        "When a worker made a call last, by the server's clock",
        lambda one: None if one.silence_ms < 0 else one.now - one.silence_ms / 1000,
    ),
    _Figure(
        "start_failures",
        "How often start() raised in this generation",
        lambda one: one.seed_failures,
        is_counter=True,
    ),
    _Figure(
        "frontier_grows",
        "1: for minutes more was found than done",
        lambda one: int(growth(one) is not None),
    ),
)


class ServerMetrics(Collector):
    """What ``scrapy redis-state exporter`` tells.

    :param urls: of the servers
    :param connect: makes a client for a URL, closed with its context
    :param prefix: only crawls under it; None: any
    """

    def __init__(
        self, urls: Iterable[str], connect: Connect, prefix: str | None
    ) -> None:
        self._servers = {url: Discovery(prefix) for url in urls}
        self._connect = connect
        self._away: set[str] = set()

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked before the first scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics; a server that does not answer is only told to be down."""
        sheet = _Sheet()
        for url, discovery in self._servers.items():
            try:
                with self._connect(url) as client:
                    found = _Found(masked(url), discovery.crawls(client), client)
                    told = found.told()
            except RedisStateError as error:
                self._note(url, error)
                sheet.up.add_metric([masked(url)], 0)
            else:
                self._note(url, None)
                sheet.up.add_metric([masked(url)], 1)
                for family, labels, value in told:
                    sheet[family].add_metric(labels, value)
        yield from sheet

    def _note(self, url: str, error: RedisStateError | None) -> None:
        if error is None and url in self._away:
            self._away.discard(url)
            logger.info("%(url)s answers again", {"url": masked(url)})
        elif error is not None and url not in self._away:
            self._away.add(url)
            logger.warning("%(url)s: %(error)s", {"url": masked(url), "error": error})


class _Sheet:
    """All families, empty at first."""

    def __init__(self) -> None:
        gauge = GaugeMetricFamily
        self.up = gauge(f"{PREFIX}up", "1: the server answers", labels=["server"])
        self._families: dict[str, Metric] = {
            "up": self.up,
            "crawls": gauge(
                f"{PREFIX}crawls", "Crawls by state", labels=["server", "state"]
            ),
            "crawls_left_out": gauge(
                f"{PREFIX}crawls_left_out",
                f"Crawls beyond the first {MOST}, which are not told one by one",
                labels=["server"],
            ),
            "memory_used": gauge(
                f"{PREFIX}server_memory_used_bytes",
                "Memory of all that the server has",
                labels=["server"],
            ),
            "memory_most": gauge(
                f"{PREFIX}server_memory_max_bytes",
                "maxmemory; 0: no limit",
                labels=["server"],
            ),
            "state": gauge(
                f"{PREFIX}state",
                "1 for the state that the crawl is in",
                labels=[*_CRAWL, "state"],
            ),
            "requests": gauge(
                f"{PREFIX}requests",
                "Requests that are not done, and dead letters",
                labels=[*_CRAWL, "state"],
            ),
            "memory": gauge(
                f"{PREFIX}memory_bytes", "Memory of the crawl's keys", labels=_CRAWL
            ),
        }
        for one in _FIGURES:
            family = CounterMetricFamily if one.is_counter else GaugeMetricFamily
            self._families[one.name] = family(
                f"{PREFIX}{one.name}", one.help, labels=_CRAWL
            )

    def __getitem__(self, name: str) -> GaugeMetricFamily:
        found = self._families[name]
        assert isinstance(found, GaugeMetricFamily | CounterMetricFamily)
        return found  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


_Told = tuple[str, list[str], float]
"""Name of a family, label values, value."""


class _Found(NamedTuple):
    """What one server has."""

    server: str
    crawls: list[Known]
    client: Redis

    def told(self) -> list[_Told]:
        """All of it, or the error that comes in between."""
        return [*self._of_server(), *self._of_crawls()]

    def _of_server(self) -> Iterator[_Told]:
        states = Counter(one.status.summary.status for one in self.crawls)
        for state in CrawlStatus:
            yield "crawls", [self.server, state.value], states[state]
        yield "crawls_left_out", [self.server], max(0, len(self.crawls) - MOST)
        # Which node of a cluster is asked does not matter where there is no crawl.
        key = self.crawls[0].keys.named("crawl") if self.crawls else "crawl:{}"
        memory = server_memory(self.client, key)
        if memory is not None:
            yield "memory_used", [self.server], memory.used
            yield "memory_most", [self.server], memory.most or 0

    def _of_crawls(self) -> Iterator[_Told]:
        for keys, status in self.crawls[:MOST]:
            labels = [self.server, keys.prefix, keys.crawl]
            for figure in _FIGURES:
                value = figure.of(status)
                if value is not None:
                    yield figure.name, labels, value
            for state in CrawlStatus:
                is_it = status.summary.status is state
                yield "state", [*labels, state.value], int(is_it)
            for name in ("pending", "in_flight", "delayed", "suspects", "dead"):
                yield "requests", [*labels, name], getattr(status.summary, name)
            memory = memory_by_key(self.client, keys, status)
            if memory is not None:
                yield "memory", labels, sum(memory.values())
