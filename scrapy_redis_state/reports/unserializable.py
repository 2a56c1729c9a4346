"""Requests that cannot be encoded: counted, and told once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.statscollectors import StatsCollector

    from scrapy_redis_state.codec import NotEncodable

logger = logging.getLogger(__name__)

ENOUGH = 50
"""Requests after which it can be said what most of them are like."""


class Unserializable:
    """Says why the first one is not shared, and when that is true of most."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        # Not read from the statistics, which may be switched off.
        self._is_first = True
        self._local = self._all = 0
        self._warned = False

    def note(self, request: Request, error: NotEncodable) -> None:
        """Count *request*, which will run in this process alone."""
        self._stats.inc_value("scheduler/unserializable")
        if self._is_first:
            self._is_first = False
            logger.warning(
                "Cannot be stored, and so runs in this process alone (later ones are"
                " only counted, as scheduler/unserializable): %(error)s",
                {"error": error},
            )
        else:
            logger.debug(
                "Runs in this process alone: %(request)s", {"request": request}
            )

    def note_enqueued(self, *, is_local: bool) -> None:
        """Count a request that was not seen before."""
        self._all += 1
        self._local += is_local
        if not self._warned and self._local >= ENOUGH and self._local * 2 > self._all:
            self._warned = True
            logger.warning(
                "Most requests of this spider cannot be stored (%(local)d of %(all)d):"
                " the crawl is mostly not shared",
                {"local": self._local, "all": self._all},
            )
