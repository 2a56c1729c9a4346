"""What the distance to the server does to a crawl, in virtual time."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.worker.worker import IDLE_SECS
from tests.worker.far import Crawl

FAR_SECS = 0.15
NEAR_SECS = 0.0005


class TestFar:
    @pytest.mark.parametrize("prefetch", [8, 16, 32])
    def test_a_round_trip_brings_what_may_be_prefetched(self, prefetch):
        """Although pages take no time, and a request is started when it arrives."""
        crawl = Crawl(
            40 * prefetch, FAR_SECS, {"concurrency": prefetch, "prefetch": prefetch}
        )
        # The first few exchanges find out how much is needed.
        assert crawl.pages_per_exchange > 0.85 * prefetch

    @pytest.mark.parametrize("round_trip_secs", [0.002, 0.01, 0.05])
    def test_a_crawl_that_is_fed_in_time_does_not_wait(self, round_trip_secs):
        """200 pages a second, of which a few are started in each round trip."""
        crawl = Crawl(1000, round_trip_secs, {"work_secs": 0.005})
        assert crawl.secs < 1000 * 0.005 + 8 * round_trip_secs
        assert crawl.pages_per_exchange > 7

    def test_what_is_there_is_begun_at_once(self):
        """Without finding out how much is needed, round trip by round trip."""
        crawl = Crawl(33, FAR_SECS, {"concurrency": 32, "prefetch": 32})
        assert crawl.secs < 3 * FAR_SECS

    @pytest.mark.parametrize("round_trip_secs", [NEAR_SECS, 0.05, FAR_SECS])
    def test_who_joined_first_leaves_something_to_who_begins_with_it(
        self, round_trip_secs
    ):
        """It has not heard of the others, and is allowed to take all there is."""
        slow = {"concurrency": 1, "prefetch": 16, "page_secs": 1.0}
        crawl = Crawl(16, round_trip_secs, slow, slow)
        assert crawl.secs < 8 * (1 + 2 * round_trip_secs) + 1

    @pytest.mark.parametrize("page_secs", [0.001, 0.1, 1])
    @pytest.mark.parametrize("round_trip_secs", [NEAR_SECS, 0.05, FAR_SECS])
    def test_what_is_held_is_bounded(self, round_trip_secs, page_secs):
        """By twice what may be prefetched."""
        crawl = Crawl(300, round_trip_secs, {"page_secs": page_secs, "prefetch": 8})
        assert crawl.crawlers[0].most_unstarted < 2 * 8

    @pytest.mark.parametrize("page_secs", [0.001, 0.1])
    @pytest.mark.parametrize("round_trip_secs", [NEAR_SECS, 0.05, FAR_SECS])
    def test_who_may_hold_one_holds_one(self, round_trip_secs, page_secs):
        """However fast it is, so that the order is the crawl's."""
        options = {"page_secs": page_secs, "prefetch": 1, "concurrency": 1}
        crawl = Crawl(50, round_trip_secs, options)
        assert crawl.crawlers[0].most_unstarted == 1


class TestEnd:
    @pytest.mark.parametrize("workers", [1, 3])
    def test_the_end_takes_few_round_trips(self, workers):
        """What is in the air, the last end, and the sign-off."""
        crawl = Crawl(100, FAR_SECS, *[{}] * workers)
        assert crawl.store.crawl.status is CrawlStatus.FINISHED
        idle = IDLE_SECS if workers > 1 else 0  # until the others look
        assert crawl.closing_secs < 3 * FAR_SECS + idle + 0.02


class TestNear:
    def test_nothing_more_is_fetched_than_may_be(self):
        """The next exchange takes no time: nothing is started meanwhile."""
        crawl = Crawl(300, NEAR_SECS, {"page_secs": 0.3, "work_secs": 0.01})
        assert crawl.crawlers[0].most_unstarted <= 16


class TestFew:
    @pytest.mark.parametrize("round_trip_secs", [NEAR_SECS, 0.05])
    @pytest.mark.parametrize("pages", [60, 90, 120])
    def test_workers_get_equal_parts(self, pages, round_trip_secs):
        """Of pages that take long, nobody sits on what others could do."""
        options = {"page_secs": 1.0, "concurrency": 4, "prefetch": 4}
        crawl = Crawl(pages, round_trip_secs, options, options, options)
        parts = [one.done for one in crawl.crawlers]
        assert max(parts) - min(parts) <= 4
        assert crawl.secs < pages / 12 + 1.5
