"""A scheduler that keeps requests in memory and writes down what happens to pages.

It stands where the real one stands, on the same :class:`EngineLink`, so its log is the
order in which a worker would send its operations to the server. Each line of the file
``RECORDER_LOG`` is a JSON object; ``op`` is one of

``take``
    request ``id`` was handed to the engine;
``store``
    ``enqueue_request`` was called: a new ``id``, the ``page`` whose code called it as
    far as the scheduler can know (an id, ``"start"`` or null), the dedup ``key``
    (empty: not filtered), whether it was a ``duplicate``; and the truth that spiders
    put into ``meta``: the request's own ``name`` and the name of its ``maker``;
``item``
    an item has gone through the pipelines;
``end``
    the page of request ``id`` is over: its outcome's ``kind`` and ``reason``;
``seeded``
    ``start()`` has ended, and so have its items;
``close``
    the scheduler was closed, for a ``reason``.

A page that fails is handed out a second time.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler

from scrapy_redis_state.engine import (
    EngineLink,
    current_page,
    is_starting_again,
)
from scrapy_redis_state.outcomes import Outcome

START = "start"
OUTSIDE = "outside"
MAX_DELIVERIES = 2
SUCCESSOR_MARKS = ("retry_times", "redirect_times", "again")
"""Meta keys of a request that replaces the request of its page, and has its name."""


@dataclass(eq=False)
class Delivery:
    """One handing out of a request; what ``current_page`` holds."""

    id: int
    request: Request
    over: asyncio.Event = field(default_factory=asyncio.Event)


class RecordingScheduler(BaseScheduler):
    """Reads the settings ``RECORDER_LOG`` and ``RECORDER_START_TWICE``."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.link = EngineLink(crawler, self._page_ended)
        self.deliveries: dict[str, Delivery] = {}
        """The last delivery of each name."""
        path = Path(crawler.settings["RECORDER_LOG"])
        self._log = path.open("w", buffering=1)
        self._pending: deque[tuple[int, Request]] = deque()
        self._seen: set[str] = set()
        self._taken: dict[int, int] = {}
        self._last_id = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RecordingScheduler:
        return cls(crawler)

    def open(self, spider: Spider) -> None:  # noqa: ARG002 - Scrapy passes it
        self.link.attach()

    def close(self, reason: str) -> None:
        self.write("close", reason=reason)
        self._log.close()

    def has_pending_requests(self) -> bool:
        return bool(self._pending)

    def next_request(self) -> Request | None:
        if not self._pending:
            self.link.hand_out_nothing()
            return None
        id, request = self._pending.popleft()
        self._taken[id] = self._taken.get(id, 0) + 1
        delivery = Delivery(id, request)
        self.deliveries[name_of(request)] = delivery
        self.write("take", id=id, name=name_of(request))
        self.link.hand_out(request, delivery)
        return request

    def enqueue_request(self, request: Request) -> bool:
        key = self._key(request)
        duplicate = key in self._seen
        self._last_id += 1
        self.write(
            "store",
            id=self._last_id,
            page=page_id(),
            key=key,
            duplicate=duplicate,
            name=name_of(request),
            maker=maker_of(request),
        )
        if duplicate:
            return False
        if key:
            self._seen.add(key)
        self._pending.append((self._last_id, request))
        return True

    def write(self, op: str, **values: Any) -> None:
        """Append a line to the log."""
        self._log.write(json.dumps({"op": op, **values}) + "\n")

    def _key(self, request: Request) -> str:
        if request.dont_filter:
            return ""
        fingerprinter: Any = self.crawler.request_fingerprinter
        fingerprint: bytes = fingerprinter.fingerprint(request)
        return fingerprint.hex()

    def _page_ended(self, delivery: Delivery, outcome: Outcome) -> None:
        self.write("end", id=delivery.id, kind=outcome.kind, reason=outcome.reason)
        delivery.over.set()
        if outcome.kind == "fail" and self._taken[delivery.id] < MAX_DELIVERIES:
            self._pending.append((delivery.id, delivery.request))
            self.link.wake()


class RecordingSeeds:
    """Outermost spider middleware: marks what ``start()`` makes, and tells its end."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._items = 0
        self._ended = False
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(self._item_ended, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RecordingSeeds:
        return cls(crawler)

    def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        return start if is_starting_again() else self._seed(start)

    async def _seed(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        current_page.set(START)
        async for thing in start:
            yield self._counted(thing)
        scheduler = scheduler_of(self.crawler)
        if self.crawler.settings.getbool("RECORDER_START_TWICE"):
            async for thing in await scheduler.link.start_again():
                yield self._counted(thing)
        self._ended = True
        self._tell()

    def _counted(self, thing: Any) -> Any:
        if not isinstance(thing, Request):
            self._items += 1
        return thing

    def _item_ended(self) -> None:
        if current_page.get() == START:
            self._items -= 1
            self._tell()

    def _tell(self) -> None:
        if self._ended and not self._items:
            scheduler_of(self.crawler).write("seeded")


class RecordingPipeline:
    """The last pipeline: an item that comes here was handled."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RecordingPipeline:
        return cls(crawler)

    def process_item(self, item: dict[str, str]) -> dict[str, str]:
        scheduler_of(self.crawler).write("item", page=page_id(), maker=item["maker"])
        return item


def scheduler_of(crawler: Crawler) -> RecordingScheduler:
    """The recording scheduler of a running crawl."""
    engine: Any = crawler.engine
    scheduler = engine._slot.scheduler
    assert isinstance(scheduler, RecordingScheduler)
    return scheduler


def page_id() -> int | str | None:
    """Id of the page that the calling code belongs to; ``"start"``; None outside."""
    page = current_page.get()
    if isinstance(page, Delivery):
        return None if page.over.is_set() else page.id
    assert page in (None, START)
    return START if page else None


def name_of(request: Request) -> str:
    """The name that the spider gave to a request."""
    name: str = request.meta["name"]
    return name


def maker_of(request: Request) -> str:
    """Name of the page that really made a request."""
    if any(mark in request.meta for mark in SUCCESSOR_MARKS):
        return name_of(request)
    maker: str = request.meta["maker"]
    return maker
