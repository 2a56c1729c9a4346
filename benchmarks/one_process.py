"""One crawl in this process, of pages that come from memory: what schedulers cost.

``python -m benchmarks.one_process --help``; it prints one line of JSON. A process can
run one reactor, so :mod:`benchmarks.micro` starts one for each crawl that it measures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import scrapy
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response

CHAINS = 400
"""Links of the first page; the frontier holds about as many all the time."""
CALLS = ("enqueue_request", "next_request", "has_pending_requests")
"""What a scheduler's caller waits for."""
PAGE = b"<html><body>" + b"<p>a page of a site, with some words in it</p>" * 40
PERCENTILES = (50, 90, 99, 99.9)


class PagesFromMemory(BaseDownloadHandler):
    """Answers at once, with a page of some two kilobytes."""

    async def download_request(self, request: scrapy.Request) -> Response:
        return HtmlResponse(request.url, body=PAGE, encoding="utf-8", request=request)


class Chains(scrapy.Spider):
    """Pages with links, one of which is new: the next of its chain.

    Requests are typical: callback, depth, three keys of meta, referer.
    """

    name = "chains"

    def __init__(self, links: int, pages: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.links, self.length = links, max(1, pages // CHAINS)

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request("http://shop0.example/", callback=self.parse_hub)

    def parse_hub(self, _: Response) -> Iterator[Any]:
        for chain in range(CHAINS):
            yield self.link(chain, 0)

    def link(self, chain: int, number: int) -> scrapy.Request:
        return scrapy.Request(
            f"http://shop{chain % 8}.example/catalogue/hose-{chain}-{number}.html",
            callback=self.parse_page,
            meta={"category": "garden", "chain": chain, "number": number},
        )

    def parse_page(self, response: Response) -> Iterator[Any]:
        chain, number = response.meta["chain"], response.meta["number"]
        if number < self.length and self.links:
            yield self.link(chain, number + 1)
        for back in range(self.links - 1):
            # Seen before: of this chain, or the first pages of others.
            seen = number - back
            yield self.link(chain, seen) if seen >= 0 else self.link(back, 0)


class Clock:
    """How long calls held the event loop, by name: nanoseconds of its thread.

    Not on the wall, where other programs would be counted; a call that waited for a
    server would not show, but there is none that could (tests/test_architecture.py).
    """

    def __init__(self) -> None:
        self.taken: dict[str, list[int]] = defaultdict(list)

    def on(self, owner: Any, name: str) -> None:
        """Measure a method of an object from now on."""
        call: Callable[..., Any] = getattr(owner, name)
        note, now = self.taken[name].append, time.thread_time_ns

        def timed(*args: Any) -> Any:
            began = now()
            try:
                return call(*args)
            finally:
                note(now() - began)

        setattr(owner, name, timed)

    def figures(self) -> dict[str, dict[str, float]]:
        """Percentiles in microseconds, and the number of calls."""
        found = {}
        for name, taken in self.taken.items():
            ordered = sorted(taken)
            found[name] = {"calls": float(len(ordered))} | {
                f"p{percent:g}": ordered[int((len(ordered) - 1) * percent / 100)] / 1000
                for percent in PERCENTILES
            }
            found[name]["max"] = ordered[-1] / 1000
        return found


SETTINGS = {
    "DOWNLOAD_HANDLERS": {"http": PagesFromMemory},
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "MEMUSAGE_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
}


def run(
    url: str, links: int, pages: int, *, timed: bool, **more: Any
) -> dict[str, Any]:
    """Crawl, and tell what it took.

    :param url: of the server; empty: with Scrapy's own scheduler
    :param timed: measure each call (which takes time itself)
    """
    settings = SETTINGS | more
    if url:
        settings |= {
            "ADDONS": {"scrapy_redis_state.Addon": 500},
            "REDIS_STATE_URL": url,
        }
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Chains)
    clock, began = Clock(), {}

    def started() -> None:
        if timed:
            assert crawler.engine is not None
            for name in CALLS:
                clock.on(crawler.engine._slot.scheduler, name)  # type: ignore[union-attr]
        began.update(cpu=time.process_time(), wall=time.perf_counter())

    def stopped() -> None:
        began["cpu"] = time.process_time() - began["cpu"]
        began["wall"] = time.perf_counter() - began["wall"]

    crawler.signals.connect(started, scrapy.signals.engine_started)
    crawler.signals.connect(stopped, scrapy.signals.spider_idle)
    process.crawl(crawler, links=links, pages=pages)
    process.start()
    stats: Any = crawler.stats
    done = stats.get_value("response_received_count")
    return {
        "pages": done,
        "cpu_us_per_page": began["cpu"] * 1e6 / done,
        "pages_per_second": done / began["wall"],
        "exchanges": stats.get_value("redis_state/exchanges", 0),
        "duplicates": stats.get_value("dupefilter/filtered", 0),
        "holds": clock.figures(),
    }


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="benchmarks.one_process", description=__doc__)
    parser.add_argument("--url", default="", help="of the server; none: stock Scrapy")
    parser.add_argument("--links", type=int, default=14)
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--timed", action="store_true", help="measure each call")
    options = parser.parse_args()
    print(
        json.dumps(run(options.url, options.links, options.pages, timed=options.timed))
    )


if __name__ == "__main__":
    main()
