"""Which crawls a server has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.keys import CrawlKeys

if TYPE_CHECKING:
    from redis import Redis

_SCANNED = 1000
"""Keys that the server looks at before it answers others again."""


def find_crawls(client: Redis, prefix: str | None = None) -> list[CrawlKeys]:
    """The keys of all crawls, by prefix and crawl id; reads the names of all keys.

    Some may turn out to be none: a key of another program may have such a name.

    :param prefix: of the crawls; None: any
    """
    with translated():
        names = set(client.scan_iter(match=CrawlKeys.pattern(prefix), count=_SCANNED))
    texts = sorted(name.decode(errors="replace") for name in names)
    parsed = [CrawlKeys.parse(text) for text in texts]
    return [
        keys for keys in parsed if keys is not None and prefix in (None, keys.prefix)
    ]
