"""Feed files of several workers: one name each, and a warning where they share one."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.startup.invocation import takes_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

PARAMETER = "redis_state_worker"
"""``%(redis_state_worker)s`` in the URI of a feed is the identity of this worker."""

UNSHARED = "unshared"
"""Its value where nothing is shared: the same feeds must still have a name."""


def add_uri_parameter(settings: BaseSettings) -> None:
    """Give every feed URI the parameter, beside those of the project's own functions.

    Each of them, for all feeds or for one, is called by one of ours in its place.
    """
    name = "FEED_URI_PARAMS"
    priority = max(settings.getpriority(name) or 0, 15)
    settings.set(name, partial(_with_worker, settings.get(name)), priority=priority)
    feeds = settings.getdict("FEEDS")
    if any(options.get("uri_params") for options in feeds.values()):
        feeds = {uri: _with_parameter(options) for uri, options in feeds.items()}
        settings.set("FEEDS", feeds, priority=settings.getpriority("FEEDS") or 0)


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """``FEED_URI_PARAMS`` of a project that has this package without its add-on."""
    return _with_worker(None, params, spider)


def _with_parameter(options: dict[str, Any]) -> dict[str, Any]:
    own = options.get("uri_params")
    return options | {"uri_params": partial(_with_worker, own)} if own else options


def _with_worker(
    own: str | Callable[..., Any] | None, params: dict[str, Any], spider: Spider
) -> dict[str, Any]:
    params[PARAMETER] = _worker_id(spider.crawler)
    if own is not None:
        function = load_object(own)
        made = function(params, spider)
        if made is not None:
            return {PARAMETER: params[PARAMETER], **made}
    return params


def _worker_id(crawler: Crawler) -> str:
    if takes_part(crawler.settings):
        return SharedCrawl.of(crawler).worker_id
    return UNSHARED


def warn_of_shared_feeds(settings: BaseSettings) -> None:
    """Name the feeds that every worker would write to."""
    for uri, options in settings.getdict("FEEDS").items():
        if PARAMETER in str(uri) or str(uri).startswith(("stdout:", "-")):
            continue
        logger.warning(
            "Feed %(uri)s: several workers of this crawl would %(trouble)s; put"
            " %%(redis_state_worker)s into its name, so that each has its own",
            {"uri": uri, "trouble": _trouble(str(uri), options)},
        )


def _trouble(uri: str, options: dict[str, Any]) -> str:
    # Only local files are appended to by default.
    overwrites = options.get("overwrite", "://" in uri and not uri.startswith("file:"))
    return "overwrite each other's items" if overwrites else "write into one file"
