"""Every product of the shop: flash sales, what changed lately, then the rest."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import scrapy
from scrapy.http import TextResponse

from shop.items import Product

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Request, Response

RECENT = timedelta(days=7)
RECENTLY_CHANGED = 50
"""Priority between flash sales, which get more by the settings, and the rest."""


class ShopSpider(scrapy.Spider):
    """Read the sitemap, then follow every link; nothing in here knows other workers.

    The repeated links of each page (navigation, categories, footer) are dropped as
    duplicates, whichever worker met them first.
    """

    name = "shop"

    def __init__(self, site: str = "http://127.0.0.1:8000/", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[Request]:
        """Run by one worker, once per crawl."""
        sitemap = urljoin(self.site, "/sitemap.xml")
        yield scrapy.Request(sitemap, callback=self.parse_sitemap)

    def parse_sitemap(self, response: Response) -> Iterator[Request]:
        """Follow what changed lately, and then the home page.

        In this order: whoever asks for a URL first sets its priority, since the second
        request is a duplicate. A list would come first with 0.
        """
        since = (datetime.now(timezone.utc) - RECENT).date().isoformat()
        assert isinstance(response, TextResponse)
        response.selector.remove_namespaces()
        for entry in response.xpath("//url"):
            if entry.xpath("lastmod/text()").get("") >= since:
                yield response.follow(
                    entry.xpath("loc/text()").get(""),
                    callback=self.parse_product,
                    priority=RECENTLY_CHANGED,
                )
        yield scrapy.Request(self.site)

    def parse(self, response: Response) -> Iterator[Request]:
        """Follow all links of a page."""
        for href in response.css("a::attr(href)").getall():
            is_product = href.startswith(("/product/", "/flash/", "/old/"))
            yield response.follow(
                href, callback=self.parse_product if is_product else self.parse
            )

    def parse_product(self, response: Response) -> Iterator[Request | Product]:
        """Deliver the product of a page, then follow its links."""
        yield Product.on(response)
        yield from self.parse(response)
