"""A worker at a crawl whose server is the reference model, and things that go wrong.

The model is the protocol itself, in this process: a test sees every call, and decides
whether it arrives, whether it is answered, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from scrapy_redis_state.store.errors import (
    CommandFailed,
    RedisStateError,
    Unavailable,
)
from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Operation,
    Reaped,
    Seeding,
    Store,
)
from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.worker import Worker, WorkerOptions
from tests.model.fsck import fsck
from tests.model.server import ModelServer
from tests.model.state import Crawl
from tests.processes import await_until

T = TypeVar("T")

LEASE_SECS = 60.0
JOIN = JoinRequest(
    worker="",
    tunable={"lease_ms": str(int(LEASE_SECS * 1000)), "max_deliveries": "3"},
    seeding=Seeding.DONE,
)


def page(name: str, priority: int = 0, **fields: Any) -> Store:
    """A filtered request; the name is payload and fingerprint."""
    return Store(name.encode(), priority, name.encode(), **fields)


def ack(lease: Lease) -> Ack:
    return Ack(lease.id, lease.batch)


class ModelStore:
    """What a worker needs of the store, on the model."""

    def __init__(self) -> None:
        self.server = ModelServer(now=1_000_000)
        self._began = clock.now()
        self.joins: list[JoinRequest] = []
        self.exchanges: list[ExchangeRequest] = []
        """What arrived, repeated batches too."""
        self.away = False
        """Nothing arrives, and nothing is answered."""
        self.replies_to_lose = 0
        self.chokes_on: Callable[[ExchangeRequest], bool] = lambda _: False
        """Which batches make the script fail before it has changed anything."""
        self.news = asyncio.Event()
        """Set: one worker that listens is told that there is something to do."""
        self._open = asyncio.Event()
        self._open.set()
        self.in_the_air = 0

    @property
    def crawl(self) -> Crawl:
        assert self.server.crawl is not None
        return self.server.crawl

    async def join(self, request: JoinRequest) -> JoinReply:
        return await self._call(self.server.join, request, self.joins)

    async def exchange(self, request: ExchangeRequest) -> ExchangeReply:
        return await self._call(self.server.exchange, request, self.exchanges)

    async def wait_for_work(self) -> bool:
        """Nobody is told anything, unless a test does so."""
        await self.news.wait()
        self.news.clear()
        return True

    async def _call(
        self, function: Callable[[Any], T], request: Any, log: list[Any]
    ) -> T:
        assert not self.in_the_air, "one call in the air at a time"
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("no usable answer from the server (it is away)")
        log.append(request)
        if isinstance(request, ExchangeRequest) and self.chokes_on(request):
            raise CommandFailed("the server rejected a command (ERR x)")
        self.server.now = 1_000_000 + int((clock.now() - self._began) * 1000)
        reply = function(request)
        self.in_the_air += 1
        await self._open.wait()
        self.in_the_air -= 1
        if self.replies_to_lose:
            self.replies_to_lose -= 1
            raise Unavailable("no usable answer from the server (it was lost)")
        return reply

    @contextmanager
    def holding_replies(self) -> Iterator[None]:
        """Whatever is answered stays in the air until the end of the block."""
        self._open.clear()
        yield
        self._open.set()

    def release_one(self) -> None:
        """Let one reply that is held arrive, and hold the next."""
        self._open.set()
        self._open.clear()

    @property
    def operations(self) -> list[Operation]:
        """All that was sent, without repetitions, in order."""
        batches = {(one.worker, one.batch): one.operations for one in self.exchanges}
        return [operation for batch in batches.values() for operation in batch]

    def where(self, lease: Lease) -> str:
        """Name of the place of a request; empty when it is done."""
        places = ("frontier", "delayed", "suspects", "inflight", "dead")
        (place,) = [
            name for name in places if lease.id in getattr(self.crawl, name)
        ] or [""]
        return place

    def fence(self) -> None:
        """More than a lease passes in which nobody beats."""
        self.crawl.clock += int(LEASE_SECS * 1000)


class Owner:
    """Notes what a worker tells its owner."""

    def __init__(self) -> None:
        self.answers: dict[Any, Answer] = {}
        self.ends: list[JoinStatus | RedisStateError] = []
        self.changes = 0
        self.requeued = 0
        self.busy = False

    def changed(self) -> None:
        self.changes += 1

    def answered(self, tag: Any, answer: Answer) -> None:
        assert tag not in self.answers
        self.answers[tag] = answer

    def reaped(self, reaped: Reaped) -> None:
        self.requeued += reaped.requeued

    def ended(self, reason: JoinStatus | RedisStateError) -> None:
        self.ends.append(reason)

    def is_busy(self) -> bool:
        return self.busy


class Fleet:
    """One crawl, and the workers of a test."""

    def __init__(self) -> None:
        self.store = ModelStore()
        self.owner = Owner()

    def push(self, *operations: Store) -> None:
        """Store from outside; the crawl may not be there yet."""
        self.store.server.push(operations, "token of a push")

    @asynccontextmanager
    async def worker(self, **options: Any) -> AsyncIterator[Worker]:
        """A worker that has joined and exchanges; stopped at the end of the block."""
        defaults: dict[str, Any] = {"first_join": JOIN, "lease_secs": LEASE_SECS}
        worker = Worker(self.store, WorkerOptions(**defaults | options), self.owner)
        await worker.join()
        worker.start()
        try:
            yield worker
        finally:
            await worker.stop()
            if self.store.server.crawl is not None:
                assert fsck(self.store.server) == []

    async def take(self, worker: Worker) -> Lease:
        """The next request, as soon as there is one."""
        lease = await await_until(worker.take)
        assert isinstance(lease, Lease)
        return lease

    async def settled(self, worker: Worker) -> None:
        """Everything offered so far is answered."""
        await await_until(lambda: worker.backlog == 0)

    async def exchanged(self, worker: Worker, times: int = 1) -> None:
        """So many more exchanges are answered; the first may be in the air already."""
        wanted = worker.membership.exchanges + times

        def enough() -> bool:
            worker.wake()
            return worker.membership.exchanges >= wanted

        await await_until(enough)
