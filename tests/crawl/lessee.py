"""A program that is no spider: ``python lessee.py URL CRAWL COUNT`` holds requests."""

import sys
import time

from scrapy_redis_state.store import CrawlState

if __name__ == "__main__":
    url, crawl, count = sys.argv[1:]
    state = CrawlState.connect(url, crawl=crawl)
    leased = state.lease(int(count))
    print("holds", len(leased), flush=True)  # noqa: T201 - the test reads it
    time.sleep(600)
