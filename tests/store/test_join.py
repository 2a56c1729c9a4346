"""Entering a crawl: what is found there, what must agree, what is refused."""

from __future__ import annotations

import json

import pytest

from scrapy_redis_state.store.keys import FIXED_KEYS
from scrapy_redis_state.store.messages import (
    Difference,
    JoinStatus,
    Seeding,
    Status,
)
from tests.store.crawls import TUNABLE, Member, page

IDENTITY = {"spider": "shop", "order": "fifo"}

WRONG = {
    "crawl": "hash",
    "frontier": "zset",
    "requests": "hash",
    "seen": "set",
    "inflight": "zset",
    "leases": "hash",
    "delayed": "zset",
    "suspects": "zset",
    "dead": "zset",
    "deadinfo": "hash",
    "seeds": "set",
    "workers": "zset",
    "replies": "hash",
    "sites": "hash",
    "revisits": "zset",
    "wake": "list",
}
"""Every key that a script gets, and what it must be."""


class TestStatus:
    def test_the_first_worker_creates_the_crawl(self, crawl):
        """Under the token it brought; whoever comes later learns it."""
        reply = crawl.join(new_token="t1")
        assert (reply.status, reply.token, reply.generation) == ("created", "t1", 1)
        later = crawl.join("w2", new_token="t2")
        assert (later.status, later.token, later.generation) == ("joined", "t1", 1)
        assert later.summary.workers == 2

    def test_a_crawl_without_live_workers_is_resumed(self, crawl):
        """With what is pending there, and what the dead held on its way back."""
        dead = crawl.member()
        dead.take_one(page("held"), page("pending"))
        crawl.later()
        reply = crawl.join("w2")
        assert (reply.status, reply.generation) == ("resumed", 1)
        assert (reply.summary.pending, reply.summary.in_flight) == (1, 1)

    def test_a_late_joiner_does_not_open_seeding_again(self, crawl):
        """It was done before."""
        crawl.member(seeding=Seeding.DONE)
        assert crawl.join("w2", seeding=Seeding.OPEN).summary.seeding is Seeding.DONE

    def test_a_worker_is_known_by_host_and_process(self, crawl):
        """For whoever looks at the crawl."""
        crawl.join(host="h", pid=7)
        (worker,) = crawl.status().workers
        info = json.loads(worker.info)
        assert (worker.id, info["host"], info["pid"]) == ("w1", "h", 7)
        assert 0 <= worker.beat_age_ms < 5000

    def test_it_may_be_repeated(self, crawl):
        """A lost reply costs nothing: the record is there, and nothing new is made."""
        first = crawl.join()
        crawl.member("w2").exchange()
        with crawl.unchanged():
            again = crawl.join()
        assert (again.status, again.token) == (first.status, first.token)
        assert again.stamp == first.stamp
        assert Member(crawl, "w1", again).exchange().status is Status.OK

    def test_another_seen_set_is_named_in_the_answer(self, crawl):
        """The worker joins again with the epoch that is current."""
        crawl.finish()
        crawl.push(page("a"))
        with crawl.unchanged():
            reply = crawl.join("w2", epoch=1)
        assert (reply.status, reply.summary.epoch) == (JoinStatus.EPOCH, 2)
        assert crawl.join("w2", epoch=2).status is JoinStatus.RESUMED


class TestDryRun:
    @pytest.mark.parametrize("state", ["nothing", "running", "finished", "abandoned"])
    def test_it_changes_nothing(self, crawl, state):
        """And answers what the join will."""
        given = {"identity": IDENTITY, "given": True}
        if state != "nothing":
            crawl.member(**given).exchange()
        if state == "running":
            crawl.push(page("a"))
        if state != "nothing":
            crawl.later()
        if state == "finished":
            crawl.finish()
        if state == "abandoned":
            crawl.ago("last_time")
        with crawl.unchanged():
            dry = crawl.join("w3", **given, dry_run=True)
        assert crawl.join("w3", **given).status is dry.status
        expected = {"nothing": "created", "running": "resumed"}.get(state, "finished")
        assert dry.status == expected

    def test_it_finds_differences(self, crawl):
        """As a join does."""
        crawl.member(identity=IDENTITY)
        with crawl.unchanged():
            reply = crawl.join("w2", identity={"spider": "news"}, dry_run=True)
        assert reply.status is JoinStatus.MISMATCH


class TestAgreement:
    def test_what_must_agree_is_compared(self, crawl):
        """A difference is refused, with both values; nothing is recorded."""
        crawl.member(identity=IDENTITY)
        with crawl.unchanged():
            reply = crawl.join("w2", identity=IDENTITY | {"spider": "news"})
        assert reply.status is JoinStatus.MISMATCH
        assert reply.differences == (Difference("spider", "shop", "news"),)

    def test_it_is_compared_when_nobody_lives_as_well(self, crawl):
        """What is stored was made under it."""
        crawl.member(identity=IDENTITY)
        crawl.push(page("a"))
        crawl.later()
        reply = crawl.join("w2", identity=IDENTITY | {"order": "lifo"})
        assert reply.differences == (Difference("order", "fifo", "lifo"),)

    def test_what_is_missing_is_recorded_by_the_first_that_says_it(self, crawl):
        """A program that says little does not stand in the way of a spider."""
        crawl.member(identity={"schema": "1"}, tunable={})
        crawl.member("w2", identity=IDENTITY)
        assert crawl.field("lease_ms") == TUNABLE["lease_ms"]
        reply = crawl.join("w3", identity={"spider": "news"})
        assert reply.status is JoinStatus.MISMATCH

    def test_a_loose_value_is_only_reported(self, crawl):
        """The worker joins; the value stays the first one's."""
        crawl.member(identity={"arguments": "a"})
        for worker in ("w2", "w3"):
            given = {"identity": {"arguments": "b"}, "loose": ("arguments",)}
            reply = crawl.join(worker, **given)
            assert reply.status is JoinStatus.JOINED
            assert reply.differences == (Difference("arguments", "a", "b"),)

    def test_tunable_values_are_compared_while_others_live(self, crawl):
        """Two lease times in one crawl would fence the living."""
        crawl.member()
        reply = crawl.join("w2", tunable=TUNABLE | {"lease_ms": "5"})
        assert reply.differences == (Difference("lease_ms", "10000", "5"),)
        assert crawl.field("lease_ms") == "10000"

    def test_tunable_values_are_replaced_when_nobody_lives(self, crawl):
        """They may be changed from one run to the next."""
        crawl.member()
        crawl.push(page("a"))
        crawl.later()
        tunable = {"lease_ms": "20000", "max_deliveries": "5", "finished_ttl_ms": "9"}
        crawl.member("w2", tunable=tunable)
        assert {name: crawl.field(name) for name in tunable} == tunable

    def test_the_next_generation_agrees_anew(self, crawl):
        """A finished crawl binds nobody."""
        crawl.finish(identity=IDENTITY)
        reply = crawl.join("w2", identity={"spider": "news", "order": "lifo"})
        assert (reply.status, reply.generation) == (JoinStatus.CREATED, 2)
        assert crawl.field("order") == "lifo"
        assert crawl.join("w3", identity=IDENTITY).status is JoinStatus.MISMATCH


def test_each_key_is_tried():
    """Those of the table, and none that is no more."""
    assert len(WRONG) == FIXED_KEYS


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("running", [False, True])
def test_a_key_of_a_wrong_type_is_refused_by_name(crawl, name, running):
    """Also when the crawl goes on; nothing is changed."""
    if running and name != "crawl":
        crawl.member()
    key = crawl.key(name)
    crawl.client.delete(key)
    crawl.client.set(key, "not ours")
    with crawl.unchanged():
        reply = crawl.join("w2", epoch=1)
    assert reply.status is JoinStatus.WRONG_TYPE
    assert reply.differences == (Difference(key, "string", WRONG[name]),)
    crawl.client.delete(key)
