"""What a start asks of the server before any page is fetched."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.startup.check import check_before_start


class Shop(Spider):
    name = "shop"


@pytest.fixture
def crawl(server, crawl_name):
    crawler = get_crawler(
        Shop,
        {"REDIS_STATE_URL": server.url, "REDIS_STATE_CRAWL_ID": crawl_name},
    )
    crawler.spider = Shop.from_crawler(crawler)
    return SharedCrawl.of(crawler)


def reads(client: Redis) -> int:
    """How often the server has read from its clients."""
    stats: Any = client.info("stats")
    return int(stats["total_reads_processed"])


def test_all_is_asked_in_one_round_trip(server, crawl):
    """Besides connecting: each more would be waited for by every start."""
    with server.client() as client:
        check_before_start(crawl, joins=True).close()  # the server knows the script now
        before = reads(client)
        check_before_start(crawl, joins=True).close()
        # Its own question is one of them, and so is the end of the connection.
        assert reads(client) - before <= 3


def test_the_connection_is_kept(server, crawl):
    """Since an embedded server ends when nobody is connected."""
    client = check_before_start(crawl, joins=True)
    assert client.connection_pool.connection_kwargs["socket_timeout"] == 5
    assert client.ping()
    client.close()
