"""A crawler that closes is not held up by what Scrapy forgets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from twisted.python.failure import Failure

from scrapy_redis_state import engine
from scrapy_redis_state.outcomes import Outcome, PutOff
from tests.faults.graph import Graph, path_of
from tests.processes import Programs, wait_until
from tests.servers import Server
from tests.site import Site

pytestmark = pytest.mark.one_server

SPIDER = """
import asyncio

import scrapy
from scrapy.exceptions import CloseSpider


class Slow:
    async def process_item(self, item):
        await asyncio.sleep(2)
        return item


class StartItem(scrapy.Spider):
    name = "start-item"
    custom_settings = {
        "ADDONS": {"scrapy_redis_state.Addon": 500},
        "ITEM_PIPELINES": {Slow: 1},
    }

    async def start(self):
        yield scrapy.Request(self.site)
        yield {"made": "by start()"}

    def parse(self, response):
        raise CloseSpider("enough")
"""


def test_an_item_of_start_that_is_in_a_pipeline_does_not_hold_up_the_close(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """Scrapy 2.19 waits for it and does not notice when it is through.

    Older versions do not wait for it at all.
    """
    spider = tmp_path / "spider.py"
    spider.write_text(SPIDER)
    with Site() as site:
        crawl = programs.crawl(
            str(spider),
            settings={
                "REDIS_STATE_URL": server.url,
                "REDIS_STATE_CRAWL_ID": crawl_name,
            },
            arguments={"site": site.url},
        )
        crawl.wait_for_success()
    assert "'finish_reason': 'enough'" in crawl.output


AGAIN = """
import scrapy
from scrapy.utils.defer import maybe_deferred_to_future


class Again(scrapy.Spider):
    name = "again"
    custom_settings = {
        "ADDONS": {"scrapy_redis_state.Addon": 500},
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0.01,
    }

    async def start(self):
        yield scrapy.Request(self.site + "/page/0", callback=self.parse_twice)
        yield scrapy.Request(self.site + "/page/1")

    async def parse_twice(self, response):
        download = self.crawler.engine.download(response.request)
        print("waits for it once more")
        await maybe_deferred_to_future(download)
        yield {"read": "twice"}

    def parse(self, response):
        yield {"read": "once"}
"""


def test_a_page_that_waits_for_a_download_of_its_own_runs(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """At a SIGTERM it is finished, unlike those that wait for their first download."""
    spider = tmp_path / "spider.py"
    spider.write_text(AGAIN)
    with Graph(2) as site:
        gate = site.hold(1)
        crawl = programs.crawl(
            str(spider),
            settings={
                "REDIS_STATE_URL": server.url,
                "REDIS_STATE_CRAWL_ID": crawl_name,
            },
            arguments={"site": site.url},
        )
        crawl.wait_for_output("waits for it once more")
        wait_until(lambda: gate.waiting)
        crawl.terminate()
        crawl.wait_for_output("Closing spider")
        gate.open()
        crawl.wait_for_success()
        assert site.visits == {path_of(0): 2, path_of(1): 1}
    assert "'item_scraped_count': 2" in crawl.output


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (asyncio.CancelledError(), Outcome("release")),
        (PutOff(Outcome("delay", delay_ms=7)), Outcome("delay", delay_ms=7)),
        (OSError("no route"), None),
    ],
)
def test_a_download_that_was_broken_off_is_not_done(error, ended):
    """Whoever cancelled it: the page is handed back, and not taken for done."""
    assert engine._ended_by(Failure(error)) == ended
