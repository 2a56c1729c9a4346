"""How many pages a Bloom filter has cost, as far as chance tells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_redis_state.store.seen import SeenSet

GROWTH = 2
"""Each filter that is added is so many times as large; include/seen.lua asks for it."""

TIGHTENING = 0.5
"""Each filter, the first one too, is made for so much of the error rate before it, so
that all together stay below the one asked for: as RedisBloom does it."""

_STEPS = 200


def grown(seen: SeenSet, count: int) -> tuple[int, float]:
    """How many filters hold *count* pages, and the error rate that they add up to."""
    filters, room = 1, seen.capacity
    while room < count:
        room += seen.capacity * GROWTH**filters
        filters += 1
    return filters, seen.error_rate * (1 - TIGHTENING**filters)


def expected_losses(seen: SeenSet, count: int) -> float:
    """Expected number of new pages that were taken for seen ones, and so never crawled.

    :param seen: with its capacity and error rate
    :param count: pages in the filter
    """
    lost = 0.0
    capacity, rate = seen.capacity, seen.error_rate * TIGHTENING
    full = 1.0  # chance that no full filter takes a new page for a seen one
    while count > 0:
        added = min(count, capacity)
        for step in range(_STEPS):
            share = added * (step + 0.5) / _STEPS / capacity
            passed = full * (1 - _error_rate(share, rate))
            lost += added / _STEPS * (1 - passed) / passed
        full *= 1 - _error_rate(1.0, rate)
        count -= added
        capacity, rate = capacity * GROWTH, rate * TIGHTENING
    return lost


def _error_rate(share: float, rate: float) -> float:
    """Of a filter made for *rate* that has *share* of its capacity."""
    bits = -math.log(rate) / math.log(2) ** 2
    hashes = math.ceil(math.log(2) * bits)
    return float((1 - math.exp(-hashes * share / bits)) ** hashes)
