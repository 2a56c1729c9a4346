"""A crawl at some distance from its server, in time that does not pass.

The loop's clock jumps to whatever is due next, so that a test sees the same on every
machine, and an hour takes a moment.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.worker import Worker, WorkerOptions
from tests.worker.fleet import JOIN, ModelStore, Owner, T, ack, page

TURN_SECS = 1e-9


class _Jumps(selectors.SelectSelector):
    """Instead of waiting it says how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen again"
        # Some time passes in each turn of a loop: it calls what is due in less than its
        # clock can tell, which may come too early for who looks at the clock.
        self.waited += max(timeout, TURN_SECS)
        return super().select(0)


class VirtualTime(asyncio.SelectorEventLoop):
    """A loop in which waiting takes no time."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.waited


@contextmanager
def virtual_time() -> Iterator[VirtualTime]:
    """The loop to run a crawl in; workers go by its clock, and jitter is the same."""
    loop, real, chance = VirtualTime(), clock.now, random.getstate()
    clock.now = loop.time
    random.seed(1)
    try:
        yield loop
    finally:
        clock.now = real
        random.setstate(chance)
        loop.close()


class FarStore(ModelStore):
    """One that is so far away."""

    def __init__(self, round_trip_secs: float) -> None:
        super().__init__()
        self._way_secs = round_trip_secs / 2

    async def _call(
        self, function: Callable[[Any], T], request: Any, log: list[Any]
    ) -> T:
        await asyncio.sleep(self._way_secs)
        reply = await super()._call(function, request, log)
        await asyncio.sleep(self._way_secs)
        return reply


class Crawler(Owner):
    """Does pages, as many at a time as it may.

    :param page_done: called when one is
    :param page_secs: how long a page takes, besides others
    :param work_secs: how long it holds the processor in the end, one after the other
    """

    def __init__(
        self,
        store: FarStore,
        page_done: Callable[[], None],
        *,
        concurrency: int = 16,
        prefetch: int = 16,
        page_secs: float = 0.001,
        work_secs: float = 0.0,
    ) -> None:
        super().__init__()
        options = WorkerOptions(first_join=JOIN, prefetch=prefetch)
        self.worker = Worker(store, options, self)
        self.done = 0
        self.most_unstarted = 0
        """Most requests that were held and not begun."""
        self._page_done = page_done
        self._free = concurrency
        self._page_secs, self._work_secs = page_secs, work_secs
        self._idle_at = 0.0
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def changed(self) -> None:
        super().changed()
        self._loop.call_soon(self._begin)
        self._news.set()

    async def close(self) -> None:
        """Stop as soon as nothing is left to do in the crawl."""
        while self.worker.has_work:
            self._news.clear()
            await self._news.wait()
        await self.worker.stop(ends=True)

    def _begin(self) -> None:
        unstarted = len(self.worker._buffer)
        self.most_unstarted = max(self.most_unstarted, unstarted)
        while self._free and (lease := self.worker.take()):
            assert isinstance(lease, Lease)
            self._free -= 1
            self._loop.call_later(self._page_secs, self._work, lease)

    def _work(self, lease: Lease) -> None:
        self._idle_at = max(self._loop.time(), self._idle_at) + self._work_secs
        self._loop.call_at(self._idle_at, self._end, lease)

    def _end(self, lease: Lease) -> None:
        self.worker.end(lease, ack(lease))
        self._free += 1
        self.done += 1
        self._page_done()
        self.changed()


class Crawl:
    """What crawlers do to so many pages, which are there from the beginning.

    :param crawlers: the options of each
    """

    def __init__(
        self, pages: int, round_trip_secs: float, *crawlers: dict[str, Any]
    ) -> None:
        self._pages = self._left = pages
        self.store = FarStore(round_trip_secs)
        self.exchanges = 0
        """Made until the last page was done."""
        self.closing_secs = 0.0
        """From the end of the last page until all had signed off."""
        with virtual_time() as loop:
            self.secs, self.crawlers = loop.run_until_complete(self._run(crawlers))

    @property
    def pages_per_exchange(self) -> float:
        return self._pages / self.exchanges

    async def _run(
        self, crawlers: tuple[dict[str, Any], ...]
    ) -> tuple[float, list[Crawler]]:
        requests = [page(str(number)) for number in range(self._pages)]
        self.store.server.push(requests, "token of a push")
        self._is_done = asyncio.Event()
        crew = [Crawler(self.store, self._page_done, **one) for one in crawlers]
        for one in crew:
            await one.worker.join()
        began = clock.now()
        for one in crew:
            one.worker.start()
            one._begin()  # an engine asks before there is anything
        await self._is_done.wait()
        ended, self.exchanges = clock.now(), len(self.store.exchanges)
        await asyncio.gather(*(one.close() for one in crew))
        self.closing_secs = clock.now() - ended
        return ended - began, crew

    def _page_done(self) -> None:
        self._left -= 1
        if not self._left:
            self._is_done.set()
