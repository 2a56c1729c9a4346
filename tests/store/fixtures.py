"""A crawl on a real server, and programs that use it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from scrapy_redis_state.store import AsyncCrawlState, CrawlState
from scrapy_redis_state.store.client import async_client, sync_client
from scrapy_redis_state.store.sessions.sessions import AsyncSessions, Sessions
from tests.store.crawls import Crawl
from tests.store.faults import Faults, breakable_async_client, breakable_client
from tests.store.session_store import Store


@pytest.fixture
def crawl(server, crawl_name):
    """A crawl that nobody has joined; its keys fit together when the test is over."""
    crawl = Crawl(server.client(), crawl_name)
    yield crawl
    assert crawl.fsck() == []


class Awaited:
    """A state whose methods are awaited, whether they are coroutines or not."""

    def __init__(self, state: CrawlState | AsyncCrawlState, faults: Faults) -> None:
        self.state = state
        self.faults = faults

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self.state, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            return await result if inspect.isawaitable(result) else result

        return call


@pytest.fixture(params=["sync", "async"])
def connect(request, server, crawl, run):
    """Makes a program's state of the crawl: ``CrawlState`` or ``AsyncCrawlState``."""
    states = []

    def connect() -> Awaited:
        faults = Faults()
        state: CrawlState | AsyncCrawlState
        if request.param == "sync":
            state = CrawlState(breakable_client(server.url, faults), crawl.keys)
        else:
            client = breakable_async_client(server.url, faults)
            state = AsyncCrawlState(client, crawl.keys)
        states.append(Awaited(state, faults))
        return states[-1]

    yield connect
    for state in states:
        run(state.close())


@pytest.fixture
def state(connect):
    return connect()


@pytest.fixture(params=["sync", "async"])
def store(request, server, crawl_name, run):
    """Sessions under the test's prefix, by ``Sessions`` or ``AsyncSessions``."""
    if request.param == "sync":
        client = sync_client(server.url)
        yield Store(Sessions(client, crawl_name), server.client(), crawl_name)
        client.close()
    else:
        other = async_client(server.url)
        yield Store(AsyncSessions(other, crawl_name), server.client(), crawl_name)
        run(other.aclose())


@pytest.fixture
def scripts_store(server, crawl_name):
    """The same for tests that run the scripts themselves."""
    client = server.client()
    return Store(Sessions(client, crawl_name), client, crawl_name)
