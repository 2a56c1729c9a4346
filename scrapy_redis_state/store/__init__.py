"""Shared crawl state in Redis; knows neither Scrapy nor Twisted."""

from scrapy_redis_state.store.async_state import AsyncCrawlState
from scrapy_redis_state.store.canonical import url_fingerprint
from scrapy_redis_state.store.requests import LeasedRequest
from scrapy_redis_state.store.state import CrawlState

__all__ = ["AsyncCrawlState", "CrawlState", "LeasedRequest", "url_fingerprint"]
