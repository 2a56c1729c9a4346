"""Settings, wherever they are set, and what they change."""

from __future__ import annotations

import json

import pytest

from scrapy_redis_state.settings import SETTINGS
from tests.crawl.crawls import Crawls, finish
from tests.crawl.project.spiders.custom import URL_VARIABLE, CustomSpider
from tests.crawl.shop import Shop
from tests.site import Site

pytestmark = pytest.mark.one_server


AS_BY_DEFAULT = {
    "REDIS_STATE_ENABLED",
    "REDIS_STATE_WAIT_REPLICAS",
}
"""Settings with which this crawl, on a server without modules and replicas, has no
choice."""


def paths(crawls: Crawls) -> list[str]:
    return [item["path"] for item in crawls.items()]


def test_a_spider_may_have_its_own_value_of_every_setting(crawls: Crawls) -> None:
    """custom_settings reach all parts, before anything is decided."""
    custom = CustomSpider.custom_settings
    assert set(custom) == {setting.name for setting in SETTINGS}
    id, prefix = f"{crawls.bot}-custom:custom", "prefix-"
    with Shop(20) as shop:
        # On the command line everything would overrule the spider.
        worker = crawls.programs.crawl(
            "custom",
            settings={"BOT_NAME": crawls.bot, "RECORDS": crawls.records},
            arguments={"site": shop.url},
            env=crawls.project | {URL_VARIABLE: crawls.server.url},
        )
        finish(worker)
        seen = json.loads((crawls.records / "config").read_text())
        (crawls.records / "config").unlink()
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
    for setting in SETTINGS:
        default = setting.default
        if default is not None:
            default = setting.check.read(default)
        is_default = seen[setting.attribute] == str(default)
        assert is_default == (setting.name in AS_BY_DEFAULT), setting.name
    assert seen["crawl_id"] == id
    assert (seen["url"], seen["crawl_id_given"]) == (crawls.server.url, "True")
    with crawls.state(id, prefix) as state:
        assert state.status().given
    key = f"{prefix}crawl:{{{id}}}"
    stored = crawls.client.hmget(key, "lease_ms", "max_deliveries", "order")
    assert stored == [b"7500", b"4", b"lifo"]
    assert 990 <= crawls.client.ttl(key) <= 1000


def test_a_spider_may_opt_out(crawls: Crawls) -> None:
    """With REDIS_STATE_ENABLED = False Scrapy is as it was, and Redis not needed."""
    with Shop(20) as shop:
        worker = crawls.start(
            "unshared", site=shop.url, settings={"REDIS_STATE_URL": "redis://nowhere"}
        )
        finish(worker)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
    assert "scrapy_redis_state.startup.announce" not in worker.output
    assert crawls.client.dbsize() == 0


def test_rules_raise_the_priority_of_matching_urls(crawls: Crawls) -> None:
    """The first rule that matches adds to the request's own priority."""
    with Site() as site:
        finish(crawls.start("priorities", site=site.url))
    # 100 + 0, 100 - 3, 7 - 5, and 0 - 5 twice, in order of arrival.
    expected = ["/flash/4", "/flash/2", "/plain/1", "/plain/0", "/plain/3"]
    assert paths(crawls) == expected


def test_a_spider_may_decide_priorities_itself(crawls: Crawls) -> None:
    """A method redis_state_priority takes the place of all rules."""
    with Site() as site:
        finish(crawls.start("priorities", site=site.url, own="yes"))
    expected = ["/flash/4", "/plain/3", "/flash/2", "/plain/1", "/plain/0"]
    assert paths(crawls) == expected


def depths(crawls: Crawls, settings: dict[str, object]) -> list[int]:
    """Crawl a tree of depth 4 and return the depths of its pages in order."""
    with Site() as site:
        finish(crawls.start("tree", site=site.url, settings=settings))
    assert len(set(paths(crawls))) == len(paths(crawls)) == 31
    return [len(path) - 1 for path in paths(crawls)]


def test_depth_priority_crawls_breadth_first(crawls: Crawls) -> None:
    """DEPTH_PRIORITY = 1 puts a page's children after all of the level above."""
    found = depths(crawls, {"DEPTH_PRIORITY": 1})
    assert found == sorted(found)


@pytest.mark.parametrize(
    "settings",
    [{"DEPTH_PRIORITY": -1}, {"REDIS_STATE_ORDER": "lifo"}],
    ids=["depth-priority", "lifo"],
)
def test_a_crawl_may_go_into_the_depth(
    crawls: Crawls, settings: dict[str, object]
) -> None:
    """Children come before older pages, but for those that were fetched ahead."""
    found = depths(crawls, settings)
    # In breadth there are 15 pages before the first of depth 4, in strict depth 4.
    assert found.index(4) <= 12
