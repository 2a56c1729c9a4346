"""Faults of workers: rows 1 to 4, 14 and 15 of the table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.crawl.crawls import finish, stats
from tests.faults.graph import Graph, path_of, star
from tests.faults.trial import (
    RECOVERY_SECS,
    Trial,
    redelivered,
    says,
    taken_back,
)
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server


def test_what_a_killed_worker_held_is_delivered_once_more(trial: Trial) -> None:
    """Row 1: exactly that, each page once, within the lease and one reap interval."""
    with Graph(80, delay=0.1) as site:
        victim, survivor = trial.workers(site)
        wait_until(lambda: trial.holds(victim) > 1)
        held = trial.kill(victim)
        assert trial.recovery(held) <= RECOVERY_SECS
        finish(survivor)
        toll = trial.toll(site)
        again = {path for path in site.paths if site.visits[path] > 1}
    assert not toll.lost
    assert not toll.dead
    assert toll.repeated.keys() | again <= held.paths
    assert max(Counter(toll.repeated).values(), default=1) == 1
    assert redelivered(survivor) == taken_back(survivor) == len(held.pages)
    assert trial.done == len(site.paths)


def test_children_of_a_page_that_is_repeated_are_not(trial: Trial) -> None:
    """Row 2: killed when the children are stored and the page is not acknowledged."""
    with Graph(4, links=star) as site:
        settings: dict[str, Any] = {"SIGN_AT": path_of(0), "CONCURRENT_REQUESTS": 1}
        victim = trial.worker(site, KEEP_AT=path_of(0), **settings)
        stored_by_victim = 3 + 2
        trial.wait_for_pages(stored_by_victim)
        held = trial.kill(victim)
        assert held.paths == {path_of(0)}
        finish(survivor := trial.worker(site, **settings))
        signs = {path: n for path, n in site.visits.items() if "signed" in path}
        assert signs == {f"/signed/{w.pid}": 1 for w in (victim, survivor)}
        assert site.visits[path_of(0)] == 2
        assert [site.visits[path_of(n)] for n in (1, 2, 3)] == [1, 1, 1]
        assert site.visits["/unfiltered"] == 2, "as often as the page, being unfiltered"
        assert trial.toll(site).is_clean
    assert redelivered(survivor) == 1


def test_a_worker_that_slept_through_its_leases_changes_nothing(trial: Trial) -> None:
    """Row 3: late acks are void, fetched pages dropped, new requests kept."""
    lease_secs = 1.5
    with Graph(9, links=star) as site:
        running, last = site.hold(1, 2), site.hold(8, visits=2)
        settings: dict[str, Any] = {
            "SIGN_AT": path_of(1),
            "CONCURRENT_REQUESTS": 2,
            "REDIS_STATE_LEASE_SECS": lease_secs,
        }
        sleeper = trial.worker(site, **settings)
        wait_until(lambda: len(running.waiting) == 2 and trial.holds(sleeper) > 2)
        held = trial.stop(sleeper)
        other = trial.worker(site, **settings)
        trial.recovery(held)
        wait_until(lambda: trial.now() - held.since > 5 * lease_secs)
        wait_until(lambda: last.waiting and trial.done == 8 + 2)
        visits = dict(site.visits)
        sleeper.resume()
        running.open()
        sleeper.wait_for_output("joins again")
        wait_until(lambda: site.visits[f"/signed/{sleeper.pid}"])
        last.open()
        finish(sleeper, other)
        toll = trial.toll(site)
        unstarted = held.paths - running.waiting
        assert unstarted
        assert {p: site.visits[p] for p in unstarted} == dict.fromkeys(unstarted, 1)
        new = Counter(site.visits) - Counter(visits)
        assert new.keys() == {f"/signed/{sleeper.pid}", "/unfiltered"}
    assert not toll.lost
    assert not toll.dead
    assert toll.repeated == dict.fromkeys(running.waiting, 1)
    assert stats(sleeper)["redis_state/stale"] == 2
    assert rejoins(sleeper) == 1
    assert (stalls(sleeper), stalls(other)) == (1, 0)
    assert redelivered(other) == len(held.pages)
    assert redelivered(sleeper) == 0
    # Both signed links, and the unfiltered one of each.
    assert trial.done == len(site.paths) + 2 + 2


def test_a_callback_that_blocks_costs_its_page_one_delivery(trial: Trial) -> None:
    """Row 4: the page is done again elsewhere, and the log says what to do."""
    with Graph(60, delay=0.1) as site:
        workers = trial.workers(site, BLOCK_AT=path_of(4), BLOCK_SECS=RECOVERY_SECS)
        finish(*workers)
        toll = trial.toll(site)
    blocked, other = sorted(workers, key=rejoins, reverse=True)
    assert (rejoins(blocked), rejoins(other)) == (1, 0)
    assert not toll.lost
    assert not toll.dead
    assert path_of(4) in toll.repeated
    assert set(toll.repeated.values()) == {1}
    assert redelivered(other) == taken_back(blocked, other)
    assert trial.done == len(site.paths)
    assert (stalls(blocked), stalls(other)) == (1, 0)


def test_another_worker_takes_start_over(trial: Trial) -> None:
    """Row 14: killed half-way, every start request is crawled, and none twice."""
    with Graph(8, links=lambda _: ()) as site:
        workers = [trial.worker(site, SEEDS=8, STALL_AFTER=4) for _ in range(2)]
        for worker in workers:
            worker.wait_for_output(", worker ")
        trial.wait_for_pages(4)
        victim, other = sorted(workers, key=trial.is_seeding, reverse=True)
        held = trial.kill(victim)
        assert not held.pages
        finish(other)
        assert site.visits == dict.fromkeys(site.paths, 1)
        assert trial.toll(site).is_clean
    assert redelivered(other) == 0


def test_a_page_that_kills_its_workers_dies_alone(trial: Trial) -> None:
    """Row 15: it is a dead letter at last, and its neighbours are all done."""
    with Graph(60, delay=0.05) as site:
        settings = {"EXIT_AT": path_of(2), "REDIS_STATE_MAX_DELIVERIES": 2}
        workers = trial.workers(site, {}, {}, {}, **settings)
        wait_until(lambda: sum(worker.running for worker in workers) == 1, 40)
        survivor = next(worker for worker in workers if worker.running)
        finish(survivor)
        toll = trial.toll(site)
    assert {path: d.deliveries for path, d in toll.dead.items()} == {path_of(2): 2}
    beyond = reached_through(site, path_of(2))
    assert toll.lost == beyond
    assert says(survivor, "Gave up") == 1


def rejoins(worker: Program) -> int:
    return stats(worker)["redis_state/rejoins"]


def stalls(worker: Program) -> int:
    """How often a worker stood still; each time it has said how to avoid that."""
    lines = [line for line in worker.output.splitlines() if "stood still" in line]
    remedy = "set REDIS_STATE_LEASE_SECS above"
    assert all("WARNING" in line and remedy in line for line in lines)
    assert stats(worker)["redis_state/stalls"] == len(lines)
    return len(lines)


def reached_through(site: Graph, path: str) -> set[str]:
    """A page, and all to which no link leads but by way of it."""
    links = {p: set(site.body(p).split('"')[1::2]) for p in site.paths}
    reached, found = set(), [path_of(0)]
    while found:
        here = found.pop()
        if here not in reached and here != path:
            reached.add(here)
            found += links[here]
    return set(site.paths) - reached
