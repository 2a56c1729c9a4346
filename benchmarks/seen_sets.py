"""Bytes per URL, and time per check, of seen sets that are filled to capacity."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.filling import Fill
from benchmarks.producer import Producer, warm_up
from benchmarks.sample import batches, fingerprint
from benchmarks.servers import cpu_seconds, memory_of, taken
from scrapy_redis_state.store.messages import Check
from scrapy_redis_state.store.seen import SeenSet

ROUNDS = 9
"""Rounds of checks; in each all sets take their turn, so that they share a machine's
moods, and the ratios are those of the medians."""

CHECKS = 5_000
"""Checks of one set in one round."""

SCRAPY_REDIS = "scrapy-redis"


@dataclass(frozen=True, slots=True)
class SeenRow:
    """One seen set on one server; sizes in bytes a URL.

    Times are µs a check, of processors, so that other programs do not matter.
    """

    server: str
    seen: str
    urls: int
    usage: float
    """By ``MEMORY USAGE`` of its keys."""
    used: float
    """By how much the server's ``used_memory`` rose."""
    resident: float
    """By how much its ``used_memory_rss`` rose."""
    missed: int
    """New URLs that were taken for seen ones while it was filled."""
    whole: float = 0
    """Time of a check in client and server."""
    on_server: float = 0
    """Time of a check in the server."""


def variants(urls: int) -> dict[str, SeenSet]:
    """What is measured, each made for so many URLs."""
    return {
        "exact": SeenSet("exact"),
        "packed": SeenSet("packed", urls),
        "bloom 0.001": SeenSet("bloom", urls, 0.001),
        "bloom 0.000001": SeenSet("bloom", urls, 0.000001),
    }


def measure(client: Any, server: str, urls: int, fill: Fill) -> Iterator[SeenRow]:
    """Fill every set with *urls*, beside each other, and then ask them."""
    warm_up(client)
    sizes, producers = {}, {}
    for name, seen in variants(urls).items():
        crawl = f"shop:{name.replace(' ', '')}"
        producers[name] = Producer(client, crawl, seen)
        before = taken(client)
        missed = fill(producers[name], urls)
        grown = taken(client).since(before)
        usage = memory_of(client, f"seen:{{{crawl}}}:*")
        each = usage / urls, grown.used / urls, grown.resident / urls
        sizes[name] = *each, missed
    times = _times(producers, urls)
    for name, found in sizes.items():
        yield SeenRow(server, name, urls, *found, *times[name])
    yield _scrapy_redis(client, server, urls)


def _times(producers: dict[str, Producer], urls: int) -> dict[str, tuple[float, float]]:
    """Medians, whole and in the server, of checks half of which are of seen URLs."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in producers}
    step = max(1, urls // CHECKS)
    for number in range(ROUNDS):
        asked = range(number % step, min(urls, CHECKS * step), 2 * step)
        checks = [Check(fingerprint(n)) for one in asked for n in (one, urls + one)]
        for name, producer in producers.items():
            found[name].append(_time(producer, checks))
    return {
        name: (
            statistics.median(whole for whole, _ in times),
            statistics.median(inside for _, inside in times),
        )
        for name, times in found.items()
    }


def _time(producer: Producer, checks: list[Check]) -> tuple[float, float]:
    inside, outside = cpu_seconds(producer.client), time.process_time()
    for batch in batches(checks):
        producer.push(batch)
    outside = time.process_time() - outside
    inside = cpu_seconds(producer.client) - inside
    return (inside + outside) * 1e6 / len(checks), inside * 1e6 / len(checks)


def _scrapy_redis(client: Any, server: str, urls: int) -> SeenRow:
    """Its filter's set: SHA-1 as 40 hexadecimal digits."""
    key = "shop:dupefilter"
    before = taken(client)
    for numbers in batches(range(urls)):
        client.sadd(key, *(fingerprint(n).hex() for n in numbers))
    grown = taken(client).since(before)
    each = memory_of(client, key) / urls, grown.used / urls, grown.resident / urls
    return SeenRow(server, SCRAPY_REDIS, urls, *each, 0)
