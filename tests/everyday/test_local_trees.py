"""Local and shared requests that come from each other, and workers that go away."""

from __future__ import annotations

import random

import pytest

from tests.crawl.crawls import finish, total, wait_for_items
from tests.everyday.crawls import EverydayCrawls, GatedSite, paths
from tests.everyday.project.spiders.local_fates import MixedSpider
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server

WAYS = ["kill", "terminate", "pause"]


def tree() -> set[str]:
    """All pages of the site."""
    found, new = {"/start"}, ["/start"]
    while new:
        new = [child for path in new for child in MixedSpider.children(path)]
        found.update(new)
    return found


def leave(crawls: EverydayCrawls, worker: Program, others: list[Program], how: str):
    """Have a worker go: killed, stopped, or out of touch for longer than a lease."""
    if how == "kill":
        worker.kill()
    elif how == "terminate":
        worker.terminate()
    elif worker.running:
        worker.pause()
        clock = crawls.clock("mixed")
        # The clock stands still when nobody else is left.
        wait_until(
            lambda: (
                crawls.clock("mixed") > clock + 2500
                or not any(one.running for one in others)
            ),
            30,
        )
        worker.resume()


def check_tree(crawls: EverydayCrawls, site: GatedSite, seed: int, how: str) -> None:
    """Workers leave at two random moments; those that do not come back are replaced."""
    moments = random.Random(seed)
    settings = {"REDIS_STATE_MAX_DELIVERIES": 20}
    every = [crawls.start("mixed", site=site.url, settings=settings) for _ in range(3)]
    running = list(every)
    for count in sorted(moments.sample(range(5, len(tree()) - 20), 2)):
        wait_for_items(crawls, count)
        joined = [worker for worker in running if ", worker " in worker.output]
        gone = moments.choice(joined)
        others = [worker for worker in running if worker is not gone]
        if how != "pause":
            every.append(crawls.start("mixed", site=site.url, settings=settings))
            running = [*others, every[-1]]
        leave(crawls, gone, others, how)
    finish(*running)
    assert set(paths(crawls)) == tree()
    assert crawls.dead("mixed") == {}
    assert crawls.problems() == []
    if how == "terminate":
        assert total("redis_state/redelivered", every) == 0


@pytest.mark.parametrize("how", WAYS)
def test_a_mixed_tree_is_crawled_to_its_last_leaf(
    crawls: EverydayCrawls, site: GatedSite, how: str
) -> None:
    """Whatever happens to the workers that have a part of it."""
    check_tree(crawls, site, 1, how)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("how", WAYS)
def test_mixed_trees_always_are(
    crawls: EverydayCrawls, site: GatedSite, how: str, seed: int
) -> None:
    """The same holds ten times in a row."""
    check_tree(crawls, site, seed, how)
