"""What becomes of a page, whichever way it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crawl.crawls import Crawls, DeadLetter, finish, total, wait_until_joined
from tests.processes import Program
from tests.site import Site


class CountingSite(Site):
    """The body of a page says how often it was asked for."""

    def body(self, path: str) -> str:
        return f"visit {self.visits[path]}"


@pytest.fixture
def site() -> Iterator[CountingSite]:
    with CountingSite() as site:
        yield site


def test_every_page_has_the_end_it_deserves(crawls: Crawls, site: Site) -> None:
    """Two workers share one page of each kind; none is lost and none multiplies."""
    workers = crawls.start_together(2, "fates", site)
    finish(*workers)
    pages, visits = crawls.values("page"), site.visits

    # Retried until it is there, without any delivery counted.
    assert (pages["/flaky"], visits["/flaky"]) == (1, 3)
    # A status that Scrapy ignores is no failure.
    assert (pages["/gone"], visits["/gone"]) == (0, 1)
    assert (pages["/new"], visits["/old"], visits["/new"]) == (1, 1, 1)
    # An errback that returns has dealt with it, and one may ask for other pages.
    assert visits["/replaced"] == 3
    assert pages["/replacement"] == 1
    # A downloader middleware returned the very request for another try.
    assert (pages["/again"], visits["/again"]) == (1, 2)
    # A callback that yields it says nothing new.
    assert (pages["/echo"], visits["/echo"]) == (1, 1)
    # A callback that fails is called again, and its filtered requests are not repeated.
    assert (pages["/recovering"], visits["/recovering"]) == (1, 2)
    assert pages["/child-of-recovering"] == 1
    assert (visits["/raising"], visits["/child-of-raising"]) == (3, 1)
    # Unfiltered ones would be, so one failure is enough.
    assert (visits["/multiplying"], visits["/child-of-multiplying"]) == (1, 1)
    # A pipeline that raises is a failure; one that drops the item is not.
    assert visits["/badly-built"] == 3
    assert visits["/dropping"] == 1
    # What cannot be stored runs where it was made.
    assert pages["/unencodable"] == pages["/with-lock"] == 1
    assert visits["/with-lock"] == visits["/with-lambda"] == 1

    check_dead_letters(crawls.dead("fates"))
    check_logs(workers)


def check_dead_letters(dead: dict[str, DeadLetter]) -> None:
    assert set(dead) == {
        "/broken",
        "/cut",
        "/raising",
        "/multiplying",
        "/badly-built",
    }
    assert dead["/broken"] == DeadLetter("HTTP status 503", 0)
    assert dead["/cut"].deliveries == 0
    assert "cannot take this page" in dead["/raising"].reason
    assert "parse_raising" in dead["/raising"].reason, "the traceback"
    assert dead["/raising"].deliveries == 3
    assert "cannot take this page either" in dead["/multiplying"].reason
    assert dead["/multiplying"].deliveries == 0
    assert "the pipeline cannot take this item" in dead["/badly-built"].reason


def check_logs(workers: list[Program]) -> None:
    assert total("scheduler/unserializable", workers) == 2
    assert total("redis_state/failed", workers) == 7
    logs = "".join(worker.output for worker in workers)
    assert logs.count("Cannot be stored, and so runs in this process alone") == 1
    line = next(line for line in logs.splitlines() if "Cannot be stored" in line)
    assert "/with-lock>: meta['lock'] is of type _thread.lock" in line


@pytest.mark.one_server
def test_requests_of_newer_code_go_to_workers_that_have_it(
    crawls: Crawls, site: Site
) -> None:
    """During a deploy, workers with the old code hand the new code's requests back."""
    with site.held():
        new = crawls.start("versions", site=site.url, env={"CODE": "new"})
        old = crawls.start("versions", site=site.url, env={"CODE": "old"})
        wait_until_joined(new, old)
    finish(new, old)
    parsed = crawls.values("parsed")
    assert parsed == dict.fromkeys(map(str, range(6)), 1)
    leaves = crawls.values("parsed", new)
    assert crawls.values("leaf") == crawls.values("leaf", new) == leaves
    assert crawls.dead("versions") == {}


@pytest.mark.one_server
def test_requests_that_no_workers_code_knows_are_dead_letters(
    crawls: Crawls, site: Site
) -> None:
    """A callback that nobody has is never replaced by parse(), and ends no crawl."""
    request = {"url": f"{site.url}/x", "callback": "parse_leaf", "priority": 5}
    with crawls.state("versions") as state:
        assert state.push(request)
    old = crawls.start("versions", site=site.url, env={"CODE": "old"})
    finish(old)
    assert site.visits["/x"] == 0
    assert crawls.values("parsed").total() == 6
    assert set(crawls.dead("versions")) == {"/x"}
    assert "'parse_leaf'" in crawls.dead("versions")["/x"].reason


@pytest.mark.one_server
@pytest.mark.parametrize("count", [1, 2])
def test_an_idle_spider_may_go_on(crawls: Crawls, site: Site, count: int) -> None:
    """What a spider_idle handler asks for belongs to no page and is crawled too."""
    workers = crawls.start_together(count, "idle", site)
    finish(*workers)
    rounds = {"0", *(f"{number}{part}" for number in (1, 2, 3) for part in "ab")}
    assert crawls.values("round") == dict.fromkeys(rounds, 1)
