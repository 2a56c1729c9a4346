"""Write a crawl to a file, step by step, and see that it was the same all the time."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.cluster import node_for
from scrapy_redis_state.store.errors import Refused, no_crawl
from scrapy_redis_state.store.move import scripts
from scrapy_redis_state.store.move.contents import Contents
from scrapy_redis_state.store.move.files import File, writing
from scrapy_redis_state.store.move.form import (
    AGREED,
    FORMAT,
    LEFT_BEHIND,
    VERSION,
    Moved,
    Progress,
    json_of,
    package_version,
)
from scrapy_redis_state.store.move.lines import LineWriter
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.server_facts import read_info

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.move.scripts import Look

_BEATS = ("clock", "last_time", "stamp", "tidy", "tidy_from", "samples")
"""Fields that calls change which do nothing to what is copied."""
_QUEUED = ("pending", "in_flight", "delayed", "suspect")


def export_crawl(
    client: Redis,
    keys: CrawlKeys,
    file: File,
    *,
    force: bool = False,
    sessions: bool = False,
    progress: Progress | None = None,
) -> Moved:
    """Write a crawl to a file, which has all of it or is not there.

    :param file: a path, or what bytes are written to; compressed, unless it is a path
        that ends in ``.jsonl``
    :param force: also while it is at work, or changes
    :param sessions: with all sessions under its prefix: logins
    :raises Refused: if there is no such crawl, it is at work, or it changed meanwhile
    """
    exporter = _Exporter(client, keys, progress)
    exporter.check(force=force)
    with writing(file) as stream:
        return exporter.write(LineWriter(stream), force=force, sessions=sessions)


class _Exporter:
    """One export."""

    def __init__(
        self, client: Redis, keys: CrawlKeys, progress: Progress | None
    ) -> None:
        self._client = client
        self._keys = keys
        self._progress = progress
        self._first = self._look()
        self._counts: Counter[str] = Counter()
        self._expected: dict[str, int] = {}

    def _look(self, since: int = 0) -> Look:
        with translated():
            return run(self._client, scripts.look(self._keys, since))

    # --- whether it may be copied ----------------------------------------------------

    def check(self, *, force: bool) -> None:
        """Raise what speaks against it."""
        if not self._first.fields:
            raise no_crawl(self._keys.crawl)
        if not force and (problem := _why_not_now(self._first)):
            raise Refused(f"Crawl {self._keys.crawl!r} {problem}.")

    # --- writing ---------------------------------------------------------------------

    def write(self, lines: LineWriter, *, force: bool, sessions: bool) -> Moved:
        """All of it; what was read is told apart from what it may have become."""
        look = self._first
        contents = Contents(self._client, self._keys, look)
        self._expected = contents.expected()
        self._write_head(lines)
        with translated():
            for kind, count, fields in contents.all(sessions=sessions):
                lines.write(kind, fields)
                self._counts[kind] += count
                self._tell()
        last = self._look(look.now)
        changes = _changes(look, last)
        if changes and not force:
            raise Refused(
                f"Crawl {self._keys.crawl!r} changed while it was read"
                f" ({', '.join(changes)}): export it again, when nobody works on it."
            )
        lines.end(
            {
                "counts": self._counts,
                "changed": bool(changes),
                "sequence": max(look.number("sequence"), last.number("sequence")),
            }
        )
        notes = [*contents.problems]
        if changes:
            notes.append(
                "the crawl changed while it was read: the copy may lack what was"
                f" stored or moved meanwhile ({', '.join(changes)})"
            )
        return Moved(self._keys.crawl, look.text("status"), dict(self._counts), notes)

    def _write_head(self, lines: LineWriter) -> None:
        fields = {
            name: json_of(value)
            for name, value in sorted(self._first.fields.items())
            if name not in LEFT_BEHIND
        }
        agreed = {n: v for n, v in fields.items() if n.startswith(AGREED)}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "package": package_version(),
            "exported_at": int(time.time() * 1000),
            "server": _server(self._client, self._keys),
            "crawl": self._keys.crawl,
            "prefix": self._keys.prefix,
            "settings": {n.removeprefix(AGREED): v for n, v in agreed.items()},
            "expected": self._expected,
        }
        lines.write("header", header)
        own = {name: value for name, value in fields.items() if name not in agreed}
        status, epoch = self._first.text("status"), self._first.number("epoch")
        lines.write("crawl", {"status": status, "epoch": epoch, "fields": own})

    def _tell(self) -> None:
        if self._progress:
            self._progress(self._counts.total(), sum(self._expected.values()))


def _why_not_now(look: Look) -> str:
    """What speaks against a copy of the crawl as it stands; empty: nothing."""
    queued = sum(look.sizes[kind] for kind in _QUEUED)
    if queued != look.sizes["requests"]:
        return (
            f"has {queued} requests in its queues and {look.sizes['requests']} stored:"
            " see 'scrapy redis-state doctor'; workers mend it, and force=True leaves"
            " out what is not in both"
        )
    status = look.text("status")
    if not look.workers or status == "finished":
        return ""
    held, stands = look.sizes["in_flight"], status != "running" or not queued
    if stands and not held and not look.busy:
        return ""
    return (
        f"is at work ({look.workers} live workers, {held} in flight): stop them, or"
        " pause it and wait until nothing is in flight; with force=True the copy lacks"
        " what they store and move meanwhile"
    )


def _changes(before: Look, after: Look) -> list[str]:
    """What is not as it was; reading leaves no trace, so everything else does."""
    found = [
        f"{name} {before.sizes[name]} -> {size}"
        for name, size in after.sizes.items()
        if size != before.sizes[name]
    ]
    names = sorted((before.fields.keys() | after.fields.keys()) - set(_BEATS))
    return found + [n for n in names if before.fields.get(n) != after.fields.get(n)]


def _server(client: Redis, keys: CrawlKeys) -> dict[str, str]:
    """Kind and version, as far as the user may ask."""
    with translated():
        info = read_info(node_for(client, keys.named("crawl")), "server")
    kind = "valkey" if "valkey_version" in info else "redis"
    version = info.get(f"{kind}_version", "")
    return {"kind": kind, "version": version} if version else {}
