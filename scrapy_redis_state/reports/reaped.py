"""What is told of work that a call took back, whoever made the call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from scrapy_redis_state.store.messages import Reaped

logger = logging.getLogger(__name__)


def report_reaped(reaped: Reaped, stats: StatsCollector) -> None:
    """Log and count it; nothing is said of nothing."""
    if reaped.requeued:
        logger.info(
            "Took back the work of dead workers: %(count)d requests",
            {"count": reaped.requeued},
        )
    if reaped.buried:
        logger.error(
            "Gave up %(count)d requests, now dead letters: whoever ran them died",
            {"count": reaped.buried},
        )
    if reaped.repaired:
        logger.warning(
            "Damaged entries in the crawl's keys were repaired: %(count)d. Another"
            " program writes to them; keep it away",
            {"count": reaped.repaired},
        )
    for name, count in reaped._asdict().items():
        if count:
            stats.inc_value(f"redis_state/reaper/{name}", count)
