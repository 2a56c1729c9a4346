"""Notices that the event loop stood still for longer than a lease."""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger(__name__)


class StallWatch:
    """Looks at the loop's clock again and again, and says when a look came too late.

    A worker whose loop stands still sends no beats, however healthy its server is.

    :param lease_secs: after so long without a beat others get what the worker holds
    :param look_secs: from one look to the next; well below a lease
    """

    def __init__(self, lease_secs: float, look_secs: float) -> None:
        self._lease_secs = lease_secs
        self._look_secs = look_secs
        self._looked_at = 0.0
        self._next: asyncio.TimerHandle | None = None
        self.stalls = 0

    def start(self) -> None:
        """Begin, in the loop to be watched."""
        loop = asyncio.get_running_loop()
        self._looked_at = loop.time()
        self._next = loop.call_later(self._look_secs, self._look, loop)

    def stop(self) -> None:
        """Look no more; may be called again."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now, before = loop.time(), self._looked_at
        self._looked_at = now
        self._next = loop.call_later(self._look_secs, self._look, loop)
        if now - before >= self._lease_secs:
            self._report(now - before)

    def _report(self, secs: float) -> None:
        self.stalls += 1
        logger.warning(
            "The event loop stood still for %(secs).1f s, longer than a lease"
            " (REDIS_STATE_LEASE_SECS = %(lease)g): what this worker ran may be done"
            " again by others. Either something blocked it, that is computed or waited"
            " without awaiting (time.sleep, requests, a large file): move that to a"
            " thread (asyncio.to_thread), or set REDIS_STATE_LEASE_SECS above what it"
            " takes, in all workers. Or the process was stopped, or had no CPU.",
            {"secs": secs, "lease": self._lease_secs},
        )
