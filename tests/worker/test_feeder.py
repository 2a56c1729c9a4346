"""A worker that is fed from start keys: when it looks, and when it may leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from scrapy_redis_state.store.errors import Unavailable
from scrapy_redis_state.store.messages import Answer, Operation
from scrapy_redis_state.store.start_keys import Message, Move, TakeReply
from scrapy_redis_state.worker.feeder import Feeder
from scrapy_redis_state.worker.worker import Worker
from tests.processes import await_until
from tests.worker.fleet import Fleet, ack, page

KEY = "start"


class Key:
    """A start key beside the crawl of a fleet, and a spider that reads it.

    A message is the name of a page.
    """

    def __init__(self, fleet: Fleet, *texts: bytes) -> None:
        self.fleet = fleet
        self.texts = list(texts)
        self.looks = 0
        self.away = False
        self.moved_texts: list[bytes] = []

    async def look(self, keys: Sequence[str], most: int) -> list[Message]:
        self.looks += 1
        if self.away:
            raise Unavailable("no usable answer from the server (it is away)")
        return [Message(keys[0], text) for text in self.texts[:most]]

    async def take(self, epoch: int, token: str, moves: Sequence[Move]) -> TakeReply:
        assert token == self.fleet.store.crawl.token
        answers = [
            (Answer.STORED,) if self.take_one(move.message.text) else None
            for move in moves
        ]
        return TakeReply("ok", epoch, tuple(answers))

    def take_one(self, text: bytes) -> bool:
        """Move a message into the crawl; False if it is not there any more."""
        if text not in self.texts:
            return False
        self.texts.remove(text)
        self.fleet.push(page(text.decode()))
        return True

    def read(self, message: Message) -> Sequence[tuple[Operation, Any]]:
        return [(page(message.text.decode()), message.text)]

    def moved(self, message: Message) -> None:
        self.moved_texts.append(message.text)

    def answered(self, tag: Any, answer: Answer) -> None:
        assert (tag, answer) == (self.moved_texts[-1], Answer.STORED)

    def changed(self) -> None:
        """There is no engine to be told."""

    async def looked(self, times: int) -> None:
        """So many more looks have begun."""
        wanted = self.looks + times
        await await_until(lambda: self.looks >= wanted)


@asynccontextmanager
async def fed(
    fleet: Fleet, key: Key, *, batch_size: int = 10, high_water: int = 1000
) -> AsyncIterator[tuple[Worker, Feeder]]:
    """A worker that reads a key, and its feeder."""
    async with fleet.worker() as worker:
        feeder = Feeder(
            worker, key, key, [KEY], batch_size=batch_size, high_water=high_water
        )
        feeder.start()
        try:
            yield worker, feeder
        finally:
            await feeder.stop()


async def finish(fleet: Fleet, worker: Worker, count: int) -> None:
    """Do so many pages."""
    for _ in range(count):
        lease = await fleet.take(worker)
        worker.end(lease, ack(lease))


async def test_messages_are_taken_until_there_are_no_more(fleet):
    """Then, and when nothing else is left to do, the worker may leave."""
    key = Key(fleet, *(b"%d" % number for number in range(25)))
    async with fed(fleet, key) as (worker, _):
        await finish(fleet, worker, 25)
        await await_until(lambda: not worker.has_work)
    assert key.texts == []
    assert len(key.moved_texts) == 25


async def test_a_worker_stays_until_it_has_heard_of_what_it_took(fleet):
    """What it last heard of the crawl is older, and says that nothing is to do."""
    key = Key(fleet)
    async with fed(fleet, key) as (worker, _):
        await await_until(lambda: not worker.has_work)
        with fleet.store.holding_replies():
            await fleet.exchanged(worker, 0)
            key.texts = [b"a"]
            await await_until(lambda: not key.texts)
            assert worker.has_work
            await key.looked(2)
            assert worker.has_work
        await finish(fleet, worker, 1)
        await await_until(lambda: not worker.has_work)


async def test_a_worker_stays_until_it_has_heard_of_what_another_took(fleet):
    """Else a page would be left to one that may have died since."""
    key = Key(fleet, b"a")
    key.away = True
    async with fed(fleet, key) as (worker, _):
        await fleet.exchanged(worker)
        with fleet.store.holding_replies():
            worker.wake()
            await await_until(lambda: fleet.store.in_the_air)
            key.take_one(b"a")
            key.away = False
            assert worker.has_work
            await key.looked(2)
            assert worker.has_work
        await finish(fleet, worker, 1)
        await await_until(lambda: not worker.has_work)
    assert key.moved_texts == []


async def test_a_key_that_cannot_be_looked_at_may_have_messages(fleet):
    """The worker waits for its server as for everything else."""
    key = Key(fleet, b"a")
    key.away = True
    async with fed(fleet, key) as (worker, _):
        await fleet.exchanged(worker, 2)
        assert worker.membership.summary.drained
        assert worker.has_work
        key.away = False
        await await_until(lambda: worker.has_work and not key.texts)
        await finish(fleet, worker, 1)


async def test_nothing_is_taken_while_enough_is_queued(fleet):
    """What was taken since the last answer counts as queued."""
    key = Key(fleet, *(b"%d" % number for number in range(100)))
    async with fed(fleet, key, batch_size=4, high_water=10) as (worker, _):
        with fleet.store.holding_replies():
            await await_until(lambda: len(key.moved_texts) >= 10)
            looks = key.looks
            await fleet.exchanged(worker, 0)
        assert len(key.moved_texts) <= 13
        assert looks <= 4
        await finish(fleet, worker, 100)


async def test_a_worker_that_closes_takes_no_more(fleet):
    """It would only hand it back."""
    key = Key(fleet)
    async with fed(fleet, key) as (worker, feeder):
        await key.looked(1)
        worker.close()
        await feeder.stop()
        key.texts = [b"a"]
    assert key.texts == [b"a"]
