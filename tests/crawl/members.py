"""A site for members: it knows who asks by a cookie, and remembers each request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.site import Site, _Handler


@dataclass(frozen=True)
class Visit:
    """One request, as the site got it."""

    path: str
    host: str
    cookie: str
    """The ``Cookie`` header; empty without one."""
    agent: str
    at: float
    """Unix time."""

    @property
    def user(self) -> str:
        """Who is logged in; empty for nobody."""
        cookie = SimpleCookie(self.cookie).get("sid")
        return cookie.value if cookie else ""


class Members(Site):
    """Has the paths of every :class:`Site`, and in the query also the following.

    ::

    /login?user=ann            sets the cookie ``sid=ann``
    /page?cookie=v=1;Path=/    sets such a cookie; may be given several times

    The body of a page is the name of the user.
    """

    def __init__(self) -> None:
        super().__init__()
        self._server.RequestHandlerClass = _MembersHandler
        self.log: list[Visit] = []

    @property
    def other_url(self) -> str:
        """The same site under another host."""
        return self.url.replace("127.0.0.1", "localhost")

    def seen(self, start: str) -> list[Visit]:
        """Visits to paths that start so."""
        return [visit for visit in list(self.log) if visit.path.startswith(start)]


class _MembersHandler(_Handler):
    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        site: Any = self.server.site
        headers = self.headers
        self.visit = Visit(
            urlsplit(self.path).path,
            headers.get("Host", ""),
            headers.get("Cookie", ""),
            headers.get("User-Agent", ""),
            time.time(),
        )
        site.log.append(self.visit)
        super().do_GET()

    def _answer(self, status: int, body: bytes, kind: str, to: str | None) -> None:
        query = parse_qsl(urlsplit(self.path).query)
        self._cookies = [value for name, value in query if name == "cookie"]
        self._cookies += [
            f"sid={value}; Path=/" for name, value in query if name == "user"
        ]
        if self.visit.path != "/robots.txt":
            body = self.visit.user.encode()
        super()._answer(status, body, kind, to)

    def end_headers(self) -> None:
        for cookie in self._cookies:
            self.send_header("Set-Cookie", cookie)
        self._cookies = []
        super().end_headers()
