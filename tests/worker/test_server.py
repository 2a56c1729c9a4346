"""Workers on a real server: the same promises, over the wire."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from scrapy_redis_state.store.async_state import AsyncCrawlState
from scrapy_redis_state.store.canonical import url_fingerprint
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Bury, Store
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.worker.worker import Worker, WorkerOptions
from tests.processes import await_until
from tests.store.crawls import Crawl
from tests.worker.fleet import JOIN, Owner, ack, page


class Fleet:
    """Workers of one crawl on one server."""

    def __init__(self, server, crawl_name):
        self.server = server
        self.crawl = Crawl(server.client(), crawl_name)
        self.keys = CrawlKeys(crawl_name)
        self.stack = AsyncExitStack()
        self.owner = Owner()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        await self.stack.aclose()

    async def worker(self, **options):
        store = RedisCrawlStore(async_client(self.server.url), self.keys)
        self.stack.push_async_callback(store.close)
        defaults: dict[str, Any] = {"first_join": JOIN, "lease_secs": 60.0}
        worker = Worker(store, WorkerOptions(**defaults | options), self.owner)
        self.stack.push_async_callback(worker.stop)
        await worker.join()
        worker.start()
        return worker


@pytest.fixture
def crawl(server, crawl_name):
    crawl = Crawl(server.client(), crawl_name)
    yield crawl
    assert crawl.fsck() == []


def links(number):
    return {(number * 2 + 1) % 300, (number * 3 + 2) % 300}


async def work(worker, done):
    """Do pages until the whole crawl has no more."""
    while worker.has_work:
        lease = worker.take()
        if lease is None:
            await asyncio.sleep(0.002)
            continue
        number = int(lease.payload)
        for link in links(number):
            worker.offer(page(str(link), link % 3), lease)
        await asyncio.sleep(0)
        done.append(number)
        worker.end(lease, ack(lease))


async def test_several_workers_do_each_page_once(server, crawl, crawl_name):
    """And find out together that there is no more; the last one finishes the crawl."""
    async with Fleet(server, crawl_name) as fleet:
        crawl.push(page("1"))
        workers = [await fleet.worker() for _ in range(3)]
        done: list[list[int]] = [[], [], []]
        await asyncio.gather(*map(work, workers, done))
    pages = [page for part in done for page in part]
    found, left = set(), [1]
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            left += links(number)
    assert sorted(pages) == sorted(found)
    assert crawl.field("status") == "finished"
    assert crawl.summary.done == len(found)


async def test_a_garbage_entry_is_buried(server, crawl, crawl_name):
    """The rest is done."""
    crawl.push(page("bad", 1), page("2"))
    bad = max(crawl.place("frontier"), key=crawl.place("frontier").__getitem__)
    crawl.client.hset(crawl.key("requests"), bad, b"\xff\xff")
    async with Fleet(server, crawl_name) as fleet:
        worker = await fleet.worker()
        lease = await await_until(worker.take)
        worker.end(lease, Bury(lease.id, lease.batch, "enough"))
        await await_until(lambda: not worker.has_work)
    assert crawl.summary.dead == 2


async def test_a_server_that_is_killed_and_comes_back_costs_nothing(
    fresh_server, crawl_name, caplog
):
    """With an append-only file: work goes on where it was, under the same identity."""
    server = fresh_server(appendonly=True)
    caplog.set_level(logging.INFO)
    async with Fleet(server, crawl_name) as fleet:
        worker = await fleet.worker()
        fleet.crawl.push(page("1"))
        lease = await await_until(worker.take)
        identity = worker.membership.id
        server.kill()
        worker.offer(page("child"), lease, tag="child")
        worker.end(lease, ack(lease))
        await await_until(lambda: "does not answer" in caplog.text)
        server.restart()
        await await_until(lambda: worker.backlog == 0)
        assert worker.membership.id == identity
        fleet.crawl = Crawl(server.client(), crawl_name)
        assert fleet.crawl.summary.done == 1
        assert fleet.crawl.fsck() == []
    messages = [one.getMessage() for one in caplog.records]
    assert sum("does not answer" in one for one in messages) == 1
    assert sum("answers again" in one for one in messages) == 1


async def test_a_server_that_lost_its_data_is_not_begun_anew(fresh_server, crawl_name):
    """Its workers say so, and leave."""
    server = fresh_server()
    async with Fleet(server, crawl_name) as fleet:
        worker = await fleet.worker()
        fleet.crawl.client.flushall()
        await await_until(lambda: fleet.owner.ends)
        assert fleet.owner.ends == ["lost"]
        assert worker.is_over
        assert fleet.crawl.contents() == {}


async def test_a_page_whose_shard_is_not_ours_becomes_a_dead_letter(
    server, crawl, crawl_name
):
    """Which names the key; all other pages are stored."""
    seen = SeenSet("packed", capacity=100_000)
    keys = CrawlKeys(crawl_name, seen_set=seen)
    shard, _ = seen.locate(b"7")
    crawl.client.set(keys.shard(1, shard), "not ours")
    async with Fleet(server, crawl_name) as fleet:
        fleet.keys = keys
        join = replace(JOIN, identity={"seen": seen.spec})
        worker = await fleet.worker(first_join=join)
        for number in range(20):
            worker.offer(page(str(number)))
        await await_until(crawl.dead_letters, 10)
        await fleet.stack.aclose()  # workers store what they have before they leave
    (letter,) = crawl.dead_letters()
    assert letter["payload"] == b"7"
    expected = f"WRONGTYPE {keys.shard(1, shard)} is a string, not a set"
    assert expected in letter["reason"]
    crawl.client.delete(keys.shard(1, shard))
    assert len(crawl.place("frontier")) == 19


async def test_what_its_own_process_forgets_is_new_at_once(server, crawl, crawl_name):
    """A callback that has a page forgotten may ask for it in the next line."""
    url = "https://shop.example/sale"
    async with Fleet(server, crawl_name) as fleet:
        worker = await fleet.worker(prefetch=0)
        known = url_fingerprint(url)

        async def ask():
            worker.offer(Store(b"sale", fingerprint=known))
            await await_until(lambda: not worker.backlog)

        for _ in range(2):  # the first reply is that of a version nobody has heard of
            await ask()
        assert worker.is_known(known)
        async with AsyncCrawlState(async_client(server.url), fleet.keys) as state:
            assert await state.forget(url)
            assert not worker.is_known(known)
        await ask()
        assert crawl.summary.pending + crawl.summary.in_flight == 2
