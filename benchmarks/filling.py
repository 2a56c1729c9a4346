"""Two ways to fill a seen set; the same members are in the same keys afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from benchmarks.producer import Producer
from benchmarks.sample import batches, fingerprint
from scrapy_redis_state.store.messages import Answer, Claim

Fill = Callable[[Producer, int], int]
"""Adds so many URLs, all new; answers how many of them were taken for seen ones."""

SORTED_AT_ONCE = 1_000_000
"""URLs that are sorted by shard in one go, so that each shard gets several."""


def by_scripts(producer: Producer, urls: int) -> int:
    """As producers and workers do."""
    missed = 0
    for numbers in batches(range(urls)):
        answers = producer.push([Claim(fingerprint(n)) for n in numbers])
        missed += answers.count(Answer.DUPLICATE)
    return missed


def directly(producer: Producer, urls: int) -> int:
    """Many in one command, without scripts: several times as fast."""
    # Makes the crawl, and the filter.
    missed = by_scripts(producer, 1)
    seen, keys = producer.keys.seen_set, producer.keys
    client, numbers = producer.client, iter(range(1, urls))
    if seen.kind == "packed":
        while some := list(islice(numbers, SORTED_AT_ONCE)):
            shards: dict[int, list[Any]] = defaultdict(list)
            for n in some:
                shard, value = seen.locate(fingerprint(n))
                shards[shard].append(value)
            add_to_sets(
                client,
                ((keys.shard(producer.epoch, n), some) for n, some in shards.items()),
            )
        return missed
    command = "BF.MADD" if seen.kind == "bloom" else "SADD"
    key = keys.seen(producer.epoch)
    for batch in batches(map(fingerprint, numbers)):
        added = client.execute_command(command, key, *batch)
        missed += len(batch) - (sum(added) if seen.kind == "bloom" else added)
    return missed


def add_to_sets(client: Any, sets: Iterable[tuple[str, list[Any]]]) -> None:
    """Put members into the sets named."""
    for batch in batches(sets):
        pipeline = client.pipeline(transaction=False)
        for key, members in batch:
            pipeline.sadd(key, *members)
        pipeline.execute()


WAYS: dict[str, Fill] = {"scripts": by_scripts, "direct": directly}
