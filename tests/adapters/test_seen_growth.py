"""A seen set that outgrows what it was chosen for is told of, once."""

from __future__ import annotations

import logging

import pytest

from scrapy_redis_state.reports.seen_growth import MANY, SeenGrowth
from scrapy_redis_state.store.bloom import grown
from scrapy_redis_state.store.seen import SeenSet

PACKED = SeenSet("packed", 1_000_000)
BLOOM = SeenSet("bloom", 1_000_000, 0.001)


@pytest.mark.parametrize(
    ("seen", "limit", "texts"),
    [
        (SeenSet(), MANY, ["'packed' they would take 9", "'bloom' 2 to 4"]),
        (PACKED, 1_000_000, ["= 1,000,000: from about 1,200,000 on its sets convert"]),
        (BLOOM, 1_000_000, ["goes through up to 2 filters", "goes up to 0.00075"]),
    ],
)
def test_a_warning_says_what_it_costs(caplog, seen, limit, texts):
    """Not before the limit is passed, and not again after it."""
    growth = SeenGrowth(seen)
    with caplog.at_level(logging.WARNING):
        growth.look(limit)
        assert caplog.records == []
        growth.look(limit + 1)
        growth.look(2 * limit)
    (record,) = caplog.records
    assert f"{limit + 1:,} pages" in record.getMessage()
    for text in texts:
        assert text in record.getMessage()


@pytest.mark.parametrize(
    ("count", "filters"),
    [(0, 1), (10**6, 1), (10**6 + 1, 2), (3 * 10**6, 2), (10**7, 4)],
)
def test_each_filter_that_is_added_is_twice_as_large(count, filters):
    """And made for half the rate, so that all stay below what was asked for."""
    assert grown(BLOOM, count) == (filters, 0.001 * (1 - 0.5**filters))
