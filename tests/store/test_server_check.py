"""Which servers a crawl may use, and how long it waits for one."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.server_check import (
    Finding,
    check_server,
)
from tests.processes import wait_until
from tests.servers import Server
from tests.store.clients import wait_for_server

StartServer = Callable[..., Server]


def findings(url: str) -> list[Finding]:
    with contextlib.closing(sync_client(url)) as client:
        found = check_server(client)
    assert not [finding for finding in found if "\n" in finding.text]
    return found


def limited_user(server: Server, *rights: str) -> str:
    """URL of a user that has only these rights."""
    server.client().execute_command(
        "ACL", "SETUSER", "ann", "on", ">secret", "~*", *rights
    )
    return server.url.replace("://", "://ann:secret@")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, kept from others."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


class TestCheckServer:
    def test_a_usual_server_is_fine(self, server: Server):
        """Redis 6.2 and newer and Valkey are used without a word."""
        assert findings(server.url) == []

    def test_no_server(self, closed_port: int):
        """A server that does not answer is no server."""
        with pytest.raises(Unavailable):
            findings(f"redis://127.0.0.1:{closed_port}/0")

    def test_a_server_that_is_too_old(self, fresh_server: StartServer):
        """A server is told by its commands, since Valkey's version says little."""
        server = fresh_server(extra_args=["--rename-command", "GETEX", ""])
        (found,) = findings(server.url)
        assert found.fatal
        assert re.search(r"too old \(version \d+\.", found.text)
        assert "use Redis 6.2 or newer, or Valkey" in found.text

    @pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
    def test_a_server_that_would_delete_the_crawl(
        self, fresh_server: StartServer, policy: str
    ):
        """Evicting any key means losing pages: refused, with the remedy."""
        server = fresh_server(extra_args=["--maxmemory-policy", policy])
        (found,) = findings(server.url)
        assert found.fatal
        assert policy in found.text
        assert "CONFIG SET maxmemory-policy noeviction" in found.text

    @pytest.mark.parametrize("policy", ["volatile-lru", "volatile-ttl"])
    def test_a_server_that_would_delete_finished_crawls(
        self, fresh_server: StartServer, policy: str
    ):
        """Only keys of finished crawls have a time to live: a warning."""
        server = fresh_server(extra_args=["--maxmemory-policy", policy])
        (found,) = findings(server.url)
        assert not found.fatal
        assert policy in found.text

    def test_a_user_that_may_not_ask(self, fresh_server: StartServer):
        """What cannot be found out is one warning each, and no error."""
        server = fresh_server()
        version, policy = findings(limited_user(server, "+ping", "+eval"))
        assert "version cannot be read" in version.text
        assert "settings cannot be read" in policy.text
        assert "make sure of maxmemory-policy noeviction" in policy.text
        assert "and of appendonly yes" in policy.text
        assert not version.fatal
        assert not policy.fatal

    @pytest.mark.parametrize("right", ["+info", "+config|get"])
    def test_the_policy_is_read_where_it_can_be(
        self, fresh_server: StartServer, right: str
    ):
        """INFO tells it, and so does CONFIG GET; hosted servers often lack one."""
        server = fresh_server(extra_args=["--maxmemory-policy", "allkeys-lru"])
        url = limited_user(server, "+ping", "+eval", "+command|info", right)
        (found,) = findings(url)
        assert found.fatal

    def test_the_version_is_read_where_commands_cannot_be(
        self, fresh_server: StartServer
    ):
        """INFO is second best to tell how old a server is."""
        server = fresh_server()
        assert findings(limited_user(server, "+ping", "+eval", "+info")) == []


class TestWaitForServer:
    def test_a_server_that_is_there(self, server: Server):
        """The client is ready and has the usual time limits, whatever the patience."""
        client = wait_for_server(server.url, patience_secs=0.5)
        assert client.ping()
        assert client.connection_pool.connection_kwargs["socket_timeout"] == 5
        client.close()

    def test_a_server_that_comes_late(
        self, fresh_server: StartServer, caplog: pytest.LogCaptureFixture
    ):
        """A crawl started just before its server waits for it, and says so once."""
        server = fresh_server()
        server.stop()
        clients: list[redis.Redis] = []
        waiting = threading.Thread(
            target=lambda: clients.append(wait_for_server(server.url))
        )
        with caplog.at_level(logging.INFO, logger="scrapy_redis_state"):
            waiting.start()
            wait_until(lambda: "Waiting up to 10 s" in caplog.text)
            server.start()
            waiting.join()
        assert len(caplog.records) == 1
        assert clients[0].ping()
        clients[0].close()

    def test_no_server(self, closed_port: int):
        """When the patience is over: one line with name, place, setting and remedy."""
        url = f"redis://ann:secret@127.0.0.1:{closed_port}/0"
        with pytest.raises(Unavailable) as caught:
            wait_for_server(url, patience_secs=0.3)
        text = str(caught.value)
        assert text.startswith("redis_unavailable: REDIS_STATE_URL = ")
        assert f"'redis://***@127.0.0.1:{closed_port}/0'" in text
        assert "within 0.3 s: start the server, or set REDIS_STATE_URL" in text
        assert "secret" not in text
        assert "\n" not in text

    def test_no_socket(self, tmp_path: Path):
        """The same for a Unix socket."""
        with pytest.raises(Unavailable, match=r"none\.sock"):
            wait_for_server(f"unix://{tmp_path}/none.sock", patience_secs=0)

    def test_a_server_that_is_silent(self, fresh_server: StartServer):
        """A server that hangs uses up the patience, and not much more."""
        server = fresh_server()
        server.pause()
        begin = time.monotonic()
        with pytest.raises(Unavailable):
            wait_for_server(server.url, patience_secs=0.5)
        assert time.monotonic() - begin < 3

    def test_a_wrong_password(self, fresh_server: StartServer):
        """Waiting does not help: refused at once."""
        server = fresh_server(extra_args=["--requirepass", "secret"])
        url = server.url.replace("://", "://:wrong@")
        with pytest.raises(Refused, match=r"^REDIS_STATE_URL = 'unix://\*\*\*@/"):
            wait_for_server(url, patience_secs=60)

    def test_a_url_that_cannot_be_used(self):
        """Nor does it for a URL."""
        with pytest.raises(Refused, match="no known scheme"):
            wait_for_server("http://localhost", patience_secs=60)
