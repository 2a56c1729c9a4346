"""What becomes of each operation of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    Check,
    Claim,
    Delay,
    Fail,
    Forget,
    HandBack,
    Operation,
    PageEnd,
    Release,
    Seeded,
    SeedFailed,
    Seeding,
    Store,
    StoreDead,
)
from tests.model.base import ServerBase
from tests.model.state import OWN_TIME, Crawl, DeadLetter


class ScriptError(Exception):
    """The script stopped half-way: what it had written stays."""


class Operations(ServerBase):
    """Operations, each answered by itself."""

    def _operate(
        self, worker: str, operations: Sequence[Operation]
    ) -> tuple[Answer, ...]:
        answers: list[Answer] = []
        refused: set[str] = set()
        for number, operation in enumerate(operations):
            if worker and number == self.fail_after:
                self.fail_after = None
                raise ScriptError
            answer = self._operate_one(worker, operation, refused)
            if answer is Answer.REFUSED and isinstance(operation, Store | StoreDead):
                refused.add(operation.page)
            answers.append(answer)
        return tuple(answers)

    def _operate_one(
        self, worker: str, operation: Operation, refused: set[str]
    ) -> Answer:
        if isinstance(operation, Store):
            return self._store(worker, operation)
        if isinstance(operation, StoreDead):
            return self._store_dead(worker, operation)
        if isinstance(operation, Claim | Check | Forget):
            return self._look_up(operation)
        if isinstance(operation, Seeded | SeedFailed):
            return self._end_seeding(worker, operation)
        crawl = self._crawl()
        if not self._holds(worker, operation.id, operation.batch, crawl):
            return Answer.STALE
        if self._is_withheld(operation, refused):
            return Answer.WITHHELD
        self._end_page(worker, operation)
        return Answer.DONE

    def _look_up(self, operation: Claim | Check | Forget) -> Answer:
        if isinstance(operation, Claim):
            return self._claim(operation.fingerprint)
        if isinstance(operation, Forget):
            return self._forget_page(operation)
        is_seen = self._crawl().is_seen(operation.fingerprint)
        return Answer.DUPLICATE if is_seen else Answer.STORED

    def _store(self, worker: str, store: Store) -> Answer:
        crawl = self._crawl()
        token = (worker, store.seed_token)
        if store.seed and token != (crawl.seed_holder, crawl.seed_token):
            return Answer.STALE
        counted = (
            crawl.max_per_site
            and store.revisit_ms
            and store.fingerprint in crawl.revisits
        )
        if self.room and not counted and self._is_full(store.site):
            known = self._is_known(store.fingerprint, store.revisit_ms)
            return Answer.DUPLICATE if known else Answer.LIMITED
        if store.seed and store.seed in crawl.seeds:
            return Answer.DUPLICATE
        if not self.room and store.seed:
            return Answer.REFUSED
        crawl.seeds |= {store.seed} - {b""}
        answer = self._claim(store.fingerprint, store.revisit_ms)
        if answer is Answer.STORED:
            self._places(crawl).store(store.payload, store.priority)
            if not counted:
                epoch = OWN_TIME if store.revisit_ms else crawl.epoch
                crawl.count_page(store.site, epoch, 1)
        return answer

    def _is_full(self, site: str) -> bool:
        crawl = self._crawl()
        limit = crawl.max_per_site
        return bool(site and limit) and sum(crawl.pages_of(site).values()) >= limit

    def _store_dead(self, worker: str, store: StoreDead) -> Answer:
        if not self.room:
            return Answer.REFUSED
        letter = DeadLetter(store.payload, store.reason, store.priority, 0, worker)
        self._places(self._crawl()).store_dead(letter)
        return Answer.STORED

    def _forget_page(self, forget: Forget) -> Answer:
        crawl = self._crawl()
        epochs = []
        for back, seen in enumerate((crawl.seen, *crawl.seen_earlier)):
            if forget.fingerprint in seen:
                seen.discard(forget.fingerprint)
                epochs.append(crawl.epoch - back)
        if crawl.revisits.pop(forget.fingerprint, None) is not None:
            epochs.append(OWN_TIME)
        if not epochs:
            return Answer.STALE
        for epoch in epochs:
            crawl.count_page(forget.site, epoch, -1)
        crawl.seen_version += 1
        return Answer.DONE

    def _is_known(self, fingerprint: bytes, revisit_ms: int = 0) -> bool:
        crawl = self._crawl()
        if revisit_ms:
            return crawl.revisits.get(fingerprint, 0) > self.now
        return crawl.is_seen(fingerprint)

    def _claim(self, fingerprint: bytes, revisit_ms: int = 0) -> Answer:
        """Test and set; an empty fingerprint is always new."""
        crawl = self._crawl()
        if self._is_known(fingerprint, revisit_ms):
            return Answer.DUPLICATE
        if not self.room:
            return Answer.REFUSED
        if fingerprint and revisit_ms:
            crawl.revisits[fingerprint] = self.now + revisit_ms
        elif fingerprint:
            crawl.seen.add(fingerprint)
        return Answer.STORED

    def _end_seeding(self, worker: str, operation: Seeded | SeedFailed) -> Answer:
        crawl = self._crawl()
        token = (worker, operation.seed_token)
        if token != (crawl.seed_holder, crawl.seed_token):
            return Answer.STALE
        crawl.seed_holder = ""
        if isinstance(operation, Seeded):
            crawl.seeding = Seeding.DONE
            crawl.seen |= set(operation.seen)
        else:
            crawl.seed_failures += 1
            if crawl.seed_failures >= crawl.max_deliveries:
                crawl.seeding = Seeding.FAILED
        if crawl.seeding is not Seeding.OPEN:
            crawl.seeds = set()
        return Answer.DONE

    def _holds(self, worker: str, id: str, batch: int, crawl: Crawl) -> bool:
        lease = crawl.leases.get(id)
        return lease is not None and (lease.worker, lease.batch) == (worker, batch)

    def _is_withheld(self, operation: PageEnd, refused: set[str]) -> bool:
        """The end of a page must not overtake what the page made.

        What is handed back, now or for later, may: the page is not over.
        """
        return operation.id in refused and not isinstance(operation, Release | Delay)

    def _end_page(self, worker: str, end: PageEnd) -> None:
        places = self._places(self._crawl())
        if isinstance(end, Ack):
            places.ack(end.id)
            self._crawl().seen |= set(end.seen)
        elif isinstance(end, Fail):
            places.fail(end.id, worker, end.delay_ms, end.reason)
        elif isinstance(end, Release):
            places.release(end.id)
        elif isinstance(end, Delay):
            places.put_off(end.id, end.delay_ms)
        elif isinstance(end, HandBack):
            places.hand_back(end.id, worker, end.delay_ms, end.reason)
        else:
            places.bury(end.id, worker, end.reason)
