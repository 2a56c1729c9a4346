"""One worker at work: what it sends, when, and what it hands out."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import pairwise

from scrapy_redis_state.store.messages import (
    Answer,
    Fail,
    Release,
    Seeded,
    Seeding,
    Store,
    StoreDead,
)
from scrapy_redis_state.worker import outbox
from tests.model.state import Entry
from tests.processes import await_until
from tests.worker.fleet import JOIN, ack, page


class TestOrder:
    async def test_what_a_page_made_is_sent_before_its_end(self, fleet):
        """Across as many exchanges as it takes, one in the air at a time."""
        fleet.push(page("start"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            children = [page(str(number)) for number in range(1200)]
            for child in children:
                worker.offer(child, lease)
            worker.end(lease, ack(lease))
            await fleet.settled(worker)
        sent = [one for one in fleet.store.operations if not isinstance(one, Release)]
        assert sent == [one._replace(page=lease.id) for one in children] + [ack(lease)]
        assert len(fleet.store.crawl.frontier) == 1200

    async def test_the_owner_learns_what_became_of_each_request(self, fleet):
        """By the tag that it gave; without a tag it is not told."""
        async with fleet.worker() as worker:
            worker.offer(page("a"), tag="first")
            worker.offer(page("a"), tag="second")
            worker.offer(page("b"))
            worker.offer(StoreDead(b"d", "why"), tag="dead")
            await fleet.settled(worker)
        assert fleet.owner.answers == {
            "first": Answer.STORED,
            "second": Answer.DUPLICATE,
            "dead": Answer.STORED,
        }

    async def test_operations_that_come_together_share_an_exchange(self, fleet):
        """A few milliseconds are waited for more."""
        async with fleet.worker(prefetch=1) as worker:
            await fleet.exchanged(worker)
            for number in range(50):
                worker.offer(page(str(number)))
                await asyncio.sleep(0)
            await fleet.settled(worker)
        batches = [one.operations for one in fleet.store.exchanges if one.operations]
        assert len([one for one in batches if len(one) > 1]) <= 2


class TestBatch:
    async def test_it_is_the_same_until_it_is_answered(self, fleet):
        """Whatever is offered meanwhile; it takes effect once."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            fleet.store.replies_to_lose = 3
            worker.offer(page("a"), tag="a")
            await await_until(lambda: fleet.store.replies_to_lose < 3)
            worker.offer(page("b"), tag="b")
            await fleet.settled(worker)
        sent = fleet.store.exchanges
        assert any(one == other for one, other in pairwise(sent))
        assert set(fleet.owner.answers.values()) == {Answer.STORED}
        assert len(fleet.store.crawl.frontier) == 2

    async def test_what_a_lost_reply_popped_is_handed_out(self, fleet):
        """Once, by the repetition."""
        fleet.push(page("a"), page("b"))
        fleet.store.replies_to_lose = 0
        async with fleet.worker() as worker:
            with fleet.store.holding_replies():
                await await_until(lambda: fleet.store.crawl.inflight)
                fleet.store.replies_to_lose = 1
            first, second = [await fleet.take(worker) for _ in range(2)]
            assert (first.payload, second.payload) == (b"a", b"b")
            assert worker.take() is None
            for lease in (first, second):
                worker.end(lease, ack(lease))
        assert fleet.store.crawl.done == 2


class TestParking:
    async def test_a_full_server_holds_up_only_the_page_concerned(self, fleet):
        """Its end waits for its requests; others are acked, and beats go on."""
        fleet.push(page("one"), page("two"))
        async with fleet.worker() as worker:
            one, two = [await fleet.take(worker) for _ in range(2)]
            fleet.store.server.room = False
            worker.offer(page("child"), one, tag="child")
            worker.end(one, ack(one))
            worker.end(two, ack(two))
            await await_until(lambda: fleet.store.crawl.done == 1)
            await fleet.exchanged(worker, 3)
            assert fleet.store.where(one) == "inflight"
            assert worker.backlog == 1
            assert fleet.owner.answers == {}
            fleet.store.server.room = True
            await await_until(lambda: fleet.store.crawl.done == 2)
        assert fleet.owner.answers == {"child": Answer.STORED}

    async def test_one_parked_request_is_tried_in_each_exchange(self, fleet):
        """A full server is not asked for everything again and again."""
        async with fleet.worker() as worker:
            fleet.store.server.room = False
            for name in "abc":
                worker.offer(page(name))
            await fleet.exchanged(worker, 4)
            assert {len(one.operations) for one in fleet.store.exchanges[-2:]} == {1}
            fleet.store.server.room = True
            await fleet.settled(worker)
        assert len(fleet.store.crawl.frontier) == 3

    async def test_no_page_is_started_above_the_mark(self, fleet, monkeypatch):
        """Nor fetched: the server is too slow, or too full, for what pages make."""
        monkeypatch.setattr(outbox, "FULL_OPERATIONS", 2)
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            await fleet.take(worker)
            fleet.store.server.room = False
            worker.offer(page("x"))
            worker.offer(page("y"))
            assert worker.is_full
            assert worker.take() is None
            await fleet.exchanged(worker, 2)
            assert fleet.store.exchanges[-1].want == 0
            fleet.store.server.room = True
            assert (await fleet.take(worker)).payload == b"b"


class TestTelling:
    async def test_the_server_learns_whether_the_worker_is_busy(self, fleet):
        """By what its owner says; the crawl is not drained before."""
        fleet.owner.busy = True
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            assert worker.has_work
            fleet.owner.busy = False
            await fleet.exchanged(worker, 2)
            assert not worker.has_work
            worker.offer(page("a"))
            assert worker.has_work

    async def test_a_request_that_may_be_refused_keeps_the_crawl_open(self, fleet):
        """No lease stands for it, so the worker is busy until it is answered."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            assert worker.summary.drained
            fleet.store.server.room = False
            worker.offer(page("x"))
            for _ in range(3):
                await fleet.exchanged(worker, 1)
                assert fleet.store.exchanges[-1].busy
                assert not worker.summary.drained
            fleet.store.server.room = True
            await fleet.settled(worker)

    async def test_the_server_learns_whether_the_worker_is_idle(self, fleet):
        """After the batch it holds nothing, and so may get a suspect."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            assert fleet.store.exchanges[0].idle
            await fleet.exchanged(worker, 2)
            assert not fleet.store.exchanges[-1].idle
            worker.end(lease, ack(lease))
            await fleet.settled(worker)
            (last,) = [one for one in fleet.store.exchanges if one.operations]
            assert last.idle

    async def test_the_end_of_seeding_goes_along_with_a_page_that_runs(self, fleet):
        """A round trip of its own would hold up what the first page makes."""
        join = replace(JOIN, seeding=Seeding.OPEN)
        async with fleet.worker(first_join=join, can_seed=True) as worker:
            token = worker.summary.seed_token
            worker.offer(page("start", seed=b"start", seed_token=token))
            lease = await fleet.take(worker)
            await fleet.settled(worker)
            worker.report(Seeded(token))
            worker.offer(page("link"), lease)
            await fleet.settled(worker)
        (batch,) = [
            [type(operation) for operation in one.operations]
            for one in fleet.store.exchanges
            if any(isinstance(operation, Seeded) for operation in one.operations)
        ]
        assert batch == [Store, Seeded]

    async def test_only_one_that_can_seed_asks_for_the_token(self, fleet):
        """And gives it back with the state of seeding."""
        join = replace(JOIN, seeding=Seeding.OPEN)
        async with fleet.worker(first_join=join, can_seed=True) as worker:
            await await_until(lambda: worker.summary.seed_token)
            worker.report(Seeded(worker.summary.seed_token))
            await fleet.settled(worker)
            assert worker.summary.seeding is Seeding.DONE
        assert fleet.store.exchanges[0].seeder

    async def test_the_owner_is_told_that_something_changed(self, fleet):
        """After each exchange: there may be something to take."""
        async with fleet.worker() as worker:
            before = fleet.owner.changes
            await fleet.exchanged(worker, 2)
            assert fleet.owner.changes >= before + 2


async def test_a_bad_entry_becomes_a_dead_letter(fleet, caplog):
    """It is never handed out, and the others are."""
    fleet.push(page("bad", 1), page("good"))

    class Garbage(Entry):
        def encode(self) -> bytes:
            return b"garbage"

    bad = max(fleet.store.crawl.frontier)
    fleet.store.crawl.requests[bad] = Garbage(b"", 1)
    async with fleet.worker() as worker:
        assert (await fleet.take(worker)).payload == b"good"
        await fleet.settled(worker)
        assert worker.held == 1
    assert "no readable head: b'garbage'" in fleet.store.crawl.deadinfo[bad].reason
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert record.getMessage().startswith("Given up: request ")


async def test_a_page_that_failed_is_delivered_again(fleet):
    """The count is part of what is handed out."""
    fleet.push(page("a"))
    async with fleet.worker() as worker:
        lease = await fleet.take(worker)
        worker.end(lease, Fail(lease.id, lease.batch, 0, "oops"))
        again = await fleet.take(worker)
        assert (again.id, again.deliveries) == (lease.id, 1)


async def test_a_finished_crawl_takes_no_worker(fleet):
    """The owner is told by the join, and nothing is exchanged."""
    join = replace(JOIN, given=True)
    async with fleet.worker(first_join=join):
        pass
    async with fleet.worker(first_join=join) as worker:
        assert worker.is_over
        assert worker.take() is None
        assert not worker.has_work
