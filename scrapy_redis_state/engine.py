"""The few private touches of Scrapy's engine: when a page is over and how it ended.

A *page* is a request handed to the engine and all that follows from it: download,
callback, items, the requests it makes and the retry or redirect that replaces it.
Scrapy announces the end of none of these as a whole, but the engine keeps each request
in a set until all of them are done, and everything that belongs to a page runs in one
:mod:`contextvars` context. This module watches the first and uses the second; nothing
else in the package knows how Scrapy's engine works inside.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import scrapy
from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.python.failure import Failure

from scrapy_redis_state.outcomes import Outcome, PutOff, SessionInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    Wrapper: TypeAlias = Callable[..., Any]

current_page: ContextVar[object | None] = ContextVar("current_page", default=None)
"""The page that the running code belongs to, as given to ``EngineLink.hand_out``.

None outside a page; code that runs ``start()`` may set a value of its own. A task that
a page leaves behind keeps seeing its page after the end, so the value should know
whether it is over. A callback of a Twisted timer or of a bare ``Deferred`` sees the
page of whoever armed or fired it, and so do the handlers of the downloader's signals.
"""

_starting_again: ContextVar[bool] = ContextVar("starting_again", default=False)

MAX_REASON = 2000
"""Length of ``Outcome.reason`` in characters, at most."""

_MAX_SUMMARY = 500


class UnsupportedScrapy(RuntimeError):
    """This version of Scrapy lacks something that the package relies on."""


_DONE = Outcome("done")
_WEIGHT = {"done": 0, "delay": 1, "fail": 2, "bury": 3, "release": 4}
"""A page that waits would otherwise hide what went wrong, and be repeated for ever."""


@dataclass(eq=False, slots=True)
class _Page:
    token: object
    request: Request
    """Kept alive, so that its ``id()`` is no other request's meanwhile."""
    outcome: Outcome = field(default=_DONE)
    download_failure: Failure | None = None
    stage: Literal["waiting", "downloaded", "scraped"] = "waiting"

    def note(self, outcome: Outcome) -> None:
        """The worst counts; among equals the first, which is the cause."""
        if _WEIGHT[outcome.kind] > _WEIGHT[self.outcome.kind]:
            self.outcome = outcome


class _InProgress(set[Request]):
    """The engine's set of requests in progress, made to count.

    A callback may download the very request it was called for; an ordinary set would
    forget the request when that download ends, while its page still runs.
    """

    def __init__(self, left: Callable[[Request], None]) -> None:
        super().__init__()
        self._left = left
        self._times: Counter[int] = Counter()

    def add(self, request: Request) -> None:
        self._times[id(request)] += 1
        super().add(request)

    def remove(self, request: Request) -> None:
        self._times[id(request)] -= 1
        if self._times[id(request)] > 0:
            return
        del self._times[id(request)]
        # Told before it leaves: when the last one leaves, a closing engine goes on to
        # close the scheduler.
        try:
            self._left(request)
        finally:
            super().discard(request)  # it may have been abandoned


class EngineLink:
    """What the scheduler of one crawler knows of the engine, and does to it.

    ``on_page_end`` is called once for each page handed out, with the page and its
    outcome, after the last call of ``enqueue_request`` that belongs to it.
    ``on_closing`` is called when the engine begins to close: it asks for no more
    requests, and waits for those that run.
    """

    def __init__(
        self,
        crawler: Crawler,
        on_page_end: Callable[[Any, Outcome], None],
        on_closing: Callable[[], None] = lambda: None,
    ) -> None:
        self._crawler = crawler
        self._on_page_end = on_page_end
        self._on_closing = on_closing
        self._engine: Any = None
        self._by_request: dict[int, list[_Page]] = {}
        self._by_token: dict[int, _Page] = {}
        self._error: Exception | None = None
        self._closing_task: asyncio.Future[None] | None = None
        self._downloads: dict[int, asyncio.Task[Any]] = {}
        """The task in which a request is downloaded, by the request's ``id()``."""
        self._gave_up_statuses = {
            int(status) for status in crawler.settings.getlist("RETRY_HTTP_CODES")
        }

    def attach(self) -> None:
        """Connect to the engine; to be called while it opens the scheduler.

        :raises UnsupportedScrapy: a private name of Scrapy is missing or has
            changed; nothing was changed then.
        """
        engine: Any = self._crawler.engine
        _verify(engine)
        self._engine = engine
        engine._slot.inprogress = _InProgress(self._left)
        _wrap(engine.scraper, "_scrape", self._scrape)
        _wrap(engine.scraper, "call_spider_async", self._call_spider)
        _wrap(engine.scraper, "handle_spider_error", self._handle_spider_error)
        _wrap(engine.scraper, "_process_spidermw_output_async", self._handle_output)
        _wrap(engine.scraper, "start_itemproc_async", self._process_item)
        _wrap(engine, "start_async", self._start)
        _wrap(engine._slot, "close", self._close_slot)
        self._crawler.signals.connect(self._item_error, signals.item_error)
        self._crawler.signals.connect(
            self._reached_downloader, signals.request_reached_downloader
        )

    # The scheduler's side

    def hand_out(self, request: Request, page: object) -> None:
        """``next_request()`` is about to return this request, to be run as ``page``.

        A request object that is handed out again while it is still in progress ends
        all its pages together, when it is dropped for the last time.
        """
        record = _Page(page, request)
        self._by_request.setdefault(id(request), []).append(record)
        self._by_token[id(page)] = record
        current_page.set(page)

    def fail_page(self, error: Exception) -> None:
        """What the running page made could not be taken: it has to be repeated.

        Scrapy notices when a callback made it; of a redirect or a retry it logs the
        error and drops the page.
        """
        page = self._current()
        if page is not None:
            page.note(Outcome("fail", describe(error)))

    def page_of(self, request: Request) -> object | None:
        """The page that a request is being downloaded for.

        None for a download that something else asked for, such as a callback.
        """
        pages = self._by_request.get(id(request), ())
        if len(pages) != 1 or pages[0].stage == "scraped":
            return None
        return pages[0].token

    def hand_out_nothing(self) -> None:
        """``next_request()`` is about to return None: what follows has no page."""
        current_page.set(None)

    def is_tried_again(self, request: Request) -> bool:
        """Whether a downloader middleware wants this very request downloaded again.

        It returned the request it was given a response or an error for. When it is a
        callback that yields it, the answer is no.
        """
        pages = self._by_request.get(id(request))
        if pages is None:  # as is every link of a page, and there are many
            return False
        return any(page.stage == "downloaded" for page in pages)

    def wake(self) -> None:
        """Have the engine ask for requests soon; by itself it does every 5 seconds."""
        slot = self._engine._slot
        if slot is not None:
            slot.nextcall.schedule()

    @property
    def is_running(self) -> bool:
        """Whether the engine has started, so that it can be closed."""
        return bool(self._engine.running)

    @property
    def closing(self) -> bool:
        """Whether the engine has begun to close the spider, or has closed it."""
        slot = self._engine._slot
        return slot is None or slot.closing is not None

    def close(self, reason: str) -> None:
        """Begin to close the spider, unless something else has."""
        if not self.closing and self._closing_task is None:
            self._closing_task = asyncio.ensure_future(
                self._engine.close_spider_async(reason=reason)
            )

    @property
    def stopping(self) -> bool:
        """Whether the process was told to stop, as by SIGTERM."""
        return bool(self._engine._stopping)

    def release_undownloaded(self) -> None:
        """End the pages that still wait for their download; they are to be released.

        The engine takes in more than is downloaded at a time. What it waits for is not
        told, or errbacks would be called. A downloader without queues of its own keeps
        its requests.
        """
        slots = getattr(self._engine.downloader, "slots", {})
        for queue in [slot.queue for slot in slots.values()]:
            for entry in [one for one in queue if self._awaits_download(one[0])]:
                request = entry[0]
                task = self._downloads.get(id(request))
                if task is None:
                    continue
                queue.remove(entry)
                # The engine drops the request when the task ends, see `_scrape`.
                task.cancel()

    def _awaits_download(self, request: Request) -> bool:
        # A callback may download its own request again, and that page runs.
        pages = self._by_request.get(id(request), [])
        return bool(pages) and all(page.stage != "scraped" for page in pages)

    def abandon(self) -> None:
        """Have a closing engine go on at once, without what is still running."""
        slot, scraper = self._engine._slot, self._engine.scraper
        if slot is None or slot.closing is None:
            return
        downloads = list(self._downloads.values())
        slot.inprogress.clear()
        if not slot.closing.called:
            slot._maybe_fire_closing()
        # Both are called again when what was abandoned ends after all.
        slot._maybe_fire_closing = lambda: None
        scraper._check_if_closing = partial(_fire_once, scraper)
        scraper._check_if_closing()
        # What they bring would be told to an engine that is gone.
        for task in downloads:
            task.cancel()

    def fail_crawl(self, error: Exception) -> None:
        """Let the crawl, whenever and however it is closed, end by raising ``error``.

        ``Crawler.crawl()`` raises it after an ordinary close, so that a program sees
        it and ``scrapy crawl`` exits with status 1. The first error counts.
        """
        if self._error is None:
            self._error = error

    async def start_again(self) -> AsyncIterator[Any]:
        """Call the spider's ``start()`` anew, through all spider middlewares.

        A middleware's ``process_start`` can tell by :func:`is_starting_again`.
        """
        reset = _starting_again.set(True)
        try:
            start: AsyncIterator[Any]
            start = await self._engine.scraper.spidermw.process_start()
            return start
        finally:
            _starting_again.reset(reset)

    # The engine's side: the end of a page

    def _left(self, request: Request) -> None:
        self._downloads.pop(id(request), None)
        for page in self._by_request.pop(id(request), ()):
            del self._by_token[id(page.token)]
            self._on_page_end(page.token, page.outcome)

    async def _close_slot(self, close: Wrapper) -> None:
        self._on_closing()
        await close()

    async def _start(self, start: Wrapper, *args: Any, **kwargs: Any) -> None:
        await start(*args, **kwargs)
        if self._error is not None:
            raise self._error

    def _reached_downloader(self, request: Request) -> None:
        # The signal is sent in the very task that then waits for the download.
        task = asyncio.current_task()
        if task is not None and id(request) in self._by_request:
            self._downloads[id(request)] = task
        for page in self._by_request.get(id(request), ()):
            if page.stage == "waiting":
                page.stage = "downloaded"

    # The engine's side: how it ended

    def _page_of(self, request: Request) -> _Page | None:
        pages = self._by_request.get(id(request), ())
        return pages[0] if len(pages) == 1 else self._current()

    def _current(self) -> _Page | None:
        return self._by_token.get(id(current_page.get()))

    async def _scrape(
        self, scrape: Wrapper, result: Response | Failure, request: Request
    ) -> None:
        self._downloads.pop(id(request), None)
        ended = _ended_by(result)
        if ended is not None:
            for waiting in self._by_request.get(id(request), ()):
                waiting.note(ended)
            return
        page = self._page_of(request)
        if page is not None:
            # Whatever the downloader did to the context, this task is the page's.
            current_page.set(page.token)
            page.stage = "scraped"
            if isinstance(result, Failure):
                page.download_failure = result
        await scrape(result, request)

    async def _call_spider(
        self, call: Wrapper, result: Response | Failure, request: Request
    ) -> Any:
        try:
            return await call(result, request)
        except Exception as error:
            page = self._page_of(request)
            if page and isinstance(result, Failure) and error is result.value:
                page.note(self._gave_up(page, error))
            raise

    def _gave_up(self, page: _Page, error: BaseException) -> Outcome:
        """What it means that no errback handled ``error``."""
        if isinstance(error, HttpError):
            if error.response.status in self._gave_up_statuses:
                return Outcome("bury", f"HTTP status {error.response.status}")
            return _DONE
        failure = page.download_failure
        if isinstance(error, SessionInvalid):
            return Outcome("bury", str(error))
        # Otherwise a spider middleware refused the response, and Scrapy will still
        # offer that to all of them and then to handle_spider_error().
        if failure and failure.value is error and not isinstance(error, IgnoreRequest):
            return Outcome("bury", describe(error))
        return _DONE

    def _handle_spider_error(
        self,
        handle: Wrapper,
        failure: Failure,
        request: Request,
        response: Response | Failure,
    ) -> None:
        page = self._page_of(request)
        if page and isinstance(failure.value, PutOff):  # of a download by a callback
            page.note(failure.value.outcome)
            return
        if page and failure.value is not None:
            page.note(self._spider_error(page, failure.value))
        handle(failure, request, response)

    def _spider_error(self, page: _Page, error: BaseException) -> Outcome:
        if isinstance(error, CloseSpider):
            return Outcome("release", describe(error))
        failure = page.download_failure
        if failure and failure.value is error:
            # An errback that is a generator raised what it was given.
            return self._gave_up(page, error)
        return Outcome("fail", describe(error))

    async def _handle_output(
        self, handle: Wrapper, output: Any, response: Response | Failure
    ) -> None:
        page = self._current()
        if page and page.outcome.kind == "bury":
            # A spider middleware made something of it after all.
            page.outcome = _DONE
        try:
            await handle(output, response)
        except BaseException as error:
            # Scrapy does not look at how this went. A cancelled pipeline ends here.
            if page:
                page.note(Outcome("fail", describe(error)))
            raise

    async def _process_item(self, process: Wrapper, *args: Any, **kwargs: Any) -> Any:
        try:
            await process(*args, **kwargs)
        finally:
            # Scrapy 2.19 waits for items of start() when it closes, and is not told
            # when they are through.
            slot = self._engine.scraper.slot
            if slot is not None and slot.is_idle():
                _fire_once(self._engine.scraper)

    def _item_error(self, failure: Failure) -> None:
        page = self._current()
        if page and isinstance(failure.value, PutOff):
            page.note(failure.value.outcome)
        elif page and failure.value is not None:
            page.note(Outcome("fail", describe(failure.value)))


def _ended_by(result: Response | Failure) -> Outcome | None:
    """How a page ended that is not to be scraped; None if it is."""
    error = result.value if isinstance(result, Failure) else None
    if isinstance(error, PutOff):
        return error.outcome
    if isinstance(error, asyncio.CancelledError):
        # Whoever cancelled it, it was not downloaded: it must not count as done.
        return Outcome("release")
    return None


def _fire_once(scraper: Any) -> None:
    closing = scraper.slot.closing
    if closing is not None and not closing.called:
        closing.callback(scraper.crawler.spider)


def is_starting_again() -> bool:
    """Whether ``process_start`` is being called by :meth:`EngineLink.start_again`."""
    return _starting_again.get()


def describe(error: BaseException) -> str:
    """The exception in one line, then the end of its traceback."""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-5)).rstrip()
    text = summary[:_MAX_SUMMARY]
    if frames:
        text = f"{text}\n{frames[-(MAX_REASON - len(text) - 1) :]}"
    # An exception may quote what cannot be encoded.
    return text.encode("utf-8", "replace").decode("utf-8")


# What is touched, from the engine on. A kind of None: it only has to exist.
_TOUCHED: tuple[tuple[str, Callable[[Any], bool] | None], ...] = (
    ("_slot.inprogress", lambda value: type(value) is set),
    ("_slot.closing", None),
    ("_slot.close", iscoroutinefunction),
    ("_slot._maybe_fire_closing", callable),
    ("_stopping", None),
    ("_slot.nextcall.schedule", callable),
    ("scraper._scrape", iscoroutinefunction),
    ("scraper._process_spidermw_output_async", iscoroutinefunction),
    ("scraper.call_spider_async", iscoroutinefunction),
    ("scraper.handle_spider_error", callable),
    ("scraper.start_itemproc_async", iscoroutinefunction),
    ("scraper._check_if_closing", callable),
    ("scraper.spidermw.process_start", iscoroutinefunction),
    ("start_async", iscoroutinefunction),
    ("close_spider_async", iscoroutinefunction),
)


def _verify(engine: object) -> None:
    for path, is_as_expected in _TOUCHED:
        value = engine
        for name in path.split("."):
            if not hasattr(value, name):
                raise _unsupported(path, "is missing")
            value = getattr(value, name)
        if is_as_expected is not None and not is_as_expected(value):
            raise _unsupported(path, f"is unexpected: {value!r}")


def _unsupported(path: str, trouble: str) -> UnsupportedScrapy:
    return UnsupportedScrapy(
        f"Scrapy {scrapy.__version__} does not work with scrapy_redis_state:"
        f" ExecutionEngine.{path} {trouble}. Install a Scrapy between 2.15 and 2.19,"
        f" or a newer scrapy_redis_state."
    )


def _wrap(owner: object, name: str, wrapper: Wrapper) -> None:
    """Have ``wrapper``, given the original first, called in place of a method."""
    setattr(owner, name, partial(wrapper, getattr(owner, name)))
