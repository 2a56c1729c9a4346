"""The prefetch buffer: the order of starting, and how much to fetch."""

from __future__ import annotations

import random

import pytest

from scrapy_redis_state.store.messages import Summary
from scrapy_redis_state.worker.buffer import CALM_SECS, PrefetchBuffer
from scrapy_redis_state.worker.lease import Lease, LocalPage

EMPTY = Summary()


@pytest.fixture
def buffer():
    return PrefetchBuffer(16)


def lease(id="1", priority=0, since=0.0):
    return Lease(id, 1, priority, 0, b"", since)


def local(priority=0):
    return LocalPage("a request", priority, b"", None)


def fill(buffer, got=None):
    """One exchange that brings what is wanted, or *got*; returns what was wanted."""
    wanted = buffer.want()
    got = wanted if got is None else got
    for _ in range(got):
        buffer.add(lease())
    buffer.refilled(wanted, got)
    return wanted


def drain(buffer):
    while buffer.take(EMPTY):
        pass


def take(buffer, number):
    for _ in range(number):
        buffer.take(EMPTY)


def exchange(buffer, taken, got=None):
    """A short one, during which so many are taken; returns what was wanted."""
    wanted = buffer.want(elapsed_secs=0.001)
    take(buffer, taken)
    got = wanted if got is None else got
    for _ in range(got):
        buffer.add(lease())
    buffer.refilled(wanted, got)
    return wanted


def fill_up(buffer):
    """Have it want as much as it may, and get that."""
    while fill(buffer) < 16:
        drain(buffer)
    assert len(buffer) == 16


class TestOrder:
    def test_the_highest_priority_starts_first(self, buffer):
        """In order of arrival among equals."""
        for id, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -1)):
            buffer.add(lease(id, priority))
        assert [buffer.take(EMPTY).id for _ in range(5)] == ["b", "d", "a", "c", "e"]
        assert buffer.take(EMPTY) is None

    def test_local_requests_take_their_place_among_them(self, buffer):
        """By priority; they are not counted as leased."""
        mine = local(3)
        for page in (lease("a", 5), mine, lease("b", 0)):
            buffer.add(page)
        assert len(buffer) == 2
        order = [buffer.take(EMPTY) for _ in range(3)]
        assert order[1] is mine

    def test_a_local_request_waits_for_better_ones_of_the_crawl(self, buffer):
        """They are fetched first, so that the order is the crawl's."""
        buffer.add(local(3))
        assert buffer.take(Summary(pending=1, best_priority=4)) is None
        assert buffer.take(Summary(pending=1, best_priority=3)) is not None


class TestHowMuch:
    def test_it_begins_with_one(self, buffer):
        """Nothing is known about the crawl yet."""
        assert buffer.want() == 1
        assert buffer.is_low()

    def test_it_grows_while_the_crawl_had_to_wait(self, buffer):
        """Up to the limit, as long as there is more to fetch."""
        wanted = []
        for _ in range(7):
            wanted.append(fill(buffer))
            drain(buffer)
        assert wanted == [1, 2, 4, 8, 16, 16, 16]

    def test_its_fair_share_is_asked_for_at_once(self, buffer):
        """As soon as the crawl has to wait, as far as the limit allows."""
        assert buffer.want(fair_share=7) == 1
        buffer.refilled(1, 0)
        drain(buffer)
        assert buffer.want(fair_share=7) == 7
        buffer.refilled(7, 7)
        drain(buffer)
        assert buffer.want(fair_share=70) == 16

    def test_it_does_not_grow_when_there_is_no_more(self, buffer):
        """Asking for more would bring no more."""
        fill(buffer)
        drain(buffer)
        assert fill(buffer, got=1) == 2
        drain(buffer)
        assert fill(buffer, got=0) == 2

    def test_it_shrinks_when_little_is_taken(self, buffer):
        """What lies unused could be done by others."""
        for _ in range(5):
            fill(buffer)
            drain(buffer)
        fill(buffer)
        for _ in range(40):
            buffer.take(EMPTY)
            fill(buffer)
        assert len(buffer) <= 3

    def test_it_grows_when_it_would_be_refilled_all_the_time(self):
        """Although the crawl never had to wait: each refill is a round trip."""
        buffer = PrefetchBuffer(100)
        for _ in range(3):
            fill(buffer)
            drain(buffer)
        fill(buffer)
        for _ in range(5):
            for _ in range(6):
                buffer.take(EMPTY)
            wanted = buffer.want(elapsed_secs=CALM_SECS / 5)
            for _ in range(wanted):
                buffer.add(lease())
            buffer.refilled(wanted, wanted)
        assert len(buffer) == 60  # twice what is taken in that time

    def test_it_asks_for_what_is_missing(self, buffer):
        """What is there already counts."""
        for _ in range(4):
            fill(buffer)
            drain(buffer)
        fill(buffer)
        size = len(buffer)
        for _ in range(size // 2 + 1):
            buffer.take(EMPTY)
        assert buffer.is_low()
        assert buffer.want() == size // 2 + 1

    def test_what_is_started_meanwhile_is_asked_for_too(self, buffer):
        """As many as in the last exchange: so there is enough when the answer comes."""
        fill_up(buffer)
        exchange(buffer, taken=6)
        take(buffer, 4)
        left = len(buffer)
        assert exchange(buffer, taken=6) == 16 - (left - 6)
        assert len(buffer) == 16

    def test_it_asks_before_what_is_left_is_gone(self, buffer):
        """An answer comes when as many are started as in the last exchange."""
        fill_up(buffer)
        exchange(buffer, taken=10)
        exchange(buffer, taken=10)
        take(buffer, 5)
        assert not buffer.is_low()
        take(buffer, 1)
        assert (len(buffer), buffer.is_low()) == (10, True)

    def test_what_is_taken_of_all_there_is_could_be_more(self, buffer):
        """If the crawl would have taken more, the exchange tells only that."""
        fill_up(buffer)
        exchange(buffer, taken=12)
        take(buffer, 12)
        assert exchange(buffer, taken=20) == 16
        assert exchange(buffer, taken=0) == 16 - (16 - 12)

    def test_the_rate_tells_what_could_be_started_if_all_was_gone(self, buffer):
        """Of 16 in the time since the last answer, 12 in the part spent on this one."""
        fill_up(buffer)
        drain(buffer)
        wanted = buffer.want(elapsed_secs=0.001)
        for _ in range(wanted):
            buffer.add(lease())
        buffer.refilled(wanted, wanted, waited=0.75)
        assert buffer.want(elapsed_secs=0.001) == 16 - (16 - 12)

    def test_it_is_not_asked_for_where_there_is_no_more(self, buffer):
        """Others may want some of it."""
        fill_up(buffer)
        exchange(buffer, taken=16)
        drain(buffer)
        exchange(buffer, taken=1, got=3)
        drain(buffer)
        exchange(buffer, taken=1, got=4)
        assert buffer.want(elapsed_secs=0.001) == 16 - 4

    def test_twice_the_limit_is_never_held(self, buffer):
        """However unevenly the crawl takes what it is given."""
        chance = random.Random(1)
        most = 0
        for _ in range(2000):
            take(buffer, chance.choice((0, 0, 1, 8, 40)))
            exchange(buffer, taken=chance.choice((0, 0, 1, 8, 40)))
            most = max(most, len(buffer))
        assert 16 < most < 2 * 16

    def test_of_a_limit_of_one_one_is_held(self):
        """It is asked for when the one before has been started."""
        buffer = PrefetchBuffer(1)
        for _ in range(9):
            exchange(buffer, taken=1)
            assert len(buffer) == 1
            assert not buffer.is_low()
            take(buffer, 1)

    def test_local_requests_do_not_stand_for_leased_ones(self, buffer):
        """A worker with much of its own still takes part."""
        for _ in range(50):
            buffer.add(local())
        assert buffer.is_low()
        assert buffer.want() == 1


class TestRemoving:
    @pytest.fixture
    def buffer(self, buffer):
        for id, priority, since in (("a", 1, 0.0), ("b", 5, 10.0), ("c", 3, 20.0)):
            buffer.add(lease(id, priority, since))
        buffer.add(local())
        return buffer

    def ids(self, leases):
        return {one.id for one in leases}

    def test_by_priority(self, buffer):
        """What others have better ones than."""
        assert self.ids(buffer.remove_worse_than(3)) == {"a"}
        assert len(buffer) == 2

    def test_by_age(self, buffer):
        """What lay too long."""
        assert self.ids(buffer.remove_older_than(20.0)) == {"a", "b"}
        assert buffer.take(EMPTY).id == "c"

    def test_all_leased_ones(self, buffer):
        """Local requests stay."""
        assert self.ids(buffer.remove_leased()) == {"a", "b", "c"}
        assert len(buffer) == 0
        assert isinstance(buffer.take(EMPTY), LocalPage)

    def test_local_ones(self, buffer):
        """Leased ones stay."""
        assert len(buffer.remove_local(lambda page: page.owner is not None)) == 0
        assert len(buffer.remove_local()) == 1
        assert len(buffer) == 3
