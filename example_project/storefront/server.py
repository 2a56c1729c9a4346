"""The shop behind HTTP, and its access log."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http import HTTPStatus
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from storefront.visit import Visit

if TYPE_CHECKING:
    from pathlib import Path

    from storefront.answers import Answer
    from storefront.members import MembersArea
    from storefront.pages import Shop


class AccessLog:
    """One JSON object a line: ``time`` (seconds since the epoch), ``path``, ``status``.

    Also ``method`` and ``agent``, the user agent. Every request is in it, also one
    whose asker was killed before the answer came. A site that is started again goes on
    with the log of the one before.
    """

    def __init__(self, path: Path) -> None:
        self.failed: Counter[str] = Counter()
        """How often each path had been answered with 503 before."""
        if path.exists():
            records = map(json.loads, path.read_text().splitlines())
            self.failed.update(
                r["path"]
                for r in records
                if r["status"] == HTTPStatus.SERVICE_UNAVAILABLE
            )
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def add(self, visit: Visit, status: int) -> None:
        record = {
            "time": time.time(),
            "path": visit.path,
            "status": status,
            "method": visit.method,
            "agent": visit.agent,
        }
        with self._lock:
            self._file.write(json.dumps(record) + "\n")


class ShopServer(ThreadingHTTPServer):
    """Serves a shop on a free port of the loopback interface, a thread a connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, shop: Shop, members: MembersArea, log: AccessLog, port: int = 0
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.shop = shop
        self.members = members
        self.log = log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a worker that is killed leaves broken connections."""


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: ShopServer
    protocol_version = "HTTP/1.1"
    # Head and body leave in one packet; otherwise each answer waits for the delayed
    # acknowledgement of its head (40 ms).
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        visit, server = self._visit(), self.server
        answer = server.members.answer(visit)
        answer = answer or server.shop.answer(self.path, server.url)
        server.log.add(visit, answer.status)
        if answer.delay:
            time.sleep(answer.delay)
        self._send(answer)

    def do_POST(self) -> None:
        self.do_GET()

    def _visit(self) -> Visit:
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return Visit(
            self.path,
            self.command,
            self.headers.get("User-Agent", ""),
            {name: morsel.value for name, morsel in cookies.items()},
            dict(parse_qsl(body.decode())),
        )

    def _send(self, answer: Answer) -> None:
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", f"text/{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if answer.location:
            self.send_header("Location", answer.location)
        for cookie in answer.cookies:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the access log replaces the lines on standard error."""
