"""What a program finds when it goes on after a call that was not answered."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import AsyncCrawlState, CrawlState
from scrapy_redis_state.store.errors import Unavailable
from scrapy_redis_state.store.messages import Seeding
from tests.store.crawls import LEASE_MS
from tests.store.faults import Faults


def url(number):
    return f"http://shop.example/{number}"


class Losing:
    """Breaks the connection at the next call, before or after it is executed."""

    def __init__(self, faults: Faults, when: str) -> None:
        self.executed = when == "after"
        self._lose = faults.lose_reply if self.executed else faults.lose_call

    def __call__(self) -> None:
        self._lose()


@pytest.fixture(params=["before", "after"])
def lose(request, state):
    return Losing(state.faults, request.param)


async def test_a_push_may_be_repeated(crawl, state, lose):
    """It stores nothing twice; what was stored the first time is a duplicate then."""
    await state.status()
    lose()
    with pytest.raises(Unavailable):
        await state.push_many([url(1), url(2)])
    assert await state.push_many([url(1), url(2)]) == [not lose.executed] * 2
    assert await state.size() == 2


async def test_a_claim_that_was_lost_may_have_been_won(state, lose):
    """Nobody wins it a second time."""
    await state.status()
    lose()
    with pytest.raises(Unavailable):
        await state.claim(url(1))
    assert await state.claim(url(1)) is not lose.executed


async def test_a_join_that_was_lost_leaves_no_worker_behind(crawl, state, lose):
    """The program is one worker, whatever it took to get in."""
    await state.push(url(1))
    lose()
    with pytest.raises(Unavailable):
        await state.lease()
    assert [one.url for one in await state.lease()] == [url(1)]
    assert (await state.status()).summary.workers == 1


class TestLease:
    async def test_what_was_leased_by_a_lost_call_is_handed_out(self, state, lose):
        """By the next one, first; it is not left to expire, nor leased twice."""
        await state.push_many([url(number) for number in range(6)])
        assert len(await state.lease()) == 1
        lose()
        with pytest.raises(Unavailable):
            await state.lease(2)
        assert [one.url for one in await state.lease(3)] == [url(1), url(2), url(3)]
        assert [one.url for one in await state.lease(9)] == [url(4), url(5)]
        assert (await state.status()).summary.in_flight == 6

    async def test_an_empty_answer_means_that_there_is_nothing(self, state, lose):
        """Also if the lost call took all that there was."""
        await state.push_many([url(1), url(2)])
        await state.lease()
        lose()
        with pytest.raises(Unavailable):
            await state.lease(5)
        (leased,) = await state.lease(5)
        assert leased.url == url(2)
        assert await state.lease(5) == []
        assert await state.ack(leased) == [True]

    async def test_more_than_is_asked_for_waits(self, state, lose):
        """What the lost call took is handed out bit by bit."""
        await state.push_many([url(number) for number in range(6)])
        await state.lease()
        lose()
        with pytest.raises(Unavailable):
            await state.lease(4)
        taken = [(await state.lease(2)) for _ in range(3)]
        assert [one.url for pair in taken for one in pair] == [
            url(number) for number in range(1, 6)
        ]

    async def test_an_ack_may_come_first(self, state, lose):
        """The lost call is settled before it, and what it leased is kept."""
        await state.push_many([url(1), url(2)])
        (leased,) = await state.lease()
        lose()
        with pytest.raises(Unavailable):
            await state.lease()
        assert await state.ack(leased) == [True]
        (other,) = await state.lease()
        assert await state.ack(other) == [True]

    async def test_closing_hands_back_what_a_lost_call_took(self, connect, state, lose):
        """Uncounted."""
        await state.push_many([url(1), url(2)])
        await state.lease()
        lose()
        with pytest.raises(Unavailable):
            await state.lease()
        await state.close()
        leased = await connect().lease(2)
        assert [(one.url, one.deliveries) for one in leased] == [
            (url(1), 0),
            (url(2), 0),
        ]


class TestEnd:
    @pytest.fixture(params=["ack", "release", "fail", "bury"])
    def end(self, request, state):
        more = {"fail": ("oops", 100), "bury": ("oops",)}.get(request.param, ())
        return lambda leased: getattr(state, request.param)(leased, *more)

    async def test_one_that_is_repeated_is_answered_as_the_first(
        self, crawl, state, lose, end
    ):
        """True though its lease has ended: it was this program that ended it."""
        await state.push(url(1))
        (leased,) = await state.lease()
        lose()
        with pytest.raises(Unavailable):
            await end(leased)
        assert await end(leased) in (True, [True])
        assert await end(leased) in (False, [False])
        assert crawl.where(leased.id) != "inflight"

    async def test_one_that_is_not_repeated_takes_effect_with_the_next_call(
        self, crawl, state, lose, end
    ):
        """It was asked for."""
        await state.push(url(1))
        (leased,) = await state.lease()
        lose()
        with pytest.raises(Unavailable):
            await end(leased)
        await state.lease(0)
        assert crawl.where(leased.id) != "inflight"

    async def test_another_end_is_answered_by_itself(self, state, lose):
        """Not with the answers of the lost one."""
        await state.push_many([url(1), url(2)])
        one, two = await state.lease(2)
        lose()
        with pytest.raises(Unavailable):
            await state.ack(one, one)
        assert await state.ack(two) == [True]
        assert await state.ack(one) == [False]


async def test_a_silence_of_a_lease_ends_what_was_lost(crawl, state, lose):
    """The call is not answered any more; the program goes on in a new place."""
    crawl.member(seeding=Seeding.NONE)
    await state.push_many([url(1), url(2)])
    (leased,) = await state.lease()
    lose()
    with pytest.raises(Unavailable):
        await state.ack(leased)
    crawl.later(LEASE_MS)
    assert await state.ack(leased) == [False]
    left = {url(2)} if lose.executed else {url(1), url(2)}
    assert {one.url for one in await state.lease(5)} == left


async def test_a_server_that_stays_away_is_said_to_be(fresh_server, crawl_name, run):
    """Every call fails in the same way, and closing does not."""
    server = fresh_server()
    state = CrawlState.connect(server.url, crawl=crawl_name)
    state.push(url(1))
    (leased,) = state.lease()
    server.kill()
    for call in (state.lease, state.status, lambda: state.ack(leased), state.fsck):
        with pytest.raises(Unavailable, match="no usable answer"):
            call()
    state.close()
    async with AsyncCrawlState.connect(server.url, crawl=crawl_name) as other:
        with pytest.raises(Unavailable, match="no usable answer"):
            await other.push(url(1))
