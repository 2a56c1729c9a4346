"""Spiders whose own settings matter."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.utils.request import RequestFingerprinter

from scrapy_redis_state import SessionProvider
from scrapy_redis_state.crawl import SharedCrawl
from tests.crawl.project.spiders.shop import ShopSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

URL_VARIABLE = "SERVER_OF_CUSTOM_SPIDER"


class OwnFingerprinter(RequestFingerprinter):
    """Scrapy's, under another name."""


class CustomSpider(ShopSpider):
    """Every setting of ours with a value that is not its default."""

    name = "custom"
    custom_settings = {  # noqa: RUF012 - the name and form that Scrapy reads
        "REDIS_STATE_ENABLED": True,
        "REDIS_STATE_URL": os.environ.get(URL_VARIABLE, ""),
        "REDIS_STATE_CRAWL_ID": "%(bot)s-custom:%(spider)s",
        "REDIS_STATE_KEY_PREFIX": "prefix-",
        "REDIS_STATE_LEASE_SECS": 7.5,
        "REDIS_STATE_REAP_INTERVAL_SECS": 1.5,
        "REDIS_STATE_MAX_DELIVERIES": 4,
        "REDIS_STATE_PREFETCH": 3,
        "REDIS_STATE_ORDER": "lifo",
        "REDIS_STATE_PRIORITY_RULES": [("/product/[0-9]+", 1000)],
        "REDIS_STATE_SEEN": "packed",
        "REDIS_STATE_SEEN_CAPACITY": 2000,
        "REDIS_STATE_SEEN_ERROR_RATE": 0.01,
        "REDIS_STATE_REVISIT_SECS": 5000,
        "REDIS_STATE_MAX_PAGES_PER_SITE": 500,
        "REDIS_STATE_STRIP_QUERY_PARAMS": ["tracking", "session"],
        "REDIS_STATE_FALLBACK_REQUEST_FINGERPRINTER_CLASS": OwnFingerprinter,
        "REDIS_STATE_FINISHED_TTL_SECS": 1000,
        "REDIS_STATE_START": "every_worker",
        "REDIS_STATE_START_HIGH_WATER": 50,
        "REDIS_STATE_KEEP_ALIVE": True,
        "REDIS_STATE_IDLE_TIMEOUT_SECS": 0.5,
        "REDIS_STATE_START_KEYS": ["prefix-%(bot)s:%(name)s"],
        "REDIS_STATE_START_KEYS_BATCH_SIZE": 5,
        "REDIS_STATE_SHUTDOWN_GRACE_SECS": 3,
        "REDIS_STATE_WAIT_REPLICAS": 0,
        "REDIS_STATE_OUTAGE_SECS": 12,
        "REDIS_STATE_SESSIONS_ENABLED": False,
        "REDIS_STATE_SESSION_TTL_SECS": 900,
        "REDIS_STATE_SESSION_PROXIES": {"near": "http://127.0.0.1:1"},
        "REDIS_STATE_SESSION_PROVIDER": SessionProvider,
        "REDIS_STATE_METRICS_PORT": 0,
        "REDIS_STATE_METRICS_ADDRESS": "127.0.0.2",
    }

    async def start(self) -> AsyncIterator[Any]:
        config = SharedCrawl.of(self.crawler).config
        seen = {name: str(getattr(config, name)) for name in vars(config)}
        path = Path(self.settings["RECORDS"]) / "config"
        path.write_text(json.dumps(seen))
        async for request in super().start():
            yield request


class UnsharedSpider(ShopSpider):
    """Opts out of a project's sharing."""

    name = "unshared"
    custom_settings = {"REDIS_STATE_ENABLED": False}  # noqa: RUF012


class PrioritiesSpider(scrapy.Spider):
    """One page that leads to a dozen; with ``own``, it decides priorities itself."""

    name = "priorities"
    custom_settings = {  # noqa: RUF012
        "CONCURRENT_REQUESTS": 1,
        "REDIS_STATE_PREFETCH": 1,
        "REDIS_STATE_PRIORITY_RULES": [("/flash/", 100), ("/[0-9]$", -5)],
    }

    def __init__(self, site: str, own: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site
        if own:
            self.redis_state_priority = self.by_number

    def by_number(self, request: scrapy.Request) -> int:
        """The number at the end of the URL."""
        return int(request.url.rpartition("/")[2])

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"{self.site}/hub/0")

    def parse(self, response: Response) -> Iterator[Any]:
        if "/hub/" not in response.url:
            yield {"path": response.url.removeprefix(self.site)}
            return
        for number, (kind, priority) in enumerate(
            (("plain", 0), ("plain", 7), ("flash", -3), ("plain", 0), ("flash", 0))
        ):
            url = f"{self.site}/{kind}/{number}"
            yield scrapy.Request(url, priority=priority)


class TreeSpider(scrapy.Spider):
    """Two children for each page, down to a depth of four."""

    name = "tree"
    custom_settings = {  # noqa: RUF012
        "CONCURRENT_REQUESTS": 1,
        "REDIS_STATE_PREFETCH": 1,
        "DEPTH_LIMIT": 4,
    }

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield self.page("t")

    def parse(self, response: Response, path: str) -> Iterator[Any]:
        yield {"path": path}
        for child in "lr":
            yield self.page(path + child)

    def page(self, path: str) -> scrapy.Request:
        url = f"{self.site}/{path}?delay=0.05"
        return scrapy.Request(url, cb_kwargs={"path": path})
