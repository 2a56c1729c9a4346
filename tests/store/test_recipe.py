"""The first things anybody checks of a shared frontier."""

from __future__ import annotations

import random
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from scrapy_redis_state.store import CrawlState

CLIENTS = 8
PAGES = 10_000


@pytest.fixture
def connect(server, crawl_name):
    """Makes another client of the same crawl."""
    with ExitStack() as states:

        def connect():
            state = CrawlState.connect(server.url, crawl=crawl_name)
            return states.enter_context(state)

        yield connect
        assert connect().fsck() == []


def at_once(states, act):
    """What ``act(state)`` returned for each, all of them begun together."""
    ready = threading.Barrier(len(states))
    results = {}

    def run(number, state):
        ready.wait()
        results[number] = act(state)

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in enumerate(states)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [results[number] for number in range(len(states))]


def url(number):
    return f"http://shop.example/{number}"


def take_all(state, size=1000):
    """Everything there is, in the order in which it comes."""
    taken = []
    while leased := state.lease(size):
        taken += leased
    return taken


def test_of_many_that_claim_a_url_one_wins(connect):
    """Again and again, whoever comes first."""
    states = [connect() for _ in range(CLIENTS)]
    urls = [url(number) for number in range(100)]
    answers = at_once(states, lambda state: [state.claim(one) for one in urls])
    winners = [sum(one) for one in zip(*answers, strict=True)]
    assert winners == [1] * len(urls)


def test_of_many_that_push_a_url_one_stores_it(connect):
    """In batches, too."""
    states = [connect() for _ in range(CLIENTS)]
    urls = [url(number) for number in range(200)]
    answers = at_once(states, lambda state: state.push_many(urls))
    assert [sum(one) for one in zip(*answers, strict=True)] == [1] * len(urls)
    assert connect().size() == len(urls)


def test_claims_and_pushes_share_one_memory(connect):
    """What is claimed is not pushed, and what was pushed cannot be claimed."""
    one, other = connect(), connect()
    assert one.claim(url(1))
    assert not other.push(url(1))
    assert other.push(url(2))
    assert one.claim_many([url(2), url(3), url(3)]) == [False, True, False]


def test_the_highest_priority_comes_first(connect):
    """Whatever the order of pushing; priorities may be negative or huge."""
    priorities = [0, 7, -7, 100, 2**53, -(2**53), 1, -1, 0, 7]
    producer, consumer = connect(), connect()
    for number, priority in enumerate(priorities):
        producer.push(url(number), priority)
    taken = [consumer.lease(1)[0].priority for _ in priorities]
    assert taken == sorted(priorities, reverse=True)


def test_a_better_request_overtakes_those_that_wait(connect):
    """It is the next one, wherever it came from."""
    state = connect()
    state.push_many([url(number) for number in range(10)])
    state.lease(2)
    connect().push(url("best"), 1)
    assert [one.url for one in state.lease(2)] == [url("best"), url(2)]


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_equal_priorities_come_in_order(connect, crawl, order):
    """Ten thousand of them, first in first out, or the other way round."""
    crawl.join(identity={"order": order})
    state = connect()
    urls = [url(number) for number in range(PAGES)]
    assert all(state.push_many(urls, priority=5))
    assert state.push(url("other"), priority=4)
    taken = [one.url for one in take_all(state, 3000)]
    assert taken.pop() == url("other")
    assert taken == (urls if order == "fifo" else urls[::-1])


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("digits", [3, 9, 10, 13])
def test_the_order_outlasts_any_number_of_requests(connect, crawl, order, digits):
    """Also where the number of requests gets another digit."""
    crawl.join(identity={"order": order})
    state = connect()
    crawl.set(sequence=10**digits - 4)
    urls = [url(number) for number in range(8)]
    assert all(state.push_many(urls, priority=2**31))
    taken = [one.url for one in take_all(state, 3)]
    assert taken == (urls if order == "fifo" else urls[::-1])


def test_neighbouring_priorities_do_not_merge(connect):
    """Around the limits of 32 bits, of the exact numbers, and of nothing."""
    priorities = [
        sign * (limit + near)
        for limit in (0, 2**31, 2**52, 2**53 - 1)
        for near in (-1, 0, 1)
        for sign in (1, -1)
    ]
    state = connect()
    for priority in priorities:
        state.push(url(priority), priority)
    taken = [one.url for one in take_all(state, 3)]
    expected = [url(one) for one in sorted(set(priorities), reverse=True)]
    assert taken == expected


def test_each_request_is_delivered_once(connect):
    """However many ask, at the same time, for different numbers."""
    urls = [url(number) for number in range(3000)]
    connect().push_many(urls)
    rng = random.Random(1)
    sizes = {id: rng.randint(1, 40) for id in range(CLIENTS)}
    states = [connect() for _ in range(CLIENTS)]

    def work(state):
        taken = []
        while leased := state.lease(sizes[states.index(state)]):
            taken += [one.url for one in leased]
            assert all(state.ack(*leased))
        return taken

    delivered = Counter(one for taken in at_once(states, work) for one in taken)
    assert delivered == Counter(urls)
    assert connect().status().summary.done == len(urls)


def test_equal_requests_that_are_not_filtered_are_each_delivered(connect):
    """A thousand times the same one is a thousand deliveries."""
    state = connect()
    request = {"url": url(1), "dont_filter": True}
    assert state.push_many([request] * 1000) == [True] * 1000
    assert len({one.id for one in take_all(connect())}) == 1000


def test_every_client_sees_the_same_state(connect):
    """At once: nothing is kept back in a client."""
    one, other = connect(), connect()
    assert one.status().generation == other.status().generation == 0
    one.push_many([url(1), url(2)])
    assert other.size() == 2
    assert not other.push(url(1))
    (leased,) = other.lease(1)
    assert (one.size(), one.status().summary.in_flight) == (1, 1)
    other.ack(leased)
    assert one.status().summary.done == 1
    other.claim(url(3))
    assert one.status().seen == 3
