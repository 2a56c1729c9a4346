"""How it goes with the server of the sessions: counted, and told without repetition."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from scrapy_redis_state.store.errors import Refused, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_redis_state.store.keys import SessionKey

logger = logging.getLogger(__name__)

_TOLD = 100
"""Problems that are named in the log; all are counted."""

FOR_ALL = (Unavailable, Refused)
"""Errors that are not about one session."""

Way = Literal["read", "written"]


class SessionReport:
    """What works and what does not.

    :param count: told what statistics count
    :param level: at which to log an outage
    """

    def __init__(self, count: Callable[[str], None], level: Callable[[], int]) -> None:
        self.count = count
        self._level = level
        self._failing: set[Way] = set()
        self._told: set[str] = set()

    def is_failing(self, *ways: Way) -> bool:
        """Whether sessions cannot be read, or written; no way named: either."""
        return bool(self._failing & set(ways) if ways else self._failing)

    def fails(self, way: Way, why: str) -> None:
        """The server did not answer, or will not."""
        if not self._failing:
            logger.log(
                self._level(),
                "Sessions are not shared for now, each process goes on with what it"
                " knows: %(why)s",
                {"why": why},
            )
        self._failing.add(way)

    def works(self, way: Way) -> None:
        """The server answered."""
        if way in self._failing:
            self._failing.remove(way)
            if not self._failing:
                logger.info("Sessions are shared again")

    def tell(self, what: str, key: SessionKey, problem: str) -> None:
        """Count a problem with what is stored, and name it once."""
        self.count(what)
        text = f"{key}: {problem}"
        if text in self._told or len(self._told) >= _TOLD:
            return
        self._told.add(text)
        logger.warning("Session %(problem)s", {"problem": text})
