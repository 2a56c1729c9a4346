"""Warnings about a seen set that outgrows what it was chosen for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_redis_state.store.bloom import grown

if TYPE_CHECKING:
    from scrapy_redis_state.store.seen import SeenSet

logger = logging.getLogger(__name__)

MANY = 5_000_000
"""Members of an exact set from which on its memory is worth a thought."""

PACKED_LIMIT = 1.2
"""Times its capacity that a packed set may hold before shards convert: their mean is
then 456, 2.6 standard deviations below the limit of 512."""


class SeenGrowth:
    """Looks at the number of pages seen, and warns once when it is a lot.

    :param seen: the crawl's seen set
    """

    def __init__(self, seen: SeenSet) -> None:
        self._seen = seen
        self._limit = MANY if seen.kind == "exact" else seen.capacity
        self._warned = False

    def look(self, count: int) -> None:
        """Tell it how many there are now."""
        if count > self._limit and not self._warned:
            self._warned = True
            logger.warning(self._warning(count))

    def _warning(self, count: int) -> str:
        if self._seen.kind == "exact":
            return (
                f"The seen set has {count:,} pages, 40 to 100 bytes each. With"
                " REDIS_STATE_SEEN = 'packed' they would take 9, with 'bloom' 2 to 4,"
                " and a few new pages would be taken for seen ones; choose for the next"
                " crawl (docs: memory)"
            )
        capacity = f"REDIS_STATE_SEEN_CAPACITY = {self._seen.capacity:,}"
        if self._seen.kind == "packed":
            most = round(self._seen.capacity * PACKED_LIMIT)
            return (
                f"The seen set has {count:,} pages and was made for {capacity}: from"
                f" about {most:,} on its sets convert, and each page takes five times"
                " the memory; set more for the next crawl"
            )
        filters, rate = grown(self._seen, count)
        return (
            f"The seen set has {count:,} pages and was made for {capacity}: the filter"
            f" grows. It takes up to twice the memory per page, each look at it goes"
            f" through up to {filters} filters, and the share of new pages taken for"
            f" seen ones goes up to {rate:.2g}; set more for the next crawl"
        )
