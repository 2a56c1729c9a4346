"""Working on a crawl without Scrapy: one body for blocking calls and asyncio."""

from __future__ import annotations

from scrapy_redis_state.store.messages import Seeding
from tests.store.crawls import LEASE_MS

URL = "http://shop.example/a"


def url(number):
    return f"http://shop.example/{number}"


class TestWorker:
    async def test_a_request_is_leased_until_it_is_acked(self, state):
        """Nobody else gets it meanwhile."""
        await state.push_many([url(1), url(2)])
        first, second = await state.lease(2)
        assert await state.lease(2) == []
        assert await state.ack(first, second) == [True, True]
        assert await state.ack(first) == [False]
        assert (await state.status()).summary.done == 2

    async def test_a_released_one_comes_back_as_it_was(self, connect):
        """To anybody, uncounted."""
        one, other = connect(), connect()
        await one.push(URL, 7)
        (leased,) = await one.lease()
        assert await one.release(leased) == [True]
        (again,) = await other.lease()
        assert (again.id, again.priority, again.deliveries) == (leased.id, 7, 0)

    async def test_a_failed_one_comes_back_until_it_has_failed_too_often(self, state):
        """Then it is a dead letter."""
        await state.push(URL)
        for count in range(3):
            (leased,) = await state.lease()
            assert leased.deliveries == count
            assert await state.fail(leased, f"failure {count}", delay_secs=0)
        assert await state.lease() == []
        assert (await state.status()).summary.dead == 1

    async def test_a_failed_one_waits(self, crawl, state):
        """As many seconds as asked."""
        await state.push(URL)
        (leased,) = await state.lease()
        await state.fail(leased, "oops", delay_secs=100)
        assert await state.lease() == []
        crawl.client.zincrby(crawl.key("delayed"), -100_000, leased.id)
        assert (await state.reap()).promoted == 1
        assert [one.id for one in await state.lease()] == [leased.id]

    async def test_a_buried_one_is_a_dead_letter(self, crawl, state):
        """With its reason."""
        await state.push(URL)
        (leased,) = await state.lease()
        assert await state.bury(leased, "not a page")
        assert not await state.bury(leased, "not a page")
        (letter,) = crawl.dead_letters()
        assert letter["reason"] == "not a page"

    async def test_what_is_no_request_becomes_a_dead_letter(self, crawl, state):
        """The others of the same call are leased."""
        await state.push_many([url(1), url(2)])
        bad = max(crawl.place("frontier"))
        crawl.client.hset(crawl.key("requests"), bad, b"garbage")
        assert [one.url for one in await state.lease(2)] == [url(2)]
        assert crawl.where(bad) == "dead"

    async def test_a_suspect_is_leased_when_nothing_is_held(self, crawl, state):
        """However many acks came too late or twice."""
        crawl.member(seeding=Seeding.NONE)
        await state.push_many([url(1), url(2)])
        first, second = await state.lease(2)
        crawl.client.zadd(crawl.key("suspects"), {"1": 0})
        crawl.client.hset(crawl.key("requests"), "1", b"0;2;;payload")
        assert await state.ack(first, first) == [True, False]
        assert await state.lease() == []
        assert await state.ack(second) == [True]
        assert [one.id for one in await state.lease()] == ["1"]


class TestLostLease:
    async def test_a_late_ack_changes_nothing(self, crawl, connect):
        """The program was silent for a lease; another got the request."""
        slow, other = connect(), connect()
        await slow.push(URL)
        crawl.member(seeding=Seeding.NONE)
        (late,) = await slow.lease()
        crawl.later(LEASE_MS)
        (leased,) = await other.lease()
        assert leased.deliveries == 1
        assert await slow.ack(late) == [False]
        assert crawl.where(leased.id) == "inflight"
        assert await other.ack(leased) == [True]

    async def test_the_program_goes_on_leasing(self, crawl, state):
        """In a new place; an empty answer still means that there is nothing."""
        crawl.member(seeding=Seeding.NONE)
        await state.push_many([url(1), url(2)])
        (late,) = await state.lease()
        crawl.later(LEASE_MS)
        again = await state.lease(5)
        assert {one.url for one in again} == {url(1), url(2)}
        assert await state.release(late) == [False]
        assert await state.ack(*again) == [True, True]

    async def test_a_reap_brings_back_what_a_dead_program_held(self, crawl, connect):
        """Without anybody's crawl running."""
        dead, tool = connect(), connect()
        crawl.member(seeding=Seeding.NONE)
        await dead.push_many([url(1), url(2)])
        await dead.lease(2)
        crawl.later(LEASE_MS)
        reply = await tool.reap(limit=1)
        assert (reply.requeued, reply.summary.pending) == (1, 1)
        assert (await tool.reap()).requeued == 1

    async def test_closing_hands_back_what_is_leased(self, connect):
        """Nobody has to wait for the lease to end."""
        one, other = connect(), connect()
        await one.push_many([url(1), url(2)])
        (done, _) = await one.lease(2)
        await one.ack(done)
        await one.close()
        (leased,) = await other.lease()
        assert (leased.url, leased.deliveries) == (url(2), 0)
        assert (await other.status()).summary.workers == 1
