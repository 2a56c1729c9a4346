"""What ``status``, ``watch`` and the exporter know of a crawl."""

from __future__ import annotations

import itertools
import re
from typing import Any

import msgpack
import pytest

from scrapy_redis_state.commands.overview import Overview, look
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import SeedFailed, Seeding
from scrapy_redis_state.store.seen import SeenSet
from tests.commands.commands import Commands
from tests.processes import REPOSITORY
from tests.servers import Server
from tests.store.crawls import TUNABLE, Crawl, ack, page
from tests.store.users import documented_user, url_of_user
from tests.test_documentation import blocks, command

pytestmark = pytest.mark.one_server

PAGE = REPOSITORY / "docs" / "reference" / "commands.rst"
MILLION = 1_000_000


@pytest.fixture
def crawl(server: Server, crawl_name: str) -> Crawl:
    """One that is not there yet."""
    return Crawl(server.client(), crawl_name)


def overview(crawl: Crawl) -> Overview:
    return look(crawl.client, crawl.keys)


def figures(crawl: Crawl) -> dict[str, Any]:
    return overview(crawl).figures("redis://user:secret@host")


def fall_silent(crawl: Crawl, worker: str, secs: float) -> None:
    """A worker made its last call so long ago, and nobody called since then."""
    key, passed = crawl.key("replies"), round(secs * 1_000_000)
    record = crawl.client.hget(key, worker)
    batch, stamp, *rest = msgpack.unpackb(record[1:], raw=True)
    packed = msgpack.packb([batch, stamp - passed, *rest], use_bin_type=False)
    crawl.client.hset(key, worker, record[:1] + packed)
    crawl.ago("stamp", passed)


def test_the_page_lists_the_names(crawl: Crawl) -> None:
    """All that the JSON has, and no other."""
    crawl.member(identity={"seen": SeenSet("bloom").spec}, tunable=TUNABLE)
    found = figures(crawl)
    (worker,) = found["worker_list"]
    pattern = r"\nname +what it is\n(.*?)\n=+ +=+\n(.*?)Rates come"
    table, text = re.findall(pattern, PAGE.read_text(), re.DOTALL)[0]
    listed = re.findall(r"^``(\w+)`` ", table, re.MULTILINE)
    assert set(listed) | {"prefix", "server"} == set(found)
    assert set(re.findall(r"``(\w+)``", text)) - {"start"} == set(worker)
    assert "secret" not in str(found)


def test_what_is_not_known_is_none(crawl: Crawl) -> None:
    """Of a crawl that was only fed."""
    crawl.push(page("a"))
    found = figures(crawl)
    names = ("rate", "stored_rate", "eta_secs", "silence_secs", "oldest_lease_secs")
    assert [found[name] for name in names] == [None] * 5
    assert (found["orphans"], found["workers"], found["worker_list"]) == (0, 0, [])


def test_a_crew_that_died_is_not_at_work(crawl: Crawl) -> None:
    """Though the crawl clock, which stands still without them, does not know."""
    member = crawl.member()
    member.exchange(page("a"), page("b"))
    member.take(1)
    assert figures(crawl)["workers"] == 1
    fall_silent(crawl, "w1", 3600)
    found = figures(crawl)
    assert crawl.summary.workers == 1
    assert (found["workers"], found["orphans"]) == (0, 1)
    assert found["silence_secs"] == pytest.approx(3600, abs=5)
    (worker,) = found["worker_list"]
    assert not worker["live"]
    assert worker["held"] is None
    assert worker["beat_age_secs"] == pytest.approx(3600, abs=5)
    (warning,) = found["warnings"]
    assert warning == "there is work, and no live worker for 60 min: start some"


def test_requests_in_flight_without_an_owner_are_orphans(crawl: Crawl) -> None:
    """Their worker's beat is gone, or the lease; until they are reaped."""
    one, other = crawl.member("one"), crawl.member("other")
    one.exchange(*map(page, "abcdef"))
    one.take(2)
    held = other.take(3)
    assert figures(crawl)["orphans"] == 0
    crawl.client.zrem(crawl.key("workers"), "one")
    found = figures(crawl)
    assert found["orphans"] == 2
    assert found["warnings"][0].startswith("2 requests in flight without a live worker")
    crawl.outlive(other)
    crawl.reap()
    assert figures(crawl)["orphans"] == 0
    crawl.client.hdel(crawl.key("leases"), held[0].id)
    assert figures(crawl)["orphans"] == 1
    crawl.outlive(other)
    crawl.reap()
    found = figures(crawl)
    assert (found["orphans"], found["in_flight"]) == (0, 2)


def test_the_slowest_page_is_told(crawl: Crawl) -> None:
    """As its worker says, with the time since then."""
    member = crawl.member()
    member.exchange(page("a"))
    member.take(1)
    member.exchange(oldest_ms=300_000)
    found = figures(crawl)
    assert found["oldest_lease_secs"] == pytest.approx(300, abs=5)
    assert found["worker_list"][0]["oldest_lease_secs"] >= 300


def test_what_start_raised_is_told_until_it_is_done(crawl: Crawl) -> None:
    """It is kept in Redis, for there may be no log."""
    member = crawl.member(seeding=Seeding.OPEN, tunable=TUNABLE)
    token = member.exchange(seeder=True).summary.seed_token
    member.exchange(SeedFailed(token, "ValueError: oops\n  in start"))
    found = figures(crawl)
    assert found["seed_error"] == "ValueError: oops\n  in start"
    warning = "start() raised 1 time and is tried again: ValueError: oops"
    assert warning in found["warnings"]
    crawl.set(seeding="done")
    assert figures(crawl)["seed_error"] is None


def test_a_frontier_that_only_grows_is_warned_of(crawl: Crawl) -> None:
    """With what helps."""
    member = crawl.member()
    member.exchange(*(page(str(number)) for number in range(1500)))
    generation = int(crawl.field("generation"))
    now = crawl.client.time()[0] * 1000
    samples = [
        value
        for n in range(30, 0, -1)
        for value in (now - 10_000 * n, 0, 1500 - 40 * n)
    ]
    crawl.set(samples=msgpack.packb([generation, *samples]))
    (warning,) = figures(crawl)["warnings"]
    assert warning.startswith("the frontier grows by 4.0 requests/s")
    assert "more workers, or fewer links" in warning


@pytest.mark.parametrize("kind", ["exact", "packed"])
def test_memory_is_told_by_key_of_this_crawl(crawl: Crawl, kind: str) -> None:
    """Of those that are there, whatever the seen set consists of."""
    seen = SeenSet(kind, capacity=100_000)
    crawl.keys = CrawlKeys(crawl.keys.crawl, "p:", seen)
    other = Crawl(crawl.client, crawl.keys.crawl + "x")
    crawl.push(*(page(str(number)) for number in range(2000)))
    before = overview(crawl)
    other.push(*(page(str(number)) for number in range(5000)))
    after = overview(crawl)
    assert before.memory is not None
    assert after.memory is not None
    assert set(after.memory) == {"crawl", "frontier", "requests", "seen"}
    assert after.memory == before.memory
    # A packed set takes 9 bytes and more, as it is not full.
    assert 2000 * 9 < after.memory["seen"] < 2000 * 400
    assert after.server is not None
    assert after.server.policy == "noeviction"
    crawl.client.delete(*crawl.client.scan_iter(f"p:*{crawl.keys.crawl}*"))


def test_a_user_who_may_not_ask_is_told_the_rest(
    server: Server, crawl_name: str
) -> None:
    """Memory is not what a crawl needs."""
    admin = server.client()
    admin.execute_command(*documented_user())
    client = sync_client(url_of_user(server))
    crawl = Crawl(client, crawl_name)
    crawl.keys = CrawlKeys(crawl_name, "shop:")
    crawl.push(page("a"))
    found = figures(crawl)
    assert (found["pending"], found["memory_bytes"]) == (1, None)
    assert found["server_memory_bytes"] is None
    admin.execute_command("ACL", "SETUSER", "crawler", "+memory|usage", "+info")
    assert figures(crawl)["memory_bytes"] > 0
    assert figures(crawl)["server_memory_bytes"] > 0
    client.close()
    admin.execute_command("ACL", "DELUSER", "crawler")
    admin.delete(*admin.scan_iter("shop:*"))


# --- what it costs -------------------------------------------------------------------

CHEAP = {"EXISTS", "TYPE", "TIME", "HGET", "HMGET", "HLEN", "ZCARD", "ZCOUNT"}


def commands_of(server: Server, crawl: Crawl) -> list[list[str]]:
    """What the server runs for one look, but the names of scripts."""
    with crawl.client.monitor() as monitor:
        overview(crawl)
        server.client().execute_command("PING", "the end")
        commands = iter(monitor.next_command, None)
        lines = (one["command"] for one in commands)
        seen = itertools.takewhile(lambda line: "the end" not in line, lines)
        words = [line.split() for line in seen]
    return [one for one in words if one[0].upper() not in ("CLIENT", "EVAL", "EVALSHA")]


def assert_cheap(commands: list[list[str]]) -> None:
    """No command but such as take the same time for any number of requests."""
    for name, *words in commands:
        is_cheap = (
            name.upper() in CHEAP
            # The workers, and the first of a set.
            or (name.upper().startswith("Z") and words[0].startswith("workers:"))
            or (name.upper() in ("ZRANGE", "ZREVRANGE") and words[1:3] == ["0", "0"])
            or (name.upper() == "MEMORY" and words[-2:] == ["SAMPLES", "5"])
            or name.upper() == "INFO"
        )
        assert is_cheap, (name, words)


def test_a_look_is_cheap(server: Server, crawl: Crawl) -> None:
    """It runs the same commands for many requests as for few."""
    member = crawl.member()
    member.exchange(page("a"), page("b"))
    member.take(1)
    few = commands_of(server, crawl)
    assert_cheap(few)
    crawl.push(*(page(str(number)) for number in range(500)))
    member.exchange(*map(ack, member.take(200)), want=100)
    many = commands_of(server, crawl)
    assert [one[0] for one in many] == [one[0] for one in few]


@pytest.mark.long
def test_a_look_is_as_cheap_with_a_million_queued(server: Server, crawl: Crawl) -> None:
    """And tells of all of them."""
    member = crawl.member()
    member.exchange(page("a"), page("b"))
    member.take(1)
    few = commands_of(server, crawl)
    for first in range(0, MILLION, 10_000):
        ids = [f"{number:014d}" for number in range(first, first + 10_000)]
        with crawl.client.pipeline(transaction=False) as pipeline:
            pipeline.zadd(crawl.key("frontier"), dict.fromkeys(ids, 0))
            entry = b"0;0;;" + bytes(200)
            pipeline.hset(crawl.key("requests"), mapping=dict.fromkeys(ids, entry))
            pipeline.sadd(crawl.key("seen"), *ids)
            pipeline.execute()
    many = commands_of(server, crawl)
    assert_cheap(many)
    assert [one[0] for one in many] == [one[0] for one in few]
    found = figures(crawl)
    assert found["pending"] == MILLION + 1
    assert found["memory_by_key"]["requests"] > MILLION * 200
    crawl.client.delete(*crawl.keys.for_script(crawl.epoch))


# --- the probe -----------------------------------------------------------------------


def test_a_probe_tells_of_a_stall(commands: Commands, crawl: Crawl) -> None:
    """Workers that make no calls, sooner than their lease is over if so wished."""
    guide = REPOSITORY / "docs" / "howto" / "monitoring.rst"
    probe = command(blocks(guide)["probe"]).split()[2:]
    member = crawl.member(tunable=TUNABLE | {"lease_ms": "600000"})
    member.exchange(page("a"))
    fall_silent(crawl, "w1", 300)
    assert commands("status", "--check").status == 0
    done = commands(*probe)
    assert done.status == 1
    assert "is stalled: no worker made a call for" in done.errors
    fall_silent(crawl, "w1", 600)
    done = commands("status", "--check")
    assert done.errors.endswith("has work, and no live worker\n")
