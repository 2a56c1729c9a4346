"""Four programs share one crawl: each page is done by one of them, and all are done."""

from __future__ import annotations

import json

import pytest

from scrapy_redis_state.store import CrawlState, LeasedRequest
from scrapy_redis_state.store.messages import Seeding
from tests.processes import wait_until
from tests.store import walker

PAGES = 500
LEASE_MS = 3000
"""Long enough for a program that the machine does not run for a while."""


@pytest.fixture
def fleet(server, crawl, programs, tmp_path):
    """Four walkers with nothing to do yet."""
    crawl.member(
        "first", seeding=Seeding.NONE, tunable={"lease_ms": str(LEASE_MS)}
    ).leave()
    fleet = []
    for number in range(4):
        file = tmp_path / f"pages-{number}"
        arguments = (walker.__file__, server.url, crawl.keys.crawl, str(PAGES), file)
        fleet.append(programs.python(*arguments, name=f"walker-{number}"))
        fleet[-1].file = file
    for program in fleet:
        program.wait_for_output("ready")
    return fleet


def done(program):
    """Pages that a program has done, in order."""
    return [int(line) for line in program.file.read_text().split()]


def test_each_page_is_done_by_one_of_them(crawl, fleet):
    """Their sets of pages are disjoint, and together they are everything."""
    begin(crawl)
    for program in fleet:
        program.wait_for_success()
    pages = [page for program in fleet for page in done(program)]
    assert len(pages) == len(set(pages))
    assert set(pages) == walker.reachable(1, PAGES)
    assert sum(bool(done(program)) for program in fleet) > 1
    assert crawl.summary.done == len(pages)
    assert crawl.status().seen == len(pages)


def test_what_a_killed_one_held_is_done_by_the_others(crawl, fleet):
    """Nothing is lost, and nothing is repeated but what it held."""
    victim, *others = fleet
    begin(crawl)
    held = stop_in_the_middle(crawl, victim)
    victim.kill()
    for program in others:
        program.wait_for_success()
    pages = [page for program in others for page in done(program)]
    assert len(pages) == len(set(pages))
    assert set(pages) | set(done(victim)) == walker.reachable(1, PAGES)
    assert set(pages) & set(done(victim)) <= held
    assert held <= set(pages)


def begin(crawl):
    """Push the page from which all others are found."""
    CrawlState(crawl.client, crawl.keys).push(walker.url(1))


def stop_in_the_middle(crawl, program):
    """Pause a program while it holds something; returns the pages that it holds."""
    wait_until(lambda: len(done(program)) >= 20 or not program.running)

    def paused():
        assert program.running, str(program)
        program.pause()
        pages = pages_held(crawl, program.pid)
        if not pages:
            program.resume()
        return pages

    return wait_until(paused)


def pages_held(crawl, pid):
    """Pages leased to a process that is paused."""
    for _ in range(2):
        crawl.client.ping()  # what it had sent is executed by then
    (worker,) = [
        one.id for one in crawl.status().workers if json.loads(one.info)["pid"] == pid
    ]
    leases = crawl.client.hgetall(crawl.key("leases"))
    held = [
        LeasedRequest.from_entry(id.decode(), 0, crawl.entry(id.decode()), worker)
        for id, lease in leases.items()
        if lease.decode().startswith(f"{worker}:")
    ]
    return {walker.page_of(one.url) for one in held}
