"""Workers that stay for what is pushed, as real processes."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState
from tests.crawl.crawls import (
    Crawls,
    close_reason,
    finish,
    stats,
    wait_for_items,
    wait_until_joined,
)
from tests.processes import Program, wait_until
from tests.site import Site

pytestmark = pytest.mark.one_server

LONG_LEASE = {"REDIS_STATE_LEASE_SECS": 80_000}
"""A beat is at most a quarter of it."""


def listeners(crawls: Crawls) -> int:
    """How many idle workers wait to be told."""
    return sum(one["cmd"] == "blpop" for one in crawls.client.client_list())


def stop_in_order(*workers: Program) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait_for_success()
        assert close_reason(worker) == "shutdown"


def status_of(state: CrawlState) -> str:
    return state.status().summary.status.value


def test_workers_wait_and_are_told_of_what_is_pushed(crawls: Crawls) -> None:
    """Though they never look; and the crawl outlives them when they are stopped."""
    with Site() as site, crawls.state("fed") as state:
        workers = [
            crawls.start("fed", settings=LONG_LEASE, env={"NEVER_ASK": "1"})
            for _ in range(2)
        ]
        wait_until_joined(*workers)
        wait_until(lambda: listeners(crawls) == 2, 60)
        for number in range(3):
            state.push(f"{site.url}/{number}")
            wait_for_items(crawls, number + 1)
            wait_until(lambda: listeners(crawls) == 2, 60)
        wait_until(lambda: state.status().summary.drained, 60)
        assert all(worker.running for worker in workers)
        stop_in_order(*workers)
        wait_until(lambda: listeners(crawls) == 0, 60)
        assert status_of(state) == "running"
        assert state.push(f"{site.url}/late")
        assert not state.push(f"{site.url}/1")
        # It goes on, whoever comes; without the setting it then comes to its end.
        finish(crawls.start("fed", settings={"REDIS_STATE_KEEP_ALIVE": False}))
        assert len(crawls.items()) == 4
        assert status_of(state) == "finished"


def test_after_an_idle_time_the_last_one_finishes_the_crawl(crawls: Crawls) -> None:
    """Not while there is work; one that stays for ever keeps it open."""
    idle = {"REDIS_STATE_IDLE_TIMEOUT_SECS": 0.5}
    with Site() as site, crawls.state("fed") as state:
        state.push(f"{site.url}/slow")
        with site.held():
            worker = crawls.start("fed", settings=idle)
            wait_until(lambda: site.visits["/slow"], 60)
            stays = crawls.start("fed")
            wait_until_joined(stays)
            assert worker.running
        finish(worker)
        assert len(crawls.items()) == 1
        assert status_of(state) == "running"
        assert stays.running
        state.push(f"{site.url}/more")
        wait_for_items(crawls, 2)
        stop_in_order(stays)
        finish(crawls.start("fed", settings=idle))
        assert status_of(state) == "finished"


def test_what_closes_a_spider_closes_one_that_is_kept_alive(crawls: Crawls) -> None:
    """Scrapy's own limits count for it; the crawl is not over for that."""
    settings = {"CLOSESPIDER_ITEMCOUNT": 1}
    with Site() as site, crawls.state("fed") as state:
        state.push(f"{site.url}/1")
        worker = crawls.start("fed", settings=settings)
        worker.wait_for_success()
        assert close_reason(worker) == "closespider_itemcount"
        assert status_of(state) == "running"


def test_a_spider_makes_requests_of_what_is_pushed(crawls: Crawls) -> None:
    """Again at each delivery; what fails is given up as a page would be."""
    idle = {"REDIS_STATE_IDLE_TIMEOUT_SECS": 0.5, "REDIS_STATE_MAX_DELIVERIES": 2}
    with Site() as site, crawls.state("messages") as state:
        state.push_messages(
            [
                {"url": f"{site.url}/1", "sku": 7, "priority": 3},
                {"url": f"{site.url}/2", "sku": 8, "unwanted": True},
                {"url": f"{site.url}/3"},
            ]
        )
        worker = crawls.start("messages", settings=idle)
        finish(worker)
        assert crawls.items() == [{"url": f"{site.url}/1", "sku": 7}]
        counted = stats(worker)
        assert counted["redis_state/messages_dropped"] == 1
        assert counted["redis_state/failed"] == 2
        assert counted["spider_exceptions/KeyError"] == 2
        assert worker.output.count(f"message {{'url': '{site.url}/3'}}") == 2
        (letter,) = state.dead_letters()
        assert letter.url == f"{site.url}/3"
        assert letter.deliveries == 2
        assert "KeyError: 'sku'" in letter.reason
        assert "in redis_state_request" in letter.reason
        assert state.status().summary.done == 2


def test_a_hook_that_is_no_plain_method_is_refused_at_start(crawls: Crawls) -> None:
    """In the last line, before anything is fetched."""
    worker = crawls.start("awaits")
    assert worker.wait() == 1
    last = worker.output.splitlines()[-1]
    assert "redis_state_request of spider 'awaits' is no plain method" in last
