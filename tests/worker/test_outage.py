"""A server that does not answer, or answers what nobody expected."""

from __future__ import annotations

import logging
import time

import pytest

from scrapy_redis_state.store.errors import CommandFailed, Unavailable
from scrapy_redis_state.store.messages import Answer, StoreDead
from scrapy_redis_state.worker.patience import Patience
from tests.processes import await_until
from tests.worker.fleet import ack, page


def logged(caplog, level=logging.WARNING):
    return [one.getMessage() for one in caplog.records if one.levelno == level]


class Flaky:
    """Fails so many times before it answers; notes when it was called."""

    def __init__(self, failures):
        self.failures = failures
        self.times = []

    async def __call__(self):
        self.times.append(time.monotonic())
        if len(self.times) <= self.failures:
            raise Unavailable("gone")
        return "answer"

    @property
    def pauses(self):
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]


class TestPatience:
    async def test_it_tries_again_ever_more_slowly(self):
        """With jitter: pauses are half to full of what doubles up to the longest."""
        call = Flaky(5)
        assert await Patience(60, longest_delay_secs=0.15).call(call) == "answer"
        for pause, longest in zip(call.pauses, [0.05, 0.1, 0.15, 0.15], strict=False):
            assert pause >= longest / 2

    async def test_it_ends_when_there_was_no_answer_for_too_long(self, pass_time):
        """With the last error; the time counts from the first try of this call."""
        patience = Patience(100, longest_delay_secs=0.01)
        call = Flaky(10)

        async def slow():
            pass_time(40)
            return await call()

        with pytest.raises(Unavailable, match="gone"):
            await patience.call(slow)
        assert len(call.times) == 3

    async def test_each_change_of_state_is_logged_once(self, caplog):
        """Not each try."""
        caplog.set_level(logging.INFO)
        patience = Patience(60, longest_delay_secs=0.01)
        await patience.call(Flaky(0))
        for _ in range(2):
            await patience.call(Flaky(4))
            await patience.call(Flaky(0))
        lost = "The server does not answer, trying again: gone"
        assert logged(caplog) == [lost] * 2
        assert logged(caplog, logging.INFO) == ["The server answers again"] * 2

    async def test_other_errors_are_not_for_patience(self):
        """They would come again."""

        async def refuse():
            raise CommandFailed("no")

        with pytest.raises(CommandFailed):
            await Patience(60, 0.01).call(refuse)


class TestWorker:
    async def test_an_outage_costs_nothing(self, fleet, caplog):
        """The worker goes on with what it holds, and sends what it has afterwards."""
        caplog.set_level(logging.INFO)
        fleet.push(page("a"), page("b"))
        async with fleet.worker() as worker:
            first = await fleet.take(worker)
            await await_until(lambda: worker.held == 2)
            fleet.store.away = True
            second = await fleet.take(worker)
            for lease in (first, second):
                worker.offer(page("child"), lease, tag=lease.id)
                worker.end(lease, ack(lease))
            await await_until(lambda: logged(caplog))
            fleet.store.away = False
            await fleet.settled(worker)
            assert fleet.store.crawl.done == 2
            assert len(fleet.owner.answers) == 2
            assert worker.membership.rejoins == 0
        assert len(logged(caplog)) == 1
        assert logged(caplog, logging.INFO) == ["The server answers again"]

    async def test_an_outage_that_lasts_too_long_is_the_end(
        self, fleet, caplog, pass_time
    ):
        """The owner is told that there is no server."""
        fleet.push(page("a"))
        async with fleet.worker(outage_secs=600) as worker:
            await fleet.take(worker)
            fleet.store.away = True
            await await_until(lambda: logged(caplog))
            assert fleet.owner.ends == []
            pass_time(600)
            await await_until(lambda: fleet.owner.ends)
            (reason,) = fleet.owner.ends
            assert isinstance(reason, Unavailable)
            assert worker.is_over
            assert not worker.has_work
            assert worker.take() is None
        assert len(fleet.owner.ends) == 1
        assert str(reason).startswith("no usable answer")

    async def test_a_join_waits_for_the_server_as_long_as_it_is_told(self, fleet):
        """Then it raises: there is nothing to go on with."""
        async with fleet.worker(outage_secs=0) as worker:
            fleet.store.away = True
            with pytest.raises(Unavailable):
                await worker.join()
            fleet.store.away = False


class TestScriptError:
    def chokes_on(self, *payloads):
        def chokes(request):
            sent = {getattr(one, "payload", b"") for one in request.operations}
            return not sent.isdisjoint(payloads) and not any(
                isinstance(one, StoreDead) for one in request.operations
            )

        return chokes

    async def test_one_request_that_a_script_chokes_on_is_buried(self, fleet, caplog):
        """All others of its batch are stored, and each owner is told."""
        fleet.store.chokes_on = self.chokes_on(b"bad")
        async with fleet.worker() as worker:
            for name in ("a", "bad", "b"):
                worker.offer(page(name), tag=name)
            await fleet.settled(worker)
            assert fleet.owner.answers == {
                "a": Answer.STORED,
                "bad": Answer.STALE,
                "b": Answer.STORED,
            }
            (letter,) = fleet.store.crawl.deadinfo.values()
            assert (letter.payload, "ERR x" in letter.reason) == (b"bad", True)
            assert fleet.owner.ends == []
        (error,) = logged(caplog, logging.ERROR)
        assert error.startswith("Given up, since the server cannot process it: Store(")

    async def test_pages_go_on_after_it(self, fleet):
        """They are done again by whoever gets them: their ends may have been lost."""
        fleet.push(page("start"))
        fleet.store.chokes_on = self.chokes_on(b"bad")
        async with fleet.worker() as worker:
            lease = await fleet.take(worker)
            worker.offer(page("bad"), lease)
            worker.offer(page("good"), lease)
            worker.end(lease, ack(lease))
            again = await fleet.take(worker)
            assert (again.id, again.deliveries) == (lease.id, 0)
            worker.end(again, ack(again))
            assert (await fleet.take(worker)).payload == b"good"

    @pytest.mark.parametrize("with_work", [True, False])
    async def test_an_error_that_is_nobodys_fault_is_the_end(self, fleet, with_work):
        """It would come again for ever; the owner is told, and nobody is buried."""
        async with fleet.worker() as worker:
            await fleet.exchanged(worker)
            fleet.store.chokes_on = lambda _: True
            if with_work:
                worker.offer(page("a"))
                worker.offer(page("b"))
            await await_until(lambda: fleet.owner.ends)
            (reason,) = fleet.owner.ends
            assert isinstance(reason, CommandFailed)
            assert worker.is_over
            assert fleet.store.crawl.dead == {}
        assert "ERR x" in str(reason)
