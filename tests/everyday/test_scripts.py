"""Crawls that are run by scripts: several in one process, one after the other."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store.messages import Seeding
from tests.everyday.crawls import EverydayCrawls, GatedSite
from tests.everyday.scripts import (
    ASYNC_RUNNER,
    NO_REACTOR,
    PROCESS,
    RUNNER,
    SPIDERS,
    TO_THE_OTHER,
    check_pages,
)
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server


def run(crawls: EverydayCrawls, site: GatedSite, code: str) -> Program:
    script = crawls.script(SPIDERS.format(site=site.url) + code)
    script.wait_for_success()
    assert "Traceback" not in script.output, str(script)
    return script


@pytest.mark.parametrize("process", ["CrawlerProcess", "AsyncCrawlerProcess"])
def test_two_spiders_in_one_process_have_a_crawl_each(
    crawls: EverydayCrawls, site: GatedSite, process: str
) -> None:
    """Nothing of them is left in the process when they are finished."""
    code = PROCESS.format(process=process, spiders="First, Second")
    script = run(crawls, site, code)
    check_pages(crawls, {"first": 1, "second": 1})
    for name in ("first", "second"):
        assert crawls.summary(name).done == 6
    assert "crawls made: 2 left: 0" in script.output


def test_a_spider_may_run_twice_in_one_process(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """Two workers of one crawl share it, as they would in two processes."""
    code = PROCESS.format(process="AsyncCrawlerProcess", spiders="First, First")
    script = run(crawls, site, NO_REACTOR + code)
    check_pages(crawls, {"first": 1})
    assert script.output.count("'finish_reason': 'finished'") == 2
    assert script.output.count("start() is done") == 1
    assert "crawls made: 2 left: 0" in script.output


def test_a_runner_may_crawl_again(crawls: EverydayCrawls, site: GatedSite) -> None:
    """The second crawl of a spider is the next generation."""
    script = run(crawls, site, RUNNER)
    check_pages(crawls, {"first": 2})
    for generation in (1, 2):
        assert f"generation {generation} (new)" in script.output
    assert "crawls made: 2 left: 0" in script.output


def test_an_async_runner_crawls_one_after_and_beside_the_other(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """As tasks of one event loop."""
    run(crawls, site, ASYNC_RUNNER)
    check_pages(crawls, {"first": 2, "second": 1})


def test_what_one_spider_gives_to_another_belongs_to_the_others_crawl(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """Pages and start() of one crawl wait for nothing that another has to do."""
    with site.holding("/first/0"):
        script = crawls.script(SPIDERS.format(site=site.url) + TO_THE_OTHER)
        wait_until(lambda: crawls.summary("sender").done == 1)
        assert crawls.summary("sender").seeding is Seeding.DONE
    script.wait_for_success()
    assert "Traceback" not in script.output, str(script)
    for page in ("from-start", "from-callback"):
        assert site.visits[f"/first/{page}"] == site.visits[f"/first/{page}/child"] == 1
    assert crawls.summary("first").done == 6 + 2
    assert crawls.summary("sender").done == 1
