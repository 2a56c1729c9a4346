"""One crawl in a process of its own, with whatever scheduler the settings name.

``python -m benchmarks.crawling.worker FILE``, a JSON file with ``settings``, ``url``,
``most_pages``, ``laps`` (how often the whole site is crawled), ``began`` (when the
process was started, by the system's monotonic clock) and ``result``, the file to write.
It imports Scrapy alone, so that it runs where this package is not installed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import Response

KIB_PER_MAXRSS = 1 if sys.platform == "linux" else 1 / 1024
"""Linux tells the peak of resident memory in KiB, macOS in bytes."""

PAGES_PER_SAMPLE = 500
STATM = Path("/proc/self/statm")


def resident_mib() -> float:
    """Resident memory now; on systems that do not say so, its peak."""
    if STATM.exists():
        pages = int(STATM.read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    return peak_mib()


def peak_mib() -> float:
    """Most resident memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * KIB_PER_MAXRSS / 1024


class LinksSpider(scrapy.Spider):
    """Follows all links; its last word about a page is an item."""

    name = "links"

    def __init__(self, url: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse)
        yield {"title": response.css("h1::text").get()}


class LapsSpider(LinksSpider):
    """Crawls the site several times, each time under other URLs."""

    def __init__(self, url: str, laps: int, **kwargs: Any) -> None:
        super().__init__(url, **kwargs)
        self.last_lap = laps - 1

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        lap = int(response.url.partition("?lap=")[2] or 0)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(f"{href}?lap={lap}", self.parse)
        if lap < self.last_lap:
            yield response.follow(f"0.html?lap={lap + 1}", self.parse)
        yield {"title": response.css("h1::text").get()}


class Watch:
    """Notes when things happen, in seconds since the process was started."""

    def __init__(self, crawler: Crawler, task: dict[str, Any]) -> None:
        self._crawler, self._task = crawler, task
        self.times: dict[str, float] = {}
        self.pages = 0
        self.memory: list[tuple[int, float]] = []
        """After so many pages, resident memory in MiB."""
        for signal, note in (
            (signals.spider_opened, self._opened),
            (signals.response_received, self._received),
            (signals.item_scraped, self._page_done),
            (signals.spider_closed, self._closed),
        ):
            crawler.signals.connect(note, signal)

    def _now(self) -> float:
        return time.monotonic() - float(self._task["began"])

    def _opened(self) -> None:
        self.times["opened"] = self._now()

    def _received(self) -> None:
        self.times.setdefault("first", self._now())

    def _page_done(self) -> None:
        self.times["last"] = self._now()
        self.pages += 1
        if self.pages % PAGES_PER_SAMPLE == 0:
            self.memory.append((self.pages, resident_mib()))
        if self.pages == self._task["most_pages"]:
            # What is left would take long, and is not asked for.
            self.write()
            os._exit(0)

    def _closed(self) -> None:
        self.times["closed"] = self._now()

    def write(self) -> None:
        """Write what was noted."""
        assert self._crawler.stats is not None
        numbers = {
            name: value
            for name, value in self._crawler.stats.get_stats().items()
            if isinstance(value, int)
        }
        figures = {
            "pages": self.pages,
            "began": self._task["began"],
            "times": self.times,
            "memory": self.memory,
            "cpu_seconds": time.process_time(),
            "peak_mib": peak_mib(),
            "stats": numbers,
        }
        Path(self._task["result"]).write_text(json.dumps(figures))


def main(task: dict[str, Any]) -> None:
    """Crawl, and write what was seen."""
    process = CrawlerProcess(task["settings"])
    laps = task["laps"]
    crawler = process.create_crawler(LapsSpider if laps > 1 else LinksSpider)
    watch = Watch(crawler, task)
    process.crawl(crawler, url=task["url"], **{"laps": laps} if laps > 1 else {})
    process.start()
    watch.write()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
