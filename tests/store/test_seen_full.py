"""Filters that take no more, and sets that cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import RedisError

from scrapy_redis_state.store.client import sync_client
from tests.store.clients import StartServer
from tests.store.crawls import Crawl, ack, page, unfiltered
from tests.store.seen_crawls import join


@pytest.fixture
def full(new_crawl: Any) -> Crawl:
    """A crawl whose filter takes two pages."""
    crawl: Crawl = new_crawl("bloom")
    join(crawl, "first")
    seen = crawl.key("seen")
    crawl.client.delete(seen)
    crawl.client.execute_command("BF.RESERVE", seen, 0.0001, 2, "NONSCALING")
    return crawl


def test_what_a_full_filter_took_is_stored(full: Crawl) -> None:
    """Some servers tell only that one of many was too much; it is the rest's loss."""
    member = join(full)
    answers = member.answers(page("x"), page("y"), page("z"), page("x"))
    assert "".join(answers) == "ssrd"
    assert "".join(member.answers(page("z"), page("x"))) == "rd"
    assert (full.summary.pending, full.summary.seen) == (2, 2)


def test_a_full_filter_still_tells_what_is_known(full: Crawl) -> None:
    """Behind a page that it does not take; only that one keeps its page open."""
    member = join(full)
    full.push(page("a"), page("b"))
    one, two = member.take(2)
    answers = member.answers(
        page("a", page=two.id),
        page("c", page=one.id),
        page("b", page=two.id),
        unfiltered("u", page=two.id),
        page("c"),
        ack(one),
        ack(two),
    )
    assert "".join(answers) == "drdsrho"


def test_a_set_that_cannot_be_asked_is_not_taken_for_empty(
    fresh_server: StartServer, crawl_name: str
) -> None:
    """A right that is taken away in the middle of a crawl is an error."""
    server = fresh_server()
    admin: Any = server.client()
    admin.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
    with sync_client(server.url.replace("://", "://u:p@")) as client:
        crawl = Crawl(client, crawl_name)
        member = crawl.member()
        assert "".join(member.answers(page("a"))) == "s"
        admin.execute_command("ACL", "SETUSER", "u", "-smismember")
        with pytest.raises((RedisError, ValueError)):
            member.answers(page("a"))
        admin.execute_command("ACL", "SETUSER", "u", "+smismember")
        assert crawl.summary.pending == 1
