"""A small web site on the loopback interface, for crawls of tests.

Every path exists. The query says how it answers::

    /page                          200
    /page?status=503               that status
    /page?status=503&times=2       that status at the first two visits, then 200
    /page?location=/other          302 to another path
    /page?drop=1                   the connection is closed without an answer
    /page?delay=0.05               after so many seconds

``times`` goes with each of them. ``/robots.txt`` forbids ``/private``.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self

ROBOTS = "User-agent: *\nDisallow: /private\n"


class Site:
    """Serves from a thread between ``with`` and its end."""

    def __init__(self) -> None:
        self.visits: Counter[str] = Counter()
        """How often each path was asked for."""
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.site = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Answer nothing meanwhile, so that no crawl goes on; visits are counted."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def wait_while_held(self) -> None:
        """Return when :meth:`held` is over."""
        self._open.wait()

    def body(self, path: str) -> str:
        """The HTML of a path; sites with links have another."""
        return f"<p>{path}</p>"

    def visit(self, path: str) -> int:
        """Count a visit to a path and return how many there were with it."""
        with self._lock:
            self.visits[path] += 1
            return self.visits[path]


class _Server(ThreadingHTTPServer):
    site: Site
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Say nothing: crawls that are killed leave broken connections."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # connections are kept, as on real sites
    disable_nagle_algorithm = True  # or each answer on them waits for some 40 ms

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        wanted = dict(parse_qsl(parts.query))
        visit = self.server.site.visit(parts.path)
        if visit > int(wanted.get("times", visit)):
            wanted = {}
        self.server.site.wait_while_held()
        time.sleep(float(wanted.get("delay", 0)))
        if "drop" in wanted:
            self.close_connection = True
            return
        status = int(wanted.get("status", 302 if "location" in wanted else 200))
        is_robots = parts.path == "/robots.txt"
        body = ROBOTS if is_robots else self.server.site.body(parts.path)
        kind = "text/plain" if is_robots else "text/html"
        self._answer(status, body.encode(), kind, wanted.get("location"))

    def _answer(self, status: int, body: bytes, kind: str, to: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if to is not None:
            self.send_header("Location", to)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the test output clean."""
