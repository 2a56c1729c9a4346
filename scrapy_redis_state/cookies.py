"""The cookies middleware: Scrapy's own, with jars that all workers share."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from scrapy import signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware as StockMiddleware
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.httpobj import urlparse_cached

from scrapy_redis_state.codec import NotEncodable
from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.sessions.cookie_jar import SharedCookieJar
from scrapy_redis_state.sessions.identity import IdentityBinder, default_headers
from scrapy_redis_state.sessions.readiness import SessionReadiness
from scrapy_redis_state.sessions.stamps import session_key_of
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.worker.sessions.cache import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_redis_state.sessions.cookie_jar import Noted
    from scrapy_redis_state.store.keys import SessionKey
    from scrapy_redis_state.store.sessions import Changes, Session

logger = logging.getLogger(__name__)


class CookiesMiddleware(StockMiddleware):
    """Sends and takes cookies as Scrapy does, and shares them with all workers.

    In one process every ``Cookie`` header is what stock Scrapy sends: its code does the
    work, on jars that are kept in step with the sessions in Redis. What a response
    changed is written before it goes on to callbacks.

    Where nothing is to be shared it is Scrapy's middleware, with jars of this process.
    """

    jars: defaultdict[Any, SharedCookieJar]  # type: ignore[assignment]

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self.jars = defaultdict(SharedCookieJar)
        self._sharing: _Sharing | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """:raises NotConfigured: if cookies are switched off"""
        middleware = super().from_crawler(crawler)
        if takes_part(crawler.settings):
            crawl = SharedCrawl.of(crawler)
            if crawl.config.sessions_enabled:
                middleware._sharing = _Sharing(crawl, middleware.jars)
        return middleware

    async def process_request(  # type: ignore[override]
        self, request: Request
    ) -> Request | Response | None:
        """Put the session's cookies, and what they are bound to, into a request."""
        sharing = self._sharing
        key = sharing and sharing.key_of(request)
        if not sharing or not key:
            return super().process_request(request)
        while not await sharing.fill(request, key):
            pass
        jar = self.jars[request.meta.get("cookiejar")]
        with jar.noting() as noted:
            super().process_request(request)
        await sharing.save(request, key, noted)
        return None

    async def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        """Take the cookies of a response, if its session is any good."""
        sharing = self._sharing
        instead = sharing and await sharing.judge(request, response)
        if instead:
            return instead
        key = sharing and _may_set_cookies(response) and sharing.key_of(request)
        if not sharing or not key:
            return super().process_response(request, response)
        if not await sharing.may_take(request, key):
            self._debug_set_cookie(response)
            return response
        jar = self.jars[request.meta.get("cookiejar")]
        with jar.noting() as noted:
            super().process_response(request, response)
        await sharing.save(request, key, noted)
        return response


def _may_set_cookies(response: Response) -> bool:
    return "Set-Cookie" in response.headers or "Set-Cookie2" in response.headers


class _Sharing:
    """Keeps the jars of one crawler in step with the sessions.

    :param jars: by what requests have as ``cookiejar``, made when they are asked for
    """

    def __init__(
        self, crawl: SharedCrawl, jars: defaultdict[Any, SharedCookieJar]
    ) -> None:
        if not is_asyncio_available():
            raise ValueError(
                "TWISTED_REACTOR is not the asyncio reactor, which shared cookies need:"
                " remove the setting, or set REDIS_STATE_SESSIONS_ENABLED = False"
            )
        self._crawl = crawl
        self._jars = jars
        self._binder: IdentityBinder | None = None
        self._used: OrderedDict[tuple[Any, SessionKey], None] = OrderedDict()
        """The parts of jars that were filled from sessions; last used last."""
        self._epochs: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
        """Of its session when a request was sent; empty: none was known."""
        self._unshared: WeakSet[Request] = WeakSet()
        self._has_warned = False
        provider = crawl.config.session_provider
        self._readiness = SessionReadiness(crawl, provider) if provider else None
        crawl.crawler.signals.connect(self._scheduled, signals.request_scheduled)

    def _scheduled(self, request: Request) -> None:
        """Connect, and load the first session, while its request is being stored."""
        crawl = self._crawl
        crawl.crawler.signals.disconnect(self._scheduled, signals.request_scheduled)
        # What cannot be used as a key is told when it is.
        with contextlib.suppress(NotEncodable, TypeError):
            if key := session_key_of(request, crawl.config.key_prefix):
                crawl.sessions.expect(key)

    def key_of(self, request: Request) -> SessionKey | None:
        """The session of a request; None if it has none that is shared."""
        try:
            return session_key_of(request, self._crawl.config.key_prefix)
        except NotEncodable as error:
            hash(request.meta["cookiejar"])  # stock Scrapy raises the same
            if request not in self._unshared:
                self._unshared.add(request)
                self._crawl.count_session("not_shared")
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "Cookies are not shared, since a cookiejar in meta %(error)s (shown"
                    " once)",
                    {"error": error},
                )
            return None

    async def fill(self, request: Request, key: SessionKey) -> bool:
        """Before a request: have in its jar what its session has.

        False: the session was no good, and may be by now.

        :raises IgnoreRequest: if it is no good, and there is no waiting for it
        """
        known = self._crawl.stamps.of(request)
        session = await self._load(request, key, known.stamp if known else None)
        self._epochs[request] = session.epoch
        ready = self._readiness
        if ready and not await ready.admit(request, key, session):
            return False
        if self._binder is None:
            self._binder = self._make_binder()
        ours = known.ours if known else ()
        self._binder.bind(request, key, session.identity, ours)
        return True

    async def judge(self, request: Request, response: Response) -> Request | None:
        """Whether the session of a response was good; if not, what to send instead.

        :raises IgnoreRequest: if its page has to be tried again, or is given up
        """
        if self._readiness is None:
            return None
        key = self.key_of(request)
        if key is None:
            return None
        epoch = self._epochs.get(request, "")
        return await self._readiness.judge(request, response, key, epoch)

    async def may_take(self, request: Request, key: SessionKey) -> bool:
        """Before a response: whether its session is still that of its request."""
        jar = self._jars[request.meta.get("cookiejar")]
        session = self._crawl.sessions.peek(key)
        if session is None or jar.stamp(key.site) is None:
            session = await self._load(request, key)
        else:
            jar.apply(session, self._crawl.sessions.unsaved(key))
        if session.goes_on_from(self._epochs.get(request, "")):
            return True
        self._crawl.count_session("stale")
        return False

    async def save(self, request: Request, key: SessionKey, noted: Noted) -> None:
        """Write what a request or its response changed in the jar."""
        if not noted:
            return
        jar = self._jars[request.meta.get("cookiejar")]
        cache = self._crawl.sessions
        for site, cookies in jar.again_by_site(noted).items():
            epoch = self._epoch(request, key, site, jar)
            cache.confirm(key.at(site), cookies, epoch)
        host = urlparse_cached(request).hostname or ""
        for site, changes in jar.by_site(noted, host, key.site).items():
            epoch = self._epoch(request, key, site, jar)
            await self._write(jar, key.at(site), changes, epoch)

    async def _write(
        self, jar: SharedCookieJar, key: SessionKey, changes: Changes, epoch: str
    ) -> None:
        cache = self._crawl.sessions
        saved = await cache.save(key, changes, epoch)
        session = cache.peek(key)
        if session is None:
            return
        dropped: Iterable[Any] = ()
        if saved is not None and saved.stale:
            dropped = (*(cookie.key for cookie in changes.cookies), *changes.deleted)
        jar.apply(session, cache.unsaved(key), dropped)

    def _epoch(
        self, request: Request, key: SessionKey, site: str, jar: SharedCookieJar
    ) -> str:
        """Of the session that a change is meant for; empty: of none that was known."""
        if site == key.site:
            return self._epochs.get(request, "")
        stamp = jar.stamp(site)
        return stamp.epoch if stamp else ""

    async def _load(self, request: Request, key: SessionKey, *at_least: Any) -> Session:
        cache = self._crawl.sessions
        session = await cache.get(key, *at_least)
        value = request.meta.get("cookiejar")
        self._jars[value].apply(session, cache.unsaved(key))
        self._used[value, key] = None
        self._used.move_to_end((value, key))
        self._forget_some()
        return session

    def _forget_some(self) -> None:
        """Keep memory bounded: what is forgotten is loaded again when it is used."""
        cache = self._crawl.sessions
        if len(self._used) <= LIMIT:
            return
        value, key = self._used.popitem(last=False)[0]
        if cache.unsaved(key):
            self._used[value, key] = None
            return
        jar = self._jars[value]
        jar.forget(key.site)
        if jar.is_unused:
            del self._jars[value]

    def _make_binder(self) -> IdentityBinder:
        # Not sooner: spiders may set their user agent until they are opened.
        crawl = self._crawl
        return IdentityBinder(
            default_headers(crawl.crawler),
            crawl.config.session_proxies,
            crawl.given,
            crawl.count_session,
        )
