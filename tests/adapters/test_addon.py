"""The add-on: what it switches on, and what it leaves to the project."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scrapy import Spider
from scrapy.core.scheduler import Scheduler as StockScheduler
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware as StockCookies
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from scrapy_redis_state import (
    Addon,
    CookiesMiddleware,
    DupeFilter,
    Reaper,
    Scheduler,
)
from scrapy_redis_state.fingerprinter import CanonicalRequestFingerprinter
from scrapy_redis_state.seeding import SeedingMiddleware

STOCK_COOKIES = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"


class Shop(Spider):
    name = "shop"


class OtherScheduler(StockScheduler):
    pass


class OurScheduler(Scheduler):
    pass


class OtherDupeFilter(BaseDupeFilter):
    pass


class OtherMiddleware:
    pass


class OurCookies(CookiesMiddleware):
    pass


class OtherReaper(Reaper):
    pass


def crawler_with(
    settings: dict[str, Any] | None = None, spider: type[Spider] = Shop
) -> Crawler:
    """Make a crawler whose add-ons have been applied, as Scrapy does at the start."""
    crawler = Crawler(spider, {"ADDONS": {Addon: 500}, **(settings or {})})
    crawler.addons.load_settings(crawler.settings)
    return crawler


def refusal(settings: dict[str, Any], spider: type[Spider] = Shop) -> str:
    with pytest.raises(ValueError) as caught:
        crawler_with(settings, spider)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def components(crawler: Crawler, name: str) -> list[Any]:
    """Classes of a kind of component, in Scrapy's order."""
    found = crawler.settings.get_component_priority_dict_with_base(name)
    return [load_object(component) for component in build_component_list(found)]


class TestSwitchedOn:
    @pytest.mark.parametrize("addon", [Addon, "scrapy_redis_state.Addon"])
    def test_one_line_switches_all_parts_on(self, addon: Any):
        """The add-on is named by its class or by its path."""
        crawler = crawler_with({"ADDONS": {addon: 500}})
        assert load_object(crawler.settings["SCHEDULER"]) is Scheduler
        assert load_object(crawler.settings["DUPEFILTER_CLASS"]) is DupeFilter
        assert SeedingMiddleware in components(crawler, "SPIDER_MIDDLEWARES")
        assert Reaper in components(crawler, "EXTENSIONS")
        fingerprinter = load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"])
        assert fingerprinter is CanonicalRequestFingerprinter

    def test_the_stock_components_stay(self):
        """Nothing of Scrapy's own is lost by adding ours."""
        stock = Crawler(Shop)
        for name in ("SPIDER_MIDDLEWARES", "EXTENSIONS"):
            assert set(components(stock, name)) < set(components(crawler_with(), name))

    def test_cookies_are_shared_in_the_place_of_scrapys(self):
        """Ours has the position of the built-in one, which is off."""
        name = "DOWNLOADER_MIDDLEWARES"
        stock, found = components(Crawler(Shop), name), components(crawler_with(), name)
        expected = [CookiesMiddleware if c is StockCookies else c for c in stock]
        assert found == expected

    def test_the_seeding_middleware_is_the_outermost(self):
        """Its ``process_start`` gets what all other spider middlewares made."""
        crawler = crawler_with({"SPIDER_MIDDLEWARES": {OtherMiddleware: -100}})
        ordered = components(crawler, "SPIDER_MIDDLEWARES")
        assert ordered[:2] == [SeedingMiddleware, OtherMiddleware]

    async def test_the_first_middleware_in_order_is_the_outermost(self):
        """Scrapy applies the ``process_start`` of the lowest number last."""
        applied: list[str] = []

        def middleware(name: str) -> object:
            class Middleware:
                def process_start(self, start: Any) -> Any:
                    applied.append(name)
                    return start

            return Middleware()

        crawler = Crawler(Shop)
        crawler.spider = Shop.from_crawler(crawler)
        manager = SpiderMiddlewareManager(
            middleware("first"), middleware("last"), crawler=crawler
        )
        manager._set_compat_spider(crawler.spider)
        await manager.process_start()
        assert applied == ["last", "first"]

    def test_it_installs_no_reactor(self):
        """Scrapy installs the reactor after add-ons; no import may do it before."""
        program = (
            "import sys\n"
            "from scrapy import Spider\n"
            "from scrapy.crawler import Crawler\n"
            "class Shop(Spider):\n"
            "    name = 'shop'\n"
            "crawler = Crawler(Shop, {'ADDONS': {'scrapy_redis_state.Addon': 500}})\n"
            "crawler.addons.load_settings(crawler.settings)\n"
            "sys.exit('twisted.internet.reactor' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], check=False)
        assert done.returncode == 0


class TestSwitchedOff:
    @pytest.mark.parametrize("off", [False, "False", "0"])
    def test_scrapy_stays_as_it_is(self, off: object):
        """``REDIS_STATE_ENABLED = False`` leaves no trace, not even of a check."""
        values = {"REDIS_STATE_ENABLED": off, "REDIS_STATE_URL": "nonsense"}
        crawler, stock = crawler_with(values), Crawler(Shop)
        for name in (
            "SCHEDULER",
            "DUPEFILTER_CLASS",
            "REQUEST_FINGERPRINTER_CLASS",
            "SPIDER_MIDDLEWARES",
            "EXTENSIONS",
        ):
            assert crawler.settings[name] == stock.settings[name] or (
                dict(crawler.settings[name]) == dict(stock.settings[name])
            )

    def test_one_spider_can_leave_it(self):
        """``custom_settings`` decide for a spider."""

        class Alone(Shop):
            custom_settings = {"REDIS_STATE_ENABLED": False}  # noqa: RUF012

        crawler = crawler_with({"SCHEDULER": OtherScheduler}, Alone)
        assert crawler.settings["SCHEDULER"] is OtherScheduler


class TestChecks:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("REDIS_STATE_LEASE_SECS", -1), ("REDIS_STATE_LEASE_SECONDS", 5)],
    )
    def test_bad_settings_are_refused(self, name: str, value: object):
        """A crawl does not begin with a setting that is wrong or unknown."""
        assert refusal({name: value}).startswith(name)

    def test_settings_of_the_spider_are_checked(self):
        """``custom_settings`` are settings."""

        class Hasty(Shop):
            custom_settings = {"REDIS_STATE_OUTAGE_SECS": 0}  # noqa: RUF012

        assert refusal({}, Hasty).startswith("REDIS_STATE_OUTAGE_SECS = 0: ")

    def test_the_name_of_the_spider_is_checked(self):
        """It is a part of the default crawl id."""

        class Braces(Spider):
            name = "{shop}"

        assert refusal({}, Braces).startswith("REDIS_STATE_CRAWL_ID = ")

    def test_the_running_spider_has_the_last_word_on_its_name(self):
        """``scrapy crawl shop -a name=...`` renames the spider."""
        crawler = Crawler(Shop, {"ADDONS": {Addon: 500}})
        crawler.spider = Shop.from_crawler(crawler, name="{}")
        with pytest.raises(ValueError, match="REDIS_STATE_CRAWL_ID"):
            crawler.addons.load_settings(crawler.settings)


class TestProjectsOwnParts:
    @pytest.mark.parametrize(
        "scheduler", [OtherScheduler, "scrapy.core.scheduler.Scheduler"]
    )
    def test_another_scheduler_is_refused(self, scheduler: Any):
        """The project's choice beats an add-on's; the crawl would not be shared."""
        text = refusal({"SCHEDULER": scheduler})
        assert text.startswith(f"SCHEDULER = {scheduler!r}: ")
        assert "remove SCHEDULER from the settings" in text
        assert "REDIS_STATE_ENABLED = False" in text

    def test_another_scheduler_of_the_spider_is_refused(self):
        """The same in ``custom_settings``."""

        class Stubborn(Shop):
            custom_settings = {"SCHEDULER": OtherScheduler}  # noqa: RUF012

        assert refusal({}, Stubborn).startswith("SCHEDULER = ")

    @pytest.mark.parametrize(
        "scheduler", ["scrapy_redis_state.Scheduler", Scheduler, OurScheduler]
    )
    def test_our_scheduler_may_be_set_by_hand(self, scheduler: Any):
        """Also under another path, and a subclass."""
        crawler = crawler_with({"SCHEDULER": scheduler})
        assert crawler.settings["SCHEDULER"] == scheduler

    @pytest.mark.parametrize("key", [StockCookies, STOCK_COOKIES])
    def test_cookies_that_the_project_switched_off_stay_off(self, key: Any):
        """It handles them itself, in a middleware of its own or not at all."""
        own = {key: None, OtherMiddleware: 700}
        crawler = crawler_with({"DOWNLOADER_MIDDLEWARES": own})
        assert dict(crawler.settings["DOWNLOADER_MIDDLEWARES"]) == own

    @pytest.mark.parametrize("key", [StockCookies, STOCK_COOKIES])
    def test_cookies_stay_where_the_project_moved_them(self, key: Any):
        """Ours takes the place that the built-in one was given."""
        crawler = crawler_with({"DOWNLOADER_MIDDLEWARES": {key: 860}})
        placed = crawler.settings["DOWNLOADER_MIDDLEWARES"]
        assert placed[CookiesMiddleware] == 860
        assert StockCookies not in components(crawler, "DOWNLOADER_MIDDLEWARES")

    @pytest.mark.parametrize(
        "key",
        [
            CookiesMiddleware,
            "scrapy_redis_state.CookiesMiddleware",
            "scrapy_redis_state.cookies.CookiesMiddleware",
            OurCookies,
        ],
    )
    def test_our_cookies_may_be_placed_by_hand(self, key: Any):
        """By class or by path, or a subclass: there is one, and not Scrapy's."""
        crawler = crawler_with({"DOWNLOADER_MIDDLEWARES": {key: 650}})
        found = components(crawler, "DOWNLOADER_MIDDLEWARES")
        ours = [cls for cls in found if issubclass(cls, StockCookies)]
        assert ours == [load_object(key)]
        assert crawler.settings["DOWNLOADER_MIDDLEWARES"][key] == 650

    @pytest.mark.parametrize(
        "settings",
        [
            {"DOWNLOADER_MIDDLEWARES": {CookiesMiddleware: None}},
            {"REDIS_STATE_SESSIONS_ENABLED": False},
        ],
    )
    def test_cookies_may_stay_scrapys(self, settings: dict[str, Any]):
        """Each process has its own then."""
        found = components(crawler_with(settings), "DOWNLOADER_MIDDLEWARES")
        assert StockCookies in found
        assert CookiesMiddleware not in found

    def test_another_duplicate_filter_is_kept(self):
        """The scheduler says what that means."""
        crawler = crawler_with({"DUPEFILTER_CLASS": OtherDupeFilter})
        assert crawler.settings["DUPEFILTER_CLASS"] is OtherDupeFilter

    @pytest.mark.parametrize(
        ("name", "path", "cls"),
        [
            (
                "SPIDER_MIDDLEWARES",
                "scrapy_redis_state.seeding.SeedingMiddleware",
                SeedingMiddleware,
            ),
            ("EXTENSIONS", "scrapy_redis_state.Reaper", Reaper),
        ],
    )
    def test_parts_that_are_placed_stay_where_they_are(
        self, name: str, path: str, cls: type
    ):
        """By class or by path, and once only."""
        for key in (path, cls):
            crawler = crawler_with({name: {key: -7, OtherMiddleware: -3}})
            assert dict(crawler.settings[name]) == {key: -7, OtherMiddleware: -3}
            assert components(crawler, name).count(cls) == 1

    def test_a_dictionary_from_the_command_line_is_added_to(self):
        """``-s EXTENSIONS=...`` is JSON."""
        crawler = crawler_with({"EXTENSIONS": f'{{"{__name__}.OtherReaper": 1}}'})
        assert {Reaper, OtherReaper} <= set(components(crawler, "EXTENSIONS"))
