"""A client of a whole Redis Cluster.

All keys of a crawl are in one slot, and all that this package sends is about one slot:
what is needed is to find the node that has it, and to follow when it moves. redis-py's
own cluster clients do much more, and some of it must not be: they send a script again
whose reply was lost, unless told not to by arguments that differ from version to
version; they connect when they are made; those for asyncio may send ASKING and the
command that it is for on two connections. These here send a command once more only when
a node answered that it did **not** execute it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import redis
import redis.asyncio
from redis import exceptions

from scrapy_redis_state.store.slots import (
    Hop,
    SlotMap,
    redirection,
    refusal_of,
    slot_of,
)
from scrapy_redis_state.store.url import Node

HOPS = 6
"""How often in a row a command may be sent on; more means that nodes disagree."""

_NO_ANSWER = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    OSError,
    EOFError,
    asyncio.TimeoutError,
)


class ClusterClient(redis.Redis):
    """The blocking client. Its commands go to the node that has their first key.

    A command without a key is answered by any node; see :meth:`node_of`.

    :param nodes: some of the cluster, to ask for the others
    :param connect: makes a client of one node
    """

    def __init__(
        self, nodes: Sequence[Node], connect: Callable[[Node], redis.Redis]
    ) -> None:
        self._slots = SlotMap(nodes)
        self._connect = connect
        self._clients: dict[Node, redis.Redis] = {}
        super().__init__(connection_pool=self.client_of(nodes[0]).connection_pool)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        def send(hop: Hop) -> Any:
            client = self.client_of(hop.node)
            if not hop.asking:
                return client.execute_command(*args, **options)  # type: ignore[no-untyped-call]
            with client.pipeline(transaction=False) as pipeline:
                pipeline.execute_command("ASKING")  # type: ignore[no-untyped-call]
                pipeline.execute_command(*args, **options)  # type: ignore[no-untyped-call]
                return _unless_error(pipeline.execute(raise_on_error=False)[1])

        return self.follow(slot_of(args), send)

    def pipeline(
        self, transaction: bool = True, shard_hint: str | None = None
    ) -> redis.client.Pipeline:
        """A pipeline whose commands are all about the slot of its first one."""
        return _Pipeline(self, transaction, shard_hint)

    def node_of(self, key: str) -> redis.Redis:
        """A client of the node that has this key now, for what names no key."""
        self.execute_command("TYPE", key)
        slot = slot_of(("TYPE", key))
        return self.client_of(self._slots.first_hop(slot).node)

    def scan_iter(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Keys of the whole cluster."""
        self.execute_command("PING")
        for node in self._slots.owners:
            yield from self.client_of(node).scan_iter(*args, **options)

    def close(self) -> None:
        """Disconnect from all nodes."""
        for client in self._clients.values():
            client.close()

    def follow(self, slot: int | None, send: Callable[[Hop], Any]) -> Any:
        """The reply of the node that has the slot."""
        if not self._slots.is_known:
            self._discover()
        hop = self._slots.first_hop(slot)
        for _ in range(HOPS):
            try:
                return send(hop)
            except exceptions.ResponseError as error:
                hop = self._slots.next_hop(error, hop)
            except _NO_ANSWER:
                self._slots.failed(hop.node)
                raise
        self._slots.failed(hop.node)
        raise _too_many_hops()

    def _discover(self) -> None:
        last: Exception = exceptions.ClusterDownError("CLUSTERDOWN no node has a slot")
        for node in list(self._slots.nodes):
            try:
                reply = self.client_of(node).execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
                if self._slots.learn(reply, node):
                    return
            except _NO_ANSWER as error:
                self._slots.failed(node)
                last = error
            except exceptions.ResponseError as error:
                raise refusal_of(error) from None
        raise last

    def client_of(self, node: Node) -> redis.Redis:
        """The client of one node."""
        if node not in self._clients:
            self._clients[node] = self._connect(node)
        return self._clients[node]


class AsyncClusterClient(redis.asyncio.Redis):
    """The counterpart of :class:`ClusterClient` for asyncio."""

    def __init__(
        self, nodes: Sequence[Node], connect: Callable[[Node], redis.asyncio.Redis]
    ) -> None:
        self._slots = SlotMap(nodes)
        self._connect = connect
        self._clients: dict[Node, redis.asyncio.Redis] = {}
        super().__init__(connection_pool=self.client_of(nodes[0]).connection_pool)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        async def send(hop: Hop) -> Any:
            client = self.client_of(hop.node)
            if not hop.asking:
                return await client.execute_command(*args, **options)  # type: ignore[no-untyped-call]
            async with client.pipeline(transaction=False) as pipeline:
                pipeline.execute_command("ASKING")
                pipeline.execute_command(*args, **options)
                return _unless_error((await pipeline.execute(raise_on_error=False))[1])

        return await self.follow(slot_of(args), send)

    def pipeline(
        self, transaction: bool = True, shard_hint: str | None = None
    ) -> redis.asyncio.client.Pipeline:
        """A pipeline whose commands are all about the slot of its first one."""
        return _AsyncPipeline(self, transaction, shard_hint)

    async def node_of(self, key: str) -> redis.asyncio.Redis:
        """A client of the node that has this key now, for what names no key."""
        await self.execute_command("TYPE", key)
        slot = slot_of(("TYPE", key))
        return self.client_of(self._slots.first_hop(slot).node)

    async def scan_iter(  # type: ignore[override] # of the blocking client
        self, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """Keys of the whole cluster."""
        await self.execute_command("PING")
        for node in self._slots.owners:
            async for key in self.client_of(node).scan_iter(*args, **options):
                yield key

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Disconnect from all nodes."""
        for client in self._clients.values():
            await client.aclose(close_connection_pool)

    async def follow(self, slot: int | None, send: Callable[[Hop], Any]) -> Any:
        """The reply of the node that has the slot."""
        if not self._slots.is_known:
            await self._discover()
        hop = self._slots.first_hop(slot)
        for _ in range(HOPS):
            try:
                return await send(hop)
            except exceptions.ResponseError as error:
                hop = self._slots.next_hop(error, hop)
            except _NO_ANSWER:
                self._slots.failed(hop.node)
                raise
        self._slots.failed(hop.node)
        raise _too_many_hops()

    async def _discover(self) -> None:
        last: Exception = exceptions.ClusterDownError("CLUSTERDOWN no node has a slot")
        for node in list(self._slots.nodes):
            try:
                reply = await self.client_of(node).execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
                if self._slots.learn(reply, node):
                    return
            except _NO_ANSWER as error:
                self._slots.failed(node)
                last = error
            except exceptions.ResponseError as error:
                raise refusal_of(error) from None
        raise last

    def client_of(self, node: Node) -> redis.asyncio.Redis:
        """The client of one node."""
        if node not in self._clients:
            self._clients[node] = self._connect(node)
        return self._clients[node]


def node_for(client: redis.Redis, key: str) -> redis.Redis:
    """The client of what has this key: of a node, where *client* is of a cluster."""
    return client.node_of(key) if isinstance(client, ClusterClient) else client


class _Pipeline(redis.client.Pipeline):
    """Kept back until it is executed, and then that of one node."""

    def __init__(
        self, cluster: ClusterClient, transaction: bool, shard_hint: str | None
    ) -> None:
        super().__init__(
            cluster.connection_pool, cluster.response_callbacks, transaction, shard_hint
        )
        self._cluster = cluster

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack = list(self.command_stack)
        self.reset()

        def send(hop: Hop) -> list[Any]:
            _refuse_asking(hop)
            node = self._cluster.client_of(hop.node)
            with node.pipeline(self.transaction) as pipeline:
                pipeline.command_stack = list(stack)
                return _unless_moved(pipeline.execute(raise_on_error=False))

        replies: list[Any] = self._cluster.follow(slot_of(stack[0][0]), send)
        return (
            [_unless_error(reply) for reply in replies] if raise_on_error else replies
        )


class _AsyncPipeline(redis.asyncio.client.Pipeline):
    """The counterpart for asyncio."""

    def __init__(
        self, cluster: AsyncClusterClient, transaction: bool, shard_hint: str | None
    ) -> None:
        super().__init__(
            cluster.connection_pool, cluster.response_callbacks, transaction, shard_hint
        )
        self._cluster = cluster

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack = list(self.command_stack)
        await self.reset()  # type: ignore[no-untyped-call]

        async def send(hop: Hop) -> list[Any]:
            _refuse_asking(hop)
            node = self._cluster.client_of(hop.node)
            async with node.pipeline(self.is_transaction) as pipeline:
                pipeline.command_stack = list(stack)
                return _unless_moved(await pipeline.execute(raise_on_error=False))

        replies: list[Any] = await self._cluster.follow(slot_of(stack[0][0]), send)
        return (
            [_unless_error(reply) for reply in replies] if raise_on_error else replies
        )


def _unless_moved(replies: list[Any]) -> list[Any]:
    """Replies of a pipeline, if the node that was asked has the slot."""
    if redirection(replies[0]):  # and so none of it was executed
        raise replies[0]
    return replies


def _refuse_asking(hop: Hop) -> None:
    """Leave for later what is about a slot on its way: ASKING is for one command."""
    if hop.asking:
        raise exceptions.TryAgainError


def _unless_error(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise reply
    return reply


def _too_many_hops() -> Exception:
    return exceptions.ClusterDownError("CLUSTERDOWN nodes disagree who has the crawl")
