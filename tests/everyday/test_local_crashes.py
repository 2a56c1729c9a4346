"""What becomes of requests that only one process has, when that process goes away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scrapy_redis_state.store.messages import Seeding
from tests.crawl.crawls import close_reason, finish, stats, total
from tests.everyday.crawls import LOST, EverydayCrawls, GatedSite, paths
from tests.processes import Program, wait_until
from tests.servers import Server

pytestmark = pytest.mark.one_server


def stop(worker: Program, site: GatedSite, how: str) -> None:
    """Have a worker killed, or closed, while the site holds what it waits for."""
    if how == "kill":
        worker.kill()
        site.release()
        return
    worker.terminate()
    worker.wait_for_output("Closing spider")
    site.release()
    worker.wait_for_success()
    assert close_reason(worker) == "shutdown"


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_chain_of_them_is_done_again_from_the_page_that_was_stored(
    crawls: EverydayCrawls, site: GatedSite, how: str
) -> None:
    """Only what the crawl had stored is not; nothing of it is lost."""
    with site.holding("/link/2"):
        first = crawls.start("chain", site=site.url)
        site.wait_for_visits("/link/2")
        # The first leaf is stored and done, but not the page that it came from.
        wait_until(lambda: crawls.summary("chain").done == 1)
        assert crawls.summary("chain").in_flight == 1
        stop(first, site, how)
        second = crawls.start("chain", site=site.url)
    finish(second)
    twice = {"/start": 2, "/link/1": 2, "/link/2": 2}
    once = {"/link/3": 1, "/leaf/1": 1, "/leaf/2": 1, "/leaf/3": 1}
    assert site.visits == twice | once
    assert set(paths(crawls)) == {*twice, *once}
    delivered_again = 1 if how == "kill" else 0
    assert stats(second)["redis_state/redelivered"] == delivered_again
    assert crawls.dead("chain") == {}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"CONCURRENT_REQUESTS": 1}, id="ours"),
        pytest.param(
            {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0.01}, id="Scrapy's"
        ),
    ],
)
def test_a_worker_that_stops_hands_the_page_of_its_queue_back(
    crawls: EverydayCrawls, site: GatedSite, settings: dict[str, float]
) -> None:
    """Local requests that were not started are made again by the next worker."""
    with site.holding("/local/0"):
        first = crawls.start("many", site=site.url, local=6, settings=settings)
        site.wait_for_visits("/local/0")
        stop(first, site, "terminate")
    summary = crawls.summary("many")
    assert (summary.pending, summary.in_flight, summary.done) == (1, 0, 0)
    assert paths(crawls) == ["/local/0"]
    second = crawls.start("many", site=site.url, local=6)
    finish(second)
    assert set(paths(crawls)) == {f"/local/{number}" for number in range(6)}
    assert site.visits["/local/0"] == 2
    assert stats(second)["redis_state/redelivered"] == 0
    assert LOST not in first.output


def test_local_pages_that_run_too_long_are_handed_back_with_their_owner(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """A worker that is told to stop waits for them as for any page, and no longer."""
    settings = {"REDIS_STATE_SHUTDOWN_GRACE_SECS": 1}
    with site.holding("/local/0"):
        first = crawls.start("many", site=site.url, local=2, settings=settings)
        site.wait_for_visits("/local/0")
        wait_until(lambda: paths(crawls) == ["/local/1"])
        first.terminate()
        first.wait_for_success()
    assert "handed back 1 pages that still run" in first.output
    assert LOST not in first.output
    assert crawls.summary("many").pending == 1
    second = crawls.start("many", site=site.url, local=2)
    finish(second)
    assert site.visits == {"/start": 2, "/local/0": 2, "/local/1": 2}
    assert stats(second)["redis_state/redelivered"] == 0


def test_a_page_may_wait_for_them_longer_than_a_lease(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """As long as its worker lives nobody else gets it, and no delivery is counted."""
    settings = {"REDIS_STATE_LEASE_SECS": 1}
    with site.holding("/local/0"):
        workers = [
            crawls.start("many", site=site.url, local=1, settings=settings)
            for _ in range(2)
        ]
        site.wait_for_visits("/local/0")
        clock = crawls.clock("many")
        wait_until(lambda: crawls.clock("many") > clock + 2500)
        assert crawls.summary("many").in_flight == 1
    finish(*workers)
    assert site.visits == {"/start": 1, "/local/0": 1}
    assert total("redis_state/redelivered", workers) == 0
    assert total("redis_state/rejoins", workers) == 0


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_start_is_not_done_before_its_local_requests_are(
    crawls: EverydayCrawls, site: GatedSite, how: str
) -> None:
    """Another worker runs it again if the first one goes away."""
    with site.holding("/local/0"):
        first = crawls.start("local-start", site=site.url)
        site.wait_for_visits("/local/0")
        wait_until(lambda: crawls.summary("local-start").done == 1)
        assert crawls.summary("local-start").seeding is Seeding.OPEN
        second = crawls.start("local-start", site=site.url)
        second.wait_for_output("start() is not done")
        stop(first, site, how)
    finish(second)
    assert site.visits == {"/shared": 1, "/local/0": 2}
    assert crawls.values("page")["/shared"] == 1
    assert "start() is done: 0 requests stored, 1 seen before" in second.output


def test_a_start_that_raised_does_not_count_what_it_left_behind(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """Its next run is not done because a request of the last one is being done."""
    with site.holding("/local/0"):
        worker = crawls.start("local-start", site=site.url, failures=1)
        worker.wait_for_output("start() raised; it is tried again")
        site.wait_for_visits("/local/0", 2)
        assert crawls.summary("local-start").seeding is Seeding.OPEN
    finish(worker)
    assert site.visits == {"/shared": 1, "/local/0": 2}


@pytest.mark.parametrize("start", ["once", "every_worker"])
def test_a_worker_that_lost_its_place_still_does_the_local_requests_of_start(
    crawls: EverydayCrawls, site: GatedSite, start: str
) -> None:
    """It runs start() again, or keeps them if that is its own affair alone."""
    settings = {"REDIS_STATE_START": start, "CONCURRENT_REQUESTS": 1}
    with site.holding("/local/0"):
        worker = crawls.start("local-start", site=site.url, count=3, settings=settings)
        site.wait_for_visits("/local/0")
        # What it has done and not told of would be done again.
        wait_until(lambda: crawls.summary("local-start").done == site.visits["/shared"])
        crawls.client.delete(crawls.key("workers", "local-start"))
        worker.wait_for_output("lost touch with the crawl")
    finish(worker)
    visits = {f"/local/{number}": 1 for number in range(3)}
    if start == "once":
        visits["/local/0"] += 1
    assert site.visits == {"/shared": 1} | visits
    assert set(paths(crawls)) == {"/shared", *visits}


@pytest.mark.parametrize("maker", ["page", "start"])
def test_a_local_page_that_closes_the_spider_is_done_in_the_next_run(
    crawls: EverydayCrawls, site: GatedSite, maker: str
) -> None:
    """Whoever made it is not done, and no delivery of it is counted."""
    first = crawls.start("closing", site=site.url, maker=maker)
    first.wait_for_success()
    assert close_reason(first) == "enough"
    assert crawls.summary("closing").pending == (1 if maker == "page" else 0)
    second = crawls.start("closing", site=site.url, maker=maker)
    finish(second)
    assert paths(crawls) == ["/local"]
    assert stats(second)["redis_state/redelivered"] == 0
    assert crawls.dead("closing") == {}


def test_what_belongs_to_no_page_is_named_when_it_is_lost(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """A worker that stops can hand back nothing that would bring it back."""
    with site.holding("/idle/1"):
        settings = {"CONCURRENT_REQUESTS": 1}
        worker = crawls.start("idle-local", site=site.url, settings=settings, extra=1)
        site.wait_for_visits("/idle/1")
        stop(worker, site, "terminate")
    assert f"{site.url}/extra/1>{LOST}" in worker.output


@pytest.mark.parametrize("how", ["stay", "terminate"])
def test_a_full_server_and_local_requests_hold_the_same_page(
    crawls: EverydayCrawls,
    site: GatedSite,
    fresh_server: Callable[..., Server],
    how: str,
) -> None:
    """It is done when the server has room for all that it made, or handed back."""
    server = fresh_server()
    crawls = EverydayCrawls(crawls.programs, server, crawls.bot)
    with site.holding("/start"):
        worker = crawls.start("room", site=site.url)
        site.wait_for_visits("/start")
        crawls.client.config_set("maxmemory", "1")
    site.wait_for_visits("/local")
    wait_until(lambda: paths(crawls) == ["/local"])
    clock = crawls.clock("room")
    wait_until(lambda: crawls.clock("room") > clock + 1500)
    assert crawls.summary("room").in_flight == 1
    if how == "terminate":
        stop(worker, site, "terminate")
        assert crawls.summary("room").pending == 1
    crawls.client.config_set("maxmemory", "0")
    if how == "terminate":
        worker = crawls.start("room", site=site.url)
    finish(worker)
    visits = 2 if how == "terminate" else 1
    assert site.visits == {"/start": visits, "/local": visits, "/large": 1}
    assert stats(worker)["redis_state/redelivered"] == 0
    assert crawls.problems() == []
