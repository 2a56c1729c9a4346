"""Many pushes in a row: they overtake no reply, and nothing else is different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.pushing import AHEAD
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.steps import BATCH
from tests.store.clients import StartServer
from tests.store.crawls import Crawl
from tests.store.faults import Faults, breakable_client
from tests.store.seen_crawls import REVISIT_MS, join

pytestmark = pytest.mark.one_server

MANY = 6 * BATCH + 7


def url(number: int) -> str:
    return f"http://shop.example/{number}"


def urls(count: int = MANY) -> list[str]:
    return [url(number) for number in range(count)]


def interrupted(requests: list[Any], at: int, happens: Callable[[], object]):
    """The requests; something happens when they are read so far."""
    yield from requests[:at]
    happens()
    yield from requests[at:]


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def state(server, crawl: Crawl, faults: Faults) -> Iterator[CrawlState]:
    with CrawlState(breakable_client(server.url, faults), crawl.keys) as state:
        yield state


def pending(state: CrawlState) -> list[str]:
    return [one.url for one in state.peek(4000)]


def stored_so_far(state: CrawlState) -> int:
    """How many were stored of a push that broke off; all are, in order, after this.

    The server may have been at a call when its connection was lost.
    """
    again = state.push_many(urls())
    stored = again.index(True)
    assert again == [False] * stored + [True] * (MANY - stored)
    assert pending(state) == urls()
    return stored


class TestInOrder:
    def test_any_number_is_stored_in_the_order_given(self, state):
        """And so are the answers, of as many as one call carries."""
        assert state.push(url(700))
        answers = list(state.push_ahead(urls()))
        assert [len(some) for some in answers] == [BATCH] * 6 + [7]
        assert list(chain(*answers)) == [number != 700 for number in range(MANY)]
        assert pending(state)[1:] == [one for one in urls() if one != url(700)]

    def test_requests_are_read_while_others_are_stored(self, state):
        """Only some calls ahead, so that there may be any number of them."""
        unread = iter(urls(100 * BATCH))
        answers = state.push_ahead(unread)
        assert next(unread) == url(0)
        next(answers)
        assert next(unread) == url(BATCH + 1)
        next(answers)
        assert next(unread) == url((AHEAD + 2) * BATCH + 2)
        answers.close()

    def test_nothing_is_pushed_of_nothing(self, state):
        """And nothing is asked of the server."""
        assert list(state.push_ahead([])) == []
        assert state.status().generation == 0

    def test_one_priority_may_be_given_to_all(self, state):
        """As with the other pushes; requests may have all their fields."""
        some = [url(1), {"url": url(2), "priority": 9}]
        assert list(state.push_ahead(some, 4)) == [[True, True]]
        assert [one.priority for one in state.peek()] == [4, 4]


class TestWhatComesInBetween:
    def test_scripts_may_be_forgotten(self, server, state):
        """By SCRIPT FLUSH: the calls that come in vain are made again, in order."""
        client = server.client()
        given = interrupted(urls(), 3 * BATCH + 1, client.script_flush)
        assert list(chain(*state.push_ahead(given))) == [True] * MANY
        assert pending(state) == urls()

    def test_an_epoch_may_end(self, server, new_crawl):
        """Of a crawl with revisits: pages of the one before still count."""
        crawl = new_crawl(revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)

        def end_epoch() -> None:
            crawl.ago("epoch_began", REVISIT_MS // 2)

        given = [*urls(), *urls()]
        with CrawlState(server.client(), crawl.keys) as state:
            new = state.push_ahead(interrupted(given, MANY + 1, end_epoch))
            assert list(chain(*new)) == [True] * MANY + [False] * MANY
            assert state.status().summary.epoch == 2
            assert pending(state) == urls()

    def test_the_seen_set_may_become_another(self, server, crawl, state):
        """The crawl is deleted, and begun anew with another kind: that one is used."""
        packed = CrawlKeys(crawl.keys.crawl, "", SeenSet("packed", capacity=10_000))

        def begin_anew() -> None:
            with CrawlState(server.client(), packed) as other:
                other.delete()
                other.push(url(MANY - 1))

        given = interrupted(urls(), 5 * BATCH + 1, begin_anew)
        answers = list(chain(*state.push_ahead(given)))
        assert answers == [True] * (MANY - 1) + [False]
        found = state.status()
        assert found.seen_set == packed.seen_set.spec
        assert found.summary.seen == found.summary.pending

    def test_a_crawl_may_be_over(self, crawl, state):
        """The rest is refused, and the answers until then are right."""
        given = interrupted(
            urls(), 4 * BATCH, lambda: crawl.set(status="finished", given=1)
        )
        answers = state.push_ahead(given)
        assert list(islice(answers, 1)) == [[True] * BATCH]
        with pytest.raises(Refused, match="is finished and takes no requests"):
            list(answers)
        assert state.size() % BATCH == 0

    def test_what_is_no_request_is_an_error_of_its_place(self, state):
        """Those before it may be stored by then; the next push goes on behind them."""
        answers = state.push_ahead([*urls(), "nonsense"])
        with pytest.raises(ValueError, match="needs a scheme: 'nonsense'"):
            list(answers)
        assert stored_so_far(state) >= (6 - AHEAD) * BATCH

    def test_errors_of_what_is_read_stay_what_they_are(self, state):
        """None is taken for an error of the server."""

        def fail() -> None:
            raise OSError("no such disk")

        with pytest.raises(OSError, match="no such disk"):
            list(state.push_ahead(interrupted(urls(), 3 * BATCH + 1, fail)))


class TestLostConnections:
    def test_the_server_may_go_away(self, server, state):
        """What was answered is stored; all of it may be pushed again."""
        client = server.client()

        def kill() -> None:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        answered = 0
        with pytest.raises(Unavailable):  # noqa: PT012 - what was answered by then
            for some in state.push_ahead(interrupted(urls(), 6 * BATCH, kill)):
                assert some == [True] * BATCH
                answered += BATCH
        assert 0 < answered <= stored_so_far(state) <= answered + AHEAD * BATCH

    @pytest.mark.parametrize("what", ["lose_call", "lose_reply"])
    def test_calls_under_way_may_be_lost(self, state, faults, what):
        """With their replies; none that comes later is taken for one of them."""
        given = interrupted(urls(), 5 * BATCH, getattr(faults, what))
        answers = state.push_ahead(given)
        with pytest.raises(Unavailable):
            list(answers)
        assert stored_so_far(state) >= BATCH

    def test_who_stops_in_between_goes_on_at_will(self, state):
        """Replies that nobody waits for are not taken for those to other calls."""
        answers = state.push_ahead(urls())
        assert list(islice(answers, 2)) == [[True] * BATCH] * 2
        answers.close()
        assert 2 * BATCH <= stored_so_far(state) <= (2 + AHEAD) * BATCH


class TestFullServer:
    @pytest.fixture
    def full(
        self, fresh_server: StartServer, crawl_name: str
    ) -> Iterator[tuple[CrawlState, Any]]:
        """A crawl on a server of its own, and a client that may limit its memory."""
        server = fresh_server()
        with CrawlState.connect(server.url, crawl=crawl_name) as state:
            yield state, server.client()
            assert state.fsck() == []

    def test_the_error_tells_how_many_are_in(self, full):
        """The rest may be sent again, once there is room."""
        state, client = full
        fill = interrupted(
            urls(), 5 * BATCH + 1, lambda: client.config_set("maxmemory", 1)
        )
        with pytest.raises(RedisStateError, match="has no room: the first") as caught:
            list(state.push_ahead(fill))
        (first,) = (int(word) for word in str(caught.value).split() if word.isdigit())
        assert state.size() == first
        client.config_set("maxmemory", 0)
        assert state.push_many(urls()[first:]) == [True] * (MANY - first)

    def test_what_is_stored_each_time_is_not_sent_ahead(self, full):
        """So that the rest is what the error says, even if there is room again."""
        state, client = full
        requests = [{"url": one, "dont_filter": True} for one in urls()]
        fill = interrupted(
            requests, 3 * BATCH + 1, lambda: client.config_set("maxmemory", 1)
        )
        answers = state.push_ahead(fill)
        assert list(islice(answers, 3)) == [[True] * BATCH] * 3
        with pytest.raises(RedisStateError, match=f"the first {3 * BATCH} were stored"):
            list(answers)
        client.config_set("maxmemory", 0)
        assert state.size() == 3 * BATCH
        assert state.push_many(requests[3 * BATCH :]) == [True] * (MANY - 3 * BATCH)
        assert pending(state) == urls()
