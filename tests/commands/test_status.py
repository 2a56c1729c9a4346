"""Looking at crawls and servers: ``status``, ``crawls``, ``doctor``."""

from __future__ import annotations

import json

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.keys import CrawlKeys
from tests.commands.commands import Commands, refusal
from tests.crawl.crawls import Crawls
from tests.processes import wait_until
from tests.servers import Server
from tests.site import Site
from tests.store.clients import StartServer
from tests.store.users import PREFIX, documented_user, url_of_user

pytestmark = pytest.mark.one_server

URL = "http://shop.example/"


def test_a_crawl_is_told_at_a_glance(commands: Commands, state: CrawlState) -> None:
    """All figures, and each worker."""
    state.push_many({"url": f"{URL}{number}"} for number in range(7))
    done, failed, dead, *_ = state.lease(5)
    state.ack(done)
    state.fail(failed, "it failed", delay_secs=3600)
    state.bury(dead, "given up")
    status = commands("status", "--json").json
    expected = {
        "crawl": commands.crawl,
        "state": "running",
        "generation": 1,
        "pending": 2,
        "in_flight": 2,
        "delayed": 1,
        "dead": 1,
        "seen": 7,
        "done": 1,
        "workers": 1,
    }
    assert status | expected == status
    (worker,) = status["worker_list"]
    assert worker["pid"] > 0
    assert worker["beat_age_secs"] < 60
    lines = [line.split() for line in commands("status").lines]
    for name, value in expected.items():
        assert [name, str(value)] in lines
    assert any(str(worker["pid"]) in line for line in lines)


def test_a_probe_learns_whether_somebody_is_at_work(
    commands: Commands, state: CrawlState
) -> None:
    """It is no fault that there is no crawl yet, or none any more, but for a crawl."""
    assert refusal(commands("status", "--check")).startswith("There is no crawl")
    state.push(URL)
    done = commands("status", "--check")
    assert done.status == 1
    assert done.errors.endswith("has work, and no live worker\n")
    assert ["crawl", commands.crawl] in [line.split() for line in done.lines]
    (leased,) = state.lease()
    assert commands("status", "--check").status == 0
    state.ack(leased)


def test_all_crawls_are_listed(commands: Commands, server: Server) -> None:
    """Whatever their prefix, or those of one."""
    bot = commands.crawl
    for crawl, prefix in ((f"{bot}:a", ""), (f"{bot}:b", ""), ("c", f"{bot}-")):
        with CrawlState.connect(server.url, crawl=crawl, prefix=prefix) as state:
            state.push(URL)
    found = commands.run("crawls", "--url", commands.url, "--json").json
    names = [(one["prefix"], one["crawl"], one["pending"]) for one in found]
    assert sorted(names) == [
        ("", f"{bot}:a", 1), ("", f"{bot}:b", 1), (f"{bot}-", "c", 1),
    ]  # fmt: skip
    lines = commands.run("crawls", "--url", commands.url, "--prefix", f"{bot}-").lines
    assert [line.split()[0] for line in lines] == ["crawl", "c"]


def test_a_doctor_finds_nothing_wrong(commands: Commands, server: Server) -> None:
    """With one line for each thing looked at."""
    with CrawlState.connect(server.url, crawl=commands.crawl) as state:
        state.push(URL)
    found = {one["check"]: one for one in commands("doctor", "--json").json}
    levels = {check: one["level"] for check, one in found.items()}
    assert levels == {
        "connection": "ok",
        "server": "ok",
        "persistence": "warning",
        "rights": "ok",
        "seen set": "ok",
        "crawl": "ok",
        "keys": "ok",
    }
    assert "CONFIG SET appendonly yes" in found["persistence"]["text"]


def test_a_doctor_names_what_is_wrong(
    commands: Commands, fresh_server: StartServer, crawl_name: str
) -> None:
    """A policy, a right that is missing, half an entry; each with the remedy."""
    server = fresh_server(extra_args=["--maxmemory-policy", "allkeys-lru"])
    client = server.client()
    with CrawlState.connect(server.url, crawl=crawl_name) as state:
        state.push(URL)
    client.delete(f"requests:{{{crawl_name}}}")
    commands.url = server.url
    done = commands("doctor")
    assert done.status == 1
    failed = [line for line in done.lines if line.startswith("failed")]
    assert len(failed) == 1
    assert "maxmemory-policy = 'allkeys-lru'" in failed[0]
    assert "no entry in requests" in done.output
    client.execute_command(*documented_user())
    client.execute_command("ACL", "SETUSER", "crawler", "-zrem")
    commands.url = url_of_user(server)
    done = commands("doctor", "--prefix", PREFIX)
    assert (
        "failed   rights: the user may not run ZREM: allow it with ACL" in done.output
    )


def test_a_doctor_tells_of_an_import_apart(commands: Commands, server: Server) -> None:
    """What a worker would be told is no matter of its rights."""
    with CrawlState.connect(server.url, crawl=commands.crawl) as state:
        state.push(URL)
    key = CrawlKeys(commands.crawl).named("crawl")
    server.client().hset(key, "status", "importing")
    done = commands("doctor", "--json")
    assert done.status == 1
    found = {one["check"]: one for one in json.loads(done.output)}
    (failed,) = (one for one in found.values() if one["level"] == "failed")
    assert failed["check"] == "import"
    assert "remove what there is with 'scrapy redis-state delete'" in failed["text"]
    assert found["rights"]["level"] == "note"
    assert not found.keys() & {"crawl", "keys"}


def test_a_doctor_is_told_when_there_is_no_server(commands: Commands) -> None:
    """It ends there."""
    done = commands.run("doctor", "--url", "redis://u:secret@127.0.0.1:1")
    assert done.status == 1
    (line,) = done.lines
    assert line.startswith("failed   connection: redis://***@127.0.0.1:1: no usable")
    assert done.errors == ""


def test_workers_of_spiders_are_seen(
    commands: Commands, crawls: Crawls, server: Server
) -> None:
    """Of a real crawl, until it is over."""
    with Site() as site, site.held():
        worker = crawls.programs.crawl(
            "pages", arguments={"site": site.url}, env=commands.project_env()
        )
        wait_until(lambda: site.visits["/0"], 60)
        status = commands.project("status", "--spider", "pages", "--json").json
        assert [one["pid"] for one in status["worker_list"]] == [worker.pid]
        assert status["in_flight"] >= 1
    worker.wait_for_success()
    done = commands.project("status", "--spider", "pages", "--json", "--check")
    assert (done.json["state"], done.json["done"]) == ("finished", 3)
