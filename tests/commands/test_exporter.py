"""Metrics for Prometheus: of a server's crawls, and of one worker."""

from __future__ import annotations

import re
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scrapy_redis_state.commands import server_metrics
from scrapy_redis_state.commands.server_metrics import ServerMetrics
from scrapy_redis_state.prometheus.server import as_text
from scrapy_redis_state.store.client import sync_client
from tests.commands.commands import Commands, refusal
from tests.crawl.crawls import Crawls
from tests.processes import REPOSITORY, Program, wait_until
from tests.servers import Server
from tests.site import Site
from tests.store.clients import StartServer
from tests.store.crawls import Crawl, ack, page

pytestmark = pytest.mark.one_server

PAGE = REPOSITORY / "docs" / "reference" / "metrics.rst"
HOUSE = "scrapy_redis_state_"
DEAD = "redis://u:secret@127.0.0.1:1"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Samples:
    """Samples by name and labels, but the server, as Prometheus understands a text."""
    return {
        (
            sample.name,
            frozenset(one for one in sample.labels.items() if one[0] != "server"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(samples: Samples, metric: str, /, **labels: str) -> float:
    return samples[HOUSE + metric, frozenset(labels.items())]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        text: str = answer.read().decode()
    return text


@pytest.fixture
def crawl(server: Server, crawl_name: str) -> Crawl:
    """One that is not there yet."""
    return Crawl(server.client(), crawl_name)


@pytest.fixture
def metrics(server: Server) -> ServerMetrics:
    return ServerMetrics([server.url], sync_client, None)


def test_a_crawl_is_told_in_numbers(crawl: Crawl, metrics: ServerMetrics) -> None:
    """Requests by state, what is done, who works, and what to scale by."""
    member = crawl.member()
    member.exchange(*map(page, "abcde"))
    held = member.take(3)
    member.exchange(ack(held[0]))
    samples = read(as_text(metrics))
    mine = {"crawl": crawl.keys.crawl, "prefix": ""}
    requests = {
        state: of(samples, "requests", **mine, state=state)
        for state in ("pending", "in_flight", "delayed", "suspects", "dead")
    }
    assert requests == {
        "pending": 2, "in_flight": 2, "delayed": 0, "suspects": 0, "dead": 0,
    }  # fmt: skip
    assert of(samples, "queue_depth", **mine) == 4
    assert of(samples, "pages_done_total", **mine) == 1
    assert of(samples, "workers", **mine) == 1
    assert of(samples, "state", **mine, state="running") == 1
    assert of(samples, "state", **mine, state="paused") == 0
    assert of(samples, "memory_bytes", **mine) > 0
    assert of(samples, "up") == 1
    assert of(samples, "crawls", state="running") == 1
    now = crawl.client.time()[0]
    assert now - of(samples, "last_exchange_timestamp_seconds", **mine) < 60


def test_the_queue_depth_is_what_to_scale_by(
    crawl: Crawl, metrics: ServerMetrics
) -> None:
    """Not 0 while anything is left, and 0 while workers would do nothing."""

    def depth() -> float:
        mine = {"crawl": crawl.keys.crawl, "prefix": ""}
        return of(read(as_text(metrics)), "queue_depth", **mine)

    member = crawl.member()
    member.exchange(page("a"))
    assert depth() == 1
    crawl.client.zadd(crawl.key("delayed"), crawl.place("frontier"))
    crawl.client.delete(crawl.key("frontier"))
    assert depth() == 1  # a worker has to bring it back
    crawl.set(status="paused")
    assert depth() == 0
    crawl.set(status="running")
    crawl.client.delete(crawl.key("delayed"), crawl.key("requests"))
    assert depth() == 0
    crawl.set(seeding="open")
    assert depth() == 1


def test_a_server_that_is_down_is_no_crash(
    server: Server, crawl: Crawl, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told, the others are not hurt, and the log has it once."""
    crawl.push(page("a"))
    metrics = ServerMetrics([DEAD, server.url], sync_client, None)
    for _ in range(3):
        text = as_text(metrics)
    up = dict(re.findall(r'_up\{server="([^"]+)"\} (\d)', text))
    assert up == {"redis://***@127.0.0.1:1": "0", server.url: "1"}
    assert of(read(text), "queue_depth", crawl=crawl.keys.crawl, prefix="") == 1
    assert "secret" not in text
    assert len(caplog.records) == 1


def test_series_do_not_add_up(
    crawl: Crawl, metrics: ServerMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crawls that go on are told, and how many are left out."""
    monkeypatch.setattr(server_metrics, "MOST", 2)
    names = [f"{crawl.keys.crawl}-{n}" for n in range(4)]
    for name in names:
        Crawl(crawl.client, name).push(page("a"))
    finished = Crawl(crawl.client, names[0])
    finished.finish()
    Crawl(crawl.client, names[3]).member()
    samples = read(as_text(metrics))
    told = {dict(labels).get("crawl") for _, labels in samples} - {None}
    assert len(told) == 2
    assert names[3] in told
    assert names[0] not in told
    assert of(samples, "crawls_left_out") == 2
    assert of(samples, "crawls", state="finished") == 1
    crawl.client.delete(*crawl.client.scan_iter(f"*{crawl.keys.crawl}-*"))


def test_names_follow_the_conventions(crawl: Crawl, metrics: ServerMetrics) -> None:
    """And the page has each of them, and no other."""
    crawl.member().exchange(page("a"))
    text = as_text(metrics)
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    assert all(name.startswith(HOUSE) for name in types)
    for name, kind in types.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(ms|secs|minutes|kb|mb)(_|$)", name)
        assert f"# HELP {name} " in text
    listed = set(re.findall(rf"``({HOUSE}\w+)``", PAGE.read_text()))
    assert {one for one in listed if "_worker_" not in one} == set(types)


def test_the_exporter_outlives_its_server(
    commands: Commands, crawls: Crawls, fresh_server: StartServer, crawl_name: str
) -> None:
    """And ends quietly when it is asked to."""
    server = fresh_server(tcp=True)
    Crawl(server.client(), crawl_name).push(page("a"))
    exporter = crawls.programs.scrapy(
        *("redis-state", "exporter", "--url", server.url, "--port", "0"),
        env={"PYTHONPATH": commands.path},
    )
    exporter.wait_for_output("metrics are at ")
    url = exporter.output.split()[-1]
    assert f'crawl="{crawl_name}"' in get(url)
    server.stop()
    assert of(read(get(url)), "up") == 0
    server.start()
    wait_until(lambda: of(read(get(url)), "up") == 1)
    exporter.terminate()
    exporter.wait_for_success()
    assert "Traceback" not in exporter.output


def test_a_port_that_is_taken_is_refused(commands: Commands) -> None:
    """In one line, with the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = commands.run("exporter", "--url", commands.url, "--port", port)
    text = refusal(done)
    assert text.startswith(f"--address 127.0.0.1 --port {port}: ")
    assert text.endswith(": give another")


def test_the_rules_of_the_how_to_ask_for_what_there_is() -> None:
    """Alerts, panels and scaling."""
    guide = (REPOSITORY / "docs" / "howto" / "monitoring.rst").read_text()
    asked = set(re.findall(rf"{HOUSE}\w+", guide))
    listed = set(re.findall(rf"``({HOUSE}\w+)``", PAGE.read_text()))
    assert len(asked) > 10
    assert asked <= listed


def metrics_url(worker: Program) -> str:
    worker.wait_for_output("Metrics are at ")
    return str(re.findall(r"Metrics are at (\S+)", worker.output)[0])


def test_each_worker_tells_of_itself(commands: Commands, crawls: Crawls) -> None:
    """Those of one host take one port after the other."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Site() as site, site.held():
        first, second = (
            crawls.programs.crawl(
                "pages",
                arguments={"site": site.url, "count": 4},
                settings={"REDIS_STATE_METRICS_PORT": port},
                env=commands.project_env(),
            )
            for _ in range(2)
        )
        urls = {metrics_url(first), metrics_url(second)}
        assert len(urls) == 2
        assert f"http://127.0.0.1:{port}/metrics" in urls
        crawl = f"{commands.crawl}:pages"

        def both_hold_some() -> bool:
            return all(
                of(read(get(url)), "worker_held_requests", crawl=crawl) for url in urls
            )

        wait_until(both_hold_some, 60)
        text = get(urls.pop())
        started = {"crawl": crawl, "name": "scheduler/dequeued"}
        assert of(read(text), "worker_stat", **started) >= 1
        types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
        listed = set(re.findall(rf"``({HOUSE}worker_\w+)``", PAGE.read_text()))
        assert listed == set(types)
    for worker in (first, second):
        worker.wait_for_success()
    with pytest.raises(OSError):
        get(f"http://127.0.0.1:{port}/metrics")
