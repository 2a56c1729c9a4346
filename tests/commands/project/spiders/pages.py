from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class PagesSpider(scrapy.Spider):
    """``count`` pages, each of which takes ``delay`` seconds."""

    name = "pages"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__()
        self.count = int(kwargs.get("count", 3))
        delay = kwargs.get("delay", 0)
        query = kwargs.get("query", f"delay={delay}")
        self.start_urls = [f"{site}/{n}?{query}" for n in range(self.count)]

    def parse(self, response: Response) -> Iterator[Any]:
        self.logger.info("got %s", response.url)
        return iter(())


class MakesSpider(scrapy.Spider):
    """One that makes its requests of messages."""

    name = "makes"

    def redis_state_request(self, message: dict[str, Any]) -> scrapy.Request:
        return scrapy.Request(f"http://shop.example/{message['sku']}")


class OwnSpider(PagesSpider):
    """One with settings of its own."""

    name = "own"
    custom_settings = {  # noqa: RUF012 - as spiders have them
        "REDIS_STATE_CRAWL_ID": "%(bot)s:by-hand",
        "REDIS_STATE_STRIP_QUERY_PARAMS": ["tracking", "ref"],
        "REDIS_STATE_SEEN": "packed",
        "REDIS_STATE_SEEN_CAPACITY": 10_000,
    }
