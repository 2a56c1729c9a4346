"""Whether requests may be sent with the session they have, by what a provider says.

A page whose session is no good is put off: it waits on the server, and the worker goes
on with other pages. What cannot be put off, because it belongs to no leased page, waits
in this process.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import random
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler

from scrapy_redis_state.engine import current_page
from scrapy_redis_state.outcomes import Outcome, PutOff, SessionInvalid
from scrapy_redis_state.session_provider import RenewedSession, SessionProvider
from scrapy_redis_state.store.sessions import Changes, Identity, Session
from scrapy_redis_state.store.sessions.inputs import changes_from
from scrapy_redis_state.store.sessions.names import session_value
from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.sessions.renewal import RenewalError, Renewals

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_redis_state.crawl import SharedCrawl
    from scrapy_redis_state.session_provider import SessionContent
    from scrapy_redis_state.store.call import Call
    from scrapy_redis_state.store.keys import SessionKey
    from scrapy_redis_state.worker.sessions.renewal import Verdict

logger = logging.getLogger(__name__)

SHORTEST_MS, LONGEST_MS = 1000, 5000
"""How long a page is put off; each a time of its own, or all would come at once."""
_NO_EPOCH = "-"
"""Of no session: a claim with it begins a renewal only where one was not ended."""
POLL_SECS = 1.0
PATIENCE_SECS = 300.0
"""How often, and how long at most, a request looks that waits in this process."""

TRIES_META = "redis_state_session_tries"
"""Key in meta: how often such a request was sent in vain."""
RENEWAL_META = "redis_state_renewal"
"""Key in meta of a renewal's requests: which one. Redirects and retries keep it."""


class SessionReadiness:
    """Asks the provider, and has sessions renewed.

    :param provider: class of the project
    """

    def __init__(self, crawl: SharedCrawl, provider: type) -> None:
        self._crawl = crawl
        self._provider: Any = build_from_crawler(_complete(provider), crawl.crawler)
        self._is_valid = _with_two_arguments(self._provider.is_valid)
        self._judges = type(self._provider).is_valid is not SessionProvider.is_valid
        self._decode = _decoder(crawl.crawler)
        self._renewals = Renewals(
            self._run,
            crawl.config.session_ttl_secs,
            crawl.worker_id,
            self._renew,
            count=crawl.count_session,
        )
        self._own: set[str] = set()
        """What marks the requests of renewals that are under way here."""
        self._waiting_since: WeakKeyDictionary[Request, float] = WeakKeyDictionary()
        self._is_closing = False
        crawl.at_closing(self._close)

    # --- before a request ------------------------------------------------------------

    async def admit(self, request: Request, key: SessionKey, session: Session) -> bool:
        """Whether a request may be sent with its session; False: load that again.

        :raises PutOff: if its page has to wait
        :raises SessionInvalid: if the session is given up
        """
        if not self._concerns(request):
            return True
        is_in_doubt = session.renewal is not None
        if not is_in_doubt and not await self._is_needed(request, session):
            return True
        # A renewal that is over by now has left the session with the same epoch.
        epoch = _NO_EPOCH if is_in_doubt else session.epoch
        verdict = await self._claim(request, key, epoch)
        if verdict.kind != "renewed":
            await self._wait(request)
        return False

    def _concerns(self, request: Request) -> bool:
        if request.meta.get(RENEWAL_META) in self._own:
            return False
        # Scrapy asks for this on behalf of others, the requests of a renewal too, which
        # would wait for the renewal, and so for themselves.
        is_robots = request.meta.get("dont_obey_robotstxt") and (
            urlparse_cached(request).path == "/robots.txt"
        )
        return not is_robots and bool(self._provider.handles(request))

    async def _wait(self, request: Request) -> None:
        """Put a page off; what is none waits here for a moment."""
        is_first = request not in self._waiting_since
        since = self._waiting_since.setdefault(request, clock.now())
        if is_first:
            self._crawl.count_session("put_off")
        if self._is_closing:
            raise PutOff(Outcome("release"))
        if self._lease_of(request) is not None:
            raise PutOff(Outcome("delay", delay_ms=_pause_ms()))
        if clock.now() - since > PATIENCE_SECS:
            raise _invalid(request, f"no session within {PATIENCE_SECS:g} s")
        await asyncio.sleep(POLL_SECS)

    # --- after a response ------------------------------------------------------------

    async def judge(
        self, request: Request, response: Response, key: SessionKey, epoch: str
    ) -> Request | None:
        """Look at a response to a request that was sent with a session.

        :param epoch: of the session
        :returns: what is to be sent in its place; None: it is good
        :raises PutOff: if its page has to be tried again
        :raises SessionInvalid: if that has been done too often
        """
        if not self._concerns(request):
            return None
        if await self._is_good(request, response):
            self._prove(key, epoch)
            request.meta.pop(TRIES_META, None)
            return None
        self._crawl.count_session("invalid")
        lease = self._lease_of(request)
        page = self._name_of(request, lease)
        verdict = await self._claim(request, key, epoch, page)
        # Otherwise the session is no good, or was replaced meanwhile, and the page is
        # not to blame.
        counts = verdict.kind in ("yours", "blamed")
        why = f"a response with status {response.status} was judged invalid"
        if lease is None:
            return self._again(request, why, counts=counts)
        if not counts:
            await self._wait(request)
        if lease.deliveries + 1 >= self._crawl.config.max_deliveries:
            raise _invalid(request, f"{why}, as often as it may be tried")
        raise PutOff(Outcome("fail", why, _pause_ms()))

    async def _is_good(self, request: Request, response: Response) -> bool:
        if not self._judges:
            return True
        decoded = self._decode(request, response)
        return bool(await _result(self._is_valid(decoded, request)))

    def _prove(self, key: SessionKey, epoch: str) -> None:
        """A page was good, which is news if its session was just made."""
        session = self._crawl.sessions.peek(key)
        if session and session.unproven and session.epoch == epoch:
            self._renewals.prove(key, epoch)

    def _name_of(self, request: Request, lease: Lease | None) -> str:
        """Of a page, for the whole fleet; it tells nothing of the page."""
        if lease is not None:
            text = f"{self._crawl.config.crawl_id} {lease.id}"
        else:
            text = f"{request.method} {request.url}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _again(self, request: Request, why: str, *, counts: bool) -> Request:
        tries = request.meta.get(TRIES_META, 0) + counts
        if tries >= self._crawl.config.max_deliveries:
            raise _invalid(request, f"{why}, as often as it may be tried")
        again = request.replace(dont_filter=True)
        again.meta[TRIES_META] = tries
        return again

    # --- both ------------------------------------------------------------------------

    def _lease_of(self, request: Request) -> Lease | None:
        link = self._crawl.link
        page = link.page_of(request) if link else None
        return page if isinstance(page, Lease) else None

    async def _claim(
        self, request: Request, key: SessionKey, epoch: str, page: str = ""
    ) -> Verdict:
        """Have the session renewed.

        :raises SessionInvalid: if it is given up
        """
        verdict = await self._renewals.claim(key, epoch, request, page)
        if verdict.kind == "failed":
            raise _invalid(request, _given_up(key, verdict.reason))
        return verdict

    # --- renewing --------------------------------------------------------------------

    async def _renew(self, key: SessionKey, request: Request) -> Changes | None:
        """(Renewals) Have the provider do it."""
        current_page.set(None)  # this is no part of the page that asked for it
        mark = f"{key} {clock.now()}"
        self._own.add(mark)
        try:
            session = self._session(key.site, request.meta.get("cookiejar"), mark)
            content = await _result(self._provider.renew(session))
            changes = None if content is None else _changes(key.site, content)
            result = await self._crawl.sessions.get(key)
        finally:
            self._own.discard(mark)
        await self._check(request, _with(result, changes))
        return changes

    def _session(self, site: str, value: Any, mark: str) -> RenewedSession:
        crawler = self._crawl.crawler

        async def download(request: Request) -> Response:
            own = request.copy()
            own.meta[RENEWAL_META] = mark
            if value is not None:
                own.meta["cookiejar"] = value
            engine: Any = crawler.engine
            response: Response = await engine.download_async(own)
            return response

        return RenewedSession(site, value, crawler, download)

    async def _check(self, request: Request, session: Session) -> None:
        # Or it would be renewed again and again.
        if await self._is_needed(request, session):
            raise RenewalError("after renew(), is_needed() says that it still is")

    async def _is_needed(self, request: Request, session: Session) -> bool:
        return bool(await _result(self._provider.is_needed(request, session)))

    async def _run(self, key: SessionKey, call: Call[Any]) -> Any:
        return await self._crawl.sessions.run(key, call)

    async def _close(self) -> None:
        self._is_closing = True
        await self._renewals.close()


def _complete(provider: type) -> type:
    """The class with the defaults of those methods that it lacks."""
    if issubclass(provider, SessionProvider):
        return provider
    return type(provider.__name__, (provider, SessionProvider), {})


def _with_two_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return lambda response, _: method(response)
    return method


def _decoder(crawler: Crawler) -> Callable[[Request, Response], Response]:
    """What makes of a response the one that callbacks see, but for redirects."""
    try:
        middleware: Any = HttpCompressionMiddleware.from_crawler(crawler)
    except NotConfigured:
        middleware = None
    else:
        middleware.stats = None  # it is decoded again later, and counted then

    def decode(request: Request, response: Response) -> Response:
        if middleware is not None and response.headers.get("Content-Encoding"):
            response = middleware.process_response(request, response.copy())
        else:
            response = response.copy()
        response.request = request
        return response

    return decode


def _given_up(key: SessionKey, reason: str) -> str:
    """Which session it is, why it is no good, and what ends that."""
    name = session_value(key.name)
    session = f"the session {name!r}" if name else "the session"
    option = f" --session {shlex.quote(name)}" if name else ""
    return (
        f"{session} of {key.site}: {reason}; once the login works, 'scrapy redis-state"
        f" session invalidate {shlex.quote(key.site)}{option}' has it tried again"
    )


def _invalid(request: Request, why: str) -> SessionInvalid:
    # Scrapy logs nothing of what is ignored.
    logger.warning("Given up: %(request)s: %(why)s", {"request": request, "why": why})
    return SessionInvalid(why)


async def _result(value: Any) -> Any:
    """Methods of the project may be coroutines, or not."""
    return await value if inspect.isawaitable(value) else value


def _changes(site: str, content: SessionContent) -> Changes:
    return changes_from(
        site,
        content.cookies,
        user_agent=content.user_agent,
        proxy=content.proxy,
        headers=content.headers,
        tokens=content.tokens,
    )


def _with(session: Session, changes: Changes | None) -> Session:
    """A session that is made anew, as it will be."""
    if changes is None:
        return replace(session, renewal=None)
    tokens = {name: text for name, text in changes.tokens.items() if text is not None}
    headers = changes.headers or {}
    return replace(
        session,
        renewal=None,
        cookies={cookie.key: cookie for cookie in changes.cookies},
        identity=Identity(changes.user_agent, changes.proxy, headers),
        tokens=tokens,
    )


def _pause_ms() -> int:
    return random.randint(SHORTEST_MS, LONGEST_MS)  # noqa: S311
