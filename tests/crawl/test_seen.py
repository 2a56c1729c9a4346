"""What is crawled once, what again, and where it ends, in real crawls."""

from __future__ import annotations

import pytest

from tests.crawl.crawls import Crawls, finish, total
from tests.site import Site
from tests.store.bloom import bloom_module


@pytest.mark.parametrize("seen", ["packed", "bloom"])
@pytest.mark.one_server
def test_two_workers_crawl_a_graph_once(seen, programs, fresh_server, crawl_name):
    """Whatever kind of seen set they share."""
    server = fresh_server(extra_args=["--loadmodule", str(bloom_module())])
    crawls = Crawls(programs, server, crawl_name)
    settings = {
        "REDIS_STATE_SEEN": seen,
        "REDIS_STATE_SEEN_CAPACITY": 10_000,
        "DEPTH_LIMIT": 6,
    }
    with Site() as site:
        workers = crawls.start_together(2, "endless", site, settings=settings)
        finish(*workers)
        assert site.visits == {f"/{number}": 1 for number in range(127)}
    assert f"seen set {seen}:10000" in workers[0].output
    assert crawls.problems() == []


@pytest.mark.one_server
def test_a_site_has_so_many_pages_in_the_whole_crawl(crawls):
    """Not in each process: two workers stop together at the limit."""
    settings = {"REDIS_STATE_MAX_PAGES_PER_SITE": 50}
    with Site() as site:
        workers = crawls.start_together(2, "endless", site, settings=settings)
        finish(*workers)
        # The start page is not filtered, and so not counted.
        assert sum(site.visits.values()) == 51
    assert total("redis_state/site_limited", workers) == 2 * 51 - 50


@pytest.mark.one_server
def test_a_request_may_have_a_time_after_which_it_is_new(crawls):
    """Within it, equal ones are duplicates; a mistake in it is told."""
    with Site() as site:
        finish(crawls.start("ticker", site=site.url, secs=60, times=3))
        assert site.visits["/price"] == 1
        bad = crawls.start("ticker", site=site.url, secs=-1, times=3)
        bad.wait()
        assert "meta['redis_state_revisit_secs']" in bad.output
        assert "give a number of seconds above 0" in bad.output
