"""Shared crawl state in Redis; knows neither Scrapy nor Twisted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_redis_state.store.async_state import AsyncCrawlState
    from scrapy_redis_state.store.canonical import url_fingerprint
    from scrapy_redis_state.store.requests import LeasedRequest
    from scrapy_redis_state.store.state import CrawlState

__all__ = ["AsyncCrawlState", "CrawlState", "LeasedRequest", "url_fingerprint"]

_MODULES = {
    "AsyncCrawlState": "async_state",
    "CrawlState": "state",
    "LeasedRequest": "requests",
    "url_fingerprint": "canonical",
}


def __getattr__(name: str) -> Any:
    """The public names, when they are asked for: a worker starts without them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
