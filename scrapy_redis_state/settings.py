"""All settings as one checked object: the only place that reads them."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from scrapy_redis_state.settings_checks import PriorityRules, refuse_key_part
from scrapy_redis_state.settings_table import (
    PREFIX,
    SETTINGS,
    UNLIMITED_PREFETCH,
    Setting,
    refusal,
)
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.sharding import choose
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_redis_state.store.canonical import StripRules

__all__ = [
    "SETTINGS",
    "Config",
    "is_enabled",
    "refusal",
    "refuse_unknown",
    "setting_value",
]


@dataclass(frozen=True)
class Config:
    """All settings, read and checked. Times are seconds."""

    spider: str
    """Name of the spider."""
    enabled: bool
    url: str = field(repr=False)
    """Of the server that has this crawl. May hold a password; show ``masked_url``."""
    urls: tuple[str, ...] = field(repr=False)
    """Of all servers that were named; the first has the sessions."""
    crawl_id: str
    """With ``%(bot)s`` and ``%(spider)s`` filled in."""
    crawl_id_given: bool
    """The user chose the crawl id: once finished, such a crawl stays finished."""
    key_prefix: str
    lease_secs: float
    reap_interval_secs: float
    max_deliveries: int
    prefetch: int
    order: Literal["fifo", "lifo"]
    priority_rules: PriorityRules
    seen: Literal["exact", "bloom", "packed"]
    seen_capacity: int
    seen_error_rate: float
    revisit_secs: float
    max_pages_per_site: int
    strip_query_params: StripRules
    fallback_request_fingerprinter_class: str | type
    finished_ttl_secs: float
    start: Literal["once", "every_worker"]
    start_high_water: int
    keep_alive: bool
    idle_timeout_secs: float
    start_keys: tuple[str, ...]
    """With ``%(name)s`` and ``%(bot)s`` filled in."""
    start_keys_batch_size: int
    shutdown_grace_secs: float
    wait_replicas: int
    outage_secs: float
    sessions_enabled: bool
    session_ttl_secs: float
    session_proxies: dict[str, str] = field(repr=False)
    """URLs by label. May hold passwords."""
    session_provider: type | None
    metrics_port: int | None
    metrics_address: str

    @property
    def masked_url(self) -> str:
        """The server's URL without user and password."""
        return masked(self.url)

    @property
    def seen_set(self) -> SeenSet:
        """How a crawl that these settings begin remembers what was seen."""
        return SeenSet(
            self.seen,
            self.seen_capacity,
            self.seen_error_rate,
            revisits=self.revisit_secs > 0,
        )

    @property
    def other_urls(self) -> list[str]:
        """Of the servers that this crawl does not use."""
        return [url for url in self.urls if url != self.url]

    @classmethod
    def from_settings(cls, settings: BaseSettings, spider_name: str) -> Config:
        """Read everything, for one spider (whose ``custom_settings`` are in it).

        :raises ValueError: one line that names setting, value and remedy.
        """
        refuse_unknown(settings)
        values = {
            setting.attribute: setting.read(settings)
            for setting in SETTINGS
            if setting.name not in ("REDIS_STATE_CRAWL_ID", "REDIS_STATE_PREFETCH")
        }
        _check_idle_timeout(settings, values)
        crawl_id, urls = _crawl_id(settings, spider_name), values.pop("url")
        names = {"bot": str(settings["BOT_NAME"]), "name": spider_name}
        values["start_keys"] = tuple(one % names for one in values["start_keys"])
        return cls(
            spider=spider_name,
            url=choose(urls, crawl_id),
            urls=urls,
            crawl_id=crawl_id,
            crawl_id_given=bool(settings.getpriority("REDIS_STATE_CRAWL_ID")),
            prefetch=_prefetch(settings),
            **values,
        )


def is_enabled(settings: BaseSettings) -> bool:
    """Tell whether the package is switched on, before anything else is checked."""
    return bool(_setting("REDIS_STATE_ENABLED").read(settings))


def setting_value(settings: BaseSettings, name: str) -> Any:
    """One setting, for what is made without a spider.

    :raises ValueError: one line that names setting, value and remedy.
    """
    return _setting(name).read(settings)


def refuse_unknown(settings: BaseSettings) -> None:
    """:raises ValueError: if a name begins like ours and is none of ours."""
    known = [setting.name for setting in SETTINGS]
    for name in sorted(map(str, settings)):
        if name.startswith(PREFIX) and name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
            raise ValueError(
                f"{name} is not a setting of scrapy-redis-state: the nearest is "
                f"{nearest}; correct or remove it"
            )


def _setting(name: str) -> Setting:
    return next(setting for setting in SETTINGS if setting.name == name)


def _check_idle_timeout(settings: BaseSettings, values: dict[str, Any]) -> None:
    name = "REDIS_STATE_IDLE_TIMEOUT_SECS"
    if values["idle_timeout_secs"] and not values["keep_alive"]:
        raise refusal(
            name,
            settings[name],
            "is for workers that stay when all is done: set REDIS_STATE_KEEP_ALIVE ="
            " True, or remove it",
        )


def _crawl_id(settings: BaseSettings, spider_name: str) -> str:
    setting = _setting("REDIS_STATE_CRAWL_ID")
    template: str = setting.read(settings)
    names = {"bot": str(settings["BOT_NAME"]), "spider": spider_name}
    try:
        crawl_id = _filled_in(template, names)
        refuse_key_part(crawl_id)
    except ValueError as error:
        raise refusal(setting.name, template, str(error)) from None
    return crawl_id


def _filled_in(template: str, names: dict[str, str]) -> str:
    text = re.sub(r"%\((\w+)\)s", lambda match: names.get(match[1], match[0]), template)
    if not text.strip():
        raise ValueError("is empty: give the crawl a name")
    unknown = re.search(r"%\([^)]*\)?.?", text)
    if unknown:
        raise ValueError(
            f"contains {unknown[0]!r}: only %(bot)s and %(spider)s are filled in"
        )
    return text


def _prefetch(settings: BaseSettings) -> int:
    setting = _setting("REDIS_STATE_PREFETCH")
    if settings[setting.name] is not None:
        return int(setting.read(settings))
    concurrency = settings.getint("CONCURRENT_REQUESTS")
    return concurrency if concurrency > 0 else UNLIMITED_PREFETCH
