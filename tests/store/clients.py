"""The package's clients, blocking or not, behind one way to call them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import redis

from scrapy_redis_state.store.client import async_client, sync_client, translated
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.server_check import first_answer
from tests.servers import Server

Call = Callable[..., Any]
StartServer = Callable[..., Server]


def wait_for_server(url: str, patience_secs: float = 10.0) -> redis.Redis:
    """The client of a server that has answered PING by then."""
    return first_answer(url, lambda client: client.ping(), patience_secs)[0]


PASSWORD = "p@ss/w:rd#?%&é"


@pytest.fixture(params=["sync", "async"])
def client_to(
    request: pytest.FixtureRequest, run: Callable[..., Any]
) -> Iterator[Call]:
    """``client_to(url)(command, ...)`` with either client."""
    with contextlib.ExitStack() as clients:

        def connect_sync(url: str, **options: Any) -> Call:
            client = sync_client(url, **options)
            clients.callback(client.close)
            return translated()(client.execute_command)

        def connect_async(url: str, **options: Any) -> Call:
            client = async_client(url, **options)
            clients.callback(lambda: run(client.aclose()))

            @translated()
            def call(*command: object) -> Any:
                return run(client.execute_command(*command))

            return call

        yield connect_sync if request.param == "sync" else connect_async


@pytest.fixture
def call(client_to: Call) -> Call:
    """``call(url, command, ...)`` with either client, on a new connection."""
    return lambda url, *command, **options: client_to(url, **options)(*command)


def with_login(server: Server, user: str = "", password: str = PASSWORD) -> str:
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@"
    return server.url.replace("://", f"://{login}")


def error_of(call: Call, *arguments: object, **options: Any) -> RedisStateError:
    with pytest.raises(RedisStateError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return caught.value
