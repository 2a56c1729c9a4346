"""An idle worker is told of new requests: none of these asks for them by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.worker import worker as module
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.wake import WakeWatch
from scrapy_redis_state.worker.worker import Worker, WorkerOptions
from tests.processes import await_until
from tests.store.crawls import Crawl
from tests.store.users import documented_user, url_of_user
from tests.worker.fleet import JOIN, Owner, ack, page

FOR_EVER = 3600.0


@pytest.fixture
def crawl(server, crawl_name):
    crawl = Crawl(server.client(), crawl_name)
    yield crawl
    assert crawl.fsck() == []


@pytest.fixture
def deaf(monkeypatch):
    """Workers that make an exchange only when they have a reason."""
    monkeypatch.setattr(module, "BEAT_SECS", FOR_EVER)
    monkeypatch.setattr(module, "IDLE_SECS", FOR_EVER)


@asynccontextmanager
async def idle_worker(url: str, crawl: str) -> AsyncIterator[Worker]:
    """One that has asked for work, got none, and waits."""
    store = RedisCrawlStore(async_client(f"{url}&client_name=fleet"), CrawlKeys(crawl))
    options: dict[str, Any] = {"first_join": JOIN, "lease_secs": 8 * FOR_EVER}
    worker = Worker(store, WorkerOptions(**options, keep_alive=True), Owner())
    try:
        await worker.join()
        worker.start()
        await await_until(lambda: worker._watch.is_listening)
        yield worker
    finally:
        await worker.stop()
        await store.close()


async def do_one(worker: Worker) -> bytes:
    """Take a request as soon as there is one, and be done with it."""
    lease = await await_until(worker.take)
    assert isinstance(lease, Lease)
    worker.end(lease, ack(lease))
    return lease.payload


def has_exchanged(worker: Worker, times: int) -> bool:
    return worker.membership.exchanges >= times


def connections(crawl: Crawl, command: str = "") -> int:
    """How many of the fleet there are, of those that last sent *command*."""
    fleet = [one for one in crawl.client.client_list() if one["name"] == "fleet"]
    return sum(one["cmd"].startswith(command) for one in fleet)


@pytest.mark.usefixtures("deaf")
async def test_a_push_wakes_an_idle_worker(server, crawl, crawl_name):
    """Again and again; and it leaves no connection behind."""
    async with idle_worker(server.url, crawl_name) as worker:
        for name in "abc":
            await await_until(lambda: connections(crawl, "blpop"))
            crawl.push(page(name))
            assert await do_one(worker) == name.encode()
            await await_until(lambda: crawl.summary.drained)
    await await_until(lambda: connections(crawl) == 0)


@pytest.mark.usefixtures("deaf")
async def test_what_one_worker_finds_wakes_another(server, crawl, crawl_name):
    """It need not be pushed."""
    async with (
        idle_worker(server.url, crawl_name) as one,
        idle_worker(server.url, crawl_name) as other,
    ):
        await await_until(lambda: connections(crawl, "blpop") == 2)
        one.close()  # it takes nothing, but has something to tell
        one.offer(page("a"))
        await do_one(other)


@pytest.mark.usefixtures("deaf")
async def test_one_request_wakes_one_worker_of_many(server, crawl, crawl_name):
    """The others are not even disturbed."""
    async with (
        idle_worker(server.url, crawl_name) as one,
        idle_worker(server.url, crawl_name) as two,
        idle_worker(server.url, crawl_name) as three,
    ):
        fleet = (one, two, three)
        await await_until(lambda: connections(crawl, "blpop") == len(fleet))
        before = [worker.membership.exchanges for worker in fleet]
        crawl.push(page("a"))
        await await_until(lambda: sum(worker.held for worker in fleet) == 1)
        assert crawl.client.llen(crawl.key("wake")) == 0
        assert connections(crawl, "blpop") == len(fleet) - 1
        after = [worker.membership.exchanges for worker in fleet]
        assert sum(a - b for a, b in zip(after, before, strict=True)) == 1


@pytest.mark.usefixtures("deaf")
async def test_many_requests_wake_many_workers(server, crawl, crawl_name):
    """Each has one."""
    async with (
        idle_worker(server.url, crawl_name) as one,
        idle_worker(server.url, crawl_name) as two,
    ):
        await await_until(lambda: connections(crawl, "blpop") == 2)
        crawl.push(*map(page, "abcdef"))
        for worker in (one, two):
            await do_one(worker)


@pytest.mark.usefixtures("deaf")
async def test_who_took_the_last_request_is_told_of_the_next(server, crawl, crawl_name):
    """Also while its page runs: it could do another beside it."""
    async with idle_worker(server.url, crawl_name) as worker:
        await await_until(lambda: connections(crawl, "blpop"))
        crawl.push(page("a"))
        lease = await await_until(worker.take)
        assert isinstance(lease, Lease)
        await await_until(lambda: connections(crawl, "blpop"))
        crawl.push(page("b"))
        assert await do_one(worker) == b"b"
        worker.end(lease, ack(lease))


async def test_a_worker_that_may_not_listen_looks_for_itself(
    server, crawl, crawl_name, caplog
):
    """It says so once, and what has to be allowed."""
    caplog.set_level(logging.INFO)
    admin = server.client()
    admin.execute_command(*documented_user(), "-blpop", f"~*{crawl_name}*")
    try:
        store = RedisCrawlStore(
            async_client(url_of_user(server)), CrawlKeys(crawl_name)
        )
        worker = Worker(store, WorkerOptions(JOIN, keep_alive=True), Owner())
        await worker.join()
        worker.start()
        for name in "ab":
            enough = worker.membership.exchanges + 2
            await await_until(partial(has_exchanged, worker, enough))
            crawl.push(page(name))
            await do_one(worker)
        await worker.stop()
        await store.close()
    finally:
        admin.execute_command("ACL", "DELUSER", "crawler")
    told = [one.getMessage() for one in caplog.records]
    (line,) = [one for one in told if "not told of new requests" in one]
    assert "blpop" in line.lower()


async def test_a_worker_whose_connection_is_cut_listens_again(
    server, crawl, crawl_name, monkeypatch
):
    """Until then it looks for itself."""
    monkeypatch.setattr("scrapy_redis_state.worker.wake.PAUSE_SECS", 0.01)
    async with idle_worker(server.url, crawl_name) as worker:
        await await_until(lambda: connections(crawl, "blpop"))
        (cut,) = [c for c in crawl.client.client_list() if c["cmd"] == "blpop"]
        crawl.client.client_kill_filter(_id=cut["id"])
        await await_until(
            lambda: any(
                one["cmd"] == "blpop" and one["id"] != cut["id"]
                for one in crawl.client.client_list()
            )
        )
        crawl.push(page("a"))
        await do_one(worker)


async def test_a_listener_that_is_stopped_twice_is_stopped():
    """The client takes no notice of the first time while it connects."""
    begun = asyncio.Event()

    async def listen() -> bool:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(FOR_EVER)
        await asyncio.sleep(FOR_EVER)
        return False

    watch = WakeWatch(listen, lambda: True, lambda: None)
    watch.start()
    await begun.wait()
    stopping = asyncio.ensure_future(watch.stop())
    done, _ = await asyncio.wait([stopping], timeout=10)
    assert done
    assert not watch.is_listening
