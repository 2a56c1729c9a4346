"""Faults of the server: rows 7, 8, 9 and 12 of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from tests.crawl.crawls import close_reason, finish, stats
from tests.faults.graph import Graph, path_of, star
from tests.faults.proxy import Proxy
from tests.faults.trial import JUMP_PROOF_SECS, Trial, redelivered, says, taken_back
from tests.processes import Program, wait_until
from tests.servers import Server

pytestmark = pytest.mark.one_server

StartServer = Callable[..., Server]
MakeTrial = Callable[[Server], Trial]


def test_an_outage_longer_than_a_lease_expires_nothing(
    fresh_server: StartServer, trial_on: MakeTrial
) -> None:
    """Row 7: killed and restarted with its AOF, the server has the crawl as it was."""
    trial = trial_on(fresh_server(appendonly=True))
    with Graph(60, delay=0.1) as site:
        workers = trial.workers(site, REDIS_STATE_LEASE_SECS=JUMP_PROOF_SECS)
        trial.server.kill()
        since = time.monotonic()
        wait_until(lambda: time.monotonic() - since > JUMP_PROOF_SECS)
        trial.server.start()
        finish(*workers)
        assert trial.toll(site).is_clean
        assert site.visits == dict.fromkeys(site.paths, 1)
    assert redelivered(*workers) == taken_back(*workers) == 0
    for worker in workers:
        assert says(worker, "The server does not answer") == 1
        assert says(worker, "The server answers again") == 1
        assert says(worker, "] WARNING:") == 1


def test_a_replica_that_lagged_takes_over(
    fresh_server: StartServer,
    trial_on: MakeTrial,
    proxy_to: Callable[[Server], Proxy],
) -> None:
    """Row 8: the workers join again, and what was lost with the primary is redone."""
    at_once = ["--repl-diskless-sync-delay", "0"]
    primary, replica = (fresh_server(tcp=True, extra_args=at_once) for _ in range(2))
    link, front = proxy_to(primary), proxy_to(primary)
    before, after = trial_on(primary), trial_on(replica)
    follow(replica, link)
    with Graph(60, delay=0.05) as site:
        workers = before.workers(site, url=front.url, SEEDS=8, STALL_AFTER=4)
        after.wait_for_pages(8)
        link.is_silent = True  # from here on the replica knows of nothing
        before.let_start_go_on()
        before.wait_for_pages(30)
        before.client.client_pause(60_000, all=False)
        forgotten = before.done - after.done
        in_flight: Any = before.client.hlen(before.key("leases"))
        primary.kill()
        after.client.replicaof("NO", "ONE")
        front.switch(replica)
        finish(*workers)
        toll = after.toll(site)
    assert forgotten > 0
    assert not toll.lost
    assert not toll.dead
    assert toll.repeats <= forgotten + in_flight
    assert after.done == len(site.paths)
    assert [stats(worker)["redis_state/rejoins"] for worker in workers] == [1, 1]


def follow(replica: Server, link: Proxy) -> None:
    """Make a server the replica of another, and wait until it has its data."""
    client = replica.client()
    client.replicaof("127.0.0.1", link.port)
    info: Any = client.info
    wait_until(lambda: info("replication")["master_link_status"] == "up")


@pytest.mark.parametrize("how", ["FLUSHALL", "no persistence"])
def test_a_crawl_whose_state_vanished_says_so(
    fresh_server: StartServer, trial_on: MakeTrial, how: str
) -> None:
    """Row 9: running pages end, the workers fail, and none calls the crawl finished."""
    trial = trial_on(fresh_server())
    with Graph(20, links=star) as site:
        gate = site.hold(1, 2)
        worker = trial.worker(site, CONCURRENT_REQUESTS=2)
        wait_until(lambda: len(gate.waiting) == 2, 20)
        if how == "FLUSHALL":
            trial.client.flushall()
        else:
            shut_down(trial.server, "NOSAVE")
            trial.server.start()
        worker.wait_for_output("redis_state_lost: the state of crawl")
        gate.open()
        assert worker.wait() == 1, str(worker)
        assert trial.values("page").keys() == {path_of(n) for n in (0, 1, 2)}
    assert close_reason(worker) == "redis_state_lost"
    assert trial.server.client().dbsize() == 0


def test_errors_of_the_server_are_waited_out(
    fresh_server: StartServer, trial_on: MakeTrial
) -> None:
    """Row 12: after each of them the crawl goes on, and nothing was done twice."""
    server = fresh_server(
        extra_args=[
            *("--lua-time-limit", "50"),
            *("--key-load-delay", "4000"),  # microseconds a key, while LOADING
            *("--loading-process-events-interval-bytes", "1024"),
        ]
    )
    trial = trial_on(server)
    fill(server)
    with Graph(200, delay=0.02) as site:
        worker = trial.worker(
            site, CONCURRENT_REQUESTS=2, REDIS_STATE_LEASE_SECS=JUMP_PROOF_SECS
        )
        trial.wait_for_pages(5)
        trial.client.script_flush()
        for code, fault in FAULTS.items():
            done = trial.done
            trial.wait_for_pages(done + 3)
            with fault(trial.server):
                wait_for_refusals(server, worker, code)
            wait_until(lambda: tells(worker).endswith("answers again"))
        finish(worker)
        assert trial.toll(site).is_clean
        assert site.visits == dict.fromkeys(site.paths, 1)
    assert redelivered(worker) == 0
    assert trial.done == len(site.paths)


def fill(server: Server) -> None:
    """Give the server something to load."""
    client = server.client()
    client.mset({f"filler:{n}": "x" * 100 for n in range(300)})


def shut_down(server: Server, how: str) -> None:
    with pytest.raises(redis.ConnectionError):
        server.client().execute_command("SHUTDOWN", how)
    server.process.wait()


@contextmanager
def readonly(server: Server) -> Iterator[None]:
    """It is the replica of a server that is not there."""
    client = server.client()
    client.replicaof("127.0.0.1", 1)
    yield
    client.replicaof("NO", "ONE")


@contextmanager
def too_few_replicas(server: Server) -> Iterator[None]:
    client = server.client()
    client.config_set("min-replicas-to-write", 1)
    yield
    client.config_set("min-replicas-to-write", 0)


@contextmanager
def busy(server: Server) -> Iterator[None]:
    """It runs a script that does not end."""
    blocker = server.client(socket_timeout=0.01)
    with pytest.raises(redis.TimeoutError):
        blocker.eval("while true do end", 0)
    yield
    server.client().script_kill()


@contextmanager
def loading(server: Server) -> Iterator[None]:
    """It reads what it had saved."""
    shut_down(server, "SAVE")
    server.start()
    yield


FAULTS = {
    "READONLY": readonly,
    "NOREPLICAS": too_few_replicas,
    "BUSY": busy,
    "LOADING": loading,
}


def wait_for_refusals(server: Server, worker: Program, code: str) -> None:
    """Wait until calls of a worker were answered with an error."""
    if code == "BUSY":  # answers nothing else, so nobody can ask what it refused
        wait_until(lambda: f"({code} " in tells(worker))
        return

    info: Any = server.client().info

    def refused() -> bool:
        evalsha = info("commandstats").get("cmdstat_evalsha", {})
        in_script, before = evalsha.get("failed_calls", 0), evalsha["rejected_calls"]
        return f"errorstat_{code}" in info("errorstats") and in_script + before > 0

    wait_until(refused)


def tells(worker: Program) -> str:
    """The last line in which a worker tells of its server."""
    lines = [line for line in worker.output.splitlines() if "The server " in line]
    return lines[-1] if lines else ""
