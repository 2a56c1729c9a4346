"""Scripts that run crawls; each begins with ``SPIDERS`` and the settings."""

from __future__ import annotations

from tests.everyday.crawls import EverydayCrawls

SPIDERS = """
import gc, weakref
import scrapy
from scrapy import signals
from scrapy.crawler import *
from scrapy.utils.project import *
from scrapy_redis_state.crawl import SharedCrawl

SITE = {site!r}
CRAWLS = []


class Pages(scrapy.Spider):
    count = 6

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        CRAWLS.append(None)

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        return spider

    def opened(self):
        crawl = SharedCrawl.of(self.crawler)
        CRAWLS.append(weakref.ref(crawl))

    async def start(self):
        for number in range(self.count):
            yield scrapy.Request(f"{{SITE}}/{{self.name}}/{{number}}?delay=0.1")

    def parse(self, response):
        yield {{"page": response.url.removeprefix(SITE).partition("?")[0]}}
        url = response.url.replace("?", "-child?")
        if "child" not in response.url:
            yield scrapy.Request(url, lambda r: self.parse(r))


class First(Pages):
    name = "first"


class Second(Pages):
    name = "second"


def report():
    gc.collect()
    refs = [ref for ref in CRAWLS if ref is not None]
    print("crawls made:", len(refs), "left:", sum(r() is not None for r in refs))
"""

PROCESS = """
process = {process}(SETTINGS)
for spider in ({spiders}):
    process.crawl(spider)
process.start()
failed = process.bootstrap_failed
del process, spider
report()
raise SystemExit(failed)
"""

REACTOR = """
from twisted.internet import asyncioreactor
asyncioreactor.install()
from twisted.internet import reactor, defer
from scrapy.utils.log import configure_logging
configure_logging(SETTINGS)
"""

RUNNER = (
    REACTOR
    + """
@defer.inlineCallbacks
def main():
    runner = CrawlerRunner(SETTINGS)
    yield runner.crawl(First)
    yield runner.crawl(First)
    reactor.stop()

main()
reactor.run()
report()
"""
)

ASYNC_RUNNER = (
    REACTOR
    + """
from twisted.internet.task import react

async def main():
    runner = AsyncCrawlerRunner(SETTINGS)
    await runner.crawl(First)
    tasks = [runner.crawl(First), runner.crawl(Second)]
    for task in tasks:
        await task

react(lambda _: defer.Deferred.fromFuture(__import__("asyncio").ensure_future(main())))
"""
)

NO_REACTOR = """
SETTINGS["TWISTED_REACTOR_ENABLED"] = False
"""

TO_THE_OTHER = """
class Sender(Pages):
    name = "sender"

    async def start(self):
        send(f"{SITE}/first/from-start")
        yield scrapy.Request(f"{SITE}/sender/0")

    def parse(self, response):
        send(f"{SITE}/first/from-callback")
        yield {"page": response.url.removeprefix(SITE)}


def send(url):
    other = first.spider
    first.engine.crawl(scrapy.Request(url, other.parse))
    first.engine.crawl(scrapy.Request(url + "/child", lambda r: other.parse(r)))


process = AsyncCrawlerProcess(SETTINGS)
first = process.create_crawler(First)
process.crawl(first)
process.crawl(Sender)
process.start()
"""

WITH_ARGUMENTS = """
process = CrawlerProcess(SETTINGS)
process.crawl(First, {arguments})
process.start()
"""


def check_pages(crawls: EverydayCrawls, expected: dict[str, int]) -> None:
    """How often each of a spider's pages, and what only it could do, was done."""
    pages = {
        f"/{name}/{number}{child}": times
        for name, times in expected.items()
        for number in range(6)
        for child in ("", "-child")
    }
    assert crawls.values("page") == pages
