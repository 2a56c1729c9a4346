"""What a worker holds and owes: its part of the work that touches memory only."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_redis_state.store.messages import (
    Answer,
    Bury,
    Check,
    CrawlStatus,
    ExchangeReply,
    JoinStatus,
    Operation,
    PageEnd,
    Popped,
    Reaped,
    Release,
    Seeded,
    SeedFailed,
    Seeding,
    Store,
    StoreDead,
    Summary,
)
from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.buffer import PrefetchBuffer
from scrapy_redis_state.worker.idle_time import IdleTime
from scrapy_redis_state.worker.known import KnownPages
from scrapy_redis_state.worker.lease import BadEntryError, Lease, LocalPage
from scrapy_redis_state.worker.local import LocalPages
from scrapy_redis_state.worker.outbox import Entry, Outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_redis_state.store.errors import RedisStateError
    from scrapy_redis_state.worker.membership import Membership

logger = logging.getLogger(__name__)

NEAR_SECS = 0.005
"""An answer that takes no longer than this costs a crawl nothing that it notices, so
the time for it does not count as waiting."""

_SEEN = (Answer.STORED, Answer.DUPLICATE)


class Listener(Protocol):
    """What a worker tells its owner, always in the event loop."""

    def changed(self) -> None:
        """There may be something to take, or the crawl's state is another."""

    def answered(self, tag: Any, answer: Answer) -> None:
        """What became of a request that was offered."""

    def reaped(self, reaped: Reaped) -> None:
        """What the last exchange took back from dead workers, if anything."""

    def ended(self, reason: JoinStatus | RedisStateError) -> None:
        """The worker is out for good.

        A join was answered FINISHED, SUPERSEDED, LOST or WRONG_TYPE; else what failed.
        """

    def is_busy(self) -> bool:
        """Whether there is work that could make requests, outside leased pages."""


class Source(Protocol):
    """Brings requests into the crawl from elsewhere."""

    def keeps_open(self, *, has_work: bool) -> bool:
        """Whether the worker has to stay.

        :param has_work: whether there is anything to do in any case
        """


class Stock:
    """Leased pages, pages that only this process can run, and operations to send.

    None of its methods waits: the owner of a worker calls them from synchronous code.

    :param membership: the worker's membership of the crawl, for what it last heard
    :param listener: told of everything that happens
    :param prefetch: how many requests are kept ready to be started, see
        :class:`.buffer.PrefetchBuffer`
    :param lease_secs: after so long without an answer, nothing is started
    :param keep_alive: there is always something to do: wait for what others push
    :param idle_secs: but not for longer than so without any work in the crawl; 0: ever
    """

    def __init__(
        self,
        membership: Membership,
        listener: Listener,
        prefetch: int,
        lease_secs: float,
        *,
        keep_alive: bool = False,
        idle_secs: float = 0,
    ) -> None:
        self.membership = membership
        self._listener = listener
        self._lease_secs = lease_secs
        self._buffer = PrefetchBuffer(prefetch)
        self._outbox = Outbox()
        self._local = LocalPages(self._outbox)
        self._known = KnownPages()
        self._held: dict[str, Lease] = {}
        self._stale: set[Lease] = set()
        self._waiting_since = 0.0
        self._applied_at = clock.now()
        self._is_far = False
        self._is_urgent = False
        self._came_up_dry = False
        self._is_refused = False
        self._keep_alive = keep_alive
        self._idle_secs = idle_secs
        self._idle_time = IdleTime()
        self._wake = asyncio.Event()
        self.closing = False
        """Nothing more is started; what was not started is handed back."""
        self.is_over = True
        """Not, or no longer, a worker of the crawl."""
        self.source: Source | None = None
        """Where requests come from that no page makes, if there is such a thing."""

    # --- how it stands ---

    @property
    def summary(self) -> Summary:
        """The crawl as of the last answer."""
        return self.membership.summary

    @property
    def backlog(self) -> int:
        """How many operations are not stored yet."""
        return len(self._outbox)

    @property
    def held(self) -> int:
        """How many requests are leased to this worker."""
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """The outbox is above its mark: make no more for now."""
        return self._outbox.is_full

    @property
    def silence_secs(self) -> float:
        """Since the last call that was answered."""
        return clock.now() - self.membership.answered_at

    @property
    def is_silent(self) -> bool:
        """No answer for a lease: somebody else may be at our pages by now."""
        return self.silence_secs >= self._lease_secs

    @property
    def has_work(self) -> bool:
        """Whether anything is left to do, here or elsewhere in the crawl.

        Or may be, as long as this worker stays for what others push.
        """
        if self.is_over:
            return False
        own = self.has_own_work
        return own if self.source is None else self.source.keeps_open(has_work=own)

    @property
    def has_own_work(self) -> bool:
        """Whether anything is left of what is in the crawl already."""
        if not self.summary.drained or len(self._outbox):
            return True
        return len(self._local) > 0 or self._stays()

    @property
    def is_told_to_end(self) -> bool:
        """The crawl drains: whoever takes part is to end."""
        return self.summary.status is CrawlStatus.DRAINING

    def _stays(self) -> bool:
        """Whether it waits for more in a crawl that has nothing left to do."""
        if not self._keep_alive or self.summary.seeding is Seeding.FAILED:
            return False
        return not self._idle_secs or self._idle_time.secs < self._idle_secs

    # --- what the owner takes and gives ---

    def take(self) -> Lease | LocalPage | None:
        """The next request to start, or None if there is none to start now."""
        if self.closing or self.is_over or self.is_silent or self.is_full:
            return None
        if self._is_held():
            return None
        unsent = self._outbox.best_priority if len(self._local) else None
        page = self._buffer.take(self.summary, unsent)
        if self._buffer.is_low():
            self._wake.set()
        return page

    def is_known(self, fingerprint: bytes) -> bool:
        """Whether the server would call a request a duplicate, as far as known here.

        Not for requests whose answer depends on anything but the seen set.
        """
        return fingerprint in self._known

    def offer(
        self, operation: Store | StoreDead, lease: Lease | None = None, tag: Any = None
    ) -> None:
        """Have a new request stored; the listener is told what became of it.

        :param lease: the page that made it
        :param tag: given back to the listener
        """
        if lease is not None and not lease.is_open:
            lease = None
        if lease is not None:
            operation = operation._replace(page=lease.id)
            if isinstance(operation, Store):
                lease.stored_unfiltered |= not operation.fingerprint
        self._add(Entry(operation, lease, tag))

    def offer_local(self, page: LocalPage) -> None:
        """Run a request that cannot be stored, unless it was seen before.

        The listener is told which.
        """
        if isinstance(page.owner, Lease) and page.owner.stale:
            return  # whoever has its owner now makes it again
        if self.is_over or self.closing:
            self._local.give_up(page)
        elif not self._local.add(page):
            self._listener.answered(page, Answer.DUPLICATE)
        elif page.fingerprint:
            self._add(Entry(Check(page.fingerprint), tag=page))
        else:
            self._accept(page)

    def end(self, lease: Lease, end: PageEnd) -> None:
        """Report how a page ended, after all it made was offered."""
        if lease.is_over:
            return  # handed back meanwhile
        lease.is_over = True
        self._stale.discard(lease)
        if not lease.stale and not self.is_over:
            self._note_waiting()
            self._outbox.end(lease, end)
            self._note_urgency()

    def may_add_to(self, lease: Lease) -> bool:
        """Whether what is made now can be a part of *lease*, a page of this worker."""
        return lease.stale or (lease.is_open and self._held.get(lease.id) is lease)

    def end_local(self, page: LocalPage, end: PageEnd | None) -> None:
        """Report how a local page ended.

        :param end: for the page that it belongs to; None if that need not be repeated
        """
        self._note_waiting()
        self._local.end(page, end)

    def abandon_local(self, page: LocalPage) -> None:
        """Report that a local page was broken off, because this worker closes."""
        self._note_waiting()
        self._local.abandon(page)

    def report(self, operation: Seeded | SeedFailed) -> None:
        """Send the state of seeding."""
        if isinstance(operation, Seeded) and self._held and not self.is_over:
            # Nobody waits for it: the crawl goes on as long as a page is held. A round
            # trip of its own would only hold up what the first pages make.
            self._outbox.add_later(Entry(operation))
        else:
            self._add(Entry(operation))

    def holds_nothing_but(self, batch: Sequence[Entry]) -> bool:
        """Whether nothing runs here once *batch* is through, lost pages included.

        What kills its worker must find nobody else there.
        """
        ending = sum(entry.end is not None for entry in batch)
        return len(self._held) == ending and not self._stale and not len(self._local)

    def oldest_ms_but(self, batch: Sequence[Entry]) -> int:
        """For how long the oldest lease is held that stays after *batch*; 0: none."""
        ending = {entry.end.id for entry in batch if entry.end is not None}
        # In the order in which they came.
        staying = (one for one in self._held.values() if one.id not in ending)
        oldest = next(staying, None)
        return 0 if oldest is None else round(1000 * (clock.now() - oldest.since))

    def wake(self) -> None:
        """Something changed that the next exchange should tell or may bring."""
        self._wake.set()

    def look_again(self) -> None:
        """There is more in the frontier than the last answer said."""
        self._came_up_dry = False
        self._wake.set()

    def _add(self, entry: Entry) -> None:
        if not self.is_over:
            self._note_waiting()
            self._outbox.add(entry)
            self._note_urgency()

    def _note_waiting(self) -> None:
        if not self._outbox.waiting:
            self._waiting_since = clock.now()
            self._is_urgent = False
            self._wake.set()

    def _is_held(self) -> bool:
        """Nothing is started in the whole crawl."""
        return self.summary.status in (CrawlStatus.PAUSED, CrawlStatus.DRAINING)

    def _note_urgency(self) -> None:
        """Wake the exchanges when what waits should wait no longer."""
        if not self._is_urgent and self._has_urgent():
            self._is_urgent = True
            self._wake.set()

    def _has_urgent(self) -> bool:
        """Whether somebody may be waiting for what is in the outbox.

        Nobody is while the frontier has requests, none of them worse than those that
        are on their way to it.
        """
        best = self.summary.best_priority
        if best is None or len(self._local) or self._outbox.is_worth_sending:
            return True
        unsent = self._outbox.best_priority
        return unsent is not None and unsent > best

    # --- handing back ---

    def close(self) -> None:
        """Start nothing more and hand back what was not started."""
        if not self.closing:
            self.closing = True
            self._release(self._buffer.remove_leased())
            for page in self._buffer.remove_local():
                self._local.give_up(page)
            self._wake.set()

    def release_running(self) -> int:
        """Hand back the pages that run, whatever they do from now on; how many."""
        running = [lease for lease in self._held.values() if lease.is_open]
        for lease in running:
            lease.is_over, lease.waits_for = True, 0
            self._outbox.add(Entry(Release(lease.id, lease.batch), lease))
        self._wake.set()
        return len(running)

    def _hand_back_unwanted(self) -> None:
        """What others should have: it lay too long, or something better is waiting."""
        if self.closing or self._is_held():
            self._release(self._buffer.remove_leased())
            return
        old = clock.now() - self._lease_secs
        self._release(self._buffer.remove_older_than(old))
        best = self.summary.best_priority
        if best is not None:
            self._release(self._buffer.remove_worse_than(best))

    def _release(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self.end(lease, Release(lease.id, lease.batch))

    # --- what the server answered ---

    def _apply(self, want: int, reply: ExchangeReply) -> None:
        waited = self._waited_part()
        is_of_now = self._known.follow(reply.summary.seen_version)
        for entry, answer in self._outbox.settle(reply.answers):
            if is_of_now and answer in _SEEN:
                self._remember(entry.operation)
            if entry.end is not None:
                self._held.pop(entry.end.id, None)
            elif isinstance(entry.operation, Check):
                self._checked(entry.tag, answer)
            elif entry.tag is not None:
                self._listener.answered(entry.tag, answer)
        self._note_room()
        for popped in reply.popped:
            self._receive(popped)
        self._listener.reaped(reply.reaped)
        self._idle_time.look(self.summary, self.membership.answered_at)
        # Also if it got the last that there was: the next exchange would bring nothing.
        self._came_up_dry = want > 0 and not (reply.popped and reply.summary.pending)
        self._buffer.refilled(want, len(reply.popped), waited)

    def _waited_part(self) -> float:
        """Which part of the time since the answer before was spent on this one."""
        now = clock.now()
        waited_secs = now - self.membership.sent_at
        since_secs, self._applied_at = now - self._applied_at, now
        self._is_far = waited_secs > NEAR_SECS
        return min(1.0, waited_secs / since_secs) if self._is_far else 0.0

    def _remember(self, operation: Operation) -> None:
        # A start request is a duplicate of what the set of seeds has, and one with a
        # time of its own becomes new without anyone's doing.
        if not isinstance(operation, Store) or operation.seed or operation.revisit_ms:
            return
        if operation.fingerprint:
            self._known.add(operation.fingerprint)

    def _note_room(self) -> None:
        parked = self._outbox.parked
        if bool(parked) == self._is_refused:
            return
        self._is_refused = bool(parked)
        if parked:
            logger.warning(
                "The server has no room (maxmemory): %(count)d requests wait, and the"
                " pages that made them stay open; give it more memory",
                {"count": parked},
            )
        else:
            logger.info("The server has room again")

    def _checked(self, page: LocalPage, answer: Answer) -> None:
        if answer is Answer.DUPLICATE:
            self._local.forget(page)
            self._listener.answered(page, answer)
        elif self.closing:
            self._local.give_up(page)
        else:
            self._accept(page)

    def _accept(self, page: LocalPage) -> None:
        self._buffer.add(page)
        self._listener.answered(page, Answer.STORED)
        self._listener.changed()

    def _receive(self, popped: Popped) -> None:
        batch = self.membership.next_batch - 1
        try:
            lease = Lease.from_popped(popped, batch, clock.now())
        except BadEntryError as error:
            logger.error("Given up: %(error)s", {"error": error})
            lease = Lease(popped.id, batch, 0, 0, popped.entry, clock.now())
            self._held[lease.id] = lease
            self.end(lease, Bury(lease.id, batch, str(error)))
            return
        self._held[lease.id] = lease
        if self.closing:
            self._release([lease])
        else:
            self._buffer.add(lease)

    def _lose_touch(self) -> None:
        """What is leased, and what it made here, belongs to others now."""
        self._known.distrust()
        self._outbox.rejoined()
        unstarted = set(self._buffer.remove_leased())
        for lease in self._held.values():
            lease.stale = True
            if not lease.is_over and lease not in unstarted:
                self._stale.add(lease)
        self._held.clear()
        self._buffer.remove_local(lambda page: page.is_made_again)
        self._local.rejoined()

    def _end(self, reason: JoinStatus | RedisStateError) -> None:
        self.is_over = True
        self._outbox.clear()
        self._buffer.remove_leased()
        self._buffer.remove_local()
        self._local.clear()
        self._listener.ended(reason)
        self._listener.changed()
