"""The embedded server: who starts it, who keeps it, and when it ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from scrapy_redis_state.store import AsyncCrawlState, CrawlState
from scrapy_redis_state.store.client import async_client, sync_client
from scrapy_redis_state.store.embedded.place import SOCKET_BYTES
from tests.processes import wait_until
from tests.store.embedded import SECONDS, Home, NewHome, counted

STARTERS = 20


class TestWhoComesAndGoes:
    def test_any_number_may_start_at_once(self, home: Home):
        """Of twenty programs one starts the server, and all use it."""
        users = [home.user() for _ in range(STARTERS)]
        assert len({home.server_of(user) for user in users}) == 1
        assert counted(home) == STARTERS
        started = home.log().count("Started by process")
        assert started == 1

    def test_it_survives_its_starter(self, home: Home):
        """SIGKILL of the program that started the server is nothing to the others."""
        starter = home.user()
        server = home.server_of(starter)
        other = home.user()
        assert home.server_of(other) == server
        starter.kill()
        assert home.server_of(home.user()) == server

    def test_it_survives_ctrl_c(self, home: Home):
        """SIGINT to the starter's process group, as Ctrl-C sends, ends the starter."""
        starter, other = home.user(), home.user()
        server = home.server_of(starter)
        assert home.server_of(other) == server
        os.killpg(starter.pid, signal.SIGINT)
        starter.wait()
        assert home.server_of(home.user()) == server
        assert os.getsid(server) not in (os.getsid(0), starter.pid)

    def test_the_last_one_stops_it(self, home: Home):
        """It stops when the last program leaves, and has then lost nothing."""
        home.user("--leave").wait_for_success()
        stayed = home.user()
        home.server_of(stayed)
        home.user("--leave").wait_for_success()
        assert home.answers()
        stayed.terminate()
        home.wait_until_left()
        assert not home.answers()
        assert not home.place.socket.exists()
        assert counted(home) == 3

    def test_it_ends_when_all_are_killed(self, home: Home):
        """Nobody has to come for a server to end that nobody uses."""
        users = [home.user() for _ in range(3)]
        for user in users:
            home.server_of(user)
        for user in users:
            user.kill()
        home.wait_until_left()
        assert counted(home) == 3

    def test_a_later_one_comes_and_goes(self, home: Home):
        """After all were killed, and the supervisor, the next leaves nothing either."""
        user = home.user()
        home.server_of(user)
        os.kill(home.supervisor(), signal.SIGKILL)
        user.kill()
        home.user("--leave").wait_for_success()
        home.wait_until_left()
        assert counted(home) == 2

    def test_projects_have_their_own(self, new_home: NewHome):
        """Two directories have two servers with two contents."""
        one, two = new_home("one"), new_home("two")
        servers = [one.server_of(one.user()), two.server_of(two.user())]
        assert len(set(servers)) == 2
        one.server_of(one.user())
        assert (counted(one), counted(two)) == (2, 1)

    def test_a_child_does_not_keep_it(self, home: Home):
        """A process that a worker forked, and that outlives it, is not a user."""
        user = home.user("--fork")
        home.server_of(user)
        user.kill()
        home.wait_until_left()


class TestOneProcess:
    def test_each_client_is_a_user(self, home: Home):
        """The server is there until the last client of a process is closed."""
        with sync_client(home.url) as first, sync_client(home.url) as second:
            first.set("a", 1)
            first.close()
            assert second.get("a") == b"1"
        home.wait_until_left()

    def test_a_soon_successor_finds_it_running(self, home: Home):
        """One client after another does not start the server again."""
        for _ in range(3):
            with sync_client(home.url) as client:
                client.incr("n")
        assert home.log().count("Started by process") == 1

    def test_a_closed_client_may_connect_again(self, home: Home):
        """As any client of redis-py; it is a user again then."""
        client = sync_client(home.url)
        client.set("a", 1)
        client.close()
        home.wait_until_left()
        assert client.get("a") == b"1"
        client.close()

    def test_programs_that_are_not_scrapy(self, home: Home, crawl_name: str):
        """``CrawlState`` takes the URL, and leaves when it is closed."""
        with CrawlState.connect(home.url, crawl=crawl_name) as state:
            assert state.push("https://example.com/")
        home.wait_until_left()
        with CrawlState.connect(home.url, crawl=crawl_name) as state:
            assert not state.push("https://example.com/")
            assert state.size() == 1

    async def test_programs_in_asyncio(self, home: Home, crawl_name: str):
        """``AsyncCrawlState`` does, too."""
        async with AsyncCrawlState.connect(home.url, crawl=crawl_name) as state:
            assert await state.push("https://example.com/")
            assert home.answers()

    async def test_many_connections_of_one_client(self, home: Home):
        """They start one server, and end with their client."""
        import asyncio

        client = async_client(home.url)
        answers = await asyncio.gather(*(client.incr("n") for _ in range(10)))
        assert sorted(answers) == list(range(1, 11))
        await client.aclose()
        assert home.log().count("Started by process") == 1


class TestPlaces:
    def test_a_long_path(self, new_home: NewHome):
        """A directory whose path is too long for a socket has it in a private place."""
        home = new_home(Path("d" * 100, "e" * 100))
        assert home.server_of(home.user()) == home.server_of(home.user())
        assert counted(home) == 2
        assert len(os.fsencode(home.place.socket)) <= SOCKET_BYTES
        assert home.place.socket.parent.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("name", ["with space", "100%", "a\"b'c", "ä€\udcff"])
    def test_odd_paths(self, new_home: NewHome, name: str):
        """A directory may have any name; the URL has it percent-encoded."""
        from scrapy_redis_state.store.url import in_directory

        if sys.platform == "darwin" and "\udcff" in name:
            pytest.skip("macOS has no such names")
        home = new_home(name)
        home.url = in_directory("embedded:", str(home.place.directory))
        assert counted(home) == 0
        assert (home.place.directory / "appendonlydir").is_dir()

    def test_only_its_user_can_connect(self, home: Home):
        """Directory, files and socket are closed to others, and no port is open."""
        with sync_client(home.url) as client:
            assert client.config_get("port") == {"port": "0"}
            paths = [home.place.directory, *home.place.directory.rglob("*")]
            assert home.place.socket in paths
            assert [p for p in paths if p.lstat().st_mode & 0o077] == []

    def test_it_drops_nothing_when_memory_is_short(self, home: Home):
        """No limit, no eviction; every write is in a file."""
        with sync_client(home.url) as client:
            options = client.config_get("*")
        assert options["maxmemory"] == "0"
        assert options["maxmemory-policy"] == "noeviction"
        assert (options["appendonly"], options["save"]) == ("yes", "")


def test_the_log_is_bounded(home: Home):
    """A long log is put aside, in the place of the one before it."""
    home.place.prepare()
    home.place.log.write_text("old\n" * 500_000)
    user = home.user()
    home.server_of(user)
    assert len(home.log()) < 10_000
    old = home.place.log.with_name("server.log.1")
    assert old.stat().st_size == 2_000_000
    with home.place.log.open("a") as log:
        log.write("more\n" * 500_000)
    wait_until(lambda: home.place.log.stat().st_size < 10_000, SECONDS)
