"""Holding a real crawl, and letting it go on: ``pause`` and ``resume``."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands, refusal
from tests.crawl.crawls import Crawls, close_reason, wait_until_joined
from tests.processes import Program, wait_until
from tests.servers import Server
from tests.site import Site

pytestmark = pytest.mark.one_server

PAGES = 12


def wait_for_exchanges(server: Server, crawl: str, count: int) -> None:
    """Wait until the workers have spoken to the server so often."""
    client = server.client()
    stamps = set()

    def enough() -> bool:
        stamps.add(client.hget(f"crawl:{{{crawl}}}", "stamp"))
        return len(stamps) > count

    wait_until(enough, 60)


def test_a_paused_crawl_starts_nothing_and_goes_on_later(
    commands: Commands, crawls: Crawls, server: Server
) -> None:
    """Running pages end, workers stay, and one that starts meanwhile waits."""
    crawl = f"{commands.crawl}:pages"
    place = ["--url", commands.url, "--crawl", crawl]
    assert refusal(commands.run("pause", *place)).startswith("There is no crawl")

    def start(site: Site) -> Program:
        return crawls.programs.crawl(
            "pages",
            arguments={"site": site.url, "count": PAGES},
            env=commands.project_env(),
        )

    with Site() as site, CrawlState.connect(server.url, crawl=crawl) as state:

        def visited() -> int:
            return sum(site.visits.values()) - site.visits["/robots.txt"]

        def done() -> int:
            return state.status().summary.done

        with site.held():
            first = start(site)
            wait_until(lambda: visited() == 2, 60)  # CONCURRENT_REQUESTS
            result = commands.run("pause", *place)
            assert result.output.startswith(f"crawl '{crawl}' is paused")
            # It hands back what it had not started, so that it knows.
            wait_until(lambda: state.status().summary.in_flight == 2, 30)
        wait_until(lambda: done() == 2, 30)
        assert commands.run("pause", *place).status == 0
        second = start(site)
        wait_until_joined(second)
        wait_for_exchanges(server, crawl, 6)  # both have heard of it by then
        status = commands.run("status", *place, "--json", "--check").json
        assert (status["state"], status["workers"]) == ("paused", 2)
        assert (status["pending"], status["in_flight"]) == (PAGES - 2, 0)
        assert (visited(), done()) == (2, 2)
        assert first.running
        assert second.running
        assert commands.run("resume", *place).output == f"crawl '{crawl}' goes on\n"
        for worker in (first, second):
            worker.wait_for_success()
            assert close_reason(worker) == "finished"
        assert done() == visited() == PAGES
        assert refusal(commands.run("resume", *place)).endswith("is finished.")


def test_a_paused_crawl_may_be_left_and_found_again(
    commands: Commands, crawls: Crawls, server: Server
) -> None:
    """A deploy: its workers are stopped while it is paused, and others come."""
    crawl = f"{commands.crawl}:pages"
    place = ["--url", commands.url, "--crawl", crawl]
    with Site() as site, CrawlState.connect(server.url, crawl=crawl) as state:
        state.push_many(f"{site.url}/more/{number}" for number in range(3))
        assert commands.run("pause", *place).status == 0

        def start() -> Program:
            return crawls.programs.crawl(
                "pages", arguments={"site": site.url}, env=commands.project_env()
            )

        worker = start()
        wait_until(lambda: state.status().summary.pending == 6, 60)
        worker.terminate()
        worker.wait_for_success()
        assert state.status().summary.status == "paused"
        worker = start()
        wait_until_joined(worker)
        assert not any(path != "/robots.txt" for path in site.visits)
        assert commands.run("resume", *place).status == 0
        worker.wait_for_success()
        assert state.status().summary.done == 6
