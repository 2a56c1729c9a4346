"""One crawler's part in a shared crawl: what its Scrapy components have in common."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_redis_state.requests.page_identity import page_identity
from scrapy_redis_state.sessions.identity import GivenValues
from scrapy_redis_state.sessions.stamps import SessionStamps
from scrapy_redis_state.settings import Config
from scrapy_redis_state.startup.arguments import spider_arguments
from scrapy_redis_state.startup.start_keys import start_keys_of
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import (
    SCHEMA_VERSION,
    Difference,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Seeding,
)
from scrapy_redis_state.store.runner import run_together
from scrapy_redis_state.worker.membership import new_worker_id
from scrapy_redis_state.worker.sessions.cache import SessionCache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler

    from scrapy_redis_state.engine import EngineLink
    from scrapy_redis_state.store.keys import SessionKey
    from scrapy_redis_state.store.sessions import Stamp
    from scrapy_redis_state.worker.seeding import StartRun
    from scrapy_redis_state.worker.worker import Worker

_ATTRIBUTE = "_redis_state_crawl"

_NAMES = {
    "schema": "the version of the stored data",
    "spider": "the spider",
    "arguments": "the spider arguments (shown as a digest)",
    "order": "REDIS_STATE_ORDER",
    "seen": "REDIS_STATE_SEEN (with its capacity and error rate)",
    "fingerprinter": "REQUEST_FINGERPRINTER_CLASS",
    "url_rules": "the rules for URLs (of this version of scrapy-redis-state and w3lib)",
    "strip_params": "REDIS_STATE_STRIP_QUERY_PARAMS",
    "lease_ms": "REDIS_STATE_LEASE_SECS",
    "max_deliveries": "REDIS_STATE_MAX_DELIVERIES",
    "finished_ttl_ms": "REDIS_STATE_FINISHED_TTL_SECS",
    "revisit_ms": "REDIS_STATE_REVISIT_SECS",
    "max_per_site": "REDIS_STATE_MAX_PAGES_PER_SITE",
}


class SharedCrawl:
    """Created by whichever component comes first, and the same for all of a crawler.

    :raises ValueError: for a setting that cannot be used
    """

    def __init__(self, crawler: Crawler) -> None:
        assert crawler.spider is not None
        self.crawler = crawler
        self.config = Config.from_settings(crawler.settings, crawler.spider.name)
        self.seen_set = self.config.seen_set
        self.keys = CrawlKeys(
            self.config.crawl_id, self.config.key_prefix, self.seen_set
        )
        self.start_keys = start_keys_of(crawler.spider, self.config)
        self.worker: Worker | None = None
        """The scheduler's worker, once it is open."""
        self.link: EngineLink | None = None
        self.start_run: StartRun | None = None
        """The run of ``start()`` under way in this process."""
        self.worker_id = new_worker_id()
        """First identity of the worker; stable, and so the one for names of files."""
        self.given = GivenValues()
        self.stamps = SessionStamps(
            self._known_session,
            self.given,
            self.config.key_prefix,
            may_know=self._knows_sessions,
        )
        self._sessions: SessionCache | None = None
        self._at_closing: list[Callable[[], Awaitable[None]]] = []
        self._closing: list[asyncio.Future[None]] = []
        self._created_at = time.time()
        self._arguments = _digest(spider_arguments(crawler))
        self._changed = asyncio.Event()

    @classmethod
    def of(cls, crawler: Crawler) -> SharedCrawl:
        """The one of this crawler."""
        # Kept by the crawler, so that both are forgotten together.
        crawl: SharedCrawl | None = getattr(crawler, _ATTRIBUTE, None)
        if crawl is None:
            crawl = cls(crawler)
            setattr(crawler, _ATTRIBUTE, crawl)
        return crawl

    @property
    def sessions(self) -> SessionCache:
        """The shared sessions that this process uses; closed with the spider."""
        if self._sessions is None:
            # Sessions are on the first server, whichever has the crawl.
            client = async_client(self.config.urls[0])
            self._sessions = SessionCache(
                partial(run_together, client),
                self.config.session_ttl_secs,
                count=self.count_session,
                level=self._outage_level,
            )

            async def close(sessions: SessionCache = self._sessions) -> None:
                self.begin_closing()
                await asyncio.gather(*self._closing)
                await sessions.close()
                await client.aclose()

            self._close_sessions = close  # signals hold their receivers weakly
            self.crawler.signals.connect(close, signals.spider_closed)
        return self._sessions

    def at_closing(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Have *stop* called when this crawler begins to close, before sessions are."""
        self._at_closing.append(stop)

    def begin_closing(self) -> None:
        """The engine asks for no more requests, and waits for those that run."""
        stops, self._at_closing = self._at_closing, []
        self._closing += [asyncio.ensure_future(stop()) for stop in stops]
        self.notify()

    def count_session(self, what: str) -> None:
        """Count something that happened with sessions."""
        self.crawler.stats.inc_value(f"redis_state/sessions/{what}")

    def forget_sessions(self) -> None:
        """Have all sessions loaded anew before they are used again."""
        if self._sessions is not None:
            self._sessions.drop()

    def _knows_sessions(self) -> bool:
        return self._sessions is not None and self._sessions.has_known

    def _known_session(self, key: SessionKey) -> Stamp | None:
        return self._sessions.known(key) if self._sessions else None

    def _outage_level(self) -> int:
        # A worker that loses the same server warns of it itself.
        is_told = self.worker is not None and self.config.urls[0] == self.config.url
        return logging.INFO if is_told else logging.WARNING

    def notify(self) -> None:
        """Have :meth:`change` return."""
        self._changed.set()

    async def change(self) -> None:
        """Wait until the crawl, as this process knows it, may have changed."""
        self._changed.clear()
        await self._changed.wait()

    def join_request(self, *, dry_run: bool = False) -> JoinRequest:
        """What the first join of this crawler says."""
        config = self.config
        once = config.start == "once"
        return JoinRequest(
            worker=self.worker_id,
            identity={
                "schema": SCHEMA_VERSION,
                "spider": config.spider,
                "arguments": self._arguments,
                "order": config.order,
                "seen": self.seen_set.spec,
                **page_identity(self.crawler, config),
            },
            tunable={
                "lease_ms": str(_ms(config.lease_secs)),
                "max_deliveries": str(config.max_deliveries),
                "finished_ttl_ms": str(_ms(config.finished_ttl_secs)),
                "revisit_ms": str(_ms(config.revisit_secs)),
                "max_per_site": str(config.max_pages_per_site),
            },
            loose=("arguments",) if config.crawl_id_given else (),
            given=config.crawl_id_given,
            age_ms=_ms(max(0.0, time.time() - self._created_at)),
            seeding=Seeding.OPEN if once else Seeding.DONE,
            keep_alive=config.keep_alive,
            dry_run=dry_run,
        )

    def refusal(self, reply: JoinReply) -> Refused | None:
        """Why a join was refused, if it was."""
        if reply.status not in (JoinStatus.MISMATCH, JoinStatus.WRONG_TYPE):
            return None
        difference = reply.differences[0]
        if reply.status is JoinStatus.WRONG_TYPE:
            return Refused(
                f"The key {difference.name!r} on {self.config.masked_url} is a"
                f" {difference.stored}, not the {difference.given} that crawl"
                f" {self.config.crawl_id!r} keeps there: something else uses it; set"
                " another REDIS_STATE_KEY_PREFIX or REDIS_STATE_CRAWL_ID, or remove it."
            )
        return Refused(
            f"{self.disagreement(difference)}; use the same in all workers, or another"
            " REDIS_STATE_CRAWL_ID, or start that crawl over ('scrapy redis-state"
            " reset')."
        )

    def disagreement(self, difference: Difference) -> str:
        """What differs between this process and the crawl, in words."""
        name = _NAMES.get(difference.name, difference.name)
        here, there = difference.given, difference.stored
        if difference.name.endswith("_ms"):
            here, there = f"{int(here) / 1000:g}", f"{int(there) / 1000:g}"
        return (
            f"{name}: {here!r} here, {there!r} in crawl {self.config.crawl_id!r} on"
            f" {self.config.masked_url}"
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _digest(arguments: dict[str, str]) -> str:
    # Not the arguments themselves, which may be passwords.
    if not arguments:
        return "none"
    text = json.dumps(arguments, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
