"""The extension that serves metrics of this worker to Prometheus."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.prometheus.server import NO_CLIENT, MetricsServer
from scrapy_redis_state.startup.invocation import takes_part

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

MORE_PORTS = 99
"""Workers of one host take one port after the other."""


class Metrics:
    """Serves while the spider is open.

    A port that cannot be had is a line in the log: pages go before figures.

    :raises ValueError: without ``prometheus_client``
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawl = SharedCrawl.of(crawler)
        self._server: MetricsServer | None = None
        try:
            # Not before it is wanted: it is an extra.
            from scrapy_redis_state.prometheus.worker import WorkerMetrics  # noqa: PLC0415
        except ImportError:
            name, port = "REDIS_STATE_METRICS_PORT", self._crawl.config.metrics_port
            raise ValueError(f"{name} = {port}: {NO_CLIENT}") from None
        self._metrics = WorkerMetrics(self._crawl)
        crawler.signals.connect(self._start, signals.spider_opened)
        crawler.signals.connect(self._stop, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not takes_part(settings):
            raise NotConfigured
        if SharedCrawl.of(crawler).config.metrics_port is None:
            raise NotConfigured
        return cls(crawler)

    def _start(self) -> None:
        config = self._crawl.config
        assert config.metrics_port is not None
        try:
            self._server = MetricsServer(
                self._metrics, config.metrics_address, config.metrics_port, MORE_PORTS
            )
        except OSError as error:
            logger.warning(
                "No metrics: REDIS_STATE_METRICS_PORT = %(port)d on"
                " REDIS_STATE_METRICS_ADDRESS = %(address)r, and the %(more)d that"
                " follow: %(error)s",
                {
                    "port": config.metrics_port,
                    "address": config.metrics_address,
                    "more": MORE_PORTS,
                    "error": error.strerror or error,
                },
            )
        else:
            logger.info("Metrics are at %(url)s", {"url": self._server.url})

    def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
