"""Join: become a worker of a crawl, or come back as a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scrapy_redis_state.store.messages import (
    CrawlStatus,
    Difference,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Seeding,
)
from tests.model.base import ServerBase
from tests.model.state import Crawl, Record


class Joining(ServerBase):
    """How a worker comes into a crawl. What is refused changes nothing."""

    def join(self, request: JoinRequest) -> JoinReply:
        self._expire()
        if self.crawl is None:
            return self._join_nothing(request)
        if request.epoch != self.crawl.epoch:
            return self._join_reply(JoinStatus.EPOCH)
        record = self.crawl.workers.get(request.worker)
        if record is not None:
            return replace(record.joined, summary=self._summary(request.worker))
        if request.token:
            return self._rejoin(request, self.crawl)
        return self._first_join(request, self.crawl)

    def _join_nothing(self, request: JoinRequest) -> JoinReply:
        if request.token:
            return JoinReply(JoinStatus.LOST)
        if request.dry_run:
            return JoinReply(JoinStatus.CREATED)
        self._open_generation(request.new_token)
        return self._enter(request, JoinStatus.CREATED)

    def _rejoin(self, request: JoinRequest, crawl: Crawl) -> JoinReply:
        if request.token != crawl.token:
            newer = crawl.generation > request.generation
            return self._join_reply(JoinStatus.SUPERSEDED if newer else JoinStatus.LOST)
        self._advance_clock(crawl)
        self._close_record(request.previous, crawl)
        if crawl.status is CrawlStatus.FINISHED:
            return self._join_reply(JoinStatus.FINISHED)
        return self._make_record(request, JoinStatus.JOINED, crawl)

    def _first_join(self, request: JoinRequest, crawl: Crawl) -> JoinReply:
        abandoned = self._is_abandoned(crawl)
        ended_at = crawl.last_time if abandoned else crawl.finished_at
        finished = abandoned or crawl.status is CrawlStatus.FINISHED
        self._advance_clock(crawl)
        if finished and not self._stays_finished(request, ended_at, crawl):
            if request.dry_run:
                return self._without_effect(JoinReply(JoinStatus.CREATED), crawl)
            self._open_generation(request.new_token)
            return self._enter(request, JoinStatus.CREATED)
        must, may = self._differences(request, crawl)
        if must:
            reply = self._join_reply(JoinStatus.MISMATCH, must)
            return self._without_effect(reply, crawl)
        status = JoinStatus.JOINED if crawl.live_workers() else JoinStatus.RESUMED
        if finished:
            status = JoinStatus.FINISHED
        if request.dry_run:
            return self._without_effect(self._join_reply(status, may), crawl)
        if abandoned:
            self._finish(crawl, ended_at)
        if finished:
            return self._join_reply(status, may)
        return self._enter(request, status, may)

    def _is_abandoned(self, crawl: Crawl) -> bool:
        """Everybody left, or died, without seeing that nothing was left to do."""
        return (
            crawl.status is CrawlStatus.RUNNING
            and not crawl.keep_alive
            and crawl.is_complete()
            and self.now - crawl.last_time >= crawl.lease_ms
            # One that was busy may only be late, after an outage.
            and not any(record.busy for record in crawl.workers.values())
        )

    def _stays_finished(
        self, request: JoinRequest, ended_at: int, crawl: Crawl
    ) -> bool:
        """Whether this join is too late for the crawl, and not for its next run."""
        ago = self.now - ended_at
        together = crawl.most_workers > 1 and ago < crawl.lease_ms
        return request.given or request.age_ms >= ago or together

    def _differences(
        self, request: JoinRequest, crawl: Crawl
    ) -> tuple[list[Difference], list[Difference]]:
        """What must agree and does not, and what is only reported."""
        found = _compare(crawl.identity, request.identity)
        must = [one for one in found if one.name not in request.loose]
        may = [one for one in found if one.name in request.loose]
        if crawl.live_workers():
            must += _compare(crawl.tunable, request.tunable)
        return must, may

    def _enter(
        self,
        request: JoinRequest,
        status: JoinStatus,
        differences: Sequence[Difference] = (),
    ) -> JoinReply:
        crawl = self._crawl()
        crawl.given |= request.given
        crawl.identity = request.identity | crawl.identity
        crawl.tunable = crawl.tunable | request.tunable
        return self._make_record(request, status, crawl, differences)

    def _make_record(
        self,
        request: JoinRequest,
        status: JoinStatus,
        crawl: Crawl,
        differences: Sequence[Difference] = (),
    ) -> JoinReply:
        if request.seeding is not Seeding.NONE:
            others = bool(crawl.live_workers()) and crawl.keep_alive
            crawl.keep_alive = others or request.keep_alive
        if crawl.seeding is Seeding.NONE:
            crawl.seeding = request.seeding
        stamp = self._new_stamp(crawl)
        record = Record(JoinReply(status), beat=crawl.clock, stamp=stamp)
        crawl.workers[request.worker] = record
        crawl.most_workers = max(crawl.most_workers, len(crawl.live_workers()))
        self._grant_seed_token(request, crawl)
        record.joined = replace(
            self._join_reply(status, differences),
            summary=self._summary(request.worker),
        )
        return record.joined

    def _join_reply(
        self, status: JoinStatus, differences: Sequence[Difference] = ()
    ) -> JoinReply:
        crawl = self._crawl()
        return JoinReply(
            status,
            crawl.token,
            crawl.generation,
            crawl.stamp,
            tuple(differences),
            self._summary(),
        )


def _compare(stored: dict[str, str], given: dict[str, str]) -> list[Difference]:
    return [
        Difference(name, stored[name], value)
        for name, value in sorted(given.items())
        if stored.get(name, value) != value
    ]
