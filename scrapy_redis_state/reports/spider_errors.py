"""Telling of what a spider raised where Scrapy does not see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def report_spider_error(crawler: Crawler, error: BaseException) -> None:
    """Send the signal and count, as Scrapy does for callbacks; there is no response."""
    crawler.signals.send_catch_log(
        signals.spider_error,
        failure=Failure(error),  # type: ignore[no-untyped-call]
        response=None,
        spider=crawler.spider,
    )
    assert crawler.stats is not None
    crawler.stats.inc_value("spider_exceptions/count")
    crawler.stats.inc_value(f"spider_exceptions/{type(error).__name__}")
