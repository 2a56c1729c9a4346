from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class HubSpider(scrapy.Spider):
    """A page that takes ``delay`` seconds, and leaves behind it that take ``each``."""

    name = "hub"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__()
        self.site = site
        self.delay = float(kwargs.get("delay", 6))
        self.leaves = int(kwargs.get("leaves", 20))
        self.each = float(kwargs.get("each", 0.2))

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"{self.site}/hub?delay={self.delay}")

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        for number in range(self.leaves):
            url = f"{self.site}/leaf/{number}?delay={self.each}"
            yield scrapy.Request(url, self.parse_leaf, cb_kwargs={"number": number})

    def parse_leaf(self, response: Response, number: int) -> dict[str, Any]:
        return {"leaf": number, "time": time.time()}
