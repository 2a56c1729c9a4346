"""What a worker knows to be seen: it asks no more, and forgets in time."""

from __future__ import annotations

from scrapy_redis_state.store.messages import Forget
from scrapy_redis_state.worker.known import KnownPages
from tests.processes import await_until
from tests.worker.fleet import page

MINE, THEIRS = b"mine", b"theirs"


class TestMemory:
    def test_it_has_a_bound(self):
        """What was not asked for lately goes first."""
        known = KnownPages(generation=10)
        for number in range(95):
            known.add(b"%d" % number)
            assert b"0" in known
            assert len(known) <= 20
        assert b"94" in known
        assert b"50" not in known

    def test_nothing_is_known_any_more_under_another_version(self):
        """And the reply that brings it is not to be trusted either."""
        known = KnownPages()
        assert not known.follow(4)
        known.add(b"a")
        assert known.follow(4)
        assert b"a" in known
        assert not known.follow(5)
        assert b"a" not in known
        assert known.follow(5)

    def test_after_a_rejoin_the_same_version_is_another(self):
        """A server that was set back counts again from where it is now."""
        known = KnownPages()
        known.follow(4)
        known.add(b"a")
        known.distrust()
        assert b"a" not in known
        assert not known.follow(4)
        assert known.follow(4)


class TestWorker:
    async def test_what_was_stored_or_a_duplicate_is_known(self, fleet):
        """From the answer on."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            fleet.push(page("theirs"))
            assert not worker.is_known(MINE)
            worker.offer(page("mine"))
            worker.offer(page("theirs"))
            await fleet.settled(worker)
            assert worker.is_known(MINE)
            assert worker.is_known(THEIRS)
            assert not worker.is_known(b"other")

    async def test_requests_with_a_time_or_of_start_are_not_known(self, fleet):
        """They may be new again, or were duplicates of something else."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            worker.offer(page("mine", seed=b"mine1", seed_token=1))
            worker.offer(page("theirs", revisit_ms=10_000))
            await fleet.settled(worker)
            assert not worker.is_known(MINE)
            assert not worker.is_known(THEIRS)

    async def test_a_page_that_is_forgotten_is_new_with_the_next_exchange(self, fleet):
        """Whoever forgot it."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            worker.offer(page("mine"))
            await fleet.settled(worker)
            fleet.store.server.push([Forget(MINE, MINE)], "token of a push")
            await fleet.exchanged(worker, 2)
            assert not worker.is_known(MINE)

    async def test_an_answer_of_before_is_not_taken_for_one_of_now(self, fleet):
        """A batch whose reply was lost is answered as the first time."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            with fleet.store.holding_replies():
                worker.offer(page("mine"))
                await await_until(lambda: MINE in fleet.store.crawl.seen)
                fleet.store.replies_to_lose = 1
                fleet.store.server.push([Forget(MINE, MINE)], "token of a push")
            await fleet.settled(worker)
            assert fleet.store.replies_to_lose == 0
            assert not worker.is_known(MINE)

    async def test_a_rejoin_makes_it_forget(self, fleet):
        """The server may have lost what it said."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker, 2)
            worker.offer(page("mine"))
            await fleet.settled(worker)
            fleet.store.fence()
            await fleet.exchanged(worker, 2)
            assert worker.membership.rejoins == 1
            assert not worker.is_known(MINE)
