"""The server's side of the protocol: what each call does, as one atomic step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scrapy_redis_state.store.messages import (
    Answer,
    Claim,
    CrawlStatus,
    ExchangeReply,
    ExchangeRequest,
    Forget,
    Popped,
    Reaped,
    ReapReply,
    Status,
    Store,
    StoreDead,
)
from tests.model.joining import Joining
from tests.model.operations import Operations
from tests.model.state import Crawl, Record

BOUND = 100
"""How many delayed and how many leased requests an exchange looks at."""

FORGET_AFTER_LEASES = 10


class CrawlFinishedError(Exception):
    """A push to a finished crawl whose id was given: nothing was done."""


class ModelServer(Joining, Operations):
    """One crawl on one server, whose keys nobody else touches.

    No time passes but what the owner sets, and no call is refused but by its own
    answer, so that ``copy.deepcopy`` is a snapshot to which a server can be rolled
    back. Keys of a wrong type are outside the model.
    """

    # --- exchange --------------------------------------------------------------------

    def exchange(self, request: ExchangeRequest) -> ExchangeReply:
        """One batch of one worker.

        :raises ScriptError: as ``fail_after`` says
        """
        self._expire()
        crawl = self.crawl
        if crawl is None or crawl.token != request.token:
            return ExchangeReply(Status.REJOIN)
        if request.epoch == crawl.epoch:
            self._rotate(crawl)
        self._advance_clock(crawl)
        refusal = self._check(request, crawl)
        if refusal is not None:
            return self._without_effect(refusal, crawl)
        record = crawl.workers[request.worker]
        record.batch, record.reply = request.batch, None
        done_before = crawl.done
        answers = self._operate(request.worker, request.operations)
        record.done += crawl.done - done_before
        record.beat, record.busy = crawl.clock, request.busy
        self._promote(crawl, BOUND)
        reaped = self._reap(crawl, BOUND)
        self._grant_seed_token(request, crawl)
        popped: tuple[Popped, ...] = ()
        if request.leaving:
            self._sign_off(request, crawl)
        else:
            popped = self._pop(request, crawl)
        record.stamp = self._new_stamp(crawl)
        summary = self._summary(request.worker)
        record.reply = ExchangeReply(
            Status.OK, record.stamp, answers, popped, reaped, summary
        )
        return record.reply

    def _check(self, request: ExchangeRequest, crawl: Crawl) -> ExchangeReply | None:
        """What is answered instead of running the batch; None if it runs."""
        status = None
        record = crawl.workers.get(request.worker)
        finished = crawl.status is CrawlStatus.FINISHED
        if record is None or finished or not crawl.live(request.worker):
            status = Status.REJOIN
        elif request.epoch != crawl.epoch:
            status = Status.EPOCH
        elif request.batch == record.batch:
            return self._stored_reply(record, request.worker, crawl)
        elif request.batch < record.batch:
            status = Status.OLD
        elif not self._is_next(request, record):
            status = Status.REJOIN
        if status is None:
            return None
        return ExchangeReply(status, summary=self._summary(request.worker))

    def _is_next(self, request: ExchangeRequest, record: Record) -> bool:
        """Whether worker and server agree on what came before this batch.

        They do not after a rollback of the server.
        """
        return request.batch == record.batch + 1 and request.last_stamp == record.stamp

    def _stored_reply(
        self, record: Record, worker: str, crawl: Crawl
    ) -> ExchangeReply | None:
        """The answer to a batch that was run before: what it popped may be gone."""
        summary = self._summary(worker)
        if record.reply is None:
            return ExchangeReply(Status.BROKEN, summary=summary)
        popped = tuple(
            Popped(one.id, crawl.requests[one.id].encode())
            for one in record.reply.popped
            if self._holds(worker, one.id, record.batch, crawl)
        )
        return replace(record.reply, popped=popped, reaped=Reaped(), summary=summary)

    def _pop(self, request: ExchangeRequest, crawl: Crawl) -> tuple[Popped, ...]:
        if crawl.status is not CrawlStatus.RUNNING or request.want < 1:
            return ()
        places = self._places(crawl)
        if crawl.suspect:
            if crawl.suspect_taker == request.worker:
                return ()  # what it does to its worker, it does to itself alone
        elif self._takes_suspects(request.worker, crawl):
            if not request.idle:
                return ()
            suspect = places.pop(crawl.suspects, request.worker, request.batch)
            crawl.suspect = suspect.id if suspect else ""
            return (suspect,) if suspect else ()
        count = min(request.want, len(crawl.frontier))
        popped = [
            places.pop(crawl.frontier, request.worker, request.batch)
            for _ in range(count)
        ]
        return tuple(one for one in popped if one is not None)

    def _takes_suspects(self, worker: str, crawl: Crawl) -> bool:
        """Whether this worker is the one that runs suspects, and nothing beside."""
        if not crawl.suspects:
            return False
        if crawl.suspect_taker != worker and crawl.live(crawl.suspect_taker):
            return False
        crawl.suspect_taker = worker
        return True

    def _sign_off(self, request: ExchangeRequest, crawl: Crawl) -> None:
        self._close_record(request.worker, crawl)
        waits = crawl.keep_alive and not request.ends
        if not waits and not crawl.live_workers() and crawl.is_complete():
            self._finish(crawl, self.now)

    # --- those who run crawls --------------------------------------------------------

    def set_status(self, wanted: CrawlStatus) -> CrawlStatus | None:
        """Pause, drain, or have it go on; the status before, if there is a crawl."""
        self._expire()
        crawl = self.crawl
        if crawl is None:
            return None
        before = crawl.status
        held = before is CrawlStatus.DRAINING and wanted is CrawlStatus.PAUSED
        if before is not CrawlStatus.FINISHED and not held:
            crawl.status = wanted
        return before

    # --- reap and push ---------------------------------------------------------------

    def reap(self, limit: int = BOUND) -> ReapReply:
        """Put back what dead workers held and what was delayed, *limit* of each."""
        self._expire()
        crawl = self.crawl
        if crawl is None or crawl.status is CrawlStatus.FINISHED:
            return ReapReply()
        self._advance_clock(crawl)
        promoted = self._promote(crawl, limit)
        reaped = self._reap(crawl, limit)
        for worker, record in list(crawl.workers.items()):
            if record.beat + FORGET_AFTER_LEASES * crawl.lease_ms <= crawl.clock:
                self._forget(worker, crawl)
        return ReapReply(*reaped, promoted, summary=self._summary())

    def push(
        self,
        operations: Sequence[Store | StoreDead | Claim | Forget],
        new_token: str = "",
        seen: str = "exact",
    ) -> list[Answer]:
        """Store from outside a worker, in the next generation if this one is finished.

        :param new_token: token of the generation, should this open one
        :param seen: its seen set, then
        :raises CrawlFinishedError: if it is finished and its id was given
        """
        self._expire()
        crawl = self.crawl
        finished = crawl is not None and crawl.status is CrawlStatus.FINISHED
        if operations and all(isinstance(one, Forget) for one in operations):
            finished = False  # no reason to begin a generation
        if crawl is not None and finished and crawl.given:
            raise CrawlFinishedError
        if crawl is None or finished:
            self._open_generation(new_token)
        self._crawl().identity.setdefault("seen", seen)
        self._rotate(self._crawl())
        return list(self._operate("", operations))

    def _promote(self, crawl: Crawl, limit: int) -> int:
        """Hand out again what was delayed, and say how many."""
        places = self._places(crawl)
        due = _due(crawl.delayed, self.now, limit)
        for id in due:
            places.promote(id)
        return len(due)

    def _reap(self, crawl: Crawl, limit: int) -> Reaped:
        """Take back what is not renewed."""
        places = self._places(crawl)
        requeued = buried = 0
        for id in _due(crawl.inflight, crawl.clock, limit):
            renewed = self._renewed_until(id, crawl)
            if renewed > crawl.clock:
                crawl.inflight[id] = renewed
            elif places.lose(id):
                buried += 1
            else:
                requeued += 1
        return Reaped(requeued, buried)

    def _renewed_until(self, id: str, crawl: Crawl) -> int:
        """A beat renews all that its worker holds, without touching any of it."""
        lease = crawl.leases.get(id)
        record = crawl.workers.get(lease.worker) if lease else None
        return record.beat + crawl.lease_ms if record else 0


def _due(times: dict[str, int], now: int, limit: int) -> list[str]:
    """The ids whose time has come, longest due first."""
    due = sorted((time, id) for id, time in times.items() if time <= now)
    return [id for _, id in due[:limit]]
