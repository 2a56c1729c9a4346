"""Links to the same pages, spelt differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class SpellingsSpider(scrapy.Spider):
    """``pages`` pages, each linked four times; and each once more with a slash."""

    name = "spellings"

    def __init__(self, site: str, pages: str = "10", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.pages = int(pages)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"{self.site}/hub")

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        for number in range(self.pages):
            page = f"{self.site}/page/{number}"
            for url in (
                f"{page}?utm_source=hub&b=2&a=1",
                f"{page}?a=1&b=2",
                f"{page}?b=2&a=1&gclid={number}#top",
                f"{page}?a=1&ref=hub&b=2",
                f"{page}/?a=1&b=2",
            ):
                yield scrapy.Request(url, self.parse_page)

    def parse_page(self, response: Response) -> dict[str, Any]:
        return {"url": response.url.removeprefix(self.site)}
