"""How often a worker of the package talks to the server, at some pages a second.

The simulated workers then do so as often.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from benchmarks.scaling.load import old_links
from benchmarks.storing.worker import PAYLOAD, first_join
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    JoinStatus,
    Reaped,
    Store,
)
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.worker import Worker, WorkerOptions

DOWNLOAD_SECONDS = 0.3
"""How long a page takes."""
WARM_UP_SECONDS = 2.0


class Quiet:
    """An owner that need not be told."""

    def changed(self) -> None: ...

    def answered(self, tag: Any, answer: Answer) -> None: ...

    def reaped(self, reaped: Reaped) -> None: ...

    def ended(self, reason: JoinStatus | RedisStateError) -> None: ...

    def is_busy(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Pages:
    """What a worker does."""

    per_second: float
    new: int
    """Links to new pages that each has."""
    old: int
    """Links to seen ones."""


async def seconds_between_exchanges(
    url: str, keys: CrawlKeys, pages: Pages, seconds: float
) -> float:
    """Have one worker do pages from a frontier that has enough of them.

    :param seconds: how long it is watched, after a moment to settle
    """
    client = async_client(url)
    store = RedisCrawlStore(client, keys)
    options = WorkerOptions(first_join("real", keys), prefetch=32)
    worker = Worker(store, options, Quiet())
    await worker.join()
    worker.start()
    driver = asyncio.ensure_future(_drive(worker, pages))
    await asyncio.sleep(WARM_UP_SECONDS)
    before = worker.membership.exchanges
    await asyncio.sleep(seconds)
    made = worker.membership.exchanges - before
    driver.cancel()
    await worker.stop()
    await store.close()
    return seconds / made


async def _drive(worker: Worker, pages: Pages) -> None:
    old = old_links()[: pages.old]
    loop = asyncio.get_running_loop()
    number, due = 0, loop.time()

    def end(page: Lease, first: int) -> None:
        for request in old:
            worker.offer(request, page)
        for n in range(first, first + pages.new):
            fingerprint = b"real" + n.to_bytes(16, "big")
            worker.offer(Store(PAYLOAD, 0, fingerprint), page)
        worker.end(page, Ack(page.id, page.batch))

    while True:
        due += 1 / pages.per_second
        await asyncio.sleep(max(0, due - loop.time()))
        page = worker.take()
        if isinstance(page, Lease):
            loop.call_later(DOWNLOAD_SECONDS, end, page, number)
            number += pages.new
