"""The extension that checks everything at start and keeps dead workers' work moving."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.misc import load_object

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.reports.reaped import report_reaped
from scrapy_redis_state.requests.message_hook import message_hook
from scrapy_redis_state.startup.check import check_before_start
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.startup.refusals import tell_in_one_line
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.errors import RedisStateError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

TIDY_SECS = 5.0
"""How long the end of a crawl may wait for a large seen set to be dealt with."""


class Reaper:
    """Puts back the work of dead workers, whether or not this process is crawling.

    It is also where settings and server are checked before the crawl starts, since an
    error raised by an extension is the last line that the user sees.

    :raises ValueError: for anything that cannot work
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawl = SharedCrawl.of(crawler)
        self._stats = crawler.stats
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        tell_in_one_line()
        _check_reactor()
        assert crawler.spider is not None
        message_hook(crawler.spider)
        # Open until the crawl has connections of its own: an embedded server stops when
        # nobody uses it.
        self._checked = check_before_start(
            self._crawl, joins=_has_our_scheduler(crawler)
        )
        crawler.signals.connect(self._start, signals.engine_started)
        crawler.signals.connect(self._stop, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not takes_part(crawler.settings):
            raise NotConfigured
        return cls(crawler)

    # --- while it runs ---------------------------------------------------------------

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _stop(self) -> None:
        self._checked.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._crawl.seen_set.has_many_keys:
            await self._tidy()

    async def _tidy(self) -> None:
        """Have what is left of the seen set expire with the crawl, if it is over.

        What is not done in time is left to whoever reaps next.
        """
        store = RedisCrawlStore(async_client(self._crawl.config.url), self._crawl.keys)
        try:
            await asyncio.wait_for(store.reap(), TIDY_SECS)
        except (RedisStateError, asyncio.TimeoutError) as error:
            logger.debug("The seen set is not tidied: %(error)s", {"error": error})
        finally:
            await store.close()

    async def _run(self) -> None:
        config = self._crawl.config
        store = RedisCrawlStore(async_client(config.url), self._crawl.keys)
        # One look advances the crawl clock by half a lease at most.
        pause = min(config.reap_interval_secs, config.lease_secs / 2)
        try:
            while True:
                await self._reap(store)
                # Before Python 3.11 the client's timeouts may swallow a cancellation.
                if self._task is None:
                    return
                await asyncio.sleep(pause)
        finally:
            await store.close()

    async def _reap(self, store: RedisCrawlStore) -> None:
        try:
            reply = await store.reap()
        except RedisStateError as error:
            # A worker of this process tells of an outage by itself.
            told = self._failing or self._crawl.worker is not None
            log = logger.debug if told else logger.warning
            log("Dead workers are not looked for now: %(error)s", {"error": error})
            self._failing = True
            return
        self._failing = False
        report_reaped(reply.reaped, self._stats)


def _check_reactor() -> None:
    if not is_asyncio_available():
        raise ValueError(
            "TWISTED_REACTOR is not the asyncio reactor, which scrapy-redis-state"
            " needs: remove the setting, or set it to"
            " 'twisted.internet.asyncioreactor.AsyncioSelectorReactor'."
        )


def _has_our_scheduler(crawler: Crawler) -> bool:
    cls = load_object(crawler.settings["SCHEDULER"])
    return bool(getattr(cls, "joins_shared_crawl", False))
