"""Operations that go as runs do what they do one by one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.call import pack
from scrapy_redis_state.store.messages import (
    Ack,
    Check,
    Claim,
    Operation,
    Release,
    Status,
    Store,
)
from scrapy_redis_state.store.wire import (
    PackedOperations,
    named_operation,
    pack_operations,
)
from scrapy_redis_state.worker.lease import Lease
from tests.store.crawls import TUNABLE, Crawl, Member
from tests.store.seen_crawls import REVISIT_MS

RUNS = pack_operations
PRIORITIES = (0, 0, 0, -1, 7, -(2**53), 2**53)
EXCHANGES = 24


def singly(operations: Iterable[Operation]) -> PackedOperations:
    """Operations one by one, whatever they are."""
    named = list(map(named_operation, operations))
    return PackedOperations(pack(named), range(len(named)))


def draw(chance: random.Random, leases: Sequence[Lease]) -> list[Operation]:
    """Operations with many duplicates, of pages that are and are not held."""
    return [draw_one(chance, leases) for _ in range(chance.randrange(1, 60))]


def draw_one(chance: random.Random, leases: Sequence[Lease]) -> Operation:
    payload, name = b"%d" % chance.randrange(10**9), b"%d" % chance.randrange(40)
    priority = chance.choice(PRIORITIES)
    page = chance.choice(["", *(lease.id for lease in leases)])
    if leases and chance.random() < 0.3:
        lease = chance.choice(leases)
        ends: list[Operation] = [
            Ack(lease.id, lease.batch),
            Ack(lease.id, lease.batch + 1),
            Ack(lease.id, lease.batch, (name,)),
            Release(lease.id, lease.batch),
        ]
        return chance.choice([ends[0], *ends])
    stores: list[Operation] = [
        Store(payload, priority, name, page),
        Store(payload, priority, b"", page),
        Store(payload, priority, name, page, revisit_ms=100_000),
    ]
    others: list[Operation] = [Claim(name), Check(name)]
    return chance.choice([*[stores[0]] * 6, *stores, *others])


def contents(crawl: Crawl) -> Any:
    frontier = crawl.place("frontier")
    entries = {id: crawl.entry(id) for id in frontier}
    leased = crawl.place("inflight").keys()
    return frontier, entries, leased, crawl.field("seen_count"), crawl.field("done")


def exchange(member: Member, operations: list[Operation]) -> Any:
    """The answers, the same when the call is repeated, and what was popped."""
    epoch, reply = member.crawl.epoch, None
    while reply is None or reply.status is Status.EPOCH:
        reply = member.exchange(*operations, want=5, epoch=epoch)
        epoch = member.crawl.epoch
    assert reply.status is Status.OK
    assert member.send(member.sent).answers == reply.answers
    return reply.answers, reply.popped


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("revisits", [False, True])
@pytest.mark.parametrize("kind", ["exact", "packed", "bloom"])
def test_a_run_is_its_operations(new_crawl, monkeypatch, kind, revisits, order):
    """Answers, entries, ids and counters are the same, over some epochs."""
    chance = random.Random(f"{kind}{revisits}{order}")
    crawls = [new_crawl(kind, revisits=revisits) for _ in range(2)]
    tunable = TUNABLE | {"order": order}
    if revisits:
        tunable["revisit_ms"] = str(REVISIT_MS)
    identity = {"seen": crawls[0].keys.seen_set.spec}
    members = [one.member("w1", identity=identity, tunable=tunable) for one in crawls]
    leases: list[Lease] = []
    for number in range(EXCHANGES):
        operations = draw(chance, leases)
        found = []
        for member, packing in zip(members, (RUNS, singly), strict=True):
            monkeypatch.setattr(scripts, "pack_operations", packing)
            if revisits and number % 6 == 5:
                member.crawl.ago("epoch_began", REVISIT_MS // 2)
            found.append((exchange(member, operations), contents(member.crawl)))
        assert found[0] == found[1]
        popped = found[0][0][1]
        held = [Lease.from_popped(one, members[0].batch, 0.0) for one in popped]
        leases = [*leases, *held][-12:]
