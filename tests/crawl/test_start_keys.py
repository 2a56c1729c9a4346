"""Crawls that are fed by lists, sets and sorted sets that other programs fill."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from scrapy_redis_state.commands.secrets import without_secrets
from tests.crawl.crawls import (
    Crawls,
    finish,
    stats,
    total,
    wait_for_items,
    wait_until_joined,
)
from tests.processes import wait_until
from tests.site import Site


@pytest.fixture
def key(crawl_name):
    """A start key."""
    return f"{crawl_name}:start_urls"


def feeding(*keys: str, **settings: object) -> dict[str, object]:
    """Settings of a worker that reads these keys."""
    return {"REDIS_STATE_START_KEYS": json.dumps(keys), **settings}


@pytest.mark.one_server
def test_messages_are_urls_or_json_and_bad_ones_dead_letters(crawls: Crawls, key):
    """The rest of their batch is unharmed; the crawl ends when the keys are empty."""
    with Site() as site:
        crawls.client.rpush(
            key,
            f"{site.url}/bare",
            json.dumps(
                {
                    "url": f"{site.url}/json",
                    "callback": "parse_other",
                    "meta": {"tag": "it"},
                    "priority": 7,
                }
            ),
            "no url",
            '{"url": "http://x/", "callback": "parse_none"}',
            '{"url": ',
            b"\xff\xfe",
            f"{site.url}/last",
        )
        worker = crawls.start("feed", settings=feeding(key))
        finish(worker)
    found = {item["path"]: item for item in crawls.items()}
    assert set(found) == {"bare", "json", "last"}
    other = found["json"]
    assert (other["callback"], other["tag"], other["priority"]) == (
        "parse_other",
        "it",
        7,
    )
    assert not crawls.client.exists(key)
    with crawls.state("feed") as state:
        letters = state.dead_letters()
    reasons = sorted(letter.reason.partition(": ")[2] for letter in letters)
    assert len(reasons) == 4
    assert any("Not the URL of a request" in reason for reason in reasons)
    assert any("names a method 'parse_none'" in reason for reason in reasons)
    assert any("is not JSON" in reason for reason in reasons)
    assert any("can't decode byte" in reason for reason in reasons)
    messages = {letter.fields["meta"]["message"] for letter in letters}
    assert messages >= {"no url", '{"url": '}
    shown = [without_secrets(letter.fields)["meta"]["message"] for letter in letters]
    assert "no url" in shown
    assert not any(one.startswith("{") for one in shown)
    assert stats(worker)["redis_state/start_keys/read"] == 7
    assert stats(worker)["redis_state/start_keys/bad"] == 4


@pytest.mark.one_server
def test_scores_are_priorities(crawls: Crawls, key):
    """Unless the message has its own; several keys are read in their order."""
    with Site() as site:
        own = json.dumps({"url": f"{site.url}/own", "priority": 99})
        crawls.client.zadd(key, {f"{site.url}/low": 1, f"{site.url}/high": 8, own: 5})
        crawls.client.sadd(key + "2", f"{site.url}/set")
        worker = crawls.start(
            "feed", settings=feeding(key, key + "2", CONCURRENT_REQUESTS=1)
        )
        finish(worker)
    priorities = {item["path"]: item["priority"] for item in crawls.items()}
    assert priorities == {"own": 99, "high": 8, "low": 1, "set": 0}
    assert not crawls.client.exists(key, key + "2")


@pytest.mark.long
@pytest.mark.one_server
def test_no_message_is_lost_or_done_twice_whoever_is_killed(crawls: Crawls, key):
    """Three workers at one list, one of which dies while it reads."""
    paths = [f"page/{number}" for number in range(150)]
    settings = feeding(
        key, REDIS_STATE_START_KEYS_BATCH_SIZE=7, REDIS_STATE_START_HIGH_WATER=20
    )
    with Site() as site:
        crawls.client.rpush(key, *(f"{site.url}/{path}" for path in paths))
        with site.held():
            workers = [crawls.start("feed", settings=settings) for _ in range(3)]
            wait_until_joined(*workers)
        wait_for_items(crawls, 60)
        workers[0].pause()
        held = crawls.leases_of(workers[0], "feed")
        workers[0].kill()
        finish(*workers[1:])
        visits = Counter(site.visits)
    del visits["/robots.txt"]
    assert set(visits) == {f"/{path}" for path in paths}
    repeated = sum(visits.values()) - len(paths)
    assert repeated <= held, "what the killed one had begun"
    assert total("redis_state/start_keys/read", workers[1:]) <= len(paths)
    assert not crawls.client.exists(key)


@pytest.mark.one_server
def test_messages_wait_until_there_is_room(crawls: Crawls, key):
    """No more than the high-water mark, and one batch, lies in the frontier."""
    settings = feeding(
        key,
        REDIS_STATE_START_KEYS_BATCH_SIZE=5,
        REDIS_STATE_START_HIGH_WATER=10,
        REDIS_STATE_PREFETCH=1,
        CONCURRENT_REQUESTS=1,
    )
    with Site() as site:
        crawls.client.rpush(key, *(f"{site.url}/{number}" for number in range(60)))
        with site.held():
            worker = crawls.start("feed", settings=settings)
            wait_until(lambda: site.visits, message="the first page is asked for")
            with crawls.state("feed") as state:
                wait_until(lambda: state.size() >= 10)
                assert state.size() <= 15
            assert crawls.client.llen(key) >= 40
        finish(worker)
    assert len(crawls.items()) == 60


@pytest.mark.one_server
def test_what_comes_after_the_end_waits_for_the_next_run(crawls: Crawls, key):
    """And what comes before it is crawled, though there was nothing before."""
    with Site() as site:
        with site.held():
            crawls.client.rpush(key, f"{site.url}/first")
            worker = crawls.start("feed", settings=feeding(key))
            wait_until(lambda: site.visits, message="the first page is asked for")
            assert not crawls.client.exists(key)
            crawls.client.rpush(key, f"{site.url}/second")
        finish(worker)
        assert crawls.values("path") == {"first": 1, "second": 1}
        crawls.client.rpush(key, f"{site.url}/third")
        finish(crawls.start("feed", settings=feeding(key)))
    assert crawls.values("path") == {"first": 1, "second": 1, "third": 1}


@pytest.mark.one_server
def test_a_start_key_that_cannot_be_one_is_refused_at_start(crawls: Crawls, key):
    """In one line, before anything is fetched."""
    crawls.client.hset(key, "a", "b")
    worker = crawls.start("feed", settings=feeding(key))
    assert worker.wait() == 1
    assert f"the start key '{key}' is a hash, not a list" in worker.output
