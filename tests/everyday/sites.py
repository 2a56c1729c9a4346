"""Sites that answer as a test says."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from tests.everyday.crawls import GatedSite
from tests.site import _Handler

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Call:
    """A request as the site received it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    body: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class AnsweringSite(GatedSite):
    """Takes any method, and remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._calls_lock = threading.Lock()
        self._server.RequestHandlerClass = _AnyMethod

    def answer(self, call: Call) -> Reply:
        """What to say; to be overridden."""
        with self._calls_lock:
            self.calls.append(call)
            self.visits[call.path] += 1
        return Reply(self.body(call.path))


class _AnyMethod(_Handler):
    def do_GET(self) -> None:  # noqa: N802 - a name that the server looks for
        site = self.server.site
        assert isinstance(site, AnsweringSite)
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        path = self.path.partition("?")[0]
        reply = site.answer(Call(self.command, path, dict(self.headers), body))
        site.wait_while_held()
        encoded = reply.body.encode()
        self.send_response(reply.status)
        headers = {"Content-Type": "text/html", "Content-Length": str(len(encoded))}
        for name, value in (headers | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    do_POST = do_PUT = do_GET  # noqa: N815 - as above


class JsonSite(GatedSite):
    """Every page is a JSON object with its path."""

    def text(self, path: str) -> str:
        return json.dumps({"path": path})


class MembersSite(AnsweringSite):
    """Shows its pages to who logged in with the token of the same session."""

    pages = 5

    def __init__(self) -> None:
        super().__init__()
        self.members: set[str] = set()

    def answer(self, call: Call) -> Reply:
        super().answer(call)
        session = call.headers.get("Cookie", "").partition("sid=")[2]
        if call.path == "/login":
            if call.method == "POST":
                return self._log_in(session, call.body)
            session = f"s{len(self.calls)}"
            return Reply(
                f'<form method="post"><input name="csrf" value="for-{session}"></form>',
                headers={"Set-Cookie": f"sid={session}; Path=/"},
            )
        if session not in self.members:
            return Reply("who are you?", 403)
        number = int(call.path.rpartition("/")[2])
        following = f'<a class="next" href="/list/{number + 1}">next</a>'
        return Reply(following if number < self.pages else "")

    def _log_in(self, session: str, body: bytes) -> Reply:
        form = parse_qs(body.decode())
        if form.get("csrf") != [f"for-{session}"]:
            return Reply("token of another session", 403)
        self.members.add(session)
        return Reply("", 302, {"Location": "/list/1"})
