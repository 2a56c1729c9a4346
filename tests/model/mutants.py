"""Servers and workers with one fault each, which the schedules must find."""

# ruff: noqa: ARG002 - a fault often is what is not looked at

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from scrapy_redis_state.store.messages import (
    Answer,
    CrawlStatus,
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    Operation,
    PageEnd,
    Popped,
    Store,
)
from tests.model import places
from tests.model.places import Places
from tests.model.server import ModelServer
from tests.model.state import Crawl, Record
from tests.model.worker import Item, ModelWorker, Page


class NoLeaseCheck(ModelServer):
    def _holds(self, worker: str, id: str, batch: int, crawl: Crawl) -> bool:
        return id in crawl.requests


class NoStoredReply(ModelServer):
    def _stored_reply(
        self, record: Record, worker: str, crawl: Crawl
    ) -> ExchangeReply | None:
        return None


class ReapIgnoresBeats(ModelServer):
    def _renewed_until(self, id: str, crawl: Crawl) -> int:
        return 0


class DrainedIgnoresBusy(ModelServer):
    def _is_drained(self, crawl: Crawl) -> bool:
        return crawl.is_empty()


class SignOffFinishesOthers(ModelServer):
    def _sign_off(self, request: ExchangeRequest, crawl: Crawl) -> None:
        self._close_record(request.worker, crawl)
        if crawl.is_complete():
            self._finish(crawl, self.now)


class DrainingIsTheEnd(ModelServer):
    def _sign_off(self, request: ExchangeRequest, crawl: Crawl) -> None:
        drains = crawl.status is CrawlStatus.DRAINING
        if drains:
            crawl.status = CrawlStatus.RUNNING
        super()._sign_off(request, crawl)
        if drains and crawl.status is CrawlStatus.RUNNING:
            crawl.status = CrawlStatus.DRAINING


class StoppedIsTheEnd(ModelServer):
    def _sign_off(self, request: ExchangeRequest, crawl: Crawl) -> None:
        super()._sign_off(replace(request, ends=True), crawl)


class AckNotWithheld(ModelServer):
    def _is_withheld(self, operation: PageEnd, refused: set[str]) -> bool:
        return False


class RollbackUnnoticed(ModelServer):
    def _is_next(self, request: ExchangeRequest, record: Record) -> bool:
        return True


class StampsIgnored(ModelServer):
    def _is_next(self, request: ExchangeRequest, record: Record) -> bool:
        return request.batch == record.batch + 1


class NoFence(ModelServer):
    def _check(self, request: ExchangeRequest, crawl: Crawl) -> ExchangeReply | None:
        record = crawl.workers.get(request.worker)
        if record is not None:
            record.beat = crawl.clock
        return super()._check(request, crawl)


class RejoinedCountsAsIdle(ModelServer):
    def join(self, request: JoinRequest) -> JoinReply:
        reply = super().join(request)
        record = self.crawl.workers.get(request.worker) if self.crawl else None
        if record is not None and not record.batch:
            record.busy = False
        return reply


class SeedsNotRemembered(ModelServer):
    def _store(self, worker: str, store: Store) -> Answer:
        if self.crawl:
            self.crawl.seeds = set()
        return super()._store(worker, store)


class ClockRunsThroughOutages(ModelServer):
    def _advance_clock(self, crawl: Crawl) -> None:
        self._before = (crawl.clock, crawl.last_time)
        crawl.clock += max(0, self.now - crawl.last_time)
        crawl.last_time = self.now


class SuspectInCompany(ModelServer):
    def _pop(self, request: ExchangeRequest, crawl: Crawl) -> tuple[Popped, ...]:
        taker = crawl.suspect_taker
        if crawl.suspect:
            crawl.suspect_taker = ""
        popped = super()._pop(replace(request, idle=True), crawl)
        crawl.suspect_taker = crawl.suspect_taker or taker
        return popped


class AckBeforeStores(ModelWorker):
    def _end(self, page: Page, end: Operation) -> None:
        pages = [item.page for item in self.outbox]
        place = pages.index(page) if page in pages else len(pages)
        self.outbox.insert(place, Item(end, page))


class AckPassesParked(ModelWorker):
    def _must_wait(self, item: Item, page: Page) -> bool:
        return False


class SeededTooEarly(ModelWorker):
    def _seeding_done(self, items: Sequence[Item]) -> list[Item]:
        done = self.start is not None and self.start.end
        return [Item(done)] if done else []


class RefusedIsForgotten(ModelWorker):
    def _is_busy(self, items: list[Item]) -> bool:
        return super()._is_busy([])


class OldLeasesByWorker(ModelServer):
    """Forgets which batch popped a request, and lets an identity come back."""

    def join(self, request: JoinRequest) -> JoinReply:
        if self.crawl and request.previous == request.worker:
            self._close_record(request.worker, self.crawl)
        return super().join(request)

    def _holds(self, worker: str, id: str, batch: int, crawl: Crawl) -> bool:
        lease = crawl.leases.get(id)
        return lease is not None and lease.worker == worker


class RejoinKeepsAcking(ModelWorker):
    """Comes back under its old identity and reports the pages of before."""

    def _new_id(self) -> str:
        self.life += 1
        return self.id

    def _rejoin(self, frozen: list[Item]) -> None:
        ends = [item for item in [*frozen, *self.outbox] if item.page is not None]
        super()._rejoin(frozen)
        self.outbox += [
            Item(item.operation)
            for item in ends
            if not isinstance(item.operation, Store)
        ]

    def end_page(self, page: Page, end: Operation) -> None:
        super().end_page(page, end)
        if page.stale:
            self.outbox.append(Item(end))


class KnowsAfterRejoin(ModelWorker):
    """Takes for seen what a server that was set back may not have seen."""

    def _know_nothing(self) -> None:
        pass


class PatientPlaces(Places):
    def _wait_for_others(
        self, id: str, worker: str, delay_ms: int, reason: str
    ) -> None:
        if reason == places.UNKNOWN:
            self.crawl.delayed[id] = self.now + delay_ms
        else:
            super()._wait_for_others(id, worker, delay_ms, reason)


class WaitsForNobody(ModelServer):
    """Does not notice that those who could have run a request are gone."""

    places = PatientPlaces


class Mutant(NamedTuple):
    fault: str
    kind: str
    """The kind of schedules in which it shows most."""
    server: type[ModelServer] = ModelServer
    worker: type[ModelWorker] = ModelWorker


MUTANTS = (
    Mutant("no lease check on ack", "any", NoLeaseCheck),
    Mutant("ack sent before its page's stores", "harmless", worker=AckBeforeStores),
    Mutant("no stored reply", "harmless", NoStoredReply),
    Mutant("reap ignores beats", "harmless", ReapIgnoresBeats),
    Mutant("drained ignores busy workers", "talk", DrainedIgnoresBusy),
    Mutant("sign-off finishes while others live", "harmless", SignOffFinishesOthers),
    Mutant("a crawl that drains is finished", "harmless", DrainingIsTheEnd),
    Mutant("a stopped worker ends what is kept alive", "talk", StoppedIsTheEnd),
    Mutant("ack not withheld beside a refused child", "full", AckNotWithheld),
    Mutant("ack sent while a child is parked", "full", worker=AckPassesParked),
    Mutant("rejoin keeps acking", "any", OldLeasesByWorker, RejoinKeepsAcking),
    Mutant("seeded before all is stored", "harmless", worker=SeededTooEarly),
    Mutant("start requests not remembered", "killers", SeedsNotRemembered),
    Mutant("rollback goes unnoticed", "failover", RollbackUnnoticed),
    Mutant("stamps ignored", "failover", StampsIgnored),
    Mutant("pages known after a rejoin", "failover", worker=KnowsAfterRejoin),
    Mutant("dead worker goes on", "old code", NoFence),
    Mutant("clock runs through outages", "harmless", ClockRunsThroughOutages),
    Mutant("rejoined worker counts as idle", "talk", RejoinedCountsAsIdle),
    Mutant("refused request makes nobody busy", "talk", worker=RefusedIsForgotten),
    Mutant("suspect in company", "killers", SuspectInCompany),
    Mutant("handed back to workers that are gone", "old code", WaitsForNobody),
)
