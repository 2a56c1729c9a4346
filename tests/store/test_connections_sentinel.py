"""Redis Sentinel: the master is found, and found again after a failover."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import JoinRequest
from tests.processes import wait_until
from tests.servers import _free_port
from tests.store.clients import Call, StartServer, error_of
from tests.store.topologies import MASTER, Watched, run_sentinel, starting
from tests.store.users import documented_for_sentinels

Run = Callable[..., Any]


@pytest.fixture(
    scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.long)]
)
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """A master with a replica, watched by three Sentinels."""
    with (
        starting(request.param) as start,
        Watched(start, tmp_path_factory.mktemp("sentinels")) as watched,
    ):
        yield watched


def test_the_master_is_found(watched: Watched, call: Call) -> None:
    """The Sentinels name it; the database is the last part of the path."""
    call(watched.url, "SET", "key", "1")
    call(watched.url.replace("/0", "/2"), "SET", "key", "2")
    client = watched.master.client()
    assert client.get("key") == b"1"
    client.select(2)
    assert client.get("key") == b"2"


def test_sentinels_that_are_away_are_passed_over(watched: Watched, call: Call) -> None:
    """One that answers is enough."""
    assert call(watched.url.replace("//", "//127.0.0.1:1,"), "PING")


def test_a_name_that_no_sentinel_knows(watched: Watched, call: Call) -> None:
    """It may be known later; the message has the name, and where to correct it."""
    error = error_of(call, watched.url.replace(MASTER, "other"), "PING")
    assert isinstance(error, Unavailable)
    assert "knows a master 'other' that is up; check hosts and name" in str(error)


def test_no_sentinel(call: Call) -> None:
    """The same when none answers."""
    error = error_of(call, f"redis+sentinel://127.0.0.1:1/{MASTER}", "PING")
    assert isinstance(error, Unavailable)


def test_a_call_without_an_answer_is_never_sent_twice(
    watched: Watched, client_to: Call
) -> None:
    """The caller alone decides whether to repeat a call whose reply was lost."""
    call = client_to(watched.url, timeout=0.2)
    call("DEL", "count")
    watched.master.pause()
    assert isinstance(error_of(call, "INCR", "count"), Unavailable)
    watched.master.resume()
    client = watched.master.client()
    wait_until(lambda: client.get("count"))
    assert client.get("count") == b"1"


async def test_an_idle_worker_is_told(watched: Watched, crawl_name: str) -> None:
    """By the master, whichever that is."""
    store = RedisCrawlStore(async_client(watched.url), CrawlKeys(crawl_name))
    await store.join(JoinRequest("w", new_token="t"))
    with CrawlState.connect(watched.url, crawl=crawl_name) as state:
        state.push("http://a.example/")
        assert await store.wait_for_work()
        state.delete(force=True)
    await store.close()


def test_a_promoted_replica_is_found(watched: Watched, run: Run) -> None:
    """Calls fail until the Sentinels agree, and then go to the new master."""
    client = watched.client()
    client.set("key", "old")

    async def go_on() -> None:
        other = async_client(watched.url)
        assert await other.get("key") == b"old"
        watched.fail_over()
        wait_until(lambda: _is_answered(client.set, "key", "new"), timeout=30)
        wait_until(lambda: watched.current_port() == watched.replica.port)
        with contextlib.suppress(redis.RedisError):
            await other.get("key")  # on the connection that the failover closed
        assert await other.get("key") == b"new"
        await other.aclose()

    run(go_on())
    client.close()
    assert watched.replica.client().get("key") == b"new"


@pytest.mark.one_server
def test_sentinels_may_want_a_login(
    fresh_server: StartServer, call: Call, tmp_path: Path
) -> None:
    """It is another than the server's; a wrong one is refused and not shown."""
    server = fresh_server(tcp=True, extra_args=["--requirepass", "of the server"])
    port = _free_port()
    config = (
        f"port {port}\nbind 127.0.0.1\nrequirepass TOPSECRET\n"
        f"user watcher on >TOPSECRET -@all {documented_for_sentinels()}\n"
        f"sentinel monitor {MASTER} 127.0.0.1 {server.port} 1\n"
        f'sentinel auth-pass {MASTER} "of the server"\n'
    )
    url = f"redis+sentinel://:of%20the%20server@127.0.0.1:{port}/{MASTER}"
    with _sentinel(server.program, tmp_path / "sentinel", config):
        right = f"{url}?sentinel_password=TOPSECRET"
        wait_until(lambda: _is_answered(call, right, "SET", "key", "1"))
        assert call(f"{right}&sentinel_username=watcher", "PING")
        for wrong in (url, f"{url}?sentinel_password=WRONGSECRET"):
            error = error_of(call, wrong, "PING")
            assert isinstance(error, Refused)
            assert "the Sentinels refuse the login" in str(error)
            assert "SECRET" not in str(error)
        error = error_of(call, right.replace("of%20the", "TOPSECRET"), "PING")
        assert isinstance(error, Refused)
        assert "the server refuses the login" in str(error)
        assert "SECRET" not in str(error)


@contextlib.contextmanager
def _sentinel(program: Path, directory: Path, config: str) -> Iterator[None]:
    process = run_sentinel(program, directory, config)
    try:
        yield
    finally:
        process.kill()


def _is_answered(call: Callable[..., Any], *command: object) -> bool:
    try:
        call(*command)
    except (Unavailable, redis.RedisError):
        return False
    return True
