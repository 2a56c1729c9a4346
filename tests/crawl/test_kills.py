from __future__ import annotations

import random

import pytest

from tests.crawl.crawls import (
    Crawls,
    close_reason,
    finish,
    stats,
    total,
    wait_for_items,
    wait_until_joined,
)
from tests.crawl.shop import Shop
from tests.processes import Program

SEEDS_IN_A_ROW = 20
PRODUCTS = 120


def held_when_killed(crawls: Crawls, victim: Program, spider: str = "shop") -> int:
    """Stop a worker where it is, count what it holds, and kill it."""
    victim.pause()
    held = crawls.leases_of(victim, spider)
    victim.kill()
    return held


def check_kills(crawls: Crawls, seed: int, kills: int) -> None:
    """Kill workers at random moments, after a late one has joined the first three."""
    moments = random.Random(seed)
    with Shop(PRODUCTS, delay=0.2) as shop:
        workers = crawls.start_together(3, "shop", shop)
        wait_for_items(crawls, 1)
        with shop.held():
            workers.append(crawls.start("shop", site=shop.url))
            wait_until_joined(workers[-1])
        held = 0
        for count in sorted(moments.sample(range(1, PRODUCTS - 30), kills)):
            wait_for_items(crawls, count)
            victim = workers.pop(moments.randrange(len(workers)))
            held += held_when_killed(crawls, victim)
        finish(*workers)
        products = crawls.values("product")
        assert set(products) == shop.products
        assert products.total() - len(products) <= held
    redelivered = total("redis_state/redelivered", workers)
    # A victim may have been at work that another victim had held.
    assert redelivered == held if kills == 1 else redelivered <= held
    with crawls.state("shop") as state:
        summary = state.status().summary
    assert summary.done == PRODUCTS + shop.lists
    assert summary.dead == 0


@pytest.mark.one_server
@pytest.mark.parametrize("seed", [0])
def test_killed_workers_lose_nothing(crawls: Crawls, seed: int) -> None:
    """Exactly the pages that killed workers held are delivered again, and no other."""
    check_kills(crawls, seed, kills=1)


@pytest.mark.long
@pytest.mark.one_server
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS_IN_A_ROW))
def test_killed_workers_never_lose_anything(crawls: Crawls, seed: int) -> None:
    """The same holds twenty times in a row."""
    check_kills(crawls, seed, kills=1 + seed % 2)


@pytest.mark.one_server
def test_stopped_workers_hand_their_work_over(crawls: Crawls) -> None:
    """SIGTERM loses nothing, repeats nothing and counts no delivery."""
    with Shop(PRODUCTS, delay=0.2) as shop:
        workers = [crawls.start("shop", site=shop.url) for _ in range(3)]
        stopped, interrupted, last = workers
        with shop.held():
            wait_until_joined(*workers)
        wait_for_items(crawls, 10)
        with shop.held(), crawls.state("shop") as state:
            stopped.terminate()
            interrupted.interrupt()
            for worker in (stopped, interrupted):
                worker.wait_for_output("shutting down gracefully")
            assert state.size(), "stopped too late to tell"
        for worker in (stopped, interrupted):
            worker.wait_for_success()
            assert close_reason(worker) == "shutdown"
        finish(last)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        assert shop.visits.total() == PRODUCTS + shop.lists
    assert total("redis_state/redelivered", workers) == 0
    assert crawls.dead("shop") == {}


@pytest.mark.one_server
def test_a_fleet_can_be_replaced_one_by_one(crawls: Crawls) -> None:
    """A rolling deploy, each worker stopped as its successor starts, is one crawl."""
    with Shop(PRODUCTS, delay=0.2) as shop:
        fleet = [crawls.start("shop", site=shop.url)]
        for share in (10, 50):
            wait_for_items(crawls, share)
            with shop.held():
                fleet.append(crawls.start("shop", site=shop.url))
                wait_until_joined(fleet[-1])
            fleet[-2].terminate()
        finish(fleet[-1])
        for worker in fleet[:-1]:
            worker.wait_for_success()
            assert close_reason(worker) == "shutdown"
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
    assert stats(fleet[-1])["redis_state/redelivered"] == 0


@pytest.mark.one_server
def test_rules_share_a_crawl_too(crawls: Crawls) -> None:
    """A CrawlSpider, whose callbacks are lambdas in its rules, survives a kill."""
    with Shop(60, delay=0.2) as shop:
        with shop.held():
            victim, other = (crawls.start("rules", site=shop.url) for _ in range(2))
            wait_until_joined(victim, other)
        wait_for_items(crawls, 20)
        held = held_when_killed(crawls, victim, "rules")
        finish(other)
        products = crawls.values("product")
        assert set(products) == shop.products
        assert products.total() - len(products) <= held
    assert crawls.dead("rules") == {}
