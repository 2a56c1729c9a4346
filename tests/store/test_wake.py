"""How idle workers are told of new requests: one for each, and none in vain."""

from __future__ import annotations

import asyncio

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.messages import Bury
from scrapy_redis_state.store.requests import store_operation
from tests.processes import await_until
from tests.store.crawls import Crawl, ack, page


def calls(crawl: Crawl) -> int:
    """How many workers the server is ready to tell."""
    return int(crawl.client.llen(crawl.key("wake")))


def take_call(crawl: Crawl) -> None:
    assert crawl.client.lpop(crawl.key("wake"))


def test_a_push_calls_as_many_as_can_have_something(crawl):
    """Not a fleet for one request, and nobody twice for many."""
    crawl.push(page("before anybody was there"))
    assert calls(crawl) == 0
    for number in range(3):
        crawl.member(f"w{number}")
    crawl.push(page("a"))
    assert calls(crawl) == 2
    crawl.push(*map(page, "bcdef"))
    assert calls(crawl) == 3


def test_whoever_finds_that_a_call_is_missing_makes_it_again(crawl):
    """It may have gone to a worker that was just about to look."""
    one, two = crawl.member("w1"), crawl.member("w2")
    crawl.push(page("a"))
    take_call(crawl)
    assert calls(crawl) == 0
    one.exchange()
    assert calls(crawl) == 1
    two.take_one()
    assert calls(crawl) == 0
    assert not crawl.client.exists(crawl.key("wake"))


def test_all_that_makes_something_to_do_calls(crawl):
    """Pages, what is handed back, dead workers' work, dead letters, a resume."""
    one = crawl.member("w1")
    crawl.member("w2")
    one.exchange(store_operation("http://a.example/"))
    assert calls(crawl) == 1
    lease = one.take_one()
    assert calls(crawl) == 0
    one.exchange(Bury(lease.id, lease.batch, "given up"))
    with CrawlState(crawl.client, crawl.keys) as state:
        state.requeue_dead(reason="given up")
        assert calls(crawl) == 1
        crawl.member("w3").take_one()
        crawl.later()
        crawl.member("w4")
        crawl.reap()
        assert calls(crawl) == 1
        for hold in (state.pause, state.drain):
            hold()
            assert calls(crawl) == 0
            crawl.push(page("b"))
            assert calls(crawl) == 0
            state.resume()
            assert calls(crawl) == 1


def test_a_finished_crawl_calls_nobody(crawl):
    """And keeps no list that is not there."""
    member = crawl.member()
    member.exchange(ack(member.take_one(page("a"))))
    member.leave()
    assert crawl.field("status") == "finished"
    assert not crawl.client.exists(crawl.key("wake"))


@pytest.mark.parametrize("told", [True, False])
async def test_a_call_is_waited_for_on_a_connection_of_its_own(
    server, crawl, told, monkeypatch
):
    """For some seconds at most; and nothing of it is left when the store is closed."""
    monkeypatch.setattr("scrapy_redis_state.store.crawl_store.WAIT_SECS", 0.05)
    crawl.member()
    if told:
        crawl.push(page("a"))
    url = f"{server.url}&client_name=listener"
    store = RedisCrawlStore(async_client(url), crawl.keys)
    assert await store.wait_for_work() is told

    def listeners() -> int:
        return sum(one["name"] == "listener" for one in crawl.client.client_list())

    assert listeners() == 1
    await store.close()
    await await_until(lambda: not listeners())


async def test_a_listener_leaves_calls_their_connection(server, crawl):
    """Or the next call would have to connect, and to log in, first."""
    client = async_client(f"{server.url}&client_name=caller")
    listener = async_client(f"{server.url}&client_name=listener")
    store = RedisCrawlStore(client, crawl.keys, listener=listener)

    def names() -> list[str]:
        found = [one["name"] for one in crawl.client.client_list()]
        return sorted(set(found) & {"caller", "listener"})

    await store.reap()
    waiting = asyncio.ensure_future(store.wait_for_work())
    await await_until(lambda: names() == ["caller", "listener"])
    await store.reap()
    assert [one["name"] for one in crawl.client.client_list()].count("caller") == 1
    crawl.member()
    crawl.push(page("a"))
    assert await waiting
    await store.close()
    await await_until(lambda: not names())
