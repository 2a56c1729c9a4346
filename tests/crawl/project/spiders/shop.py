from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Request, Response


class ShopSpider(scrapy.Spider):
    """Follows every link, and delivers the product of each product page.

    At the product that the setting ``CLOSE_AT`` names it closes, if that is set.
    """

    name = "shop"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[Request]:
        yield scrapy.Request(f"{self.site}/list/0")

    def parse(self, response: Response) -> Iterator[Request | dict[str, Any]]:
        if product := response.css("article::attr(data-id)").get():
            if self.settings.get("CLOSE_AT") == product:
                raise CloseSpider("enough")
            yield {"product": int(product), "url": response.url}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class RulesSpider(CrawlSpider):
    """The same with rules, whose requests carry no callback of the spider's own."""

    name = "rules"
    rules = (
        Rule(LinkExtractor(allow="/list/")),
        Rule(LinkExtractor(allow="/product/"), callback="parse_product", follow=True),
    )

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/list/0"]

    def parse_product(self, response: Response) -> dict[str, Any]:
        product = int(response.css("article::attr(data-id)").get(""))
        return {"product": product, "url": response.url}


class TwiceSpider(scrapy.Spider):
    """Follows the same link twice."""

    name = "twice"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/start"]

    def parse(self, response: Response) -> Iterator[Request]:
        for _ in range(2):
            yield response.follow("/linked-twice", self.parse_linked)

    def parse_linked(self, response: Response) -> dict[str, Any]:
        return {"url": response.url}


class BusySpider(scrapy.Spider):
    """Asks for one page over and over, until it is stopped."""

    name = "busy"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/page?delay=0.1"]

    def parse(self, response: Response) -> Iterator[Request]:
        yield response.follow(response.url, dont_filter=True)
