"""Ending in time when the process is told to stop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_redis_state.engine import EngineLink
    from scrapy_redis_state.worker.worker import Worker

logger = logging.getLogger(__name__)

SIGNAL_POLL_SECS = 0.2
"""How often a closing crawler looks whether the process was told to stop."""


async def end_in_time(link: EngineLink, worker: Worker, grace_secs: float) -> None:
    """After a signal, wait so long for running pages, and then for none.

    Pages that wait for their download do not run yet, and are handed back at once.
    Without a signal, a closing crawler waits for its pages as long as they take.
    """
    while not link.stopping:  # noqa: ASYNC110 - Scrapy tells nobody
        await asyncio.sleep(SIGNAL_POLL_SECS)
    link.release_undownloaded()
    await asyncio.sleep(grace_secs)
    logger.warning(
        "Stopping after %(grace)g s (REDIS_STATE_SHUTDOWN_GRACE_SECS): handed back"
        " %(count)d pages that still run",
        {"grace": grace_secs, "count": worker.release_running()},
    )
    link.abandon()
