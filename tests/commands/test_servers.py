"""Servers that are not there, or have no time: what the commands say and do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.commands.commands import Commands, refusal
from tests.processes import wait_until
from tests.servers import Server
from tests.store.clients import StartServer

pytestmark = pytest.mark.one_server

URL = "http://shop.example/"
ADVICE = "start the server"
REMEDY = "if it stays so, see what it lacks (memory, disk, replicas), or is busy with"


@pytest.fixture
def nowhere(commands: Commands, tmp_path: Path) -> Path:
    """A directory that an embedded server might be in, and never was."""
    commands.url = f"embedded:{tmp_path / 'typo'}"
    return tmp_path / "typo"


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["peek"],
        ["crawls"],
        ["watch", "--count", 1],
        ["session", "list"],
        ["pause"],
        ["forget", URL],
        ["delete"],
    ],
    ids=lambda words: words[0],
)
def test_who_looks_where_no_server_ever_was_begins_none(
    commands: Commands, nowhere: Path, words: list[object]
) -> None:
    """It says so; a misspelt directory would look like an empty crawl."""
    place = ["--url", commands.url]
    if words[0] not in ("crawls", "session"):
        place += ["--crawl", commands.crawl]
    text = refusal(commands.run(*words, *place))
    assert text.startswith(f"There is no server in {nowhere}, and there never was:")
    assert not nowhere.exists()


def test_a_directory_of_something_else_stays_as_it_is(
    commands: Commands, nowhere: Path
) -> None:
    """Also by the doctor, who finds nothing to look at."""
    nowhere.mkdir()
    (nowhere / "notes.txt").touch()
    done = commands("doctor")
    assert (done.status, done.errors) == (1, "")
    (line,) = done.lines
    assert line.startswith(f"failed   connection: There is no server in {nowhere},")
    assert [one.name for one in nowhere.iterdir()] == ["notes.txt"]


def test_who_brings_something_begins_a_server(
    commands: Commands, nowhere: Path
) -> None:
    """And from then on who looks has it started."""
    assert commands("push", URL).output == "1 pushed, 0 known already, 0 bad\n"
    wait_until(lambda: not (nowhere / "server.sock").exists())
    assert commands("status", "--json").json["pending"] == 1
    wait_until(lambda: not (nowhere / "server.sock").exists())


def test_a_server_that_is_full_is_not_to_be_started(
    commands: Commands, fresh_server: StartServer, tmp_path: Path
) -> None:
    """It is there: the advice is another."""
    server = fresh_server()
    commands.url = server.url
    server.client().config_set("maxmemory", 1)
    file = tmp_path / "cookies.json"
    file.write_text('[{"name": "sid", "value": "1", "domain": "shop.example"}]')
    text = refusal(commands.run("session", "import", file, "--url", server.url))
    assert "no usable answer from the server (" in text
    assert "maxmemory" in text
    assert ADVICE not in text
    assert text.endswith(REMEDY)


@pytest.fixture
def busy_server(fresh_server: StartServer) -> Iterator[Server]:
    """One that runs a script without an end, of somebody else."""
    server = fresh_server()
    client = server.client()
    client.config_set("lua-time-limit", 1)

    def run_script() -> None:
        with suppress(redis.ResponseError):  # killed
            server.client(socket_timeout=None).eval("while true do end", 0)

    def is_busy() -> bool:
        try:
            return not client.ping()
        except redis.ResponseError:
            return True

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run_script)
        wait_until(is_busy)
        yield server
        client.script_kill()


def test_a_server_that_is_busy_is_not_to_be_started(
    commands: Commands, busy_server: Server
) -> None:
    """Nor does the doctor say so."""
    commands.url = busy_server.url
    text = refusal(commands("status"))
    assert "(BUSY " in text
    assert ADVICE not in text
    assert text.endswith(REMEDY)
    (line,) = commands("doctor").lines
    assert "(BUSY " in line
    assert "start it" not in line


def test_a_server_that_is_away_is_to_be_started(commands: Commands) -> None:
    """The doctor says so, too."""
    commands.url = "redis://127.0.0.1:1"
    assert ADVICE in refusal(commands("status"))
    (line,) = commands("doctor").lines
    assert line.endswith(": start it, or correct the URL")
