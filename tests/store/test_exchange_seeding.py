"""Start requests: made once per crawl, by whoever holds the seeding token."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store.messages import (
    Answer,
    Claim,
    Seeded,
    SeedFailed,
    Seeding,
    Store,
)
from tests.store.crawls import MAX_DELIVERIES, page


def seed(token, name="start", number=1, priority=0):
    """A filtered start request, and which of equal ones it is."""
    identity = f"{name} {number}".encode()
    return page(name, priority, seed=identity, seed_token=token)


@pytest.fixture
def fleet(crawl):
    """Two workers whose start requests are to be made once."""
    return [crawl.member(name, seeding=Seeding.OPEN) for name in ("w1", "w2")]


@pytest.fixture
def seeder(fleet):
    """The one that holds the token, which is 1."""
    assert fleet[0].exchange(seeder=True).summary.seed_token == 1
    return fleet[0]


def test_one_worker_at_a_time_holds_the_token(fleet):
    """The first that can seed gets it, and keeps it while it lives."""
    one, two = fleet
    assert one.exchange().summary.seed_token == 0
    assert two.exchange(seeder=True).summary.seed_token == 1
    assert one.exchange(seeder=True).summary.seed_token == 0
    assert two.exchange(seeder=True).summary.seed_token == 1
    assert one.exchange().summary.seeding is Seeding.OPEN


def test_the_first_to_join_that_can_seed_holds_it_from_then_on(crawl):
    """One round trip less until start() runs; a repeated join has the same answer."""
    plain = crawl.join("w0", seeding=Seeding.OPEN)
    first, again = [
        crawl.join("w1", seeding=Seeding.OPEN, seeder=True) for _ in range(2)
    ]
    second = crawl.join("w2", seeding=Seeding.OPEN, seeder=True)
    tokens = [one.summary.seed_token for one in (plain, first, again, second)]
    assert tokens == [0, 1, 1, 0]


def test_a_trial_join_takes_no_token(crawl):
    """It changes nothing, so the next to join takes it."""
    crawl.member("w0", seeding=Seeding.OPEN)
    crawl.join("w1", seeding=Seeding.OPEN, seeder=True, dry_run=True)
    later = crawl.join("w2", seeding=Seeding.OPEN, seeder=True)
    assert later.summary.seed_token == 1


def test_each_start_request_is_stored_once(crawl, seeder):
    """Two equal ones of one run are two; the same run again makes no more."""
    equal = [
        Store(b"start", seed=f"start {number}".encode(), seed_token=1)
        for number in (1, 2)
    ]
    assert seeder.answers(*equal) == (Answer.STORED, Answer.STORED)
    assert seeder.answers(*equal) == (Answer.DUPLICATE, Answer.DUPLICATE)
    assert crawl.summary.pending == 2


def test_a_filtered_start_request_passes_the_seen_set_as_well(crawl, seeder):
    """What a page asked for already is not asked for again."""
    seeder.exchange(page("start"))
    assert seeder.answers(seed(1)) == (Answer.DUPLICATE,)
    assert seeder.answers(seed(1, number=2)) == (Answer.DUPLICATE,)
    assert crawl.summary.pending == 1


def test_without_the_current_token_a_start_request_is_dropped(crawl, fleet, seeder):
    """Sent by another worker, or under an earlier or later token."""
    other = fleet[1]
    assert other.answers(seed(1)) == (Answer.STALE,)
    assert seeder.answers(seed(2), seed(0)) == (Answer.STALE, Answer.STALE)
    assert crawl.summary.pending == 0
    assert not crawl.client.exists(crawl.key("seeds"), crawl.key("seen"))


class TestToken:
    def test_it_passes_on_when_its_holder_dies(self, crawl, fleet, seeder):
        """Another runs start() from the beginning; what was stored is not repeated."""
        seeder.exchange(seed(1, "a"), seed(1, "b"))
        other = fleet[1]
        crawl.outlive(other)
        assert other.exchange(seeder=True).summary.seed_token == 2
        answers = other.answers(seed(2, "a"), seed(2, "b"), seed(2, "c"))
        assert answers == (Answer.DUPLICATE, Answer.DUPLICATE, Answer.STORED)
        assert other.answers(seed(1, "d")) == (Answer.STALE,)

    @pytest.mark.parametrize("how", ["signs off", "rejoins"])
    def test_it_is_free_when_its_holder(self, crawl, fleet, seeder, how):
        """Nobody waits for a lease then."""
        if how == "signs off":
            seeder.leave()
        else:
            token = seeder.joined.token
            crawl.member("w3", token=token, generation=1, previous="w1")
        assert fleet[1].exchange(seeder=True).summary.seed_token == 2

    def test_it_is_free_when_start_raised(self, fleet, seeder):
        """It is tried again, here or elsewhere."""
        other = fleet[1]
        assert seeder.answers(SeedFailed(1, "oops")) == (Answer.DONE,)
        assert seeder.answers(SeedFailed(1, "oops")) == (Answer.STALE,)
        assert other.exchange(seeder=True).summary.seed_token == 2
        answers = other.answers(SeedFailed(1, "oops"), Seeded(1))
        assert answers == (Answer.STALE, Answer.STALE)
        assert other.exchange().summary.seeding is Seeding.OPEN

    def test_start_that_raises_too_often_ends_seeding(self, crawl, seeder):
        """As failed, with the last error at hand; the crawl can drain."""
        for number in range(MAX_DELIVERIES):
            assert crawl.summary.seeding is Seeding.OPEN
            token = seeder.exchange(seeder=True).summary.seed_token
            failed = SeedFailed(token, f"error {number}")
            assert seeder.answers(failed) == (Answer.DONE,)
        reply = seeder.exchange(seeder=True)
        assert reply.summary.seeding is Seeding.FAILED
        assert (reply.summary.seed_token, reply.summary.drained) == (0, False)
        assert crawl.field("seed_error") == "error 2"


class TestSeeded:
    def test_it_ends_seeding_for_all(self, crawl, fleet, seeder):
        """The set of seeds is dropped, and no one gets the token any more."""
        seeder.exchange(seed(1))
        assert fleet[1].answers(Seeded(1)) == (Answer.STALE,)
        assert seeder.answers(Seeded(2), Seeded(1)) == (Answer.STALE, Answer.DONE)
        assert seeder.answers(Seeded(1)) == (Answer.STALE,)
        for member in fleet:
            reply = member.exchange(seed(1, "late"), seeder=True)
            assert reply.answers == (Answer.STALE,)
            assert reply.summary.seeding is Seeding.DONE
            assert reply.summary.seed_token == 0
        assert not crawl.client.exists(crawl.key("seeds"))

    def test_it_marks_what_ran_as_a_part_of_start(self, crawl, seeder):
        """Requests that could not be stored, and were run by the seeder itself."""
        seeder.exchange(Seeded(2, (b"x",)))
        assert crawl.push(Claim(b"x")) == (Answer.STORED,)
        seeder.exchange(Seeded(1, (b"y",)))
        assert crawl.push(Claim(b"y")) == (Answer.DUPLICATE,)

    def test_the_crawl_is_not_drained_before(self, fleet, seeder):
        """Nor finished, though all sign off."""
        assert not fleet[1].exchange().summary.drained
        seeder.leave()
        assert fleet[1].leave().summary.status == "running"

    def test_the_crawl_may_be_drained_after(self, fleet, seeder):
        """There was nothing to do."""
        fleet[1].exchange()
        assert seeder.exchange(Seeded(1)).summary.drained


def test_workers_that_run_their_own_start_need_no_token(crawl):
    """Seeding is over when they join."""
    reply = crawl.member(seeding=Seeding.DONE).exchange(seeder=True)
    assert (reply.summary.seed_token, reply.summary.seeding) == (0, Seeding.DONE)


def test_a_program_that_is_no_spider_leaves_seeding_to_the_first_spider(crawl):
    """Its joining does not open it, nor end it."""
    program = crawl.member(seeding=Seeding.NONE)
    assert program.exchange(seeder=True).summary.seed_token == 0
    spider = crawl.member("w2", seeding=Seeding.OPEN)
    assert spider.exchange(seeder=True).summary.seed_token == 1
    crawl.member("w3", seeding=Seeding.DONE)
    assert crawl.summary.seeding is Seeding.OPEN
