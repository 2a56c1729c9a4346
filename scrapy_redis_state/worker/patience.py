"""Trying again while the server cannot be reached."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, TypeVar

from scrapy_redis_state.store.errors import Unavailable
from scrapy_redis_state.worker import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_DELAY_SECS = 0.05
LONGEST_DELAY_SECS = 2.0
CALL_SECS = 30.0
"""What takes longer is not waited for: a worker must not be alive and deaf."""


class Patience:
    """Repeats a call, ever more slowly, until it is answered or patience is over.

    One log line is written when the server is lost, and one when it is back.

    :param outage_secs: how long to go on without any answer
    :param longest_delay_secs: between two tries; well below a lease, so that an outage
        alone costs nobody one
    """

    def __init__(self, outage_secs: float, longest_delay_secs: float) -> None:
        self._outage = outage_secs
        self._longest = min(longest_delay_secs, LONGEST_DELAY_SECS)
        self._reachable = True

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """The first answer of *function*.

        :raises Unavailable: the last of them, when patience is over
        """
        since, delay = clock.now(), FIRST_DELAY_SECS
        while True:
            try:
                answer = await _bounded(function())
            except Unavailable as error:
                if clock.now() - since >= self._outage:
                    raise
                self._note(error)
                # Jitter, or all workers come back in the same moment.
                await asyncio.sleep(random.uniform(0.5, 1) * delay)  # noqa: S311
                delay = min(delay * 2, self._longest)
            else:
                self._note(None)
                return answer

    def _note(self, error: Exception | None) -> None:
        if (error is None) == self._reachable:
            return
        self._reachable = error is None
        if error is None:
            logger.info("The server answers again")
        else:
            logger.warning(
                "The server does not answer, trying again: %(error)s", {"error": error}
            )


async def _bounded(call: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(call, CALL_SECS)
    except asyncio.TimeoutError:
        raise Unavailable(f"no answer within {CALL_SECS:g} s") from None
