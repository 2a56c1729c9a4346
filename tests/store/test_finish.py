"""When a crawl is drained, when it is finished, and what is left of it then."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.messages import (
    Answer,
    Fail,
    JoinStatus,
    Seeding,
    Status,
)
from tests.store.crawls import LEASE_MS, TTL_MS, TUNABLE, ack, page


def lifetimes(crawl):
    """Time to live of every key, in ms; -1: for ever."""
    keys = [*crawl.client.scan_iter(f"*{{{crawl.keys.crawl}}}*")]
    assert keys
    return {key.decode(): crawl.client.pttl(key) for key in keys}


class TestDrained:
    def test_nothing_left_and_nobody_busy(self, crawl):
        """A worker that has told nothing yet counts as busy."""
        one = crawl.member("w1")
        assert not crawl.summary.drained
        assert one.exchange().summary.drained
        two = crawl.member("w2")
        assert not one.exchange().summary.drained
        assert two.exchange().summary.drained
        assert not two.exchange(busy=True).summary.drained
        assert two.exchange().summary.drained

    def test_a_dead_workers_busyness_is_forgotten(self, crawl):
        """Whatever it had, it has no more."""
        dead, living = crawl.member("w1"), crawl.member("w2")
        dead.exchange(busy=True)
        crawl.outlive(living)
        assert living.exchange().summary.drained

    def test_a_request_in_any_place_keeps_it_open(self, crawl):
        """Pending, in flight, delayed or suspect; a dead one does not."""
        member = crawl.member()
        assert not member.exchange(page("a")).summary.drained
        reply = member.exchange(want=1)
        assert not reply.summary.drained
        id = reply.popped[0].id
        assert not member.exchange(Fail(id, 2, LEASE_MS, "")).summary.drained
        crawl.client.zadd(crawl.key("suspects"), {id: 1})
        crawl.client.delete(crawl.key("delayed"))
        assert not member.exchange().summary.drained
        crawl.client.hset(crawl.key("requests"), id, b"0;2;;a")
        lease = member.take_one(idle=True)
        reply = member.exchange(Fail(lease.id, lease.batch, 0, "the last time"))
        assert (reply.summary.dead, reply.summary.drained) == (1, True)

    def test_a_paused_crawl_is_not(self, crawl):
        """It may be resumed."""
        member = crawl.member()
        crawl.set(status="paused")
        assert not member.exchange().summary.drained
        assert member.leave().summary.status == "paused"

    def test_it_opens_again_when_something_is_stored(self, crawl):
        """Idle workers take it up."""
        member = crawl.member()
        assert member.exchange().summary.drained
        assert not member.exchange(page("a")).summary.drained


class TestFinished:
    def test_the_last_sign_off_finishes(self, crawl):
        """Not one before it, however drained the crawl is."""
        one, two = crawl.member("w1"), crawl.member("w2")
        two.exchange()
        assert one.leave().summary.status == "running"
        assert two.leave().summary.status == "finished"

    def test_the_last_living_workers_sign_off_finishes(self, crawl):
        """Dead ones cannot sign off."""
        crawl.member("dead")
        living = crawl.member("w2")
        crawl.outlive(living)
        assert living.leave().summary.status == "finished"

    def test_a_sign_off_with_work_left_does_not(self, crawl):
        """The crawl is resumed by the next that joins."""
        member = crawl.member()
        lease = member.take_one(page("a", 3))
        reply = member.leave()
        assert (reply.status, reply.summary.status) == (Status.OK, "running")
        assert crawl.entry(lease.id) == b"3;0;;a"
        assert crawl.where(lease.id) == "frontier"
        assert crawl.join("w2").status is JoinStatus.RESUMED

    def test_a_crawl_fed_from_outside_alone_does_not_finish(self, crawl):
        """It is empty only for now."""
        member = crawl.member(seeding=Seeding.NONE)
        lease = member.take_one(page("a"))
        assert member.exchange(ack(lease)).summary.drained
        assert member.leave().summary.status == "running"
        crawl.ago("last_time")
        assert crawl.join("w2", seeding=Seeding.NONE).status is JoinStatus.RESUMED

    def test_a_sign_off_that_is_repeated_is_told_to_rejoin(self, crawl):
        """Which is as good: the worker is gone."""
        member = crawl.member()
        member.leave()
        with crawl.unchanged():
            assert member.send(member.sent).status is Status.REJOIN


class TestKeptAlive:
    """Workers that stay when all is done, for what others push."""

    def test_it_is_not_finished_by_workers_that_are_stopped(self, crawl):
        """It goes on where it was, however long nobody was there."""
        crawl.member("w1", keep_alive=True).leave()
        assert crawl.field("status") == "running"
        crawl.ago("last_time")
        assert crawl.join("w2", keep_alive=True).status is JoinStatus.RESUMED

    def test_the_last_that_has_waited_long_enough_finishes_it(self, crawl):
        """Not one of them before, nor while something is left."""
        one, two = (crawl.member(name, keep_alive=True) for name in ("w1", "w2"))
        two.exchange()
        assert one.exchange(leaving=True, ends=True).summary.status == "running"
        crawl.push(page("a"))
        assert two.exchange(leaving=True, ends=True).summary.status == "running"
        three = crawl.member("w3", keep_alive=True)
        three.exchange(ack(three.take_one()))
        assert three.exchange(leaving=True, ends=True).summary.status == "finished"

    def test_workers_that_do_not_stay_do_not_finish_it_for_those_that_do(self, crawl):
        """Though these be silent, or stopped meanwhile."""
        staying = crawl.member("w1", keep_alive=True)
        other = crawl.member("w2")
        crawl.outlive(other)
        assert other.leave().summary.status == "running"
        staying = crawl.member(
            "w3", token=staying.joined.token, previous="w1", keep_alive=True
        )
        assert staying.exchange(page("a")).status is Status.OK

    def test_the_next_that_come_when_no_other_lives_decide_anew(self, crawl):
        """And a program that is no spider decides nothing."""
        crawl.member("w1", keep_alive=True).leave()
        crawl.member("w2", seeding=Seeding.NONE).leave()
        assert crawl.field("status") == "running"
        crawl.member("w3").leave()
        assert crawl.field("status") == "finished"


class TestDraining:
    """Nothing more is handed out, and workers leave."""

    def test_it_is_not_over_though_nothing_is_left(self, crawl):
        """Neither for the last worker, nor for one that comes much later."""
        member = crawl.member()
        crawl.set(status="draining")
        assert not member.exchange().summary.drained
        assert member.leave().summary.status == "draining"
        crawl.ago("last_time")
        reply = crawl.join("w2")
        assert reply.status is JoinStatus.RESUMED
        assert reply.summary.status == "draining"

    def test_nothing_is_handed_out(self, crawl):
        """Neither requests nor the right to run start(); what comes is stored."""
        member = crawl.member(seeding=Seeding.OPEN)
        crawl.set(status="draining")
        assert crawl.push(page("a")) == (Answer.STORED,)
        reply = member.exchange(page("b"), want=9, seeder=True)
        assert (reply.popped, reply.summary.seed_token) == ((), 0)
        assert reply.summary.pending == 2
        crawl.set(status="running")
        reply = member.exchange(want=9, seeder=True)
        assert (len(reply.popped), reply.summary.seed_token) == (2, 1)


class TestAbandoned:
    def test_a_join_finds_that_all_is_done(self, crawl):
        """Everybody died before the sign-off: finished as of the last call."""
        member = crawl.member(given=True)
        member.exchange(ack(member.take_one(page("a"))))
        last = int(crawl.field("last_time"))
        crawl.ago("last_time")
        assert crawl.join("w2", given=True).status is JoinStatus.FINISHED
        assert crawl.field("status") == "finished"
        assert crawl.field("finished_at") == str(last - LEASE_MS)
        assert all(0 < ttl <= TTL_MS for ttl in lifetimes(crawl).values())

    def test_the_next_generation_opens_at_once(self, crawl):
        """With the default id."""
        crawl.member().exchange()
        crawl.ago("last_time")
        reply = crawl.join("w2")
        assert (reply.status, reply.generation) == (JoinStatus.CREATED, 2)

    @pytest.mark.parametrize(
        "what", ["a request", "too soon", "seeding", "paused", "a busy worker"]
    )
    def test_it_is_not_abandoned_with(self, crawl, what):
        """Work left, a recent call, open seeding, a pause, or one that may be late."""
        seeding = Seeding.OPEN if what == "seeding" else Seeding.DONE
        crawl.member(seeding=seeding).exchange(busy=what == "a busy worker")
        if what == "a request":
            crawl.push(page("a"))
        if what == "paused":
            crawl.set(status="paused")
        crawl.later()
        crawl.ago("last_time", LEASE_MS // 2 if what == "too soon" else LEASE_MS)
        assert crawl.join("w2", given=True).status is JoinStatus.RESUMED


class TestLateJoiner:
    def test_a_given_id_stays_finished(self, crawl):
        """However much later; what is pushed is refused as well."""
        crawl.finish(given=True)
        crawl.ago("finished_at", 100 * LEASE_MS)
        with crawl.unchanged():
            assert crawl.join("w2", given=True).status is JoinStatus.FINISHED
            push = scripts.push(crawl.keys, 1, "new", [page("b")])
            assert crawl.run(push).status == "finished"

    def test_a_crawler_older_than_the_finish_stays_out(self, crawl):
        """It was started for this run, and came too late."""
        crawl.finish()
        assert crawl.join("w2", age_ms=5000).status is JoinStatus.FINISHED
        assert crawl.join("w2", age_ms=10).status is JoinStatus.CREATED

    def test_one_of_a_fleet_stays_out_for_a_lease(self, crawl):
        """A deployment starts its workers one after another."""
        crawl.member("w1")
        two = crawl.member("w2")
        crawl.outlive(two)
        two.leave()
        crawl.ago("finished_at", LEASE_MS // 2)
        assert crawl.join("w3").status is JoinStatus.FINISHED
        crawl.ago("finished_at", LEASE_MS)
        assert crawl.join("w3").status is JoinStatus.CREATED


class TestNextGeneration:
    @pytest.mark.parametrize("by", ["a join", "a push"])
    def test_nothing_of_the_one_before_is_left(self, crawl, by):
        """But the sequence of ids: frontier, seen set and dead letters are empty."""
        first = crawl.member("old")
        bad = first.take_one(page("a"))
        for _ in range(2):
            (bad,) = first.take(1, Fail(bad.id, bad.batch, 0, "oops"))
        first.exchange(Fail(bad.id, bad.batch, 0, "oops"))
        crawl.later()
        crawl.finish()
        assert crawl.summary.dead == 1
        if by == "a join":
            crawl.member("w2")
        assert crawl.push(page("a")) == (Answer.STORED,)
        status = crawl.status()
        assert (status.generation, status.seen, status.summary.epoch) == (2, 1, 2)
        assert (status.summary.dead, status.summary.done) == (0, 0)
        assert [*crawl.place("frontier")] < [bad.id]
        assert "old" not in crawl.place("workers")
        assert not crawl.client.exists(crawl.keys.seen(1))

    @pytest.mark.parametrize("by", ["a join", "a push"])
    def test_its_keys_live_on(self, crawl, by):
        """The time to live of the one before does not end it."""
        crawl.finish()
        if by == "a join":
            crawl.member("w2").take_one(page("a"), page("b"))
        else:
            crawl.push(page("a"))
        assert set(lifetimes(crawl).values()) == {-1}


class TestLifetime:
    def test_no_key_expires_while_the_crawl_goes_on(self, crawl):
        """Not even when nobody is there."""
        member = crawl.member(seeding=Seeding.OPEN)
        member.exchange(page("a"), seeder=True)
        member.take_one()
        crawl.later()
        crawl.reap()
        assert set(lifetimes(crawl).values()) == {-1}

    def test_every_key_does_once_it_is_finished(self, crawl):
        """After the time that the workers agreed on, counted from the end."""
        first = crawl.member("w1")
        first.exchange(page("a"), page("b"))
        first.take_one()
        crawl.later()
        crawl.finish()
        assert len(lifetimes(crawl)) >= 3
        assert all(TTL_MS // 2 < ttl <= TTL_MS for ttl in lifetimes(crawl).values())

    def test_late_calls_do_not_prolong_it(self, crawl):
        """A beat, a rejoin or a reap of somebody who was away."""
        late = crawl.member("late")
        crawl.later()
        crawl.finish()
        late.exchange(page("x"), want=1)
        crawl.join("w9", token=late.joined.token, generation=1, previous="late")
        crawl.reap()
        assert all(0 < ttl <= TTL_MS for ttl in lifetimes(crawl).values())

    def test_zero_means_for_ever(self, crawl):
        """Until somebody deletes it."""
        crawl.finish(tunable=TUNABLE | {"finished_ttl_ms": "0"})
        assert set(lifetimes(crawl).values()) == {-1}
