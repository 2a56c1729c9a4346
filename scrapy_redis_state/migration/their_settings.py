"""Settings of scrapy-redis that a project still has, and what stands for each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_redis_state.requests.page_identity import component_path
from scrapy_redis_state.settings_table import refusal

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

PACKAGE = "scrapy_redis."

_URL = "REDIS_STATE_URL"
_SEEN = "the seen set belongs to the crawl"
_QUEUE = "the queue belongs to the crawl"
_ITEMS = "read by scrapy_redis.pipelines.RedisPipeline only, which may stay"

REPLACEMENTS = {
    "SCHEDULER_PERSIST": "a crawl that is not finished always goes on",
    "SCHEDULER_FLUSH_ON_START": "'scrapy redis-state reset' starts over",
    "SCHEDULER_IDLE_BEFORE_CLOSE": "workers leave when the whole crawl is done",
    "SCHEDULER_QUEUE_KEY": f"{_QUEUE}: REDIS_STATE_CRAWL_ID, REDIS_STATE_KEY_PREFIX",
    "SCHEDULER_QUEUE_CLASS": "priorities always count; REDIS_STATE_ORDER among equals",
    "SCHEDULER_DUPEFILTER_KEY": f"{_SEEN}: REDIS_STATE_CRAWL_ID",
    "SCHEDULER_DUPEFILTER_CLASS": f"{_SEEN}: remove it",
    "SCHEDULER_SERIALIZER": "requests are stored without pickle: remove it",
    "REDIS_URL": _URL,
    "REDIS_HOST": _URL,
    "REDIS_PORT": _URL,
    "REDIS_DB": _URL,
    "REDIS_PARAMS": f"{_URL}, whose query takes options",
    "REDIS_DECODE_RESPONSES": "remove it",
    "REDIS_START_URLS_BATCH_SIZE": "REDIS_STATE_START_KEYS_BATCH_SIZE",
    "REDIS_START_URLS_AS_SET": "the type of a start key is found out",
    "REDIS_START_URLS_AS_ZSET": "the type of a start key is found out",
    "REDIS_START_URLS_KEY": "REDIS_STATE_START_KEYS",
    "REDIS_ENCODING": "messages are UTF-8",
    "MAX_IDLE_TIME_BEFORE_CLOSE": (
        "REDIS_STATE_IDLE_TIMEOUT_SECS, with REDIS_STATE_KEEP_ALIVE"
    ),
    "REDIS_ITEMS_KEY": _ITEMS,
    "REDIS_ITEMS_SERIALIZER": _ITEMS,
    "STATS_KEY": "read by scrapy_redis.stats.RedisStatsCollector only",
}
"""What to say of each; the documentation has the same list."""

READ_BY_SPIDERS = frozenset(
    {"REDIS_START_URLS_KEY", "REDIS_ENCODING", "MAX_IDLE_TIME_BEFORE_CLOSE"}
)
"""Still read by spiders whose base class is :mod:`.spiders`."""

_CLASSES = {
    "SCHEDULER": "remove it: the add-on of scrapy-redis-state sets its own",
    "DUPEFILTER_CLASS": (
        "remove it, as it would wait for Redis at each request and mark pages that are"
        " not stored; to go on with its set of fingerprints set"
        " REQUEST_FINGERPRINTER_CLASS ="
        " 'scrapy_redis_state.migration.ScrapyRedisFingerprinter'"
    ),
}


def refuse_their_classes(settings: BaseSettings) -> None:
    """:raises ValueError: if a part of scrapy-redis stands where ours must."""
    for name, remedy in _CLASSES.items():
        if component_path(settings[name]).startswith(PACKAGE):
            raise refusal(name, settings[name], f"is of scrapy-redis: {remedy}")


def warn_of_their_base_class(spider: Spider) -> None:
    """Say so if the spider still reads its key in the way of scrapy-redis."""
    if any(cls.__module__.startswith(PACKAGE) for cls in type(spider).__mro__):
        logger.warning(
            "Spider %(name)s has a base class of scrapy-redis, which takes messages off"
            " its key before their requests are stored, and stops all else while it"
            " waits for Redis: import it from scrapy_redis_state.migration",
            {"name": spider.name},
        )


def warn_of_their_settings(settings: BaseSettings, *, reads_some: bool) -> None:
    """Name all that a project has and that nobody reads here, in one warning.

    :param reads_some: the spider reads :data:`READ_BY_SPIDERS`
    """
    passed_over = READ_BY_SPIDERS if reads_some else frozenset()
    found = [
        f"{name} ({instead})"
        for name, instead in REPLACEMENTS.items()
        if settings.getpriority(name) is not None and name not in passed_over
    ]
    if found:
        logger.warning(
            "Settings of scrapy-redis have no effect here; what stands for them:"
            " %(found)s",
            {"found": "; ".join(found)},
        )
