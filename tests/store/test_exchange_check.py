"""What is checked before a batch is run, and what becomes of a repeated one."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import pytest
import redis

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import Answer, Check, JoinStatus, Status
from tests.store.crawls import LEASE_MS, ack, page


@pytest.fixture
def member(crawl):
    """Two batches into the crawl, one request pending and one held."""
    member = crawl.member()
    member.exchange(page("held", 1), page("pending"))
    member.lease = member.take_one()
    return member


@contextlib.contextmanager
def denied(client, command):
    """Nobody may run a command meanwhile."""
    client.execute_command("ACL", "SETUSER", "default", f"-{command}")
    try:
        yield
    finally:
        client.execute_command("ACL", "SETUSER", "default", f"+{command}")


def eager(member, **fields):
    """A batch that would change a lot if it were run."""
    return member.request(page("new"), ack(member.lease), **({"want": 5} | fields))


REFUSALS: dict[str, tuple[dict[str, Any], Status]] = {
    "the token of another generation": ({"token": "other"}, Status.REJOIN),
    "a worker that never joined": ({"worker": "nobody"}, Status.REJOIN),
    "a batch number that leaves a gap": ({"batch": 4}, Status.REJOIN),
    "a reply that was never given": ({"last_stamp": 1}, Status.REJOIN),
    "a batch of long ago": ({"batch": 1}, Status.OLD),
    "another seen set": ({"epoch": 7}, Status.EPOCH),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_batch_that_does_not_fit_has_no_effect(crawl, member, name):
    """Token, worker, number, last reply and epoch must be those the server knows."""
    fields, status = REFUSALS[name]
    with crawl.unchanged():
        reply = member.send(eager(member, **fields))
    assert (reply.status, reply.answers, reply.popped) == (status, (), ())
    assert member.send(eager(member)).status is Status.OK


def test_another_seen_set_is_named_in_the_answer(crawl, member):
    """The worker learns the epoch with which to send the batch again."""
    reply = member.send(eager(member, epoch=7))
    assert reply.summary.epoch == crawl.epoch == 1


def test_a_worker_that_was_silent_for_a_lease_is_fenced(crawl, member):
    """Its beat and its late ack change nothing, whatever the batch number."""
    crawl.later(LEASE_MS)
    for batch in (member.batch, member.batch + 1):
        with crawl.unchanged():
            assert member.send(eager(member, batch=batch)).status is Status.REJOIN


def test_a_worker_that_beat_within_a_lease_is_not(crawl, member):
    """Only the server's crawl clock decides."""
    crawl.later(LEASE_MS - 2000)
    assert member.send(eager(member)).status is Status.OK


def test_a_crawl_that_is_not_there_has_no_workers(crawl):
    """An exchange makes no keys."""
    member = crawl.member()
    crawl.client.flushall()
    assert member.exchange(page("a")).status is Status.REJOIN
    assert crawl.contents() == {}


def test_a_finished_crawl_takes_no_batches(crawl):
    """What comes after the last sign-off has no effect."""
    member, other = crawl.member("w1"), crawl.member("w2")
    crawl.outlive(member)
    member.leave()
    assert crawl.field("status") == "finished"
    with crawl.unchanged():
        assert other.exchange(page("late"), want=1).status is Status.REJOIN


class TestRepeatedBatch:
    def test_it_gets_the_answers_of_the_first_time(self, crawl, member):
        """A reply lost after execution costs nothing: the state is that of one run."""
        request = eager(member)
        first = member.send(request)
        with crawl.unchanged():
            again = member.send(request)
        assert again == first
        assert first.answers == (Answer.STORED, Answer.DONE)
        assert [one.entry for one in first.popped] == [b"0;0;;pending", b"0;0;;new"]

    def test_its_summary_is_fresh(self, crawl, member):
        """What others did in the meantime is told."""
        request = eager(member)
        first = member.send(request)
        crawl.push(page("pushed"))
        again = member.send(request)
        assert again.answers == first.answers
        assert (first.summary.pending, again.summary.pending) == (0, 1)

    def test_it_gets_only_what_is_still_leased_under_it(self, crawl, member):
        """What was taken away from it, by whoever, is not handed out again."""
        request = eager(member)
        first = member.send(request)
        moved, kept = first.popped
        crawl.client.hset(crawl.key("leases"), moved.id, "w2:1")
        assert member.send(request).popped == (kept,)

    def test_it_counts_even_if_its_content_is_another(self, crawl, member):
        """The number decides: the same number has the same content."""
        first = member.send(eager(member))
        with crawl.unchanged():
            again = member.send(member.request(page("other"), page("than before")))
        assert again.answers == first.answers

    def test_one_without_a_reply_is_broken(self, crawl, member):
        """A record whose batch began and never ended is not answered from."""
        record = "0" + msgpack.packb([member.batch + 1, 0, 0, "", []]).decode("latin-1")
        replies = crawl.key("replies")
        crawl.client.hset(replies, member.worker, record.encode("latin-1"))
        with crawl.unchanged():
            assert member.send(eager(member)).status is Status.BROKEN

    def test_a_script_that_fails_half_way_leaves_a_broken_batch(self, crawl, member):
        """The batch is not run a second time, and the worker can join again.

        No page is seen that is not stored.
        """
        stores = page("one"), page("two"), page("three")
        request = member.request(stores[0], Check(b"other"), *stores[1:], want=1)
        with denied(crawl.client, "zpopmax"), pytest.raises(redis.ResponseError):
            member.send(request)
        assert member.send(request).status is Status.BROKEN
        again = crawl.member(
            "w2", token=member.joined.token, generation=1, previous="w1"
        )
        assert again.answers(*stores) == (Answer.DUPLICATE,) * 3
        assert crawl.client.zcard(crawl.key("frontier")) == 5
        assert crawl.where(member.lease.id) == "frontier"


def test_replies_are_named_by_the_servers_time(crawl):
    """In microseconds, so that no two of them are the same."""
    one, two = crawl.member("w1"), crawl.member("w2")
    seconds, _ = crawl.client.time()
    stamps = [one.stamp, two.stamp]
    stamps += [member.exchange().stamp for _ in range(20) for member in (one, two)]
    assert stamps == sorted(set(stamps))
    assert abs(stamps[0] - seconds * 1_000_000) < 60_000_000


@pytest.mark.parametrize("sequence", ["garbage", "1.5", "-3", "", "9" * 19, "9" * 30])
def test_ids_that_cannot_be_taken_mark_no_page_as_seen(crawl, sequence):
    """Else it would be seen and not stored, and so never be crawled."""
    member = crawl.member()
    crawl.set(sequence=sequence)
    with crawl.unchanged():
        assert member.exchange(page("a"), page("b")).status is Status.REJOIN
        reply = crawl.join("w2")
        with pytest.raises(Refused, match="sequence is no number"):
            CrawlState(crawl.client, crawl.keys).push("https://shop.example/")
    assert reply.status is JoinStatus.WRONG_TYPE
    (difference,) = reply.differences
    assert difference.name == crawl.key("crawl")
    crawl.client.hdel(crawl.key("crawl"), "sequence")
