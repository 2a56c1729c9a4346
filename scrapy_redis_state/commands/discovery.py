"""Which crawls there are, asked for now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.crawls import find_crawls
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import CrawlStatus

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.status import StatusReply

AGAIN_SECS = 30.0
"""How long what was found is good for: to find crawls, the server reads the names of
all keys."""
MOST = 200
"""Crawls that are told of one by one, so that those of a year do not add up."""


class Known(NamedTuple):
    """A crawl, and how it stands."""

    keys: CrawlKeys
    status: StatusReply


class Discovery:
    """Finds the crawls of one server; for several threads.

    :param prefix: only those under it; None: any
    """

    def __init__(self, prefix: str | None, again_secs: float = AGAIN_SECS) -> None:
        self._prefix = prefix
        self._again_secs = again_secs
        self._found: list[CrawlKeys] = []
        self._found_at: float | None = None
        self._lock = threading.Lock()

    def crawls(self, client: Redis) -> list[Known]:
        """Those that exist now, the ones that go on first; the latest first among them.

        :raises RedisStateError: if the server cannot be asked
        """
        known = list(_look(client, self._keys(client)))
        known.sort(
            key=lambda one: (
                one.status.summary.status is CrawlStatus.FINISHED,
                one.status.silence_ms < 0,
                one.status.silence_ms,
            )
        )
        return known

    def _keys(self, client: Redis) -> list[CrawlKeys]:
        with self._lock:
            now = time.monotonic()
            if self._found_at is None or now - self._found_at >= self._again_secs:
                self._found = find_crawls(client, self._prefix)
                self._found_at = now
            return self._found


def _look(client: Redis, found: list[CrawlKeys]) -> Iterator[Known]:
    for keys in found:
        try:
            status = CrawlState(client, keys).status()
        except Refused:
            continue  # not ours to see, or something else
        if status.generation:
            yield Known(keys, status)
