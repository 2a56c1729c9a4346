"""How many pages of a site are stored, and requests with a time of their own."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState, url_fingerprint
from scrapy_redis_state.store.messages import Answer, Store
from tests.store.crawls import page
from tests.store.seen_crawls import REVISIT_MS, join

STORED, DUPLICATE = Answer.STORED, Answer.DUPLICATE


class TestPagesPerSite:
    def test_a_full_site_takes_no_more(self, crawl):
        """Others do; duplicates are still told as such."""
        member = join(crawl, max_per_site=2)
        answers = member.answers(*(page(name, site="a") for name in "1213"))
        assert answers == (STORED, STORED, DUPLICATE, Answer.LIMITED)
        assert member.answers(page("4", site="b"), page("3", site="a")) == (
            STORED,
            Answer.LIMITED,
        )

    def test_what_was_not_stored_is_not_seen(self, crawl):
        """So that it can be crawled when the limit is raised."""
        member = join(crawl, max_per_site=1)
        member.answers(page("1", site="a"), page("2", site="a"))
        crawl.set(max_per_site=2)
        assert member.answers(page("2", site="a")) == (STORED,)

    def test_a_page_that_comes_again_is_not_counted_again(self, crawl):
        """With a time of its own it takes one place of its site, and keeps it."""
        member = join(crawl, max_per_site=2)
        often = page("1", site="a", revisit_ms=60_000)
        assert member.answers(often, page("2", site="a")) == (STORED, STORED)
        for _ in range(3):
            crawl.client.zadd(crawl.key("revisits"), {b"1": 1})
            crawl.reap()
            answers = member.answers(often, often, page("3", site="a"))
            assert answers == (STORED, DUPLICATE, Answer.LIMITED)

    @pytest.mark.parametrize("kind", ["exact", "packed", "bloom"])
    def test_pages_that_are_forgotten_make_room(self, new_crawl, kind):
        """So a crawl that goes on for ever crawls as many pages of a site each time."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, max_per_site=2, revisit_ms=REVISIT_MS)
        pages = [page(name, site="a") for name in "123"]
        for _ in range(3):
            assert crawl.push(*pages) == (STORED, STORED, Answer.LIMITED)
            for _ in range(2):
                crawl.ago("epoch_began", REVISIT_MS // 2)
                again = crawl.push(*pages)
                assert again == (DUPLICATE, DUPLICATE, Answer.LIMITED)
            crawl.ago("epoch_began", REVISIT_MS // 2)
        assert len(crawl.client.hget(crawl.key("sites"), "a").split(b",")) == 1

    @pytest.mark.parametrize("kind", ["exact", "packed"])
    @pytest.mark.parametrize("revisit_ms", [0, 60_000])
    def test_a_page_that_is_forgotten_on_request_makes_room(
        self, new_crawl, kind, revisit_ms
    ):
        """It is the one that is wanted again."""
        crawl = new_crawl(kind, capacity=10_000)
        member = join(crawl, max_per_site=1)
        url = "http://www.a.example/1"
        one = Store(b"", 0, url_fingerprint(url), site="a.example")
        one = one._replace(revisit_ms=revisit_ms)
        assert member.answers(one, page("2", site="a.example")) == (
            STORED,
            Answer.LIMITED,
        )
        with CrawlState(crawl.client, crawl.keys) as state:
            assert state.forget(url)
        assert member.answers(one, page("2", site="a.example")) == (
            STORED,
            Answer.LIMITED,
        )

    def test_what_somebody_else_wrote_counts_for_nothing(self, crawl):
        """It does not stop an exchange half-way."""
        member = join(crawl, max_per_site=1)
        crawl.client.hset(crawl.key("sites"), "a", "garbage")
        answers = member.answers(page("1", site="a"), page("2", site="a"))
        assert answers == (STORED, Answer.LIMITED)


class TestRequestsWithATimeOfTheirOwn:
    def test_they_are_duplicates_for_that_time(self, crawl):
        """Whatever the seen set says."""
        member = crawl.member()
        often = page("a", revisit_ms=60_000)
        assert member.answers(page("a"), often, often) == (STORED, STORED, DUPLICATE)
        crawl.client.zadd(crawl.key("revisits"), {b"a": 1})
        assert member.answers(often) == (STORED,)

    def test_they_are_forgotten_when_their_time_is_over(self, crawl):
        """The set of them does not grow for ever."""
        crawl.member().answers(page("a", revisit_ms=60_000))
        crawl.client.zadd(crawl.key("revisits"), {b"old": 1})
        crawl.reap()
        assert crawl.client.zrange(crawl.key("revisits"), 0, -1) == [b"a"]
