"""A spider with every way in which a page of Scrapy can make requests and end.

Run with ``scrapy runspider``; ``-a site=URL`` names a :class:`tests.site.Site`. With
``-a stop=HOW`` the crawl is stopped in the middle: by ``close`` (CloseSpider),
``sigterm``, ``fail`` (the scheduler fails the crawl) or ``fail-sigterm`` (both).

Each request has a ``name``, which is also the path of its page, and knows its
``maker``, so that what the recorder saw can be compared with the truth. ``EXPECTED``
says how the pages end.
"""

# ruff: noqa: ARG002 - Scrapy passes responses, failures and exceptions, wanted or not

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, ClassVar

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider, DropItem, IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.reactor import is_reactor_installed
from twisted.python.failure import Failure

from tests.adapters.recorder import OUTSIDE, START, scheduler_of

EXPECTED: dict[str, list[str]] = {
    "sync-generator": ["done"],
    "async-generator": ["done"],
    "coroutine": ["done"],
    "plain-list": ["done"],
    "slow-items": ["done"],
    "crawling-items": ["done"],
    "dropped-item": ["done"],
    "failing-item": ["fail", "done"],
    "cancelled-item": ["fail", "done"],
    "failing-callback": ["fail", "done"],
    "failing-generator": ["fail", "done"],
    "always-failing": ["fail", "fail"],
    "retried-status": ["done", "done"],
    "retried-exception": ["done", "done"],
    "redirected": ["done", "done"],
    "redirected-to-seen": ["done"],
    "given-up-status": ["done", "bury"],
    "given-up-connection": ["done", "bury"],
    "not-found": ["done"],
    "private": ["done"],
    "errback-yields": ["done"],
    "errback-of-status": ["done"],
    "errback-raises-again": ["bury"],
    "errback-returns-failure": ["bury"],
    "errback-generator-raises-again": ["bury"],
    "errback-raises-other": ["fail", "fail"],
    "download-itself": ["done"],
    "download-itself-in-vain": ["done"],
    "download-itself-in-background": ["done"],
    "request-refused": ["bury"],
    "request-ignored": ["done"],
    "request-crawls-then-refused": ["bury"],
    "response-refused": ["bury"],
    "request-returned-again": ["done", "done"],
    "response-replaced": ["done", "done"],
    "input-refused": ["fail", "fail"],
    "input-rescued": ["done"],
    "output-refused": ["fail", "fail"],
    "output-extended": ["done"],
    "exception-rescued": ["done"],
    "status-rescued": ["done", "done"],
    "same-url-twice": ["done"],
    "left-behind": ["done"],
}
"""Name of each start request, and the outcomes of the pages of that name in order."""

QUERIES = {
    "retried-status": "status=503&times=1",
    "redirected": "location=/redirect-target&times=1",
    "redirected-to-seen": "location=/common",
    "given-up-status": "status=503",
    "given-up-connection": "drop=1",
    "not-found": "status=404",
    "errback-yields": "drop=1",
    "errback-of-status": "status=404",
    "errback-raises-again": "drop=1",
    "errback-returns-failure": "drop=1",
    "errback-generator-raises-again": "drop=1",
    "errback-raises-other": "drop=1",
    "status-rescued": "status=503",
    "download-itself-in-background": "delay=0.02",
}
NOT_RETRIED = [name for name in QUERIES if name.startswith("errback")]


class FaultyDownloads:
    """A downloader middleware that does to a request what its name says."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FaultyDownloads:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        match request.meta.get("name"):
            case "retried-exception" if "retry_times" not in request.meta:
                raise OSError("try again")
            case "request-refused":
                raise ValueError("refused")
            case "request-ignored":
                raise IgnoreRequest("ignored")
            case "request-crawls-then-refused":
                spider = spider_of(self.crawler)
                self.crawler.engine.crawl(spider.make("instead", request))
                await asyncio.sleep(0)
                raise ValueError("refused")
            case "request-returned-again" if "again" not in request.meta:
                request.meta["again"] = True
                return request
        return None

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        match request.meta.get("name"):
            case "response-refused":
                raise ValueError("refused")
            case "response-replaced" if "again" not in request.meta:
                return request.replace(
                    dont_filter=True, meta={**request.meta, "again": True}
                )
        return response


class FaultyScraping:
    """A spider middleware that does to a response what its name says."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FaultyScraping:
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for thing in start:
            await asyncio.sleep(0)
            yield thing

    def process_spider_input(self, response: Response) -> None:
        if response.meta["name"] in ("input-refused", "input-rescued"):
            raise ValueError("refused")

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        spider = spider_of(self.crawler)
        async for thing in result:
            yield thing
            if response.meta["name"] == "output-refused":
                raise ValueError("refused")
        if response.meta["name"] == "output-extended":
            await asyncio.sleep(0)
            yield spider.make("extension", response)

    def process_spider_exception(
        self, response: Response, exception: Exception
    ) -> Iterable[Any] | None:
        name = response.meta["name"]
        if not name.endswith("-rescued"):
            return None
        spider = spider_of(self.crawler)
        return [spider.make(f"{name}-child", response), {"maker": name}]


class FaultyItems:
    """A slow item pipeline that does to an item what its field ``fault`` says."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FaultyItems:
        return cls(crawler)

    async def process_item(self, item: dict[str, str]) -> dict[str, str]:
        await asyncio.sleep(0.01)
        match item.get("fault"):
            case "raise":
                raise ValueError("bad item")
            case "cancel":
                raise asyncio.CancelledError
            case "drop":
                raise DropItem("dropped")
            case "slow":
                await asyncio.sleep(0.1)
            case "crawl":
                spider = spider_of(self.crawler)
                request = spider.make(f"of-item-of-{item['maker']}", item["maker"])
                self.crawler.engine.crawl(request)
                await asyncio.sleep(0.01)
        return item


class LifecycleSpider(Spider):
    name = "lifecycle"
    site: str
    stop: str = ""
    only: str = ""
    """Name of the only start request; empty: all of them."""

    custom_settings: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "SCHEDULER": "tests.adapters.recorder.RecordingScheduler",
        "SPIDER_MIDDLEWARES": {
            "tests.adapters.recorder.RecordingSeeds": 1,
            FaultyScraping: 543,
        },
        "DOWNLOADER_MIDDLEWARES": {FaultyDownloads: 543},
        "ITEM_PIPELINES": {
            FaultyItems: 500,
            "tests.adapters.recorder.RecordingPipeline": 900,
        },
        "ROBOTSTXT_OBEY": True,
        "RETRY_TIMES": 1,
        # Few connections at a time: downloads are then begun by other pages' code.
        "CONCURRENT_REQUESTS": 6,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 3,
        "DOWNLOAD_DELAY": 0.001,
        "TELNETCONSOLE_ENABLED": False,
    }

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.visits: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()
        self.waiting = 0
        self.idled = False

    # Requests

    def make(
        self, name: str, maker: Response | Request | str, **options: Any
    ) -> Request:
        """Make a request for the page ``name``, made by the page ``maker``."""
        if not isinstance(maker, str):
            maker = maker.meta["name"]
        url = f"{self.site}/{name}?{QUERIES.get(name, '')}"
        meta = {"name": name, "maker": maker, **options.pop("meta", {})}
        options.setdefault("callback", self.leaf)
        return Request(url, meta=meta, **options)

    async def start(self) -> AsyncIterator[Any]:
        yield {"maker": START, "fault": "slow"}
        if self.stop:
            for number in range(4):
                yield self.make(f"before-{number}", START, callback=self.branch)
            yield self.make("stopping", START, callback=self.stopping)
            for number in range(8):
                yield self.make(f"after-{number}", START, callback=self.branch)
            await asyncio.Event().wait()  # there is more to come, but not yet
        # First, so that the page which redirects to it comes too late, however it goes.
        yield self.make("common", START)
        for name in [self.only] if self.only else EXPECTED:
            callback = getattr(self, name.replace("-", "_"), self.branch)
            errback = callback if name.startswith("errback") else None
            yield self.make(
                name,
                START,
                callback=callback,
                errback=errback,
                dont_filter=name == "request-returned-again",
                meta={"dont_retry": True} if name in NOT_RETRIED else {},
            )
        yield {"maker": START, "fault": "crawl"}

    # Requests that no page makes

    def opened(self) -> None:
        self.outside_later("timer", call_later)
        if is_reactor_installed():
            from twisted.internet import reactor

            later: Any = reactor
            self.outside_later("reactor-timer", later.callLater)

    def outside_later(self, name: str, later: Any) -> None:
        if self.stop:
            return
        self.waiting += 1
        later(0.3, self.outside, name)

    def outside(self, name: str) -> None:
        self.waiting -= 1
        self.crawler.engine.crawl(self.make(name, OUTSIDE, callback=self.branch))

    def idle(self) -> None:
        if self.tasks or self.waiting:
            raise DontCloseSpider
        if not self.idled and not self.stop:
            self.idled = True
            self.crawler.engine.crawl(self.make("idle", OUTSIDE, callback=self.branch))
            raise DontCloseSpider

    # Pages

    def leaf(self, response: Response) -> Iterator[Any]:
        yield {"maker": response.meta["name"]}

    def branch(self, response: Response) -> Iterator[Any]:
        name = response.meta["name"]
        yield self.make("common", response)
        yield {"maker": name}
        yield self.make(f"{name}-child", response)

    def first_visit(self, response: Response) -> bool:
        self.visits[response.meta["name"]] += 1
        return self.visits[response.meta["name"]] == 1

    sync_generator = branch

    async def async_generator(self, response: Response) -> AsyncIterator[Any]:
        for number in range(3):
            await asyncio.sleep(0.01)
            yield self.make(f"async-generator-{number}", response)
            yield {"maker": "async-generator"}

    async def coroutine(self, response: Response) -> list[Any]:
        await asyncio.sleep(0.01)
        return list(self.branch(response))

    def plain_list(self, response: Response) -> list[Any]:
        return list(self.branch(response))

    def slow_items(self, response: Response) -> Iterator[Any]:
        yield from [{"maker": "slow-items", "fault": "slow"}] * 5
        yield from self.branch(response)

    def crawling_items(self, response: Response) -> Iterator[Any]:
        yield {"maker": "crawling-items", "fault": "crawl"}
        yield from self.branch(response)

    def dropped_item(self, response: Response) -> Iterator[Any]:
        yield {"maker": "dropped-item", "fault": "drop"}

    def failing_item(self, response: Response) -> Iterator[Any]:
        if self.first_visit(response):
            yield {"maker": "failing-item", "fault": "raise"}
        yield from self.branch(response)

    def cancelled_item(self, response: Response) -> Iterator[Any]:
        if self.first_visit(response):
            yield {"maker": "cancelled-item", "fault": "cancel"}
        yield from self.branch(response)

    def failing_callback(self, response: Response) -> list[Any]:
        if self.first_visit(response):
            raise ValueError("broken callback")
        return list(self.branch(response))

    async def failing_generator(self, response: Response) -> AsyncIterator[Any]:
        for thing in self.branch(response):
            yield thing
        if self.first_visit(response):
            await asyncio.sleep(0.01)
            raise ValueError("broken callback")

    def always_failing(self, response: Response) -> Iterator[Any]:
        yield from self.branch(response)
        raise ValueError("broken callback")

    def exception_rescued(self, response: Response) -> Iterator[Any]:
        yield self.make("exception-rescued-first", response)
        raise ValueError("broken callback")

    def errback_yields(self, failure: Failure) -> Iterator[Any]:
        yield self.make("common", "errback-yields")
        yield self.make("errback-yields-child", "errback-yields")

    async def errback_of_status(self, failure: Failure) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        yield self.make("errback-of-status-child", "errback-of-status")
        yield {"maker": "errback-of-status"}

    def errback_raises_again(self, failure: Failure) -> None:
        failure.raiseException()

    def errback_returns_failure(self, failure: Failure) -> Failure:
        return failure

    def errback_generator_raises_again(self, failure: Failure) -> Iterator[Any]:
        yield from ()
        failure.raiseException()

    def errback_raises_other(self, failure: Failure) -> None:
        raise KeyError("broken errback")

    async def download_itself(self, response: Response) -> AsyncIterator[Any]:
        yield self.make("download-itself-first", response)
        assert response.request
        await self.crawler.engine.download_async(response.request)
        yield self.make("download-itself-child", response)

    async def download_itself_in_vain(self, response: Response) -> AsyncIterator[Any]:
        assert response.request
        response.request.meta["name"] = "request-refused"
        try:
            await self.crawler.engine.download_async(response.request)
        except ValueError:
            response.request.meta["name"] = "download-itself-in-vain"
        yield self.make("download-itself-in-vain-child", response)

    def download_itself_in_background(self, response: Response) -> Iterator[Any]:
        assert response.request
        coroutine = self.crawler.engine.download_async(response.request)
        self.leave_behind(self.to_the_end(coroutine))
        yield from self.branch(response)

    async def left_behind(self, response: Response) -> AsyncIterator[Any]:
        self.leave_behind(self.crawl_after_the_end("left-behind"))
        yield self.make("left-behind-child", response)

    def same_url_twice(self, response: Response) -> Iterator[Any]:
        for _ in range(2):
            yield self.make("twin", response, dont_filter=True)

    async def stopping(self, response: Response) -> AsyncIterator[Any]:
        yield self.make("stopping-child", response)
        link = scheduler_of(self.crawler).link
        if self.stop == "close":
            raise CloseSpider("asked_to")
        if self.stop.startswith("fail"):
            link.fail_crawl(OSError("the server is gone"))
        if self.stop == "fail":
            link.close("server_gone")
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        while not link.closing:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        yield self.make("stopping-late-child", response)
        yield {"maker": "stopping", "fault": "slow"}

    # Tasks that outlive their page

    def leave_behind(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def to_the_end(self, coroutine: Any) -> None:
        await coroutine

    async def crawl_after_the_end(self, name: str) -> None:
        await scheduler_of(self.crawler).deliveries[name].over.wait()
        self.crawler.engine.crawl(self.make(f"after-{name}", OUTSIDE))


def spider_of(crawler: Crawler) -> LifecycleSpider:
    """The spider of a crawl, for middlewares and pipelines."""
    assert isinstance(crawler.spider, LifecycleSpider)
    return crawler.spider
