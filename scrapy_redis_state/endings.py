"""What becomes of a request when its page has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.store.messages import (
    Ack,
    Bury,
    Delay,
    Fail,
    Release,
    StoreDead,
)
from scrapy_redis_state.worker.lease import Lease, LocalPage

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from scrapy_redis_state.outcomes import Outcome
    from scrapy_redis_state.requests.serialize import RequestSerializer
    from scrapy_redis_state.store.messages import PageEnd
    from scrapy_redis_state.worker.worker import Worker

RETRY_MS = 1000
"""How long a page that failed waits before it is tried again."""


class Endings:
    """Turns the outcome of a page into what the server is told of it."""

    def __init__(
        self, worker: Worker, serializer: RequestSerializer, stats: StatsCollector
    ) -> None:
        self._worker = worker
        self._serializer = serializer
        self._stats = stats

    def page_ended(self, page: Lease | LocalPage, outcome: Outcome) -> None:
        """(Engine) Report how a page ended to the worker."""
        if isinstance(page, LocalPage):
            self._local_page_ended(page, outcome)
            return
        if page.stale:
            self._stats.inc_value("redis_state/stale")
        self._worker.end(page, self._end(page, outcome))

    def _local_page_ended(self, page: LocalPage, outcome: Outcome) -> None:
        """Its owner is repeated for a failure; what is given up is a dead letter."""
        owner = page.owner if isinstance(page.owner, Lease) else None
        if outcome.kind == "release":
            self._worker.abandon_local(page)
        elif outcome.kind == "fail" and owner is not None:
            self._worker.end_local(page, self._end(owner, outcome))
        else:
            if outcome.kind != "done" and not (owner and owner.stale):
                self._bury_local(page, owner, outcome.reason)
            self._worker.end_local(page, None)

    def _bury_local(self, page: LocalPage, owner: Lease | None, reason: str) -> None:
        self._stats.inc_value("redis_state/dead")
        described = self._serializer.describe(page.request)
        self._worker.offer(StoreDead(described, reason, page.priority), owner)

    def _end(self, lease: Lease, outcome: Outcome) -> PageEnd:
        id, batch, reason = lease.id, lease.batch, outcome.reason
        if outcome.kind == "done":
            return Ack(id, batch)
        if outcome.kind == "release":
            return Release(id, batch)
        if outcome.kind == "delay":
            return Delay(id, batch, outcome.delay_ms)
        # Repeating a page that made requests which nothing filters would multiply them
        # without end, if it always fails.
        if outcome.kind == "fail" and not lease.stored_unfiltered:
            self._stats.inc_value("redis_state/failed")
            return Fail(id, batch, outcome.delay_ms or RETRY_MS, reason)
        self._stats.inc_value("redis_state/dead")
        return Bury(id, batch, reason)
