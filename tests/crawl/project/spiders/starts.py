from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Request, Response


class StartsSpider(scrapy.Spider):
    """Makes ``count`` start requests, each ``repeat`` times in a row.

    ``start()`` raises half-way in its first ``failures`` runs, which it counts in a
    file that all workers share.
    """

    name = "starts"

    def __init__(self, url: str, runs: str, count: str, **kwargs: Any) -> None:
        super().__init__()
        self.url = url
        self.runs = Path(runs)
        self.count = int(count)
        self.repeat = int(kwargs.get("repeat", 1))
        self.failures = int(kwargs.get("failures", 0))

    async def start(self) -> AsyncIterator[Request | dict[str, Any]]:
        with self.runs.open("a") as runs:
            runs.write(f"{os.getpid()}\n")
        run = len(self.runs.read_text().split())
        yield {"made_by_start": "item"}
        for number in range(self.count):
            if run <= self.failures and number == self.count // 2:
                raise RuntimeError("start() has had enough")
            for _ in range(self.repeat):
                yield scrapy.Request(
                    f"{self.url}{number}",
                    dont_filter=self.repeat > 1,
                    cb_kwargs={"number": number},
                )

    def parse(self, response: Response, number: int) -> Iterator[dict[str, Any]]:
        yield {"number": number, "body": response.text}


class UrlsSpider(scrapy.Spider):
    """The plainest of spiders: ``start_urls``, which Scrapy does not filter."""

    name = "urls"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/page/{n}?delay=0.3" for n in range(5)]

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {"url": response.url}
