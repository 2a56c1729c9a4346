"""Bytes per queued request: this package, and scrapy-redis if it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import Any

from benchmarks.producer import Producer, warm_up
from benchmarks.sample import ShopSpider, batches, request
from benchmarks.seen_sets import SCRAPY_REDIS
from benchmarks.servers import memory_of, taken
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.store.messages import Store

OURS = "scrapy-redis-state"


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue on one server; sizes in bytes a request."""

    server: str
    queue: str
    requests: int
    encoded: float
    """The request itself, as bytes."""
    usage: float
    """By ``MEMORY USAGE`` of its keys."""
    used: float
    """By how much the server's ``used_memory`` rose."""
    resident: float
    """By how much its ``used_memory_rss`` rose."""
    parts: dict[str, float] = field(default_factory=dict)
    """``MEMORY USAGE`` by key."""


def measure(client: Any, server: str, requests: int) -> list[QueueRow]:
    """Fill both queues with the same requests, none of which is filtered."""
    warm_up(client)
    rows = [_ours(client, server, requests)]
    if importlib.util.find_spec("scrapy_redis"):
        rows.append(_scrapy_redis(client, server, requests))
    return rows


def _ours(client: Any, server: str, requests: int) -> QueueRow:
    spider = ShopSpider()
    serializer = RequestSerializer(spider)
    producer = Producer(client, "shop:offers")
    encoded, before = 0, taken(client)
    for numbers in batches(range(requests)):
        payloads = [serializer.encode(request(spider, n)) for n in numbers]
        encoded += sum(map(len, payloads))
        producer.push([Store(payload) for payload in payloads])
    grown = taken(client).since(before)
    parts = {
        name: memory_of(client, producer.keys.named(name)) / requests
        for name in ("frontier", "requests")
    }
    return QueueRow(
        server,
        OURS,
        requests,
        encoded / requests,
        sum(parts.values()),
        grown.used / requests,
        grown.resident / requests,
        parts,
    )


def _scrapy_redis(client: Any, server: str, requests: int) -> QueueRow:
    # Imported here, since it may be missing.
    module = importlib.import_module("scrapy_redis.queue")
    spider, key = ShopSpider(), "shop:requests"
    pipeline = client.pipeline(transaction=False)
    counted = _Counted(module.picklecompat)
    queue = module.PriorityQueue(pipeline, spider, key, counted)
    before = taken(client)
    for numbers in batches(range(requests)):
        for n in numbers:
            queue.push(request(spider, n))
        pipeline.execute()
    grown = taken(client).since(before)
    usage = memory_of(client, key) / requests
    return QueueRow(
        server,
        SCRAPY_REDIS,
        requests,
        counted.bytes / requests,
        usage,
        grown.used / requests,
        grown.resident / requests,
        {key: usage},
    )


class _Counted:
    """The serializer of that queue, with how much it wrote."""

    def __init__(self, serializer: Any) -> None:
        self._serializer = serializer
        self.loads = serializer.loads
        self.bytes = 0

    def dumps(self, value: Any) -> bytes:
        """As it does."""
        data: bytes = self._serializer.dumps(value)
        self.bytes += len(data)
        return data
