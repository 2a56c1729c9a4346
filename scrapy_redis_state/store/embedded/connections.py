"""Connections of redis-py that have the server started when there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import redis
import redis.asyncio

from scrapy_redis_state.store.embedded.attachment import Attachment


class Connection(redis.UnixDomainSocketConnection):
    """Attaches before it connects; :class:`Pool` detaches."""

    def __init__(self, *, attachment: Attachment, **options: Any) -> None:
        self._attachment = attachment
        path = str(attachment.socket)
        super().__init__(path=path, **options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        self._attachment.attach()
        return super()._connect()  # type: ignore[no-untyped-call]


class AsyncConnection(redis.asyncio.UnixDomainSocketConnection):
    """The counterpart for asyncio: waits for a start in a thread."""

    def __init__(self, *, attachment: Attachment, **options: Any) -> None:
        self._attachment = attachment
        super().__init__(path=str(attachment.socket), **options)

    async def _connect(self) -> None:
        # The thread may begin after the client was closed, and must notice.
        now = self._attachment.times_detached
        await asyncio.to_thread(self._attachment.attach, now)
        await super()._connect()  # type: ignore[no-untyped-call]


class Pool(redis.ConnectionPool):
    """Connections that share an attachment, which ends when the client is closed."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        try:
            super().disconnect(inuse_connections)
        finally:
            self.connection_kwargs["attachment"].detach()


class AsyncPool(redis.asyncio.ConnectionPool):
    """The counterpart for asyncio."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        try:
            await super().disconnect(inuse_connections)
        finally:
            self.connection_kwargs["attachment"].detach()
