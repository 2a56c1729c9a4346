"""The long profile: ``tox run -e faults``. See ``Plan`` for what can be set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.faults.campaign import Campaign, Plan
from tests.faults.graph import Graph
from tests.faults.report import figures, publish
from tests.faults.trial import REAP_SECS, Trial
from tests.processes import Programs, wait_until
from tests.servers import Server
from tests.store.topologies import Cluster, Watched, starting

pytestmark = pytest.mark.faults_long


@pytest.fixture
def trial(
    fresh_server: Callable[..., Server], trial_on: Callable[[Server], Trial]
) -> Trial:
    """A server that loses nothing when it is killed."""
    return trial_on(fresh_server(appendonly=True))


@pytest.fixture
def plan() -> Plan:
    return Plan.from_environment()


@pytest.fixture
def site(plan: Plan) -> Iterator[Graph]:
    with Graph(plan.urls) as site:
        yield site


def test_kills_again_and_again(trial: Trial, site: Graph, plan: Plan) -> None:
    """Nothing is lost; what is repeated had been held; all of it is back in time."""
    campaign = Campaign(trial, site, plan)
    campaign.run(kills=plan.worker_kills, server_kills=plan.server_kills)
    found = figures(campaign, trial.server)
    publish(found, f"kills-{trial.server.kind}")
    assert (found["lost"], found["dead"], found["fsck"]) == (0, 0, 0)
    assert found["worker_kills"] == plan.worker_kills
    assert found["server_kills"] == plan.server_kills
    assert found["rejoins"] == 0, "a worker that lived lost its leases"
    assert found["repeated"] <= found["held_at_kills"]
    assert found["not_recovered"] == 0
    assert found["longest_recovery_secs"] <= plan.lease_secs + REAP_SECS + 1
    assert campaign.endings(campaign.survivors) == {(0, "finished")}


def test_kills_and_failovers(
    programs: Programs, server_kind: str, crawl_name: str, plan: Plan, tmp_path: Path
) -> None:
    """Masters are killed, and Sentinels promote their replicas: nothing is lost."""
    plan = replace(plan, urls=plan.urls // 4)
    with (
        starting(server_kind) as start,
        Watched(start, tmp_path, appendonly=True) as watched,
    ):
        place: Any = watched
        trial = Trial(programs, place, crawl_name)
        with Graph(plan.urls) as site:
            outage = partial(fail_over, watched, site)
            campaign = Campaign(trial, site, plan, outage)
            campaign.run(kills=plan.worker_kills // 4, server_kills=plan.server_kills)
            found = figures(campaign, watched.master)
        publish(found, f"failovers-{server_kind}")
        trial.client.close()
    assert (found["lost"], found["dead"], found["fsck"]) == (0, 0, 0)
    # What is repeated beyond that had not reached the replica yet.
    lost_with_masters = found["repeated"] - found["held_at_kills"]
    assert lost_with_masters <= found["urls"] // 10
    assert found["not_recovered"] == 0
    assert campaign.endings(campaign.survivors) == {(0, "finished")}


def test_kills_and_moves_in_a_cluster(
    programs: Programs, server_kind: str, crawl_name: str, plan: Plan
) -> None:
    """The crawl's slot moves from node to node: nothing is lost, nothing repeated."""
    plan = replace(plan, urls=plan.urls // 4)
    with starting(server_kind) as start:
        cluster = Cluster(start)
        place: Any = cluster
        trial = Trial(programs, place, crawl_name)
        with Graph(plan.urls) as site:
            campaign = Campaign(trial, site, plan, partial(move, cluster, trial))
            campaign.run(kills=plan.worker_kills // 4, server_kills=plan.server_kills)
            found = figures(campaign, cluster.masters[0])
        publish(found, f"moves-{server_kind}")
        trial.client.close()
    assert (found["lost"], found["dead"], found["fsck"]) == (0, 0, 0)
    assert found["rejoins"] == 0
    assert found["repeated"] <= found["held_at_kills"]
    assert campaign.endings(campaign.survivors) == {(0, "finished")}


def fail_over(watched: Watched, site: Graph) -> None:
    """Kill the master; when the replica is promoted, start it as the new replica."""
    port = watched.current_port()
    master = next(server for server in watched.servers if server.port == port)
    master.kill()
    wait_until(lambda: watched.current_port() != port, 30, "another is master")
    master.start()
    with site.held():  # what takes long is not to see a small crawl end
        wait_until(partial(is_in_step, watched), 60, "it is the new one's replica")


def is_in_step(watched: Watched) -> bool:
    try:
        return watched.is_in_step()
    except redis.ConnectionError:
        return False  # a server that becomes a replica closes its connections


def move(cluster: Cluster, trial: Trial) -> None:
    """Move the crawl to another node."""
    with cluster.moving(trial.key("crawl")):
        pass


def test_stops_again_and_again(trial: Trial, plan: Plan) -> None:
    """SIGTERM: nothing is lost, nothing repeated, no delivery counted."""
    plan = replace(plan, urls=plan.urls // 4)
    with Graph(plan.urls) as site:
        campaign = Campaign(trial, site, plan)
        campaign.run(stops=plan.stops)
        found = figures(campaign, trial.server)
        publish(found, f"stops-{trial.server.kind}")
        assert site.visits == dict.fromkeys(site.paths, 1)
    assert (found["lost"], found["dead"], found["fsck"]) == (0, 0, 0)
    assert found["repeated"] == found["redelivered_to_survivors"] == 0
    assert campaign.endings(campaign.stopped) == {(0, "shutdown")}
