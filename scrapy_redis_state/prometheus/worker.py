"""One worker as metrics of Prometheus, read from memory at each scrape.

Names, labels and meanings are told in ``docs/reference/metrics.rst``. Scrapes come in
another thread than the worker's: nothing is changed, and what may change meanwhile is
copied first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from scrapy_redis_state.crawl import SharedCrawl

PREFIX = "scrapy_redis_state_worker_"
MOST_STATS = 500
"""Names of Scrapy stats that are told: some are made of what web sites answer."""


class WorkerMetrics(Collector):
    """What the extension serves.

    :param crawl: of this crawler; its worker may not be there yet
    """

    def __init__(self, crawl: SharedCrawl) -> None:
        self._crawl = crawl

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics as of now."""
        crawl = [self._crawl.config.crawl_id]
        worker = self._crawl.worker
        if worker is not None:
            member = worker.membership
            identity = GaugeMetricFamily(
                f"{PREFIX}info", "This worker", labels=["crawl", "worker", "generation"]
            )
            identity.add_metric([*crawl, member.id, str(member.generation)], 1)
            yield identity
            for name, text, value in (
                ("held_requests", "Leased to this worker", worker.held),
                ("unsent_operations", "Not stored in Redis yet", worker.backlog),
                (
                    "silence_seconds",
                    "Since the last call that was answered",
                    worker.silence_secs,
                ),
            ):
                gauge = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=["crawl"])
                gauge.add_metric(crawl, value)
                yield gauge
            for name, text, value in (
                ("exchanges", "Round trips", member.exchanges),
                ("rejoins", "Times that it lost touch and came back", member.rejoins),
                ("stalls", "Times that its event loop stood still", worker.stalls),
            ):
                counter = CounterMetricFamily(f"{PREFIX}{name}", text, labels=["crawl"])
                counter.add_metric(crawl, value)
                yield counter
        yield self._stats(crawl)

    def _stats(self, crawl: list[str]) -> Metric:
        stats = dict(self._crawl.crawler.stats.get_stats())
        family = GaugeMetricFamily(
            f"{PREFIX}stat",
            "Scrapy's statistics that are numbers",
            labels=["crawl", "name"],
        )
        numbers = [
            (name, value)
            for name, value in sorted(stats.items())
            if isinstance(value, int | float)
        ]
        for name, value in numbers[:MOST_STATS]:
            family.add_metric([*crawl, name], float(value))
        return family
