"""The same shop as a CrawlSpider: rules in place of callbacks that follow links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from shop.items import Product

if TYPE_CHECKING:
    from scrapy.http import Response


class ShopLinksSpider(CrawlSpider):
    """Walk categories and products by their links; it does not know the sitemap.

    Its callbacks are named in strings, as Scrapy has it, and so any worker can run
    what another one found.
    """

    name = "shop_links"
    rules = (
        Rule(
            LinkExtractor(allow=r"/(product|flash|old)/\d+$"),
            callback="parse_product",
            follow=True,
        ),
        Rule(LinkExtractor(allow=(r"/category/", r"/clearance$"))),
    )

    def __init__(self, site: str = "http://127.0.0.1:8000/", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [site]

    def parse_product(self, response: Response) -> Product:
        """Deliver the product of a page; the rules follow its links."""
        return Product.on(response)
