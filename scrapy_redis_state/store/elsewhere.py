"""A look at the servers of a list that are not this crawl's."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from scrapy_redis_state.store.client import masked, sync_client
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.keys import FIRST_EPOCH, CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.server_facts import Finding
from scrapy_redis_state.store.status import status
from scrapy_redis_state.store.translate import translated

PATIENCE_SECS = 1.0
"""With one server: that another is away is no reason to wait."""


def check_elsewhere(urls: Iterable[str], keys: CrawlKeys) -> list[Finding]:
    """Find the crawl, unfinished, where by the list it should not be.

    It is there if its workers have another list: a server was added or left out. One
    that does not answer is passed over.
    """
    return [
        Finding(
            f"crawl {keys.crawl!r} is under way on {masked(url)!r}, but this list "
            "gives it to another server: use the list that its workers have, or finish "
            "it there before the list is changed",
            fatal=True,
        )
        for url in urls
        if _is_under_way(url, keys)
    ]


def _is_under_way(url: str, keys: CrawlKeys) -> bool:
    try:
        client = sync_client(url, timeout=PATIENCE_SECS, connect_timeout=PATIENCE_SECS)
        with closing(client), translated():
            reply = run(client, status(keys, FIRST_EPOCH))
    except RedisStateError:
        return False
    return reply.generation > 0 and reply.summary.status is not CrawlStatus.FINISHED
