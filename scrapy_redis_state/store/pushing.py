"""Many pushes in a row, so that neither the program nor the server waits for the other.

Some calls are on their way before the first of them is answered, on one connection,
which keeps their order. While the server is at one, the next is made ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from redis.exceptions import NoScriptError

from scrapy_redis_state.store.cluster import ClusterClient
from scrapy_redis_state.store.messages import Answer, Store
from scrapy_redis_state.store.runner import run_steps
from scrapy_redis_state.store.steps import BATCH, were_new
from scrapy_redis_state.store.translate import translated

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.call import Call
    from scrapy_redis_state.store.scripts import PushReply
    from scrapy_redis_state.store.steps import CrawlSteps

T = TypeVar("T")

AHEAD = 4
"""Calls under way: one that the server is at, and those that it finds there next."""


def batches(requests: Iterable[T]) -> Iterator[list[T]]:
    """As many at a time as one call to the server carries."""
    remaining = iter(requests)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def push_in_order(
    client: Redis, steps: CrawlSteps, requests: Iterable[Store]
) -> Iterator[list[bool]]:
    """Push requests, which are read while others are pushed.

    :return: of each call, in their order: for each request, whether it was new
    :raises RedisStateError: see :class:`~.state.CrawlState`; the requests of up to
        :data:`AHEAD` calls, of which no answer was returned, may be stored or not
    """
    count = 0
    with closing(_answers(client, steps, batches(requests))) as answered:
        for answers in answered:
            yield were_new(answers, count)
            count += len(answers)


def _answers(
    client: Redis, steps: CrawlSteps, remaining: Iterator[list[Store]]
) -> Generator[tuple[Answer, ...]]:
    # The first begins the crawl, where there is none, loads the script, and learns the
    # epoch and the seen set: those after it would come in vain. A cluster may send a
    # call from one node to the other, so there all of them wait for their replies.
    is_cluster = isinstance(client, ClusterClient)
    for batch in remaining if is_cluster else islice(remaining, 1):
        yield run_steps(client, steps.push_batch(batch))
    second = next(remaining, None)
    if second is None:  # as of most pushes
        return
    line = _Line(client, steps)
    try:
        yield from line.push(chain([second], remaining))
    finally:
        line.close()


class _Sent(NamedTuple):
    batch: list[Store]
    call: Call[PushReply]


class _Line:
    """One connection, and the calls on it that are not answered yet."""

    def __init__(self, client: Redis, steps: CrawlSteps) -> None:
        self._client = client
        self._steps = steps
        with translated():
            # Of one connection, which it takes from the pool until it is closed.
            self._single: Redis = client.client()  # type: ignore[no-untyped-call]
            assert self._single.connection is not None
        self._connection = self._single.connection
        self._unanswered: deque[_Sent] = deque()

    def close(self) -> None:
        """Give the connection back; after an error, replies to come go nowhere."""
        if self._unanswered:
            self._connection.disconnect()
        self._single.close()

    def push(self, batches: Iterable[list[Store]]) -> Iterator[tuple[Answer, ...]]:
        """Send them; yields the answers to each."""
        for batch in batches:
            # What is stored each time must not go after a call that finds no room, to
            # be sent again with the rest.
            ahead = AHEAD if all(one.fingerprint for one in batch) else 1
            while len(self._unanswered) >= ahead:
                yield from self._oldest()
            self._send(batch)
        while self._unanswered:
            yield from self._oldest()

    def _send(self, batch: list[Store]) -> None:
        call = self._steps.push_call(batch)
        self._unanswered.append(_Sent(batch, call))
        with translated():
            self._connection.send_command(
                "EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args
            )

    def _oldest(self) -> Iterator[tuple[Answer, ...]]:
        """Read what is said to the oldest call, and, if it was in vain, to all.

        One that was in vain changed nothing, and most likely those after it were, too:
        so all of them are made again, one after the other.
        """
        answers = self._read(self._unanswered[0])
        if answers is not None:
            self._unanswered.popleft()
            yield answers
            return
        _, *others = self._unanswered
        replies = [None, *map(self._read, others)]
        sent = list(self._unanswered)
        self._unanswered.clear()
        for (batch, _), answers in zip(sent, replies, strict=True):
            if answers is not None:
                yield answers
            else:
                yield run_steps(self._client, self._steps.push_batch(batch))

    def _read(self, sent: _Sent) -> tuple[Answer, ...] | None:
        with translated():
            try:
                reply = sent.call.read(self._connection.read_response())
            except NoScriptError:  # SCRIPT FLUSH
                return None
        return self._steps.pushed(reply)
