"""Crawls spread over several servers, each crawl on one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from scrapy_redis_state.store.url import parse


def choose(urls: Sequence[str], crawl_id: str) -> str:
    """The URL of the server that has this crawl: the same for equal lists.

    Rendezvous hashing: each server bids for the crawl, and the highest bid has it. The
    order of the list does not matter. A server more takes some crawls from all others;
    a server less gives its crawls to all others, and the rest stay where they are.
    A password, an option or TLS may change without moving anything.

    :raises ValueError: for a URL that cannot be read
    """
    return max(urls, key=lambda url: _bid(parse(url).place, crawl_id))


def _bid(place: str, crawl_id: str) -> bytes:
    return hashlib.sha256(
        f"{place}\n{crawl_id}".encode(errors="surrogateescape")
    ).digest()
