"""Workers that are told to stop while their pages run long."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pytest

from tests.crawl.crawls import close_reason, finish, wait_until_joined
from tests.faults.graph import Graph, path_of, star
from tests.faults.trial import (
    RECOVERY_SECS,
    Held,
    Trial,
    redelivered,
    says,
    taken_back,
)
from tests.processes import wait_until

pytestmark = pytest.mark.one_server

PAGES = 24
AT_ONCE_SECS = 2
LIMITS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
    "DOWNLOAD_DELAY": 0.05,
    "DOWNLOAD_TIMEOUT": 120,
}
"""Four pages are downloaded at a time, and four more wait inside of Scrapy.

Without any delay Scrapy starts more at times.
"""


class Stop(NamedTuple):
    """How a worker is stopped, and what it is told of that."""

    grace_secs: int
    """REDIS_STATE_SHUTDOWN_GRACE_SECS, as documented for all but ``SHORT``."""
    kill_secs: int
    """So long after SIGTERM comes SIGKILL."""
    at_secs: int
    """The stop begins when pages have run so long."""
    page_secs: int = 15
    """How long the pages take that end in time."""


SHORT = Stop(grace_secs=7, kill_secs=9, at_secs=2, page_secs=7)
"""In less time than Docker's, pages end as long before the grace, and that as long
before the kill."""
DOCKER = Stop(grace_secs=8, kill_secs=10, at_secs=9)
KUBERNETES = Stop(grace_secs=25, kill_secs=30, at_secs=0)


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(DOCKER, id="docker", marks=pytest.mark.faults_long),
        pytest.param(KUBERNETES, id="kubernetes", marks=pytest.mark.faults_long),
    ],
)
def test_a_worker_ends_before_it_is_killed(trial: Trial, stop: Stop) -> None:
    """What ends in time is done, the rest is another's at once; nothing is repeated."""
    done = {path_of(n) for n in (1, 2)}
    kept, interrupted = path_of(3), {path_of(n) for n in (3, 4, 5)}
    with Graph(PAGES, links=star) as site:
        ending = site.hold(1, 2, secs=stop.page_secs)
        endless = site.hold(4, 5, secs=120)
        settings = LIMITS | {"REDIS_STATE_SHUTDOWN_GRACE_SECS": stop.grace_secs}
        first = trial.worker(site, KEEP_AT=kept, **settings)
        wait_until(lambda: ending.waiting == done, 40)
        began = time.monotonic()
        wait_until(lambda: len(endless.waiting) == 2 and trial.holds(first) > 9)
        wait_until(lambda: time.monotonic() - began >= stop.at_secs)

        first.terminate()
        told = time.monotonic()
        names = trial.identities(first)
        wait_until(
            lambda: held_by(trial, names) == done | interrupted,
            AT_ONCE_SECS,
            "what was not started is released",
        )
        second = trial.worker(site, **settings)
        first.wait(told + stop.kill_secs - time.monotonic())
        assert stop.grace_secs <= time.monotonic() - told
        assert (first.returncode, close_reason(first)) == (0, "shutdown")
        assert says(first, "handed back 3 pages that still run") == 1
        assert says(first, "ERROR") == says(first, "Task was destroyed") == 0
        wait_until(
            lambda: {p for p in site.paths if site.visits[p] > 1} == interrupted,
            AT_ONCE_SECS,
            "another has what was interrupted",
        )
        finish(second)
        endless.open()
        assert trial.values("page", first) == dict.fromkeys({path_of(0)} | done, 1)
        assert site.visits == {p: 1 + (p in interrupted) for p in site.paths}
        assert trial.toll(site).is_clean
    assert trial.done == PAGES
    assert redelivered(second) == taken_back(second) == 0, "no delivery was counted"


def test_a_second_signal_leaves_the_work_to_the_reaper(trial: Trial) -> None:
    """The process ends at once; what it ran is back as after a kill, and counted."""
    running = {path_of(n) for n in (1, 2, 3, 4)}
    with Graph(PAGES, links=star) as site:
        endless = site.hold(1, 2, 3, 4)
        first = trial.worker(site, **LIMITS)
        wait_until(lambda: endless.waiting == running, 40)
        first.terminate()
        first.wait_for_output("shutting down gracefully")
        names = trial.identities(first)
        wait_until(lambda: held_by(trial, names) == running, AT_ONCE_SECS)
        second = trial.worker(site, **LIMITS)
        wait_until_joined(second)
        first.terminate()
        first.wait(AT_ONCE_SECS)
        pages = {id.decode(): trial.path(id) for id in trial.leased_to(names)}
        held = Held(first, pages, trial.now())
        assert held.paths == running
        assert trial.recovery(held) <= RECOVERY_SECS
        finish(second)
        assert site.visits == {p: 1 + (p in running) for p in site.paths}
        assert trial.toll(site).is_clean
    assert redelivered(second) == taken_back(second) == len(running)


def held_by(trial: Trial, names: set[bytes]) -> set[str]:
    """Paths of what is leased to a worker."""
    return {trial.path(id) for id in trial.leased_to(names)}
