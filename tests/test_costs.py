"""What crawling costs, in figures that are the same on every machine.

Each may get smaller; its bound is to be lowered then, so that no later change loses it
again. A change that makes one larger says in its message what is had for it, and raises
the bound. Servers may differ a little: the bound is that of the one that takes more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.sample import ShopSpider, request
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Ack, Operation, Store
from scrapy_redis_state.store.wire import pack_operations
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.worker import Worker, WorkerOptions
from tests.store.crawls import Crawl, page
from tests.worker.fleet import JOIN, Owner

PAGES = 16
"""Pages that end in one exchange, and that it brings."""

BOUNDS = {
    # Commands that the script of one exchange runs, by what each page of it brings.
    "no links": 36,
    "14 links, 1 new": 41,
    "10 links, all new": 41,
    "nothing at all": 30,
    # Of a worker that is as busy as can be, for each page with one new link.
    "round trips per page": 0.07,
    "commands per page": 2.8,
    # Bytes of a request with callback, depth, three keys of meta and a referer.
    "bytes per stored request": 195,
    "bytes per request sent": 234,
    "bytes per page end sent": 20,
}


@pytest.fixture
def crawl(server, crawl_name):
    crawl = Crawl(server.client(), crawl_name)
    yield crawl
    assert crawl.fsck() == []


def called(crawl: Crawl) -> int:
    """Commands that scripts ran since the last look."""
    found: Any = crawl.client.info("commandstats")
    crawl.client.config_resetstat()
    outside = ("evalsha", "eval", "info", "config", "client", "hello", "select", "ping")
    return sum(
        stats["calls"]
        for name, stats in found.items()
        if name.removeprefix("cmdstat_").partition("|")[0] not in outside
    )


def links(new: int, old: int, first: int) -> Iterator[Operation]:
    yield from (page(f"new {first + number}") for number in range(new))
    yield from (page(f"old {number}") for number in range(old))


@pytest.mark.parametrize(
    ("mix", "new", "old"),
    [
        ("no links", 0, 0),
        ("14 links, 1 new", 1, 13),
        ("10 links, all new", 10, 0),
    ],
)
def test_an_exchange_runs_no_more_commands(crawl, mix, new, old):
    """However many pages end in it, and whatever they bring."""
    member = crawl.member()
    crawl.push(*links(0, 13, 0), *(page(f"page {n}") for n in range(3 * PAGES)))
    held = member.take(PAGES)
    operations: list[Operation] = []
    for number, lease in enumerate(held):
        operations += [*links(new, old, new * number), Ack(lease.id, lease.batch)]
    called(crawl)
    reply = member.exchange(*operations, want=PAGES)
    count = called(crawl)
    assert len(reply.popped) == PAGES
    assert [answer.value for answer in reply.answers].count("s") == new * PAGES
    assert count <= BOUNDS[mix]


def test_an_exchange_that_has_nothing_to_say_runs_few_commands(crawl):
    """Idle workers make one several times a second."""
    member = crawl.member()
    member.exchange()
    called(crawl)
    member.exchange(want=1)
    assert called(crawl) <= BOUNDS["nothing at all"]


async def test_a_busy_worker_makes_few_round_trips(server, crawl, crawl_name):
    """Each brings what many pages need, and takes what they made."""
    store = RedisCrawlStore(async_client(server.url), CrawlKeys(crawl_name))
    options = WorkerOptions(first_join=JOIN, prefetch=32)
    worker = Worker(store, options, Owner())
    crawl.push(*(page(f"chain {number}") for number in range(100)))
    try:
        await worker.join()
        worker.start()
        began, done = 0, -500  # which it takes to find out how much to fetch
        while done < 1000:
            if done == 0:
                called(crawl)
                began = worker.membership.exchanges
            lease = worker.take()
            if isinstance(lease, Lease):
                done += 1
                worker.offer(page(f"after {lease.id}"), lease)
                worker.end(lease, Ack(lease.id, lease.batch))
            await asyncio.sleep(0)
        assert (
            worker.membership.exchanges - began <= BOUNDS["round trips per page"] * done
        )
        assert called(crawl) <= BOUNDS["commands per page"] * done
    finally:
        await worker.stop()
        await store.close()


def test_a_request_takes_few_bytes(crawl):
    """Where it is stored, and on its way there."""
    spider = ShopSpider()
    store = Store(RequestSerializer(spider).encode(request(spider, 1234)), 0, bytes(20))
    crawl.push(store)
    (id,) = crawl.place("frontier")
    assert len(crawl.entry(id)) <= BOUNDS["bytes per stored request"]
    links = [store._replace(page=id)] * 10
    ends = [Ack(id, 1)] * 10
    assert len(pack_operations(links).data) <= 10 * BOUNDS["bytes per request sent"]
    assert len(pack_operations(ends).data) <= 10 * BOUNDS["bytes per page end sent"]
