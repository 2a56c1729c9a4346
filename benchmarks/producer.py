"""A program that fills crawls: what producers do, without what else they offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.sample import BATCH
from scrapy_redis_state.store import runner, scripts
from scrapy_redis_state.store.keys import FIRST_EPOCH, CrawlKeys
from scrapy_redis_state.store.messages import Answer, Operation, Store
from scrapy_redis_state.store.seen import SeenSet


class Producer:
    """Pushes operations into one crawl.

    :param crawl: its id
    :param seen: what it remembers pages with
    """

    def __init__(self, client: Any, crawl: str, seen: SeenSet | None = None) -> None:
        self.client = client
        self.keys = CrawlKeys(crawl, "", seen or SeenSet())
        self.epoch = FIRST_EPOCH

    def push(self, operations: Sequence[Operation]) -> tuple[Answer, ...]:
        """One round trip, or two for the first."""
        call = scripts.push(self.keys, self.epoch, "token", operations)
        reply = runner.run(self.client, call)
        if reply.status == "epoch" and reply.epoch != self.epoch:
            self.epoch = reply.epoch
            return self.push(operations)
        assert reply.status == "ok", reply
        return reply.answers


def warm_up(client: Any) -> None:
    """Have the server load the script and make buffers, and empty it."""
    Producer(client, "warm").push([Store(bytes(200))] * BATCH)
    client.flushall()
