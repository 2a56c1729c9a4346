from __future__ import annotations

import pytest

from tests.crawl.crawls import Crawls, close_reason, finish, stats
from tests.crawl.shop import Shop

pytestmark = pytest.mark.one_server

LONG_LEASE = {"REDIS_STATE_LEASE_SECS": 60}


def test_a_second_run_of_one_worker_crawls_again(crawls: Crawls) -> None:
    """With the default crawl id a run after the finish opens the next generation."""
    with Shop(20) as shop:
        for generation in (1, 2):
            worker = crawls.start("shop", site=shop.url, settings=LONG_LEASE)
            finish(worker)
            assert f"generation {generation} (new)" in worker.output
            assert crawls.values("product", worker) == dict.fromkeys(shop.products, 1)
            assert crawls.client.ttl(f"crawl:{{{crawls.bot}:shop}}") > 600_000


def test_a_worker_that_is_late_for_a_shared_crawl_does_not_repeat_it(
    crawls: Crawls,
) -> None:
    """Within a lease after several workers finished, another one only says so."""
    with Shop(30, delay=0.1) as shop:
        both = crawls.start_together(2, "shop", shop, settings=LONG_LEASE)
        finish(*both)
        visits = shop.visits.copy()
        late = crawls.start("shop", site=shop.url, settings=LONG_LEASE)
        finish(late)
        assert shop.visits == visits
    assert "is finished, and there is nothing to do: to crawl again," in late.output
    assert "start again 60 s (REDIS_STATE_LEASE_SECS) after the end" in (late.output)


def test_a_crawl_id_that_was_given_stays_finished(crawls: Crawls) -> None:
    """The log says that another REDIS_STATE_CRAWL_ID crawls again, and so it does."""
    first, second = ({"REDIS_STATE_CRAWL_ID": f"{crawls.bot}:{i}"} for i in "ab")
    with Shop(10) as shop:
        finish(crawls.start("shop", site=shop.url, settings=first))
        again = crawls.start("shop", site=shop.url, settings=first)
        finish(again)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        finish(crawls.start("shop", site=shop.url, settings=second))
        assert crawls.values("product") == dict.fromkeys(shop.products, 2)
    assert "to crawl again, give REDIS_STATE_CRAWL_ID another value" in again.output


def test_the_next_run_goes_on_with_exactly_the_rest(crawls: Crawls) -> None:
    """CLOSESPIDER_PAGECOUNT leaves what is queued to the next run, and only that."""
    with Shop(60) as shop:
        first = crawls.start(
            "shop", site=shop.url, settings={"CLOSESPIDER_PAGECOUNT": 10}
        )
        first.wait_for_success()
        assert close_reason(first) == "closespider_pagecount"
        with crawls.state("shop") as state:
            rest = state.status().summary
        assert rest.pending > 10
        assert rest.in_flight == rest.delayed == rest.dead == 0
        second = crawls.start("shop", site=shop.url)
        finish(second)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        assert set(shop.visits.values()) == {1}
    assert f"generation 1 (resumed: {rest.pending} pending, 0 in flight" in (
        second.output
    )
    assert f"{rest.done} done, start() is not run again)" in second.output
    assert stats(second)["redis_state/redelivered"] == 0


def test_a_page_that_closes_the_spider_is_kept_for_the_next_run(
    crawls: Crawls,
) -> None:
    """CloseSpider in a callback hands the page back, without counting a delivery."""
    with Shop(40) as shop:
        first = crawls.start("shop", site=shop.url, settings={"CLOSE_AT": 12})
        first.wait_for_success()
        assert close_reason(first) == "enough"
        assert 12 not in crawls.values("product")
        second = crawls.start("shop", site=shop.url)
        finish(second)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        assert shop.visits["/product/12"] == 2
    assert stats(second)["redis_state/redelivered"] == 0
