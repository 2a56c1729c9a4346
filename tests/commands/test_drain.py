"""Having the workers of a real crawl end: ``drain``."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands
from tests.crawl.crawls import Crawls, close_reason, finish
from tests.processes import Program, wait_until
from tests.servers import Server
from tests.site import Site

pytestmark = pytest.mark.one_server

PAGES = 8


def test_a_crawl_that_drains_ends_its_workers_and_goes_on_later(
    commands: Commands, crawls: Crawls, server: Server
) -> None:
    """Running pages end, the rest is handed back, and one that starts ends at once."""
    crawl = f"{commands.crawl}:pages"
    place = ["--url", commands.url, "--crawl", crawl]

    def start(site: Site) -> Program:
        return crawls.programs.crawl(
            "pages",
            arguments={"site": site.url, "count": PAGES},
            env=commands.project_env(),
        )

    def left_in_order(worker: Program) -> bool:
        worker.wait_for_success()
        said = worker.output.count(f"Crawl {crawl} drains: this worker starts nothing")
        return close_reason(worker) == "shutdown" and said == 1

    with Site() as site, CrawlState.connect(server.url, crawl=crawl) as state:

        def visited() -> int:
            return sum(site.visits.values()) - site.visits["/robots.txt"]

        with site.held():
            first = start(site)
            wait_until(lambda: visited() == 2, 60)  # CONCURRENT_REQUESTS
            result = commands.run("drain", *place)
            assert result.output.startswith(f"crawl '{crawl}' drains; workers finish")
            first.wait_for_output("Closing spider (shutdown)")
        assert left_in_order(first)
        summary = state.status().summary
        assert (summary.done, summary.pending, summary.in_flight) == (2, PAGES - 2, 0)
        assert all(one.deliveries == 0 for one in state.peek(PAGES))
        assert state.push(f"{site.url}/more")
        visits = site.visits.copy()
        assert left_in_order(start(site))
        assert site.visits == visits
        status = commands.run("status", *place, "--json").json
        assert (status["state"], status["workers"]) == ("draining", 0)
        assert (status["pending"], status["seeding"]) == (PAGES - 1, "done")
        assert commands.run("resume", *place).output == f"crawl '{crawl}' goes on\n"
        finish(start(site))
        assert visited() == PAGES + 1


def test_what_a_running_page_finds_is_stored(crawls: Crawls) -> None:
    """Nothing of it is started, nothing is lost, and it is not taken for the end."""
    with Site() as site, crawls.state("hub") as state:

        def start() -> Program:
            return crawls.start("hub", site=site.url, delay=0, each=0, leaves=5)

        with site.held():
            worker = start()
            wait_until(lambda: site.visits["/hub"], 60)
            state.drain()
            worker.wait_for_output("Closing spider (shutdown)")
        worker.wait_for_success()
        summary = state.status().summary
        assert (summary.status, summary.pending, summary.done) == ("draining", 5, 1)
        for leased in state.peek(5):
            assert "/leaf/" in leased.url
        state.resume()
        finish(start())
        assert set(crawls.values("leaf")) == set(range(5))


def test_start_is_not_run_in_a_crawl_that_drains(crawls: Crawls) -> None:
    """A worker may be the first to come: nobody's start requests are made."""
    with Site() as site, crawls.state("hub") as state:
        state.push(f"{site.url}/pushed")
        state.drain()
        worker = crawls.start("hub", site=site.url, delay=0, leaves=0)
        worker.wait_for_success()
        assert close_reason(worker) == "shutdown"
        summary = state.status().summary
        assert (summary.pending, summary.done, summary.seeding) == (1, 0, "open")
        assert not site.visits
