"""The five places a request can be in, and every way from one to another.

A request is in exactly one of frontier, delayed, suspects, in flight and dead letters.
Its entry stays beside it from the store to the ack, or until it is a dead letter.
"""

from __future__ import annotations

from scrapy_redis_state.store.messages import Popped
from tests.model.state import Crawl, DeadLetter, Entry, Lease

LOST = "its worker died or fell silent"
"""Reason of a dead letter that no worker ever ended."""

NOBODY = "-"
"""In place of a worker that handed it back: the mark of a suspect put off."""

UNKNOWN = "no live worker can run it"

UNKNOWN_RETRY_MS = 5000
"""Until a request comes up again that the popping worker had handed back before."""


class Places:
    """Moves requests of one crawl; *now* is the server's time, in ms."""

    def __init__(self, crawl: Crawl, now: int) -> None:
        self.crawl = crawl
        self.now = now

    # --- in ---

    def store(self, payload: bytes, priority: int) -> None:
        id = self.crawl.new_id()
        self.crawl.requests[id] = Entry(payload, priority)
        self.crawl.frontier[id] = priority

    def store_dead(self, letter: DeadLetter) -> None:
        self._bury(self.crawl.new_id(), letter)

    # --- in flight ---

    def pop(self, place: dict[str, int], worker: str, batch: int) -> Popped | None:
        """Lease the best request of *place*; None if this worker must not have it."""
        id = max(place, key=lambda id: (place[id], id))
        del place[id]
        entry = self.crawl.requests.get(id)
        if entry is None:
            return None
        if worker in entry.handed_back:
            self._wait_for_others(id, worker, UNKNOWN_RETRY_MS, UNKNOWN)
            return None
        self.crawl.leases[id] = Lease(worker, batch)
        self.crawl.inflight[id] = self.crawl.clock + self.crawl.lease_ms
        return Popped(id, entry.encode())

    def ack(self, id: str) -> None:
        self._end_lease(id)
        self.crawl.requests.pop(id, None)
        self.crawl.done += 1

    def release(self, id: str) -> None:
        """Put back as it was: a suspect stays a suspect."""
        suspect = self._end_lease(id)
        self._put_back(id, to_suspects=suspect)

    def lose(self, id: str) -> bool:
        """Count a delivery that its worker did not end; whether that buried it."""
        worker = self._holder(id)
        if not self._end_lease(id):
            # It was not alone with its worker, and need not be what killed it.
            self.crawl.requests[id].deliveries += 1
        elif self._count(id, worker, LOST):
            return True
        last = self.crawl.requests[id].deliveries >= self.crawl.max_deliveries - 1
        self._put_back(id, to_suspects=last)
        return False

    def fail(self, id: str, worker: str, delay_ms: int, reason: str) -> None:
        self._end_lease(id)
        if not self._count(id, worker, reason):
            self.crawl.delayed[id] = self.now + delay_ms

    def put_off(self, id: str, delay_ms: int) -> None:
        """Later, uncounted; a suspect stays one."""
        if self._end_lease(id) and not self.crawl.requests[id].handed_back:
            self.crawl.requests[id].handed_back.append(NOBODY)
        self.crawl.delayed[id] = self.now + delay_ms

    def hand_back(self, id: str, worker: str, delay_ms: int, reason: str) -> None:
        self._end_lease(id)
        self.crawl.requests[id].handed_back.append(worker)
        self._wait_for_others(id, worker, delay_ms, reason)

    def bury(self, id: str, worker: str, reason: str) -> None:
        self._end_lease(id)
        self._bury_request(id, worker, reason)

    # --- waiting ---

    def promote(self, id: str) -> None:
        """To the frontier: its time has come."""
        del self.crawl.delayed[id]
        entry = self.crawl.requests[id]
        last = entry.deliveries >= self.crawl.max_deliveries - 1
        # One that was handed back or put off, unlike one that failed, may be a suspect.
        self._put_back(id, to_suspects=last and bool(entry.handed_back))

    # --- the steps these are made of ---

    def _holder(self, id: str) -> str:
        lease = self.crawl.leases.get(id)
        return lease.worker if lease else ""

    def _end_lease(self, id: str) -> bool:
        """Take it out of flight; whether it was the suspect."""
        self.crawl.inflight.pop(id, None)
        self.crawl.leases.pop(id, None)
        suspect = self.crawl.suspect == id
        if suspect:
            self.crawl.suspect = ""
        return suspect

    def _wait_for_others(
        self, id: str, worker: str, delay_ms: int, reason: str
    ) -> None:
        """Later, to a worker with other code; dead if none is live.

        Asked again at every pop: those that could have run it may be gone by then.
        """
        handed_back = self.crawl.requests[id].handed_back
        if set(self.crawl.live_workers()) <= set(handed_back):
            self._bury_request(id, worker, reason)
        else:
            self.crawl.delayed[id] = self.now + delay_ms

    def _put_back(self, id: str, *, to_suspects: bool) -> None:
        place = self.crawl.suspects if to_suspects else self.crawl.frontier
        place[id] = self.crawl.requests[id].priority

    def _count(self, id: str, worker: str, reason: str) -> bool:
        """Count a delivery; whether it was the last one, which buries the request."""
        entry = self.crawl.requests[id]
        entry.deliveries += 1
        if entry.deliveries < self.crawl.max_deliveries:
            return False
        self._bury_request(id, worker, reason)
        return True

    def _bury_request(self, id: str, worker: str, reason: str) -> None:
        entry = self.crawl.requests.pop(id)
        letter = DeadLetter(
            entry.payload, reason, entry.priority, entry.deliveries, worker
        )
        self._bury(id, letter)

    def _bury(self, id: str, letter: DeadLetter) -> None:
        self.crawl.dead[id] = self.now
        self.crawl.deadinfo[id] = letter
