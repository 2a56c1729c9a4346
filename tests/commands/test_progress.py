"""How far a long verb is: a line on a terminal, and nothing anywhere else."""

from __future__ import annotations

import io
import sys

import pytest

from scrapy_redis_state.commands import progress
from scrapy_redis_state.commands.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def __call__(self) -> str:
        """What was written since the last look."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(progress, "EVERY_SECS", 0)


def test_a_terminal_shows_a_bar_and_a_rate(monkeypatch):
    """Of a file, whose size is known; the line is taken away at the end."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress("requests") as shown:
        shown.show(1234, 50, 200)
        line = terminal()
        assert line.startswith(
            "\r\x1b[K[######..................]  25%  1,234 requests, "
        )
        assert line.endswith("/s")
    assert terminal() == "\r\x1b[K"


def test_the_bar_of_a_crawl_that_is_moved_is_its_entries(monkeypatch):
    """Of about so many: it is never more than all."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress("entries") as shown:
        shown.show_entries(12, 24)
        assert "[############............]  50%  12 entries, " in terminal()
        shown.show_entries(30, 24)
        assert "] 100%  30 entries, " in terminal()


def test_input_without_an_end_has_no_bar(monkeypatch):
    """Only how many there were, and how fast they come."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress("requests") as shown:
        shown.show(7)
        assert terminal().startswith("\r\x1b[K7 requests, ")


def test_nothing_is_written_where_nobody_looks(capfd):
    """To a file or a pipe."""
    with Progress("requests") as shown:
        shown.show(5, 100, 200)
    assert capfd.readouterr() == ("", "")
