"""Nothing early, nothing hanging: when a crawl is over for each of its workers."""

from __future__ import annotations

import re
import time
from datetime import datetime

import pytest

from tests.crawl.crawls import Crawls, finish, stats, total
from tests.processes import Program, wait_until
from tests.site import Site

pytestmark = pytest.mark.one_server

PROMPT_SECS = 8
"""How long after the last page all workers may still run, on a busy machine."""


def closed_at(worker: Program) -> float:
    """When a worker began to close, by its log."""
    line = r"^(\S+ \S+) \[scrapy.core.engine\] INFO: Closing"
    found = re.search(line, worker.output, re.MULTILINE)
    assert found, str(worker)
    return datetime.fromisoformat(found[1]).astimezone().timestamp()


def test_workers_without_work_wait_for_a_slow_page(crawls: Crawls) -> None:
    """A page slower than the lease keeps all workers, and they share what it brings."""
    with Site() as site:
        settings = {"CONCURRENT_REQUESTS": 2}
        workers = crawls.start_together(3, "hub", site, delay=4, settings=settings)
        wait_until(lambda: site.visits["/leaf/0"], 30)
        assert [worker for worker in workers if "Closing" in worker.output] == []
        finish(*workers)
        ended = time.time()
        assert crawls.values("leaf") == dict.fromkeys(range(20), 1)
        assert site.visits["/hub"] == 1
    assert all(crawls.values("leaf", worker) for worker in workers)
    assert total("redis_state/redelivered", workers) == 0
    drained = max(item["time"] for item in crawls.items())
    assert all(drained - 1 < closed_at(worker) for worker in workers)
    assert ended - drained < PROMPT_SECS


def test_the_last_worker_waits_for_what_a_dead_one_held(crawls: Crawls) -> None:
    """Idle workers do not end while leases run, and get the page when they expire."""
    with Site() as site:
        with site.held():
            holder = crawls.start("hub", site=site.url, delay=0)
            wait_until(lambda: site.visits["/hub"], 30)
            others = [crawls.start("hub", site=site.url, delay=0) for _ in range(2)]
            for other in others:
                other.wait_for_output("(joined: 0 pending, 1 in flight")
            holder.kill()
        finish(*others)
        assert crawls.values("leaf") == dict.fromkeys(range(20), 1)
        assert site.visits["/hub"] == 2
    assert total("redis_state/redelivered", others) == 1


def test_a_worker_that_is_busy_with_slow_pages_keeps_them(crawls: Crawls) -> None:
    """Even the shortest lease outlives pages that take longer than it."""
    settings = {"REDIS_STATE_LEASE_SECS": 1, "CONCURRENT_REQUESTS": 2}
    with Site() as site:
        worker = crawls.start(
            "hub", site=site.url, delay=0, leaves=4, each=2, settings=settings
        )
        finish(worker)
        assert set(site.visits.values()) == {1}
    assert stats(worker)["redis_state/rejoins"] == 0
    assert "lost touch" not in worker.output
