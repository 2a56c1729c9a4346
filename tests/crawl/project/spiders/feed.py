"""Spiders that are fed by start keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class FeedSpider(scrapy.Spider):
    """Nothing to begin with; one item for each page, with what its request had."""

    name = "feed"

    async def start(self) -> AsyncIterator[Any]:
        return
        yield

    def parse(self, response: Response) -> dict[str, Any]:
        return self.item(response, "parse")

    def parse_other(self, response: Response) -> dict[str, Any]:
        return self.item(response, "parse_other")

    def item(self, response: Response, callback: str) -> dict[str, Any]:
        """What a page tells of its request."""
        request = response.request
        assert request is not None
        return {
            "path": response.url.partition("//")[2].partition("/")[2],
            "callback": callback,
            "tag": request.meta.get("tag"),
            "priority": request.priority,
        }
