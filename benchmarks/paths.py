"""What single steps of the hot path cost: encode, fingerprint, decode, push."""

from __future__ import annotations

import gc
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy.utils.request import RequestFingerprinter, request_from_dict

from benchmarks.sample import ShopSpider, request
from scrapy_redis_state.fingerprinter import CanonicalRequestFingerprinter
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.canonical import DEFAULT_RULES
from scrapy_redis_state.store.keys import FIRST_EPOCH, CrawlKeys
from scrapy_redis_state.store.requests import store_operation

ROUNDS = 5
BATCH = 500


@dataclass(frozen=True)
class StepRow:
    """One step: processor time of a request, and of what Scrapy does in its place."""

    step: str
    us: float
    """Microseconds, the median of some rounds."""
    stock_us: float | None = None
    """Of Scrapy's own; None: it has nothing like it."""


def measure(number: int) -> list[StepRow]:
    """All steps, each of so many requests; ours and Scrapy's by turns."""
    spider = ShopSpider()
    serializer = RequestSerializer(spider)
    payloads = [serializer.encode(request(spider, n)) for n in range(number)]
    pickles = [_pickled(request(spider, n), spider) for n in range(number)]
    urls = [request(spider, n).url for n in range(number)]
    queries = [f"{url}?b=2&utm_source=x&a=1" for url in urls]

    def fresh() -> list[Any]:
        return [request(spider, n) for n in range(number)]

    return [
        _row(
            "encode",
            lambda: _each(serializer.encode, fresh()),
            lambda: _each(lambda one: _pickled(one, spider), fresh()),
        ),
        _row(
            "decode",
            lambda: _each(serializer.decode, payloads),
            lambda: _each(lambda one: _unpickled(one, spider), pickles),
        ),
        _row(
            "fingerprint",
            lambda: _each(_ours().fingerprint, fresh()),
            lambda: _each(RequestFingerprinter().fingerprint, fresh()),
        ),
        _row(
            "fingerprint, with a query",
            lambda: _each(_ours().fingerprint, _with_urls(fresh(), queries)),
            lambda: _each(
                RequestFingerprinter().fingerprint, _with_urls(fresh(), queries)
            ),
        ),
        _row("push a URL (without the server)", lambda: _push(urls)),
    ]


def _ours() -> CanonicalRequestFingerprinter:
    return CanonicalRequestFingerprinter(DEFAULT_RULES, RequestFingerprinter())


def _with_urls(requests: Sequence[Any], urls: Sequence[str]) -> list[Any]:
    return [one.replace(url=url) for one, url in zip(requests, urls, strict=True)]


def _pickled(one: Any, spider: ShopSpider) -> bytes:
    return pickle.dumps(one.to_dict(spider=spider), protocol=4)


def _unpickled(data: bytes, spider: ShopSpider) -> Any:
    return request_from_dict(pickle.loads(data), spider=spider)  # noqa: S301 - our own


def _each(step: Callable[[Any], Any], things: Sequence[Any]) -> float:
    """Microseconds of one step."""
    gc.collect()
    began = time.process_time()
    for thing in things:
        step(thing)
    return (time.process_time() - began) * 1e6 / len(things)


def _push(urls: Sequence[str]) -> float:
    keys = CrawlKeys("benchmark")
    gc.collect()
    began = time.process_time()
    for first in range(0, len(urls), BATCH):
        operations = [store_operation(url) for url in urls[first : first + BATCH]]
        scripts.push(keys, FIRST_EPOCH, "token", operations)
    return (time.process_time() - began) * 1e6 / len(urls)


def _row(
    step: str, ours: Callable[[], float], stock: Callable[[], float] | None = None
) -> StepRow:
    taken, theirs = [], []
    for _ in range(ROUNDS):
        taken.append(ours())
        if stock is not None:
            theirs.append(stock())
    median = statistics.median
    return StepRow(step, median(taken), median(theirs) if theirs else None)
