"""The crawl of a worker on its server: the conversations, run on an asyncio client."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scrapy_redis_state.store import scripts, start_keys
from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.errors import Unavailable
from scrapy_redis_state.store.messages import FIRST_POSITION
from scrapy_redis_state.store.runner import run_and_wait, run_async

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.messages import (
        ExchangeReply,
        ExchangeRequest,
        JoinReply,
        JoinRequest,
        ReapReply,
    )
    from scrapy_redis_state.store.start_keys import Message, Move, TakeReply

T = TypeVar("T")

WAIT_SECS = 2.0
"""How long one call waits to be told of work; less than the client's patience."""


class RedisCrawlStore:
    """What workers and reapers need.

    Every method raises :exc:`.errors.Unavailable` when there was no usable answer (the
    call may have been executed all the same), and other errors of :mod:`.errors`.

    :param listener: another client of the server, to wait with. With the one that calls
        are made with, waiting takes the connection that is open, and the next call has
        to wait for a new one
    """

    def __init__(
        self,
        client: Redis,
        keys: CrawlKeys,
        wait_replicas: int = 0,
        *,
        listener: Redis | None = None,
    ) -> None:
        self._client = client
        self._listener = client if listener is None else listener
        self._keys = keys
        self._wait_replicas = wait_replicas
        self._reap_position = FIRST_POSITION

    async def join(self, request: JoinRequest) -> JoinReply:
        """Enter or re-enter the crawl."""
        return await self._run(scripts.join(self._keys, request))

    async def exchange(self, request: ExchangeRequest) -> ExchangeReply:
        """One round trip of a worker.

        It counts as answered only when as many replicas have it as were asked for.
        """
        call = scripts.exchange(self._keys, request)
        if not self._wait_replicas:
            return await self._run(call)
        with translated():
            reply, replicas = await run_and_wait(
                self._client, call, self._wait_replicas
            )
        if replicas < self._wait_replicas:
            raise Unavailable(
                f"{replicas} replicas have the last exchange, and"
                f" REDIS_STATE_WAIT_REPLICAS = {self._wait_replicas} asks for more"
            )
        return reply

    async def reap(self, limit: int = 100) -> ReapReply:
        """Put back the work of dead workers, and what was delayed."""
        call = scripts.reap(self._keys, limit, self._reap_position)
        reply = await self._run(call)
        self._reap_position = reply.position
        position = reply.tidy
        while position:
            position = await self._run(scripts.tidy(self._keys, position))
        return reply

    async def wait_for_work(self) -> bool:
        """Wait, some seconds at most, until the crawl may have something to do.

        One idle worker is told of each request, on a connection of this call's own.
        """
        listener = self._listener
        limit = listener.connection_pool.connection_kwargs.get("socket_timeout")
        secs = min(WAIT_SECS, limit / 2) if limit else WAIT_SECS
        with translated():
            found = await listener.execute_command(  # type: ignore[no-untyped-call]
                "BLPOP", self._keys.named("wake"), f"{secs:.3f}"
            )
        return found is not None

    async def look(self, keys: Sequence[str], most: int) -> list[Message]:
        """The messages of start keys that are next."""
        return await self._run(start_keys.look(keys, most))

    async def take(self, epoch: int, token: str, moves: Sequence[Move]) -> TakeReply:
        """Move messages of one start key into the crawl."""
        return await self._run(start_keys.take(self._keys, epoch, token, moves))

    async def close(self) -> None:
        """Close the connections."""
        try:
            await self._client.aclose()
        finally:
            if self._listener is not self._client:
                await self._listener.aclose()

    async def _run(self, call: Call[T]) -> T:
        with translated():
            return await run_async(self._client, call)
