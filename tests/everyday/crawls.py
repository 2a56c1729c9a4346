"""Workers of this directory's project, and sites that hold answers back."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request
from scrapy.utils.request import fingerprint

from tests.crawl.crawls import Crawls
from tests.processes import Program, wait_until
from tests.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_redis_state.store.messages import Summary

LOST = " is lost: it could not be stored, and belongs to no page"
"""Follows a request in the log of a worker that had to give it up."""
HELD_SECONDS = 60
"""An answer is not held back for longer, so that no test hangs."""


class EverydayCrawls(Crawls):
    """See :class:`Crawls`."""

    project: ClassVar[dict[str, str]] = {
        "SCRAPY_SETTINGS_MODULE": "tests.everyday.project.settings",
        # Scrapy's cookies would have a list of public suffixes fetched.
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }

    def script(self, code: str) -> Program:
        """Run a program in which ``SETTINGS`` are a crawl's settings."""
        settings = {
            "ADDONS": {"scrapy_redis_state.Addon": 500},
            "REDIS_STATE_URL": self.server.url,
            "REDIS_STATE_LEASE_SECS": 2,
            "BOT_NAME": self.bot,
            "ITEM_PIPELINES": {"tests.crawl.project.pipelines.Recorder": 300},
            "RECORDS": str(self.records),
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "LOG_LEVEL": "INFO",
        }
        number = len(self.programs.started)
        path = self.programs.directory / f"script{number}.py"
        path.write_text(f"SETTINGS = {settings!r}\n{code}")
        return self.programs.python(path, name=path.stem)

    def summary(self, spider: str) -> Summary:
        """The crawl of a spider as it is now."""
        with self.state(spider) as state:
            return state.status().summary

    def has_seen(self, spider: str, url: str) -> bool:
        """Whether a page would be filtered now."""
        members = self.client.smembers(self.key("seen", spider) + ":1")
        return fingerprint(Request(url)) in members

    def key(self, kind: str, spider: str) -> str:
        return f"{kind}:{{{self.bot}:{spider}}}"

    def clock(self, spider: str) -> int:
        """The crawl clock, in milliseconds."""
        return int(self.client.hget(self.key("crawl", spider), "clock") or 0)


class GatedSite(Site):
    """Answers certain paths only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self._held: set[str] = set()

    def hold(self, *paths: str) -> None:
        """Do not answer them until they are released."""
        self._held.update(paths)

    def release(self, *paths: str) -> None:
        """Answer these, or all if none is named, now and from now on."""
        for path in paths or tuple(self._held):
            self._held.discard(path)
            self._gates[path].set()

    @contextmanager
    def holding(self, *paths: str) -> Iterator[None]:
        """Hold them from now to the end of the block."""
        self.hold(*paths)
        try:
            yield
        finally:
            self.release(*paths)

    def wait_for_visits(self, path: str, count: int = 1) -> None:
        """Wait until a path was asked for so often."""
        wait_until(
            lambda: self.visits[path] >= count,
            30,
            lambda: f"{count} visits to {path}; there were {dict(self.visits)}",
        )

    def body(self, path: str) -> str:
        if path in self._held:
            self._gates[path].wait(HELD_SECONDS)
        return self.text(path)

    def text(self, path: str) -> str:
        """The HTML of a path: how often it was asked for."""
        return f"<p>visit {self.visits[path]}</p>"


def paths(crawls: Crawls, *workers: Program) -> list[Any]:
    """The field ``page`` of all recorded items, in order."""
    return [item["page"] for item in crawls.items(*workers) if "page" in item]
