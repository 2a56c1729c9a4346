"""What is said, and what is refused, when a crawler enters a crawl."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.feeds import warn_of_shared_feeds
from scrapy_redis_state.migration.spiders import RedisMixin
from scrapy_redis_state.migration.their_settings import (
    warn_of_their_base_class,
    warn_of_their_settings,
)
from scrapy_redis_state.requests.page_identity import has_canonical_urls
from scrapy_redis_state.store.errors import (
    RedisStateError,
    StateLost,
    Unavailable,
)
from scrapy_redis_state.store.messages import JoinStatus, Seeding

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_redis_state.store.messages import JoinReply, Summary

logger = logging.getLogger(__name__)

SEEDING_MIDDLEWARE = "scrapy_redis_state.seeding.SeedingMiddleware"
REAPER = "scrapy_redis_state.reaper.Reaper"
COOKIES = "scrapy_redis_state.cookies.CookiesMiddleware"
STOCK_COOKIES = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"
FINGERPRINTER = "scrapy_redis_state.fingerprinter.CanonicalRequestFingerprinter"


def check_parts(crawler: Crawler) -> None:
    """Refuse what cannot work, and warn of what is likely to be a mistake.

    :raises ValueError: if start requests would be made by every worker, unnoticed
    """
    settings = crawler.settings
    if not _is_enabled(crawler, "SPIDER_MIDDLEWARES", SEEDING_MIDDLEWARE):
        raise ValueError(
            f"SPIDER_MIDDLEWARES lacks {SEEDING_MIDDLEWARE}, without which every worker"
            " would run start() and the crawl would never end: enable"
            " ADDONS = {'scrapy_redis_state.Addon': 500}, or put it there first."
        )
    if not _is_enabled(crawler, "EXTENSIONS", REAPER):
        logger.warning(
            "EXTENSIONS lacks %(reaper)s: the work of dead workers comes back only"
            " while others crawl, and the server was not checked at start",
            {"reaper": REAPER},
        )
    if not has_canonical_urls(crawler):
        logger.info(
            "REQUEST_FINGERPRINTER_CLASS is not %(ours)s: URLs that differ in tracking"
            " parameters are different pages",
            {"ours": FINGERPRINTER},
        )
    if _has_stock_cookies(crawler):
        logger.warning(
            "DOWNLOADER_MIDDLEWARES has Scrapy's cookies middleware, not %(cookies)s:"
            " each process has its own cookies; put ours in its place, or set"
            " REDIS_STATE_SESSIONS_ENABLED = False",
            {"cookies": COOKIES},
        )
    warn_of_shared_feeds(settings)
    assert crawler.spider is not None
    warn_of_their_base_class(crawler.spider)
    warn_of_their_settings(settings, reads_some=isinstance(crawler.spider, RedisMixin))
    if settings.get("JOBDIR"):
        logger.warning(
            "JOBDIR is set: requests are kept in Redis all the same, not in %(jobdir)s",
            {"jobdir": settings.get("JOBDIR")},
        )


def _has_stock_cookies(crawler: Crawler) -> bool:
    """Whether cookies are meant to be shared, and are not."""
    settings = crawler.settings
    if not SharedCrawl.of(crawler).config.sessions_enabled:
        return False
    if not settings.getbool("COOKIES_ENABLED"):
        return False
    name = "DOWNLOADER_MIDDLEWARES"
    placed = settings.get_component_priority_dict_with_base(name)
    used = [load_object(key) for key, order in placed.items() if order is not None]
    return load_object(STOCK_COOKIES) in used


def _is_enabled(crawler: Crawler, setting: str, path: str) -> bool:
    wanted = load_object(path)
    components = crawler.settings.getdict(setting)
    return any(
        value is not None and issubclass(load_object(component), wanted)
        for component, value in components.items()
    )


def announce(crawl: SharedCrawl, reply: JoinReply) -> None:
    """Say in one line at INFO which crawl this is and what was found."""
    config = crawl.config
    if reply.status is JoinStatus.FINISHED:
        logger.warning(
            "Crawl %(id)s on %(server)s is finished, and there is nothing to do: to"
            " crawl again, %(remedy)s",
            {
                "id": config.crawl_id,
                "server": config.masked_url,
                "remedy": _how_to_restart(crawl),
            },
        )
        return
    assert crawl.worker is not None
    logger.info(
        "Crawl %(id)s on %(server)s, generation %(generation)d (%(found)s), worker"
        " %(worker)s, seen set %(seen)s",
        {
            "id": config.crawl_id,
            "server": config.masked_url,
            "generation": reply.generation,
            "found": _found(reply.status, reply.summary),
            "worker": crawl.worker.membership.id,
            "seen": crawl.seen_set.spec,
        },
    )
    for difference in reply.differences:
        logger.warning(
            "%(what)s; going on, since the crawl id was given",
            {"what": crawl.disagreement(difference)},
        )


def _how_to_restart(crawl: SharedCrawl) -> str:
    if crawl.config.crawl_id_given:
        return "give REDIS_STATE_CRAWL_ID another value"
    return (
        f"start again {crawl.config.lease_secs:g} s (REDIS_STATE_LEASE_SECS) after the"
        " end: sooner, this could be a worker of the crawl that came late"
    )


def _found(status: JoinStatus, summary: Summary) -> str:
    if status is JoinStatus.CREATED:
        return "new"
    start = "start() is not run again"
    if summary.seeding is Seeding.OPEN:
        start = "start() is not done"
    return (
        f"{status.value}: {summary.pending} pending, {summary.in_flight} in flight,"
        f" {summary.done} done, {start}"
    )


def why_it_ended(
    crawl: SharedCrawl, reason: JoinStatus | RedisStateError
) -> Unavailable | StateLost:
    """The error of a crawl that a worker fell out of."""
    crawl_id, url = crawl.config.crawl_id, crawl.config.masked_url
    if isinstance(reason, Unavailable):
        return Unavailable(
            f"redis_unavailable: {url} did not answer for"
            f" {crawl.config.outage_secs:g} s (REDIS_STATE_OUTAGE_SECS): start the"
            f" server, then the workers: the crawl goes on from there ({reason})"
        )
    if isinstance(reason, RedisStateError):
        return Unavailable(f"redis_unavailable: crawl {crawl_id!r} on {url}: {reason}")
    if reason is JoinStatus.WRONG_TYPE:
        return StateLost(
            f"redis_state_lost: a key of crawl {crawl_id!r} on {url} was overwritten by"
            " something else: give each program a REDIS_STATE_KEY_PREFIX of its own"
        )
    return StateLost(
        f"redis_state_lost: the state of crawl {crawl_id!r} vanished from {url}: it was"
        " deleted, or the server restarted without persistence (turn appendonly on)"
    )
