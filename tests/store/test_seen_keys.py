"""Keys of a seen set that hold what is not ours: nothing is done by half."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import Answer, Claim, JoinStatus, Status
from tests.store.crawls import ack, page
from tests.store.seen_crawls import REVISIT_MS, join


@pytest.mark.parametrize("revisits", [False, True])
def test_a_shard_fails_the_exchange_as_a_whole(new_crawl, revisits):
    """Before anything is written; the error names the key."""
    crawl = new_crawl("packed", capacity=10_000, revisits=revisits)
    member = join(crawl, revisit_ms=REVISIT_MS if revisits else 0)
    held = member.take_one(page("a"))
    shard, _ = crawl.keys.seen_set.locate(b"x")
    for epoch in range(1 - 2 * revisits, 2):
        key = crawl.keys.shard(epoch, shard)
        crawl.client.delete(key)
        crawl.client.set(key, "not ours")
        expected = f"WRONGTYPE {key} is a string, not a set"
        with crawl.unchanged(), pytest.raises(ResponseError, match=expected):
            member.exchange(page("b"), page("x"), ack(held))
        state = CrawlState(crawl.client, crawl.keys)
        expected = f"{key} is 'string', not 'set'"
        with crawl.unchanged(), pytest.raises(Refused, match=expected):
            state.claim_fingerprint(b"x")
        crawl.client.delete(key)
    assert member.answers(page("b"), page("x"), ack(held))[1:] == (
        Answer.STORED,
        Answer.DONE,
    )


@pytest.mark.parametrize("kind", ["exact", "bloom"])
def test_an_earlier_epoch_sends_workers_to_the_join(new_crawl, kind):
    """Which names the key."""
    crawl = new_crawl(kind, capacity=10_000, revisits=True)
    member = join(crawl, revisit_ms=REVISIT_MS)
    member.answers(page("a"))
    crawl.ago("epoch_began", REVISIT_MS // 2)
    epoch = member.exchange().summary.epoch
    key = crawl.keys.seen(epoch - 1)
    crawl.client.delete(key)
    crawl.client.set(key, "not ours")
    state = CrawlState(crawl.client, crawl.keys)
    with crawl.unchanged(), pytest.raises(Refused, match=f"{key} is 'string'"):
        state.claim_fingerprint(b"b")
    with crawl.unchanged():
        reply = member.exchange(page("b"), epoch=epoch)
        joined = crawl.join("w2", identity={"seen": crawl.keys.seen_set.spec})
    assert reply.status is Status.REJOIN
    assert joined.status is JoinStatus.WRONG_TYPE
    assert joined.differences[0].name == key
    crawl.client.delete(key)


@pytest.mark.parametrize("kind", ["exact", "packed", "bloom"])
def test_a_crawl_that_is_not_there_yet_is_not_begun(new_crawl, kind):
    """By a program, whose call names keys of the seen set."""
    crawl = new_crawl(kind, capacity=10_000, revisits=True)
    used = crawl.keys.of_seen_set(1)
    used.on_the_wire([Claim(b"b")])
    state = CrawlState(crawl.client, crawl.keys)
    for key in used.keys:
        crawl.client.set(key, "not ours")
        with crawl.unchanged(), pytest.raises(Refused, match=f"{key} is 'string'"):
            state.claim_fingerprint(b"b")
        crawl.client.delete(key)
    assert state.claim_fingerprint(b"b")
