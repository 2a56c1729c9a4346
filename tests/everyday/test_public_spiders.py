"""Spiders in the shape of public ones."""

from __future__ import annotations

from functools import partial

import pytest

from scrapy_redis_state.store.messages import Seeding
from tests.crawl.crawls import close_reason, finish, stats, wait_for_items
from tests.crawl.shop import Shop
from tests.everyday.crawls import EverydayCrawls, paths
from tests.everyday.sites import AnsweringSite, JsonSite, MembersSite
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server


def test_a_crawl_spider_is_shared_by_settings_alone(crawls: EverydayCrawls) -> None:
    """Two workers, one of them killed, find what Scrapy finds by itself."""
    with Shop(50, delay=0.05) as shop:
        start = partial(crawls.start, "directory", site=shop.url, domain="127.0.0.1,")
        alone = start(settings={"ADDONS": "{}"})
        finish(alone)
        expected = crawls.values("product", alone)
        assert set(expected) == shop.products
        workers = [start() for _ in range(2)]
        wait_for_items(crawls, 50 + 15)
        workers[0].kill()
        finish(workers[1])
        assert set(crawls.values("product", *workers)) == set(expected)
    assert crawls.dead("directory") == {}


LEVELS = (
    "/search",
    "/day/1",
    "/day/1/hour/12",
    "/day/1/hour/12/in/x",
    "/day/1/hour/12/in/x/page/2",
)
"""Each is found on the one before: nobody can have asked for it sooner."""


@pytest.mark.long
def test_a_crawl_may_be_stopped_at_every_level(crawls: EverydayCrawls) -> None:
    """What its requests carry is as it was, five callbacks and five processes later."""
    # Something must be left to do after the last stop, or another crawl follows.
    kills = [LEVELS[2], LEVELS[-1]]
    with AnsweringSite() as site:
        for path in LEVELS:
            with site.holding(path):
                worker = crawls.start("search", site=site.url)
                site.wait_for_visits(path)
                if path in kills:
                    worker.kill()
                else:
                    worker.terminate()
                    worker.wait_for_output("Closing spider")
            worker.wait()
        finish(crawls.start("search", site=site.url))
        assert len(site.visits) == 1 + 2 + 4 + 8 + 16
        twice = {path for path, visits in site.visits.items() if visits > 1}
        assert {*kills} <= twice
        # The killed workers may have had four and sixteen pages in hand.
        assert len(twice) <= 4 + 16
        assert {call.headers["Cookie"] for call in site.calls} == {"SUB=secret"}
    items = {item["page"]: item for item in crawls.items()}
    assert len(items) == 16
    last = items["/day/1/hour/12/in/x/page/2"]
    assert last["keyword"] == "käse"
    assert (last["to"], last["codes"]) == ("2024-03-01 00:00:00", "(1, 2)")


@pytest.mark.long
def test_ten_thousand_start_requests_survive_a_stop_that_takes_too_long(
    crawls: EverydayCrawls,
) -> None:
    """SIGINT, then SIGKILL since a page hangs: the next worker goes on."""

    def worker() -> Program:
        settings = {"CONCURRENT_REQUESTS": 1}
        return crawls.start("places", site=site.url, settings=settings)

    with JsonSite() as site, crawls.state("places") as state:
        with site.holding("/place/0"):
            first = worker()
            wait_until(lambda: state.status().summary.pending > 1500, 60)
            first.interrupt()
            first.wait_for_output("Closing spider")
            wait_until(lambda: state.status().summary.in_flight == 1)
            first.kill()
        assert state.status().summary.seeding is Seeding.OPEN
        second = worker()
        second.wait_for_output("start() is not done")
        done = 0
        # The Scrapy worker crawls slowly; this program is a faster one.
        while second.running:
            if leased := state.lease(200):
                done += sum(state.ack(*leased))
        finish(second)
        status = state.status().summary
    assert (status.done, status.dead) == (10_000, 0)
    # Nor does a long start() keep its worker from telling that it lives.
    assert "lost touch with the crawl" not in first.output + second.output
    crawled = paths(crawls)
    assert len(crawled) + done == 10_000
    assert len(set(crawled)) == len(crawled)


def test_one_worker_logs_in_and_stays_in(crawls: EverydayCrawls) -> None:
    """A form's token goes back with the cookies of the session it was made for."""
    with MembersSite() as site:
        worker = crawls.start("login", site=site.url)
        finish(worker)
        assert paths(crawls) == [f"/list/{number}" for number in range(1, 6)]
        methods = [call.method for call in site.calls if call.path == "/login"]
        assert methods == ["GET", "POST"]
    assert close_reason(worker) == "finished"
    assert stats(worker)["scheduler/unserializable"] == 0
