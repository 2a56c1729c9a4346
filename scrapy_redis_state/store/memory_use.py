"""How much memory a crawl takes on its server, and how much the server has.

Asked with commands that take as long for millions of requests as for none: the server
measures some elements of each key, and multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from scrapy_redis_state.store.cluster import node_for
from scrapy_redis_state.store.keys import FIRST_EPOCH
from scrapy_redis_state.store.seen import EARLIER_EPOCHS, SeenSet
from scrapy_redis_state.store.server_facts import read_info
from scrapy_redis_state.store.translate import translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.status import StatusReply

_ELEMENTS = 5
"""How many of each key are measured."""
_SHARDS = 8
"""How many keys of a packed seen set are measured: they are about the same."""


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """What a server says of its memory, in bytes."""

    used: int
    most: int | None
    """``maxmemory``; None: no limit."""
    policy: str
    """What it does when that is reached; empty: it does not say."""

    @property
    def share(self) -> float | None:
        """How much of what it may use is used."""
        return self.used / self.most if self.most else None


def server_memory(client: Redis, key: str) -> ServerMemory | None:
    """That of the node which has *key*; None if the user may not ask."""
    with translated():
        info = read_info(node_for(client, key), "memory")
    if "used_memory" not in info:
        return None
    most = int(info.get("maxmemory", "0"))
    return ServerMemory(
        int(info["used_memory"]), most or None, info.get("maxmemory_policy", "")
    )


def memory_by_key(
    client: Redis, keys: CrawlKeys, status: StatusReply
) -> dict[str, int] | None:
    """Bytes by name of the key (``seen``: of all epochs); None if the user may not ask.

    :param status: of this crawl, for what its seen set consists of
    """
    crawl_key = keys.named("crawl")
    wanted = {
        key.removeprefix(keys.prefix).partition(":")[0]: [key]
        for key in keys.for_script(FIRST_EPOCH)
    }
    wanted["seen"], factor = _of_seen_set(keys, status)
    flat = [key for some in wanted.values() for key in some]
    try:
        with translated():
            sizes = _measure(node_for(client, crawl_key), flat)
    except _NotAllowed:
        return None
    measured = {name: sum(sizes[key] for key in some) for name, some in wanted.items()}
    measured["seen"] = round(measured["seen"] * factor)
    return {name: size for name, size in measured.items() if size}


class _NotAllowed(Exception):
    """The user may not run MEMORY USAGE, or the server does not know it."""


def _of_seen_set(keys: CrawlKeys, status: StatusReply) -> tuple[list[str], float]:
    """Keys to measure, and by how much to multiply what they take."""
    try:
        seen = SeenSet.parse(status.seen_set or "exact")
    except ValueError:
        seen = SeenSet()
    epoch = status.summary.epoch
    epochs = range(epoch, epoch - (EARLIER_EPOCHS if seen.revisits else 0) - 1, -1)
    if not seen.shards:
        return [keys.seen(one) for one in epochs], 1.0
    some = min(seen.shards, _SHARDS)
    shards = [keys.shard(one, number) for one in epochs for number in range(some)]
    return shards, seen.shards / some


def _measure(client: Redis, keys: Sequence[str]) -> dict[str, int]:
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.memory_usage(key, samples=_ELEMENTS)
        replies = pipeline.execute(raise_on_error=False)
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise _NotAllowed
        if isinstance(reply, Exception):
            raise reply
    return {key: reply or 0 for key, reply in zip(keys, replies, strict=True)}
