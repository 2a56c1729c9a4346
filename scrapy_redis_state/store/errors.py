"""What can go wrong between this package and its server.

::

    RedisStateError
    +-- Unavailable     no usable answer now; the same call may succeed later
    +-- StateLost       the server answers, but the crawl's data is gone
    +-- CommandFailed   the server rejected a command that it should accept
    +-- Refused         will not work until a person changes something (a ValueError)

Each is one line that says what is wrong and what to do. None carries a password.
"""

from __future__ import annotations


class RedisStateError(Exception):
    """Base of all errors of the store."""


class Unavailable(RedisStateError):
    """The server cannot be reached, is starting, or takes no writes for now."""

    close_reason = "redis_unavailable"

    def __init__(self, text: str = "", *, answers: bool = False) -> None:
        super().__init__(text)
        self.answers = answers
        """There is a server, which says that it cannot now: it is full, or busy."""


class StateLost(RedisStateError):
    """The crawl's keys vanished, were overwritten, or are another generation's."""

    close_reason = "redis_state_lost"


class CommandFailed(RedisStateError):
    """The server answered a command or a script with an error nobody expected."""


class Refused(RedisStateError, ValueError):
    """A URL, a server or a value cannot be used as it is; trying again is no help."""


def one_line(error: Exception) -> str:
    """The text of any error in one line; without one, its name."""
    return " ".join(str(error).split()) or type(error).__name__


def no_crawl(crawl: str) -> Refused:
    """The error that there is no crawl of this id."""
    return Refused(
        f"There is no crawl {crawl!r} here: 'scrapy redis-state crawls' lists those"
        " that there are."
    )
