"""Decides what a run is: a new crawl, or the rest of one that was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner import record as records
from runner.crawl_view import CrawlView
from runner.record import Record
from runner.waiting import ScenarioError
from scrapy_redis_state.store.client import masked

if TYPE_CHECKING:
    from pathlib import Path

MEMBERS = "members"
"""The spider that needs a session."""
SPIDERS = ("shop", "shop_links", MEMBERS)
PRODUCTS = 300


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says. None: as in the run that is resumed."""

    directory: Path
    """Absolute; holds the embedded server's data and, in ``example``, ours."""
    spider: str | None = None
    products: int | None = None
    url: str = ""
    """A running server; empty: the embedded one."""
    workers: int = 3
    browser: str | None = None
    """Chromium that the spider ``members`` uses; empty: none."""
    is_fresh: bool = False
    """Start over, though the last run was interrupted."""

    @property
    def run_directory(self) -> Path:
        return self.directory / "example"

    @property
    def server_url(self) -> str:
        # In .scrapy this is the server that "embedded:" means in the shop's settings.
        return self.url or f"embedded:{quote(str(self.directory / 'redis-state'))}"

    @property
    def server(self) -> str:
        """The URL without a password; empty: the embedded server."""
        return masked(self.url) if self.url else ""


def open_record(options: Options) -> tuple[Record, str]:
    """Return the record of this run's crawl, and in words why it is that one.

    :raises ScenarioError: an interrupted run had other options
    :raises RedisStateError: the server of a crawl that is dropped does not answer
    """
    directory = options.run_directory
    left = records.load(directory)
    if left and not left.is_finished and not options.is_fresh:
        _check_same(left, options)
        return left, "the last run was interrupted and is resumed (--fresh starts over)"
    why = "a new crawl"
    if left:
        why += ": --fresh" if options.is_fresh else ", as the last one has finished"
        why += _drop(left, options)
    record = Record(
        options.spider or SPIDERS[0], options.products or PRODUCTS, options.server
    )
    return record, why


def _check_same(left: Record, options: Options) -> None:
    for name, given, stored in (
        ("spider", options.spider or left.spider, left.spider),
        ("products", options.products or left.products, left.products),
        ("url", options.server, left.server),
    ):
        if given != stored:
            had = f"--{name} {stored}" if stored else f"no --{name}"
            raise ScenarioError(
                f"the last run was interrupted, and had {had}: run it again with the"
                " same, start over with --fresh, or name another --directory"
            )


def _drop(left: Record, options: Options) -> str:
    """Forget a crawl: its files, and its keys if its server is the one of now."""
    note = ""
    if not left.is_finished:
        # First: the rest of a half deleted crawl must not be resumed.
        left.is_finished = True
        left.save(options.run_directory)
        if left.server == options.server:
            view = CrawlView(options.server_url, left.prefix, left.crawl)
            view.remove()
            view.close()
        else:
            where = left.server or "the embedded server"
            note = f"; the keys {left.prefix}* of the last one stay on {where}"
    records.clear(options.run_directory)
    return note
