"""What the measurements store: fingerprints, and the requests of a typical spider."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from scrapy import Request, Spider

T = TypeVar("T")

BATCH = 500
"""Operations a call, as ``CrawlState.push_many`` sends them."""


def batches(things: Iterable[T]) -> Iterator[list[T]]:
    """Slices of :data:`BATCH`."""
    rest = iter(things)
    while batch := list(islice(rest, BATCH)):
        yield batch


def fingerprint(number: int) -> bytes:
    """A fingerprint as Scrapy makes them: a SHA-1."""
    return hashlib.sha1(b"%d" % number, usedforsecurity=False).digest()


PRODUCTS = ("hose", "red", "25m", "new", "for", "mild")
"""Words of which names of 4 to 25 characters are made."""


class ShopSpider(Spider):
    """Its requests are typical in what they carry."""

    name = "shop"

    def parse_product(self, response: Any) -> None:
        """Callback of the sample."""


def request(spider: ShopSpider, number: int) -> Request:
    """A link from a list to a page: callback, depth, three keys of meta, referer.

    URLs are of many lengths, as they are on sites: allocators round sizes up, in steps
    of up to 64 bytes, and one length would measure where it happens to lie.
    """
    shop = "https://shop.example/catalogue/garden"
    page, position = divmod(number, 40)
    name = "-".join(PRODUCTS[: 1 + number % len(PRODUCTS)])
    return Request(
        f"{shop}/{name}-{number}.html",
        callback=spider.parse_product,
        headers={"Referer": f"{shop}?page={page}"},
        meta={"depth": 3, "category": "garden", "page": page, "position": position},
    )
