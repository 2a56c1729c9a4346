"""Faults between a worker and its server: rows 5 and 6 of the table, and silence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import pytest

from scrapy_redis_state.store.call import load_script
from tests.crawl.crawls import finish, stats
from tests.faults import namespaces
from tests.faults.graph import Graph, star
from tests.faults.proxy import Break, Proxy
from tests.faults.trial import RECOVERY_SECS, Trial, redelivered, says
from tests.processes import wait_until
from tests.servers import Server

pytestmark = pytest.mark.one_server

PAGES = 40


@pytest.fixture
def site() -> Iterator[Graph]:
    with Graph(PAGES, delay=0.05) as site:
        yield site


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param([Break.BEFORE_REPLY, Break.IN_REPLY], id="reply lost"),
        pytest.param([Break.BEFORE_CALL, Break.IN_CALL], id="call lost"),
    ],
)
def test_a_broken_call_takes_effect_once(
    trial: Trial, proxy: Proxy, site: Graph, breaks: list[Break]
) -> None:
    """Rows 5 and 6: wherever the connection breaks, nothing is lost or done twice."""
    every_fourth = [fault for one in breaks for fault in (None, None, None, one)]
    twice_in_a_row = breaks
    proxy.plan(*every_fourth, *twice_in_a_row, *every_fourth)
    worker = trial.worker(site, url=proxy.url)
    finish(worker)
    assert proxy.broken == dict.fromkeys(breaks, 3)
    assert trial.toll(site).is_clean
    assert site.visits == dict.fromkeys(site.paths, 1)
    assert stats(worker)["redis_state/rejoins"] == redelivered(worker) == 0
    assert trial.done == PAGES


def test_a_server_may_go_away_between_the_questions_of_a_start(
    trial: Trial, proxy: Proxy, site: Graph
) -> None:
    """As it does in a failover: they are asked again, and the crawl starts."""
    proxy.marker = load_script("join").sha.encode()
    proxy.plan(*[Break.BEFORE_CALL, Break.BEFORE_REPLY] * 3)
    finish(trial.worker(site, url=proxy.url))
    assert proxy.breaks_left == 0
    assert trial.toll(site).is_clean


def test_a_silent_connection_is_left_for_another(
    trial: Trial, proxy: Proxy, site: Graph
) -> None:
    """What is sent vanishes: the worker notices, tells once, and goes on after it."""
    url = f"{proxy.url}?socket_timeout=0.5&socket_connect_timeout=0.5"
    worker = trial.worker(site, url=url)
    trial.wait_for_pages(5)
    proxy.is_silent = True
    worker.wait_for_output("The server does not answer, trying again")
    done = trial.done
    proxy.is_silent = False
    finish(worker)
    assert done < PAGES
    assert says(worker, "The server does not answer") == 1
    assert says(worker, "The server answers again") == 1
    assert trial.toll(site).is_clean
    assert site.visits == dict.fromkeys(site.paths, 1)


def test_pages_share_round_trips_to_a_slow_server(trial: Trial, proxy: Proxy) -> None:
    """With 150 ms to the server a page needs far less than a round trip of its own."""
    proxy.delay_secs = 0.15
    pages = 240  # so many that a slow machine's longer crawl stays below the bound
    with Graph(pages, links=star) as site:
        worker = trial.worker(site, url=proxy.url, CONCURRENT_REQUESTS=16)
        finish(worker)
        assert trial.toll(site).is_clean
    assert stats(worker)["redis_state/exchanges"] < pages / 2


def test_two_ways_to_a_server_fail_apart(
    trial: Trial, proxy: Proxy, site: Graph, proxy_to: Callable[[Server], Proxy]
) -> None:
    """A worker that is cut off for longer than its lease loses its pages to others."""
    other_way = proxy_to(trial.server)
    cut_off, other = trial.workers(site, {"url": other_way.url}, {"url": proxy.url})
    other_way.is_silent = True
    names = trial.identities(cut_off)
    wait_until(lambda: not trial.leased_to(names), 20)
    other_way.is_silent = False
    other_way.cut()
    finish(cut_off, other)
    toll = trial.toll(site)
    assert not toll.lost
    assert not toll.dead
    assert trial.done == PAGES
    assert stats(cut_off)["redis_state/rejoins"] == 1


def test_workers_need_share_nothing_but_the_server(trial: Trial, site: Graph) -> None:
    """Each with a network and a directory of its own; one is killed, the other ends."""
    namespaces.require()
    assert trial.server.socket
    site_port = urlsplit(site.url).port
    assert site_port
    with TemporaryDirectory() as short:  # the path of a Unix socket has to be short
        site_socket = namespaces.way_out(trial.programs, Path(short) / "s", site_port)
        ways = {6379: trial.server.socket, site_port: site_socket}
        hosts = [namespaces.Namespace(trial.programs, ways) for _ in range(2)]
        url = "redis://127.0.0.1:6379/0"
        each = [{"programs": host} for host in hosts]
        victim, survivor = trial.workers(site, *each, url=url)
        pids = (os.getpid(), victim.pid, survivor.pid)
        assert len({namespaces.network_of(pid) for pid in pids}) == 3
        held = trial.kill(victim)
        assert trial.recovery(held) <= RECOVERY_SECS
        finish(survivor)
        toll = trial.toll(site)
    assert not toll.lost
    assert toll.repeated.keys() <= held.paths
    assert redelivered(survivor) == len(held.pages)
