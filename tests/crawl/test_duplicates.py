"""One page is crawled once, however its links are spelt."""

from __future__ import annotations

import pytest

from tests.crawl.crawls import Crawls, finish, stats, total
from tests.site import Site

pytestmark = pytest.mark.one_server

STRIP = "REDIS_STATE_STRIP_QUERY_PARAMS"


def test_tracking_parameters_make_no_page(crawls: Crawls) -> None:
    """The first spelling is fetched as it is; only another path or parameter counts."""
    with Site() as site:
        workers = crawls.start_together(2, "spellings", site)
        finish(*workers)
        assert crawls.values("url") == {
            url: 1
            for number in range(10)
            for url in (
                f"/page/{number}?utm_source=hub&b=2&a=1",
                f"/page/{number}?a=1&ref=hub&b=2",
                f"/page/{number}/?a=1&b=2",
            )
        }
        assert {site.visits[f"/page/{number}"] for number in range(10)} == {2}
        assert {site.visits[f"/page/{number}/"] for number in range(10)} == {1}
    assert total("dupefilter/filtered", workers) == 20


def test_programs_claim_what_spiders_crawl(crawls: Crawls) -> None:
    """A program that came first has the page; one that comes later does not get it."""
    slow = {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 1}
    with Site() as site, crawls.state("spellings") as state:
        assert state.claim(f"{site.url}/page/0?a=1&b=2&fbclid=x")
        crawls.start(
            "spellings", site=site.url, pages=2, settings=slow
        ).wait_for_success()
        assert state.size()  # a crawl that is over would begin anew
        assert not state.claim(f"{site.url}/page/1?utm_id=3&a=1&b=2#end")
        finish(crawls.start("spellings", site=site.url, pages=2))
        assert (site.visits["/page/0"], site.visits["/page/1"]) == (1, 2)


def test_a_crawl_is_resumed_under_its_own_rules_only(crawls: Crawls) -> None:
    """Other ones are refused with both values, before anything is fetched."""
    slow = {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 5}
    with Site() as site, crawls.state("spellings") as state:
        first = crawls.start("spellings", site=site.url, settings=slow)
        first.wait_for_success()
        visits = site.visits.total()
        assert state.size()
        other = crawls.start("spellings", site=site.url, settings={STRIP: "ref"})
        assert other.wait() != 0
        assert site.visits.total() == visits
        last = other.output.strip().splitlines()[-1]
        assert f"""{STRIP}: '["ref"]' here, '["tracking"]' in crawl""" in last
        assert "use the same in all workers, or another REDIS_STATE_CRAWL_ID" in last
        finish(crawls.start("spellings", site=site.url))
        assert len(crawls.values("url")) == 30


def test_a_crawl_that_an_older_version_began_goes_on(crawls: Crawls) -> None:
    """It has no rules on record, and fingerprints by Scrapy's."""
    slow = {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 5}
    with Site() as site:
        first = crawls.start("spellings", site=site.url, settings=slow)
        first.wait_for_success()
        crawl = f"crawl:{{{crawls.bot}:spellings}}"
        assert crawls.client.hdel(crawl, "agreed:url_rules", "agreed:strip_params") == 2
        second = crawls.start("spellings", site=site.url)
        finish(second)
        assert stats(second)["dupefilter/filtered"] == 0
        assert len(crawls.values("url")) == 30


def test_parts_set_by_hand_may_lack_the_fingerprinter(crawls: Crawls) -> None:
    """Then pages are told apart as by Scrapy, and the log says so."""
    by_hand = {
        "ADDONS": "{}",
        "SCHEDULER": "scrapy_redis_state.Scheduler",
        "SPIDER_MIDDLEWARES": '{"scrapy_redis_state.seeding.SeedingMiddleware": -1000}',
        "EXTENSIONS": '{"scrapy_redis_state.Reaper": 0}',
    }
    with Site() as site:
        worker = crawls.start("spellings", site=site.url, pages=2, settings=by_hand)
        finish(worker)
        assert site.visits["/page/0"] == site.visits["/page/1"] == 4
    assert "REQUEST_FINGERPRINTER_CLASS is not scrapy_redis_state" in worker.output
