"""The how-to guides: their spiders crawl as told, and their numbers fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request

from scrapy_redis_state.store import CrawlState
from tests.crawl.crawls import stats
from tests.processes import Programs, wait_until
from tests.servers import Server
from tests.site import Site
from tests.test_documentation import DOCS, blocks

HOWTO = DOCS / "howto"

SPIDER = """
import scrapy

class PageMethod:
    def __init__(self, *arguments):
        pass

{middleware}

class RenderedSpider(scrapy.Spider):
    name = "rendered"
    custom_settings = {{"DOWNLOADER_MIDDLEWARES": {{PageMethods: 560}}}}

    async def start(self):
        yield scrapy.Request(self.start, meta={{"wait_for": "h1"}})

    def parse(self, response):
        yield {{"url": response.url}}
"""


def snippet(page: str, caption: str) -> str:
    return blocks(HOWTO / f"{page}.rst")[caption]


def names_of(page: str, caption: str) -> dict[str, Any]:
    """What a snippet defines."""
    names: dict[str, Any] = {}
    exec(snippet(page, caption), names)  # noqa: S102 - a page of this repository
    return names


def settings(server: Server, crawl: str, **more: object) -> dict[str, object]:
    return {
        "ADDONS": '{"scrapy_redis_state.Addon": 500}',
        "REDIS_STATE_URL": server.url,
        "REDIS_STATE_CRAWL_ID": crawl,
        **more,
    }


@pytest.mark.one_server
def test_flash_sales_come_first(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """By rules; then what the spider gives a priority; the archive comes last."""
    (tmp_path / "sale.py").write_text(snippet("priorities", "sale.py"))
    with Site() as site, CrawlState.connect(server.url, crawl=crawl_name) as state:
        with site.held():
            worker = programs.crawl(
                "sale.py",
                settings=settings(server, crawl_name, CONCURRENT_REQUESTS=1),
                arguments={"site": site.url},
                cwd=tmp_path,
            )
            wait_until(lambda: len(site.visits) == 1, 30, "the first request")

            def all_are_stored() -> bool:
                crawl = state.status().summary
                return crawl.pending + crawl.in_flight == 5

            wait_until(all_are_stored, 30, "all start requests")
        worker.wait_for_success()
        first, *others = site.visits
    # Whichever was stored first may have been taken before the next was there.
    order = ["/flash/1", "/flash/2", "/p/2", "/p/1", "/archive/1"]
    assert others == [path for path in order if path != first]


def test_a_spider_decides_on_priorities() -> None:
    """The method of the page, on requests of either kind."""
    priority = names_of("priorities", "a method of the spider")["redis_state_priority"]
    assert priority(None, Request("https://shop.example/p/1", priority=3)) == 3
    assert priority(None, Request("https://shop.example/flash/1", priority=3)) == 1003


class Front(Site):
    """A front page that links to three slow products."""

    def body(self, path: str) -> str:
        if path != "/":
            return ""
        return "".join(f'<a href="/p/{n}?delay=0.6">p</a>' for n in range(3))


class Prices(Site):
    """A list that links to three products."""

    def body(self, path: str) -> str:
        if path != "/sale":
            return ""
        return "".join(f'<a href="/p/{n}">p</a>' for n in range(3))


@pytest.mark.one_server
def test_a_page_with_a_time_of_its_own_is_crawled_again(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """The front page again and again, each product once; then the crawl is over."""
    (tmp_path / "watch.py").write_text(snippet("recrawl", "watch.py"))
    with Front() as site:
        worker = programs.crawl(
            "watch.py",
            settings=settings(server, crawl_name),
            arguments={"site": site.url},
            cwd=tmp_path,
        )
        worker.wait_for_success()
        assert site.visits.pop("/") >= 2
        assert set(site.visits.values()) == {1}
        assert len(site.visits) == 3


@pytest.mark.one_server
def test_pages_are_crawled_again_after_their_time(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """As many of a site as may be, each time: what was forgotten makes room."""
    (tmp_path / "prices.py").write_text(snippet("recrawl", "prices.py"))
    more = {
        "REDIS_STATE_REVISIT_SECS": 1,
        "REDIS_STATE_MAX_PAGES_PER_SITE": 2,
        "DOWNLOAD_DELAY": 0.05,
        "CLOSESPIDER_ITEMCOUNT": 6,
    }
    with Prices() as site:
        worker = programs.crawl(
            "prices.py",
            settings=settings(server, crawl_name, **more),
            arguments={"site": site.url},
            cwd=tmp_path,
        )
        worker.wait_for_success()
        assert site.visits.pop("/sale") > 3
        assert sum(site.visits.values()) == 6
    assert stats(worker)["redis_state/site_limited"] > 0


@pytest.mark.one_server
def test_requests_with_page_methods_travel(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """Also when they are tried again: the objects are there for the download only."""
    text = SPIDER.format(middleware=snippet("browsers", "middleware"))
    text = text.replace("self.start,", "self.page,")
    (tmp_path / "rendered.py").write_text(text)
    with Site() as site:
        worker = programs.crawl(
            "rendered.py",
            settings=settings(server, crawl_name),
            arguments={"page": f"{site.url}/?status=503&times=1"},
            cwd=tmp_path,
        )
        worker.wait_for_success()
    counted = stats(worker)
    assert counted["scheduler/enqueued/redis"] == 2
    assert counted["item_scraped_count"] == 1
    assert "scheduler/unserializable" not in counted


@pytest.mark.parametrize(
    ("page", "caption", "patience"),
    [
        ("kubernetes", "job.yaml", "terminationGracePeriodSeconds: "),
        ("hosts", "/etc/systemd/system/crawl@.service", "TimeoutStopSec="),
    ],
)
def test_a_worker_ends_before_it_is_killed(
    page: str, caption: str, patience: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five seconds before whoever stops it loses patience."""
    monkeypatch.setenv("REDIS_URL", "redis://redis.example")
    names = names_of("kubernetes", "settings.py")
    found = re.search(rf"{patience}(\d+)", snippet(page, caption))
    assert found
    assert int(found[1]) == names["REDIS_STATE_SHUTDOWN_GRACE_SECS"] + 5
    assert names["REDIS_STATE_URL"] == "redis://redis.example"
