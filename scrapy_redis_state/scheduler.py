"""The scheduler: Scrapy's synchronous face of the worker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.core.scheduler import Scheduler as InMemoryScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_f_from_coro_f

from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.endings import Endings
from scrapy_redis_state.engine import EngineLink, current_page, describe
from scrapy_redis_state.outcomes import Outcome
from scrapy_redis_state.reports.duplicates import (
    DuplicateNotes,
    foreign_dupefilter,
    log_limited,
)
from scrapy_redis_state.reports.reaped import report_reaped
from scrapy_redis_state.reports.seen_growth import SeenGrowth
from scrapy_redis_state.reports.spider_errors import report_spider_error
from scrapy_redis_state.reports.unserializable import Unserializable
from scrapy_redis_state.requests.limits import REVISIT_META, revisit_ms
from scrapy_redis_state.requests.message_hook import (
    HookFailed,
    NothingWanted,
    message_hook,
)
from scrapy_redis_state.requests.priority import score_function
from scrapy_redis_state.requests.serialize import (
    NotDecodable,
    NotEncodable,
    RequestSerializer,
    UnknownCode,
)
from scrapy_redis_state.requests.start_messages import StartMessages
from scrapy_redis_state.shutdown import end_in_time
from scrapy_redis_state.startup.announce import (
    announce,
    check_parts,
    why_it_ended,
)
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.crawl_store import RedisCrawlStore
from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    Bury,
    HandBack,
    JoinStatus,
    PageEnd,
    Seeding,
    Store,
)
from scrapy_redis_state.store.sessions.site import counted_site
from scrapy_redis_state.worker.feeder import Feeder
from scrapy_redis_state.worker.lease import Lease, LocalPage
from scrapy_redis_state.worker.seeding import StartRun
from scrapy_redis_state.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from scrapy_redis_state.store.errors import RedisStateError
    from scrapy_redis_state.store.messages import Reaped

logger = logging.getLogger(__name__)

_ENDS = ("finished", "start_error")
"""Reasons for which a worker closes that is kept alive, if nothing is left to do: then
the crawl is over, unlike when it was told to stop."""

HAND_BACK_MS = 5000
"""How long a request of other code waits before it is offered to other workers."""


class _Offered(NamedTuple):
    """A request that was taken in, and what was found out about it."""

    request: Request
    maker: object
    """The page, or the run of ``start()``, whose code made it."""
    fingerprint: bytes
    """Empty where nobody needs it."""
    is_filtered: bool


class _Offer(NamedTuple):
    """A request on its way to the frontier."""

    request: Request
    run: StartRun | None
    """The run of ``start()`` that has to wait for the answer."""


class Scheduler(BaseScheduler):
    """Takes requests from the crawl's frontier in Redis, and puts them there.

    None of its synchronous methods waits for Redis: they use what the worker holds in
    memory and leave the rest to its exchanges.
    """

    joins_shared_crawl = True

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = SharedCrawl.of(crawler)
        self._link = EngineLink(crawler, self._page_ended, self._on_closing)
        self._dupefilter = foreign_dupefilter(crawler)
        self._stats = crawler.stats
        self._unserializable = Unserializable(crawler.stats)
        self._duplicates = DuplicateNotes(crawler)
        config = self._crawl.config
        # What else than the seen set decides about a request, the server alone knows.
        self._may_know = config.max_pages_per_site == 0
        self._store = RedisCrawlStore(
            async_client(config.url),
            self._crawl.keys,
            config.wait_replicas,
            listener=async_client(config.url),
        )
        options = WorkerOptions(
            first_join=self._crawl.join_request(),
            lease_secs=config.lease_secs,
            prefetch=config.prefetch,
            outage_secs=config.outage_secs,
            can_seed=config.start == "once",
            keep_alive=config.keep_alive,
            idle_secs=config.idle_timeout_secs,
        )
        self._worker = Worker(self._store, options, self)
        self._shutdown: asyncio.Future[None] | None = None
        self._feeder: Feeder | None = None
        self._rejoins = 0
        self._is_leaving = False
        self._growth = SeenGrowth(self._crawl.seen_set)
        self._serializer: RequestSerializer
        self._endings: Endings
        self._spider: Spider

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BaseScheduler:  # type: ignore[override]
        """This scheduler, or Scrapy's own where nothing is to be shared."""
        if not takes_part(crawler.settings):
            return InMemoryScheduler.from_crawler(crawler)
        return cls(crawler)

    # --- opening and closing ---------------------------------------------------------

    @deferred_f_from_coro_f
    async def open(self, spider: Spider) -> None:
        """Join the crawl.

        :raises Refused: if this crawler does not fit the crawl
        :raises Unavailable: if Redis does not answer
        """
        crawl = self._crawl
        check_parts(self._crawler)
        self._spider = spider
        self._serializer = RequestSerializer(
            spider, stamps=crawl.stamps, hook=message_hook(spider)
        )
        self._endings = Endings(self._worker, self._serializer, self._stats)
        self._score = score_function(spider, crawl.config.priority_rules)
        self._link.attach()
        reply = await self._worker.join()
        refusal = crawl.refusal(reply)
        if refusal is not None:
            raise refusal
        crawl.worker, crawl.link = self._worker, self._link
        announce(crawl, reply)
        self._crawler.signals.connect(self._spider_idle, signals.spider_idle)
        if self._dupefilter is not None:
            self._dupefilter.open()
        if not self._worker.is_over:
            self._worker.start()
            self._read_start_keys()

    def _read_start_keys(self) -> None:
        start_keys = self._crawl.start_keys
        if not start_keys.keys:
            return
        messages = StartMessages(
            self._spider,
            self._serializer,
            self._stats,
            operation=self._operation_of_message,
            answered=lambda request, answer: self.answered(
                _Offer(request, None), answer
            ),
            changed=self.changed,
        )
        self._feeder = Feeder(
            self._worker,
            self._store,
            messages,
            start_keys.keys,
            batch_size=start_keys.batch_size,
            high_water=self._crawl.config.start_high_water,
        )
        self._feeder.start()

    @deferred_f_from_coro_f
    async def close(self, reason: str) -> None:
        """Hand back what was not started, store what is not stored, sign off."""
        if self._shutdown is not None:
            self._shutdown.cancel()
        if self._feeder is not None:
            await self._feeder.stop()
        await self._worker.stop(ends=reason in _ENDS)
        await self._store.close()
        if self._dupefilter is not None:
            self._dupefilter.close(reason)
        membership = self._worker.membership
        self._stats.set_value("redis_state/worker", membership.id)
        self._stats.set_value("redis_state/exchanges", membership.exchanges)
        self._stats.set_value("redis_state/rejoins", membership.rejoins)
        self._stats.set_value("redis_state/stalls", self._worker.stalls)

    # --- requests in -----------------------------------------------------------------

    def enqueue_request(self, request: Request) -> bool:
        """Have *request* stored, unless it is a duplicate.

        Whether it is one is known when Redis has answered: then the statistics count it
        and ``request_dropped`` is sent. False for what is not even offered, such as a
        link that was answered before: then the engine sends that signal.
        """
        if self._worker.is_over:
            return False
        try:
            return self._take_in(request)
        except Exception as error:
            # The project's own code raised: a fingerprinter, a filter, a priority.
            self._link.fail_page(error)
            raise

    def _take_in(self, request: Request) -> bool:
        if self._is_seen_elsewhere(request):
            return False
        maker = current_page.get()
        is_filtered = self._is_filtered(request)
        # Only what start() itself makes is made again, and then recognised as such.
        is_seed = isinstance(maker, StartRun) and bool(maker.token)
        fingerprint = self._fingerprint(request) if is_filtered or is_seed else b""
        if is_filtered and self._is_known(request, fingerprint, maker):
            self._duplicates.note(request)
            return False
        offered = _Offered(request, maker, fingerprint, is_filtered)
        try:
            payload = self._serializer.encode(request)
        except NotEncodable as error:
            self._unserializable.note(request, error)
            self._run_here(offered)
        else:
            self._share(offered, payload)
        return True

    def _is_known(self, request: Request, fingerprint: bytes, maker: object) -> bool:
        """Whether the answer is known: no round trip, and nothing to encode."""
        return (
            self._may_know
            and self._worker.is_known(fingerprint)
            and not isinstance(maker, StartRun)
            and REVISIT_META not in request.meta
        )

    def _is_seen_elsewhere(self, request: Request) -> bool:
        """What another filter, one of this process alone, says."""
        dupefilter = self._dupefilter
        if dupefilter is None or not self._may_be_filtered(request):
            return False
        if not dupefilter.request_seen(request):
            return False
        dupefilter.log(request, self._spider)
        return True

    def _may_be_filtered(self, request: Request) -> bool:
        # A middleware that wants the same request once more returns that very object,
        # and a filter would take it for a duplicate of itself.
        return not (request.dont_filter or self._link.is_tried_again(request))

    def _share(self, offered: _Offered, payload: bytes) -> None:
        request, maker, fingerprint, is_filtered = offered
        owner = self._owner(maker)
        run = owner if isinstance(owner, StartRun) else None
        is_seed = run is not None and run is maker and bool(run.token)
        operation = self._operation(request, payload, fingerprint, is_filtered)
        if run and is_seed:
            operation = operation._replace(
                seed=run.identify(fingerprint), seed_token=run.token
            )
        if run is not None:
            run.unanswered += 1
        lease = owner if isinstance(owner, Lease) else None
        self._worker.offer(operation, lease, _Offer(request, run))

    def _operation(
        self, request: Request, payload: bytes, fingerprint: bytes, is_filtered: bool
    ) -> Store:
        is_counted = is_filtered and not self._may_know
        return Store(
            payload,
            self._score(request),
            fingerprint if is_filtered else b"",
            site=counted_site(request.url) if is_counted else "",
            revisit_ms=revisit_ms(request) if is_filtered else 0,
        )

    def _operation_of_message(self, request: Request) -> Store | None:
        if self._is_seen_elsewhere(request):
            return None
        payload = self._serializer.encode(request)
        is_filtered = self._is_filtered(request)
        fingerprint = self._fingerprint(request) if is_filtered else b""
        return self._operation(request, payload, fingerprint, is_filtered)

    def _run_here(self, offered: _Offered) -> None:
        request = offered.request
        fingerprint = offered.fingerprint if offered.is_filtered else b""
        owner = self._owner(offered.maker)
        page = LocalPage(request, self._score(request), fingerprint, owner)
        self._worker.offer_local(page)

    def _owner(self, maker: object) -> Lease | StartRun | None:
        """Whose part a request is that *maker* made: what is repeated if it is lost.

        The maker may be over, or, with several crawlers in a process, of another one.
        """
        if isinstance(maker, LocalPage):
            return None if maker.is_over else maker.owner
        if isinstance(maker, Lease):
            return maker if self._worker.may_add_to(maker) else None
        if isinstance(maker, StartRun):
            return maker if maker is self._crawl.start_run else None
        return None

    def _is_filtered(self, request: Request) -> bool:
        return self._dupefilter is None and self._may_be_filtered(request)

    def _fingerprint(self, request: Request) -> bytes:
        return self._crawler.request_fingerprinter.fingerprint(request)

    def answered(self, tag: _Offer | LocalPage, answer: Answer) -> None:
        """(Listener) What became of a request that was offered."""
        if isinstance(tag, _Offer) and tag.run is not None:
            tag.run.note(answer)
        if answer is Answer.STORED:
            is_local = isinstance(tag, LocalPage)
            where = "memory" if is_local else "redis"
            self._stats.inc_value("scheduler/enqueued")
            self._stats.inc_value(f"scheduler/enqueued/{where}")
            self._unserializable.note_enqueued(is_local=is_local)
        elif answer in (Answer.DUPLICATE, Answer.LIMITED):
            if answer is Answer.DUPLICATE:
                self._duplicates.note(tag.request)
            else:
                log_limited(tag.request, self._spider, self._stats)
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=tag.request, spider=self._spider
            )

    # --- requests out ----------------------------------------------------------------

    def has_pending_requests(self) -> bool:
        """Whether anything is left to do in the whole crawl."""
        return self._worker.has_work

    def next_request(self) -> Request | None:
        """The next request of those that the worker has fetched ahead."""
        while (page := self._worker.take()) is not None:
            request: Request | None
            if isinstance(page, LocalPage):
                request, where = page.request, "memory"
            else:
                request, where = self._decode(page), "redis"
            if request is not None:
                self._link.hand_out(request, page)
                self._stats.inc_value("scheduler/dequeued")
                self._stats.inc_value(f"scheduler/dequeued/{where}")
                return request
        self._link.hand_out_nothing()
        return None

    def _decode(self, lease: Lease) -> Request | None:
        if lease.deliveries:
            self._stats.inc_value("redis_state/redelivered")
        end: PageEnd
        # What the spider's hook for messages makes by itself is a part of the page.
        current_page.set(lease)
        try:
            return self._serializer.decode(lease.payload)
        except NothingWanted:
            end = Ack(lease.id, lease.batch)
            self._stats.inc_value("redis_state/messages_dropped")
        except HookFailed as failed:
            self._hook_failed(lease, failed)
            return None
        except UnknownCode as error:
            end = HandBack(lease.id, lease.batch, HAND_BACK_MS, str(error))
            logger.warning("Handed back: %(error)s", {"error": error})
            self._stats.inc_value("redis_state/handed_back")
        except NotDecodable as error:
            end = Bury(lease.id, lease.batch, str(error))
            logger.error("Dead letter: %(error)s", {"error": error})
            self._stats.inc_value("redis_state/dead")
        self._worker.end(lease, end)
        return None

    def _hook_failed(self, lease: Lease, failed: HookFailed) -> None:
        """As a callback that raises, though there is no response yet."""
        error = failed.__cause__ or failed
        logger.error(
            "%(what)s", {"what": failed}, exc_info=error, extra={"spider": self._spider}
        )
        report_spider_error(self._crawler, error)
        self._endings.page_ended(lease, Outcome("fail", describe(error)))

    def _page_ended(self, page: Lease | LocalPage, outcome: Outcome) -> None:
        self._endings.page_ended(page, outcome)
        self._crawl.notify()

    # --- the worker's news -----------------------------------------------------------

    def changed(self) -> None:
        """(Listener) Let the engine, and who waits for the crawl, look again."""
        self._growth.look(self._worker.summary.seen)
        if self._rejoins != self._worker.membership.rejoins:
            self._rejoins = self._worker.membership.rejoins
            self._crawl.forget_sessions()
        if self._worker.is_told_to_end:
            self._leave_draining()
        self._link.wake()
        self._crawl.notify()

    def _leave_draining(self) -> None:
        """The crawl drains: finish what runs, and end."""
        if self._link.closing or not self._link.is_running or self._is_leaving:
            return
        self._is_leaving = True
        logger.info(
            "Crawl %(id)s drains: this worker starts nothing more, and closes;"
            " 'scrapy redis-state resume' lets the crawl go on",
            {"id": self._crawl.config.crawl_id},
        )
        self._link.close("shutdown")

    def reaped(self, reaped: Reaped) -> None:
        """(Listener) An exchange took back the work of others."""
        report_reaped(reaped, self._stats)

    def _on_closing(self) -> None:
        self._worker.close()
        self._crawl.begin_closing()
        grace = self._crawl.config.shutdown_grace_secs
        if self._is_leaving:
            self._link.release_undownloaded()
        coroutine = end_in_time(self._link, self._worker, grace)
        self._shutdown = asyncio.ensure_future(coroutine)

    def is_busy(self) -> bool:
        """(Listener) Work that could make requests, outside leased pages."""
        return self._crawl.start_run is not None

    def ended(self, reason: JoinStatus | RedisStateError) -> None:
        """(Listener) This process is out of the crawl."""
        if reason is JoinStatus.FINISHED:
            return  # nothing pending, so the engine closes by itself
        if reason is JoinStatus.SUPERSEDED:
            crawl_id = self._crawl.config.crawl_id
            logger.warning("Crawl %(id)s was started over elsewhere", {"id": crawl_id})
            self._link.close("shutdown")
            return
        error = why_it_ended(self._crawl, reason)
        logger.error("%(error)s", {"error": error})
        self._link.fail_crawl(error)
        self._link.close(error.close_reason)

    def _spider_idle(self) -> None:
        if self._worker.summary.seeding is Seeding.FAILED:
            raise CloseSpider("start_error")
