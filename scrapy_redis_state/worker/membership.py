"""A worker's membership of a crawl: joining, batch numbers, and coming back."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from scrapy_redis_state.store.messages import (
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Operation,
    Status,
    Summary,
)
from scrapy_redis_state.worker import clock

if TYPE_CHECKING:
    from scrapy_redis_state.worker.patience import Patience

ENTERED = (JoinStatus.CREATED, JoinStatus.JOINED, JoinStatus.RESUMED)
"""The answers to a join that made the caller a worker."""


class CrawlStore(Protocol):
    """What a worker needs of the store."""

    async def join(self, request: JoinRequest) -> JoinReply: ...

    async def exchange(self, request: ExchangeRequest) -> ExchangeReply: ...

    async def wait_for_work(self) -> bool: ...


def new_worker_id() -> str:
    """An identity that no other worker has or had."""
    return uuid.uuid4().hex[:12]


class Membership:
    """From a join to a sign-off, with any number of rejoins between.

    A call is repeated until it is answered; the worker id of a join and the batch
    number of an exchange make sure that it takes effect once.
    """

    def __init__(
        self, store: CrawlStore, first_join: JoinRequest, patience: Patience
    ) -> None:
        self._store = store
        self._template = replace(
            first_join,
            worker=first_join.worker or new_worker_id(),
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self._patience = patience
        self._token = ""
        self._batch = 0
        self._stamp = 0
        self.id = ""
        self.generation = 0
        self.summary = Summary()
        """The crawl as of the last answer."""
        self.sent_at = 0.0
        """When the last call was first sent, by the worker's clock."""
        self.answered_at = 0.0
        """``sent_at`` of the last call that was answered: the server has seen this
        worker alive no earlier than then."""
        self.exchanges = 0
        self.rejoins = 0

    @property
    def next_batch(self) -> int:
        return self._batch + 1

    @property
    def token(self) -> str:
        """Of the generation."""
        return self._token

    async def join(self) -> JoinReply:
        """Enter the crawl; with a status outside ``ENTERED``, this is no worker."""
        return await self._join(self._template)

    async def rejoin(self) -> JoinReply:
        """Come back under a new identity; the old one's leases are handed back."""
        self.rejoins += 1
        return await self._join(
            replace(
                self._template,
                worker=new_worker_id(),
                previous=self.id,
                token=self._token,
                generation=self.generation,
                epoch=self.summary.epoch,
                seeder=False,  # it may be closing; if not, the next exchange asks
            )
        )

    async def _join(self, request: JoinRequest) -> JoinReply:
        request = replace(request, new_token=uuid.uuid4().hex)
        while True:
            self.sent_at = clock.now()
            reply = await self._patience.call(partial(self._store.join, request))
            if reply.status is not JoinStatus.EPOCH:
                break
            request = replace(request, epoch=reply.summary.epoch)
        if reply.status in ENTERED:
            self.id = request.worker
            self.generation = reply.generation
            self._token = reply.token
            self._batch, self._stamp = 0, reply.stamp
            self._answered(reply.summary)
        return reply

    async def exchange(
        self,
        operations: tuple[Operation, ...] = (),
        *,
        want: int = 0,
        busy: bool = False,
        idle: bool = False,
        seeder: bool = False,
        leaving: bool = False,
        oldest_ms: int = 0,
        ends: bool = False,
    ) -> ExchangeReply:
        """Send one batch until it is answered.

        With a status other than OK there is no answer to use, and the worker has to
        rejoin (only a BROKEN batch may have been executed, in part).
        """
        request = ExchangeRequest(
            worker=self.id,
            token=self._token,
            batch=self.next_batch,
            last_stamp=self._stamp,
            epoch=self.summary.epoch,
            operations=operations,
            want=want,
            busy=busy,
            idle=idle,
            seeder=seeder,
            leaving=leaving,
            oldest_ms=oldest_ms,
            ends=ends,
        )
        self.sent_at = clock.now()
        while True:
            reply = await self._patience.call(partial(self._store.exchange, request))
            self.exchanges += 1
            if reply.status is not Status.EPOCH:
                break
            request = replace(request, epoch=reply.summary.epoch)
        if reply.status is Status.OK:
            self._batch, self._stamp = request.batch, reply.stamp
            self._answered(reply.summary)
        return reply

    def _answered(self, summary: Summary) -> None:
        self.summary = summary
        self.answered_at = self.sent_at
