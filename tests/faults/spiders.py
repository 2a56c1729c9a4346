from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy

from tests.faults.graph import path_in, path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response
    from typing_extensions import Self

Output = scrapy.Request | dict[str, Any]


class GraphSpider(scrapy.Spider):
    """Follows every link; does what the settings say at the pages they name."""

    name = "graph"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[Request]:
        stall_after = self.settings.getint("STALL_AFTER")
        for number in range(self.settings.getint("SEEDS")):
            if stall_after and number == stall_after and self.is_first("run"):
                while not self.mark("go on").exists():  # noqa: ASYNC110 - a file
                    await asyncio.sleep(0.05)
            yield scrapy.Request(f"{self.site}{path_of(number)}")

    def is_first(self, what: str) -> bool:
        """Whether no process of the crawl has asked this before."""
        try:
            self.mark(f"first to {what}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def mark(self, name: str) -> Path:
        """A file by which processes and test tell each other something."""
        return Path(self.settings["MARKS"]) / name

    def parse(self, response: Response) -> Iterator[Output]:
        path = path_in(response.url)
        if path == self.settings["EXIT_AT"]:
            os._exit(1)
        if path == self.settings["BLOCK_AT"] and self.is_first("block"):
            time.sleep(self.settings.getfloat("BLOCK_SECS"))
        if path == self.settings["SIGN_AT"]:
            yield response.follow(f"/signed/{os.getpid()}")
            yield response.follow("/unfiltered", dont_filter=True)
        fat = os.urandom(self.settings.getint("FAT_BYTES"))  # cannot be compressed
        meta = {"fat": fat} if fat else None
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta=meta)
        yield {"page": path}


class Keeper:
    """Keeps the item of one page for good."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.never = asyncio.Event()  # kept, or who waits for it is garbage

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings["KEEP_AT"])

    async def process_item(self, item: Any) -> Any:
        if item["page"] == self.path:
            await self.never.wait()
        return item
