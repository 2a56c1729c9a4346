"""What members pay: behind a login, and a part of it behind a JavaScript challenge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urljoin

import scrapy

from shop.items import Product

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Request, Response

DEPARTMENTS = ("books", "garden", "kitchen", "music", "sports", "toys")


class MembersSpider(scrapy.Spider):
    """Read all departments; nothing in here knows of logins and challenges.

    The provider earns a session with both when the first page needs it. Until then all
    pages wait, whichever worker has them.
    """

    name = "members"
    custom_settings: ClassVar = {
        "REDIS_STATE_SESSION_PROVIDER": "shop.sessions.ShopSessions"
    }

    def __init__(self, site: str = "http://127.0.0.1:8000/", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[Request]:
        """Run by one worker, once per crawl."""
        for department in DEPARTMENTS:
            yield scrapy.Request(urljoin(self.site, f"/members/{department}"))

    def parse(self, response: Response) -> Iterator[Request]:
        """Follow the links of a list: products, and its next page."""
        for href in response.css("main a::attr(href)").getall():
            is_product = href.rpartition("/")[2].isdigit()
            yield response.follow(
                href, callback=self.parse_product if is_product else self.parse
            )

    def parse_product(self, response: Response) -> Product:
        """Deliver the product of a page, with the price for members."""
        return Product.on(response)
