"""The outbox: operations not yet stored, in the order in which they must be.

What a page made stands before the page's end, so the server never learns that a page
is done before it has all that the page made. A request that the server has no room for
is *parked*: it leaves the order, so that other pages go on, and the end of its page is
kept back until it is stored.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    Check,
    Claim,
    Operation,
    PageEnd,
    Release,
    Seeded,
    Store,
    StoreDead,
)

if TYPE_CHECKING:
    from scrapy_redis_state.worker.lease import Lease

MAX_OPERATIONS = 500
MAX_BYTES = 512 * 1024
"""What one exchange carries at most (one operation is always sent, however large)."""

ENOUGH_ENDS = 12
"""Ends of pages that are sent without waiting for more."""

FULL_OPERATIONS = 10_000
FULL_BYTES = 16 * 1024 * 1024
"""Above this no new page is started: the server is too slow for what pages make."""

_OVERHEAD = 64


def _size(operation: Operation) -> int:
    if isinstance(operation, Store | StoreDead):
        return len(operation.payload) + _OVERHEAD
    if isinstance(operation, Ack | Seeded):
        return sum(map(len, operation.seen)) + _OVERHEAD
    return _OVERHEAD


@dataclass(slots=True, eq=False)
class Entry:
    """An operation on its way."""

    operation: Operation
    lease: Lease | None = None
    """The page it belongs to, or ends."""
    tag: Any = None
    """Whatever the owner wants back with the answer."""
    was_parked: bool = False

    @property
    def end(self) -> PageEnd | None:
        """The operation, if it ends a page."""
        operation = self.operation
        if isinstance(operation, PageEnd):
            return operation
        return None

    @property
    def is_loose(self) -> bool:
        """The server may refuse it, and no lease stands for it then."""
        return self.lease is None and isinstance(
            self.operation, Store | StoreDead | Claim
        )


class Outbox:
    """Operations waiting, in the air, and parked."""

    def __init__(self) -> None:
        self._waiting: deque[Entry] = deque()
        self._later: list[Entry] = []
        self._frozen: list[Entry] = []
        self._parked: deque[Entry] = deque()
        self._bytes = 0
        self._alone = 0
        self._ends = 0
        self._priorities: Counter[int] = Counter()
        self._best: int | None = None

    def __len__(self) -> int:
        here = len(self._waiting) + len(self._later)
        return here + len(self._frozen) + len(self._parked)

    @property
    def waiting(self) -> int:
        """How many operations are a reason for a batch."""
        return len(self._waiting)

    @property
    def parked(self) -> int:
        return len(self._parked)

    @property
    def is_worth_sending(self) -> bool:
        """Whether enough waits for a round trip of its own."""
        return self._ends >= ENOUGH_ENDS or len(self._waiting) >= MAX_OPERATIONS

    @property
    def is_full(self) -> bool:
        return len(self) >= FULL_OPERATIONS or self._bytes >= FULL_BYTES

    @property
    def best_priority(self) -> int | None:
        """Of the requests that are on their way to the frontier; None without any."""
        # Asked with each request of each page; the best leaves once in a while.
        if self._best is None:
            self._best = max(self._priorities, default=None)
        return self._best

    def add(self, entry: Entry) -> None:
        self._bytes += _size(entry.operation)
        if isinstance(entry.operation, Store):
            priority = entry.operation.priority
            self._priorities[priority] += 1
            if self._best is not None and priority > self._best:
                self._best = priority
        self._ends += entry.end is not None
        self._waiting.append(entry)

    def add_later(self, entry: Entry) -> None:
        """Send it with the next batch: it is itself no reason for one."""
        self._later.append(entry)

    def freeze(self) -> Sequence[Entry]:
        """The next batch, the same until :meth:`settle` or :meth:`rejoined`."""
        if self._frozen:
            return self._frozen
        for entry in self._later:
            self.add(entry)
        self._later = []
        if self._parked:
            self._frozen.append(self._parked.popleft())
        size = 0
        limit = 1 if self._alone else MAX_OPERATIONS
        while self._waiting and len(self._frozen) < limit:
            entry = self._waiting[0]
            size += _size(entry.operation)
            if size > MAX_BYTES and self._frozen:
                break
            self._waiting.popleft()
            self._ends -= entry.end is not None
            if entry.end is not None and entry.lease and entry.lease.waits_for > 0:
                # A request of this page was refused since the end was put here.
                entry.lease.end_with(entry.end)
                self._bytes -= _size(entry.operation)
                continue
            self._frozen.append(entry)
        return self._frozen

    def end(self, lease: Lease, end: PageEnd) -> None:
        """End a page, now or when all that it waits for is settled."""
        lease.end_with(end)
        if not lease.waits_for:
            self.add(Entry(lease.take_end(), lease))

    def settled(self, lease: Lease) -> None:
        """One of the requests that a page waited for is stored, done, or given up."""
        lease.waits_for -= 1
        if lease.is_over and lease.end is not None and not lease.waits_for:
            self.add(Entry(lease.take_end(), lease))

    def settle(self, answers: Sequence[Answer]) -> list[tuple[Entry, Answer]]:
        """Take the answers to the frozen batch; returns what was decided by them."""
        batch, self._frozen = self._frozen, []
        self._alone = max(0, self._alone - len(batch))
        decided: list[tuple[Entry, Answer]] = []
        for entry, answer in zip(batch, answers, strict=True):
            self._arrived(entry)
            if answer is Answer.REFUSED:
                self._park(entry)
                continue
            self._bytes -= _size(entry.operation)
            if answer is Answer.WITHHELD:
                assert entry.lease is not None
                assert entry.end is not None
                self.end(entry.lease, entry.end)
                continue
            if entry.was_parked and entry.lease is not None:
                self.settled(entry.lease)
            decided.append((entry, answer))
        return decided

    def _arrived(self, entry: Entry) -> None:
        # A parked one has arrived before: nothing waits for what finds no room.
        if isinstance(entry.operation, Store) and not entry.was_parked:
            priority = entry.operation.priority
            self._priorities[priority] -= 1
            if not self._priorities[priority]:
                del self._priorities[priority]
                if priority == self._best:
                    self._best = None

    def _park(self, entry: Entry) -> None:
        if entry.lease is not None and not entry.was_parked:
            entry.lease.waits_for += 1
        entry.was_parked = True
        self._parked.append(entry)

    def rejoined(self) -> None:
        """The worker has a new identity: only new requests are worth sending again.

        Leases and the seeding token are gone, and ``start()`` begins anew.
        """
        entries = [*self._frozen, *self._parked, *self._waiting, *self._later]
        self.clear()
        for entry in entries:
            operation = entry.operation
            if isinstance(operation, Check):
                if not entry.tag.is_made_again:
                    self.add(entry)
            elif isinstance(operation, Claim):
                self.add(Entry(operation))
            elif isinstance(operation, StoreDead) or (
                isinstance(operation, Store) and not operation.seed
            ):
                # The page it belonged to may come back, as another page.
                self.add(Entry(operation._replace(page=""), tag=entry.tag))

    def isolate(self) -> Entry | None:
        """The frozen batch made the script fail: find the operation to blame.

        Answers it, taken out, if it was alone. Otherwise all that now wait are to be
        sent one by one.
        """
        if len(self._frozen) == 1 and self._alone:
            self._alone -= 1
            return self._frozen.pop()
        self._alone = len(self)
        return None

    def give_up_parked(self) -> int:
        """On leaving: hand back the pages whose requests found no room.

        Returns how many parked requests belonged to no page and are lost.
        """
        parked, self._parked = self._parked, deque()
        lost = 0
        for entry in parked:
            lease = entry.lease
            if lease is None or lease.stale:
                lost += 1
            else:
                lease.end_with(Release(lease.id, lease.batch))
                self.settled(lease)
        return lost

    def clear(self) -> None:
        self._waiting.clear()
        self._later = []
        self._frozen = []
        self._parked.clear()
        self._priorities.clear()
        self._best = None
        self._bytes = self._ends = 0
