"""What all calls to the server share: time, generations, records, and the summary."""

from __future__ import annotations

from typing import TypeVar

from scrapy_redis_state.store.messages import (
    CrawlStatus,
    ExchangeRequest,
    JoinRequest,
    Seeding,
    Summary,
)
from tests.model.places import Places
from tests.model.state import EARLIER_EPOCHS, Crawl

CLOCK_STEP_MS = 5000
"""What the crawl clock advances at most from one call to the next."""

_Reply = TypeVar("_Reply")


class ServerBase:
    """The state of one crawl on one server, and the time there."""

    places: type[Places] = Places

    def __init__(self, now: int = 1) -> None:
        self.now_us = now * 1000
        """The server's time, in µs; may jump, but is never twice the same."""
        self.room = True
        """False: the server is out of memory, and stores nothing new."""
        self.fail_after: int | None = None
        """The next exchange raises :exc:`ScriptError` after so many operations."""
        self.crawl: Crawl | None = None
        """None: no such crawl, or all its keys are gone."""
        self._before = (0, 0)

    @property
    def now(self) -> int:
        """The server's time, in ms."""
        return self.now_us // 1000

    @now.setter
    def now(self, now: int) -> None:
        self.now_us = now * 1000

    def _places(self, crawl: Crawl) -> Places:
        return self.places(crawl, self.now)

    def _crawl(self) -> Crawl:
        assert self.crawl is not None
        return self.crawl

    def _expire(self) -> None:
        if self.crawl is not None and 0 < self.crawl.expires_at <= self.now:
            self.crawl = None

    def _advance_clock(self, crawl: Crawl) -> None:
        """An outage of the server, or a jump of its clock, must not expire a lease."""
        self._before = (crawl.clock, crawl.last_time)
        most = min(CLOCK_STEP_MS, crawl.lease_ms // 2)
        crawl.clock += max(0, min(self.now - crawl.last_time, most))
        crawl.last_time = self.now

    def _without_effect(self, reply: _Reply, crawl: Crawl) -> _Reply:
        """A call that is refused changes nothing, and so does not pass the time."""
        crawl.clock, crawl.last_time = self._before
        return reply

    def _new_stamp(self, crawl: Crawl) -> int:
        """Names one reply, unlike all others, also those of a server rolled back.

        So it must not follow from what the server has stored: one counted up from the
        last would be given again by a server that has lost the newest calls.
        """
        crawl.stamp = self.now_us
        return crawl.stamp

    def _open_generation(self, token: str) -> None:
        """Nothing is left of the generation before but what must never restart."""
        old = self.crawl or Crawl("", generation=0, epoch=0, seen_version=0)
        self.crawl = Crawl(
            token,
            old.generation + 1,
            tunable=dict(old.tunable),
            sequence=old.sequence,
            # None of the epochs before may count in this generation.
            epoch=old.epoch + 1 + (EARLIER_EPOCHS if old.forgets else 0),
            stamp=old.stamp,
            clock=old.clock,
            last_time=self.now,
            epoch_began=self.now,
            seen_version=old.seen_version + 1,
            seed_token=old.seed_token,
        )

    def _rotate(self, crawl: Crawl) -> None:
        """Forget what was seen long ago, where pages are crawled again."""
        if not crawl.epoch_ms or _is_over(crawl):
            return
        over = (self.now - crawl.epoch_began) // crawl.epoch_ms
        count = min(over, EARLIER_EPOCHS + 1)
        if count > 0:
            seen = [set[bytes]()] * (count - 1) + [crawl.seen, *crawl.seen_earlier]
            crawl.seen_earlier = [set(one) for one in seen[:EARLIER_EPOCHS]]
            crawl.seen = set()
            crawl.epoch += count
            crawl.epoch_began = self.now
            crawl.seen_version += 1

    def _finish(self, crawl: Crawl, at: int) -> None:
        crawl.status = CrawlStatus.FINISHED
        crawl.finished_at = at
        if crawl.finished_ttl_ms:
            crawl.expires_at = self.now + crawl.finished_ttl_ms

    def _close_record(self, worker: str, crawl: Crawl) -> None:
        """End a worker: what it held is handed back uncounted."""
        places = self._places(crawl)
        for id in crawl.leased_to(worker):
            places.release(id)
        self._forget(worker, crawl)

    def _forget(self, worker: str, crawl: Crawl) -> None:
        crawl.workers.pop(worker, None)
        if crawl.seed_holder == worker:
            crawl.seed_holder = ""
        if crawl.suspect_taker == worker:
            crawl.suspect_taker = ""

    def _grant_seed_token(
        self, request: JoinRequest | ExchangeRequest, crawl: Crawl
    ) -> None:
        free = not crawl.live(crawl.seed_holder)
        draining = crawl.status is CrawlStatus.DRAINING
        wanted = crawl.seeding is Seeding.OPEN and not draining
        if request.seeder and wanted and free:
            crawl.seed_token += 1
            crawl.seed_holder = request.worker

    def _is_drained(self, crawl: Crawl) -> bool:
        busy = any(crawl.workers[worker].busy for worker in crawl.live_workers())
        return crawl.is_empty() and not busy

    def _summary(self, worker: str = "") -> Summary:
        crawl = self._crawl()
        holds_token = worker and crawl.seed_holder == worker
        return Summary(
            pending=len(crawl.frontier),
            best_priority=max(crawl.frontier.values(), default=None),
            in_flight=len(crawl.inflight),
            delayed=len(crawl.delayed),
            suspects=len(crawl.suspects),
            dead=len(crawl.dead),
            done=crawl.done,
            seeding=crawl.seeding,
            seed_token=crawl.seed_token if holds_token else 0,
            workers=len(crawl.live_workers()),
            status=crawl.status,
            epoch=crawl.epoch,
            drained=self._is_drained(crawl),
            seen=len(crawl.seen),
            seen_version=crawl.seen_version,
        )


def _is_over(crawl: Crawl) -> bool:
    return crawl.status is CrawlStatus.FINISHED
