"""``import --from-scrapy-redis``: go on with a crawl of scrapy-redis."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from scrapy.utils.misc import load_object

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import complain, say, say_json
from scrapy_redis_state.migration.fingerprinter import ScrapyRedisFingerprinter
from scrapy_redis_state.requests.page_identity import identity_of
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.errors import RedisStateError, Refused
from scrapy_redis_state.store.messages import SCHEMA_VERSION
from scrapy_redis_state.store.migration.entries import Entries
from scrapy_redis_state.store.migration.imported import ImportedCrawl
from scrapy_redis_state.store.migration.old_crawl import OldCrawl
from scrapy_redis_state.store.migration.pickles import is_pickle
from scrapy_redis_state.store.pushing import batches

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store.messages import Store

_QUEUE, _DUPEFILTER = "%(spider)s:requests", "%(spider)s:dupefilter"
_FINGERPRINTER = "scrapy_redis_state.migration.ScrapyRedisFingerprinter"


def add_options(parser: argparse.ArgumentParser) -> None:
    """What there is to say about a crawl of scrapy-redis."""
    group = parser.add_argument_group("a crawl of scrapy-redis")
    group.add_argument(
        "--from-scrapy-redis",
        action="store_true",
        help="copy its queue and its set of fingerprints, which stay as they are",
    )
    group.add_argument(
        "--from-url", metavar="URL", help="of its server (that of the crawl)"
    )
    group.add_argument(
        "--queue-key",
        metavar="KEY",
        help="of its queue (SCHEDULER_QUEUE_KEY, or <spider>:requests)",
    )
    group.add_argument(
        "--dupefilter-key",
        metavar="KEY",
        help="of its set of fingerprints (SCHEDULER_DUPEFILTER_KEY, or"
        " <spider>:dupefilter)",
    )
    group.add_argument(
        "--no-dupefilter",
        action="store_true",
        help="leave the set out: pages that were crawled may be crawled again",
    )
    group.add_argument(
        "--unpickle",
        action="store_true",
        help="read pickles, as far as they are plain data",
    )
    group.add_argument(
        "--run-start",
        action="store_true",
        help="have start() run; else it counts as done",
    )


def import_scrapy_redis(args: argparse.Namespace, place: Place) -> int | None:
    """Copy it, and say how much it was; 1 if an entry could not be read."""
    with ExitStack() as stack:
        client = stack.enter_context(sync_client(args.from_url or place.config.url))
        old = OldCrawl(client, *_keys(args, place))
        copy = _Copy(args, place, old)
        copy.check()
        crawl = stack.enter_context(
            ImportedCrawl(sync_client(place.config.url), place.keys, place.rules)
        )
        copy.run(crawl)
    return copy.tell(as_json=args.json)


def _keys(args: argparse.Namespace, place: Place) -> tuple[str, str]:
    spider = place.config.spider
    if not spider and not (args.queue_key and args.dupefilter_key):
        raise UsageError(
            "whose? Give --spider NAME, or --queue-key and --dupefilter-key"
        )
    names = {"spider": spider}
    queue = args.queue_key or place.setting("SCHEDULER_QUEUE_KEY", _QUEUE) % names
    dupefilter = (
        args.dupefilter_key
        or place.setting("SCHEDULER_DUPEFILTER_KEY", _DUPEFILTER) % names
    )
    return queue, dupefilter


class _Copy:
    """One import, and what became of it."""

    def __init__(self, args: argparse.Namespace, place: Place, old: OldCrawl) -> None:
        self._args = args
        self._place = place
        self._old = old
        self._marks_seen = old.has_dupefilter and not args.no_dupefilter
        self.requests = 0
        self.fingerprints = 0
        self.unreadable = 0

    def check(self) -> None:
        """:raises Refused: for what is better known before anything is written"""
        old = self._old
        if old.queue_type == "none" and not old.has_dupefilter:
            raise Refused(
                f"There is neither {old.queue_key!r} nor {old.dupefilter_key!r}: name"
                " the keys of the crawl with --queue-key and --dupefilter-key."
            )
        used = load_object(
            self._place.setting("REQUEST_FINGERPRINTER_CLASS", _FINGERPRINTER)
        )
        if self._marks_seen and used is not ScrapyRedisFingerprinter:
            raise Refused(
                f"The fingerprints of {old.dupefilter_key!r} are others than those of"
                f" this project: set REQUEST_FINGERPRINTER_CLASS = {_FINGERPRINTER!r},"
                " or leave them out with --no-dupefilter."
            )
        if self._args.unpickle:
            complain(
                "warning: pickles can run any code when they are read; these are read"
                " only as far as they are plain data"
            )
        elif any(is_pickle(entry.data) for entry in islice(old.entries(), 1)):
            raise Refused(
                f"The entries of {old.queue_key!r} are pickles, which can run any code"
                " when they are read: if you trust whoever could write to that server,"
                " add --unpickle (what is no plain data is left out all the same)."
            )

    def run(self, crawl: ImportedCrawl) -> None:
        """Copy: first what was seen, so that no request finds it missing."""
        size = self._old.queue_size()
        crawl.begin(
            self._identity(),
            start=self._args.run_start or size == 0,
            given=self._place.config.crawl_id_given,
        )
        try:
            if self._marks_seen:
                for piece in self._old.fingerprints():
                    self.fingerprints += crawl.mark_seen(piece)
            for batch in batches(self._requests()):
                self.requests += crawl.store(batch)
        except RedisStateError as error:
            raise Refused(
                f"{error} What was imported by then stays, paused: delete the crawl,"
                " and import again."
            ) from None
        crawl.open()
        if self._old.queue_size() != size:
            complain(
                f"warning: {self._old.queue_key!r} changed meanwhile: is the old crawl"
                " stopped? Delete this crawl and import again"
            )

    def tell(self, *, as_json: bool) -> int | None:
        """Say how much it was."""
        if as_json:
            say_json(
                {
                    "requests": self.requests,
                    "fingerprints": self.fingerprints,
                    "unreadable": self.unreadable,
                }
            )
        else:
            say(
                f"{self.requests:,} requests and {self.fingerprints:,} fingerprints"
                f" imported, {self.unreadable:,} unreadable (still in"
                f" {self._old.queue_key})"
            )
        return REFUSED if self.unreadable else None

    def _identity(self) -> dict[str, str]:
        config = self._place.config
        identity = {
            "schema": SCHEMA_VERSION,
            "order": config.order,
            "seen": config.seen_set.spec,
        }
        if config.spider:
            identity["spider"] = config.spider
        if self._marks_seen:
            identity |= identity_of(ScrapyRedisFingerprinter)
        return identity

    def _requests(self) -> Iterator[Store]:
        entries = Entries(
            unpickle=self._args.unpickle,
            has_method=self._has_method if self._place.spider_class else None,
            rules=None if self._marks_seen else self._place.rules,
        )
        for entry in self._old.entries():
            try:
                yield entries.read(entry.data, entry.priority)
            except ValueError as error:
                self.unreadable += 1
                complain(f"entry {entry.number}: {error}")

    def _has_method(self, name: str) -> bool:
        found = inspect.getattr_static(self._place.spider_class, name, None)
        return callable(found) or isinstance(found, (classmethod, staticmethod))
