"""``push`` with more lines than one call carries."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.steps import BATCH
from tests.commands.commands import Commands
from tests.processes import Program, Programs, wait_until
from tests.servers import Server

pytestmark = pytest.mark.one_server

MANY = 5 * BATCH


def url(number: int) -> str:
    return f"http://shop.example/{number}"


def lines(first: int, count: int) -> bytes:
    return "".join(f"{url(first + number)}\n" for number in range(count)).encode()


def test_bad_lines_are_told_in_order_wherever_they_are(
    commands: Commands, state: CrawlState, tmp_path: Path
) -> None:
    """And the others go in, in order."""
    bad = [0, 1, BATCH - 1, BATCH, 3 * BATCH + 7, MANY - 1]
    given = ["nonsense" if n in bad else url(n) for n in range(MANY)]
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(given))
    done = commands("push", "--file", file)
    good = MANY - len(bad)
    assert done.status == 1
    assert done.output == f"{good:,} pushed, 0 known already, {len(bad)} bad\n"
    told = re.findall(r"^redis-state: line (\d+): ", done.errors, re.MULTILINE)
    assert told == [str(number + 1) for number in bad]
    found = [one.url for one in state.peek(4000)]
    assert found == [one for one in given if one != "nonsense"]


class Push:
    """A push of lines that are written bit by bit."""

    def __init__(self, program: Program, pipe: FileIO, state: CrawlState) -> None:
        self.program = program
        self.pipe = pipe
        self.state = state

    def begin(self, count: int) -> None:
        """Write lines, and wait until all that make up whole calls are stored."""
        self.pipe.write(lines(0, count))
        wait_until(lambda: self.state.size() == count // BATCH * BATCH)

    def end(self) -> int:
        """The exit status."""
        return self.program.wait()

    @property
    def told(self) -> tuple[int, ...]:
        """How many were pushed, were known already, and may be in as well."""
        (line,) = (
            one for one in self.program.output.splitlines() if "stopped: " in one
        )
        return tuple(int(one) for one in re.findall(r"\d+", line.replace(",", "")))


@pytest.fixture
def push(
    commands: Commands, programs: Programs, state: CrawlState, tmp_path: Path
) -> Iterator[Push]:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    place = ["--url", commands.url, "--crawl", commands.crawl]
    program = programs.scrapy(
        "redis-state", "push", *place, "--file", pipe, env={"PYTHONPATH": commands.path}
    )
    with pipe.open("wb", buffering=0) as writing:
        yield Push(program, writing, state)


def test_who_interrupts_it_is_told_what_is_in(push: Push) -> None:
    """Known to be, and perhaps."""
    push.begin(MANY + 3)
    push.program.interrupt()
    assert push.end() == 130
    pushed, known, perhaps = push.told
    assert known == 0
    assert 0 < pushed <= push.state.size() == MANY <= pushed + perhaps


def test_who_loses_the_server_is_told_what_is_in(push: Push, server: Server) -> None:
    """With the error; to push all of it again is no harm."""
    push.begin(MANY + 3)
    client = server.client()
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with suppress(BrokenPipeError):  # it may end before it has read all
        push.pipe.write(lines(MANY + 3, 2 * BATCH))
    assert push.end() == 1
    assert "no usable answer from the server" in push.program.output
    pushed, known, perhaps = push.told
    assert known == 0
    assert 0 < pushed <= push.state.size() <= pushed + perhaps


def test_it_says_nothing_of_what_is_in_where_nothing_is(commands: Commands) -> None:
    """The error is enough."""
    commands.url = "redis://127.0.0.1:1"
    done = commands("push", "--file", "-", text=lines(0, MANY).decode())
    assert done.status == 1
    (line,) = done.errors.splitlines()
    assert "no usable answer" in line
