"""Starting over, and removing: ``reset`` and ``delete``."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.keys import CrawlKeys
from tests.commands.commands import Commands, refusal
from tests.servers import Server

pytestmark = pytest.mark.one_server

URLS = [f"http://shop.example/{number}" for number in range(3)]
DAY_MS = 86_400_000


@pytest.mark.parametrize("verb", ["reset", "delete"])
def test_nothing_is_removed_while_workers_live(
    commands: Commands, server: Server, verb: str
) -> None:
    """Unless it is forced; either way it is told what there is."""
    assert refusal(commands(verb)).startswith("There is no crawl")
    with CrawlState.connect(server.url, crawl=commands.crawl) as worker:
        worker.push_many(URLS)
        (leased,) = worker.lease()
        text = refusal(commands(verb))
        assert "has 1 live workers: stop them first, or" in text
        assert "it with --force. It would remove: 2 pending, 1 in flight" in text
        done = commands(verb, "--force")
        assert "2 pending, 1 in flight, 0 delayed, 0 dead, 3 seen" in done.output
        assert worker.ack(leased) == [False]
        status = worker.status()
        assert status.generation == (2 if verb == "reset" else 0)
        assert status.summary.pending == 0
    left = {key.decode() for key in server.client().scan_iter()}
    assert left == ({f"crawl:{{{commands.crawl}}}"} if verb == "reset" else set())


def test_old_crawls_are_removed(commands: Commands, server: Server) -> None:
    """That nobody used for days, though they never ended; under one prefix."""
    bot, client = commands.crawl, server.client()
    for crawl, prefix, days in (
        (f"{bot}:old", "", 9), (f"{bot}:new", "", 0), (f"{bot}:other", f"{bot}-", 9),
    ):  # fmt: skip
        with CrawlState.connect(server.url, crawl=crawl, prefix=prefix) as state:
            state.push_many(URLS)
        key = CrawlKeys(crawl, prefix).named("crawl")
        for field in ("pushed_at", "epoch_began"):
            client.hincrby(key, field, -days * DAY_MS)
    words = ["delete", "--url", commands.url, "--older-than", 7]
    done = commands.run(*words, "--dry-run")
    assert done.lines == [
        f"would delete '{bot}:old': 3 pending, 0 in flight, 0 delayed, 0 dead, 3 seen"
    ]
    assert commands.run(*words).output.startswith(f"deleted '{bot}:old': 3 pending")
    assert commands.run(*words).output == "no crawl that nobody used for 7 days\n"
    text = refusal(commands.run(*words, "--crawl", f"{bot}:new"))
    assert "was used more recently than that" in text
    left = {key.decode() for key in client.scan_iter("*crawl:*")}
    assert left == {f"crawl:{{{bot}:new}}", f"{bot}-crawl:{{{bot}:other}}"}
