"""Spiders in the shape of public ones, rewritten for a local site."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest
from scrapy.http import TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from tests.everyday.project.spiders.base import Output, SiteSpider, path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class DirectorySpider(CrawlSpider):
    """Rules, and an argument for the allowed domains.

    The model has a lazy ``filter`` object there, which Scrapy 2.19 finds empty, since
    it reads it twice.
    """

    name = "directory"
    rules = (
        Rule(LinkExtractor(allow="/list/")),
        Rule(LinkExtractor(allow="/product/"), callback="parse_product", follow=True),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        domain = kwargs.pop("domain", "")
        self.start_urls = [kwargs.pop("site") + "/list/0"]
        self.allowed_domains = list(filter(None, domain.split(",")))
        super().__init__(*args, **kwargs)

    def parse_product(self, response: Response) -> dict[str, Any]:
        return {"product": int(response.css("article::attr(data-id)").get(""))}


class FilesSpider(SiteSpider):
    """An item with twenty files."""

    name = "files"
    custom_settings = {  # noqa: RUF012 - the name and form that Scrapy reads
        "ITEM_PIPELINES": {
            "scrapy.pipelines.files.FilesPipeline": 1,
            "tests.crawl.project.pipelines.Recorder": 300,
        }
    }

    def parse(self, response: Response) -> Iterator[Output]:
        urls = [response.urljoin(f"/file/{number}") for number in range(20)]
        yield {"page": path_of(response), "file_urls": urls}


class SearchSpider(SiteSpider):
    """Five levels of callbacks, with nested values in ``meta``."""

    name = "search"
    custom_settings = {  # noqa: RUF012 - the name and form that Scrapy reads
        "COOKIES_ENABLED": False,
        "DEFAULT_REQUEST_HEADERS": {"cookie": "SUB=secret", "Accept": "text/html"},
        "DOWNLOAD_DELAY": 0.01,
    }

    async def start(self) -> AsyncIterator[Output]:
        meta = {"query": {"keyword": "k\u00e4se", "range": {"days": 2}}}
        yield self.page("/search", meta=meta)

    def parse(self, response: Response) -> Iterator[Output]:
        for day in range(response.meta["query"]["range"]["days"]):
            meta = {**response.meta, "day": dt.date(2024, 2, 28 + day)}
            yield self.page(f"/day/{day}", self.by_day, meta=meta)

    def by_day(self, response: Response) -> Iterator[Output]:
        for hour in (0, 12):
            start = dt.datetime.combine(response.meta["day"], dt.time(hour))
            span = {"from": start, "to": start + dt.timedelta(hours=12)}
            path = f"{path_of(response)}/hour/{hour}"
            yield self.page(path, self.by_hour, meta={**response.meta, "span": span})

    def by_hour(self, response: Response) -> Iterator[Output]:
        for province in ("x", "y"):
            place = {"province": {"name": province, "codes": (1, 2)}}
            path = f"{path_of(response)}/in/{province}"
            meta = {**response.meta, "place": place}
            yield self.page(path, self.by_province, meta=meta)

    def by_province(self, response: Response) -> Iterator[Output]:
        for number in (1, 2):
            path = f"{path_of(response)}/page/{number}"
            yield self.page(path, self.parse_page, meta=response.meta)

    def parse_page(self, response: Response) -> Iterator[Output]:
        meta = response.meta
        yield {
            "page": path_of(response),
            "keyword": meta["query"]["keyword"],
            "to": str(meta["span"]["to"]),
            "codes": repr(meta["place"]["province"]["codes"]),
        }


class PlacesSpider(SiteSpider):
    """Thousands of start requests for a JSON API."""

    name = "places"

    async def start(self) -> AsyncIterator[Output]:
        for number in range(10_000):
            yield self.page(f"/place/{number}")

    def parse(self, response: Response) -> Iterator[Output]:
        yield {"page": json.loads(response.text)["path"]}


class LoginSpider(SiteSpider):
    """Logs in with a form that holds a token, then follows a list of pages."""

    name = "login"

    async def start(self) -> AsyncIterator[Output]:
        yield self.page("/login")

    def parse(self, response: Response) -> Iterator[Output]:
        assert isinstance(response, TextResponse)
        formdata = {"user": "me", "password": "secret"}
        yield FormRequest.from_response(
            response, formdata=formdata, callback=self.parse_list
        )

    def parse_list(self, response: Response) -> Iterator[Output]:
        yield {"page": path_of(response)}
        if following := response.css("a.next::attr(href)").get():
            yield response.follow(following, self.parse_list)
