"""Speaking to a crawl on a real server in the scripts' own terms.

No test waits for a lease to end: :meth:`Crawl.later` moves the crawl clock, and
:meth:`Crawl.ago` the server times that a crawl remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgpack
import redis

from scrapy_redis_state.store import CrawlState, runner, scripts
from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import (
    FIRST_POSITION,
    Ack,
    Answer,
    Bury,
    Delay,
    ExchangeReply,
    ExchangeRequest,
    Fail,
    HandBack,
    JoinReply,
    JoinRequest,
    Operation,
    ReapReply,
    Release,
    Seeding,
    Status,
    Store,
    Summary,
)
from scrapy_redis_state.store.status import StatusReply, status
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.membership import ENTERED

T = TypeVar("T")

LEASE_MS = 10_000
MAX_DELIVERIES = 3
TTL_MS = 60_000
TUNABLE = {
    "lease_ms": str(LEASE_MS),
    "max_deliveries": str(MAX_DELIVERIES),
    "finished_ttl_ms": str(TTL_MS),
}

PLACES = ("frontier", "delayed", "suspects", "inflight", "dead")


def page(name: str, priority: int = 0, **fields: Any) -> Store:
    """A filtered request; the name is payload and fingerprint."""
    return Store(name.encode(), priority, name.encode(), **fields)


def unfiltered(name: str, priority: int = 0, **fields: Any) -> Store:
    return Store(name.encode(), priority, **fields)


def ack(lease: Lease) -> Ack:
    return Ack(lease.id, lease.batch)


ENDS: dict[str, Callable[[str, int], Operation]] = {
    "ack": Ack,
    "fail": lambda id, batch: Fail(id, batch, 0, "it failed"),
    "release": Release,
    "delay": lambda id, batch: Delay(id, batch, 0),
    "hand back": lambda id, batch: HandBack(id, batch, 0, "unknown callback"),
    "bury": lambda id, batch: Bury(id, batch, "given up"),
}
"""What ends a lease, by name."""


class Crawl:
    """One crawl on one server."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        # redis-py's types do not tell bytes from text.
        self.client: Any = client
        self.keys = CrawlKeys(name)
        self._reap_position = FIRST_POSITION

    # --- the scripts -----------------------------------------------------------------

    def run(self, call: Call[T]) -> T:
        return runner.run(self.client, call)

    def join(self, worker: str = "w1", **fields: Any) -> JoinReply:
        """First join, of a spider whose start requests are not this crawl's matter."""
        defaults: dict[str, Any] = {
            "new_token": f"token of {worker}",
            "tunable": TUNABLE,
            "seeding": Seeding.DONE,
        }
        if "epoch" not in fields:
            fields["epoch"] = self.epoch
        return self.run(
            scripts.join(self.keys, JoinRequest(worker, **(defaults | fields)))
        )

    def member(self, worker: str = "w1", **fields: Any) -> Member:
        """A worker that has joined."""
        reply = self.join(worker, **fields)
        assert reply.status in ENTERED, reply
        return Member(self, worker, reply)

    def push(self, *operations: Operation) -> tuple[Answer, ...]:
        """Store from outside a worker, as sent by one that knows the epoch."""
        reply = self.run(
            scripts.push(self.keys, self.epoch, "token of a push", operations)
        )
        if reply.status == "epoch":
            return self.push(*operations)
        assert reply.status == "ok", reply
        return reply.answers

    def finish(self, worker: str = "finisher", **fields: Any) -> None:
        """Do all that is left, and sign off as the last, one second ago."""
        member = self.member(worker, **fields)
        while held := member.take(100):
            member.exchange(*map(ack, held))
        assert member.leave().summary.status == "finished"
        self.ago("finished_at", 1000)

    def reap(self, limit: int = 100) -> ReapReply:
        reply = self.run(scripts.reap(self.keys, limit, self._reap_position))
        self._reap_position = reply.position
        return reply

    def tidy(self) -> None:
        """Have old epochs of the seen set go, as a reaper does."""
        position = self.reap().tidy
        while position:
            position = self.run(scripts.tidy(self.keys, position))

    def status(self) -> StatusReply:
        return self.run(status(self.keys, self.epoch))

    @property
    def summary(self) -> Summary:
        return self.status().summary

    # --- what is stored --------------------------------------------------------------

    def key(self, name: str) -> str:
        return self.keys.seen(self.epoch) if name == "seen" else self.keys.named(name)

    def field(self, name: str) -> str:
        """One field of the crawl hash; empty if it is not there."""
        value: bytes | None = self.client.hget(self.key("crawl"), name)
        return value.decode() if value else ""

    def set(self, **fields: Any) -> None:
        """Write fields of the crawl hash by hand."""
        self.client.hset(self.key("crawl"), mapping=fields)

    @property
    def epoch(self) -> int:
        raw: bytes | None = self.client.hget(self.keys.named("crawl"), "epoch")
        return int(raw or 1)

    def place(self, name: str) -> dict[str, int]:
        """Ids and scores in one of the places."""
        pairs = self.client.zrange(self.key(name), 0, -1, withscores=True)
        return {id.decode(): int(score) for id, score in pairs}

    def where(self, id: str) -> str:
        """Name of the one place that a request is in."""
        found = [name for name in PLACES if id in self.place(name)]
        assert len(found) <= 1, found
        return found[0] if found else ""

    def entry(self, id: str) -> bytes:
        entry: bytes | None = self.client.hget(self.key("requests"), id)
        assert entry is not None, id
        return entry

    def dead_letters(self) -> list[dict[str, Any]]:
        """What is kept about dead letters; payloads are bytes."""
        letters = []
        for packed in self.client.hvals(self.key("deadinfo")):
            letter = {
                name.decode(): value.decode() if isinstance(value, bytes) else value
                for name, value in msgpack.unpackb(packed, raw=True).items()
                if name != b"payload"
            }
            payload = msgpack.unpackb(packed, raw=True)[b"payload"]
            letters.append(letter | {"payload": payload})
        return letters

    def contents(self) -> dict[str, Any]:
        """All that the server keeps, by key."""
        readers: dict[bytes, Any] = {
            b"hash": self.client.hgetall,
            b"list": lambda key: self.client.lrange(key, 0, -1),
            b"set": self.client.smembers,
            b"string": self.client.get,
            b"zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
        }
        keys = sorted(self.client.scan_iter())
        return {key: readers[self.client.type(key)](key) for key in keys}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing on the server is changed inside."""
        before = self.contents()
        yield
        assert self.contents() == before

    def fsck(self) -> list[str]:
        return CrawlState(self.client, self.keys).fsck()

    # --- time ------------------------------------------------------------------------

    def later(self, ms: int = LEASE_MS) -> None:
        """Let time pass on the crawl clock in which nobody beats."""
        self.client.hincrby(self.key("crawl"), "clock", ms)

    def outlive(self, *living: Member) -> None:
        """Let more than a lease pass in which these beat and nobody else does."""
        for _ in range(2):
            self.later(LEASE_MS * 2 // 3)
            for member in living:
                assert member.exchange().status is Status.OK

    def ago(self, field: str, ms: int = LEASE_MS) -> None:
        """Move a server time in the crawl hash into the past."""
        self.client.hincrby(self.key("crawl"), field, -ms)


class Member:
    """A worker that joined, and what it has to remember from call to call."""

    def __init__(self, crawl: Crawl, worker: str, joined: JoinReply) -> None:
        self.crawl = crawl
        self.worker = worker
        self.joined = joined
        self.batch = 0
        self.stamp = joined.stamp
        self.sent = self.request()

    def request(self, *operations: Operation, **fields: Any) -> ExchangeRequest:
        """The next batch, with some fields other than they should be."""
        rightly: dict[str, Any] = {
            "worker": self.worker,
            "token": self.joined.token,
            "batch": self.batch + 1,
            "last_stamp": self.stamp,
            "epoch": self.joined.summary.epoch,
            "operations": operations,
        }
        return ExchangeRequest(**(rightly | fields))

    def send(self, request: ExchangeRequest) -> ExchangeReply:
        """Send a batch and forget the reply, as if it had been lost."""
        return self.crawl.run(scripts.exchange(self.crawl.keys, request))

    def exchange(self, *operations: Operation, **fields: Any) -> ExchangeReply:
        self.sent = self.request(*operations, **fields)
        reply = self.send(self.sent)
        if reply.status is Status.OK:
            self.batch, self.stamp = self.sent.batch, reply.stamp
        return reply

    def answers(self, *operations: Operation, **fields: Any) -> tuple[Answer, ...]:
        """The answers to an exchange that goes well."""
        reply = self.exchange(*operations, **fields)
        assert reply.status is Status.OK, reply
        return reply.answers

    def take(self, count: int = 1, *operations: Operation, **flags: Any) -> list[Lease]:
        """Requests, best first."""
        reply = self.exchange(*operations, want=count, **flags)
        assert reply.status is Status.OK, reply
        return [Lease.from_popped(one, self.batch, 0.0) for one in reply.popped]

    def take_one(self, *operations: Operation, **flags: Any) -> Lease:
        (lease,) = self.take(1, *operations, **flags)
        return lease

    def leave(self) -> ExchangeReply:
        return self.exchange(leaving=True)
