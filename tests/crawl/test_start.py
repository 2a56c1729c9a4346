"""``start()`` is the crawl's, not each worker's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl.crawls import (
    Crawls,
    close_reason,
    finish,
    stats,
    total,
    wait_until_joined,
)
from tests.processes import Program, wait_until
from tests.site import Site

pytestmark = pytest.mark.one_server


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A file in which each run of ``start()`` leaves the id of its process."""
    path = tmp_path / "runs"
    path.touch()
    return path


def started_by(runs: Path) -> list[int]:
    return [int(line) for line in runs.read_text().split()]


def test_start_runs_once_for_all_workers(crawls: Crawls) -> None:
    """Start requests, which Scrapy does not filter, are fetched once per crawl."""
    with Site() as site:
        workers = crawls.start_together(3, "urls", site)
        finish(*workers)
        assert sorted(site.visits.values()) == [1] * 5
    joined = [worker.output.count("start() is done: 5 requests") for worker in workers]
    assert sorted(joined) == [0, 0, 1]


def test_every_worker_may_run_its_own_start(crawls: Crawls) -> None:
    """REDIS_STATE_START = every_worker is what Scrapy does by itself."""
    settings = {"REDIS_STATE_START": "every_worker"}
    with Site() as site:
        workers = crawls.start_together(2, "urls", site, settings=settings)
        finish(*workers)
        assert sorted(site.visits.values()) == [2] * 5
    assert total("redis_state/redelivered", workers) == 0


@pytest.mark.long
def test_a_long_start_waits_for_the_crawl(crawls: Crawls, runs: Path) -> None:
    """Ten thousand start requests never queue up above REDIS_STATE_START_HIGH_WATER."""
    settings = {"REDIS_STATE_START_HIGH_WATER": 100, "CONCURRENT_REQUESTS": 1}
    queued, done = [], 0
    with Site() as site, crawls.state("starts") as state:
        # The Scrapy worker crawls slowly; this program, from the mark on, is faster.
        worker = crawls.start(
            "starts",
            url=f"{site.url}/page?delay=0.5&number=",
            runs=runs,
            count=10_000,
            settings=settings,
        )
        worker.wait_for_output("generation 1 (new)")
        wait_until(lambda: state.size() > 90, 20)
        while worker.running:
            queued.append(state.status().summary.pending)
            if leased := state.lease(min(queued[-1], 60)):
                done += sum(state.ack(*leased))
        finish(worker)
        assert state.status().summary.done == 10_000
    assert 90 < max(queued) <= 110
    assert done + crawls.values("number").total() == 10_000
    assert started_by(runs) == [worker.pid]


def test_another_worker_takes_a_dead_workers_start_over(
    crawls: Crawls, runs: Path
) -> None:
    """Half a start() is completed elsewhere, and nothing in it is stored again."""

    def worker() -> Program:
        return crawls.start(
            "starts",
            url=f"{site.url}/page/",
            runs=runs,
            count=60,
            repeat=2,
            settings={"REDIS_STATE_START_HIGH_WATER": 40},
        )

    with Site() as site, crawls.state("starts") as state:
        with site.held():
            seeder = worker()
            wait_until(lambda: state.size() >= 40, 30)
            other = worker()
            other.wait_for_output("start() is not done")
            seeder.pause()
            held = crawls.leases_of(seeder, "starts")
            seeder.kill()
        # Until the dead one's lease is over there is nothing more to start, or to end.
        finish(other)
        assert set(site.visits) == {f"/page/{n}" for n in range(60)}
        fetched = crawls.values("number")
        assert set(fetched) == set(range(60))
        assert fetched.total() <= 120 + held
        assert state.status().summary.done == 120
    assert stats(other)["redis_state/redelivered"] == held
    assert started_by(runs) == [seeder.pid, other.pid]


def test_a_start_that_raises_is_tried_again(crawls: Crawls, runs: Path) -> None:
    """Two failed runs lose nothing and repeat nothing of what the third makes."""
    with Site() as site:
        with site.held():
            workers = [
                crawls.start(
                    "starts",
                    url=f"{site.url}/page/",
                    runs=runs,
                    count=20,
                    repeat=2,
                    failures=2,
                )
                for _ in range(2)
            ]
            wait_until_joined(*workers)
        finish(*workers)
        assert crawls.values("number") == dict.fromkeys(range(20), 2)
        assert sorted(site.visits.values()) == [2] * 20
    assert len(started_by(runs)) == 3
    assert crawls.values("made_by_start") == {"item": 3}
    assert total("spider_exceptions/RuntimeError", workers) == 2


def test_a_start_that_always_raises_ends_the_crawl(crawls: Crawls, runs: Path) -> None:
    """After REDIS_STATE_MAX_DELIVERIES runs all workers close with start_error."""
    with Site() as site:
        with site.held():
            workers = [
                crawls.start(
                    "starts", url=f"{site.url}/page/", runs=runs, count=20, failures=99
                )
                for _ in range(2)
            ]
            wait_until_joined(*workers)
        for worker in workers:
            worker.wait(40)
            assert close_reason(worker) == "start_error"
        assert crawls.values("number") == dict.fromkeys(range(10), 1)
    assert len(started_by(runs)) == 3
    assert sum(w.output.count("start() has had enough") > 0 for w in workers) >= 1


@pytest.mark.one_server
@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("REDIS_STATE_LEASE_SECS", "x", "must be a number of seconds"),
        ("REDIS_STATE_KEY_PREFIX", "taken:", "set another REDIS_STATE_KEY_PREFIX"),
    ],
)
def test_a_refusal_is_one_line_without_a_traceback(
    crawls: Crawls, name: str, value: str, remedy: str
) -> None:
    """The last that is printed, at ERROR; by the add-on and by the extension."""
    key = f"taken:frontier:{{{crawls.bot}:shop}}"
    crawls.client.set(key, "of another program")
    worker = crawls.start("shop", site="http://127.0.0.1:1", settings={name: value})
    assert worker.wait() == 1
    last = worker.output.splitlines()[-1]
    assert "[scrapy_redis_state.startup.refusals] ERROR: " in last
    assert remedy in last
    assert "Traceback" not in worker.output
    crawls.client.delete(key)
