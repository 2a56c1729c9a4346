"""Run a script call on a client; scripts are run nowhere else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from redis.exceptions import NoPermissionError, NoScriptError

from scrapy_redis_state.store.cluster import AsyncClusterClient
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.rights import refusal
from scrapy_redis_state.store.translate import translate, translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from scrapy_redis_state.store.call import Call
    from scrapy_redis_state.store.steps import Steps

T = TypeVar("T")


def run(client: Redis, call: Call[T]) -> T:
    """Run *call* and wait for its reply.

    :raises Refused: if the user may not; with what is missing in its ACL
    """
    try:
        return call.read(_evaluate(client, call))
    except NoPermissionError as error:
        raise refusal(error, client, call.keys) from None


def run_steps(client: Redis, steps: Steps[T]) -> T:
    """Run a conversation to its end, and return its result."""
    reply: Any = None
    while True:
        try:
            call = steps.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result
        with translated():
            reply = run(client, call)


def _evaluate(client: Redis, call: Call[T]) -> Any:
    arguments: list[Any] = [len(call.keys), *call.keys, *call.args]
    try:
        return client.evalsha(call.script.sha, *arguments)
    except NoScriptError:  # a new server, or SCRIPT FLUSH
        return client.eval(call.script.text, *arguments)


async def run_async(client: AsyncRedis, call: Call[T]) -> T:
    """Run *call* and await its reply."""
    arguments: list[Any] = [len(call.keys), *call.keys, *call.args]
    try:
        reply = await client.evalsha(call.script.sha, *arguments)
    except NoScriptError:  # a new server, or SCRIPT FLUSH
        reply = await client.eval(call.script.text, *arguments)
    return call.read(reply)


async def run_together(client: AsyncRedis, calls: Sequence[Call[Any]]) -> list[Any]:
    """Run calls in their order, in one round trip; their replies, or their errors.

    All of it may be run twice, so that the order is kept whatever the server forgot:
    for calls that change nothing when they are repeated.

    :raises RedisStateError: if there is no reply at all
    """
    if isinstance(client, AsyncClusterClient):
        return await _run_by_key(client, calls)
    with translated():
        replies = await _run_pipeline(client, calls, "EVALSHA")
        if any(isinstance(reply, NoScriptError) for reply in replies):
            replies = await _run_pipeline(client, calls, "EVAL")
    return [_read(call, reply) for call, reply in zip(calls, replies, strict=True)]


async def _run_pipeline(
    client: AsyncRedis, calls: Sequence[Call[Any]], command: str
) -> list[Any]:
    async with client.pipeline(transaction=False) as pipeline:
        for call in calls:
            script = call.script.sha if command == "EVALSHA" else call.script.text
            pipeline.execute_command(
                command, script, len(call.keys), *call.keys, *call.args
            )
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
    return replies


async def _run_by_key(client: AsyncRedis, calls: Sequence[Call[Any]]) -> list[Any]:
    """On a cluster, where each key may be on another node; in order for each key."""
    replies: list[Any] = [None] * len(calls)
    by_key: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        by_key.setdefault(call.keys[0], []).append(index)

    async def run_some(indexes: list[int]) -> None:
        for index in indexes:
            try:
                with translated():
                    replies[index] = await run_async(client, calls[index])
            except RedisStateError as error:
                replies[index] = error

    await asyncio.gather(*map(run_some, by_key.values()))
    return replies


def _read(call: Call[Any], reply: Any) -> Any:
    return translate(reply) if isinstance(reply, Exception) else call.read(reply)


WAIT_MS = 2000
"""How long the server waits for its replicas."""


async def run_and_wait(
    client: AsyncRedis, call: Call[T], replicas: int
) -> tuple[T, int]:
    """Run *call* and wait until *replicas* have what it wrote; how many have it.

    Both go in one round trip, on one connection: the server waits for the writes of
    the connection that asks.
    """
    arguments: list[Any] = [len(call.keys), *call.keys, *call.args]
    for command, script in (("EVALSHA", call.script.sha), ("EVAL", call.script.text)):
        async with client.pipeline(transaction=False) as pipeline:
            pipeline.execute_command(command, script, *arguments)
            pipeline.execute_command("WAIT", replicas, WAIT_MS)
            reply, waited = await pipeline.execute(raise_on_error=False)
        if not isinstance(reply, NoScriptError):
            break
    for answer in (reply, waited):
        if isinstance(answer, Exception):
            raise answer
    return call.read(reply), int(waited)
