"""Waiting for conditions, cut short by Ctrl-C and by a deadline."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

POLL_SECS = 0.1


class ScenarioError(Exception):
    """The demonstration could not go on; the text says why and what to do."""


class Interrupted(Exception):
    """The user, or the system, asked the run to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


class Patience:
    """Waits, until the deadline of the whole run or a signal.

    A signal is only noted by its handler and raised from the next wait, so it never
    comes between the start of a process and the note that it has to be ended, nor into
    the clean-up.
    """

    def __init__(self, limit_secs: float) -> None:
        self.limit_secs = limit_secs
        self._start = time.monotonic()
        self._signal = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def elapsed(self) -> float:
        """Seconds since the start of the run."""
        return time.monotonic() - self._start

    def check(self) -> None:
        """Raise if the run has to end now.

        :raises Interrupted: after SIGINT, SIGTERM or SIGHUP
        :raises ScenarioError: when the run has taken longer than its limit
        """
        if self._signal:
            raise Interrupted(self._signal)
        if self.elapsed() > self.limit_secs:
            text = f"not done after {self.limit_secs:.0f} s (the limit is --time-limit)"
            raise ScenarioError(text)

    def wait_until(
        self, condition: Callable[[], bool], meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Return once ``condition`` holds; call ``meanwhile`` between two looks.

        :raises Interrupted, ScenarioError: as `check`
        """
        while not condition():
            self.check()
            if meanwhile is not None:
                meanwhile()
            time.sleep(POLL_SECS)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
