"""Local requests that end in different ways, and in different company."""

# ruff: noqa: ARG002 - Scrapy passes responses, wanted or not

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import CloseSpider

from tests.everyday.project.spiders.base import (
    Output,
    SiteSpider,
    by_closure,
    path_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self


class LocalFatesSpider(SiteSpider):
    """Local pages that end in different ways; the body says how often one was seen."""

    name = "local-fates"

    async def start(self) -> AsyncIterator[Output]:
        yield self.page("/downloads", self.parse_downloads)
        for name in ("failing", "recovering", "multiplying"):
            yield self.page(f"/{name}", self.parse_owner)

    def parse_downloads(self, response: Response) -> Iterator[Output]:
        live = {"lock": threading.Lock()}
        yield {"page": "/downloads"}
        yield self.page("/flaky?status=503&times=2", self.report, meta=live)
        yield self.page("/old?location=/new", self.report, meta=live)
        yield self.page("/broken?status=503", self.report, meta=live)
        yield self.page("/cut?drop=1", errback=lambda _: iter([{"page": "/cut"}]))

    def parse_owner(self, response: Response) -> Iterator[Output]:
        path = path_of(response)
        yield {"page": path}
        if path == "/multiplying":
            yield self.page(f"{path}/child", self.report, dont_filter=True)
        yield self.page(f"{path}/local", by_closure(self.parse_local))

    def parse_local(self, response: Response) -> Iterator[Output]:
        path = path_of(response)
        yield self.page(f"{path}/child", self.report)
        if path != "/recovering/local" or "visit 1" in response.text:
            raise ValueError("the callback cannot take this page")
        yield {"page": path}


class ClosingSpider(SiteSpider):
    """A local page asks for the spider to be closed, in the first run."""

    name = "closing"

    def __init__(self, maker: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.maker = maker

    async def start(self) -> AsyncIterator[Output]:
        if self.maker == "start":
            yield self.local()
        else:
            yield self.page("/start")

    def parse(self, response: Response) -> Iterator[Output]:
        yield self.local()

    def local(self) -> Output:
        return self.page("/local", by_closure(self.parse_local))

    def parse_local(self, response: Response) -> Iterator[Output]:
        if "visit 1" in response.text:
            raise CloseSpider("enough")
        return self.report(response)


class IdleLocalSpider(SiteSpider):
    """Whenever it is idle it makes a local request, and an ``extra`` one, twice."""

    name = "idle-local"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.go_on, signals.spider_idle)
        return spider

    def __init__(self, extra: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rounds = 0
        self.kinds = ["idle", "idle", "extra"] if extra else ["idle", "idle"]

    def parse(self, response: Response) -> Iterator[Output]:
        return self.report(response)

    def go_on(self) -> None:
        if self.rounds < 2:
            self.rounds += 1
            for kind in self.kinds:
                path = f"/{kind}/{self.rounds}"
                request = self.page(path, by_closure(self.report))
                self.crawler.engine.crawl(request)


class RoomSpider(SiteSpider):
    """A page with a large child and a local one."""

    name = "room"

    def parse(self, response: Response) -> Iterator[Output]:
        yield self.page("/large", self.report, meta={"text": "x" * 10_000})
        yield self.page("/local", by_closure(self.report))


class MixedSpider(SiteSpider):
    """A tree of pages; which of them only one process can do is in their names."""

    name = "mixed"
    depth, width = 4, 3

    def parse(self, response: Response) -> Iterator[Output]:
        path = path_of(response)
        yield {"page": path}
        for child in self.children(path):
            is_local = sum(map(ord, child)) % 2
            callback = by_closure(self.parse) if is_local else self.parse
            yield self.page(f"{child}?delay=0.05", callback)

    @classmethod
    def children(cls, path: str) -> list[str]:
        if path.count("/") > cls.depth:
            return []
        return [f"{path}/{number}" for number in range(cls.width)]
