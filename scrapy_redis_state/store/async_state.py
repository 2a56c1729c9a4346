"""The crawl's state for asyncio programs that are not Scrapy; see :mod:`.state`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_redis_state.store import endings
from scrapy_redis_state.store.canonical import DEFAULT_RULES, UrlRules
from scrapy_redis_state.store.client import async_client, translated
from scrapy_redis_state.store.dead import dead_filter
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.fsck import check_crawl, read_commands
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.store.operator_steps import OperatorSteps
from scrapy_redis_state.store.runner import run_async
from scrapy_redis_state.store.seen import (
    DEFAULT_CAPACITY,
    DEFAULT_ERROR_RATE,
    SeenSet,
)
from scrapy_redis_state.store.sessions.session import SESSION_TTL_SECS
from scrapy_redis_state.store.sessions.sessions import AsyncSessions

if TYPE_CHECKING:
    from redis.asyncio import Redis as AsyncRedis
    from typing_extensions import Self

    from scrapy_redis_state.store.dead import DeadLetter, Requeued
    from scrapy_redis_state.store.messages import ReapReply, Store
    from scrapy_redis_state.store.requests import LeasedRequest, RequestLike
    from scrapy_redis_state.store.status import StatusReply
    from scrapy_redis_state.store.steps import Steps

T = TypeVar("T")


class AsyncCrawlState:
    """One crawl, in asyncio; an async context manager. See :class:`CrawlState`.

    :param client: from :func:`~.client.async_client`; closed with this object
    :param keys: of the crawl
    :param session_ttl_secs: ``REDIS_STATE_SESSION_TTL_SECS`` of the crawl
    :param rules: which URLs are the same page, ``REDIS_STATE_STRIP_QUERY_PARAMS``
    """

    def __init__(
        self,
        client: AsyncRedis,
        keys: CrawlKeys,
        session_ttl_secs: int = SESSION_TTL_SECS,
        rules: UrlRules = DEFAULT_RULES,
    ) -> None:
        self._client = client
        self._steps = OperatorSteps(keys, rules)
        self.sessions = AsyncSessions(client, keys.prefix, session_ttl_secs)
        """Cookies and what belongs to them, of all sites under the same prefix."""

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        crawl: str,
        prefix: str = "",
        seen: str = "exact",
        seen_capacity: int = DEFAULT_CAPACITY,
        seen_error_rate: float = DEFAULT_ERROR_RATE,
        session_ttl_secs: int = SESSION_TTL_SECS,
    ) -> Self:
        """A connection to *crawl* on the server at *url*, made when first used.

        :param prefix: ``REDIS_STATE_KEY_PREFIX`` of the crawl
        :param seen: ``exact``, ``bloom`` or ``packed``, for a crawl that this program
            begins; with ``exact`` it goes by what it finds, and refuses the others
        :param seen_capacity: ``REDIS_STATE_SEEN_CAPACITY``
        :param seen_error_rate: ``REDIS_STATE_SEEN_ERROR_RATE``
        :param session_ttl_secs: ``REDIS_STATE_SESSION_TTL_SECS`` of the crawl
        :raises ValueError: for a value that cannot be used
        """
        seen_set = SeenSet(seen, seen_capacity, seen_error_rate)
        keys = CrawlKeys(crawl, prefix, seen_set)
        return cls(async_client(url), keys, session_ttl_secs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See :meth:`CrawlState.close`."""
        try:
            await self._run(self._steps.sign_off())
        except RedisStateError:
            pass  # the leases expire
        finally:
            await self._client.aclose()

    async def push(self, request: RequestLike, priority: int | None = None) -> bool:
        """See :meth:`CrawlState.push`."""
        return (await self.push_many([request], priority))[0]

    async def push_many(
        self, requests: Iterable[RequestLike | Store], priority: int | None = None
    ) -> list[bool]:
        """See :meth:`CrawlState.push_many`."""
        return await self._run(self._steps.push_many(requests, priority))

    async def push_message(
        self, message: Mapping[str, Any], priority: int | None = None
    ) -> bool:
        """See :meth:`CrawlState.push_message`."""
        return (await self.push_messages([message], priority))[0]

    async def push_messages(
        self, messages: Iterable[Mapping[str, Any]], priority: int | None = None
    ) -> list[bool]:
        """See :meth:`CrawlState.push_messages`."""
        return await self._run(self._steps.push_messages(messages, priority))

    async def claim(self, url: str) -> bool:
        """See :meth:`CrawlState.claim`."""
        return (await self.claim_many([url]))[0]

    async def claim_many(self, urls: Iterable[str]) -> list[bool]:
        """See :meth:`CrawlState.claim_many`."""
        return await self._run(self._steps.claim_urls(urls))

    async def claim_fingerprint(self, fingerprint: bytes) -> bool:
        """See :meth:`CrawlState.claim_fingerprint`."""
        answers = await self._run(self._steps.claim_many([fingerprint]))
        return answers[0]

    async def forget(self, url: str) -> bool:
        """See :meth:`CrawlState.forget`."""
        return (await self.forget_many([url]))[0]

    async def forget_many(self, urls: Iterable[str]) -> list[bool]:
        """See :meth:`CrawlState.forget_many`."""
        return await self._run(self._steps.forget_urls(urls))

    async def prioritize(self, pattern: str | re.Pattern[str], by: int) -> int:
        """See :meth:`CrawlState.prioritize`."""
        return await self._run(self._steps.prioritize(re.compile(pattern), by))

    async def lease(self, count: int = 1) -> list[LeasedRequest]:
        """See :meth:`CrawlState.lease`."""
        return await self._run(self._steps.lease(count))

    async def ack(self, *leased: LeasedRequest) -> list[bool]:
        """See :meth:`CrawlState.ack`."""
        return await self._run(self._steps.end(leased, endings.ack))

    async def release(self, *leased: LeasedRequest) -> list[bool]:
        """See :meth:`CrawlState.release`."""
        return await self._run(self._steps.end(leased, endings.release))

    async def fail(
        self, leased: LeasedRequest, reason: str, delay_secs: float = 1.0
    ) -> bool:
        """See :meth:`CrawlState.fail`."""
        end = endings.failure(reason, delay_secs)
        return (await self._run(self._steps.end([leased], end)))[0]

    async def bury(self, leased: LeasedRequest, reason: str) -> bool:
        """See :meth:`CrawlState.bury`."""
        return (await self._run(self._steps.end([leased], endings.burial(reason))))[0]

    async def reap(self, limit: int = 100) -> ReapReply:
        """See :meth:`CrawlState.reap`."""
        return await self._run(self._steps.reap(limit))

    async def status(self) -> StatusReply:
        """See :meth:`CrawlState.status`."""
        return await self._run(self._steps.status())

    async def size(self) -> int:
        """See :meth:`CrawlState.size`."""
        return (await self.status()).summary.pending

    async def fsck(self) -> list[str]:
        """See :meth:`CrawlState.fsck`."""
        with translated():
            async with self._client.pipeline(transaction=True) as pipeline:
                for command in read_commands(self._steps.keys):
                    pipeline.execute_command(*command)
                return check_crawl(await pipeline.execute())

    async def reset(self, *, force: bool = False) -> None:
        """See :meth:`CrawlState.reset`."""
        await self._run(self._steps.reset(force=force))

    async def dead_letters(
        self,
        *,
        ids: Collection[str] = (),
        reason: str = "",
        match: str | re.Pattern[str] | None = None,
    ) -> list[DeadLetter]:
        """See :meth:`CrawlState.dead_letters`."""
        wanted = dead_filter(ids, reason, match)
        return await self._run(self._steps.dead_letters(wanted))

    async def requeue_dead(
        self,
        *,
        ids: Collection[str] = (),
        reason: str = "",
        match: str | re.Pattern[str] | None = None,
    ) -> Requeued:
        """See :meth:`CrawlState.requeue_dead`."""
        wanted = dead_filter(ids, reason, match)
        return await self._run(self._steps.requeue_dead(wanted))

    async def drop_dead(
        self,
        *,
        ids: Collection[str] = (),
        reason: str = "",
        match: str | re.Pattern[str] | None = None,
    ) -> int:
        """See :meth:`CrawlState.drop_dead`."""
        wanted = dead_filter(ids, reason, match)
        return await self._run(self._steps.drop_dead(wanted))

    async def pause(self) -> bool:
        """See :meth:`CrawlState.pause`."""
        return await self._run(self._steps.set_status(CrawlStatus.PAUSED))

    async def drain(self) -> bool:
        """See :meth:`CrawlState.drain`."""
        return await self._run(self._steps.set_status(CrawlStatus.DRAINING))

    async def resume(self) -> bool:
        """See :meth:`CrawlState.resume`."""
        return await self._run(self._steps.set_status(CrawlStatus.RUNNING))

    async def peek(self, count: int = 10) -> list[LeasedRequest]:
        """See :meth:`CrawlState.peek`."""
        return await self._run(self._steps.peek(count))

    async def delete(
        self, *, force: bool = False, unused_secs: float = 0, dry_run: bool = False
    ) -> bool:
        """See :meth:`CrawlState.delete`."""
        steps = self._steps.delete(
            force=force, unused_secs=unused_secs, dry_run=dry_run
        )
        return await self._run(steps)

    async def _run(self, steps: Steps[T]) -> T:
        reply: Any = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as stop:
                result: T = stop.value
                return result
            with translated():
                reply = await run_async(self._client, call)
