"""The worker: everything one process does in a shared crawl, behind plain methods.

The synchronous methods touch memory only (:mod:`.stock`). One asyncio task talks to the
server: it freezes a batch, sends it until it is answered, applies the answer, and waits
for a reason to do so again. One exchange is in the air at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrapy_redis_state.store.errors import CommandFailed, RedisStateError
from scrapy_redis_state.store.messages import (
    Answer,
    JoinReply,
    JoinRequest,
    Status,
    Store,
    StoreDead,
)
from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.idle_log import IdleLog
from scrapy_redis_state.worker.membership import ENTERED, CrawlStore, Membership
from scrapy_redis_state.worker.outbox import Entry
from scrapy_redis_state.worker.patience import Patience
from scrapy_redis_state.worker.stall import StallWatch
from scrapy_redis_state.worker.stock import Listener, Stock
from scrapy_redis_state.worker.wake import WakeWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

BEAT_SECS = 1.0
"""Every worker makes an exchange at least this often."""
IDLE_SECS = 0.3
"""As often (with jitter) does one that has nothing to do look for work, unless nobody
has any and the server tells it of more."""
LINGER_SECS = 0.004
"""How long operations wait for others to share their round trip."""
CALM_LINGER_SECS = 0.25
"""As long do those that nobody waits for, since the frontier has enough to do. A crash
repeats the pages that ended meanwhile, ``outbox.ENOUGH_ENDS`` at most."""
STOP_PATIENCE_SECS = 10.0
"""How long a stopping worker tries to reach the server; its leases then expire."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker behaves. Times in seconds."""

    first_join: JoinRequest
    """What the first join says; identities, tokens, host and pid are filled in."""
    lease_secs: float = 60.0
    prefetch: int = 16
    outage_secs: float = 600.0
    can_seed: bool = False
    """The owner can run ``start()``, and so takes the seeding token when it is free."""
    keep_alive: bool = False
    """Stay when the crawl has nothing left to do, for what others push."""
    idle_secs: float = 0
    """So long at most; 0: for ever."""


class Worker(Stock):
    """One worker of one crawl.

    :param store: where the crawl's state is
    :param options: see :class:`WorkerOptions`
    :param listener: told of everything that happens
    """

    def __init__(
        self, store: CrawlStore, options: WorkerOptions, listener: Listener
    ) -> None:
        patience = Patience(options.outage_secs, options.lease_secs / 8)
        first_join = replace(options.first_join, seeder=options.can_seed)
        membership = Membership(store, first_join, patience)
        super().__init__(
            membership,
            listener,
            options.prefetch,
            options.lease_secs,
            keep_alive=options.keep_alive,
            idle_secs=options.idle_secs,
        )
        self._options = options
        # More than one beat must be able to fail before a lease is over.
        self._beat_secs = min(BEAT_SECS, options.lease_secs / 4)
        self._stall_watch = StallWatch(options.lease_secs, self._beat_secs)
        self._idle_log = IdleLog()
        self._watch = WakeWatch(store.wait_for_work, self._is_dry, self._told)
        self._is_told = self._was_told = False
        self._told_at = 0.0
        self._said_busy = False
        self._ends = False
        self._task: asyncio.Task[None] | None = None
        self._wanted_at = clock.now()
        self._stopping = False

    # --- life cycle ---

    @property
    def stalls(self) -> int:
        """How often the event loop stood still for longer than a lease."""
        return self._stall_watch.stalls

    async def join(self) -> JoinReply:
        """Join the crawl.

        :raises Unavailable: if the server does not answer for too long
        """
        reply = await self.membership.join()
        self.is_over = reply.status not in ENTERED
        # If it asked at once it would get nothing, and what start() makes would have to
        # wait until that round trip has ended.
        self._came_up_dry = bool(self.summary.seed_token) and not self.summary.pending
        return reply

    def start(self) -> None:
        """Begin to exchange."""
        self._stall_watch.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, *, ends: bool = False) -> None:
        """Close, flush the outbox, sign off. What still runs is left to expire.

        :param ends: also of a crawl that is kept alive this is the end, if nothing is
            left to do and this is the last worker
        """
        self.close()
        self._ends = ends
        self._stopping = True
        self._wake.set()
        await self._watch.stop()
        if self._task is None:
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._task, STOP_PATIENCE_SECS)
        self._task = None

    async def _run(self) -> None:
        try:
            while not self.is_over:
                await self._wait()
                if self._is_flushed():
                    break
                await self._exchange()
            await self._sign_off()
        except RedisStateError as error:
            self._end(error)
        except Exception as error:
            logger.exception("A fault in the exchange with the server")
            self._end(RedisStateError(f"a fault in the exchange: {error!r}"))
        finally:
            self._stall_watch.stop()

    def _is_flushed(self) -> bool:
        return self._stopping and len(self._outbox) == self._outbox.parked

    async def _sign_off(self) -> None:
        lost = self._outbox.give_up_parked()
        if lost:
            logger.error(
                "%(lost)d requests are lost: the server had no room for them, and they"
                " belong to no page that could be repeated",
                {"lost": lost},
            )
        while not self.is_over and len(self._outbox):
            await self._exchange()
        if not self.is_over:
            # Not answered OK: the server has forgotten this worker, which is as good.
            await self.membership.exchange(leaving=True, ends=self._ends)

    # --- when to exchange ---

    async def _wait(self) -> None:
        # There may be requests that this worker does not get, while it is the suspects'
        # turn: it would be told of them again and again.
        may_listen = not (self._was_told and self.summary.pending)
        while (delay := self._next_at() - clock.now()) > 0:
            # Asked each time: it may have begun the last of what it had just now.
            if may_listen and self._is_dry():
                self._watch.start()
            self._wake.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), delay)

    def _next_at(self) -> float:
        """When the next exchange is due."""
        last = self.membership.sent_at
        hungry = self._needs_more()
        if self._stopping or (hungry and (self._is_told or not self._came_up_dry)):
            return last
        if self._said_busy and self._is_free():
            return last  # the crawl may be waiting for nothing but this
        due = last + self._beat_secs
        if self._is_told:
            # It has just got something else: what it needs then is known when the
            # owner has begun that.
            due = min(due, self._told_at + LINGER_SECS)
        if hungry:
            is_quiet = self.summary.drained and self._watch.is_listening
            pause = self._beat_secs if is_quiet else IDLE_SECS
            # Not all at once: an idle fleet must not come in step.
            due = last + random.uniform(0.5, 1) * pause  # noqa: S311
        if self._outbox.waiting:
            due = min(due, self._waiting_since + self._linger_secs())
        return due

    def _is_free(self) -> bool:
        """Whether nothing here could make a request any more."""
        here = len(self._held) + len(self._stale) + len(self._local) + len(self._outbox)
        return not here and not self._listener.is_busy()

    def _is_dry(self) -> bool:
        """Whether it would do more, and the crawl has nothing for it."""
        # A join does not tell: what is assumed there is for start() alone.
        has_asked = self.membership.exchanges > 0
        return (
            has_asked and self._came_up_dry and self._needs_more() and not self.is_over
        )

    def _told(self) -> None:
        # Also if it has found something by now: then its exchange tells another.
        self._is_told, self._told_at = True, clock.now()
        self._wake.set()

    def _linger_secs(self) -> float:
        if self._listener.is_busy() or self.closing or self._has_urgent():
            return LINGER_SECS
        return min(CALM_LINGER_SECS, self._beat_secs / 2)

    def _needs_more(self) -> bool:
        return not (self.closing or self.is_full) and self._buffer.is_low()

    # --- exchanging ---

    async def _exchange(self) -> None:
        self._was_told, self._is_told = self._is_told, False
        self._hand_back_unwanted()
        batch = self._outbox.freeze()
        want = self._want(batch)
        unsent = len(self._outbox) > len(batch)
        loose = any(entry.is_loose for entry in batch)
        busy = unsent or loose or len(self._local) > 0 or self._listener.is_busy()
        try:
            reply = await self.membership.exchange(
                tuple(entry.operation for entry in batch),
                want=want,
                busy=busy,
                idle=self.holds_nothing_but(batch),
                oldest_ms=self.oldest_ms_but(batch),
                seeder=self._options.can_seed and not self.closing,
            )
        except CommandFailed as error:
            await self._blame(error, sent=len(batch))
        else:
            if reply.status is Status.OK:
                self._said_busy = busy
                self._apply(want, reply)
                self._note_idleness(busy=busy)
            else:
                await self._rejoin(reply.status.value)
        self._listener.changed()

    def _note_idleness(self, *, busy: bool) -> None:
        if not self.closing:
            is_idle = not self.held and not self._stale and not busy
            self._idle_log.look(self.summary, is_idle=is_idle, now=clock.now())

    def _want(self, batch: Sequence[Entry]) -> int:
        if self.closing or self.is_full:
            return 0
        before, self._wanted_at = self._wanted_at, clock.now()
        return self._buffer.want(self._wanted_at - before, self._fair_share(batch))

    def _fair_share(self, batch: Sequence[Entry]) -> int:
        """Its part of what is in the frontier once *batch* is, if all have as much.

        Where many round trips take no time, one, or who comes first would leave nothing
        to those that come a moment later: how much it needs is soon found out.
        """
        if not self._is_far:
            return 1
        stored = sum(isinstance(entry.operation, Store) for entry in batch)
        there = self.summary.pending + stored
        return math.ceil(there / max(1, self.summary.workers))

    async def _blame(self, error: CommandFailed, sent: int) -> None:
        """A batch made the script fail: bury what it chokes on, keep everything else.

        :param sent: number of operations in the batch
        :raises CommandFailed: if no operation is to blame
        """
        culprit = self._outbox.isolate()
        await self._rejoin(str(error))
        if self.is_over or (sent and culprit is None):
            return
        await self.membership.exchange(busy=True)  # fails if no operation is to blame
        if culprit is None:
            return
        logger.error(
            "Given up, since the server cannot process it: %(operation).200r:"
            " %(error)s",
            {"operation": culprit.operation, "error": error},
        )
        if isinstance(culprit.operation, Store):
            if culprit.tag is not None:
                self._listener.answered(culprit.tag, Answer.STALE)
            store = culprit.operation
            letter = StoreDead(store.payload, str(error), store.priority)
            self._outbox.add(Entry(letter))

    async def _rejoin(self, reason: str) -> None:
        """The one way back from everything odd."""
        logger.warning(
            "Worker %(worker)s lost touch with the crawl (%(reason)s) and joins again:"
            " what it runs is finished but done again by others",
            {"worker": self.membership.id, "reason": reason},
        )
        self._lose_touch()
        reply = await self.membership.rejoin()
        if reply.status not in ENTERED:
            self._end(reply.status)
