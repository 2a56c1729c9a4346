"""The feeder: has a worker take messages from start keys while it has room for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_redis_state.store.errors import RedisStateError, Unavailable
from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.store.start_keys import Message, Move, TakeReply
from scrapy_redis_state.worker import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_redis_state.store.messages import Answer, Operation
    from scrapy_redis_state.worker.worker import Worker

logger = logging.getLogger(__name__)

IDLE_SECS = 1.0
"""How often keys without messages are looked at, at least (with jitter)."""
FULL_SECS = 0.1
"""How often a worker without room for more asks itself whether it has some."""
FAILED_SECS = 5.0
"""How often keys are looked at where that failed."""


class MessageStore(Protocol):
    """What a feeder needs of the store."""

    async def look(self, keys: Sequence[str], most: int) -> list[Message]: ...

    async def take(
        self, epoch: int, token: str, moves: Sequence[Move]
    ) -> TakeReply: ...


class Intake(Protocol):
    """Makes requests of messages, and is told what became of them."""

    def read(self, message: Message) -> Sequence[tuple[Operation, Any]]:
        """What to store in place of a message, and a tag for each; never raises."""

    def moved(self, message: Message) -> None:
        """What was made of a message is in the crawl."""

    def answered(self, tag: Any, answer: Answer) -> None:
        """What became of one of its requests."""

    def changed(self) -> None:
        """The worker may have something to take, or nothing more to wait for."""


class Feeder:
    """One task that looks at the start keys of a crawl.

    Several workers look at the same messages; the first to have made something of one
    stores it. One that came too late for all waits before it looks again, so that they
    do not all do the same work.

    :param worker: it takes what is brought; this becomes its source
    :param keys: start keys, looked at in this order
    :param batch_size: how many messages are looked at at a time
    :param high_water: number of queued requests above which nothing is taken
    """

    def __init__(
        self,
        worker: Worker,
        store: MessageStore,
        intake: Intake,
        keys: Sequence[str],
        *,
        batch_size: int,
        high_water: int,
    ) -> None:
        self._worker = worker
        self._store = store
        self._intake = intake
        self._keys = keys
        self._batch_size = batch_size
        self._high_water = high_water
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._empty_at: float | None = None
        self._is_failing = False
        self._brought = (0, 0)

    def start(self) -> None:
        """Begin to look."""
        self._worker.source = self
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Look no more. What is on its way is stored, or stays where it is."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def keeps_open(self, *, has_work: bool) -> bool:
        """Whether there may be messages, or requests that were made of some.

        The crawl is not over before each worker has looked once more when there was
        nothing else to do, and has heard after that look that there still is nothing:
        what another took before it is in the crawl by then. So what was in the keys is
        crawled, and what comes later waits for the next run.
        """
        if has_work:
            self._empty_at = None
            return True
        if self._task is None or self._task.done():
            return False
        if self._empty_at is None:
            self._wake.set()
            return True
        membership = self._worker.membership
        if membership.answered_at > self._empty_at:
            return False
        if membership.sent_at <= self._empty_at:
            self._worker.look_again()
        return True

    # --- the task --------------------------------------------------------------------

    async def _run(self) -> None:
        worker = self._worker
        # Before Python 3.11 the client's timeouts may swallow a cancellation.
        while self._task is not None and not (worker.is_over or worker.closing):
            try:
                pause = await self._turn() if self._has_room() else FULL_SECS
                self._is_failing = False
            except RedisStateError as error:
                self._note_failure(error)
                pause = FAILED_SECS
            except Exception:
                logger.exception("A fault in reading start keys; they are tried again")
                pause = FAILED_SECS
            if pause:
                await self._sleep(random.uniform(0.5, 1) * pause)  # noqa: S311
            else:
                await asyncio.sleep(0)

    async def _sleep(self, pause: float) -> None:
        self._wake.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), pause)

    def _has_room(self) -> bool:
        worker = self._worker
        if worker.is_full or worker.is_silent:
            return False
        if worker.summary.status is not CrawlStatus.RUNNING:
            return False
        exchanges, brought = self._brought
        # What was brought since the last answer is not in its numbers.
        if exchanges != worker.membership.exchanges:
            brought = 0
        queued = worker.summary.pending + worker.backlog + brought
        return queued < self._high_water

    async def _turn(self) -> float:
        """Look, and move what is there; how long to wait before the next."""
        messages = await self._store.look(self._keys, self._batch_size)
        if not messages:
            self._note_empty()
            return IDLE_SECS
        self._empty_at = None
        made = [self._intake.read(message) for message in messages]
        moves = [
            Move(message, [operation for operation, _ in pairs])
            for message, pairs in zip(messages, made, strict=True)
        ]
        reply = await self._take(moves)
        if reply.status != "ok":
            return IDLE_SECS
        return self._settle(moves, made, reply)

    async def _take(self, moves: Sequence[Move]) -> TakeReply:
        membership = self._worker.membership
        epoch = membership.summary.epoch
        while True:
            reply = await self._store.take(epoch, membership.token, moves)
            if reply.status == "wrong_type":
                key, kind, expected = reply.wrong
                raise RedisStateError(f"the key {key!r} is a {kind}, not a {expected}")
            if reply.status != "epoch":
                return reply
            epoch = reply.epoch

    def _settle(
        self,
        moves: Sequence[Move],
        made: Sequence[Sequence[tuple[Operation, Any]]],
        reply: TakeReply,
    ) -> float:
        moved = 0
        for move, pairs, answers in zip(moves, made, reply.answers, strict=True):
            if answers is None:
                continue
            moved += 1
            self._intake.moved(move.message)
            for (_, tag), answer in zip(pairs, answers, strict=True):
                self._intake.answered(tag, answer)
        exchanges, brought = self._brought
        now = self._worker.membership.exchanges
        self._brought = (now, moved + (brought if exchanges == now else 0))
        if not moved:
            return IDLE_SECS
        self._worker.look_again()
        return 0.0

    def _note_empty(self) -> None:
        if self._empty_at is None and not self._worker.has_own_work:
            self._empty_at = clock.now()
            self._intake.changed()

    def _note_failure(self, error: RedisStateError) -> None:
        # The worker tells of an outage by itself.
        is_away = isinstance(error, Unavailable)
        told = self._is_failing or is_away
        if not is_away:
            self._note_empty()  # nothing can be got from there
        self._is_failing = True
        logger.log(
            logging.DEBUG if told else logging.WARNING,
            "Start keys are not read now: %(error)s",
            {"error": error},
        )
