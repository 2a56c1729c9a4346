"""A line that tells how far a verb is: how many, how fast, and what share of all."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

EVERY_SECS = 0.2
WIDTH = 24
"""Of the bar, in characters."""

_ERASE = "\r\x1b[K"


class Progress:
    """A line on the terminal of stderr, written over and over; else nothing.

    :param what: is counted, such as ``requests``
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._began = self._shown_at = time.monotonic()
        self._line = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.hide()

    def show(self, done: int, part: int = 0, whole: int = 0) -> None:
        """Tell how many are done, now and then.

        :param part: of *whole*, for a bar, whatever they count; 0: it is not known how
            much there is, so there is no bar
        """
        now = time.monotonic()
        if not self._is_shown or now - self._shown_at < EVERY_SECS:
            return
        self._shown_at = now
        rate = done / (now - self._began)
        self._write(f"{_bar(part, whole)}{done:,} {self._what}, {rate:,.0f}/s")

    def show_entries(self, done: int, total: int) -> None:
        """The same, where what is done is counted like all there is."""
        self.show(done, done, total)

    def hide(self) -> None:
        """Take the line away, for other text; the next :meth:`show` brings it back."""
        if self._line:
            self._write("")

    def _write(self, line: str) -> None:
        self._line = line
        sys.stderr.write(_ERASE + line)
        sys.stderr.flush()


def _bar(part: int, whole: int) -> str:
    if not whole:
        return ""
    share = min(1.0, part / whole)
    filled = round(share * WIDTH)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%}  "
