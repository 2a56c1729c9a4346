"""How pages end, and the exceptions by which a download says it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from scrapy.exceptions import IgnoreRequest


class Outcome(NamedTuple):
    """How a page ended."""

    kind: Literal["done", "delay", "fail", "bury", "release"]
    """``done``: it needs no further attention. ``delay``: it has to wait for something
    and is not to blame. ``fail``: a callback or a pipeline raised. ``bury``: Scrapy
    gave up downloading it and no errback took over. ``release``: it asked for the
    spider to be closed; it is not to blame."""
    reason: str = ""
    """The exception and the end of its traceback; empty for ``done``."""
    delay_ms: int = 0
    """Of ``delay`` and ``fail``: how long it has to wait; 0: as usual."""


class PutOff(IgnoreRequest):
    """A page is not downloaded now: neither its errback nor the log is to see that."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason or outcome.kind)
        self.outcome = outcome


class SessionInvalid(IgnoreRequest):
    """The session of a request is no good, and was not to be had.

    What an errback gets; without one the request becomes a dead letter.
    """
