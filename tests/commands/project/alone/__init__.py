"""The only spider of a project."""

import scrapy


class OffersSpider(scrapy.Spider):
    """There is nothing to choose."""

    name = "offers"
