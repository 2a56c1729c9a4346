"""A worker that does nothing but talk to the server, in the protocol's own terms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from benchmarks.sample import fingerprint
from scrapy_redis_state.store import runner, scripts
from scrapy_redis_state.store.keys import FIRST_EPOCH, CrawlKeys
from scrapy_redis_state.store.messages import (
    Ack,
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    Operation,
    Popped,
    Seeding,
    Status,
    Store,
)
from scrapy_redis_state.worker.membership import ENTERED

PAYLOAD = bytes(range(190))
"""As large as a typical request, see docs/explanation/memory."""

ALL_AT_ONCE = 500
"""Operations of one exchange at most, as workers send them."""


def first_join(name: str, keys: CrawlKeys, lease_secs: float = 60) -> JoinRequest:
    """What a worker called *name* says first."""
    return JoinRequest(
        worker=name,
        identity={"seen": keys.seen_set.spec},
        tunable={"lease_ms": str(int(lease_secs * 1000)), "max_deliveries": "3"},
        new_token="token",  # noqa: S106 - of a generation, not a secret
        seeding=Seeding.DONE,
    )


class Conversation:
    """What a worker says and hears, without how it is sent.

    :param joined: the answer to its join
    """

    def __init__(self, name: str, joined: JoinReply) -> None:
        assert joined.status in ENTERED, joined
        self.name = name
        self._token = joined.token
        self._stamp = joined.stamp
        self._batch = 0

    def request(
        self, operations: Sequence[Operation], want: int, *, busy: bool = False
    ) -> ExchangeRequest:
        """The next exchange."""
        return ExchangeRequest(
            worker=self.name,
            token=self._token,
            batch=self._batch + 1,
            last_stamp=self._stamp,
            epoch=FIRST_EPOCH,
            operations=tuple(operations),
            want=want,
            busy=busy,
        )

    def heard(self, reply: ExchangeReply) -> list[Popped]:
        """Note an answer; the requests that came with it."""
        assert reply.status is Status.OK, reply
        self._batch += 1
        self._stamp = reply.stamp
        return list(reply.popped)

    def acks(self, pages: Sequence[Popped]) -> list[Ack]:
        """The ends of pages that came with the last answer."""
        return [Ack(page.id, self._batch) for page in pages]


class SyncWorker:
    """One worker on a blocking client."""

    def __init__(self, client: Any, keys: CrawlKeys, name: str = "worker") -> None:
        self._client = client
        self._keys = keys
        joined = runner.run(client, scripts.join(keys, first_join(name, keys)))
        self.talk = Conversation(name, joined)

    def exchange(self, operations: Sequence[Operation], want: int = 0) -> list[Popped]:
        """One round trip; the requests that came."""
        call = scripts.exchange(self._keys, self.talk.request(operations, want))
        return self.talk.heard(runner.run(self._client, call))


class Links:
    """Requests for pages: new ones, and such as were asked for before."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._made = 0

    def new(self, count: int) -> list[Store]:
        """Requests that were never made."""
        self._made += count
        return [
            Store(PAYLOAD, 0, fingerprint(next(self._numbers))) for _ in range(count)
        ]

    def old(self, count: int, start: int) -> list[Store]:
        """Requests that were made, others for each *start*."""
        return [
            Store(PAYLOAD, 0, fingerprint((start * count + n) % self._made))
            for n in range(count)
        ]
