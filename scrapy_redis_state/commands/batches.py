"""Requests as they are sent: many in one call."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from scrapy_redis_state.store.steps import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_redis_state.store.messages import Store


def batches(requests: Iterable[Store]) -> Iterator[list[Store]]:
    """As many at a time as one call to the server carries."""
    remaining = iter(requests)
    while batch := list(islice(remaining, BATCH)):
        yield batch
