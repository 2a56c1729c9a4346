"""Sessions on a Redis Cluster, and for a user with few rights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scrapy_redis_state.store import AsyncCrawlState, CrawlState
from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import SessionKey
from tests.servers import Server
from tests.store.clients import StartServer
from tests.store.topologies import Cluster, starting
from tests.store.users import PREFIX, documented_user, url_of_user

SITES = [f"shop{number}.example" for number in range(12)]


@pytest.fixture(
    scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.long)]
)
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with starting(request.param) as start:
        yield Cluster(start)


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    running.flush()
    return running


@pytest.fixture(params=[CrawlState, AsyncCrawlState])
def sessions(
    request: pytest.FixtureRequest, run: Callable[..., Any]
) -> Iterator[Callable[[str, str], Any]]:
    """``sessions(url, prefix)("load", ...)`` with either kind of state."""
    states = []

    def finish(result: Any) -> Any:
        return run(result) if inspect.isawaitable(result) else result

    def connect(url: str, prefix: str) -> Any:
        states.append(request.param.connect(url, crawl="c", prefix=prefix))
        api = states[-1].sessions
        return lambda name, *args, **more: finish(getattr(api, name)(*args, **more))

    yield connect
    for state in states:
        finish(state.close())


def test_sessions_are_spread_over_a_cluster_and_all_found(
    cluster: Cluster, sessions: Callable[..., Any]
) -> None:
    """Each site where its key belongs; the list asks every node."""
    call = sessions(cluster.url, "p:")
    for site in SITES:
        call("save", site, {"sid": site}, session="{bob}")
        call("update", site, {"b": "1"}, session="{bob}")
    for site in SITES:
        assert call("load", site, session="{bob}") == {"sid": site, "b": "1"}
    owners = {cluster.owner(str(SessionKey(site, "", "p:"))) for site in SITES}
    assert len(owners) > 1
    for site in SITES:
        call("save", site, {"sid": site})
    found = call("list")
    assert sorted(info.site for info in found) == sorted(SITES * 2)
    call("invalidate", SITES[0])
    assert len(call("list")) == len(found) - 1


def test_a_session_is_found_where_its_slot_moves(
    cluster: Cluster, sessions: Callable[..., Any]
) -> None:
    """While it moves, and after."""
    call = sessions(cluster.url, "p:")
    call("save", SITES[0], {"sid": "1"})
    with cluster.moving(str(SessionKey(SITES[0], "", "p:"))):
        assert call("load", SITES[0]) == {"sid": "1"}
    call("update", SITES[0], {"b": "2"})
    assert call("load", SITES[0]) == {"sid": "1", "b": "2"}


def test_the_documented_user_may_use_sessions(
    fresh_server: StartServer, sessions: Callable[..., Any]
) -> None:
    """Commands of hashes, keys and scripts, under the prefix; nothing else."""
    server: Server = fresh_server()
    server.client().execute_command(*documented_user())
    call = sessions(url_of_user(server), PREFIX)
    call("save", SITES[0], {"sid": "1"}, tokens={"t": "1"})
    call("update", SITES[0], {"sid": "2", "c": None})
    assert call("load", SITES[0]) == {"sid": "2"}
    assert len(call("list")) == 1
    call("invalidate", SITES[0])
    assert call("list") == []
    others = sessions(url_of_user(server), "other:")
    with pytest.raises(Refused, match="ACL"), translated():
        others("load", SITES[0])


def test_sessions_without_a_time_need_no_more_rights(
    fresh_server: StartServer,
) -> None:
    """Keys that live as long as their cookies."""
    server: Server = fresh_server()
    server.client().execute_command(*documented_user())
    where: dict[str, Any] = {"crawl": "c", "prefix": PREFIX, "session_ttl_secs": 0}
    with CrawlState.connect(url_of_user(server), **where) as state:
        state.sessions.save(SITES[0], {"sid": "1"})
        (info,) = state.sessions.list()
    assert info.ttl is None
