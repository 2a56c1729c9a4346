"""The crawl clock, and what time brings: due requests, ended leases, suspects."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store.messages import Fail, Release, Status
from tests.store.crawls import LEASE_MS, MAX_DELIVERIES, ack, page

HOUR_MS = 3_600_000


class TestCrawlClock:
    def test_a_call_advances_it_by_five_seconds_at_most(self, crawl):
        """A server that was away, or set forward, expires nobody's lease."""
        member = crawl.member()
        lease = member.take_one(page("a"))
        before = int(crawl.field("clock"))
        crawl.ago("last_time", HOUR_MS)
        assert member.answers(ack(lease))
        assert int(crawl.field("clock")) == before + 5000

    def test_it_never_goes_back(self, crawl):
        """A server that is set back stands still for one call."""
        member = crawl.member()
        before = int(crawl.field("clock"))
        crawl.ago("last_time", -HOUR_MS)
        assert member.exchange().status is Status.OK
        assert int(crawl.field("clock")) == before

    def test_it_follows_the_servers_time_otherwise(self, crawl):
        """What passed between two calls is what it advances by."""
        member = crawl.member()
        before = int(crawl.field("clock"))
        crawl.ago("last_time", 1234)
        member.exchange()
        assert before + 1234 <= int(crawl.field("clock")) < before + 5000


class TestBeat:
    def test_it_renews_all_that_a_worker_holds(self, crawl):
        """A lease is looked at again one lease after the last beat."""
        member, other = crawl.member("w1"), crawl.member("w2")
        member.exchange(page("a"), page("b"))
        held = member.take(2)
        crawl.outlive(member, other)
        assert {lease.id for lease in held} == set(crawl.place("inflight"))
        beat = crawl.place("workers")["w1"]
        assert set(crawl.place("inflight").values()) == {beat + LEASE_MS}

    def test_a_dead_workers_requests_come_back_by_anybodys_exchange(self, crawl):
        """With id and priority as they were, and one delivery counted."""
        dead, other = crawl.member("w1"), crawl.member("w2")
        lease = dead.take_one(page("a", 7))
        crawl.outlive(other)
        assert crawl.place("frontier") == {lease.id: 7}
        again = other.take_one()
        assert (again.id, again.deliveries, again.payload) == (lease.id, 1, b"a")

    def test_a_worker_without_a_record_is_dead(self, crawl):
        """A lease whose owner nobody knows is not kept for ever."""
        member = crawl.member()
        lease = member.take_one(page("a"))
        crawl.client.hset(crawl.key("leases"), lease.id, "stranger:1")
        crawl.client.zadd(crawl.key("inflight"), {lease.id: 0})
        member.exchange()
        assert crawl.entry(lease.id) == b"0;1;;a"
        assert crawl.where(lease.id) == "frontier"


class TestPromote:
    def test_a_request_comes_up_when_it_is_due(self, crawl):
        """At its priority, ready to be popped by the same exchange."""
        member = crawl.member()
        lease = member.take_one(page("a", 7))
        member.exchange(page("b", 1), Fail(lease.id, lease.batch, HOUR_MS, "oops"))
        crawl.client.zadd(crawl.key("delayed"), {lease.id: 1})
        assert [one.id for one in member.take(1)] == [lease.id]

    def test_a_hundred_come_up_at_a_time(self, crawl):
        """An exchange takes no longer for many that are due."""
        member = crawl.member()
        member.exchange(*[page(str(number)) for number in range(150)])
        held = member.take(150)
        member.exchange(*[Fail(one.id, one.batch, HOUR_MS, "") for one in held])
        crawl.client.zadd(crawl.key("delayed"), {one.id: 1 for one in held})
        pending = [member.exchange().summary.pending for _ in range(3)]
        assert pending == [100, 150, 150]


class TestReap:
    def test_it_counts_what_it_did(self, crawl):
        """Requeued, buried, promoted and repaired."""
        dead = crawl.member()
        dead.exchange(*[page(name, prio) for prio, name in enumerate("dcba")])
        a, b, c, d = dead.take(4)
        dead.exchange(Fail(d.id, d.batch, 0, "oops"), want=0)
        assert crawl.where(d.id) == "frontier"
        (d,) = dead.take(1)
        dead.exchange(Fail(d.id, d.batch, HOUR_MS, "oops"))
        crawl.client.zadd(crawl.key("delayed"), {d.id: 1})
        crawl.client.hset(crawl.key("requests"), b.id, b"2;2;;b")
        crawl.set(suspect=b.id)
        crawl.client.hdel(crawl.key("requests"), c.id)
        crawl.later()
        reply = crawl.reap()
        counts = (reply.requeued, reply.buried, reply.promoted, reply.repaired)
        assert counts == (1, 1, 1, 1)
        assert (reply.summary.pending, reply.summary.dead) == (2, 1)
        places = [crawl.where(one.id) for one in (a, b, c, d)]
        assert places == ["frontier", "dead", "", "frontier"]

    def test_it_looks_at_no_more_than_it_is_told(self, crawl):
        """The rest is for the next call."""
        dead = crawl.member()
        dead.exchange(*[page(str(number)) for number in range(150)])
        dead.take(150)
        crawl.later()
        assert [crawl.reap().requeued for _ in range(3)] == [100, 50, 0]
        assert crawl.reap(limit=1).requeued == 0

    def test_garbage_becomes_a_dead_letter(self, crawl):
        """An entry that cannot be read is not put back, and stops nothing."""
        dead = crawl.member()
        bad, good = dead.take(2, page("bad", 1), page("good"))
        crawl.client.hset(crawl.key("requests"), bad.id, b"garbage")
        crawl.later()
        reply = crawl.reap()
        assert (reply.requeued, reply.buried) == (1, 1)
        assert crawl.where(bad.id) == "dead"
        assert crawl.where(good.id) == "frontier"

    def test_ids_without_a_request_are_dropped(self, crawl):
        """In flight, delayed or pending: they would be handed out for ever."""
        member = crawl.member()
        member.exchange(*[page(name) for name in "abc"])
        flying, delayed = member.take(2)
        (pending,) = crawl.place("frontier")
        member.exchange(Fail(delayed.id, delayed.batch, HOUR_MS, ""))
        crawl.client.zadd(crawl.key("delayed"), {delayed.id: 1})
        crawl.client.delete(crawl.key("requests"))
        assert crawl.reap().repaired == 1
        assert member.take(1) == []
        crawl.later()
        assert crawl.reap().repaired == 1
        places = [crawl.where(id) for id in (flying.id, delayed.id, pending)]
        assert places == ["", "", ""]

    def test_it_forgets_workers_after_ten_leases(self, crawl):
        """By then all that one held has been looked at."""
        crawl.member("silent")
        for leases, known in ((9, ["silent"]), (1, [])):
            crawl.later(leases * LEASE_MS)
            crawl.reap()
            assert [*crawl.place("workers")] == known
        assert crawl.client.hkeys(crawl.key("replies")) == []

    @pytest.mark.parametrize("state", ["nothing", "finished"])
    def test_without_a_running_crawl_it_does_nothing(self, crawl, state):
        """A reaper may be running for a crawl that is over, or not begun."""
        if state == "finished":
            crawl.member().leave()
        with crawl.unchanged():
            assert crawl.reap().summary.pending == 0


class TestSuspects:
    @pytest.fixture
    def suspect(self, crawl):
        """Id of a request that was leased to workers that died."""
        crawl.push(page("suspect", 5))
        for count in range(MAX_DELIVERIES - 1):
            lease = crawl.member(f"dead {count}").take_one()
            crawl.later()
            crawl.reap()
        assert crawl.where(lease.id) == "suspects"
        return lease.id

    def add_suspect(self, crawl, id):
        crawl.client.zadd(crawl.key("suspects"), {id: 1})
        crawl.client.hset(crawl.key("requests"), id, b"1;2;;other")

    def test_one_is_handed_out_alone(self, crawl, suspect):
        """Its worker gets nothing before it is idle, and nothing beside it."""
        member = crawl.member()
        assert member.take(5, page("a", 9)) == []
        (taken,) = member.take(5, idle=True)
        assert taken.id == suspect
        assert member.take(5) == member.take(5, idle=True) == []
        assert [one.payload for one in member.take(5, ack(taken))] == [b"a"]

    def test_one_that_was_not_alone_is_not_to_blame(self, crawl):
        """Two failures, and a lease lost beside others: it is tried alone."""
        worker = crawl.member()
        worker.exchange(page("a"))
        (lease,) = worker.take(1)
        crawl.client.hset(crawl.key("requests"), lease.id, b"0;2;;a")
        crawl.later()
        assert crawl.reap().buried == 0
        assert crawl.where(lease.id) == "suspects"
        assert crawl.entry(lease.id) == b"0;3;;a"

    @pytest.mark.usefixtures("suspect")
    def test_others_go_on_with_other_work(self, crawl):
        """One worker alone takes the suspects, one after the other."""
        self.add_suspect(crawl, "1")
        one, two = crawl.member("w1"), crawl.member("w2")
        taken = one.take_one(idle=True)
        assert [lease.payload for lease in two.take(5, page("a"), idle=True)] == [b"a"]
        one.exchange(ack(taken))
        assert two.take(5, idle=True) == []
        assert [lease.id for lease in one.take(5, idle=True)] == ["1"]

    @pytest.mark.usefixtures("suspect")
    @pytest.mark.parametrize("how", ["leaves", "dies"])
    def test_another_takes_over_when_that_worker(self, crawl, how):
        """Suspects do not wait for one that is gone."""
        self.add_suspect(crawl, "1")
        one, two = crawl.member("w1"), crawl.member("w2")
        one.exchange(ack(one.take_one(idle=True)))
        if how == "leaves":
            one.leave()
        else:
            crawl.outlive(two)
        assert [lease.id for lease in two.take(5, idle=True)] == ["1"]

    def test_a_released_one_stays_a_suspect(self, crawl, suspect):
        """By name, or by the sign-off of its worker."""
        member = crawl.member()
        member.take_one(idle=True)
        member.exchange(Release(suspect, member.batch))
        assert crawl.place("suspects") == {suspect: 5}
        member.take_one(idle=True)
        member.leave()
        assert crawl.place("suspects") == {suspect: 5}
        assert crawl.entry(suspect).startswith(b"5;2;")

    def test_one_that_kills_once_more_is_a_dead_letter(self, crawl, suspect):
        """Whoever it killed; the next suspect can be handed out."""
        member = crawl.member("the last")
        member.take_one(idle=True)
        crawl.later()
        assert crawl.reap().buried == 1
        assert crawl.where(suspect) == "dead"
        (letter,) = crawl.dead_letters()
        assert (letter["deliveries"], letter["worker"]) == (3, "the last")
        self.add_suspect(crawl, "1")
        assert [one.id for one in crawl.member("w2").take(1, idle=True)] == ["1"]


def test_a_paused_crawl_hands_out_nothing(crawl):
    """Ends and new requests are taken, beats count, and it is not drained."""
    member = crawl.member()
    lease = member.take_one(page("a"))
    crawl.set(status="paused")
    reply = member.exchange(page("b"), ack(lease), want=5, idle=True)
    assert (reply.popped, reply.summary.status) == ((), "paused")
    assert (reply.summary.pending, reply.summary.drained) == (1, False)
    crawl.set(status="running")
    assert [one.payload for one in member.take(5)] == [b"b"]
