"""The add-on: one line in ``ADDONS`` switches everything on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from scrapy_redis_state.feeds import add_uri_parameter
from scrapy_redis_state.migration.their_settings import refuse_their_classes
from scrapy_redis_state.settings import Config, refusal
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.startup.refusals import tell_in_one_line

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

SCHEDULER = "scrapy_redis_state.scheduler.Scheduler"
DUPEFILTER = "scrapy_redis_state.dupefilter.DupeFilter"
SEEDING = "scrapy_redis_state.seeding.SeedingMiddleware"
REAPER = "scrapy_redis_state.reaper.Reaper"
METRICS = "scrapy_redis_state.metrics.Metrics"
FINGERPRINTER = "scrapy_redis_state.fingerprinter.CanonicalRequestFingerprinter"

COOKIES = "scrapy_redis_state.cookies.CookiesMiddleware"
STOCK_COOKIES = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"

FINGERPRINTER_SETTING = "REQUEST_FINGERPRINTER_CLASS"
FALLBACK_SETTING = "REDIS_STATE_FALLBACK_REQUEST_FINGERPRINTER_CLASS"

OUTERMOST = -1000
"""Lowest of the spider middlewares: its ``process_start`` wraps all others'."""


class Addon:
    """Puts the parts of this package into Scrapy's settings.

    What the project placed itself stays where it is. A part that it replaced by
    another class is refused where the crawl would then not be shared.
    """

    def __init__(self, spider_name: str) -> None:
        self._spider_name = spider_name

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Addon:
        # Commands such as "shell" have no spider yet when add-ons are loaded.
        spider = crawler.spider or crawler.spidercls
        return cls(getattr(spider, "name", None) or "")

    def update_settings(self, settings: BaseSettings) -> None:
        """Check all settings and switch the parts on.

        :raises ValueError: one line that names setting, value and remedy.
        """
        tell_in_one_line()
        add_uri_parameter(settings)
        if not takes_part(settings):
            return
        config = Config.from_settings(settings, self._spider_name)
        refuse_their_classes(settings)
        settings.set("SCHEDULER", SCHEDULER, priority="addon")
        settings.set("DUPEFILTER_CLASS", DUPEFILTER, priority="addon")
        _refuse_other_scheduler(settings)
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", load_object(SEEDING), OUTERMOST
        )
        settings.setdefault_in_component_priority_dict(
            "EXTENSIONS", load_object(REAPER), 0
        )
        if config.metrics_port is not None:
            settings.setdefault_in_component_priority_dict(
                "EXTENSIONS", load_object(METRICS), 0
            )
        _canonicalize_urls(settings)
        if config.sessions_enabled:
            _share_cookies(settings)


def _canonicalize_urls(settings: BaseSettings) -> None:
    """Put our fingerprinter before the project's own, which it hands requests to."""
    name, fallback = FINGERPRINTER_SETTING, FALLBACK_SETTING
    chosen = settings[name]
    cls = load_object(chosen)
    if getattr(cls, "canonicalizes_urls", False) or getattr(cls, "stands_alone", False):
        return
    # The setting's own priority, or the project's choice would win over ours.
    own = settings.getpriority(name) or 0
    priority = max(own, SETTINGS_PRIORITIES["addon"])
    if settings.getpriority(fallback) is None:
        settings.set(fallback, chosen, priority)
    elif own and load_object(settings[fallback]) is not load_object(chosen):
        raise refusal(
            fallback,
            settings[fallback],
            f"is not {name} = {chosen!r}: remove one of the two settings",
        )
    settings.set(name, FINGERPRINTER, priority)


def _share_cookies(settings: BaseSettings) -> None:
    """Put our middleware in the place of the built-in one, wherever that is.

    A project that switched the built-in one off handles cookies itself.
    """
    name = "DOWNLOADER_MIDDLEWARES"
    base, chosen = settings.getdict(f"{name}_BASE"), settings.getdict(name)
    # The project's choice last; None switches a component off.
    orders = {
        load_object(key): order for key, order in [*base.items(), *chosen.items()]
    }
    stock, ours = load_object(STOCK_COOKIES), load_object(COOKIES)
    placed = [order for cls, order in orders.items() if _is_class_of(ours, cls)]
    if not placed and orders.get(stock) is not None:
        settings.set_in_component_priority_dict(name, ours, orders[stock])
    elif all(order is None for order in placed):
        return
    settings.set_in_component_priority_dict(name, stock, None)


def _is_class_of(base: type, component: object) -> bool:
    return isinstance(component, type) and issubclass(component, base)


def _refuse_other_scheduler(settings: BaseSettings) -> None:
    # An add-on cannot overrule the project, and a crawl that silently runs on another
    # scheduler is not shared. No issubclass(): to Scrapy's schedulers, whatever has
    # their methods is a subclass.
    chosen = settings["SCHEDULER"]
    if getattr(load_object(chosen), "joins_shared_crawl", False):
        return
    raise refusal(
        "SCHEDULER",
        chosen,
        f"is not {SCHEDULER}: remove SCHEDULER from the settings, or set "
        "REDIS_STATE_ENABLED = False",
    )
