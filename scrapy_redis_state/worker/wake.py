"""Having the server say when there is something to do, instead of asking it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scrapy_redis_state.store.errors import RedisStateError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

STOP_SECS = 0.05
"""How long a listener that is told to stop may take before it is told again."""

PAUSE_SECS = 1.0
"""How long not to listen after the server could not be listened to."""


class WakeWatch:
    """Listens while there is nothing to do, until the server says that there is.

    It is a help only: who is never told finds out at the next exchange.

    :param listen: waits some seconds at most; True when there may be something to do
    :param is_wanted: whether there still is nothing to do
    :param wake: called when there may be
    """

    def __init__(
        self,
        listen: Callable[[], Awaitable[bool]],
        is_wanted: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        self._listen = listen
        self._is_wanted = is_wanted
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._is_refused = False
        self._stopped = False
        self.is_listening = False
        """The server would say so, as far as is known."""

    def start(self) -> None:
        """Listen, unless that is under way or not allowed."""
        if self._is_refused or self._stopped:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Listen no more; may be called again."""
        self._stopped = True
        task, self._task = self._task, None
        # The client swallows a cancellation while it connects: then it would listen for
        # as long as it ever does.
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=STOP_SECS)

    async def _run(self) -> None:
        try:
            # Before Python 3.11 the client's timeouts may swallow a cancellation.
            while self._is_wanted() and not self._stopped:
                self.is_listening = True
                if await self._heard():
                    self._wake()
                    return
        finally:
            self.is_listening = False

    async def _heard(self) -> bool:
        try:
            return await self._listen()
        except Unavailable as error:
            self.is_listening = False
            logger.debug("Not told of new requests now: %(error)s", {"error": error})
            await asyncio.sleep(PAUSE_SECS)
        except RedisStateError as error:
            self._is_refused = self._stopped = True
            logger.info(
                "This worker is not told of new requests and looks for them itself,"
                " which takes up to a second: %(error)s",
                {"error": error},
            )
        return False
