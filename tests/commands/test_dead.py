"""Requests that were given up: ``dead``."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.messages import StoreDead
from scrapy_redis_state.store.scripts import push
from tests.commands.commands import Commands, refusal
from tests.crawl.crawls import Crawls
from tests.site import Site

pytestmark = pytest.mark.one_server


def url(number: int) -> str:
    return f"http://shop.example/{number}"


def bury(state: CrawlState, *reasons: str) -> None:
    state.push_many(
        {
            "url": url(number),
            "priority": number,
            "cookies": {"sid": "secret-1"},
            "headers": {"Authorization": "secret-2", "Accept": "a"},
            "meta": {"proxy": "http://u:secret-3@p.example", "retry_times": 2},
        }
        for number in range(len(reasons))
    )
    for leased in state.lease(len(reasons)):
        assert state.bury(leased, reasons[leased.priority])


def test_they_are_listed_and_shown(commands: Commands, state: CrawlState) -> None:
    """Without what is secret in them."""
    assert refusal(commands("dead", "list")).startswith("There is no crawl")
    bury(state, "http 500", "Traceback (most recent call last):\n  x\nKeyError: 1")
    one, two = sorted(commands("dead", "list", "--json").json, key=lambda d: d["url"])
    assert (one["url"], one["reason"]) == (url(0), "http 500")
    assert one["priority"] == 0
    (line,) = commands("dead", "list", "--reason", "KeyError").lines[1:]
    assert line.split()[0] == two["id"]
    assert line.endswith(f"{url(1)}  KeyError: 1")
    (line,) = commands("dead", "list", "--match", "/0$").lines[1:]
    assert line.endswith("http 500")
    shown = commands("dead", "show", two["id"]).output
    assert "  KeyError: 1" in shown
    assert "secret" not in shown
    (shown,) = commands("dead", "show", two["id"], "--json").json
    assert shown["request"]["cookies"] == {"sid": "***"}
    assert shown["request"]["headers"] == {"Authorization": "***", "Accept": ["a"]}
    (shown,) = commands("dead", "show", two["id"], "--json", "--reveal").json
    assert shown["request"]["cookies"] == {"sid": "secret-1"}
    assert refusal(commands("dead", "show", "nope")) == "no dead letter: nope"


def test_some_are_tried_again_or_forgotten(
    commands: Commands, state: CrawlState
) -> None:
    """Which ones must be said."""
    bury(state, "http 500", "http 404", "timeout", "timeout")
    for verb in ("requeue", "drop"):
        text = refusal(commands("dead", verb), 2)
        assert text == "which? Give ids, --reason, --match, or --all"
    assert commands("dead", "requeue", "--reason", "timeout").output == (
        "2 requests put back\n"
    )
    first, second = state.lease(5)
    assert [first.priority, second.priority] == [3, 2]
    assert "retry_times" not in first.fields["meta"]
    state.ack(first, second)
    (letter,) = state.dead_letters(match="/0$")
    done = commands("dead", "drop", letter.id, "nope")
    assert (done.status, done.output) == (1, "1 dead letter forgotten\n")
    assert done.errors == "redis-state: no dead letter: nope\n"
    assert commands("dead", "drop", "--all").output == "1 dead letter forgotten\n"
    assert commands("dead", "list").output == "no dead letters\n"


def test_what_can_never_run_stays(commands: Commands, state: CrawlState) -> None:
    """The reason is told, and the exit status."""
    state.push(url(1))
    state._run(_steps(push(state._steps.keys, 1, "t", [StoreDead(b"\0", "no code")])))
    done = commands("dead", "requeue", "--all")
    assert (done.status, done.output) == (1, "0 requests put back\n")
    assert "stays a dead letter: " in done.errors


def _steps(call):
    return (yield call)


def test_a_page_that_was_given_up_is_crawled_after_all(
    commands: Commands, crawls: Crawls
) -> None:
    """By the next worker, though the crawl was finished: only that page, once."""
    with Site() as site:
        arguments = {"site": site.url, "query": "status=503&times=1"}
        env = commands.project_env()
        start = crawls.programs.crawl
        start("pages", arguments=arguments, env=env).wait_for_success()
        spider = ["--spider", "pages"]
        dead = commands.project("dead", "list", *spider, "--json").json
        assert len(dead) == 3
        words = ["dead", "requeue", "--match", r"/1\?", *spider]
        assert commands.project(*words).output == "1 request put back\n"
        worker = start("pages", arguments=arguments, env=env)
        worker.wait_for_success()
        assert "resumed: 1 pending" in worker.output
        assert site.visits["/1"] == 2
        assert site.visits["/0"] == site.visits["/2"] == 1
        status = commands.project("status", *spider, "--json").json
        assert [status[name] for name in ("state", "dead", "generation")] == [
            "finished", 2, 1,
        ]  # fmt: skip
