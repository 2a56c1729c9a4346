"""Coming back to a crawl under a new identity: the one way out of everything odd."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store.messages import Answer, JoinStatus, Status
from tests.store.crawls import LEASE_MS, Member, ack, page


@pytest.fixture
def member(crawl):
    """A worker that holds a request and lost its record's thread."""
    member = crawl.member()
    member.lease = member.take_one(page("a", 7))
    return member


def rejoin(crawl, member, worker="w2", **fields):
    known = {
        "token": member.joined.token,
        "generation": member.joined.generation,
        "previous": member.worker,
    }
    return crawl.join(worker, **(known | fields))


def test_the_old_identity_is_closed(crawl, member):
    """What it held is handed back uncounted; the new one is a live worker."""
    reply = rejoin(crawl, member)
    assert (reply.status, reply.summary.workers) == (JoinStatus.JOINED, 1)
    assert crawl.entry(member.lease.id) == b"7;0;;a"
    assert [*crawl.place("workers")] == ["w2"]
    assert member.exchange(ack(member.lease)).status is Status.REJOIN
    again = Member(crawl, "w2", reply)
    assert again.answers(ack(member.lease)) == (Answer.STALE,)
    assert again.take_one().id == member.lease.id


def test_it_may_be_repeated(crawl, member):
    """As a first join."""
    reply = rejoin(crawl, member)
    with crawl.unchanged():
        assert rejoin(crawl, member) == reply


def test_a_worker_that_was_forgotten_joins_all_the_same(crawl, member):
    """Its leases were reaped long ago."""
    crawl.later(11 * LEASE_MS)
    crawl.reap()
    assert rejoin(crawl, member).status is JoinStatus.JOINED
    assert crawl.entry(member.lease.id) == b"7;1;;a"


def test_a_crawl_that_vanished_is_lost(crawl, member):
    """It is not created again: nobody would know what is missing."""
    crawl.client.flushall()
    assert rejoin(crawl, member).status is JoinStatus.LOST
    assert crawl.contents() == {}


def test_another_crawl_of_the_same_number_is_lost(crawl, member):
    """The server lost its data, and somebody began anew."""
    crawl.client.flushall()
    crawl.member("w9", new_token="other")
    with crawl.unchanged():
        assert rejoin(crawl, member).status is JoinStatus.LOST


def test_a_newer_generation_supersedes(crawl, member):
    """The crawl was reset, or finished and run again."""
    crawl.later()
    crawl.finish()
    assert crawl.join("w9", new_token="other").generation == 2
    with crawl.unchanged():
        reply = rejoin(crawl, member, epoch=2)
    assert reply.status is JoinStatus.SUPERSEDED


def test_a_finished_crawl_is_told_to_be_over(crawl, member):
    """There is nothing to come back to; no record is made."""
    crawl.later()
    crawl.finish()
    assert rejoin(crawl, member).status is JoinStatus.FINISHED
    assert "w2" not in crawl.place("workers")


def test_it_records_and_compares_nothing(crawl, member):
    """The worker was let in once."""
    crawl.member("w3", identity={"spider": "shop"})
    reply = rejoin(crawl, member, identity={"spider": "news"})
    assert reply.status is JoinStatus.JOINED
    assert crawl.field("agreed:spider") == "shop"
