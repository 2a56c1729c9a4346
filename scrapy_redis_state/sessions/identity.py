"""What a session's cookies are bound to, and requests that use them: headers, proxy.

What a request says itself wins. So it has to be known which of its values were put
there by an earlier download, for a retry or a redirect has them too: those follow the
session when it is given another identity.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from scrapy.http import Headers
from scrapy.utils.python import without_none_values

from scrapy_redis_state.settings_checks import is_proxy_url

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_redis_state.store.keys import SessionKey
    from scrapy_redis_state.store.sessions import Identity

logger = logging.getLogger(__name__)

PROXY = "proxy"
"""Key in meta; and, among names of headers, the proxy."""
USER_AGENT = "user-agent"

SESSIONS = 10_000
VALUES = 8
"""How many earlier values are remembered: of so many sessions, so many for each."""

_CREDENTIALS = re.compile(r"(?<=://)[^/]*@")

Value = tuple[bytes, ...]


class GivenValues:
    """What requests were given for the sake of their session, in this process."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[SessionKey, dict[tuple[str, Value], None]]
        self._sessions = OrderedDict()

    def add(self, key: SessionKey, name: str, value: Value) -> None:
        """Remember a value of a header (in lower case), or of the proxy."""
        given = self._sessions.setdefault(key, {})
        self._sessions.move_to_end(key)
        given.pop((name, value), None)
        given[name, value] = None
        names = [one for one in given if one[0] == name]
        if len(names) > VALUES:
            del given[names[0]]
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)

    def names(self, key: SessionKey) -> list[str]:
        """What requests of a session may have been given."""
        return list(dict.fromkeys(name for name, _ in self._sessions.get(key, ())))

    def has(self, key: SessionKey, name: str, value: Value) -> bool:
        """Whether a value may come from the session."""
        return (name, value) in self._sessions.get(key, ())

    def found_in(self, request: Request, key: SessionKey) -> Iterator[str]:
        """The names of what *request* has from the session."""
        for name in self.names(key):
            if self.has(key, name, value_of(request, name)):
                yield name


def value_of(request: Request, name: str) -> Value:
    """The value of a header, or of the proxy without user and password."""
    if name == PROXY:
        proxy = request.meta.get(PROXY)
        return (_without_password(proxy),) if isinstance(proxy, str) else ()
    return tuple(request.headers.getlist(name))


def _without_password(proxy: str) -> bytes:
    # HttpProxyMiddleware moves the password into a header of its own.
    return _CREDENTIALS.sub("", proxy).rstrip("/").encode(errors="replace")


class IdentityBinder:
    """Gives requests the identity of their session.

    :param defaults: headers of requests that say nothing themselves
    :param proxies: URL by label
    :param given: remembers what was given
    :param count: told of ``identity_overridden`` and ``unknown_proxy``
    """

    def __init__(
        self,
        defaults: Headers,
        proxies: Mapping[str, str],
        given: GivenValues,
        count: Callable[[str], None],
    ) -> None:
        self._defaults = defaults
        self._proxies = proxies
        self._given = given
        self._count = count
        self._warned: set[str] = set()

    def bind(
        self,
        request: Request,
        key: SessionKey,
        identity: Identity,
        ours: Collection[str] = (),
    ) -> None:
        """Give *request* what its session is bound to.

        :param ours: what it is known to have from the session, as an earlier state was
        """
        wanted = self._wanted(identity)
        names = dict.fromkeys((*wanted, *self._given.names(key), *ours))
        overridden = False
        for name in names:
            value, current = wanted.get(name), value_of(request, name)
            is_ours = name in ours or self._given.has(key, name, current)
            if value is None:
                if is_ours and current:
                    self._take_back(request, name)
            elif is_ours or self._says_nothing(request, name, current):
                self._give(request, name, value)
                self._given.add(key, name, value_of(request, name))
            elif current != _compared(name, value):
                overridden = True
        if overridden:
            self._count("identity_overridden")

    def _wanted(self, identity: Identity) -> dict[str, str]:
        wanted = {name.lower(): value for name, value in identity.headers.items()}
        # They are the middleware's own business.
        wanted.pop("cookie", None)
        wanted.pop(PROXY, None)
        if identity.user_agent:
            wanted[USER_AGENT] = identity.user_agent
        if identity.proxy and (url := self._url(identity.proxy)):
            wanted[PROXY] = url
        return wanted

    def _url(self, label: str) -> str | None:
        url = label if is_proxy_url(label) else self._proxies.get(label)
        if url is None and label not in self._warned:
            self._warned.add(label)
            self._count("unknown_proxy")
            logger.warning(
                "A session is bound to the proxy %(label)r, which is none of"
                " REDIS_STATE_SESSION_PROXIES: its requests go without; add its URL",
                # Somebody may have left out the scheme of a URL with a password.
                {"label": "..." if "@" in label else label},
            )
        return url

    def _says_nothing(self, request: Request, name: str, current: Value) -> bool:
        if name == PROXY:
            # Or it is the one of the environment, from an earlier download.
            return PROXY not in request.meta or "_scheme_proxy" in request.meta
        return not current or current == tuple(self._defaults.getlist(name))

    def _give(self, request: Request, name: str, value: str) -> None:
        if name != PROXY:
            request.headers[name] = value
        else:
            # With its password, which HttpProxyMiddleware has taken out of an earlier
            # one: the next may be another, of the same host.
            request.meta[PROXY] = value
            request.meta.pop("_scheme_proxy", None)
            if request.meta.pop("_auth_proxy", None) is not None:
                request.headers.pop("Proxy-Authorization", None)

    def _take_back(self, request: Request, name: str) -> None:
        if name == PROXY:
            del request.meta[PROXY]
        elif default := self._defaults.getlist(name):
            request.headers[name] = default
        else:
            del request.headers[name]


def _compared(name: str, value: str) -> Value:
    if name == PROXY:
        return (_without_password(value),)
    return tuple(Headers({name: value}).getlist(name))


def default_headers(crawler: Crawler) -> Headers:
    """What Scrapy gives to requests that have no such header."""
    settings = crawler.settings
    headers = Headers(without_none_values(settings["DEFAULT_REQUEST_HEADERS"]))
    agent = getattr(crawler.spider, "user_agent", settings["USER_AGENT"])
    if agent:
        headers.setdefault("User-Agent", agent)
    return headers
