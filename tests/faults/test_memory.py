"""A server without room: rows 10 and 11 of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.crawl.crawls import finish
from tests.faults.graph import Graph
from tests.faults.trial import Trial, redelivered, says
from tests.processes import wait_until
from tests.servers import Server

pytestmark = pytest.mark.one_server

StartServer = Callable[..., Server]
MakeTrial = Callable[[Server], Trial]

FAT_BYTES = 20_000
ROOM_BYTES = 300_000
STEADY_SECS = 1


def test_a_full_server_slows_the_crawl_and_loses_nothing(
    fresh_server: StartServer, trial_on: MakeTrial
) -> None:
    """Row 10: what finds no room waits, no memory is used, and all is done at last."""
    trial = trial_on(fresh_server())
    with Graph(150, links=lambda n: (2 * n + 1, 2 * n + 2)) as site:
        gate = site.hold(1, 2)
        worker = trial.worker(site, FAT_BYTES=FAT_BYTES)
        wait_until(lambda: len(gate.waiting) == 2, 20)
        trial.client.config_set("maxmemory", memory(trial, "used_memory") + ROOM_BYTES)
        gate.open()
        settled_after_refusal(trial)
        until = trial.now() + STEADY_SECS
        while trial.now() < until:
            assert memory(trial, "used_memory") < limit(trial) + ROOM_BYTES
        assert trial.done < len(site.paths)
        trial.client.config_set("maxmemory", 0)
        finish(worker)
        assert trial.toll(site).is_clean
        assert site.visits == dict.fromkeys(site.paths, 1)
    assert says(worker, "no room") == 1
    assert redelivered(worker) == 0


def test_a_server_that_would_delete_the_crawl_is_refused(
    fresh_server: StartServer, trial_on: MakeTrial
) -> None:
    """Row 11: evicting anything is refused, evicting finished crawls warned about."""
    trials = {
        policy: trial_on(fresh_server()) for policy in ("allkeys-lfu", "volatile-ttl")
    }
    hidden = trial_on(fresh_server())
    hidden.client.acl_setuser(
        "crawler",
        enabled=True,
        nopass=True,
        keys=["*"],
        commands=["+@all", "-info", "-config", "-@dangerous"],
    )
    with Graph(3) as site:
        workers = {}
        for policy, trial in trials.items():
            trial.client.config_set("maxmemory-policy", policy)
            workers[policy] = trial.worker(site)
        url = hidden.server.url.replace("unix://", "unix://crawler:any@")
        unknown = hidden.worker(site, url=url)
        refused, warned = workers.values()
        assert refused.wait() == 1
        last = refused.output.splitlines()[-1]
        assert "maxmemory-policy = 'allkeys-lfu'" in last
        assert "set it to noeviction" in last
        finish(warned, unknown)
        assert not trials["allkeys-lfu"].client.dbsize()
    assert says(warned, "WARNING: maxmemory-policy = 'volatile-ttl'") == 1
    assert says(unknown, "WARNING: the server's settings cannot be read") == 1


def memory(trial: Trial, field: str) -> int:
    info: Any = trial.client.info("memory")
    return int(info[field])


def limit(trial: Trial) -> int:
    return memory(trial, "maxmemory")


def settled_after_refusal(trial: Trial) -> None:
    """Wait until the server takes no more requests."""
    info: Any = trial.client.info
    wait_until(lambda: "errorstat_OOM" in info("errorstats"), 20)
    seen, since = trial.stored, trial.now()
    while trial.now() - since < STEADY_SECS / 2:
        if trial.stored != seen:
            seen, since = trial.stored, trial.now()
