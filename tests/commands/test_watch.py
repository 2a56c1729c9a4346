"""The screen of ``watch``, drawn and seen: in memory, and in a real terminal."""

from __future__ import annotations

import gc
import io
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live

from docs.screenshot import PICTURE, picture
from scrapy_redis_state.commands.screen import screen
from scrapy_redis_state.commands.sight import Sight, line_of
from scrapy_redis_state.commands.sparkline import sparkline
from scrapy_redis_state.commands.verbs import watch
from tests.commands.commands import Commands
from tests.commands.sights import sight_of, worker_of
from tests.crawl.crawls import Crawls, wait_until_joined
from tests.processes import wait_until
from tests.site import Site
from tests.store.clients import StartServer

pytestmark = pytest.mark.one_server

SIZES = [(80, 24), (200, 50), (50, 20), (110, 26)]


def drawn(sight: Sight, width: int = 110, height: int = 30) -> list[str]:
    """The lines of a screen."""
    console = Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True,
        color_system=None, highlight=False, markup=False,
    )  # fmt: skip
    console.print(screen(sight, console))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


# --- drawn in memory -----------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("workers", [0, 2, 40])
def test_a_screen_fits_its_terminal(width: int, height: int, workers: int) -> None:
    """However many workers there are; those that find no room are counted."""
    lines = drawn(sight_of(workers=workers), width, height)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert "shop:offers  running" in text
    assert "41,200 of 60,250" in text
    if workers > height:
        shown = len(re.findall(r"[●○] w\d", text))
        assert f"and {workers - shown} more" in text


def test_all_is_on_the_screen() -> None:
    """What status tells, at a glance."""
    text = "\n".join(drawn(sight_of(workers=3, warnings=["it grows", "it is full"])))
    for part in (
        "68%", "ETA 12 min", "26.4/s", "21.9/s are found", "19,050", "pending 18,900",
        "in flight 48 (oldest 3 s)", "delayed 102", "dead 7", "start() is running",
        "server 61.0 MiB of 512.0 MiB, noeviction", "crawl 42.0 MiB",
        "requests 30.0 MiB",
        "! it grows", "! it is full", "host-1", "w0000000002", "▂", "█",
    ):  # fmt: skip
        assert part in text, part


def test_texts_of_others_are_no_markup() -> None:
    """Nor do they command the terminal."""
    worker = worker_of(1) | {"host": "[red]\x1b[2J"}
    sight = sight_of(warnings=["[bold]\x07"])
    assert sight.figures is not None
    sight = replace(sight, figures=sight.figures | {"worker_list": [worker]})
    text = "\n".join(drawn(sight, 160))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]" in text
    assert "[bold]" in text


def test_what_is_not_known_is_left_open() -> None:
    """A crawl that has just begun, or that was never seen."""
    begun = sight_of(rate=None, stored_rate=None, eta_secs=None, memory_bytes=None,
        memory_by_key=None, server_memory_bytes=None, done=0, pending=0, in_flight=0,
        delayed=0, oldest_lease_secs=None)  # fmt: skip
    text = "\n".join(drawn(replace(begun, rates=(), lefts=())))
    assert "0 of 0 known pages are done" in text
    never = replace(begun, figures=None, trouble="server away for 3 s")
    assert "server away for 3 s" in "\n".join(drawn(never))
    assert line_of(never).endswith("shop:offers  server away for 3 s")


def test_the_picture_in_the_documentation_can_be_drawn() -> None:
    """By its script, with nothing in it that is fetched from elsewhere."""
    drawn_now = picture()
    assert "shop:offers" in drawn_now
    for svg in (drawn_now, PICTURE.read_text()):
        assert "url(http" not in svg
        assert "@font-face" not in svg


def test_a_line_has_the_most_important() -> None:
    """For logs, and for terminals that are none."""
    line = line_of(sight_of(warnings=["it grows"]))
    for part in ("running", "done 41,200 (26.4/s)", "pending 18,900", "ETA 12 min"):
        assert part in line
    assert line.endswith("warning: it grows")
    assert "\n" not in line


def test_sparklines_are_of_the_last_values() -> None:
    """The tallest is the largest; nothing is a flat line."""
    assert sparkline([9, 0, 1, 2, 4], 4) == "▁▃▅█"
    assert sparkline([0, 0], 5) == "▁▁"
    assert sparkline([], 5) == ""
    assert sparkline([-3, 1], 2) == "▁█"


def refresh_often(first: int, then: int) -> int:
    """How many more objects there are after the second lot of refreshes."""
    console = Console(file=_Nowhere(), width=110, height=30, force_terminal=True)
    sights = [sight_of(workers=5, done=41_200 + number) for number in range(20)]
    with Live(console=console, screen=True, auto_refresh=False) as live:
        counts = []
        for times in (first, then):
            for number in range(times):
                live.update(screen(sights[number % 20], console), refresh=True)
            gc.collect()
            counts.append(len(gc.get_objects()))
    return counts[1] - counts[0]


def test_refreshing_does_not_add_up() -> None:
    """A screen may stay open for weeks."""
    assert refresh_often(20, 40) < 40


@pytest.mark.long
def test_refreshing_thousands_of_times_does_not_add_up() -> None:
    """As above."""
    assert refresh_often(100, 2000) < 100


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_rich_there_are_lines_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is an extra."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setitem(sys.modules, "rich", None)
    with watch._face() as show:
        assert show is watch._say_line
    assert "pip install 'scrapy-redis-state[watch]'" in capsys.readouterr().err


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_is_given_lines(
    monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    """And no escape sequence."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stdout", _Terminal())
    with watch._face() as show:
        show(sight_of())
    assert isinstance(sys.stdout, _Terminal)
    assert "\x1b" not in sys.stdout.getvalue()
    assert "shop:offers  running" in sys.stdout.getvalue()


# --- in a real terminal --------------------------------------------------------------


class Tmux:
    """A terminal of its own, with a shell in it.

    :param directory: for its socket
    """

    def __init__(self, directory: Path, width: int, height: int, env: dict[str, str]):
        self._socket = directory / f"tmux-{uuid.uuid4().hex[:6]}"
        self._env = {**os.environ, **env, "TMUX": ""}
        size = ["-x", str(width), "-y", str(height)]
        self._run("-f", os.devnull, "new-session", "-d", *size, "sh")

    def _run(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-u", *words]
        done = subprocess.run(command, env=self._env, capture_output=True, check=True)
        return done.stdout.decode()

    def type(self, text: str) -> None:
        """A line, as somebody would."""
        self._run("send-keys", "-l", text)
        self._run("send-keys", "Enter")

    def press(self, key: str) -> None:
        """A key by its name."""
        self._run("send-keys", key)

    def resize(self, width: int, height: int) -> None:
        self._run("resize-window", "-x", str(width), "-y", str(height))

    @property
    def text(self) -> str:
        """What is to be seen."""
        return self._run("capture-pane", "-p")

    @property
    def is_on_other_screen(self) -> bool:
        """Whether a program has the terminal for itself."""
        return self._run("display-message", "-p", "#{alternate_on}").strip() == "1"

    def close(self) -> None:
        self._run("kill-server")


@pytest.fixture
def terminal(commands: Commands, short_directory: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        if os.environ.get("CI"):
            pytest.fail("tmux is not installed: .ci/run installs it")
        pytest.skip("tmux is not installed")
    env = {"PYTHONPATH": commands.path, "PS1": "$ ", "LC_ALL": "C.UTF-8"}
    with closing(Tmux(short_directory, 110, 26, env)) as terminal:
        yield terminal


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A socket's path may not be long."""
    path = Path("/tmp") / f"srs-{uuid.uuid4().hex[:8]}"  # noqa: S108 - for a socket
    path.mkdir(mode=0o700)
    yield path
    shutil.rmtree(path)


def see(terminal: Tmux, *parts: str) -> str:
    """Wait until all of it is to be seen."""

    def seen() -> str:
        text = terminal.text
        return text if all(part in text for part in parts) else ""

    return wait_until(seen, 60, lambda: f"{parts} in\n{terminal.text}")


def test_a_crawl_is_watched_in_a_terminal(
    terminal: Tmux, commands: Commands, crawls: Crawls, fresh_server: StartServer
) -> None:
    """While it runs, its server goes and comes, the window changes; until Ctrl-C."""
    server = fresh_server(appendonly=True)
    commands.url = server.url
    with Site() as site, site.held():
        worker = crawls.programs.crawl(
            "pages",
            arguments={"site": site.url, "count": 9},
            env=commands.project_env(),
        )
        wait_until_joined(worker)
        words = f"--url {server.url!r} --crawl {commands.crawl}:pages --interval 1"
        program = f"{sys.executable} -m scrapy redis-state watch {words}"
        terminal.type(f"{program}; echo ended with $?")
        see(
            terminal, "pages  running", "in flight", str(worker.pid), "of 9 known pages"
        )
        assert terminal.is_on_other_screen
        terminal.resize(80, 24)
        see(terminal, "pages  running", "╯")
        server.stop()
        see(terminal, "server away for", "of 9 known pages")
        server.start()
        wait_until(lambda: "server away" not in terminal.text, 60)
        see(terminal, "pages  running")
        terminal.press("C-c")
        see(terminal, "ended with 0")
        assert not terminal.is_on_other_screen
        assert "Traceback" not in terminal.text
    worker.wait_for_success()
