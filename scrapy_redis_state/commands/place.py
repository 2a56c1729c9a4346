"""Where a verb is to look: which servers, and which crawl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.project import inside_project

from scrapy_redis_state.codec.message import HOOK
from scrapy_redis_state.settings import Config, setting_value
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.canonical import UrlRules
from scrapy_redis_state.store.client import refuse_new, sync_client
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.sessions.sessions import Sessions
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    import argparse

    from redis import Redis
    from scrapy import Spider
    from scrapy.settings import BaseSettings

_OPTIONS = {
    "url": "REDIS_STATE_URL",
    "crawl": "REDIS_STATE_CRAWL_ID",
    "prefix": "REDIS_STATE_KEY_PREFIX",
}
"""Settings that options stand for."""


class Place:
    """The servers and the crawl that settings and options name.

    :param settings: of the project, or Scrapy's own outside of one
    :param options: of the command line
    """

    def __init__(self, settings: BaseSettings, options: argparse.Namespace) -> None:
        self._settings = settings.copy()
        self._spider: str | None = getattr(options, "spider", None)
        crawl: str | None = getattr(options, "crawl", None)
        self._is_named = self._spider is not None or crawl is not None
        self._begins: bool = getattr(options, "begins", False)
        self._config: Config | None = None
        for option, name in _OPTIONS.items():
            value = getattr(options, option, None)
            if value is not None:
                self._settings.set(name, value, priority="cmdline")

    # --- all crawls under one prefix --------------------------------------------------

    @property
    def urls(self) -> tuple[str, ...]:
        """Of all servers."""
        urls: tuple[str, ...] = setting_value(self._of_spider(), "REDIS_STATE_URL")
        return urls

    @property
    def prefix(self) -> str:
        """Of all keys."""
        prefix: str = setting_value(self._of_spider(), "REDIS_STATE_KEY_PREFIX")
        return prefix

    @contextmanager
    def client(self, url: str) -> Iterator[Redis]:
        """A connection to one server, closed at the end."""
        with closing(self._connect(url)) as client:
            yield client

    def _connect(self, url: str) -> Redis:
        if not self._begins:
            refuse_new(url)
        return sync_client(url)

    @contextmanager
    def sessions(self) -> Iterator[Sessions]:
        """The sessions of all sites; they are on the first server."""
        ttl = setting_value(self._of_spider(), "REDIS_STATE_SESSION_TTL_SECS")
        with self.client(self.urls[0]) as client:
            yield Sessions(client, self.prefix, int(ttl))

    # --- one crawl -------------------------------------------------------------------

    @property
    def names_a_crawl(self) -> bool:
        """Whether the command line says which crawl."""
        return self._is_named

    @property
    def config(self) -> Config:
        """All settings, as a worker of the crawl has them.

        :raises UsageError: if nothing says which crawl is meant
        """
        if self._config is None:
            if self._spider is None:
                self._spider = self._only_spider()
            name = self._spider or ""
            self._config = Config.from_settings(self._of_spider(), name)
        return self._config

    @property
    def rules(self) -> UrlRules:
        """Which URLs are the same page in this crawl."""
        return UrlRules(self.config.strip_query_params)

    @property
    def spider_takes_messages(self) -> bool:
        """Whether the spider, if it is known which, makes requests of messages."""
        if not self.config.spider:
            return False
        spider = get_spider_loader(self._settings).load(self.config.spider)
        return hasattr(spider, HOOK)

    @property
    def keys(self) -> CrawlKeys:
        """Of the crawl."""
        config = self.config
        return CrawlKeys(config.crawl_id, config.key_prefix, config.seen_set)

    @contextmanager
    def state(self) -> Iterator[CrawlState]:
        """The crawl, disconnected at the end."""
        ttl = int(self.config.session_ttl_secs)
        client = self._connect(self.config.url)
        with CrawlState(client, self.keys, ttl, self.rules) as state:
            yield state

    @contextmanager
    def crawl_client(self) -> Iterator[Redis]:
        """A connection to the server of the crawl, closed at the end."""
        with self.client(self.config.url) as client:
            yield client

    def missing(self) -> Refused:
        """The error that there is no such crawl."""
        return Refused(
            f"There is no crawl {self.config.crawl_id!r} on {self.config.masked_url}:"
            " 'scrapy redis-state crawls' lists those that there are."
        )

    def describe(self, error: Exception) -> str:
        """An error in one line, with the server or the file that it is about."""
        if isinstance(error, Unavailable):
            urls = [self._config.url] if self._config else list(self.urls)
            remedy = "start the server, or correct REDIS_STATE_URL (--url)"
            if error.answers:
                remedy = "see what it lacks (memory, disk, replicas), or is busy with"
            return f"{', '.join(map(masked, urls))}: {error}; if it stays so, {remedy}"
        if isinstance(error, OSError) and error.filename and error.strerror:
            return f"{error.filename}: {error.strerror}"
        return str(error)

    # --- spiders and other settings --------------------------------------------------

    def setting(self, name: str, default: str) -> Any:
        """A setting of others, as the spider has it."""
        value = self._of_spider().get(name)
        return default if value is None else value

    @property
    def spider_class(self) -> type[Spider] | None:
        """Of the crawl's spider; None if the project has none of its name."""
        loader = get_spider_loader(self._settings)
        name = self.config.spider
        if not name or name not in loader.list():
            return None
        found: type[Spider] = loader.load(name)
        return found

    def _of_spider(self) -> BaseSettings:
        """The settings with those of the spider that was named."""
        if self._spider is None:
            return self._settings
        settings = self._settings.copy()
        loader = get_spider_loader(settings)
        try:
            spider = loader.load(self._spider)
        except KeyError:
            known = ", ".join(sorted(loader.list()))
            raise Refused(
                f"There is no spider {self._spider!r} here: "
                + (
                    f"use one of {known}."
                    if known
                    else "run it in a project that has it."
                )
            ) from None
        spider.update_settings(settings)
        return settings

    def _only_spider(self) -> str | None:
        """The spider of a crawl that is named without one; None if it needs none."""
        template = str(setting_value(self._settings, "REDIS_STATE_CRAWL_ID"))
        if "%(spider)s" not in template:
            return None
        if not inside_project():
            raise UsageError(
                "which crawl? This is no project: give --crawl ID, and --url URL",
                print_help=False,
            )
        names = sorted(get_spider_loader(self._settings).list())
        if len(names) != 1:
            choice = f" (one of {', '.join(names)})" if names else ""
            raise UsageError(
                f"which crawl? Give --crawl ID, or --spider NAME{choice}",
                print_help=False,
            )
        return str(names[0])
