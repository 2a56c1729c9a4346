"""Duplicate requests: how they are noted, and who is to find them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)


class DuplicateNotes:
    """Counts duplicates, and names them at DEBUG.

    As Scrapy's own filter does: the first, or all with ``DUPEFILTER_DEBUG``. A record
    for each would take longer than all else that is done about a duplicate.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._names_all = crawler.settings.getbool("DUPEFILTER_DEBUG")
        self._names_next = True

    def note(self, request: Request) -> None:
        """Another one."""
        if self._names_next:
            self._name(request)
            self._names_next = self._names_all
        self._crawler.stats.inc_value("dupefilter/filtered")

    def _name(self, request: Request) -> None:
        rest = (
            ""
            if self._names_all
            else " - no more duplicates will be shown (see DUPEFILTER_DEBUG to show all"
            " duplicates)"
        )
        logger.debug(
            "Filtered duplicate request: %(request)s%(rest)s",
            {"request": request, "rest": rest},
            extra={"spider": self._crawler.spider},
        )


def log_limited(request: Request, spider: Spider, stats: StatsCollector) -> None:
    """Count a request too many for its site, and name it at DEBUG."""
    logger.debug(
        "Dropped, as the site has REDIS_STATE_MAX_PAGES_PER_SITE pages: %(request)s",
        {"request": request},
        extra={"spider": spider},
    )
    stats.inc_value("redis_state/site_limited")


def foreign_dupefilter(crawler: Crawler) -> BaseDupeFilter | None:
    """The filter that the project chose in place of ours, if it did.

    Scrapy's default stands for ours, since nobody chose it.
    """
    path = crawler.settings["DUPEFILTER_CLASS"]
    cls = load_object(path)
    if cls is RFPDupeFilter or getattr(cls, "uses_shared_seen_set", False):
        return None
    if cls is not BaseDupeFilter:
        logger.warning(
            "DUPEFILTER_CLASS is %(cls)s: it filters per process, so workers crawl each"
            " other's pages; remove the setting to share the filter",
            {"cls": path},
        )
    dupefilter: BaseDupeFilter = build_from_crawler(cls, crawler)
    return dupefilter
