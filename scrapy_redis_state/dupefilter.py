"""The duplicates filter."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.reports.duplicates import DuplicateNotes
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.store.client import sync_client

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from scrapy_redis_state.store.state import CrawlState

logger = logging.getLogger(__name__)


class DupeFilter(BaseDupeFilter):
    """Filters requests that any process of the crawl has seen.

    Under :class:`scrapy_redis_state.Scheduler` nothing of it is called: the seen set is
    tested and set in the same step that stores the request. Under another scheduler it
    asks Redis for each request and **blocks the event loop** while it waits.
    """

    uses_shared_seen_set = True

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = SharedCrawl.of(crawler)
        self._state: CrawlState | None = None
        self._notes = DuplicateNotes(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BaseDupeFilter:  # type: ignore[override]
        """This filter, or Scrapy's own where nothing is to be shared."""
        if not takes_part(crawler.settings):
            return RFPDupeFilter.from_crawler(crawler)
        return cls(crawler)

    def open(self) -> None:
        """Connect; called by the scheduler."""
        logger.warning(
            "DUPEFILTER_CLASS is used without the scheduler of scrapy_redis_state: each"
            " request waits for Redis, and only the seen set is shared"
        )
        from scrapy_redis_state.store.state import CrawlState  # noqa: PLC0415 - rarely

        config = self._crawl.config
        self._state = CrawlState(sync_client(config.url), self._crawl.keys)

    def close(self, reason: str) -> None:  # noqa: ARG002 - Scrapy's signature
        """Disconnect."""
        if self._state is not None:
            self._state.close()
            self._state = None

    def request_seen(self, request: Request) -> bool:
        """Whether *request* was seen; marks it as seen."""
        assert self._state is not None
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
        return not self._state.claim_fingerprint(fingerprint)

    def log(self, request: Request, spider: Spider) -> None:  # noqa: ARG002 - as above
        """Note a duplicate, as Scrapy's own filter does."""
        self._notes.note(request)
