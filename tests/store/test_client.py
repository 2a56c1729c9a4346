"""Clients: bytes in, bytes out, nothing repeated, no password shown."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from scrapy_redis_state.store.client import async_client, sync_client, translated
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.url import parse
from tests.processes import wait_until
from tests.servers import Server
from tests.store.clients import PASSWORD, Call, StartServer, error_of, with_login


class TestClients:
    def test_replies_are_bytes(self, server: Server, crawl_name: str, call: Call):
        """Text is sent as UTF-8, bytes as they are, and all replies are bytes."""
        call(server.url, "SET", crawl_name, "é")
        assert call(server.url, "GET", crawl_name) == "é".encode()
        call(server.url, "SET", crawl_name, b"\x00\xff")
        assert call(server.url, "GET", crawl_name) == b"\x00\xff"

    def test_replies_have_the_shape_of_the_second_protocol(
        self, server: Server, crawl_name: str, call: Call
    ):
        """A map comes back as a flat list whatever redis-py's default protocol is."""
        call(server.url, "HSET", crawl_name, "a", 1)
        script = "return redis.call('HGETALL', KEYS[1])"
        reply = call(server.url, "EVAL", script, 1, crawl_name)
        assert reply == [b"a", b"1"]

    @pytest.mark.parametrize("tcp", [False, True])
    def test_passwords_of_any_characters_work_percent_encoded(
        self, fresh_server: StartServer, call: Call, tcp: bool
    ):
        """User and password are decoded; an empty user is the default one."""
        server = fresh_server(tcp=tcp, extra_args=["--requirepass", PASSWORD])
        url = with_login(server)
        assert call(url, "PING")
        call(url, "ACL", "SETUSER", "ann@work", "on", f">{PASSWORD}", "+ping")
        assert call(with_login(server, "ann@work"), "PING")

    def test_the_database_is_a_path_or_an_option(
        self, fresh_server: StartServer, call: Call
    ):
        """``/3`` and ``?db=3`` are the same database; without both it is 0."""
        server = fresh_server(tcp=True)
        base = f"redis://127.0.0.1:{server.port}"
        call(f"{base}/3", "SET", "key", "three")
        assert call(f"{base}?db=3", "GET", "key") == b"three"
        assert call(f"{base}/", "GET", "key") is None
        assert call(base, "GET", "key") is None

    def test_a_call_without_an_answer_is_never_sent_twice(
        self, fresh_server: StartServer, client_to: Call
    ):
        """The caller alone decides whether to repeat a call whose reply was lost."""
        server = fresh_server()
        observer = server.client()
        call = client_to(server.url, timeout=0.2)
        call("PING")
        server.pause()
        assert isinstance(error_of(call, "INCR", "key"), Unavailable)
        server.resume()
        wait_until(lambda: observer.get("key") is not None)
        assert observer.get("key") == b"1"

    def test_a_broken_connection_is_replaced(
        self, fresh_server: StartServer, client_to: Call
    ):
        """The call on it fails once; the next one connects again."""
        server = fresh_server()
        call = client_to(server.url)
        call("PING")
        server.kill()
        assert isinstance(error_of(call, "PING"), Unavailable)
        server.restart()
        assert call("PING")

    def test_more_calls_than_connections_do_not_fail(
        self, server: Server, run: Callable[..., Any]
    ):
        """Two hundred concurrent calls on one client all get an answer."""

        async def many() -> list[Any]:
            client = async_client(server.url)
            calls = [client.echo(f"{number}") for number in range(200)]
            try:
                return await asyncio.gather(*calls)
            finally:
                await client.aclose()

        assert run(many()) == [str(number).encode() for number in range(200)]

    @pytest.mark.parametrize("where", ["login", "option"])
    def test_no_repr_and_no_traceback_has_a_password(
        self, fresh_server: StartServer, where: str
    ):
        """Neither a client nor a failure tells what the password is."""
        server = fresh_server(extra_args=["--requirepass", PASSWORD])
        url = f"{server.url}&password=TOPSECRET"
        if where == "login":
            url = with_login(server, "ann", "TOPSECRET")
        client = sync_client(url)
        texts = [repr(client), repr(client.connection_pool), repr(parse(url))]
        texts += [repr(async_client(url)), repr(async_client(url).connection_pool)]
        try:
            with translated():
                client.ping()
        except Refused as error:
            texts.append("".join(traceback.format_exception(error)))
        assert not [text for text in texts if "TOPSECRET" in text]

    @pytest.mark.parametrize("scheme", ["sentinel", "cluster"])
    def test_nor_has_that_of_several_servers(self, scheme: str):
        """Clients that look for their server show no login either."""
        path = "/master?sentinel_password=TOPSECRET" if scheme == "sentinel" else ""
        url = f"redis+{scheme}://ann:TOPSECRET@127.0.0.1:1,127.0.0.1:2{path}"
        texts = [repr(sync_client(url)), repr(async_client(url)), repr(parse(url))]
        texts += [repr(sync_client(url).connection_pool)]
        try:
            with translated():
                sync_client(url).ping()
        except Unavailable as error:
            texts.append("".join(traceback.format_exception(error)))
        assert len(texts) == 5
        assert not [text for text in texts if "TOPSECRET" in text]
