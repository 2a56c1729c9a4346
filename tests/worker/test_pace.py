"""How much a worker fetches, how often it asks, and what it hands back unstarted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrapy_redis_state.store.messages import CrawlStatus, Release
from scrapy_redis_state.worker.outbox import ENOUGH_ENDS
from scrapy_redis_state.worker.worker import (
    BEAT_SECS,
    CALM_LINGER_SECS,
    IDLE_SECS,
    LINGER_SECS,
)
from tests.processes import await_until
from tests.worker.fleet import Fleet, ack, page


class TestPrefetch:
    async def test_it_grows_with_what_is_started(self, fleet):
        """From one, up to what is allowed."""
        fleet.push(*[page(str(number)) for number in range(200)])
        async with fleet.worker(prefetch=8) as worker:
            for _ in range(100):
                lease = await fleet.take(worker)
                worker.end(lease, ack(lease))
            assert max(one.want for one in fleet.store.exchanges) == 8
            assert worker.held <= 16
        assert fleet.store.exchanges[0].want == 1

    async def test_nothing_is_hoarded_by_a_worker_that_starts_nothing(self, fleet):
        """Others can do it."""
        fleet.push(*[page(str(number)) for number in range(50)])
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 5)
            assert worker.held == 1

    async def test_a_better_request_takes_the_place_of_worse_ones(self, fleet):
        """What was fetched and not started is handed back for it."""
        fleet.push(page("a"), page("b"), page("c"))
        async with fleet.worker() as worker:
            first = await fleet.take(worker)
            await await_until(lambda: worker.held > 1)
            fleet.push(page("urgent", 9))
            await fleet.exchanged(worker, 3)
            urgent, after = [await fleet.take(worker) for _ in range(2)]
            assert fleet.store.where(first) == "inflight"
        assert (urgent.payload, after.payload) == (b"urgent", b"b")
        assert after.deliveries == 0

    async def test_what_lay_for_a_lease_is_handed_back(self, fleet, pass_time):
        """Somebody else may be waiting for it."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            await await_until(lambda: worker.held)
            pass_time(30)
            await fleet.exchanged(worker, 2)
            assert fleet.store.operations == []
            pass_time(31)
            await fleet.exchanged(worker, 2)
            assert isinstance(fleet.store.operations[0], Release)
            assert (await fleet.take(worker)).deliveries == 0

    async def test_nothing_is_taken_while_the_crawl_is_paused(self, fleet):
        """What was fetched is handed back, and comes again afterwards."""
        fleet.push(page("a"))
        async with fleet.worker() as worker:
            await await_until(lambda: worker.held)
            fleet.store.crawl.status = CrawlStatus.PAUSED
            await fleet.exchanged(worker, 3)
            assert worker.take() is None
            assert (worker.held, worker.has_work) == (0, True)
            fleet.store.crawl.status = CrawlStatus.RUNNING
            assert (await fleet.take(worker)).payload == b"a"


class TestPace:
    @pytest.fixture
    def fleet(self):
        """One whose workers take their time."""
        return Fleet()

    async def test_an_idle_worker_looks_for_work_several_times_a_second(self, fleet):
        """With jitter, so that a fleet does not come in step."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            worker.membership.summary = replace(worker.summary, drained=False)
            waits = {worker._next_at() - worker.membership.sent_at for _ in range(20)}
            assert len(waits) > 1
            assert IDLE_SECS / 2 <= min(waits) <= max(waits) <= IDLE_SECS

    async def test_it_need_not_where_nobody_has_any_and_the_server_tells(self, fleet):
        """Then a beat is enough; as soon as others have work it looks again."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            await await_until(lambda: worker._watch.is_listening)
            since = worker.membership.sent_at
            waits = [worker._next_at() - since for _ in range(20)]
            assert min(waits) > IDLE_SECS
            assert max(waits) <= BEAT_SECS
            worker.membership.summary = replace(worker.summary, drained=False)
            assert worker._next_at() - since <= IDLE_SECS

    async def test_who_is_told_of_more_and_has_enough_begins_it_first(self, fleet):
        """So that its exchange asks for what it then needs; one that has none asks."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            worker._told()
            assert worker._next_at() == worker.membership.sent_at
            await fleet.exchanged(worker)
            fleet.push(page("a"))
            await await_until(lambda: worker.held)
            await fleet.exchanged(worker, 2)
            worker._told()
            assert worker._next_at() == worker._told_at + LINGER_SECS

    async def test_who_is_not_busy_any_more_says_so_at_once(self, fleet):
        """The crawl may wait for nothing else; while a page runs here it does not."""
        fleet.push(page("a"))
        fleet.owner.busy = True
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            await fleet.exchanged(worker, 2)
            fleet.owner.busy = False
            assert worker._next_at() > worker.membership.sent_at
            fleet.owner.busy = True
            worker.end(lease, ack(lease))
            await fleet.settled(worker)
            assert worker._next_at() > worker.membership.sent_at
            fleet.owner.busy = False
            assert worker._next_at() == worker.membership.sent_at
            await fleet.exchanged(worker)
            assert not fleet.store.exchanges[-1].busy
            assert worker._next_at() > worker.membership.sent_at

    async def test_a_worker_with_enough_to_do_beats_once_a_second(self, fleet):
        """Nothing else asks for an exchange."""
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            await await_until(lambda: worker.held)
            await fleet.exchanged(worker, 2)
            assert worker._next_at() - worker.membership.sent_at == pytest.approx(
                BEAT_SECS
            )

    async def test_what_nobody_waits_for_shares_a_round_trip(self, fleet):
        """There is enough to do in the frontier, and here."""
        fleet.push(*[page(str(number)) for number in range(99)])
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            await fleet.exchanged(worker, 2)
            worker.offer(page("a"), lease)
            worker.end(lease, ack(lease))
            assert worker._linger_secs() == CALM_LINGER_SECS
            worker.offer(page("better", 1))
            assert worker._linger_secs() == LINGER_SECS

    async def test_the_ends_of_many_pages_are_sent_soon(self, fleet):
        """They would be repeated after a crash."""
        fleet.push(*[page(str(number)) for number in range(99)])
        async with fleet.worker() as worker:
            held = [await fleet.take(worker) for _ in range(ENOUGH_ENDS)]
            waits = []
            for lease in held:
                worker.end(lease, ack(lease))
                waits.append(worker._linger_secs())
        assert waits == [CALM_LINGER_SECS] * (ENOUGH_ENDS - 1) + [LINGER_SECS]

    async def test_what_others_may_wait_for_is_sent_at_once(self, fleet):
        """The frontier is empty."""
        fleet.push(page("only"))
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            await fleet.exchanged(worker, 2)
            worker.offer(page("a"), lease)
            assert worker._linger_secs() == LINGER_SECS

    async def test_work_that_appears_is_found(self, fleet):
        """Without being told."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            fleet.push(page("a"))
            assert (await fleet.take(worker)).payload == b"a"
