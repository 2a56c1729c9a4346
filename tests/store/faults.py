"""Clients whose connection breaks when a test says so.

A real client on a real server: what is lost is the reply to a command that the server
has executed, or the command itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio

from scrapy_redis_state.store.client import async_client, sync_client


@dataclass
class Faults:
    """What will go wrong with a client's next call."""

    reply_is_lost: bool = False
    call_is_lost: bool = False

    def lose_reply(self) -> None:
        """Break the connection after the next call is executed."""
        self.reply_is_lost = True

    def lose_call(self) -> None:
        """Break the connection before the next call reaches the server."""
        self.call_is_lost = True

    def loses_this_reply(self) -> bool:
        lost, self.reply_is_lost = self.reply_is_lost, False
        return lost

    def loses_this_call(self) -> bool:
        lost, self.call_is_lost = self.call_is_lost, False
        return lost


def breakable_client(url: str, faults: Faults) -> redis.Redis:
    """The synchronous client of the package, on breakable connections."""
    client = sync_client(url)
    base: Any = client.connection_pool.connection_class

    class Connection(base):  # type: ignore[misc]
        def send_packed_command(self, *args: Any, **options: Any) -> None:
            if faults.loses_this_call():
                self.disconnect()
                raise redis.ConnectionError("lost before the call")
            super().send_packed_command(*args, **options)

        def read_response(self, *args: Any, **options: Any) -> Any:
            reply = super().read_response(*args, **options)
            if faults.loses_this_reply():
                self.disconnect()
                raise redis.ConnectionError("lost before the reply")
            return reply

    client.connection_pool.connection_class = Connection
    return client


def breakable_async_client(url: str, faults: Faults) -> redis.asyncio.Redis:
    """The asyncio client of the package, on breakable connections."""
    client = async_client(url)
    base: Any = client.connection_pool.connection_class

    class Connection(base):  # type: ignore[misc]
        async def send_packed_command(self, *args: Any, **options: Any) -> None:
            if faults.loses_this_call():
                await self.disconnect()
                raise redis.ConnectionError("lost before the call")
            await super().send_packed_command(*args, **options)

        async def read_response(self, *args: Any, **options: Any) -> Any:
            reply = await super().read_response(*args, **options)
            if faults.loses_this_reply():
                await self.disconnect()
                raise redis.ConnectionError("lost before the reply")
            return reply

    client.connection_pool.connection_class = Connection
    return client
