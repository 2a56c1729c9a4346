from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure
    from typing_extensions import Self

Output = scrapy.Request | dict[str, Any]


class FatesSpider(scrapy.Spider):
    """A page for each way in which a page can end, named after it."""

    name = "fates"
    custom_settings = {  # noqa: RUF012 - the name and form that Scrapy reads
        "DOWNLOADER_MIDDLEWARES": {
            "tests.crawl.project.middlewares.SameRequestAgain": 10
        }
    }

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[scrapy.Request]:
        page = self.page
        yield page("flaky?status=503&times=2")
        yield page("broken?status=503")
        yield page("gone?status=404")
        yield page("old?location=/new")
        yield page("cut?drop=1")
        yield page("shrugged?drop=1", errback=self.shrug)
        yield page("replaced?status=503", errback=self.replace)
        yield page("again")
        yield page("echo", self.parse_echo)
        yield page("raising", self.parse_raising)
        yield page("recovering", self.parse_recovering)
        yield page("multiplying", self.parse_multiplying)
        yield page("badly-built", self.parse_badly_built)
        yield page("dropping", self.parse_dropping)
        yield page("unencodable", self.parse_unencodable)

    def page(
        self, path: str, callback: Callable[..., Any] | None = None, **fields: Any
    ) -> scrapy.Request:
        return scrapy.Request(f"{self.site}/{path}", callback, **fields)

    def parse(self, response: Response) -> Iterator[Output]:
        yield {"page": response.url.removeprefix(self.site).partition("?")[0]}

    def shrug(self, failure: Failure) -> None:
        """Handle an error by doing nothing."""

    def replace(self, failure: Failure) -> Iterator[Output]:
        yield self.page("replacement")

    def parse_echo(self, response: Response) -> Iterator[Output]:
        yield {"page": "/echo"}
        assert response.request is not None
        yield response.request

    def parse_raising(self, response: Response) -> Iterator[Output]:
        yield self.page("child-of-raising")
        raise ValueError("the callback cannot take this page")

    def parse_recovering(self, response: Response) -> Iterator[Output]:
        yield self.page("child-of-recovering")
        if response.text == "visit 1":
            raise ValueError("the callback cannot take this page yet")
        yield {"page": "/recovering"}

    def parse_multiplying(self, response: Response) -> Iterator[Output]:
        yield self.page("child-of-multiplying", dont_filter=True)
        raise ValueError("the callback cannot take this page either")

    def parse_badly_built(self, response: Response) -> Iterator[Output]:
        yield {"page": "/badly-built", "fate": "raise"}

    def parse_dropping(self, response: Response) -> Iterator[Output]:
        yield {"page": "/dropping", "fate": "drop"}

    def parse_unencodable(self, response: Response) -> Iterator[Output]:
        yield self.page("with-lock", meta={"lock": threading.Lock()})
        yield self.page("with-lambda", lambda response: None)
        yield {"page": "/unencodable"}


class VersionsSpider(scrapy.Spider):
    """Has a callback more where the environment says ``CODE=new``."""

    name = "versions"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for number in range(6):
            yield scrapy.Request(f"{self.site}/hub/{number}?delay=0.2")

    if os.environ.get("CODE") == "new":

        def parse(self, response: Response) -> Iterator[Output]:
            number = response.url.partition("?")[0].rpartition("/")[2]
            yield {"parsed": number}
            yield scrapy.Request(f"{self.site}/leaf/{number}", self.parse_leaf)

        def parse_leaf(self, response: Response) -> Iterator[Output]:
            yield {"leaf": response.url.rpartition("/")[2]}

    else:

        def parse(self, response: Response) -> Iterator[Output]:
            number = response.url.partition("?")[0].rpartition("/")[2]
            yield {"parsed": number}


class IdleSpider(scrapy.Spider):
    """Makes three rounds of requests, each when it has nothing left to do."""

    name = "idle"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.go_on, signals.spider_idle)
        return spider

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.rounds = 0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"{self.site}/round/0")

    def go_on(self) -> None:
        if self.rounds < 3:
            self.rounds += 1
            for part in "ab":
                self.crawler.engine.crawl(
                    scrapy.Request(f"{self.site}/round/{self.rounds}{part}")
                )

    def parse(self, response: Response) -> Iterator[Output]:
        yield {"round": response.url.rpartition("/")[2]}
