"""A site with accounts: a login form with a CSRF token, and logins that end."""

from __future__ import annotations

import gzip
import threading
import time
from collections import Counter
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.site import Site, _Handler

FORM = """<form action="/login" method="post">
<input name="csrf" value="{token}"><input name="user"><input name="password"></form>"""


class Accounts(Site):
    """Each user has one login that is good: the last. Without it there is no page.

    ::

    /form               the login form, whose token goes with a cookie
    POST /login         with user, password and token: a cookie ``sid``
    /page/ann/1         the name of the user, if it is ann who asks; else the form
    /moved/ann/1        the same, but a redirect to the form
    /never/ann/1        the form, whoever asks
    /open/1             for everybody
    """

    def __init__(self) -> None:
        super().__init__()
        self._server.RequestHandlerClass = _AccountsHandler
        self.logins: Counter[str] = Counter()
        """How often each user has logged in."""
        self.attempts: list[float] = []
        """When a login was asked for."""
        self.opened: list[float] = []
        """When a page for everybody was asked for."""
        self.pages: list[tuple[str, str]] = []
        """Path of each page for users, and who asked."""
        self.good: dict[str, str] = {}
        """The users whose login is good, by ``sid``."""
        self.is_broken = False
        """No login works."""
        self.may_log_in = threading.Event()
        """Cleared: logins get no answer for now."""
        self.may_log_in.set()

    @property
    def other_url(self) -> str:
        """The same under another host, and so another site."""
        return self.url.replace("127.0.0.1", "localhost")

    def drop_logins(self) -> None:
        """Never answer the logins that wait for an answer; others still wait."""
        self.may_log_in = threading.Event()

    def log_in(self, user: str) -> str:
        """End the user's last login, and return the ``sid`` of the new one."""
        with self._lock:
            self.end(user)
            self.logins[user] += 1
            sid = f"{user}-{self.logins[user]}"
            self.good[sid] = user
            return sid

    def end(self, user: str) -> None:
        """The site has forgotten that the user was logged in."""
        self.good = {sid: name for sid, name in self.good.items() if name != user}


class _AccountsHandler(_Handler):
    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        site: Any = self.server.site
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        sid = cookies["sid"].value if "sid" in cookies else ""
        kind, _, rest = urlsplit(self.path).path[1:].partition("/")
        if kind == "open":
            site.opened.append(time.time())
            self._send(200, "open")
        elif kind in ("page", "moved", "never"):
            user = site.good.get(sid, "")
            site.pages.append((self.path, user))
            if kind != "never" and user == rest.partition("/")[0]:
                self._send(200, user)
            elif kind == "moved":
                self._send(302, "", Location="/form")
            else:
                self._send(200, FORM.format(token="none"))
        elif kind == "form":
            token = f"{time.time_ns()}"
            cookie = f"csrf={token}; Path=/"
            self._send(200, FORM.format(token=token), **{"Set-Cookie": cookie})
        else:
            self._send(404, "")

    def do_POST(self) -> None:  # noqa: N802
        site: Any = self.server.site
        site.attempts.append(time.time())
        site.may_log_in.wait()
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        length = int(self.headers["Content-Length"])
        form = parse_qs(self.rfile.read(length).decode())
        token = cookies["csrf"].value if "csrf" in cookies else None
        if site.is_broken or form["csrf"] != [token]:
            self._send(403, "no")
            return
        sid = site.log_in(form["user"][0])
        self._send(200, "welcome", **{"Set-Cookie": f"sid={sid}; Path=/"})

    def _send(self, status: int, text: str, **headers: str) -> None:
        body = gzip.compress(text.encode())
        self.send_response(status)
        headers |= {"Content-Type": "text/html", "Content-Encoding": "gzip"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
