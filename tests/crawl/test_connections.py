"""Whole crawls over each kind of connection, and what their logs do not show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.sharding import choose
from tests.crawl.crawls import Crawls, finish, wait_for_items
from tests.crawl.shop import Shop
from tests.processes import Program, Programs
from tests.store.clients import PASSWORD, StartServer
from tests.store.topologies import Cluster, Watched, starting
from tests.store.users import PREFIX, documented_user, url_of_user

SCRIPT = """
from tests.crawl.project.spiders import shop

class Shop(shop.ShopSpider):
    name = "script"
"""
PRODUCTS = 60
LEASE_SECS = 3

StartCrawls = Callable[[Any], Crawls]


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop(PRODUCTS, delay=0.1) as shop:
        yield shop


@pytest.fixture
def crawls_on(programs: Programs, crawl_name: str) -> Iterator[StartCrawls]:
    """Starts workers on anything that has a URL and a client."""
    with ExitStack() as clients:

        def make(server: Any) -> Crawls:
            crawls = Crawls(programs, server, crawl_name)
            clients.callback(crawls.client.close)
            return crawls

        yield make


def start_two(crawls: Crawls, shop: Shop, **settings: object) -> list[Program]:
    return crawls.start_together(2, "shop", shop, settings=settings)


def test_two_workers_share_a_crawl_in_a_cluster(
    crawls_on: StartCrawls, shop: Shop
) -> None:
    """Each page once, and all keys on one node."""
    with starting("valkey") as start:
        cluster = Cluster(start)
        crawls = crawls_on(cluster)
        workers = start_two(crawls, shop)
        finish(*workers)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        assert all(crawls.items(worker) for worker in workers)
        keys = [cluster.on(node, "DBSIZE") for node in cluster.masters]
        assert sorted(map(bool, keys)) == [False, False, True]
        assert crawls.problems() == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_crawl_in_a_cluster_outlives_its_node(
    crawls_on: StartCrawls, shop: Shop, kind: str
) -> None:
    """Its slot is moved, and then the node that has it is killed: nothing is lost."""
    with starting(kind) as start:
        cluster = Cluster(start, replicas=1)
        crawls = crawls_on(cluster)
        key = f"crawl:{{{crawls.bot}:shop}}"
        if cluster.owner(key) is cluster.masters[0]:
            with cluster.moving(key):
                pass
        workers = start_two(crawls, shop, REDIS_STATE_LEASE_SECS=LEASE_SECS)
        wait_for_items(crawls, 10)
        with cluster.moving(key, to=cluster.masters[0]):
            workers[0].wait_for_output("TRYAGAIN")
        wait_for_items(crawls, 20)
        cluster.masters[0].kill()
        finish(*workers)
        assert set(crawls.values("product")) == shop.products
        assert crawls.dead("shop") == {}
        assert crawls.problems() == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_crawl_outlives_a_failover(
    crawls_on: StartCrawls, shop: Shop, tmp_path: Path, kind: str
) -> None:
    """The master is killed, Sentinels promote its replica: nothing is lost."""
    with starting(kind) as start, Watched(start, tmp_path) as watched:
        crawls = crawls_on(watched)
        workers = start_two(crawls, shop, REDIS_STATE_LEASE_SECS=LEASE_SECS)
        wait_for_items(crawls, 20)
        watched.master.kill()
        watched.wait_until_promoted()
        finish(*workers)
        assert set(crawls.values("product")) == shop.products
        assert crawls.dead("shop") == {}
        assert crawls.problems() == []


@pytest.mark.one_server
@pytest.mark.parametrize("right", [True, False])
def test_no_log_shows_a_password(
    crawls_on: StartCrawls, fresh_server: StartServer, tmp_path: Path, right: bool
) -> None:
    """Not in any line of a run, be it right or wrong, as it is or percent-encoded.

    The user is the documented one: what nobody could check for it is one line.
    """
    server = fresh_server()
    server.client().execute_command(*documented_user())
    password = PASSWORD if right else "wr/ng@TOPSECRET"
    crawls = crawls_on(server)
    with Shop(10) as shop:
        worker = crawls.start(
            script(tmp_path),
            site=shop.url,
            settings={
                "REDIS_STATE_URL": url_of_user(server, password),
                "REDIS_STATE_KEY_PREFIX": PREFIX,
                "LOG_LEVEL": "DEBUG",
            },
        )
        status = worker.wait()
    for shown in (password, quote(password, safe=""), quote(password)):
        assert shown not in worker.output, str(worker)
    assert "DEBUG" in worker.output
    if right:
        assert status == 0
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        assert worker.output.count("] WARNING:") == 1, str(worker)
        assert "the server's settings cannot be read" in worker.output
    else:
        assert status != 0
        assert "the server refuses the login" in worker.output.splitlines()[-1]


def script(directory: Path) -> str:
    """A file for ``scrapy runspider``."""
    path = directory / "script.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.one_server
def test_crawls_are_spread_over_servers(
    crawls_on: StartCrawls, fresh_server: StartServer
) -> None:
    """Two crawls of one project, each on the server that its id chooses."""
    servers = [fresh_server(), fresh_server()]
    urls = [server.url for server in servers]
    ids = [
        next(f"{n}" for n in range(100) if choose(urls, f"{n}") == url) for url in urls
    ]
    crawls = crawls_on(servers[0])
    with Shop(10) as shop:
        workers = [
            crawls.start(
                "shop",
                site=shop.url,
                settings={
                    "REDIS_STATE_URL": json.dumps(urls),
                    "REDIS_STATE_CRAWL_ID": id,
                },
            )
            for id in ids
        ]
        finish(*workers)
    for id, url in zip(ids, urls, strict=True):
        with CrawlState.connect(url, crawl=id) as state:
            assert state.status().summary.done == 10 + shop.lists
        for server in servers:
            assert server.client().exists(f"crawl:{{{id}}}") == (server.url == url)


@pytest.mark.one_server
def test_a_crawl_is_not_begun_anew_on_another_server(
    crawls_on: StartCrawls, fresh_server: StartServer
) -> None:
    """A server that is added while the crawl goes on does not split it."""
    old, new = fresh_server(), fresh_server()
    urls = [old.url, new.url]
    id = next(f"{n}" for n in range(100) if choose(urls, f"{n}") == new.url)
    with CrawlState.connect(old.url, crawl=id) as state:
        state.push("http://site.example/")
    worker = crawls_on(new).start(
        "shop",
        site="http://site.example",
        settings={"REDIS_STATE_URL": json.dumps(urls), "REDIS_STATE_CRAWL_ID": id},
    )
    assert worker.wait() != 0
    last = worker.output.splitlines()[-1]
    assert f"crawl '{id}' is under way on '{old.url}'" in last
    assert "finish it there before the list is changed" in last
    assert new.client().dbsize() == 0
