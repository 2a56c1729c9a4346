"""A user with the rights that the documentation gives it, and no others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import async_client, sync_client, translated
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.durability import durability
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import JoinStatus, Seeded, Seeding
from scrapy_redis_state.store.runner import run_and_wait
from scrapy_redis_state.store.server_check import check_server
from scrapy_redis_state.store.status import status
from tests.processes import REPOSITORY, wait_until
from tests.servers import Server, _free_port
from tests.store.clients import StartServer
from tests.store.crawls import ENDS, LEASE_MS, Crawl, page, unfiltered
from tests.store.users import (
    PREFIX,
    documented_for_clusters,
    documented_user,
    url_of_user,
)

LUA = REPOSITORY / "scrapy_redis_state" / "store" / "lua"


@pytest.fixture
def server(fresh_server: StartServer) -> Server:
    server = fresh_server()
    server.client().execute_command(*documented_user())
    return server


@pytest.fixture
def crawl(server: Server, crawl_name: str) -> Iterator[Crawl]:
    """A crawl to which that user speaks."""
    client = sync_client(url_of_user(server))
    crawl = Crawl(client, crawl_name)
    crawl.keys = CrawlKeys(crawl_name, PREFIX)
    yield crawl
    assert crawl.fsck() == []
    client.close()


def test_all_commands_of_the_scripts_are_allowed(server: Server) -> None:
    """Whatever a script may come to call, for a command is missed in no test."""
    rules = [word[1:] for word in documented_user() if word.startswith("+")]
    client = server.client()
    missing = []
    for path in sorted(LUA.rglob("*.lua")):
        for name in sorted(set(re.findall(r"'([A-Z]+)'", path.read_text()))):
            (info,) = client.execute_command("COMMAND INFO", name)
            if info is None:
                continue  # an option, or a word of this package
            categories = {category.decode() for category in info[6]}
            allowed = name.lower() in rules or categories & set(rules)
            if not allowed or "@dangerous" in categories:
                missing.append(f"{name} in {path.name}")
    assert missing == []


def test_workers_may_do_what_they_do(crawl: Crawl) -> None:
    """Seeding, pages of every fate, dead workers, and a finish."""
    worker = crawl.member(seeding=Seeding.OPEN)
    token = worker.exchange(seeder=True).summary.seed_token
    names = ["ack", *ENDS]
    seeds = [page(name, seed=name.encode(), seed_token=token) for name in names]
    worker.exchange(*seeds, unfiltered("twice"), Seeded(token))
    for end, lease in zip(ENDS.values(), worker.take(len(ENDS)), strict=True):
        worker.exchange(end(lease.id, lease.batch))
    victims = (crawl.member(f"victim {number}") for number in itertools.count())
    while crawl.summary.pending or crawl.summary.suspects:
        assert next(victims).take(10, idle=True)
        crawl.later(LEASE_MS * 2)
        crawl.reap()
    assert crawl.summary.dead
    crawl.finish()
    crawl.ago("finished_at")
    assert crawl.join("late", given=True).status is JoinStatus.FINISHED
    assert crawl.member("next").joined.generation == 2


def test_other_programs_may_do_what_they_do(crawl: Crawl, server: Server) -> None:
    """Pushing, claiming, leasing, looking, and starting over."""
    state = CrawlState.connect(
        url_of_user(server), crawl=crawl.keys.crawl, prefix=PREFIX
    )
    with state:
        assert state.push_many(["http://a.example/", "http://b.example/"])
        assert state.claim("http://c.example/")
        first, second = state.lease(2)
        assert state.ack(first) == [True]
        assert state.fail(second, "it failed", delay_secs=0)
        assert state.reap().summary.pending == 1
        assert state.fsck() == []
        state.reset(force=True)
        assert state.size() == 0


def test_operators_may_do_what_they_do(crawl: Crawl, server: Server) -> None:
    """Pausing, looking at what waits, dead letters, and removing it all."""
    url = url_of_user(server)
    with CrawlState.connect(url, crawl=crawl.keys.crawl, prefix=PREFIX) as state:
        state.push_many(["http://a.example/", "http://b.example/"])
        for leased in state.lease(2):
            state.bury(leased, "given up")
        assert state.pause()
        assert state.resume()
        first, second = state.dead_letters()
        assert state.dead_letters(ids=[first.id]) == [first]
        assert state.requeue_dead(ids=[first.id]).count == 1
        assert state.drop_dead(ids=[second.id]) == 1
        assert [one.id for one in state.peek()] == [first.id]
        assert state.prioritize("example", 1) == 1
        assert state.delete(force=True)
    assert server.client().dbsize() == 0


async def test_idle_workers_may_be_told(crawl: Crawl, server: Server) -> None:
    """They wait for it at a key of the crawl."""
    store = RedisCrawlStore(async_client(url_of_user(server)), crawl.keys)
    crawl.member()
    crawl.push(page("a"))
    assert await store.wait_for_work()
    await store.close()


async def test_replicas_may_be_waited_for(crawl: Crawl, server: Server) -> None:
    """As REDIS_STATE_WAIT_REPLICAS does."""
    client = async_client(url_of_user(server))
    _, replicas = await run_and_wait(client, status(crawl.keys, 1), 0)
    await client.aclose()
    assert replicas == 0


def test_no_more_than_that(crawl: Crawl, server: Server) -> None:
    """Other keys, and commands for administrators, are refused."""
    for command in (
        ["HSET", "other", "name", "value"],
        ["FLUSHALL"],
        ["CONFIG", "GET", "*"],
        ["INFO"],
        ["KEYS", "*"],
        ["SHUTDOWN"],
    ):
        with pytest.raises(Refused, match="ACL"), translated():
            crawl.client.execute_command(*command)


def test_what_it_may_not_read_is_one_line(crawl: Crawl) -> None:
    """The crawl starts, and is told what nobody could check."""
    (found,) = check_server(crawl.client)
    assert not found.fatal
    assert "make sure of maxmemory-policy noeviction" in found.text
    assert durability(crawl.client) == []


@pytest.mark.one_server
def test_a_cluster_needs_little_more(
    fresh_server: StartServer, crawl_name: str
) -> None:
    """The line of the documentation, and what it adds for clusters."""
    bus = ["--cluster-port", str(_free_port())]
    server = fresh_server(tcp=True, extra_args=["--cluster-enabled", "yes", *bus])
    client = server.client()
    client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    client.execute_command(*documented_user(more=documented_for_clusters()))
    info: Any = client.execute_command
    wait_until(lambda: info("CLUSTER INFO")["cluster_state"] == "ok")
    url = url_of_user(server).replace("redis://", "redis+cluster://")
    with CrawlState.connect(url, crawl=crawl_name, prefix=PREFIX) as state:
        assert state.push("http://a.example/")
        assert state.fsck() == []
