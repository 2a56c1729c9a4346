"""Clocks that are wrong or jump: row 13 of the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import IN_CI
from tests.crawl.crawls import finish, stats
from tests.faults.faketime import Clock, library
from tests.faults.graph import Graph
from tests.faults.trial import (
    JUMP_PROOF_SECS,
    REAP_SECS,
    Trial,
    redelivered,
    taken_back,
)
from tests.processes import wait_until
from tests.servers import Server

pytestmark = [
    pytest.mark.one_server,
    pytest.mark.skipif(
        library() is None and not IN_CI, reason="install faketime to set clocks"
    ),
]

HOUR = 3600


def test_clocks_do_not_matter(
    fresh_server: Callable[..., Server],
    trial_on: Callable[[Server], Trial],
    tmp_path: Path,
) -> None:
    """Row 13: an hour off or jumping, no live lease ends, and a dead worker's does."""
    clock, ahead, behind = (Clock(tmp_path / name) for name in ("s", "a", "b"))
    ahead.set(HOUR)
    behind.set(-HOUR)
    with clock.for_programs():
        trial = trial_on(fresh_server())
    with Graph(150, delay=0.1) as site:
        workers = trial.workers(
            site,
            {"clock": ahead},
            {"clock": behind},
            REDIS_STATE_LEASE_SECS=JUMP_PROOF_SECS,
        )
        for offset in (HOUR, -HOUR, 0):
            clock.set(offset)
            ahead.set(-offset)
            wait_until_all_beat(trial)
        survivor, victim = workers
        wait_until(lambda: trial.holds(victim))
        assert redelivered(*workers) == taken_back(*workers) == 0
        held = trial.kill(victim)
        assert trial.recovery(held) <= JUMP_PROOF_SECS + REAP_SECS + 1
        finish(survivor)
        toll = trial.toll(site)
    assert not toll.lost
    assert not toll.dead
    # Visits are not compared: Scrapy's own time-outs follow a worker's clock.
    assert toll.repeated.keys() <= held.paths
    assert redelivered(survivor) == taken_back(survivor) == len(held.pages)
    assert stats(survivor)["redis_state/rejoins"] == 0


def wait_until_all_beat(trial: Trial) -> None:
    """Wait until each worker has been heard twice, the second time after a while."""
    for _ in range(2):
        wait_until(partial(all_beat_since, trial, trial.beats()))


def all_beat_since(trial: Trial, before: dict[bytes, float]) -> bool:
    return not trial.beats().items() & before.items()
