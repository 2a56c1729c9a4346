"""How many URLs a program can push in a second."""

from __future__ import annotations

import time
from typing import Any

from scrapy_redis_state.store import CrawlState

SITE = "https://shop.example/catalogue/garden"


def pushed_per_second(client: Any, url: str, urls: int) -> float:
    """URLs a second that one process pushes with ``CrawlState.push_many``."""
    client.flushall()
    pages = [f"{SITE}/hose-{number}.html" for number in range(urls)]
    with CrawlState.connect(url, crawl="shop:offers") as state:
        start = time.perf_counter()
        state.push_many(pages)
        seconds = time.perf_counter() - start
        assert state.size() == urls
    return urls / seconds
