"""The embedded server when it, or its supervisor, is killed, deleted or full."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from scrapy_redis_state.store.client import async_client, sync_client, translated
from scrapy_redis_state.store.embedded.binary import find_server
from scrapy_redis_state.store.errors import Unavailable
from tests.processes import await_until, tied_to_this_process, wait_until
from tests.store.embedded import SECONDS, Home, counted

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="uses prlimit")


def answer(client: redis.Redis, *command: str) -> object:
    """The answer to a command; the error if the server is away."""
    try:
        with translated():
            return client.execute_command(*command)
    except Unavailable as error:
        return error


class TestKilled:
    def test_a_killed_server_is_started_again(self, home: Home):
        """By the next program that needs it; what it answered is not lost."""
        with sync_client(home.url) as client:
            client.set("users", 1)
            os.kill(client.info("server")["process_id"], signal.SIGKILL)
            # It is Unavailable in between, if the call is early enough.
            wait_until(lambda: answer(client, "GET", "users") == b"1", SECONDS)
        assert "signal 9 ended it" in home.log()

    async def test_a_killed_supervisor_is_replaced(self, home: Home):
        """And its server with it."""
        client = async_client(home.url)
        await client.set("users", 1)
        first = (await client.info("server"))["process_id"]
        os.kill(home.supervisor(), signal.SIGKILL)
        if sys.platform == "linux":
            wait_until(lambda: not home.answers())
            with pytest.raises(Unavailable), translated():
                await client.ping()
        assert counted(home) == 1
        assert (await client.info("server"))["process_id"] != first
        await client.aclose()

    def test_a_server_without_supervisor_is_replaced(self, home: Home):
        """Where the kernel does not end it, the next client does, stopped or not."""
        home.place.prepare()
        lock = os.open(home.place.server, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        options = ["--port", "0", "--unixsocket", str(home.place.socket)]
        forsaken = subprocess.Popen(
            tied_to_this_process([str(find_server()), *options]),
            cwd=home.place.directory,
            stdout=subprocess.DEVNULL,
            pass_fds=[lock],
        )
        os.close(lock)
        wait_until(home.answers)
        assert counted(home) == 0
        assert forsaken.wait() == 0
        assert home.log().count("Started by process") == 1

    def test_a_deleted_directory_is_lost(self, home: Home):
        """Whoever deletes the data ends the server; the next begins anew."""
        with sync_client(home.url) as client:
            client.set("users", 1)
            delete(home.place.directory)
            wait_until(lambda: answer(client, "EXISTS", "users") == 0, SECONDS)
            assert home.answers()

    async def test_a_client_closed_while_it_connects(self, home: Home):
        """It does not become a user after its end, however late its thread begins."""
        client = async_client(home.url)
        busy, loop = threading.Event(), asyncio.get_running_loop()
        loop.set_default_executor(only := ThreadPoolExecutor(max_workers=1))
        only.submit(busy.wait)

        async def connect() -> None:
            with translated():
                await client.ping()

        connecting = asyncio.create_task(connect())
        await await_until(only._work_queue.qsize, message="a thread wanted")
        await client.aclose()
        busy.set()
        with pytest.raises(Unavailable, match="closed while it connected"):
            await connecting
        loop.set_default_executor(ThreadPoolExecutor())
        only.shutdown()
        await asyncio.to_thread(home.wait_until_left)


class TestFull:
    @linux_only
    def test_a_disk_that_fills_up(self, home: Home):
        """Writes are refused for as long as it is full; then all goes on."""
        with sync_client(home.url) as client:
            client.set("users", 1)
            server = client.info("server")["process_id"]
            full = home.append_only_file().stat().st_size
            _limit_files(server, full)
            client.set("lost", "x" * 1000)

            def is_refused() -> bool:
                return "MISCONF" in str(answer(client, "SET", "n", "1"))

            wait_until(is_refused, SECONDS)
            assert client.get("users") == b"1"
            _limit_files(server, resource.RLIM_INFINITY)
            wait_until(lambda: not is_refused(), SECONDS)
            client.set("users", 2)
        home.wait_until_left()
        assert counted(home) == 2

    def test_a_disk_that_is_full(self, home: Home):
        """A start is refused with the reason (a full disk's differs in its text)."""
        program = home.programs.python("-c", STARVED, home.url)
        program.wait_for_success()
        (text,) = program.output.splitlines()
        assert "does not start (File too large)" in text
        home.wait_until_left()
        assert counted(home) == 0


def delete(directory: Path) -> None:
    """Delete it, whatever the server writes there meanwhile."""
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)


def _limit_files(pid: int, size: int) -> None:
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


STARVED = """
import resource, sys
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.server_check import first_answer

limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
try:
    first_answer(sys.argv[1], lambda client: client.ping())
except Refused as error:
    text = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
print(text)
"""
"""A program that may not write to any file, and neither may what it starts."""
