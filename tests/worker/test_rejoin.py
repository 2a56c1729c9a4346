"""A worker that lost touch: what it drops, what it sends again, and how it goes on."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace

from scrapy_redis_state.store.messages import (
    Answer,
    JoinStatus,
    Seeding,
    StoreDead,
)
from tests.processes import await_until
from tests.worker.fleet import JOIN, LEASE_SECS, ack, page


async def lose_touch(fleet, worker):
    """Have the server forget the worker; returns when it has come back."""
    rejoins = worker.membership.rejoins
    fleet.store.fence()
    await await_until(lambda: worker.membership.rejoins > rejoins)
    await fleet.exchanged(worker)


class TestLeases:
    async def test_what_runs_goes_on_and_is_not_reported(self, fleet):
        """Somebody else gets it; a late ack would be of no effect."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            await lose_touch(fleet, worker)
            assert lease.stale
            assert worker.held <= 1
            worker.end(lease, ack(lease))
            assert worker.backlog == 0
            again = await fleet.take(worker)
            assert (again.id, again.stale) == (lease.id, False)
            worker.end(again, ack(again))
            await fleet.settled(worker)
            assert fleet.store.crawl.done == 1

    async def test_what_was_not_started_is_dropped(self, fleet):
        """It is handed out again, once."""
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            await fleet.take(worker)
            await await_until(lambda: worker.held == 2)
            await lose_touch(fleet, worker)
            taken = [(await fleet.take(worker)).payload for _ in range(2)]
            assert sorted(taken) == [b"a", b"b"]
            assert worker.take() is None

    async def test_an_end_on_its_way_is_dropped(self, fleet):
        """The new identity does not hold what it is about."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            fleet.store.fence()
            worker.end(lease, ack(lease))
            await await_until(lambda: worker.membership.rejoins)
            assert (await fleet.take(worker)).id == lease.id
            assert fleet.store.crawl.done == 0


class TestRequests:
    async def test_those_on_their_way_are_sent_again(self, fleet):
        """As of no page, and the owner is told once what became of them."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            fleet.store.fence()
            worker.offer(page("child"), lease, tag="child")
            worker.offer(StoreDead(b"d", "why"), lease, tag="dead")
            await await_until(lambda: len(fleet.owner.answers) == 2)
            before, after = [one for one in fleet.store.exchanges if one.operations][:2]
        assert [one.page for one in before.operations] == [lease.id] * 2
        assert [one.page for one in after.operations] == ["", ""]
        assert before.worker != after.worker
        assert set(fleet.owner.answers.values()) == {Answer.STORED}

    async def test_those_that_a_lost_page_makes_later_are_stored(self, fleet):
        """As requests of no page, which a full server does not hold up."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            await lose_touch(fleet, worker)
            worker.offer(page("child"), lease, tag="child")
            await fleet.settled(worker)
            assert fleet.owner.answers == {"child": Answer.STORED}
            assert fleet.store.operations[-1].page == ""

    async def test_those_that_found_no_room_are_sent_again(self, fleet):
        """They are not forgotten with their page."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            fleet.store.server.room = False
            worker.offer(page("child"), lease, tag="child")
            worker.end(lease, ack(lease))
            await fleet.exchanged(worker, 2)
            await lose_touch(fleet, worker)
            fleet.store.server.room = True
            await fleet.settled(worker)
            assert fleet.owner.answers == {"child": Answer.STORED}
            assert fleet.store.crawl.done == 0

    async def test_start_requests_are_dropped(self, fleet):
        """The run of start() begins anew, here or elsewhere, under another token."""
        join = replace(JOIN, seeding=Seeding.OPEN)
        async with fleet.worker(first_join=join, can_seed=True) as worker:
            token = await await_until(lambda: worker.summary.seed_token)
            fleet.store.fence()
            worker.offer(page("s", seed=b"s", seed_token=token), tag="start")
            await await_until(lambda: worker.summary.seed_token > token)
            assert worker.backlog == 0
            assert fleet.owner.answers == {}
            assert fleet.store.crawl.seeds == set()


class TestIdentity:
    async def test_a_rejoin_names_the_old_one(self, fleet):
        """Its record is closed, and what it held is back at once, uncounted."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            await fleet.take(worker)
            old = worker.membership.id
            fleet.store.crawl.workers[old].stamp += 1  # as after a failover
            again = await fleet.take(worker)
            assert again.deliveries == 0
            rejoin = fleet.store.joins[-1]
            assert (rejoin.previous, rejoin.token) == (old, fleet.store.crawl.token)
            assert [*fleet.store.crawl.workers] == [worker.membership.id]

    async def test_a_rejoin_whose_reply_is_lost_is_repeated(self, fleet):
        """Under the same new identity."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            with fleet.store.holding_replies():
                fleet.store.fence()
                await await_until(lambda: fleet.store.in_the_air)
            await await_until(lambda: len(fleet.store.joins) > 1)
            fleet.store.replies_to_lose = 1
            await fleet.exchanged(worker, 2)
            assert len({one.worker for one in fleet.store.joins[1:]}) == 1
            assert len(fleet.store.crawl.workers) == 1

    async def test_a_broken_batch_leads_to_a_rejoin(self, fleet):
        """The server began it and never answered it; nothing is done twice."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            crawl = fleet.store.crawl
            number = worker.membership.next_batch
            record = crawl.workers[worker.membership.id]
            with fleet.store.holding_replies():
                await await_until(lambda: fleet.store.in_the_air)
                number = record.batch
            await await_until(lambda: worker.membership.next_batch > number)
            worker.offer(page("a"), tag="a")
            record.batch, record.reply = worker.membership.next_batch, None
            await await_until(lambda: worker.membership.rejoins)
            await fleet.settled(worker)
            assert fleet.owner.answers["a"] is Answer.STORED

    async def test_it_is_logged_once_each(self, fleet, caplog):
        """With the status and the worker that it was."""
        async with fleet.worker() as worker:
            old = worker.membership.id
            await lose_touch(fleet, worker)
        warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
        (message,) = [one.getMessage() for one in warnings]
        assert f"Worker {old} lost touch with the crawl (rejoin)" in message


class TestOver:
    async def until_over(self, fleet, worker):
        await await_until(lambda: fleet.owner.ends)
        assert worker.is_over
        assert worker.take() is None
        assert not worker.has_work
        worker.offer(page("late"))
        assert worker.backlog == 0
        return fleet.owner.ends

    async def test_a_crawl_that_vanished_is_lost(self, fleet):
        """It is not begun anew by a worker that was in the middle of it."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            fleet.store.server.crawl = None
            assert await self.until_over(fleet, worker) == [JoinStatus.LOST]
            assert fleet.store.server.crawl is None

    async def test_a_crawl_that_was_started_over_is_superseded(self, fleet):
        """What this worker has is of no use to the next generation."""
        async with fleet.worker() as worker:
            worker.offer(page("a"))
            fleet.store.crawl.generation += 1
            fleet.store.crawl.token = "another"
            assert await self.until_over(fleet, worker) == [JoinStatus.SUPERSEDED]

    async def test_a_crawl_that_finished_meanwhile_is_finished(self, fleet):
        """All others had left it for dead."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            fleet.store.server._finish(fleet.store.crawl, fleet.store.server.now)
            assert await self.until_over(fleet, worker) == [JoinStatus.FINISHED]


class TestSilence:
    async def test_nothing_is_started_after_a_lease_without_an_answer(
        self, fleet, pass_time
    ):
        """Somebody else may be at it by now; what runs goes on."""
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            await fleet.take(worker)
            await await_until(lambda: worker.held == 2)
            fleet.store.away = True
            pass_time(LEASE_SECS - 1)
            assert not worker.is_silent
            pass_time(1)
            assert worker.is_silent
            assert worker.take() is None
            fleet.store.away = False
            assert (await fleet.take(worker)).payload == b"b"
            assert not worker.is_silent

    async def test_the_time_counts_from_the_sending(self, fleet, pass_time):
        """The server may have seen the worker no later than that."""
        async with fleet.worker() as worker:
            with fleet.store.holding_replies():
                await await_until(lambda: fleet.store.in_the_air)
                pass_time(LEASE_SECS)
                answered = worker.membership.exchanges
                fleet.store.release_one()
                await await_until(lambda: worker.membership.exchanges > answered)
                assert worker.is_silent
            await await_until(lambda: not worker.is_silent)


async def test_a_rolled_back_server_gets_what_it_lacks(fleet):
    """A replica took over that had not got the last of it."""
    async with fleet.worker() as worker:
        await fleet.exchanged(worker)
        before = copy.deepcopy(fleet.store.server)
        worker.offer(page("a"))
        await fleet.settled(worker)
        fleet.store.server = before
        worker.offer(page("b"), tag="b")
        await await_until(lambda: fleet.owner.answers)
        assert worker.membership.rejoins == 1
        (entry,) = fleet.store.crawl.requests.values()
        assert entry.payload == b"b"
