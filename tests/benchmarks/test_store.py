"""The measurement of the server, in small: what it does is what it says."""

from __future__ import annotations

import pytest

from benchmarks.servers import programs, started
from benchmarks.storing import lengths, mixes
from benchmarks.storing.mixes import HELD
from benchmarks.storing.pushes import pushed_per_second
from benchmarks.storing.worker import ALL_AT_ONCE
from scrapy_redis_state.store import CrawlState
from tests.servers import Server

BATCH, PAGES = 8, 40


@pytest.fixture(scope="module")
def idle_server():
    """One that nobody else uses, since measurements empty it."""
    (program,) = programs(["valkey"])
    with started(program) as server:
        yield server


def crawl_state(server: Server, crawl: str) -> CrawlState:
    return CrawlState.connect(server.url, crawl=crawl)


@pytest.mark.one_server
@pytest.mark.parametrize("mix", mixes.MIXES, ids=lambda mix: mix.name)
@pytest.mark.parametrize("kind", ["exact", "packed", "bloom"])
def test_a_page_brings_as_many_new_requests_as_its_mix_says(idle_server, mix, kind):
    """All else that it links to is known, and all that was popped is acked."""
    client = idle_server.client()
    cost = mixes.cost_of(client, mixes.seen_sets(PAGES)[kind], mix, BATCH, PAGES)
    assert cost > 0
    with crawl_state(idle_server, "shop:offers") as state:
        found = state.status().summary
        assert not state.fsck()
    before = HELD + PAGES + BATCH
    queued = -(-before // ALL_AT_ONCE) * ALL_AT_ONCE + mix.new * PAGES
    assert found.seen == queued
    assert found.done == PAGES
    assert found.pending == queued - PAGES - BATCH - HELD
    assert found.in_flight == BATCH + HELD


@pytest.mark.one_server
@pytest.mark.parametrize("mix", mixes.MIXES, ids=lambda mix: mix.name)
def test_the_bare_commands_do_as_much(idle_server, mix):
    """What is compared with stores the same requests, and pops as many."""
    client = idle_server.client()
    assert mixes.bare_cost_of(client, mix, BATCH, PAGES) > 0
    before = HELD + PAGES + BATCH
    queued = -(-before // ALL_AT_ONCE) * ALL_AT_ONCE + mix.new * PAGES
    assert client.scard("seen") == queued
    assert client.hlen("requests") == queued - PAGES
    assert client.zcard("inflight") == BATCH + HELD
    assert client.zcard("frontier") == queued - PAGES - BATCH - HELD


@pytest.mark.one_server
def test_a_queue_keeps_its_length_while_it_is_measured(idle_server):
    """What was put there without scripts is like what they put there."""
    client = idle_server.client()
    rows = list(lengths.measure(client, "any", [1000, 1500], lengths.CHUNK))
    assert [row.queued for row in rows] == [1000, 1500]
    assert all(row.push_us > 0 and row.pop_us > 0 for row in rows)
    for row in rows:
        with crawl_state(idle_server, f"shop:{row.queued}") as state:
            assert state.size() == row.queued
            assert not state.fsck()


@pytest.mark.one_server
def test_pushed_urls_are_all_there(idle_server):
    """The rate is of URLs that are in the frontier afterwards."""
    assert pushed_per_second(idle_server.client(), idle_server.url, 600) > 0
