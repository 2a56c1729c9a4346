"""How far the crawl is, on a terminal or in a log."""

from __future__ import annotations

import os
import shutil
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

LIVE_SECS, PLAIN_SECS = 0.25, 3.0
"""Between two looks: on a terminal, where a line is rewritten, and elsewhere."""
RATE_SECS = 3.0
"""Span over which the rate is measured."""
CLEAR_LINE = "\r\x1b[K"


class Figures(NamedTuple):
    """What the progress line shows."""

    pages: int
    items: int
    workers: int
    pending: int
    in_flight: int


@dataclass
class Progress:
    """Prints events as lines; on a terminal one line below them tells the figures."""

    stream: TextIO = field(default_factory=lambda: sys.stdout)
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _shown_at: float = 0.0
    _line: str = ""
    """What stands in the last line of the terminal."""

    def __post_init__(self) -> None:
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        self.is_live = self.stream.isatty() and not is_dumb

    def say(self, now: float, text: str) -> None:
        """Print an event; ``now`` counts seconds from the start of the run."""
        line, self._line = self._line, ""
        self._write(f"{CLEAR_LINE if line else ''}{now:5.1f} s  {text}\n")
        if line:
            self._draw(line)

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to show figures again."""
        return now - self._shown_at >= (LIVE_SECS if self.is_live else PLAIN_SECS)

    def show(self, now: float, figures: Figures) -> None:
        """Print the figures, or put them in place of the last ones."""
        self._shown_at = now
        text = describe(figures, self._rate(now, figures.pages))
        if self.is_live:
            self._draw(f"{now:5.1f} s  {text}")
        else:
            self.say(now, text)

    def close(self) -> None:
        """Remove the live line."""
        if self._line:
            self._write(CLEAR_LINE)
            self._line = ""

    def _draw(self, line: str) -> None:
        # A line that wraps could not be rewritten.
        width = shutil.get_terminal_size().columns - 1
        self._line = line
        self._write(f"{CLEAR_LINE}{line[:width]}")

    def _rate(self, now: float, pages: int) -> float:
        """Pages a second, lately."""
        self._seen.append((now, pages))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_SECS:  # noqa: PLR2004 - two make a span
            self._seen.popleft()
        since, before = self._seen[0]
        return (pages - before) / (now - since) if now > since else 0.0

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def describe(figures: Figures, rate: float) -> str:
    """Put the figures into one line of less than 80 characters."""
    return (
        f"{figures.pages} pages, {figures.items} items, {figures.workers} workers,"
        f" {figures.pending} pending, {figures.in_flight} in flight, {rate:.1f}/s"
    )
