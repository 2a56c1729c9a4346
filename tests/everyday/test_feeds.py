"""Feeds of several workers."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.crawls import finish
from tests.everyday.crawls import EverydayCrawls, GatedSite
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server

ALONE = "tests.everyday.project.feeds.for_one"
JSONL = {"format": "jsonlines"}


def identity(worker: Program) -> str:
    """What a worker calls itself in its log."""
    found = re.search(r"generation \d+ \(.*\), worker (\w+),", worker.output)
    assert found, str(worker)
    return found[1]


def pages(path: Path) -> list[str]:
    return [json.loads(line)["page"] for line in path.read_text().splitlines()]


def test_each_worker_has_its_own_file(
    crawls: EverydayCrawls, site: GatedSite, tmp_path: Path
) -> None:
    """Named in FEEDS or by -o, also beside the project's own functions for names."""
    feeds: dict[str, dict[str, Any]] = {
        "plain-%(name)s-%(redis_state_worker)s.jl": JSONL,
        "all-%(redis_state_worker)s-%(mine)s.jl": JSONL,
        "one-%(redis_state_worker)s-%(mine)s.jl": JSONL | {"uri_params": ALONE},
    }
    settings = {
        "FEEDS": json.dumps(feeds),
        "FEED_URI_PARAMS": "tests.everyday.project.feeds.for_all",
        "CONCURRENT_REQUESTS": 1,
    }
    with site.holding("/shared/0", "/shared/1"):
        workers = [
            crawls.start("many", site=site.url, shared=10, settings=settings)
            for _ in range(2)
        ]
        # Either is given one of them.
        wait_until(lambda: site.visits["/shared/0"] and site.visits["/shared/1"], 30)
    finish(*workers)
    expected = Counter(f"/shared/{number}" for number in range(10))
    names = {
        "plain": "plain-many-{}.jl",
        "all": "all-{}-all-many.jl",
        "one": "one-{}-one-many.jl",
    }
    for kind, name in names.items():
        files = {tmp_path / name.format(identity(worker)) for worker in workers}
        assert set(tmp_path.glob(f"{kind}-*.jl")) == files
        assert Counter(page for file in files for page in pages(file)) == expected
    assert not any("Feed " in worker.output for worker in workers)


def test_feeds_that_all_workers_would_write_to_are_warned_about(
    crawls: EverydayCrawls, site: GatedSite, tmp_path: Path
) -> None:
    """The warning names the feed and the remedy; one that has it is left alone."""
    feeds: dict[str, dict[str, Any]] = {
        "appended.jl": JSONL,
        "overwritten.jl": JSONL | {"overwrite": True},
        "stdout:": JSONL,
    }
    settings = {
        "FEEDS": json.dumps(feeds),
        "FEED_URI_PARAMS": "tests.everyday.project.feeds.in_place",
        "JOBDIR": tmp_path / "job",
    }
    ours = "ours-%(mine)s-%(redis_state_worker)s.jl"
    worker = crawls.start(
        *("many", "-o", ours), site=site.url, shared=1, settings=settings
    )
    finish(worker)
    remedy = "put %(redis_state_worker)s into its name, so that each has its own"
    several = "several workers of this crawl would"
    assert re.findall(r"WARNING: (Feed .*)", worker.output) == [
        f"Feed appended.jl: {several} write into one file; {remedy}",
        f"Feed overwritten.jl: {several} overwrite each other's items; {remedy}",
    ]
    assert re.findall(r"WARNING: (JOBDIR .*)", worker.output) == [
        f"JOBDIR is set: requests are kept in Redis all the same, not in {tmp_path}/job"
    ]
    name = f"ours-place-many-{identity(worker)}.jl"
    assert pages(tmp_path / name) == ["/shared/0"]


WITHOUT_ADDON = {
    "ADDONS": "{}",
    "SCHEDULER": "scrapy_redis_state.scheduler.Scheduler",
    "EXTENSIONS": '{"scrapy_redis_state.reaper.Reaper": 0}',
    "SPIDER_MIDDLEWARES": '{"scrapy_redis_state.seeding.SeedingMiddleware": -1000}',
    "FEED_URI_PARAMS": "scrapy_redis_state.feeds.uri_params",
}


@pytest.mark.parametrize(
    "settings", [{"REDIS_STATE_ENABLED": False}, WITHOUT_ADDON], ids=["off", "by-hand"]
)
def test_the_name_of_a_feed_always_has_a_meaning(
    crawls: EverydayCrawls,
    site: GatedSite,
    tmp_path: Path,
    settings: dict[str, object],
) -> None:
    """Where nothing is shared, and where a project enables each part by itself."""
    feed = "out-%(redis_state_worker)s.jl"
    worker = crawls.start(
        "many", "-o", feed, site=site.url, shared=2, settings=settings
    )
    finish(worker)
    name = identity(worker) if "ADDONS" in settings else "unshared"
    assert set(pages(tmp_path / f"out-{name}.jl")) == {"/shared/0", "/shared/1"}
