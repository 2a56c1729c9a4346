"""Sends calls about sessions together, one round trip at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.worker import clock

logger = logging.getLogger(__name__)

RunTogether = Callable[[Sequence[Call[Any]]], Awaitable[list[Any]]]

BATCH = 1000
"""Calls in one round trip, at most."""


@dataclass(slots=True, eq=False)
class Sending:
    """A call on its way."""

    call: Call[Any]
    answered: Callable[[Any], None]
    """Given the reply or the error; answers come in the order of their calls."""
    sent_at: float = math.inf
    """By the worker's clock; infinite before it is sent."""


class Sender:
    """A queue of calls; with one round trip in the air, replies come in order.

    :param run: sends calls in order, and returns for each its reply or its error
    """

    def __init__(self, run: RunTogether) -> None:
        self._run = run
        self._queue: list[Sending] = []
        self._task: asyncio.Task[None] | None = None

    def send(self, call: Call[Any], answered: Callable[[Any], None]) -> Sending:
        """Send a call with the next round trip."""
        sending = Sending(call, answered)
        self._queue.append(sending)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all())
        return sending

    async def close(self) -> None:
        """Send no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _send_all(self) -> None:
        try:
            await asyncio.sleep(0)  # all that this turn of the event loop wants
            while self._queue:
                batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
                now = clock.now()
                for sending in batch:
                    sending.sent_at = now
                answers = await self._answers([sending.call for sending in batch])
                for sending, answer in zip(batch, answers, strict=True):
                    self._tell(sending, answer)
        finally:
            self._task = None

    def _tell(self, sending: Sending, answer: Any) -> None:
        try:
            sending.answered(answer)
        except Exception:
            logger.exception("A fault in an answer about a session")

    async def _answers(self, calls: list[Call[Any]]) -> list[Any]:
        try:
            return await self._run(calls)
        except RedisStateError as error:
            return [error] * len(calls)
        except Exception as error:  # noqa: BLE001 - a fault here must fail no page
            return [RedisStateError(f"a fault in a call: {error!r}")] * len(calls)
