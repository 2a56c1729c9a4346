"""Requests and their sessions: which one a request uses, and what its maker knew of it.

A request that is stored says which state of its session its maker knew, so that whoever
takes it loads an older one anew before sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy.utils.httpobj import urlparse_cached

from scrapy_redis_state.codec import NotEncodable
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions import Stamp, session_name, site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_redis_state.sessions.identity import GivenValues


class Known(NamedTuple):
    """What the maker of a request knew of its session."""

    stamp: Stamp
    ours: frozenset[str] = frozenset()
    """Names of headers (in lower case) that it has from the session; or ``proxy``."""


def session_key_of(request: Request, prefix: str) -> SessionKey | None:
    """The session of a request; None if it has no host.

    :param prefix: of all keys
    :raises NotEncodable: if its ``cookiejar`` cannot name a session that is shared
    """
    if request.meta.get("dont_merge_cookies", False):
        return None
    host = urlparse_cached(request).hostname
    if not host:
        return None
    try:
        name = session_name(request.meta.get("cookiejar"))
        return SessionKey(site_of(host), name, prefix)
    except NotEncodable:
        raise
    except ValueError:
        return None


class SessionStamps:
    """What is stored with requests about their sessions, and comes back with them.

    :param known: which state of a session this process knows
    :param given: what requests have from their sessions
    :param prefix: of all keys
    :param may_know: False as long as no session is known at all: then which one a
        request has need not be found out
    """

    def __init__(
        self,
        known: Callable[[SessionKey], Stamp | None],
        given: GivenValues,
        prefix: str,
        *,
        may_know: Callable[[], bool] = lambda: True,
    ) -> None:
        self._known = known
        self._given = given
        self._prefix = prefix
        self._may_know = may_know
        self._of_request: WeakKeyDictionary[Request, Known] = WeakKeyDictionary()

    def stamp(self, request: Request) -> list[Any] | None:
        """What to store with a request; None if nothing is known of its session."""
        if not self._may_know():
            return None
        try:
            key = session_key_of(request, self._prefix)
        except NotEncodable:
            return None
        stamp = key and self._known(key)
        if not key or not stamp:
            return None
        return [*stamp, *self._given.found_in(request, key)]

    def remember(self, request: Request, stamp: list[Any]) -> None:
        """It was stored with this request."""
        if len(stamp) < 2:  # noqa: PLR2004 - epoch and version
            return
        epoch, version, *ours = stamp
        if type(epoch) is str and type(version) is int:
            names = frozenset(name for name in ours if type(name) is str)
            self._of_request[request] = Known(Stamp(epoch, version), names)

    def of(self, request: Request) -> Known | None:
        """What its maker knew, if it was stored."""
        return self._of_request.get(request)
