"""What cannot work is refused in one line, before anything is crawled.

A server that is too old is refused as well (``test_server_check.py`` shows it); nothing
older than Redis 6.2 is there to crawl with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.crawl.crawls import Crawls
from tests.crawl.shop import Shop
from tests.processes import Program, wait_until
from tests.servers import Server

pytestmark = pytest.mark.one_server

NO_ADDON = {
    "ADDONS": "{}",
    "SCHEDULER": "scrapy_redis_state.scheduler.Scheduler",
    "EXTENSIONS": '{"scrapy_redis_state.reaper.Reaper": 0}',
}
SELECT = "twisted.internet.selectreactor.SelectReactor"


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop(10) as shop:
        yield shop


def check_refusal(worker: Program, *words: str) -> None:
    """The last line of what a worker said has all the words, and it failed."""
    assert worker.wait(30) not in (0, None), str(worker)
    assert "Crawled" not in worker.output, "after the crawl had started"
    last = worker.output.splitlines()[-1]
    assert [word for word in words if word not in last] == [], str(worker)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"REDIS_STATE_LEASE_SEC": 5},
            ["REDIS_STATE_LEASE_SEC is not a setting", "REDIS_STATE_LEASE_SECS; corre"],
        ),
        (
            {"REDIS_STATE_PREFETCH": "many"},
            ["REDIS_STATE_PREFETCH = 'many': must be a whole number, at least 1"],
        ),
        (
            {"REDIS_STATE_LEASE_SECS": -1},
            ["REDIS_STATE_LEASE_SECS = '-1': must be a number of seconds, at least 1"],
        ),
        (
            {"REDIS_STATE_CRAWL_ID": "a{b}"},
            ["REDIS_STATE_CRAWL_ID = 'a{b}': contains { or }: use other characters"],
        ),
        (
            {"REDIS_STATE_SEEN": "bloom"},
            ["REDIS_STATE_SEEN = 'bloom' needs a server with RedisBloom", "'packed'"],
        ),
        (
            {"TWISTED_REACTOR": SELECT},
            ["TWISTED_REACTOR", "is not the asyncio reactor", "remove the setting"],
        ),
        (
            {"SCHEDULER": "scrapy.core.scheduler.Scheduler"},
            ["SCHEDULER = 'scrapy.core.scheduler.Scheduler'", "remove SCHEDULER from"],
        ),
        (
            NO_ADDON,
            ["SPIDER_MIDDLEWARES lacks scrapy_redis_state.seeding.SeedingMiddleware"],
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_work_are_refused(
    crawls: Crawls, shop: Shop, settings: dict[str, object], words: list[str]
) -> None:
    """The last line names the setting, its value and the remedy."""
    worker = crawls.start("shop", site=shop.url, settings=settings)
    check_refusal(worker, *words)
    assert not shop.visits
    assert crawls.client.dbsize() == 0


def test_a_server_that_cannot_be_reached_is_refused(crawls: Crawls, shop: Shop) -> None:
    """After ten seconds of patience the error names the setting and the address."""
    url = "redis://:secret@127.0.0.1:1/0"
    worker = crawls.start("shop", site=shop.url, settings={"REDIS_STATE_URL": url})
    worker.wait_for_output("Waiting up to 10 s")
    check_refusal(
        worker,
        "redis_unavailable: REDIS_STATE_URL = 'redis://***@127.0.0.1:1/0'",
        "start the server, or set REDIS_STATE_URL",
    )
    # Scrapy shows the command line's settings, but nothing of ours shows a password.
    ours = [line for line in worker.output.splitlines() if "redis_state." in line]
    assert "secret" not in "".join(ours)
    assert not shop.visits


def test_a_server_that_is_not_redis_is_refused(crawls: Crawls, shop: Shop) -> None:
    """The port of a web site is no server for a crawl."""
    url = shop.url.replace("http", "redis")
    worker = crawls.start("shop", site=shop.url, settings={"REDIS_STATE_URL": url})
    check_refusal(worker, f"REDIS_STATE_URL = '{url}", "not a Redis server", "correct")


def test_a_key_of_another_type_is_refused(crawls: Crawls, shop: Shop) -> None:
    """Something else owns the key: the error names it, and it is left alone."""
    key = f"frontier:{{{crawls.bot}:shop}}"
    crawls.client.set(key, "precious")
    worker = crawls.start("shop", site=shop.url)
    check_refusal(worker, key, "is a string", "zset", "REDIS_STATE_KEY_PREFIX")
    assert crawls.client.get(key) == b"precious"
    assert crawls.client.dbsize() == 1
    crawls.client.delete(key)


def test_a_server_that_evicts_keys_is_refused(
    crawls: Crawls, shop: Shop, fresh_server: Callable[..., Server]
) -> None:
    """A full server with allkeys-lru would delete a part of the crawl."""
    evicting = fresh_server(extra_args=["--maxmemory-policy", "allkeys-lru"])
    settings = {"REDIS_STATE_URL": evicting.url}
    worker = crawls.start("shop", site=shop.url, settings=settings)
    check_refusal(worker, "maxmemory-policy = 'allkeys-lru'", "set it to noeviction")
    assert evicting.client().dbsize() == 0


def test_a_server_that_evicts_finished_crawls_is_warned_about(
    crawls: Crawls, shop: Shop, fresh_server: Callable[..., Server]
) -> None:
    """With volatile-lru only finished crawls are at risk, so the crawl goes on."""
    evicting = fresh_server(extra_args=["--maxmemory-policy", "volatile-lru"])
    settings = {"REDIS_STATE_URL": evicting.url}
    worker = crawls.start("shop", site=shop.url, settings=settings)
    worker.wait_for_success()
    assert "WARNING: maxmemory-policy = 'volatile-lru'" in worker.output


def test_workers_that_do_not_fit_the_crawl_are_refused(
    crawls: Crawls, shop: Shop
) -> None:
    """Another spider, other arguments or other crawl-wide settings: one line each."""
    id: dict[str, Any] = {"REDIS_STATE_CRAWL_ID": f"{crawls.bot}:hub"}
    first = crawls.start("hub", site=shop.url, delay=20)
    wait_until(lambda: shop.visits["/hub"], 30)

    def start(spider: str = "hub", delay: int = 20, **settings: object) -> Program:
        arguments: dict[str, Any] = {"delay": delay} if spider == "hub" else {}
        return crawls.start(spider, site=shop.url, settings=settings, **arguments)

    remedy = "use the same in all workers, or another REDIS_STATE_CRAWL_ID"
    workers = [
        (start("shop", **id), ["the spider: 'shop' here, 'hub' in crawl"]),
        (start(delay=19), ["the spider arguments"]),
        (start(REDIS_STATE_ORDER="lifo"), ["REDIS_STATE_ORDER: 'lifo' here, 'fi"]),
        (
            start(REDIS_STATE_LEASE_SECS=9),
            ["REDIS_STATE_LEASE_SECS: '9' here, '2' in crawl"],
        ),
        (
            start(REDIS_STATE_MAX_DELIVERIES=9),
            ["REDIS_STATE_MAX_DELIVERIES: '9' here, '3' in crawl"],
        ),
    ]
    for worker, words in workers:
        check_refusal(worker, *words, remedy, f"{crawls.bot}:hub")
    # With a crawl id that was given, other arguments are only reported.
    other = start(delay=19, **id)
    other.wait_for_output("the spider arguments (shown as a digest): ")
    assert first.running
