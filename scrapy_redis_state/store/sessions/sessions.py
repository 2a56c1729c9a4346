"""The sessions of all sites, for programs that are not Scrapy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.runner import run, run_async
from scrapy_redis_state.store.sessions import scripts
from scrapy_redis_state.store.sessions.inputs import CookieInput, changes_from
from scrapy_redis_state.store.sessions.names import session_name
from scrapy_redis_state.store.sessions.session import (
    SESSION_TTL_SECS,
    Changes,
    Saved,
    Session,
    SessionInfo,
)
from scrapy_redis_state.store.sessions.site import site_of

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from scrapy_redis_state.store.call import Call

T = TypeVar("T")

_SCANNED = 1000
"""Keys that the server looks at before it answers others again."""


class SessionCookies(dict[str, str]):
    """Names and values of the cookies that may be sent to a site now.

    Equal to a dict with the same content. Of cookies with one name (for several hosts
    or paths) it has the one that was set first last; ``session`` has them all.
    """

    def __init__(self, session: Session) -> None:
        found = session.current_cookies()
        super().__init__((cookie.name, cookie.value or "") for cookie in found)
        self.session = session
        """Everything that is stored."""

    def __repr__(self) -> str:
        return f"<{len(self)} cookies of {self.session.site}: {', '.join(self)}>"

    __str__ = __repr__


class _Calls:
    """What the two classes below have in common: all but the waiting."""

    def __init__(self, prefix: str, ttl: int) -> None:
        self.prefix = prefix
        self._ttl = ttl

    def load(self, domain: str, session: Any) -> Call[SessionCookies]:
        return _then(scripts.load(self._key(domain, session), self._ttl), _cookies)

    def save(self, domain: str, session: Any, content: Changes) -> Call[Saved]:
        call = scripts.replace(self._key(domain, session), content, self._ttl)
        return _then(call, _checked)

    def update(self, domain: str, session: Any, changes: Changes) -> Call[Saved]:
        call = scripts.save(self._key(domain, session), changes, None, self._ttl)
        return _then(call, _checked)

    def invalidate(self, domain: str, session: Any) -> Call[None]:
        call = scripts.invalidate(self._key(domain, session), self._ttl)
        return _then(call, _done)

    def match(self, pattern: str) -> str:
        return SessionKey.pattern(pattern, self.prefix)

    def found(self, keys: set[bytes]) -> list[SessionKey]:
        texts = sorted(key.decode(errors="replace") for key in keys)
        parsed = [SessionKey.parse(text, self.prefix) for text in texts]
        return [key for key in parsed if key is not None]

    def _key(self, domain: str, session: Any) -> SessionKey:
        return SessionKey(site_of(domain), session_name(session), self.prefix)


class Sessions:
    """Sessions, with blocking calls.

    A session belongs to a site: any host of it names it, and so does a URL. Each site
    has a default session, and others under whatever name they are given (a text, a
    number, a tuple of these), which is what ``meta["cookiejar"]`` is in Scrapy.

    :param client: from :func:`~.client.sync_client`; closed by whoever made it
    :param prefix: ``REDIS_STATE_KEY_PREFIX`` of the crawls
    :param ttl: ``REDIS_STATE_SESSION_TTL_SECS``
    """

    def __init__(
        self, client: Redis, prefix: str = "", ttl: int = SESSION_TTL_SECS
    ) -> None:
        self._client = client
        self._calls = _Calls(prefix, ttl)

    def load(self, domain: str, session: Any = None) -> SessionCookies:
        """The cookies by name; empty if there is no such session. A use of it."""
        return self._run(self._calls.load(domain, session))

    def save(
        self,
        domain: str,
        cookies: CookieInput,
        *,
        session: Any = None,
        user_agent: str | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        tokens: Mapping[str, str] | None = None,
    ) -> Saved:
        """Publish a session, in the place of the one that there was.

        :param cookies: ``{"name": "value"}``, for all hosts of the site; or cookies in
            full, of this site only: :class:`Cookie`, or dicts as Playwright has them,
            or its ``storage_state``
        :param user_agent: with which the cookies were got, as were
        :param proxy: a label that the workers know, or a URL
        :param headers: that go with the cookies
        :param tokens: free texts, by name
        :returns: the session, and what was too large to be stored
        :raises ValueError: for a value that cannot be used, naming it
        """
        content = changes_from(
            domain,
            cookies,
            user_agent=user_agent,
            proxy=proxy,
            headers=headers,
            tokens=tokens,
        )
        return self._run(self._calls.save(domain, session, content))

    def update(
        self,
        domain: str,
        cookies: CookieInput | None = None,
        *,
        session: Any = None,
        user_agent: str | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        tokens: Mapping[str, str | None] | None = None,
    ) -> Saved:
        """Change what is given, and leave the rest of the session as it is.

        A plain ``{"name": "value"}`` takes the place of all cookies of that name; with
        None as the value they are deleted. A token that is None is deleted; so is a
        user agent or proxy that is empty.
        """
        changes = changes_from(
            domain,
            cookies,
            user_agent=user_agent,
            proxy=proxy,
            headers=headers,
            tokens=tokens,
        )
        return self._run(self._calls.update(domain, session, changes))

    def invalidate(self, domain: str, session: Any = None) -> None:
        """Forget a session; nobody who still uses it can bring it back."""
        self._run(self._calls.invalidate(domain, session))

    def list(self, pattern: str = "*") -> list[SessionInfo]:
        """What sessions there are, without what is in them; reads all keys.

        :param pattern: of what follows ``sess:`` in a key: ``*.example``,
            ``shop.example:*``
        """
        with translated():
            match = self._calls.match(pattern)
            keys = set(self._client.scan_iter(match=match, count=_SCANNED))
        looks = [self._run(scripts.describe(key)) for key in self._calls.found(keys)]
        return [info for info in looks if info is not None]

    def _run(self, call: Call[T]) -> T:
        with translated():
            return run(self._client, call)


class AsyncSessions:
    """Sessions, in asyncio. See :class:`Sessions`."""

    def __init__(
        self, client: AsyncRedis, prefix: str = "", ttl: int = SESSION_TTL_SECS
    ) -> None:
        self._client = client
        self._calls = _Calls(prefix, ttl)

    async def load(self, domain: str, session: Any = None) -> SessionCookies:
        """See :meth:`Sessions.load`."""
        return await self._run(self._calls.load(domain, session))

    async def save(
        self,
        domain: str,
        cookies: CookieInput,
        *,
        session: Any = None,
        user_agent: str | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        tokens: Mapping[str, str] | None = None,
    ) -> Saved:
        """See :meth:`Sessions.save`."""
        content = changes_from(
            domain,
            cookies,
            user_agent=user_agent,
            proxy=proxy,
            headers=headers,
            tokens=tokens,
        )
        return await self._run(self._calls.save(domain, session, content))

    async def update(
        self,
        domain: str,
        cookies: CookieInput | None = None,
        *,
        session: Any = None,
        user_agent: str | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        tokens: Mapping[str, str | None] | None = None,
    ) -> Saved:
        """See :meth:`Sessions.update`."""
        changes = changes_from(
            domain,
            cookies,
            user_agent=user_agent,
            proxy=proxy,
            headers=headers,
            tokens=tokens,
        )
        return await self._run(self._calls.update(domain, session, changes))

    async def invalidate(self, domain: str, session: Any = None) -> None:
        """See :meth:`Sessions.invalidate`."""
        await self._run(self._calls.invalidate(domain, session))

    async def list(self, pattern: str = "*") -> list[SessionInfo]:
        """See :meth:`Sessions.list`."""
        match = self._calls.match(pattern)
        with translated():
            keys = {
                key async for key in self._client.scan_iter(match=match, count=_SCANNED)
            }
        found = self._calls.found(keys)
        looks = [await self._run(scripts.describe(key)) for key in found]
        return [info for info in looks if info is not None]

    async def _run(self, call: Call[T]) -> T:
        with translated():
            return await run_async(self._client, call)


def _then(call: Call[Any], convert: Any) -> Call[Any]:
    """The call, with a reply that is converted further."""
    return replace(call, read=lambda reply: convert(call.read(reply)))


def _cookies(session: Session | None) -> SessionCookies:
    assert session is not None, "no state of it was known"
    return SessionCookies(session)


def _checked(saved: Saved) -> Saved:
    session = saved.session
    if session.unreadable:
        raise Refused(
            f"The session of {session.site} cannot be changed: {session.unreadable}."
        )
    return saved


def _done(saved: Saved) -> None:
    _checked(saved)
