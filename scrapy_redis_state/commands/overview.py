"""All that is known of one crawl at one moment, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.commands.advice import warnings_of
from scrapy_redis_state.commands.figures import (
    figures_of,
    pace_figures,
    seed_error,
    worker_figures,
)
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.bloom import expected_losses
from scrapy_redis_state.store.memory_use import (
    ServerMemory,
    memory_by_key,
    server_memory,
)
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.status import StatusReply


@dataclass(frozen=True, slots=True)
class Overview:
    """A crawl as it stands."""

    keys: CrawlKeys
    status: StatusReply
    """Generation 0: there is no such crawl."""
    memory: dict[str, int] | None
    """Bytes by key; None if the user may not ask."""
    server: ServerMemory | None

    @property
    def warnings(self) -> list[str]:
        """What a person should know and do, one line each."""
        return warnings_of(self.status, self.server)

    def figures(self, url: str) -> dict[str, Any]:
        """All of it, under stable names; what is not known is None.

        :param url: of the server
        """
        summary, reply = self.status.summary, self.status
        figures = {
            "crawl": self.keys.crawl,
            "prefix": self.keys.prefix,
            "server": masked(url),
            **figures_of(reply),
            "suspects": summary.suspects,
            "best_priority": summary.best_priority,
            "seeding": summary.seeding.value or "none",
            "seed_error": seed_error(reply),
            "seen_set": reply.seen_set or None,
            **pace_figures(reply),
        }
        if reply.seen_set.startswith("bloom"):
            seen_set = SeenSet.parse(reply.seen_set)
            lost = expected_losses(seen_set, summary.seen)
            figures["expected_lost"] = round(lost, 2)
        figures |= {
            "memory_bytes": None if self.memory is None else sum(self.memory.values()),
            "memory_by_key": self.memory,
            "server_memory_bytes": self.server.used if self.server else None,
            "server_maxmemory_bytes": self.server.most if self.server else None,
            "server_policy": (self.server.policy or None) if self.server else None,
            "warnings": self.warnings,
            "worker_list": [worker_figures(one, reply) for one in reply.workers],
        }
        return figures


def look(client: Redis, keys: CrawlKeys) -> Overview:
    """Look at a crawl; changes nothing."""
    status = CrawlState(client, keys).status()
    if not status.generation:
        return Overview(keys, status, None, None)
    return Overview(
        keys,
        status,
        memory_by_key(client, keys, status),
        server_memory(client, keys.named("crawl")),
    )
