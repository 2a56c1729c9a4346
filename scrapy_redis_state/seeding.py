"""The spider middleware that has ``start()`` run once per crawl."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, NotConfigured

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.engine import current_page, describe, is_starting_again
from scrapy_redis_state.reports.spider_errors import report_spider_error
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.store.messages import Seeded, SeedFailed
from scrapy_redis_state.worker.seeding import StartRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_redis_state.worker.worker import Worker

logger = logging.getLogger(__name__)


class SeedingMiddleware:
    """Runs ``start()`` in the one worker that holds the crawl's seeding token.

    It must be the outermost spider middleware. In every worker its output stays open
    until the crawl is drained: should the holder die, or the server lose what it
    stored, another worker takes the token and runs ``start()`` from the beginning. What
    was stored before is recognised and not stored again.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = SharedCrawl.of(crawler)
        for signal in (
            signals.item_scraped,
            signals.item_dropped,
            signals.item_error,
        ):
            crawler.signals.connect(self._item_left, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not takes_part(crawler.settings):
            raise NotConfigured
        return cls(crawler)

    def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The start requests and items that this worker is to make."""
        # Asked here, since a generator begins only when that call is over.
        return start if is_starting_again() else self._whenever_it_is_our_turn(start)

    async def _whenever_it_is_our_turn(
        self, start: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        worker = self._crawl.worker
        if worker is None:  # another scheduler
            async for output in start:
                yield output
            return
        first: AsyncIterator[Any] | None = start
        async for run in self._turns(worker):
            source = first if first is not None else await self._start_again()
            first = None
            self._crawl.start_run = run
            try:
                async for output in self._outputs(worker, run, source):
                    yield output
            finally:
                run.is_over = True
                self._crawl.start_run = None
                worker.wake()  # nothing of it keeps the crawl open any more
                current_page.set(None)

    async def _start_again(self) -> AsyncIterator[Any]:
        assert self._crawl.link is not None
        logger.info("Running start() from the beginning, for the whole crawl")
        return await self._crawl.link.start_again()

    async def _turns(self, worker: Worker) -> AsyncIterator[StartRun]:
        """A run for each time that it is this worker's turn, until there is no more."""
        for_itself = self._crawl.config.start == "every_worker"
        if for_itself and not (worker.is_over or worker.is_told_to_end):
            yield StartRun()
        while worker.has_work and not worker.closing:
            if worker.summary.seed_token:
                yield StartRun(worker.summary.seed_token)
            else:
                await self._crawl.change()

    async def _outputs(
        self, worker: Worker, run: StartRun, source: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        try:
            while await self._may_go_on(worker, run):
                current_page.set(run)
                try:
                    output = await anext(source)
                except StopAsyncIteration:
                    await self._end(worker, run)
                    return
                run.items += not isinstance(output, Request)
                yield output
                # The engine goes on without a pause while its downloader is full, and
                # neither downloads nor beats would come between.
                await asyncio.sleep(0)
        except (CloseSpider, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a spider raises
            self._fail(worker, run, error)
            await self._until_token_is_gone(worker, run)
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    async def _may_go_on(self, worker: Worker, run: StartRun) -> bool:
        """Wait while there is more than enough to do; False when the token is lost."""
        high_water = self._crawl.config.start_high_water
        while self._is_current(worker, run):
            queued = worker.summary.pending + worker.backlog
            if queued < high_water and not worker.is_full:
                return True
            await self._crawl.change()
        return False

    def _is_current(self, worker: Worker, run: StartRun) -> bool:
        if worker.is_over or worker.closing:
            return False
        return not run.token or worker.summary.seed_token == run.token

    async def _end(self, worker: Worker, run: StartRun) -> None:
        """Report that all is stored, once it is."""
        while not run.is_settled and self._is_current(worker, run):
            await self._crawl.change()
        if not run.token or not self._is_current(worker, run):
            return
        logger.info(
            "start() is done: %(stored)d requests stored, %(filtered)d seen before",
            {"stored": run.stored, "filtered": run.filtered},
        )
        worker.report(Seeded(run.token, tuple(run.seen)))
        await self._until_token_is_gone(worker, run)

    def _fail(self, worker: Worker, run: StartRun, error: Exception) -> None:
        logger.error(
            "start() raised; it is tried again: %(error)s",
            {"error": error},
            exc_info=error,
            extra={"spider": self._crawler.spider},
        )
        report_spider_error(self._crawler, error)
        if run.token:
            worker.report(SeedFailed(run.token, describe(error)))

    async def _until_token_is_gone(self, worker: Worker, run: StartRun) -> None:
        while run.token and self._is_current(worker, run):
            await self._crawl.change()

    def _item_left(self) -> None:
        run = current_page.get()
        if isinstance(run, StartRun):
            run.items -= 1
            self._crawl.notify()
