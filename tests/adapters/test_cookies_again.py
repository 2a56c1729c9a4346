"""A response sets a cookie as it is known to be, which another worker has changed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from scrapy import Request

from scrapy_redis_state.worker.sessions import cache
from tests.adapters.cookie_pair import Ours
from tests.adapters.test_cookies import HOME, Workers, workers_on
from tests.processes import await_until

pytestmark = pytest.mark.one_server

SID = "sid=1; Path=/"
GONE = "sid=; Path=/; Max-Age=0"


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background looks more often."""
    monkeypatch.setattr(cache, "REFRESH_SECS", 0.1)


soon = pytest.mark.usefixtures("_soon")


async def two_with_the_cookie(workers: Workers) -> tuple[Ours, Ours]:
    first, second = workers.start(), workers.start()
    await first.get(HOME, SID, "b=2")
    assert await second.get(HOME) == b"sid=1; b=2"
    return first, second


def stored(workers: Workers) -> dict[str, str]:
    return dict(workers.sessions.load(HOME))


async def later(workers: Workers) -> None:
    """Have the next thing happen some milliseconds after the last."""
    last = server_time(workers)
    await await_until(lambda: server_time(workers) > last + 0.01)


def server_time(workers: Workers) -> float:
    seconds, microseconds = workers.client.time()
    return int(seconds) + int(microseconds) / 1e6


@pytest.mark.parametrize(("before", "lost"), [(GONE, None), ("sid=9; Path=/", "9")])
@soon
async def test_it_is_set_as_the_store_sees_it(server, crawl_name, before, lost):
    """The last response counts, though its worker has nothing new to tell."""
    async with workers_on(server, crawl_name) as workers:
        first, second = await two_with_the_cookie(workers)
        await first.get(HOME, before)
        assert stored(workers).get("sid") == lost
        await later(workers)
        await second.get(HOME, SID)
        assert b"sid=1" in (await second.get(HOME) or b"")
        await await_until(lambda: stored(workers).get("sid") == "1", 5)
        first.expire()
        assert sorted((await first.get(HOME) or b"").split(b"; ")) == [b"b=2", b"sid=1"]
        await second.saved(workers.key)
        assert second.stat("stale") == second.stat("refused") == 0


@pytest.mark.parametrize(("after", "left"), [(GONE, None), ("sid=9; Path=/", "9")])
@soon
async def test_what_others_changed_later_stays(server, crawl_name, after, left):
    """Though this worker looks only then: it knows how old its response is."""
    async with workers_on(server, crawl_name) as workers:
        first, second = await two_with_the_cookie(workers)
        await second.get(HOME, SID)
        await later(workers)
        await first.get(HOME, after)
        await first.get(HOME, "c=3")
        await second.saved(workers.key)
        assert stored(workers).get("sid") == left
        second.expire()
        sent = await second.get(HOME) or b""
        assert (b"sid=9" in sent) == (left is not None)
        assert b"sid=1" not in sent


@soon
async def test_a_session_that_was_replaced_is_left_alone(server, crawl_name):
    """What was set as it was belonged to the old one."""
    async with workers_on(server, crawl_name) as workers:
        _, second = await two_with_the_cookie(workers)
        await second.get(HOME, SID)
        workers.sessions.save(HOME, {"new": "1"})
        await second.saved(workers.key)
        assert stored(workers) == {"new": "1"}
        second.expire()
        assert await second.get(HOME) == b"new=1"


@soon
async def test_a_worker_that_closes_looks_before(server, crawl_name):
    """Or the cookie would be lost."""
    async with workers_on(server, crawl_name) as workers:
        first, second = await two_with_the_cookie(workers)
        await first.get(HOME, GONE)
        await later(workers)
        await second.get(HOME, SID)
        await second.close()
        assert stored(workers) == {"b": "2", "sid": "1"}


@soon
async def test_what_another_program_stored_with_it_is_kept(server, crawl_name):
    """A jar knows less of a cookie than a browser does."""
    async with workers_on(server, crawl_name) as workers:
        worker = workers.start()
        cookie = {
            "name": "sid",
            "value": "1",
            "domain": "shop.example",
            "path": "/",
            "priority": "High",
        }
        workers.sessions.save(HOME, [cookie])
        await worker.get(HOME, SID)
        version = workers.stored().version
        await worker.saved(workers.key)
        (one,) = workers.stored().cookies.values()
        assert one.extra == {"priority": "High"}
        assert workers.stored().version == version


@soon
async def test_a_request_that_brings_its_cookies_again(server, crawl_name):
    """It sets them as a response does."""
    async with workers_on(server, crawl_name) as workers:
        first, second = workers.start(), workers.start()
        for worker in (first, second):
            await worker.get(HOME, cookies={"currency": "EUR"})
        await first.get(HOME, "currency=; Max-Age=0")
        await later(workers)
        await second.send(Request(HOME, cookies={"currency": "EUR"}))
        await await_until(lambda: stored(workers) == {"currency": "EUR"}, 5)


async def test_a_site_that_sets_its_cookies_in_every_response(server, crawl_name):
    """Is not written to, by any of its workers, and costs no round trip for a page."""
    async with workers_on(server, crawl_name) as workers:
        fleet = await two_with_the_cookie(workers)
        version, since = workers.stored().version, time.time()
        calls, writes = workers.calls(), commands(workers, "hset")
        for _ in range(100):
            for worker in fleet:
                assert await worker.get(HOME, SID, "b=2") == b"sid=1; b=2"
        # The background of each asks, once a second.
        assert workers.calls() - calls <= 2 * (2 + 2 * (time.time() - since))
        for worker in fleet:
            await worker.saved(workers.key)
        assert commands(workers, "hset") == writes
        assert workers.stored().version == version


def commands(workers: Workers, name: str) -> int:
    stats: Any = workers.client.info("commandstats")
    return int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"])
