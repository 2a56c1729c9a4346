"""Errors of servers, of the network and of TLS, in words that say what to do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import redis

from scrapy_redis_state.store.client import translate, translated
from scrapy_redis_state.store.errors import (
    CommandFailed,
    RedisStateError,
    Refused,
    StateLost,
    Unavailable,
)
from tests.processes import wait_until
from tests.servers import Server
from tests.store.clients import PASSWORD, Call, StartServer, error_of, with_login


class TestErrors:
    def test_the_tree_of_errors_is_small(self):
        """What refuses a value is a ValueError; two errors carry a close reason."""
        assert {kind.__name__ for kind in RedisStateError.__subclasses__()} == {
            "Unavailable",
            "StateLost",
            "CommandFailed",
            "Refused",
        }
        assert issubclass(Refused, ValueError)
        assert Unavailable.close_reason == "redis_unavailable"
        assert StateLost.close_reason == "redis_state_lost"

    def test_nobody_listens(self, call: Call, unused_port: int):
        """A refused connection may pass by itself."""
        error = error_of(call, f"redis://127.0.0.1:{unused_port}/0", "PING")
        assert isinstance(error, Unavailable)
        assert "no usable answer" in str(error)

    def test_no_such_socket(self, call: Call, tmp_path: Path):
        """So may a missing Unix socket."""
        error = error_of(call, f"unix://{tmp_path}/none.sock", "PING")
        assert isinstance(error, Unavailable)

    def test_a_server_that_is_silent(self, fresh_server: StartServer, call: Call):
        """A stopped server costs the time limit, no more, and may come back."""
        server = fresh_server()
        server.pause()
        error = error_of(call, server.url, "PING", timeout=0.2)
        assert isinstance(error, Unavailable)

    @pytest.mark.parametrize("login", ["", "ann:no@", ":no@"])
    def test_wrong_or_missing_password(
        self, fresh_server: StartServer, call: Call, login: str
    ):
        """The login is refused with the place to correct it."""
        server = fresh_server(extra_args=["--requirepass", PASSWORD])
        url = server.url.replace("://", f"://{login}")
        error = error_of(call, url, "PING")
        assert isinstance(error, Refused)
        assert "put the right user and password into the URL" in str(error)

    def test_a_password_that_is_not_wanted(self, server: Server, call: Call):
        """A password for a server that has none is a mistake, and said to be one."""
        error = error_of(call, with_login(server), "PING")
        assert isinstance(error, Refused)
        assert "p@ss" not in str(error)

    def test_a_command_that_the_user_may_not_run(
        self, fresh_server: StartServer, call: Call
    ):
        """Missing rights are refused, also when a script runs into them."""
        server = fresh_server()
        server.client().execute_command(
            "ACL", "SETUSER", "ann", "on", f">{PASSWORD}", "~*", "+eval", "+ping"
        )
        url = with_login(server, "ann")
        for command in (
            ["SET", "key", "1"],
            ["EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "key"],
        ):
            error = error_of(call, url, *command)
            assert isinstance(error, Refused)
            assert "ACL" in str(error)

    def test_a_database_that_does_not_exist(
        self, fresh_server: StartServer, call: Call
    ):
        """A database number too high is refused."""
        server = fresh_server(tcp=True)
        error = error_of(call, f"redis://127.0.0.1:{server.port}/99", "PING")
        assert isinstance(error, Refused)
        assert "no such database" in str(error)

    def test_something_else_than_redis(self, call: Call, web_server: int):
        """An answer in another language is refused at once."""
        error = error_of(call, f"redis://127.0.0.1:{web_server}/0", "PING")
        assert isinstance(error, Refused)
        assert "not a Redis server" in str(error)

    def test_tls_with_a_server_that_speaks_none(self, call: Call, web_server: int):
        """Plain text in answer to a TLS greeting is refused, not tried again."""
        error = error_of(call, f"rediss://127.0.0.1:{web_server}/0", "PING")
        assert isinstance(error, Refused)
        assert "use redis://" in str(error)

    def test_a_server_that_takes_no_writes_for_now(
        self, fresh_server: StartServer, call: Call, unused_port: int
    ):
        """A replica, and a full server, may take writes later."""
        server = fresh_server()
        client = server.client()
        script = "return redis.call('SET', KEYS[1], ARGV[1])"
        client.config_set("maxmemory", 1)
        error = error_of(call, server.url, "EVAL", script, 1, "key", "value")
        assert isinstance(error, Unavailable)
        client.config_set("maxmemory", 0)
        client.replicaof("127.0.0.1", unused_port)
        error = error_of(call, server.url, "SET", "key", "value")
        assert isinstance(error, Unavailable)
        error = error_of(call, server.url, "EVAL", script, 1, "key", "value")
        assert isinstance(error, Unavailable)

    def test_a_server_busy_with_a_script(self, fresh_server: StartServer, call: Call):
        """While another client's script runs for long, calls may be tried again."""
        server = fresh_server(extra_args=["--lua-time-limit", "1"])
        client = server.client()
        other = server.client()
        looping = threading.Thread(target=_loop_forever, args=(other,))
        looping.start()
        try:
            wait_until(lambda: _is_busy(client))
            error = error_of(call, server.url, "GET", "key")
        finally:
            client.script_kill()
            looping.join()
        assert isinstance(error, Unavailable)
        assert "BUSY" in str(error)

    def test_a_command_that_is_wrong(self, server: Server, call: Call):
        """Any other error is about that one command."""
        error = error_of(call, server.url, "EVAL", "return redis.call('GET')", 0)
        assert isinstance(error, CommandFailed)

    def test_a_server_where_a_sentinel_should_be(self, server: Server, call: Call):
        """The command that finds the master out is of Sentinels only."""
        error = error_of(call, server.url, "SENTINEL", "get-master-addr-by-name", "m")
        assert isinstance(error, Refused)
        assert "name Sentinels" in str(error)

    def test_errors_of_old_servers_hide_their_code(self):
        """Before Redis 7 a script's error quotes the command's in its middle."""
        text = (
            "Error running script (call to f_1): @user_script:1: @user_script: 1: "
            "-OOM command not allowed when used memory > 'maxmemory'."
        )
        assert isinstance(translate(redis.ResponseError(text)), Unavailable)

    def test_a_quoted_password_is_cut_off(self):
        """A server without AUTH quotes what it was sent; we do not."""
        text = f"unknown command 'AUTH', with args beginning with: '{PASSWORD}'"
        assert PASSWORD not in str(translate(redis.ResponseError(text)))

    def test_other_exceptions_pass(self):
        """A mistake in a program is not made an error of the server."""
        with pytest.raises(ZeroDivisionError), translated():
            _ = 1 / 0


def _loop_forever(client: redis.Redis) -> None:
    with contextlib.suppress(redis.RedisError):
        client.eval("while true do end", 0)


def _is_busy(client: redis.Redis) -> bool:
    try:
        client.get("key")
    except redis.ResponseError:
        return True
    return False


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which nobody listens, kept from others."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def web_server() -> Iterator[int]:
    """Port of a web server."""
    with HTTPServer(("127.0.0.1", 0), _Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


class _Silent(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the test run's output to itself."""
