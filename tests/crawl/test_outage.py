"""What a crawl does when its server goes away, comes back, or forgets everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.crawl.crawls import (
    Crawls,
    close_reason,
    finish,
    stats,
    wait_for_items,
)
from tests.crawl.shop import Shop
from tests.processes import Program, Programs
from tests.servers import Server

PRODUCTS = 120
LEASE_SECS, OUTAGE_SECS = 10, 11
"""An outage that is longer than a lease, which is longer than the 5 s by which an
outage may advance the crawl clock."""

pytestmark = pytest.mark.one_server


@pytest.fixture
def durable(
    programs: Programs, crawl_name: str, fresh_server: Callable[..., Server]
) -> Iterator[Crawls]:
    """Starts workers on a server that has everything on disk before it answers."""
    crawls = Crawls(programs, fresh_server(appendonly=True), crawl_name)
    yield crawls
    if crawls.server.running:
        assert crawls.problems() == []


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop(PRODUCTS, delay=0.2) as shop:
        yield shop


def start_three(crawls: Crawls, shop: Shop, **settings: object) -> list[Program]:
    workers = crawls.start_together(3, "shop", shop, settings=settings)
    wait_for_items(crawls, 20)
    return workers


@pytest.mark.long  # tests/faults/test_outages.py has it with two workers
def test_a_server_that_comes_back_is_waited_for(durable: Crawls, shop: Shop) -> None:
    """Killed, away for longer than a lease, restarted: the crawl goes on as it was."""
    workers = start_three(durable, shop, REDIS_STATE_LEASE_SECS=LEASE_SECS)
    durable.server.kill()
    for worker in workers:
        worker.wait_for_output("The server does not answer, trying again")
    durable.programs.python("-c", f"import time; time.sleep({OUTAGE_SECS})").wait()
    assert all(worker.running for worker in workers)
    durable.server.start()
    finish(*workers)
    assert durable.values("product") == dict.fromkeys(shop.products, 1)
    assert set(shop.visits.values()) == {1}
    for worker in workers:
        assert worker.output.count("The server does not answer") == 1
        assert worker.output.count("The server answers again") == 1
        assert worker.output.count("] WARNING:") == 1
    assert "Took back the work" not in "".join(w.output for w in workers)
    assert durable.dead("shop") == {}


def test_a_crawl_whose_state_is_deleted_says_so(crawls: Crawls, shop: Shop) -> None:
    """After FLUSHALL all workers fail, and none calls the crawl finished."""
    workers = start_three(crawls, shop)
    crawls.client.flushall()
    for worker in workers:
        assert worker.wait(30) == 1, str(worker)
        assert close_reason(worker) == "redis_state_lost"
        assert "redis_state_lost: the state of crawl" in worker.output
    assert crawls.client.dbsize() == 0, "nothing is left behind"
    assert set(crawls.values("product")) < shop.products


def test_a_server_that_stays_away_ends_the_crawl(durable: Crawls, shop: Shop) -> None:
    """After REDIS_STATE_OUTAGE_SECS workers give up; the next ones go on from there."""
    workers = start_three(durable, shop, REDIS_STATE_OUTAGE_SECS=2)
    durable.server.kill()
    for worker in workers:
        assert worker.wait(30) == 1, str(worker)
        assert close_reason(worker) == "redis_unavailable"
        assert "did not answer for 2 s (REDIS_STATE_OUTAGE_SECS)" in worker.output
    durable.server.start()
    held = durable.client.hlen(f"leases:{{{durable.bot}:shop}}")
    successor = durable.start(
        "shop", site=shop.url, settings={"CONCURRENT_REQUESTS": 8}
    )
    finish(successor)
    assert set(durable.values("product")) == shop.products
    assert durable.values("product").total() <= PRODUCTS + held
    assert stats(successor)["redis_state/redelivered"] == held
