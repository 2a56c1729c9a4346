"""Closing and stopping: nothing is kept, nothing is lost, and somebody signs off."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from scrapy_redis_state.store.messages import CrawlStatus, Release, Seeding
from scrapy_redis_state.worker import worker as worker_module
from tests.processes import await_until
from tests.worker.fleet import JOIN, ack, page


def errors(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


class TestClose:
    async def test_what_was_not_started_is_handed_back(self, fleet):
        """What runs goes on, and its end is still reported."""
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            running = await fleet.take(worker)
            await await_until(lambda: worker.held == 2)
            worker.close()
            assert worker.take() is None
            await await_until(lambda: worker.held == 1)
            assert len(fleet.store.crawl.frontier) == 1
            worker.offer(page("child"), running)
            worker.end(running, ack(running))
            await fleet.settled(worker)
            assert (fleet.store.crawl.done, worker.held) == (1, 0)
        assert len(fleet.store.crawl.frontier) == 2

    async def test_what_arrives_later_is_handed_back_too(self, fleet):
        """The exchange was in the air when the worker closed."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            with fleet.store.holding_replies():
                await await_until(lambda: fleet.store.crawl.inflight)
                worker.close()
                assert worker.held == 0
            await await_until(lambda: fleet.store.crawl.frontier)
            assert worker.take() is None
            (entry,) = fleet.store.crawl.requests.values()
            assert entry.deliveries == 0

    async def test_nothing_more_is_asked_for(self, fleet):
        """Neither requests nor the seeding token; beats go on."""
        join = replace(JOIN, seeding=Seeding.OPEN)
        async with fleet.worker(first_join=join, can_seed=True) as worker:
            await fleet.exchanged(worker)
            worker.close()
            await fleet.exchanged(worker, 3)
            last = fleet.store.exchanges[-1]
            assert (last.want, last.seeder, last.leaving) == (0, False, False)


class TestStop:
    async def test_all_that_was_offered_is_sent_first(self, fleet):
        """However much it is; then the worker signs off."""
        fleet.push(page("start"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            for number in range(1200):
                worker.offer(page(str(number)), lease)
            worker.end(lease, ack(lease))
        assert len(fleet.store.crawl.frontier) == 1200
        assert fleet.store.crawl.done == 1
        assert [one.leaving for one in fleet.store.exchanges[-2:]] == [False, True]
        assert fleet.store.crawl.workers == {}

    async def test_what_still_runs_is_handed_back_by_the_sign_off(self, fleet):
        """Uncounted, for others to do."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            await fleet.take(worker)
        (entry,) = fleet.store.crawl.requests.values()
        assert (entry.deliveries, len(fleet.store.crawl.frontier)) == (0, 1)

    async def test_it_may_come_while_an_exchange_is_in_the_air(self, fleet):
        """Its answer is waited for, and what it popped is handed back."""
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            with fleet.store.holding_replies():
                await await_until(lambda: fleet.store.crawl.inflight)
                worker.offer(page("c"))
                stopping = asyncio.ensure_future(worker.stop())
                await asyncio.sleep(0)
                assert not stopping.done()
            await stopping
        assert len(fleet.store.crawl.frontier) == 3
        assert any(isinstance(one, Release) for one in fleet.store.operations)
        assert fleet.store.exchanges[-1].leaving

    async def test_the_last_worker_of_a_drained_crawl_finishes_it(self, fleet):
        """By its sign-off."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            worker.end(lease, ack(lease))
            await await_until(lambda: not worker.has_work)
        assert fleet.store.crawl.status is CrawlStatus.FINISHED

    async def test_a_page_that_waits_for_room_is_handed_back(self, fleet, caplog):
        """It is done again, and what it made is made again."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            fleet.store.server.room = False
            worker.offer(page("child"), lease)
            worker.end(lease, ack(lease))
        assert fleet.store.where(lease) == "frontier"
        assert fleet.store.crawl.done == 0
        assert errors(caplog) == []

    async def test_requests_of_no_page_that_found_no_room_are_said_to_be_lost(
        self, fleet, caplog
    ):
        """The log has their number."""
        async with fleet.worker() as worker:
            fleet.store.server.room = False
            worker.offer(page("a"))
            worker.offer(page("b"))
        (message,) = errors(caplog)
        assert message.startswith("2 requests are lost: the server had no room")

    async def test_a_sign_off_that_nobody_knows_is_as_good(self, fleet, caplog):
        """The server had forgotten the worker; it does not come back for that."""
        exchange = fleet.store.server.exchange

        def forget_first(request):
            if request.leaving:
                fleet.store.crawl.workers.clear()
            return exchange(request)

        fleet.store.server.exchange = forget_first
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
        assert fleet.store.exchanges[-1].leaving
        assert (len(fleet.store.joins), fleet.owner.ends) == (1, [])
        assert errors(caplog) == []

    async def test_patience_with_a_server_that_is_away_ends(self, fleet, monkeypatch):
        """What the worker held comes back when its lease ends."""
        monkeypatch.setattr(worker_module, "STOP_PATIENCE_SECS", 0.2)
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            fleet.store.away = True
            worker.end(lease, ack(lease))
        assert fleet.store.where(lease) == "inflight"
        fleet.store.fence()
        assert fleet.store.server.reap().requeued == 1

    @pytest.mark.parametrize("times", [1, 2])
    async def test_it_may_be_repeated(self, fleet, times):
        """And may come before anything was exchanged."""
        async with fleet.worker() as worker:
            for _ in range(times):
                await worker.stop()
        assert fleet.store.crawl.workers == {}
