"""The crawl as the server has it, read beside the workers and without their help."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.waiting import ScenarioError
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import sync_client, translated
from scrapy_redis_state.store.keys import CrawlKeys

if TYPE_CHECKING:
    from scrapy_redis_state.store.messages import Summary


class CrawlView:
    """Reads one crawl; ``scrapy_redis_state.store.keys`` describes its keys.

    While it is open an embedded server runs.

    :raises ScenarioError: the URL cannot be used
    :raises RedisStateError: there is no server
    """

    def __init__(self, url: str, prefix: str, crawl: str) -> None:
        keys = CrawlKeys(crawl, prefix)
        self._prefix, self._leases = prefix, keys.named("leases")
        try:
            self._client: Any = sync_client(url)
        except ValueError as error:
            raise ScenarioError(f"--url: {error}") from None
        self._state = CrawlState(self._client, keys)
        with translated():
            self._client.ping()

    def exists(self) -> bool:
        """Tell whether the server has the crawl."""
        return self._state.status().generation > 0

    def summary(self) -> Summary:
        """Count what waits, what is held, and what is done."""
        return self._state.status().summary

    def leases(self, pid: int | None = None) -> set[str]:
        """Return the leases of the worker with this process id, or of all.

        Two round trips are made first. What a stopped worker had sent is older than
        both, so the server has handled it when the leases are read.
        """
        self._state.status()
        workers = {
            worker.id.encode()
            for worker in self._state.status().workers
            if pid in (None, json.loads(worker.info).get("pid"))
        }
        with translated():
            leases: dict[bytes, bytes] = self._client.hgetall(self._leases)
        return {
            f"{request.decode()} {lease.decode()}"
            for request, lease in leases.items()
            if lease.rpartition(b":")[0] in workers
        }

    def remove(self) -> None:
        """Delete everything of this crawl; all of it begins with its prefix."""
        with translated():
            for key in self._client.scan_iter(match=f"{self._prefix}*", count=1000):
                self._client.unlink(key)

    def close(self) -> None:
        self._state.close()
