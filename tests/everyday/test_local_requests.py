"""Requests that cannot be stored run in the process that made them."""

from __future__ import annotations

import pytest

from tests.crawl.crawls import finish, stats, total
from tests.everyday.crawls import LOST, EverydayCrawls, GatedSite, paths
from tests.everyday.project.spiders.local import KindsSpider
from tests.processes import wait_until

pytestmark = pytest.mark.one_server

NOT_STORED = "Cannot be stored, and so runs in this process alone"


def test_whatever_cannot_be_stored_runs_where_it_was_made(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """Of two workers one runs them all, once each; its log names the first of them."""
    with site.holding("/start"):
        workers = [crawls.start("kinds", site=site.url) for _ in range(2)]
        for worker in workers:
            worker.wait_for_output(", worker ")
        site.wait_for_visits("/start")
    finish(*workers)
    local = [path for path in site.visits if path.startswith("/local/")]
    shared = [path for path in site.visits if path.startswith("/shared/")]
    assert len(local) == 14
    assert len(shared) == len(KindsSpider(site=site.url).storable())
    assert crawls.values("page") == dict.fromkeys([*local, *shared], 1)
    assert site.visits == dict.fromkeys([*local, *shared, "/start"], 1)
    maker = next(w for w in workers if stats(w)["scheduler/unserializable"])
    assert set(local) <= set(paths(crawls, maker))
    assert total("scheduler/unserializable", workers) == len(local)
    assert total("scheduler/enqueued/memory", workers) == len(local)
    assert total("scheduler/dequeued/memory", workers) == len(local)
    assert total("scheduler/enqueued/redis", workers) == 1 + len(shared)
    assert maker.output.count(NOT_STORED) == 1
    assert f"{site.url}/local/lambda>: callback is " in maker.output
    assert "mostly not shared" not in maker.output
    # Pages of the crawl are those that were stored.
    assert crawls.summary("kinds").done == 1 + len(shared)


@pytest.mark.parametrize(("shared", "warns"), [(10, True), (70, False)])
def test_a_crawl_that_is_mostly_not_shared_says_so(
    crawls: EverydayCrawls, site: GatedSite, shared: int, *, warns: bool
) -> None:
    """Once, when most of many new requests could not be stored; statistics or not."""
    settings = {"STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector"}
    worker = crawls.start(
        "many", site=site.url, local=60, shared=shared, settings=settings
    )
    finish(worker)
    assert crawls.values("page").total() == 60 + shared
    assert worker.output.count(NOT_STORED) == 1
    warnings = worker.output.count("the crawl is mostly not shared")
    assert warnings == (1 if warns else 0)


def test_local_requests_take_their_turn_by_priority(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """They wait for better ones that are only on their way to the frontier."""
    worker = crawls.start("order", site=site.url)
    finish(worker)
    assert paths(crawls) == [
        "/local/200",
        "/shared/102",
        "/shared/101",
        "/shared/100",
        "/local/50",
        "/local/0",
        "/shared/-5",
    ]


def test_local_requests_are_filtered_too(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """A page counts as seen, by all, from the end of the page that asked for it."""
    with site.holding("/wanted"):
        worker = crawls.start("filtered", site=site.url)
        site.wait_for_visits("/wanted")
        assert not crawls.has_seen("filtered", f"{site.url}/wanted")
    finish(worker)
    assert crawls.has_seen("filtered", f"{site.url}/wanted")
    assert paths(crawls) == ["/wanted", "/then"]
    assert site.visits == dict.fromkeys(["/start", "/wanted", "/then"], 1)
    assert stats(worker)["dupefilter/filtered"] == 4
    assert stats(worker)["scheduler/unserializable"] == 4
    assert stats(worker)["scheduler/enqueued/memory"] == 1


def test_local_pages_have_the_end_they_deserve(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """They are retried and redirected; for a failure their owner is repeated."""
    workers = crawls.start_together(2, "local-fates", site)
    finish(*workers)
    pages, visits = crawls.values("page"), site.visits
    dead = crawls.dead("local-fates")
    # Whatever becomes of a download, the page that asked for it is done.
    assert (pages["/downloads"], visits["/downloads"]) == (1, 1)
    assert (pages["/flaky"], visits["/flaky"]) == (1, 3)
    assert (pages["/new"], visits["/old"], visits["/new"]) == (1, 1, 1)
    assert (pages["/cut"], visits["/cut"] >= 3) == (1, True)
    assert visits["/broken"] == 3
    assert dead["/broken"].reason == "HTTP status 503"
    # A local page that fails once is done again with its owner.
    assert (visits["/recovering"], visits["/recovering/local"]) == (2, 2)
    assert pages["/recovering/local"] == pages["/recovering/local/child"] == 1
    # If it always fails its owner is given up; what was filtered is not repeated.
    assert (visits["/failing"], visits["/failing/local"]) == (3, 3)
    assert visits["/failing/local/child"] == 1
    assert dead["/failing"].deliveries == 3
    assert "cannot take this page" in dead["/failing"].reason
    assert "parse_local" in dead["/failing"].reason, "the traceback"
    # At once if it would multiply.
    assert (visits["/multiplying"], visits["/multiplying/local"]) == (1, 1)
    assert visits["/multiplying/child"] == 1
    assert dead["/multiplying"].deliveries == 0
    assert set(dead) == {"/broken", "/failing", "/multiplying"}


def test_a_page_of_no_page_keeps_the_crawl_open(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """What a spider_idle handler makes is done, once, before the crawl is finished."""
    with site.holding("/idle/2"):
        worker = crawls.start("idle-local", site=site.url)
        site.wait_for_visits("/idle/2")
        clock = crawls.clock("idle-local")
        wait_until(lambda: crawls.clock("idle-local") > clock + 2500)
        assert not crawls.summary("idle-local").drained
    finish(worker)
    assert paths(crawls) == ["/start", "/idle/1", "/idle/2"]
    assert set(site.visits.values()) == {1}
    for number in (1, 2):
        assert crawls.has_seen("idle-local", f"{site.url}/idle/{number}")
    assert LOST not in worker.output
