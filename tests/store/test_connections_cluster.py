"""Redis Cluster: each crawl on one node, found wherever it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from scrapy_redis_state.store import AsyncCrawlState, CrawlState
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.cluster import node_for
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.durability import durability
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import JoinRequest
from scrapy_redis_state.store.runner import run_and_wait
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.server_check import check_server
from scrapy_redis_state.store.status import status
from tests.processes import wait_until
from tests.store.clients import Call, StartServer, error_of, wait_for_server
from tests.store.topologies import Cluster, crawls_on_each, starting

Run = Callable[..., Any]


@pytest.fixture(
    scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.long)]
)
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with starting(request.param) as start:
        yield Cluster(start, nodes=3, replicas=1)


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Three masters and a replica of the first, empty."""
    running.flush()
    return running


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, run: Run) -> Iterator[Callable[..., Call]]:
    """``connect(url, crawl)("push", ...)`` with either kind of state."""
    states: list[CrawlState | AsyncCrawlState] = []

    def finish(result: Any) -> Any:
        return run(result) if inspect.isawaitable(result) else result

    def connect(url: str, crawl: str) -> Call:
        kind = CrawlState if request.param == "sync" else AsyncCrawlState
        state = kind.connect(url, crawl=crawl)
        states.append(state)
        return lambda method, *args: finish(getattr(state, method)(*args))

    yield connect
    for state in states:
        finish(state.close())


def test_a_crawl_is_on_one_node(crawl_name: str) -> None:
    """All its keys have the same hash tag, and so may be used in one script."""
    keys = CrawlKeys(crawl_name, "prefix:").for_script(epoch=1)
    assert len({key_slot(key.encode()) for key in keys}) == 1


def test_a_crawl_moves_from_node_to_node(
    cluster: Cluster, crawl_name: str, tmp_path: Path
) -> None:
    """As it is exported and imported under another id, with sessions on any node."""
    here, there, _ = crawls_on_each(cluster, crawl_name)
    seen_set = SeenSet("packed", 100_000)
    urls = [f"http://a.example/{number}" for number in range(600)]
    with CrawlState(cluster.client(), CrawlKeys(here, "", seen_set)) as state:
        state.push_many(urls)
        state.sessions.save("a.example", {"sid": "1"})
        state.export(tmp_path / "crawl.gz", sessions=True)
        state.sessions.invalidate("a.example")
    with CrawlState(cluster.client(), CrawlKeys(there, "moved:")) as state:
        state.import_(tmp_path / "crawl.gz")
        assert [one.url for one in state.peek(600)] == urls
        assert not any(state.push_many(urls))
        assert state.sessions.load("a.example") == {"sid": "1"}
        assert state.fsck() == []


def test_crawls_on_all_nodes_are_found(
    cluster: Cluster, connect: Callable[..., Call], crawl_name: str
) -> None:
    """Scripts run on the node that has the crawl, known there or not."""
    crawls = crawls_on_each(cluster, crawl_name)
    assert len(crawls) == 3
    for node in cluster.masters:
        cluster.on(node, "SCRIPT", "FLUSH")
    for crawl in crawls:
        state = connect(cluster.url, crawl)
        assert state("push_many", ["http://a.example/", "http://b.example/"])
        (leased,) = state("lease", 1)
        assert state("ack", leased) == [True]
        assert state("size") == 1
        assert state("fsck") == []
        keys = cluster.on(cluster.owner(f"{{{crawl}}}"), "KEYS", f"*{{{crawl}}}*")
        assert len(keys) > 3


def test_a_crawl_that_moves_is_followed(
    cluster: Cluster, connect: Callable[..., Call], crawl_name: str
) -> None:
    """While it is on its way the server is unavailable; then it is where it went."""
    state = connect(cluster.url, crawl_name)
    state("push", "http://a.example/")
    moving = cluster.moving(f"{{{crawl_name}}}")
    with moving, pytest.raises(Unavailable, match="TRYAGAIN"):
        state("push", "http://b.example/")
    assert state("push_many", ["http://a.example/", "http://b.example/"]) == [
        False,
        True,
    ]
    assert state("fsck") == []


async def test_an_idle_worker_is_told_wherever_its_crawl_is(
    cluster: Cluster, crawl_name: str
) -> None:
    """It waits at the node that has the crawl, and at the next when that moves."""
    for crawl in crawls_on_each(cluster, crawl_name):
        store = RedisCrawlStore(async_client(cluster.url), CrawlKeys(crawl))
        await store.join(JoinRequest("w", new_token="t"))
        with CrawlState.connect(cluster.url, crawl=crawl) as state:
            state.push("http://a.example/")
            assert await store.wait_for_work()
            with cluster.moving(f"{{{crawl}}}"):
                pass
            state.push("http://b.example/")
            assert await store.wait_for_work()
        await store.close()


def test_a_pipeline_finds_a_crawl_that_moved(
    cluster: Cluster, connect: Callable[..., Call], crawl_name: str
) -> None:
    """A transaction is sent again where it belongs, since none of it was executed."""
    state = connect(cluster.url, crawl_name)
    state("push", "http://a.example/")
    with cluster.moving(f"{{{crawl_name}}}"):
        pass
    assert state("fsck") == []


def test_a_key_that_is_not_there_yet_is_asked_for(
    cluster: Cluster, client_to: Call, crawl_name: str
) -> None:
    """A command about one key goes to the node that is just getting its slot."""
    key = f"{{{crawl_name}}}"
    call = client_to(cluster.url)
    with cluster.moving(key) as target:
        call("SET", key, "new")
        assert cluster.on(target, "CLUSTER", "COUNTKEYSINSLOT", slot(key)) == 1
        assert call("GET", key) == b"new"
    assert call("GET", key) == b"new"


def test_a_call_without_an_answer_is_never_sent_twice(
    cluster: Cluster, client_to: Call, crawl_name: str
) -> None:
    """The caller alone decides whether to repeat a call whose reply was lost."""
    call = client_to(cluster.url, timeout=0.2)
    call("GET", crawl_name)
    owner = cluster.owner(crawl_name)
    owner.pause()
    assert isinstance(error_of(call, "INCR", crawl_name), Unavailable)
    owner.resume()
    wait_until(lambda: cluster.on(owner, "GET", crawl_name))
    assert cluster.on(owner, "GET", crawl_name) == b"1"
    assert call("INCR", crawl_name) == 2


def test_any_node_will_do_to_begin_with(cluster: Cluster, call: Call) -> None:
    """One that is away is passed over; one alone names all the others."""
    port = cluster.masters[1].port
    for url in (
        f"redis+cluster://127.0.0.1:1,127.0.0.1:{port}",
        f"redis+cluster://127.0.0.1:{port}/0",
    ):
        assert call(url, "SET", "key", "1")


def test_replicas_can_be_waited_for(
    cluster: Cluster, run: Run, crawl_name: str
) -> None:
    """A script and the wait for replicas go to the crawl's node together."""
    keys = CrawlKeys(on_the_first(cluster, crawl_name))

    async def wait() -> int:
        client = async_client(cluster.url)
        try:
            call = status(keys, 1)
            return (await run_and_wait(client, call, 1))[1]
        finally:
            await client.aclose()

    assert run(wait()) == 1


def test_all_keys_can_be_listed(cluster: Cluster, crawl_name: str, run: Run) -> None:
    """Those of all nodes."""
    crawls = crawls_on_each(cluster, crawl_name)
    client = cluster.client()
    for crawl in crawls:
        client.set(crawl, 1)
    found = {key.decode() for key in client.scan_iter(f"{crawl_name}*")}
    client.close()

    async def scan() -> set[str]:
        client = async_client(cluster.url)
        try:
            return {key.decode() async for key in client.scan_iter(f"{crawl_name}*")}
        finally:
            await client.aclose()

    assert found == run(scan()) == set(crawls)


def test_the_node_that_has_the_crawl_is_checked(
    cluster: Cluster, crawl_name: str
) -> None:
    """Not just any: each node has settings of its own."""
    key = f"{{{crawl_name}}}"
    owner = cluster.owner(key)
    client = wait_for_server(cluster.url)
    try:
        cluster.on(owner, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        (policy,) = check_server(client, key)
        cluster.on(owner, "CONFIG", "SET", "appendonly", "yes")
        assert "appendfsync everysec" in durability(client, key)[0].text
        assert node_for(client, key).info("server")["tcp_port"] == owner.port
    finally:
        cluster.on(owner, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        cluster.on(owner, "CONFIG", "SET", "appendonly", "no")
        client.close()
    assert policy.fatal


def test_a_node_alone_is_told_from_a_cluster(
    cluster: Cluster, call: Call, crawl_name: str
) -> None:
    """``redis://`` for a node that has not the crawl is refused, with the remedy."""
    other = next(m for m in cluster.masters if m is not cluster.owner(crawl_name))
    error = error_of(call, other.url, "GET", crawl_name)
    assert isinstance(error, Refused)
    assert "use redis+cluster://" in str(error)


@pytest.mark.one_server
def test_a_server_that_is_not_one(fresh_server: StartServer, call: Call) -> None:
    """A server of its own is refused, with the scheme to use; so is a wrong login."""
    server = fresh_server(tcp=True)
    url = f"redis+cluster://127.0.0.1:{server.port}"
    error = error_of(call, url, "PING")
    assert isinstance(error, Refused)
    assert "not part of a cluster: use redis://" in str(error)
    error = error_of(call, url.replace("//", "//ann:TOPSECRET@"), "PING")
    assert isinstance(error, Refused)
    assert "TOPSECRET" not in str(error)
    server.kill()
    assert isinstance(error_of(call, url, "PING"), Unavailable)


def test_the_replica_of_a_dead_node_is_found(
    cluster: Cluster, run: Run, crawl_name: str
) -> None:
    """After a failover a crawl goes on where it is now."""
    # The last test: the cluster is not the same after it.
    crawl = on_the_first(cluster, crawl_name)
    with CrawlState.connect(cluster.url, crawl=crawl) as state:
        state.push("http://a.example/")

        async def go_on() -> None:
            async with AsyncCrawlState.connect(cluster.url, crawl=crawl) as other:
                assert await other.size() == 1
                cluster.masters[0].kill()
                wait_until(lambda: _is_answered(state), timeout=30)
                with pytest.raises(Unavailable):
                    await other.size()
                assert not await other.push("http://a.example/")
                assert await other.fsck() == []

        run(go_on())
        assert state.fsck() == []


def _is_answered(state: CrawlState) -> bool:
    try:
        state.size()
    except Unavailable:
        return False
    return True


def on_the_first(cluster: Cluster, name: str) -> str:
    """Id of a crawl on the master that has a replica."""
    first, crawls = cluster.masters[0], crawls_on_each(cluster, name)
    return next(id for id in crawls if cluster.owner(f"{{{id}}}") is first)


def slot(key: str) -> int:
    return key_slot(key.encode())
