"""Connections to the master that Redis Sentinel names, wherever it is just now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.asyncio import sentinel as asyncio_sentinel
from redis.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

if TYPE_CHECKING:
    from scrapy_redis_state.store.url import Address

ANSWER_SECS = 2.0
"""Patience with one Sentinel: the others are asked after it."""


class Pool(SentinelConnectionPool):
    """Connections that ask the Sentinels for the master each time they are made.

    :param options: of connections to the master
    :param sentinel_options: of connections to the Sentinels
    """

    def __init__(
        self,
        address: Address,
        options: dict[str, Any],
        sentinel_options: dict[str, Any],
    ) -> None:
        tls = address.uses_tls
        self._sentinels = Sentinel(  # type: ignore[no-untyped-call]
            list(address.nodes), sentinel_kwargs=_patient(sentinel_options, tls=tls)
        )
        super().__init__(  # type: ignore[no-untyped-call]
            address.master,
            self._sentinels,
            connection_class=(
                SentinelManagedSSLConnection if tls else SentinelManagedConnection
            ),
            **options,
        )

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        if inuse_connections:  # the client is closed; else there is another master
            for client in self._sentinels.sentinels:
                client.close()


class AsyncPool(asyncio_sentinel.SentinelConnectionPool):
    """The counterpart for asyncio."""

    def __init__(
        self,
        address: Address,
        options: dict[str, Any],
        sentinel_options: dict[str, Any],
    ) -> None:
        tls = address.uses_tls
        self._sentinels = asyncio_sentinel.Sentinel(  # type: ignore[no-untyped-call]
            list(address.nodes), sentinel_kwargs=_patient(sentinel_options, tls=tls)
        )
        super().__init__(  # type: ignore[no-untyped-call]
            address.master,
            self._sentinels,
            connection_class=(
                asyncio_sentinel.SentinelManagedSSLConnection
                if tls
                else asyncio_sentinel.SentinelManagedConnection
            ),
            **options,
        )

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for client in self._sentinels.sentinels:
                await client.aclose()


def _patient(options: dict[str, Any], *, tls: bool) -> dict[str, Any]:
    """Keyword arguments of a client of one Sentinel."""
    times = {
        name: min(options[name], ANSWER_SECS)
        for name in ("socket_timeout", "socket_connect_timeout")
    }
    return options | times | {"ssl": tls}
