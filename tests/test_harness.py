"""What the other tests rely on: coroutines, servers, programs."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest
import redis
import redis.asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from tests.conftest import _belongs_to
from tests.processes import await_until, wait_until


async def test_coroutine_tests_run_on_the_loop_of_the_reactor(server, crawl_name):
    """Deferreds fired by the reactor and an asyncio Redis client work side by side."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    fired: Deferred[str] = Deferred()
    reactor.callLater(0, fired.callback, "fired")
    assert reactor._asyncioEventloop is asyncio.get_running_loop()
    assert await fired.asFuture(asyncio.get_running_loop()) == "fired"
    async with redis.asyncio.Redis.from_url(server.url) as client:
        assert await client.set(f"{{{crawl_name}}}", b"v")
        assert await client.get(f"{{{crawl_name}}}") == b"v"


def test_plain_tests_run_outside_of_any_loop():
    """A plain test may run a loop of its own."""

    async def answer():
        return 42

    assert asyncio.run(answer()) == 42


@given(st.integers())
@settings(max_examples=5)
async def test_hypothesis_runs_coroutine_tests(number):
    """Each example is awaited."""
    await asyncio.sleep(0)
    assert isinstance(number, int)


@pytest.fixture
def client_made_in_a_fixture(server, run):
    client = redis.asyncio.Redis.from_url(server.url)
    assert run(client.ping())
    yield client
    run(client.aclose())


async def test_plain_fixtures_share_the_loop(client_made_in_a_fixture):
    """A connection opened in a fixture is usable in the test."""
    assert await client_made_in_a_fixture.ping()


async def test_failures_of_coroutines_are_failures():
    """An exception in a coroutine reaches the test as itself."""
    with pytest.raises(AssertionError, match="never: not within 0"):
        await await_until(lambda: False, 0, "never")


@pytest.mark.reactorless
def test_reactorless_tests_have_no_reactor():
    """No part of Twisted that installs a reactor is imported."""
    assert "twisted.internet.reactor" not in sys.modules


@pytest.mark.reactorless
async def test_reactorless_coroutines_run_under_asyncio(server, crawl_name):
    """The asyncio client works there too."""
    async with redis.asyncio.Redis.from_url(server.url) as client:
        assert await client.set(f"{{{crawl_name}}}", b"v")
    assert "twisted.internet.reactor" not in sys.modules


def test_a_key_belongs_to_a_crawl_by_tag_or_prefix():
    """What a test may leave on the shared server."""
    assert _belongs_to("t1", "p:frontier:{t1}")
    assert _belongs_to("t1", "seen:{bot:t1}:0")
    assert _belongs_to("t1", "t1:sess:example.com")
    assert not _belongs_to("t1", "sess:t1.example")
    assert not _belongs_to("t1", "frontier:{bot:spider}")


@pytest.mark.parametrize("tcp", [False, True])
def test_a_server_with_an_append_only_file_survives_being_killed(fresh_server, tcp):
    """Address and data are the same after a restart."""
    server = fresh_server(appendonly=True, tcp=tcp)
    url = server.url
    server.client().set("k", "v")
    server.kill()
    with pytest.raises(redis.ConnectionError):
        server.client().get("k")
    server.restart()
    assert server.url == url
    assert server.client().get("k") == b"v"


def test_a_server_without_persistence_forgets(fresh_server, tmp_path):
    """Nothing is on disk unless a test asks for it."""
    server = fresh_server(directory=tmp_path)
    server.client().set("k", "v")
    server.restart()
    assert server.client().dbsize() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_paused_server_answers_nothing_until_it_resumes(fresh_server):
    """A hanging server is made without touching its connections."""
    server = fresh_server(extra_args=["--maxmemory", "50mb"])
    client = server.client(socket_timeout=0.05)
    assert client.config_get("maxmemory") == {"maxmemory": "52428800"}
    server.pause()
    with pytest.raises(redis.TimeoutError):
        client.ping()
    server.resume()
    assert server.client().ping()


def test_a_server_that_cannot_start_says_why(fresh_server):
    """The error carries what the server printed."""
    with pytest.raises(AssertionError, match="no-such-option"):
        fresh_server(extra_args=["--no-such-option", "1"])


def test_nothing_outlives_a_killed_test_run(programs, tmp_path):
    """Servers and programs die with the process that started them, paused or not."""
    runner = programs.python(
        "-c",
        "import pathlib, time\n"
        "from tests.processes import Programs\n"
        "from tests.servers import Server\n"
        "server = Server('valkey'); server.start()\n"
        "sleeper = Programs(pathlib.Path()).python('-c', 'input()')\n"
        "server.pause()\n"
        "print('pids', server.pid, sleeper.pid, 'end')\n"
        "time.sleep(600)\n",
        env={"TMPDIR": str(tmp_path)},  # its files do outlive it
    )
    runner.wait_for_output("end")
    pids = [int(pid) for pid in runner.output.split()[1:3]]
    runner.kill()
    wait_until(lambda: not any(map(_alive, pids)), 10, f"{pids} are gone")


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_programs_log_their_output_and_end(programs):
    """Both streams are in the log, and the exit status is checked."""
    program = programs.python(
        "-c", "import sys, tests; print('out'); sys.exit('err')", name="noisy"
    )
    program.wait_for_output("err")
    assert program.wait() == 1
    assert program.output.split() == ["out", "err"]
    with pytest.raises(AssertionError, match=r"noisy .*exit 1"):
        program.wait_for_success()


def test_a_program_that_ends_early_is_not_waited_for(programs):
    """The message shows what it printed instead."""
    program = programs.python("-c", "print('something else')")
    with pytest.raises(AssertionError, match="something else"):
        program.wait_for_output("text")


def test_scrapy_runs_as_a_program(programs):
    """The same Python, the same Scrapy."""
    program = programs.scrapy("version")
    program.wait_for_success()
    assert program.output.startswith("Scrapy 2.")
