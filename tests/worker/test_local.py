"""Requests that only one process can run, and the pages that wait for them."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store.messages import Ack, Answer, Fail, Release
from scrapy_redis_state.worker.lease import LocalPage
from scrapy_redis_state.worker.seeding import StartRun
from tests.processes import await_until
from tests.worker.fleet import ack, page


def local(name="local", owner=None, priority=0, fingerprint=b"f"):
    return LocalPage(f"<{name}>", priority, fingerprint, owner)


async def take_local(worker):
    """The next local request, as soon as there is one."""
    taken = await await_until(worker.take)
    assert isinstance(taken, LocalPage)
    return taken


@pytest.fixture
def crawl(fleet):
    fleet.push(page("owner"))
    return fleet.store.crawl


class TestOwner:
    async def test_its_end_waits_for_them(self, fleet, crawl):
        """Until all are done; their fingerprints are marked with its ack."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            worker.offer_local(local(owner=owner))
            worker.offer_local(local(owner=owner, fingerprint=b""))
            worker.end(owner, ack(owner))
            pages = [await take_local(worker) for _ in range(2)]
            await fleet.exchanged(worker, 2)
            assert fleet.store.where(owner) == "inflight"
            assert crawl.seen == {b"owner"}
            for one in pages:
                worker.end_local(one, None)
            await await_until(lambda: crawl.done == 1)
            assert crawl.seen == {b"owner", b"f"}
        sent = [one for one in fleet.store.operations if isinstance(one, Ack)]
        assert sent == [Ack(owner.id, owner.batch, (b"f",))]

    async def test_it_is_repeated_if_one_of_them_has_to_be(self, fleet, crawl):
        """A local page that failed takes its owner with it."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            worker.offer_local(local(owner=owner))
            worker.end(owner, ack(owner))
            taken = await take_local(worker)
            worker.end_local(taken, Fail(owner.id, owner.batch, 0, "oops"))
            again = await fleet.take(worker)
            assert (again.id, again.deliveries) == (owner.id, 1)
            assert crawl.seen == {b"owner"}

    @pytest.mark.usefixtures("crawl")
    async def test_they_die_with_its_lease(self, fleet):
        """Whoever has the page now makes them again."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            worker.offer_local(local(owner=owner))
            await await_until(lambda: fleet.owner.answers)
            fleet.store.fence()
            await await_until(lambda: worker.membership.rejoins)
            assert (await fleet.take(worker)).id == owner.id
            worker.offer_local(local(owner=owner, fingerprint=b"g"))
            assert worker.take() is None

    @pytest.mark.parametrize("started", [True, False])
    async def test_it_is_handed_back_when_the_worker_stops(self, fleet, crawl, started):
        """Not acked, nor charged a delivery: nobody else has them."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            worker.offer_local(local(owner=owner))
            worker.end(owner, ack(owner))
            await await_until(lambda: fleet.owner.answers)
            if started:
                await take_local(worker)
        assert fleet.store.where(owner) == "frontier"
        assert crawl.requests[owner.id].deliveries == 0
        assert (crawl.done, crawl.seen) == (0, {b"owner"})

    @pytest.mark.usefixtures("crawl")
    async def test_one_that_is_made_while_closing_is_not_begun(self, fleet):
        """Its page is done again elsewhere."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            worker.close()
            worker.offer_local(local(owner=owner))
            worker.end(owner, ack(owner))
            await fleet.settled(worker)
            assert fleet.store.where(owner) == "frontier"
        assert any(isinstance(one, Release) for one in fleet.store.operations)


class TestFilter:
    async def test_one_that_was_seen_is_not_run(self, fleet, crawl):
        """Its page does not wait for it."""
        crawl.seen.add(b"f")
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            one = local(owner=owner)
            worker.offer_local(one)
            worker.end(owner, ack(owner))
            await await_until(lambda: crawl.done)
            assert fleet.owner.answers == {one: Answer.DUPLICATE}
            assert worker.take() is None

    @pytest.mark.usefixtures("crawl")
    async def test_an_equal_one_is_not_run_beside_it(self, fleet):
        """This process is at it already."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            first, second = local(owner=owner), local(owner=owner)
            worker.offer_local(first)
            worker.offer_local(second)
            await await_until(lambda: len(fleet.owner.answers) == 2)
            assert fleet.owner.answers == {
                first: Answer.STORED,
                second: Answer.DUPLICATE,
            }
            worker.end_local(await take_local(worker), None)
            worker.end(owner, ack(owner))

    async def test_one_of_no_page_marks_itself(self, fleet, crawl):
        """When it is done; the crawl is not drained before."""
        async with fleet.worker() as worker:
            owner = await fleet.take(worker)
            worker.end(owner, ack(owner))
            worker.offer_local(local())
            one = await take_local(worker)
            await fleet.exchanged(worker, 2)
            assert worker.has_work
            assert not worker.summary.drained
            assert b"f" not in crawl.seen
            worker.end_local(one, None)
            await await_until(lambda: not worker.has_work)
            assert b"f" in crawl.seen


async def test_start_waits_for_its_own(fleet, crawl):
    """It is not reported as done before."""
    run = StartRun(token=1)
    async with fleet.worker() as worker:
        worker.offer_local(local(owner=run, priority=5))
        await await_until(lambda: fleet.owner.answers)
        assert run.waits_for == 1
        worker.end_local(await take_local(worker), None)
        assert (run.waits_for, run.seen) == (0, [b"f"])


async def test_they_take_their_turn_by_priority(fleet, crawl):
    """Before and after what is leased."""
    async with fleet.worker() as worker:
        await await_until(lambda: worker.held)
        for priority in (-1, 1):
            worker.offer_local(local(f"{priority}", priority=priority, fingerprint=b""))
        taken = [await await_until(worker.take) for _ in range(3)]
        assert [one.priority for one in taken] == [1, 0, -1]
        for one in taken[::2]:
            worker.end_local(one, None)
