"""The measurement of whole crawls, in small: its figures make sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.crawling import web
from benchmarks.crawling.plan import ROUND_TRIPS_MS, steps_of, summaries
from benchmarks.crawling.stage import stage
from benchmarks.crawling.systems import (
    OURS,
    OURS_FULL,
    STOCK,
    STOCK_COOKIES,
    scrapy_redis,
)
from benchmarks.crawling.trial import Row

PAGES = 40


@pytest.mark.one_server
def test_stock_and_shared_crawl_see_the_same_site(monkeypatch):
    """Both do every page; one of them with the server's help, at the distance told."""
    # The web server that is everywhere.
    monkeypatch.setattr(web, "nginx", lambda: None)
    with stage(PAGES) as (trials, figures):
        assert trials.distance_ms(20) > 20
        ours = trials.run(OURS_FULL, 14, 20)
        stock = trials.run(STOCK_COOKIES, 14)
    assert figures["site"] == {"pages": PAGES, "links": 14}
    # start() is not filtered, and so the first page is done twice.
    assert ours.pages == stock.pages == PAGES + 1
    assert stock.round_trips_page == stock.commands_page == 0
    assert ours.round_trips_page * ours.pages > 3
    # Every page is stored, popped and acked.
    assert ours.commands_page > 3
    assert min(ours.pages_per_second, stock.pages_per_second) > 0
    assert ours.closing_seconds is not None
    assert ours.closing_seconds >= 0


def test_a_round_runs_each_system_and_ratios_are_of_one_round():
    """What another round was like does not matter."""
    other = scrapy_redis("python")
    runs = [(step.system.name, step.round_trip_ms) for step in steps_of(0, other)]
    assert len(runs) == len(set(runs))
    assert {(OURS.name, ms) for ms in ROUND_TRIPS_MS} < set(runs)
    assert {STOCK.name, STOCK_COOKIES.name, OURS_FULL.name} < dict(runs).keys()
    assert len(steps_of(8, other)) < len(runs), "at a distance in a few rounds only"
    assert other.name not in {step.system.name for step in steps_of(0, None)}

    stock = Row("stock", 14, 0, 9, 100, 1000, 1, 0.1, 90, 0, 0, 0)
    ours = replace(stock, system="ours", pages_per_second=90, startup_seconds=1.2)
    slow = [
        replace(row, pages_per_second=row.pages_per_second / 4) for row in (ours, stock)
    ]
    found = {one.system: one for one in summaries([[stock, ours], slow])}
    assert found["ours"].ratio is not None
    assert found["ours"].ratio.values == (0.9, 0.9)
    assert found["ours"].startup_more_seconds == pytest.approx(0.2)
    assert found["stock"].ratio is None
