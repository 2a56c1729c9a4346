"""Changing the order of what is queued already."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from scrapy_redis_state.store import CrawlState, scripts
from scrapy_redis_state.store.messages import Release
from scrapy_redis_state.worker.lease import Lease
from tests.store.crawls import LEASE_MS, Member, ack, page, unfiltered


def url(number: int) -> str:
    return f"http://a.example/{'sale' if number % 3 == 0 else 'page'}/{number}"


async def test_requests_that_match_come_first(crawl, state):
    """Among them the order stays as it was; the others are not touched."""
    await state.push_many([url(n) for n in range(9)])
    assert await state.prioritize("/sale/", 5) == 3
    taken = await state.lease(9)
    assert [one.url for one in taken] == [url(n) for n in (0, 3, 6, 1, 2, 4, 5, 7, 8)]
    assert [one.priority for one in taken] == [5, 5, 5, 0, 0, 0, 0, 0, 0]


async def test_every_place_is_reached(crawl, state):
    """Those in flight, delayed and suspect come back with the new priority."""
    await state.push_many([url(n) for n in (0, 3)])
    one, two = await state.lease(2)
    await state.fail(one, "no luck", delay_secs=3600)
    assert await state.prioritize(r"sale/\d$", -7) == 2
    await state.release(two)
    crawl.client.zadd(crawl.key("delayed"), {one.id: 1})
    await state.reap()
    assert crawl.place("frontier") == {one.id: -7, two.id: -7}


async def test_a_million_is_done_in_steps(crawl, state):
    """No request is raised twice, however often a scan shows it."""
    await state.push_many([url(n) for n in range(5000)], priority=1)
    assert await state.prioritize("page", 2) == 3333
    assert sorted(set(crawl.place("frontier").values())) == [1, 3]


async def test_nothing_is_there(state):
    """A crawl that does not exist has no requests."""
    assert await state.prioritize("x", 1) == 0


async def test_priorities_stay_exact(crawl, state):
    """They stop at the largest number that a sorted set keeps exactly."""
    await state.push(url(1), priority=2**53)
    await state.prioritize("page", 10)
    assert set(crawl.place("frontier").values()) == {2**53}


async def test_a_worker_gives_back_what_is_no_longer_the_best(crawl, state):
    """A request that was raised is handed out before those that wait."""
    await state.push_many([url(n) for n in range(3)])
    await state.prioritize("page/2", 1)
    assert [one.url for one in await state.lease(1)] == [url(2)]


def test_garbage_is_left_alone(crawl):
    """An entry that is none has no URL and no priority."""
    crawl.push(page("a"))
    lease = crawl.member().take_one()
    crawl.client.hset(crawl.key("requests"), lease.id, b"\xff\x00")
    assert CrawlState(crawl.client, crawl.keys).prioritize("", 1) == 0
    crawl.later(2 * LEASE_MS)
    crawl.reap()
    assert crawl.where(lease.id) == "dead"


def test_it_may_be_changed_while_workers_are_at_it(crawl):
    """Each request is run once, and was raised once if it was there at all."""
    pages = 400
    crawl.push(*(unfiltered(f"p{n}", n % 3) for n in range(pages)))
    ids = sorted(crawl.place("frontier"))
    members = [crawl.member(f"w{n}") for n in range(3)]

    def work(member: Member) -> list[Lease]:
        done, held = [], member.take(7)
        while held:
            done += held
            kept, back = held[:5], held[5:]
            returned = [Release(one.id, one.batch) for one in back]
            done = done[: len(done) - len(back)]
            held = member.take(7, *map(ack, kept), *returned)
        return done

    def raise_some(first: int) -> int:
        changed = 0
        for start in range(first, pages, 40):
            some = ids[start : start + 20]
            changed += crawl.run(scripts.prioritize(crawl.keys, 10, some))
        return changed

    with ThreadPoolExecutor(5) as threads:
        raised = threads.map(raise_some, (0, 20))
        done = [lease for some in threads.map(work, members) for lease in some]
        changed = sum(raised)
    assert sorted(lease.id for lease in done) == ids
    assert {lease.priority for lease in done} <= {0, 1, 2, 10, 11, 12}
    assert sum(lease.priority >= 10 for lease in done) <= changed <= pages


@pytest.mark.parametrize("pattern", ["(", "[a"])
async def test_a_bad_pattern_is_refused(state, pattern):
    """By the error of the module for them, which says what is wrong."""
    with pytest.raises(re.error, match="position"):
        await state.prioritize(pattern, 1)
