"""Parts of the package that are used without the others, or with parts of Scrapy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl import lessee
from tests.crawl.crawls import (
    Crawls,
    close_reason,
    finish,
    stats,
    total,
)
from tests.crawl.shop import Shop
from tests.processes import wait_until
from tests.site import Site

pytestmark = pytest.mark.one_server


def test_the_reaper_alone_brings_back_a_dead_programs_work(crawls: Crawls) -> None:
    """A spider with Scrapy's own scheduler revives what another program had leased."""
    id = f"{crawls.bot}:shop"
    with Shop(40) as shop, crawls.state(id) as state:
        # A crawl with a lease of two seconds and something to do.
        first = crawls.start(
            "shop", site=shop.url, settings={"CLOSESPIDER_PAGECOUNT": 3}
        )
        first.wait_for_success()
        pending = state.size()
        program = crawls.programs.python(lessee.__file__, crawls.server.url, id, "5")
        program.wait_for_output("holds 5")
        assert state.size() == pending - 5
        program.kill()
        busy = crawls.start(
            "busy",
            site=shop.url,
            settings={
                "ADDONS": "{}",
                "EXTENSIONS": '{"scrapy_redis_state.reaper.Reaper": 0}',
                "REDIS_STATE_CRAWL_ID": id,
            },
        )
        wait_until(lambda: state.size() == pending, 20)
        assert busy.running
        busy.terminate()
        busy.wait_for_success()
        assert close_reason(busy) == "shutdown"
        assert state.fsck() == []
        leased = state.lease(5)
        assert [one.deliveries for one in leased] == [1] * 5
    assert stats(busy)["redis_state/reaper/requeued"] == 5
    assert "Took back the work of dead workers: 5 requests" in busy.output


def test_the_filter_alone_is_shared(crawls: Crawls) -> None:
    """Two crawls with Scrapy's own scheduler never fetch the same page."""
    settings = {
        "ADDONS": "{}",
        "DUPEFILTER_CLASS": "scrapy_redis_state.dupefilter.DupeFilter",
    }
    with Shop(60, delay=0.1) as shop:
        both = [
            crawls.start("rules", site=shop.url, settings=settings) for _ in range(2)
        ]
        finish(*both)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        # Scrapy does not filter start requests, and a link leads back to this one.
        assert shop.visits["/list/0"] == 3
        del shop.visits["/list/0"]
        assert set(shop.visits.values()) == {1}
    assert all(stats(worker)["dupefilter/filtered"] for worker in both)
    assert all("each request waits for Redis" in worker.output for worker in both)


@pytest.mark.parametrize(
    ("dupefilter", "visits", "warns"),
    [
        ("scrapy_redis_state.dupefilter.DupeFilter", 1, False),
        ("scrapy.dupefilters.RFPDupeFilter", 1, False),
        ("scrapy.dupefilters.BaseDupeFilter", 2, False),
        ("tests.crawl.project.filters.OurOwnFilter", 1, True),
    ],
)
def test_another_filter_is_honoured(
    crawls: Crawls, dupefilter: str, visits: int, *, warns: bool
) -> None:
    """A filter that is per process is used, and warned about; Scrapy's means ours."""
    with Site() as site:
        worker = crawls.start(
            "twice", site=site.url, settings={"DUPEFILTER_CLASS": dupefilter}
        )
        finish(worker)
        assert site.visits == {"/start": 1, "/linked-twice": visits}
    assert stats(worker)["dupefilter/filtered"] == 2 - visits
    warning = f"DUPEFILTER_CLASS is {dupefilter}: it filters per process"
    assert (warning in worker.output) == warns


def test_no_reactor_is_needed(crawls: Crawls) -> None:
    """With TWISTED_REACTOR_ENABLED = False a crawl is shared and stopped the same."""
    settings = {"TWISTED_REACTOR_ENABLED": False}
    with Shop(60, delay=0.1) as shop:
        workers = crawls.start_together(2, "shop", shop, settings=settings)
        wait_until(lambda: crawls.items(workers[0]), 30)
        workers[0].terminate()
        workers[0].wait_for_success()
        finish(workers[1])
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
    assert close_reason(workers[0]) == "shutdown"
    assert total("redis_state/redelivered", workers) == 0


def test_a_spider_file_needs_no_project(crawls: Crawls, tmp_path: Path) -> None:
    """``scrapy runspider`` shares a crawl with two lines in custom_settings."""
    spider = tmp_path / "alone.py"
    spider.write_text(ALONE)
    with Site() as site:
        env = {"SCRAPY_SETTINGS_MODULE": ""}
        workers = crawls.start_together(2, str(spider), site, env=env)
        finish(*workers)
        assert sorted(site.visits.values()) == [1] * 10
    with crawls.state("alone") as state:
        assert state.status().summary.done == 10


ALONE = """
import scrapy


class AloneSpider(scrapy.Spider):
    name = "alone"
    custom_settings = {"ADDONS": {"scrapy_redis_state.Addon": 500}}

    def __init__(self, site, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/{n}?delay=0.1" for n in range(10)]

    def parse(self, response):
        pass
"""
