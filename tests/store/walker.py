"""A program that walks a graph of pages with others, through ``CrawlState``.

``python walker.py URL CRAWL PAGES FILE`` writes the number of each page that it did to
FILE, one a line, before it acks it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from scrapy_redis_state.store import CrawlState

AT_A_TIME = 4


def url(page: int) -> str:
    return f"http://graph.example/{page}"


def page_of(url: str) -> int:
    return int(url.rpartition("/")[2])


def links(page: int, pages: int) -> list[int]:
    """Where a page leads: most pages are linked from several."""
    return sorted({(page * 2 + 1) % pages, (page * 3 + 2) % pages, (page + 7) % pages})


def reachable(start: int, pages: int) -> set[int]:
    found: set[int] = set()
    left = [start]
    while left:
        page = left.pop()
        if page not in found:
            found.add(page)
            left += links(page, pages)
    return found


def is_over(state: CrawlState) -> bool:
    """Something was done, and nothing is left, here or with others."""
    now = state.status().summary
    return now.done > 0 and not now.pending + now.in_flight + now.suspects + now.delayed


def main(server: str, crawl: str, pages: int, file: Path) -> None:
    with CrawlState.connect(server, crawl=crawl) as state, file.open("a") as done:
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        while not is_over(state):
            leased = state.lease(AT_A_TIME)
            for one in leased:
                page = page_of(one.url)
                state.push_many(url(link) for link in links(page, pages))
                done.write(f"{page}\n")
                done.flush()
                state.ack(one)
            if not leased:
                time.sleep(0.01)  # others may find more


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
